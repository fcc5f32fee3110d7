//! The files that a configuration consists of, looked at until they hold something else and have settled.
//!
//! They are looked at again and again rather than watched by the kernel: links that are swapped, as Kubernetes does,
//! files that are renamed into place, network file systems and mounts all look alike that way, and a look is a few calls.
//! What is seen counts as settled when all files have held the same bytes twice, [`SETTLE`] apart.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::config::Contents;

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// The time for which nothing may change before files are read.
const SETTLE: Duration = Duration::from_millis(300);
/// A file that is gone for longer is meant to be gone; editors and copying programs take it away for a moment.
const GONE: Duration = Duration::from_secs(5);

/// What a file looks like from outside: it changes when the file is written, replaced, or its link is turned to another
/// one. None where there is no file.
type Stamp = Option<[i64; 7]>;

fn stamp(path: &Path) -> Stamp {
    let file = fs::metadata(path).ok()?;
    Some([
        file.dev().cast_signed(),
        file.ino().cast_signed(),
        file.size().cast_signed(),
        file.mtime(),
        file.mtime_nsec(),
        file.ctime(),
        file.ctime_nsec(),
    ])
}

/// The files of a configuration, and what they held when it was loaded.
#[derive(Debug)]
pub struct Watch {
    files: Contents,
    /// Whether a configuration was loaded from what they held.
    is_loaded: bool,
    /// The looks of files that hold what was loaded; nothing until that was found out.
    seen: Vec<Stamp>,
}

impl Watch {
    /// Of files from which a configuration was loaded, whatever came of it.
    pub fn of(loaded: Contents) -> Self {
        Self {
            files: loaded,
            is_loaded: true,
            seen: Vec::new(),
        }
    }

    /// Of files of which only the names count: once they have settled, they are to be loaded.
    pub fn unknown(files: Contents) -> Self {
        Self {
            is_loaded: false,
            ..Self::of(files)
        }
    }

    /// Waits until the files hold something else than what was loaded, and have settled. May be dropped at any time.
    pub async fn changed(&mut self) -> Contents {
        loop {
            let look = blocking(&self.files, |files| files.files().map(stamp).collect::<Vec<_>>()).await;
            if look != self.seen {
                let settled = self.settled().await;
                if !self.is_loaded(&settled) {
                    return settled;
                }
                // The look came first: whatever happened after it shows in the next one.
                self.seen = look;
            }
            sleep(LOOK).await;
        }
    }

    async fn settled(&self) -> Contents {
        let began = Instant::now();
        let mut contents = blocking(&self.files, Contents::again).await;
        loop {
            // Nothing is lost by waiting where nothing has changed.
            if self.is_loaded(&contents) {
                return contents;
            }
            sleep(SETTLE).await;
            let again = blocking(&self.files, Contents::again).await;
            let may_come_back = !again.are_whole() && began.elapsed() < GONE;
            if again == contents && !may_come_back {
                return contents;
            }
            contents = again;
        }
    }

    fn is_loaded(&self, contents: &Contents) -> bool {
        self.is_loaded && *contents == self.files
    }
}

async fn blocking<T: Default + Send + 'static>(of: &Contents, work: impl FnOnce(&Contents) -> T + Send + 'static) -> T {
    let of = of.clone();
    // It fails only when the runtime stops.
    tokio::task::spawn_blocking(move || work(&of)).await.unwrap_or_default()
}
