//! Where lines go without anybody's waiting for them: a bounded buffer, and a thread that writes it out.
//!
//! A line is appended to what waits, or dropped and counted where that is full: however slow or dead the reader, a
//! request is not held up. Records leave in batches, at most so many a second, so that a busy gateway neither wakes a
//! thread nor makes a system call for each of them; messages, of which there are few, leave at once.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// The pause between two batches.
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes that end it.
const FULL: usize = 64 * 1024;
/// How long the last lines may take when the sink is closed.
const FAREWELL: Duration = Duration::from_secs(1);
/// Room that is kept between batches.
const KEPT: usize = 256 * 1024;

/// Takes lines. Clones share one buffer.
#[derive(Clone, Debug)]
pub struct Sink(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    capacity: usize,
    waiting: Mutex<Waiting>,
    /// Told to the writing thread.
    changed: Condvar,
    /// Told by it at its end.
    ended: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Whether the thread sleeps until there is something.
    is_idle: bool,
    /// Whether it is not to pause before it writes again.
    is_urgent: bool,
    is_closed: bool,
    has_ended: bool,
}

/// Writes out what waits when it is dropped, for at most a second.
#[derive(Debug)]
#[must_use = "lines that wait are lost without it"]
pub struct SinkGuard(Arc<Shared>);

impl Sink {
    /// A sink whose lines go to `output`; at most `capacity` bytes of them wait.
    ///
    /// # Errors
    /// The operating system's, when a thread cannot be started.
    pub fn start(output: impl Write + Send + 'static, capacity: usize) -> io::Result<(Self, SinkGuard)> {
        let shared = Arc::new(Shared {
            capacity,
            waiting: Mutex::default(),
            changed: Condvar::new(),
            ended: Condvar::new(),
            dropped: AtomicU64::new(0),
        });
        let writing = Arc::clone(&shared);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || writing.write_to(output))?;
        Ok((Self(Arc::clone(&shared)), SinkGuard(shared)))
    }

    /// Lines dropped so far: for want of room, or because they could not be written.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Relaxed)
    }

    /// Takes one line whole, or drops it. It leaves with others.
    pub fn append(&self, line: &[u8]) {
        self.take(line, false);
    }

    fn take(&self, line: &[u8], is_urgent: bool) {
        let mut waiting = self.0.lock();
        let before = waiting.bytes.len();
        let after = before + line.len();
        if after > self.0.capacity {
            drop(waiting);
            self.0.dropped.fetch_add(1, Relaxed);
            return;
        }
        waiting.bytes.extend_from_slice(line);
        waiting.is_urgent |= is_urgent;
        let is_full = before < FULL && after >= FULL;
        // Taking it away tells the others that the thread is woken.
        if std::mem::take(&mut waiting.is_idle) || is_urgent || is_full {
            drop(waiting);
            self.0.changed.notify_one();
        }
    }
}

impl Write for Sink {
    /// Takes one message whole, or drops it. It leaves at once.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.take(line, true);
        Ok(line.len())
    }

    /// The thread does.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, mut output: impl Write) {
        let mut batch = Vec::new();
        while self.take(&mut batch) {
            if output.write_all(&batch).and_then(|()| output.flush()).is_err() {
                let lines = batch.iter().filter(|&&byte| byte == b'\n').count();
                self.dropped.fetch_add(lines as u64, Relaxed);
            }
            batch.clear();
            batch.shrink_to(KEPT);
            let waiting = self.lock();
            let _timed_out = self.changed.wait_timeout_while(waiting, PAUSE, |waiting| {
                !waiting.is_closed && !waiting.is_urgent && waiting.bytes.len() < FULL
            });
        }
        self.lock().has_ended = true;
        self.ended.notify_all();
    }

    /// Waits for lines and takes all of them; false when there will be no more.
    fn take(&self, batch: &mut Vec<u8>) -> bool {
        let mut waiting = self.lock();
        while waiting.bytes.is_empty() {
            if waiting.is_closed {
                return false;
            }
            waiting.is_idle = true;
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.is_idle = false;
        waiting.is_urgent = false;
        std::mem::swap(&mut waiting.bytes, batch);
        true
    }
}

impl Drop for SinkGuard {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.is_closed = true;
        self.0.changed.notify_all();
        // A reader that takes nothing does not keep the process.
        let _timed_out = self
            .0
            .ended
            .wait_timeout_while(waiting, FAREWELL, |waiting| !waiting.has_ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Writes nothing before it is let.
    struct Gate {
        open: mpsc::Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Closed for good counts as open.
            let _ = self.open.recv();
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_reader_does_not_take_is_bounded_and_counted_and_nobody_waits() {
        let (gate, open) = mpsc::channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let output = Gate {
            open,
            written: Arc::clone(&written),
        };
        let (sink, guard) = Sink::start(output, 100).unwrap();
        let mut taken = 0;
        for _ in 0..1_000 {
            sink.clone().write_all(b"123456789\n").unwrap();
            taken += 1;
        }
        // At most two batches: the one that is being written, and the one that waits.
        let dropped = sink.dropped();
        assert!((980..1_000).contains(&dropped), "{dropped}");
        drop(gate);
        drop(guard);
        let written = written.lock().unwrap().len() as u64 / 10;
        assert_eq!(written + dropped, taken);
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (mut sink, guard) = Sink::start(Full, 1_000).unwrap();
        sink.write_all(b"one\n").unwrap();
        sink.write_all(b"two\n").unwrap();
        drop(guard);
        assert_eq!(sink.dropped(), 2);
    }
}
