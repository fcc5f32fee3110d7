//! A connection lent to Pingora for one request.
//!
//! Pingora drops its stream wherever a request ends, so the connection would be gone with whatever the client still
//! has to read of the answer. A [`ClientStream`] returns the connection to its owner instead, however it is dropped.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream, TimingDigest,
    UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::Connection;
use super::deadlines::Times;
use super::tunnel_end::TunnelEnd;

/// Where a lent connection comes back to, and what its owner tells of it in the meantime.
#[derive(Clone, Debug, Default)]
pub(super) struct Home(Arc<HomeState>);

#[derive(Debug, Default)]
struct HomeState {
    returned: Mutex<Option<Box<Connection>>>,
    is_cut: AtomicBool,
}

impl Home {
    /// The connection, when it is back.
    pub(super) fn take(&self) -> Option<Box<Connection>> {
        self.0.returned.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// From now on, reads of the present request fail, see [`RequestFault::Cut`](super::RequestFault::Cut).
    pub(super) fn cut(&self) {
        self.0.is_cut.store(true, Ordering::Release);
    }

    /// Whether it was [cut](Self::cut).
    pub(super) fn is_cut(&self) -> bool {
        self.0.is_cut.load(Ordering::Acquire)
    }
}

/// A connection lent for one request; reads end where the request ends.
#[derive(Debug)]
pub struct ClientStream {
    connection: Option<Box<Connection>>,
    home: Home,
    tunnel: AtomicBool,
    tunnel_end: Mutex<Option<Arc<TunnelEnd>>>,
    noted: AtomicBool,
    /// Set from hooks that hold the stream by reference alone; never contended.
    times: Mutex<Times>,
    /// Whether nothing is written before the request is noted.
    holds_back: bool,
}

impl ClientStream {
    pub(super) fn lend(connection: Box<Connection>, home: &Home, holds_back: bool) -> Self {
        Self {
            connection: Some(connection),
            home: home.clone(),
            tunnel: AtomicBool::new(false),
            tunnel_end: Mutex::default(),
            noted: AtomicBool::new(false),
            times: Mutex::default(),
            holds_back,
        }
    }

    /// The lent stream under one of Pingora's sessions; none for a session that a [`super::Listener`] did not open.
    pub fn of(stream: &Stream) -> Option<&Self> {
        stream.as_any().downcast_ref()
    }

    /// The connection.
    pub fn connection(&self) -> Option<&Connection> {
        self.connection.as_deref()
    }

    /// Tells the listener that the request has reached its application.
    pub fn note_request(&self) {
        self.noted.store(true, Ordering::Release);
    }

    /// How long the request may take from now on. When a time is up reads fail, and the connection's
    /// [fault](Connection::fault) says why.
    pub fn set_times(&self, times: Times) {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner) = times;
    }

    /// From the next read on, bytes are those of an upgraded protocol: to be called once the answer is 101. With `end`,
    /// the client's end is told there and is no end of reading; without, it is.
    pub fn begin_tunnel(&self, end: Option<Arc<TunnelEnd>>) {
        *self.tunnel_end.lock().unwrap_or_else(PoisonError::into_inner) = end;
        self.tunnel.store(true, Ordering::Release);
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.as_mut() {
            connection.set_noted(*self.noted.get_mut());
        }
        *self.home.0.returned.lock().unwrap_or_else(PoisonError::into_inner) = self.connection.take();
    }
}

fn gone<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}

impl AsyncRead for ClientStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Some(connection) = this.connection.as_mut() else {
            return gone();
        };
        if *this.tunnel.get_mut() {
            let end = this.tunnel_end.get_mut().unwrap_or_else(PoisonError::into_inner);
            connection.begin_tunnel(end.take());
        }
        if this.home.is_cut() {
            return connection.cut();
        }
        connection.set_times(*this.times.get_mut().unwrap_or_else(PoisonError::into_inner));
        connection.poll_read_request(context, buffer)
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.holds_back && !*this.noted.get_mut() {
            return Poll::Ready(Ok(bytes.len()));
        }
        let Some(connection) = this.connection.as_mut() else {
            return gone();
        };
        if *this.tunnel.get_mut() {
            connection.follow_frames();
        }
        connection.poll_write_answer(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut().connection.as_mut() {
            Some(connection) => connection.poll_flush_output(context),
            None => gone(),
        }
    }

    /// Only flushes: the owner decides when the connection closes.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

#[async_trait]
impl Shutdown for ClientStream {
    async fn shutdown(&mut self) {
        // A client that is gone is no news here.
        let _flushed = tokio::io::AsyncWriteExt::flush(self).await;
    }
}

impl UniqueID for ClientStream {
    fn id(&self) -> UniqueIDType {
        self.connection
            .as_ref()
            .map_or(-1, |connection| connection.descriptor())
    }
}

impl Ssl for ClientStream {}
impl Peek for ClientStream {}

impl GetTimingDigest for ClientStream {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for ClientStream {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl GetSocketDigest for ClientStream {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        None
    }
}
