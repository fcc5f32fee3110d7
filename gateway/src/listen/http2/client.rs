//! What is known of the client of one HTTP/2 stream, shared by the stream's session and its application.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderValue, Method};
use tokio::time::Instant;

use super::RefusedStream;
use crate::listen::connection::RequestFault;
use crate::listen::deadlines::Times;
use crate::listen::head::BodyLength;

/// The connection that streams share.
#[derive(Clone, Debug)]
pub struct Link {
    /// Whoever connected.
    pub peer: SocketAddr,
    /// Their address without its port, as a header's value.
    pub peer_value: HeaderValue,
    /// Whether the bytes came over TLS.
    pub is_secure: bool,
}

/// The client of one stream. It travels with the request's head, see [`crate::listen::Client::of`].
#[derive(Debug)]
pub struct StreamClient {
    link: Link,
    began: Instant,
    method: Method,
    target: Bytes,
    body: BodyLength,
    noted: AtomicBool,
    is_cut: AtomicBool,
    /// Set from hooks that hold the client by reference alone; never contended.
    watch: Mutex<Watch>,
}

#[derive(Debug, Default)]
struct Watch {
    times: Times,
    fault: Option<RequestFault>,
}

impl StreamClient {
    /// The client of a stream whose head has just been read.
    pub(super) fn new(link: Link, method: Method, target: Bytes, body: BodyLength) -> Self {
        Self {
            link,
            began: Instant::now(),
            method,
            target,
            body,
            noted: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            watch: Mutex::default(),
        }
    }

    /// The connection.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The stream as one that ends before its request is served.
    pub(super) fn refused(&self) -> RefusedStream<'_> {
        RefusedStream {
            link: &self.link,
            method: self.method(),
            target: &self.target,
            began: self.began,
        }
    }

    /// When the head was there.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// The value of `:method`.
    pub fn method(&self) -> &[u8] {
        self.method.as_str().as_bytes()
    }

    /// The value of `:path`.
    pub fn target(&self) -> &[u8] {
        &self.target
    }

    /// What the head says of the body: a length, an end, or neither ([`BodyLength::Chunked`]).
    pub fn body(&self) -> BodyLength {
        self.body
    }

    /// Tells the listener that the request has reached its application.
    pub fn note_request(&self) {
        self.noted.store(true, Ordering::Release);
    }

    pub(super) fn is_noted(&self) -> bool {
        self.noted.load(Ordering::Acquire)
    }

    /// From now on, reads of the request fail, see [`RequestFault::Cut`].
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }

    /// How long the request may take from now on. When a time is up reads fail, and [`Self::fault`] says why.
    pub fn set_times(&self, times: Times) {
        self.watch().times = times;
    }

    pub(super) fn times(&self) -> Times {
        self.watch().times
    }

    pub(super) fn set_fault(&self, fault: RequestFault) {
        self.watch().fault = Some(fault);
    }

    /// Why the last read of the request has failed.
    pub fn fault(&self) -> Option<RequestFault> {
        self.watch().fault
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
