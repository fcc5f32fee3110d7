//! The answer to what never becomes a request, in the same envelope and counted like any other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::Response;
use route_contract::classify::Classification;

use super::classify;
use super::generation::Generation;
use super::refusal::{Refusal, Then};
use super::request_id::RequestId;
use crate::listen::head::TargetForm;
use crate::listen::{
    Connection, ConnectionFault, Door, Handshake, HandshakeFault, HeadFault, RefusedStream, StreamFault,
};
use crate::telemetry::Telemetry;
use crate::telemetry::access::Record;
use crate::telemetry::metrics::Ended;
use crate::telemetry::trace::Trace;

/// The public listener's door.
#[derive(Debug)]
pub struct PublicDoor {
    generation: Arc<ArcSwap<Generation>>,
    telemetry: Arc<Telemetry>,
}

impl PublicDoor {
    /// A door that counts and records with `telemetry`.
    pub fn new(generation: Arc<ArcSwap<Generation>>, telemetry: Arc<Telemetry>) -> Self {
        Self { generation, telemetry }
    }

    /// `generation` is the one that has decided: what it knows by number may be another one's something else.
    fn record(&self, generation: &Generation, refusal: Refusal, id: &RequestId, refused: &Refused<'_>) {
        let family = refused.decided.and_then(|decided| classify::recorded(decided.verdict));
        let template = refused.decided.and_then(|decided| decided.template);
        let metrics = generation.metrics(family);
        metrics.count(refused.status, Some(refusal));
        metrics.measure(&Ended {
            total: refused.duration,
            own: refused.own,
            bytes_out: refused.answer as u64,
            ..Ended::default()
        });
        let record = Record {
            request_id: id.as_str(),
            trace_id: refused.trace.map(|trace| trace.id.as_str()),
            family: family.and_then(|family| generation.name(family)),
            template: template.map(|template| generation.classifier.template(template)),
            method: refused.method,
            target: refused.target,
            status: refused.status,
            refusal: Some(refusal.code()),
            bytes_in: 0,
            bytes_out: refused.answer as u64,
            duration: refused.duration,
            upstream_latency: None,
            own: refused.own,
            attempts: 0,
            protocol: refused.protocol,
            client: refused.client,
            upstream: None,
        };
        self.telemetry.record(&record, refused.trace, refused.scheme, None);
    }
}

impl Door for PublicDoor {
    fn refuse(&self, fault: HeadFault, connection: &Connection) -> Bytes {
        let refusal = Refusal::from(fault);
        let id = RequestId::generate();
        // An answer to HEAD has no body (RFC 9110 section 9.3.2), whatever is wrong with the rest.
        let with_body = !connection.head_bytes().starts_with(b"HEAD ");
        self.telemetry.metrics.listener.count_malformed(fault);
        let body = refusal.body(&id);
        let (method, target) = request_line(connection.head_bytes());
        let refused = Refused {
            method,
            target,
            status: Some(refusal.status().as_u16()),
            client: connection.peer,
            protocol: "HTTP/1.1",
            duration: connection.began().elapsed(),
            answer: if with_body { body.len() } else { 0 },
            ..Refused::new(connection.is_secure())
        };
        self.record(&self.generation.load(), refusal, &id, &refused);
        refusal.message(&id, &body, with_body, Then::Close)
    }

    /// Steps 2 and 3 for a request that goes no further. Whatever needs more than its head, a trusted proxy's request
    /// among them, goes to the proxy, which takes all steps.
    fn answer(&self, connection: &Connection) -> Option<Bytes> {
        let began = Instant::now();
        let generation = self.generation.load();
        let head = connection.head().filter(|head| head.form == TargetForm::Origin)?;
        let bytes = connection.head_bytes();
        let method = bytes.get(head.method.clone()).unwrap_or_default();
        let target = bytes.get(head.target.clone()).unwrap_or_default();
        let needs_more = head.has_traceparent || generation.readiness.may_be_asked(target);
        if needs_more || generation.trusts(connection.peer.ip()) {
            return None;
        }
        let decided = classify::classify(&generation, target);
        let refusal = classify::forwarded(decided.verdict).err()?;
        let id = RequestId::generate();
        let with_body = method != b"HEAD";
        let body = refusal.body(&id);
        let message = refusal.message(&id, &body, with_body, Then::KeepAlive);
        let trace = self.telemetry.begin_trace();
        let refused = Refused {
            trace: trace.as_ref(),
            decided: Some(decided),
            method,
            target,
            status: Some(refusal.status().as_u16()),
            client: connection.peer,
            protocol: "HTTP/1.1",
            duration: connection.began().elapsed(),
            own: began.elapsed(),
            answer: if with_body { body.len() } else { 0 },
            ..Refused::new(connection.is_secure())
        };
        self.record(&generation, refusal, &id, &refused);
        Some(message)
    }

