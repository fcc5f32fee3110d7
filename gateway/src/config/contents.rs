//! Which files a configuration was read from, and what they held.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use route_contract::diagnostic::Source;
use route_contract::document::MAX_FILE_BYTES;
use sha2::{Digest as _, Sha256};

/// Files with the hash of what each held; none for one that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents(BTreeMap<PathBuf, Option<[u8; 32]>>);

impl Contents {
    /// Notes a text that was read from a file, byte for byte.
    pub fn note(&mut self, path: &Path, source: &Source) {
        let hash = Sha256::digest(source.text.as_bytes()).into();
        self.0.insert(path.to_owned(), Some(hash));
    }

    /// Reads a file and notes what it holds. Of one that is too large to be a configuration's, the beginning counts.
    pub fn read(&mut self, path: &Path) {
        self.0.insert(path.to_owned(), hash(path));
    }

    /// Reads all files again.
    #[must_use]
    pub fn again(&self) -> Self {
        Self(self.0.keys().map(|path| (path.clone(), hash(path))).collect())
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// Whether each file could be read.
    pub fn are_whole(&self) -> bool {
        self.0.values().all(Option::is_some)
    }
}

fn hash(path: &Path) -> Option<[u8; 32]> {
    let mut file = File::open(path).ok()?.take(MAX_FILE_BYTES + 1);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(hash.finalize().into()),
            read => hash.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}
