//! The client's side of a request that a listener has handed on, whatever protocol it came by.

use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderValue;
use pingora::protocols::http::ServerSession;
use tokio::time::Instant;

use super::client_stream::ClientStream;
use super::connection::{Connection, RequestFault};
use super::deadlines::Times;
use super::head::{BodyLength, Head, TargetForm};
use super::http2::StreamClient;
use super::tunnel_end::TunnelEnd;

/// The client of one request.
#[derive(Clone, Copy, Debug)]
pub enum Client<'a> {
    /// A connection that serves one request after the other.
    Http1 {
        /// The lent connection.
        stream: &'a ClientStream,
        /// What it was lent of.
        connection: &'a Connection,
        /// The request's head in the connection's bytes.
        head: &'a Head,
    },
    /// A stream among others on a connection.
    Http2(&'a StreamClient),
}

impl<'a> Client<'a> {
    /// The client of one of Pingora's sessions; none for a session that a [`super::Listener`] did not open.
    pub fn of(session: &'a ServerSession) -> Option<Self> {
        if let Some(client) = session.req_header().extensions.get::<Arc<StreamClient>>() {
            return Some(Self::Http2(client));
        }
        let stream = session.stream().and_then(ClientStream::of)?;
        let connection = stream.connection()?;
        let head = connection.head()?;
        Some(Self::Http1 {
            stream,
            connection,
            head,
        })
    }

    /// Tells the listener that the request has reached its application.
    pub fn note_request(&self) {
        match self {
            Self::Http1 { stream, .. } => stream.note_request(),
            Self::Http2(client) => client.note_request(),
        }
    }

    /// How long the request may take from now on. When a time is up reads fail, and [`Self::fault`] says why.
    pub fn set_times(&self, times: Times) {
        match self {
            Self::Http1 { stream, .. } => stream.set_times(times),
            Self::Http2(client) => client.set_times(times),
        }
    }

    /// From the next read on, bytes are those of an upgraded protocol; see [`ClientStream::begin_tunnel`]. HTTP/2 has no
    /// upgrades.
    pub fn begin_tunnel(&self, end: Option<Arc<TunnelEnd>>) {
        if let Self::Http1 { stream, .. } = self {
            stream.begin_tunnel(end);
        }
    }

    /// Why the last read of the request has failed.
    pub fn fault(&self) -> Option<RequestFault> {
        match self {
            Self::Http1 { connection, .. } => connection.fault(),
            Self::Http2(client) => client.fault(),
        }
    }

    /// Whoever connected.
    pub fn peer(&self) -> SocketAddr {
        match self {
            Self::Http1 { connection, .. } => connection.peer,
            Self::Http2(client) => client.link().peer,
        }
    }

    /// The client's address without its port, as a header's value.
    pub fn peer_value(&self) -> &'a HeaderValue {
        match *self {
            Self::Http1 { connection, .. } => connection.peer_value(),
            Self::Http2(client) => &client.link().peer_value,
        }
    }

    /// Whether the client's bytes came over TLS.
    pub fn is_secure(&self) -> bool {
        match self {
            Self::Http1 { connection, .. } => connection.is_secure(),
            Self::Http2(client) => client.link().is_secure,
        }
    }

    /// When the request's first byte came; over HTTP/2, when its head was there.
    pub fn began(&self) -> Instant {
        match self {
            Self::Http1 { connection, .. } => connection.began(),
            Self::Http2(client) => client.began(),
        }
    }

    /// The method, byte for byte.
    pub fn method(&self) -> &'a [u8] {
        match *self {
            Self::Http1 { connection, head, .. } => part(connection, &head.method),
            Self::Http2(client) => client.method(),
        }
    }

    /// The request target, byte for byte: over HTTP/2 the value of `:path`.
    pub fn target(&self) -> &'a [u8] {
        match *self {
            Self::Http1 { connection, head, .. } => part(connection, &head.target),
            Self::Http2(client) => client.target(),
        }
    }

    /// The part of the target that is path and query; none for `*`.
    pub fn origin_form(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Http1 { connection, head, .. } => match &head.form {
                TargetForm::Origin => Some(part(connection, &head.target)),
                TargetForm::Absolute(path) => Some(part(connection, path)),
                TargetForm::Asterisk => None,
            },
            Self::Http2(client) => Some(client.target()).filter(|target| *target != b"*"),
        }
    }

    /// How the end of the body is found.
    pub fn body(&self) -> BodyLength {
        match self {
            Self::Http1 { head, .. } => head.body,
            Self::Http2(client) => client.body(),
        }
    }
}

fn part<'a>(connection: &'a Connection, range: &std::ops::Range<usize>) -> &'a [u8] {
    connection.head_bytes().get(range.clone()).unwrap_or_default()
}
