//! The end of what a client sends into a tunnel, told to the upstream's socket beside the HTTP library.
//!
//! Pingora takes the client's end for the end of both directions: what the upstream still has to say is lost, and so,
//! now and then, are the client's last bytes on their way. So the end is kept from it. It is told to the upstream's socket,
//! which closes its sending half once every byte of the client's has been written, and the tunnel goes on until the
//! upstream ends it, or is silent for too long.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

/// What the client's connection and the upstream's socket of one tunnel share.
#[derive(Debug, Default)]
pub struct TunnelEnd {
    sent: AtomicU64,
    is_over: AtomicBool,
    waiting: Mutex<Option<Waker>>,
}

impl TunnelEnd {
    /// The client has sent so many bytes more.
    pub(super) fn add(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::AcqRel);
    }

    /// The client sends no more.
    pub(super) fn finish(&self) {
        if !self.is_over.swap(true, Ordering::AcqRel) {
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(waker) = waiting {
                waker.wake();
            }
        }
    }

    /// Wakes this task when the client has ended.
    pub fn wait(&self, waker: &Waker) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.as_ref().is_some_and(|present| present.will_wake(waker)) {
            *waiting = Some(waker.clone());
        }
    }

    /// How many bytes the client has sent in all; none as long as it may send more.
    pub fn total(&self) -> Option<u64> {
        self.is_over
            .load(Ordering::Acquire)
            .then(|| self.sent.load(Ordering::Acquire))
    }
}
