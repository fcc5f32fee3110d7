//! A log file that others rename.
//!
//! Tools that rotate logs rename the file and expect its writer to begin a new one. Before each batch the path is
//! looked at: where it leads to another file than the open one, or to none, it is opened again. So no signal is
//! needed, and none is lost.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Records name clients and paths: readable by the owner and the group alone.
const MODE: u32 = 0o640;

/// A file that is appended to, wherever its path leads.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    identity: (u64, u64),
}

impl LogFile {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let file = append_to(&path)?;
        let identity = identity(&file.metadata()?);
        Ok(Self { path, file, identity })
    }

    /// Opens the path again where it leads elsewhere. Where it cannot be, the open file is the best place there is.
    fn follow(&mut self) {
        let stays = std::fs::metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity);
        if stays {
            return;
        }
        if let Ok(file) = append_to(&self.path)
            && let Ok(metadata) = file.metadata()
        {
            self.identity = identity(&metadata);
            self.file = file;
        }
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.follow();
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(MODE).open(path)
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_renamed_or_removed_file_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.log");
        let mut log = LogFile::open(path.clone()).unwrap();
        log.write_all(b"one\n").unwrap();
        fs::rename(&path, folder.path().join("gateway.log.1")).unwrap();
        log.write_all(b"two\n").unwrap();
        assert_eq!(
            fs::read_to_string(folder.path().join("gateway.log.1")).unwrap(),
            "one\n"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        fs::remove_file(&path).unwrap();
        log.write_all(b"three\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
        // A file that is there already is appended to.
        let mut other = LogFile::open(path.clone()).unwrap();
        other.write_all(b"four\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\nfour\n");
    }

    #[test]
    fn where_the_path_cannot_be_opened_the_open_file_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let mut log = LogFile::open(inner.join("gateway.log")).unwrap();
        let moved = folder.path().join("moved");
        fs::rename(&inner, &moved).unwrap();
        log.write_all(b"kept\n").unwrap();
        assert_eq!(fs::read_to_string(moved.join("gateway.log")).unwrap(), "kept\n");
    }
}