    fn refuse_stream(&self, fault: HeadFault, stream: &RefusedStream<'_>) -> Response<Bytes> {
        let refusal = Refusal::from(fault);
        let id = RequestId::generate();
        self.telemetry.metrics.listener.count_malformed(fault);
        let body = refusal.body(&id);
        let length = body.len();
        let body = if stream.method == b"HEAD" { Bytes::new() } else { body };
        let refused = Refused {
            method: stream.method,
            target: stream.target,
            status: Some(refusal.status().as_u16()),
            client: stream.link.peer,
            protocol: "HTTP/2",
            duration: stream.began.elapsed(),
            answer: body.len(),
            ..Refused::new(stream.link.is_secure)
        };
        self.record(&self.generation.load(), refusal, &id, &refused);
        // The texts of the table are header values.
        refusal
            .head(&id, length)
            .map(|head| Response::from_parts(head.as_owned_parts(), body))
            .unwrap_or_default()
    }

    fn stream_failed(&self, fault: StreamFault, stream: &RefusedStream<'_>) {
        self.telemetry.metrics.listener.count_stream_error(fault);
        let refusal = match fault {
            StreamFault::Malformed | StreamFault::Body => Refusal::InvalidRequest,
            StreamFault::Refused => Refusal::Overloaded,
            StreamFault::HeadTooLarge => Refusal::HeadTooLarge,
            StreamFault::Other => Refusal::Internal,
        };
        let refused = Refused {
            method: stream.method,
            target: stream.target,
            // The library answers nothing else; the other streams are reset.
            status: (fault == StreamFault::HeadTooLarge).then_some(refusal.status().as_u16()),
            client: stream.link.peer,
            protocol: "HTTP/2",
            duration: stream.began.elapsed(),
            ..Refused::new(stream.link.is_secure)
        };
        self.record(&self.generation.load(), refusal, &RequestId::generate(), &refused);
    }

    fn connection_failed(&self, fault: ConnectionFault) {
        self.telemetry.metrics.listener.count_connection_error(fault);
        tracing::debug!(reason = fault.label(), "an HTTP/2 connection was ended");
    }

    fn handshake_done(&self, handshake: Handshake) {
        self.telemetry.metrics.listener.count_handshake(handshake);
    }

    fn handshake_failed(&self, fault: HandshakeFault) {
        self.telemetry.metrics.listener.count_handshake_fault(fault);
        tracing::debug!(reason = fault.label(), "a TLS handshake has failed");
    }

    fn opened(&self) {
        self.telemetry.metrics.listener.connection_opened();
    }

    fn crowded(&self) {
        self.telemetry.metrics.listener.connection_rejected();
    }

    fn closed(&self) {
        self.telemetry.metrics.listener.connection_closed();
    }

    fn expects_notes(&self) -> bool {
        true
    }

    fn unparsed(&self) {
        self.telemetry.metrics.listener.count_unparsed();
        tracing::error!("a request that was found sound was refused by the HTTP library");
    }
}

/// A refused request, as its record tells it.
struct Refused<'a> {
    /// The trace that it begins; heads that are no requests belong to none.
    trace: Option<&'a Trace>,
    /// `http` or `https`.
    scheme: &'static str,
    /// What the classifier said of a request that got as far.
    decided: Option<Classification>,
    method: &'a [u8],
    target: &'a [u8],
    /// The status that the client was sent, where it was sent one.
    status: Option<u16>,
    client: SocketAddr,
    protocol: &'static str,
    duration: Duration,
    /// The gateway's own share of that, where it is told apart.
    own: Duration,
    /// Bytes of the answer's body.
    answer: usize,
}

impl Refused<'_> {
    /// One of which nothing is known yet.
    fn new(is_secure: bool) -> Self {
        Self {
            trace: None,
            scheme: if is_secure { "https" } else { "http" },
            decided: None,
            method: b"",
            target: b"",
            status: None,
            client: SocketAddr::from(([0, 0, 0, 0], 0)),
            protocol: "HTTP/1.1",
            duration: Duration::ZERO,
            own: Duration::ZERO,
            answer: 0,
        }
    }
}

/// What can be told of a request line that may be anything.
fn request_line(head: &[u8]) -> (&[u8], &[u8]) {
    let line = head
        .split(|byte| matches!(byte, b'\r' | b'\n'))
        .next()
        .unwrap_or_default();
    let (method, rest) = match line.iter().position(|&byte| byte == b' ') {
        Some(end) => (
            line.get(..end).unwrap_or_default(),
            line.get(end + 1..).unwrap_or_default(),
        ),
        None => (&b""[..], line),
    };
    let end = rest.iter().rposition(|&byte| byte == b' ').unwrap_or(rest.len());
    (method, rest.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_told_of_a_request_line() {
        for (head, method, target) in [
            ("GET /a b HTTP/1.1\r\nX: y", "GET", "/a b"),
            ("GET /a", "GET", "/a"),
            ("\u{16}\u{3}\u{1}", "", "\u{16}\u{3}\u{1}"),
            ("", "", ""),
        ] {
            assert_eq!(
                request_line(head.as_bytes()),
                (method.as_bytes(), target.as_bytes()),
                "{head:?}"
            );
        }
    }
}
