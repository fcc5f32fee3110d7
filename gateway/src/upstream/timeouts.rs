//! How long a family's requests may take.

use std::time::Duration;

use crate::config;

/// The times of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To connect to an endpoint.
    pub connect: Duration,
    /// From the request's last byte, or the connection, to the head of its answer.
    pub response: Duration,
    /// An ordinary answer.
    pub body: Span,
    /// An answer that is a stream.
    pub stream: Span,
    /// A WebSocket.
    pub tunnel: Span,
}

/// How long an exchange may be silent and how long it may last, from the request's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Silence.
    pub silence: Duration,
    /// The whole; none for no limit.
    pub total: Option<Duration>,
}

impl Timeouts {
    pub(super) fn new(table: &config::Upstream, limits: &config::Limits) -> Self {
        let get = |duration: Option<config::Duration>| duration.map(config::Duration::get);
        Self {
            connect: table.connect_timeout.get(),
            response: table.response_timeout.get(),
            body: Span {
                silence: table.body_timeout.get(),
                total: Some(table.total_timeout.get()),
            },
            stream: Span {
                silence: table.stream_timeout.get(),
                total: get(table.stream_total_timeout),
            },
            tunnel: Span {
                silence: table.tunnel_timeout.unwrap_or(limits.tunnel_timeout).get(),
                total: get(table.tunnel_total_timeout),
            },
        }
    }

    /// The longest time for which an endpoint may be silent, whatever it is asked for.
    pub(super) fn longest_silence(&self) -> Duration {
        let spans = [self.body, self.stream, self.tunnel];
        spans
            .iter()
            .fold(self.response, |longest, span| longest.max(span.silence))
    }
}
