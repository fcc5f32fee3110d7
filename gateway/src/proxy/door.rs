//! The answer to what never becomes a request, in the same envelope and counted like any other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use route_contract::classify::Classification;

use super::classify;
use super::generation::Generation;
use super::refusal::{Refusal, Then};
use super::request_id::RequestId;
use crate::listen::head::TargetForm;
use crate::listen::{Connection, Door, HandshakeFault, HeadFault, RefusedStream};
use crate::telemetry::access::Record;
use crate::telemetry::metrics::Metrics;
use arc_swap::ArcSwap;

/// The public listener's door.
#[derive(Debug)]
pub struct PublicDoor {
    generation: Arc<ArcSwap<Generation>>,
    metrics: Arc<Metrics>,
}

impl PublicDoor {
    /// A door that counts in `metrics`.
    pub fn new(generation: Arc<ArcSwap<Generation>>, metrics: Arc<Metrics>) -> Self {
        Self { generation, metrics }
    }

    /// `generation` is the one that has decided: what it knows by number may be another one's something else.
    fn record(&self, generation: &Generation, refusal: Refusal, id: &RequestId, refused: &Refused<'_>) {
        let Refused {
            decided,
            method,
            target,
            client,
            protocol,
            duration,
            answer,
        } = *refused;
        self.metrics.count_refusal(refusal);
        let family = decided.and_then(|decided| classify::recorded(decided.verdict));
        generation
            .metrics(family)
            .count(Some(refusal.status().as_u16()), duration);
        Record {
            request_id: id.as_str(),
            family: family.and_then(|family| generation.name(family)),
            template: decided
                .and_then(|decided| decided.template)
                .map(|template| generation.classifier.template(template)),
            method,
            target,
            status: Some(refusal.status().as_u16()),
            refusal: Some(refusal.code()),
            bytes_in: 0,
            bytes_out: answer as u64,
            duration,
            protocol,
            client,
        }
        .write();
    }
}

impl Door for PublicDoor {
    fn refuse(&self, fault: HeadFault, connection: &Connection) -> Bytes {
        let refusal = Refusal::from(fault);
        let id = RequestId::generate();
        // An answer to HEAD has no body (RFC 9110 section 9.3.2), whatever is wrong with the rest.
        let with_body = !connection.head_bytes().starts_with(b"HEAD ");
        self.metrics.count_malformed(fault);
        let answer = refusal.body(&id).len();
        let (method, target) = request_line(connection.head_bytes());
        let refused = Refused {
            decided: None,
            method,
            target,
            client: connection.peer,
            protocol: "HTTP/1.1",
            duration: connection.began().elapsed(),
            answer: if with_body { answer } else { 0 },
        };
        self.record(&self.generation.load(), refusal, &id, &refused);
        refusal.message(&id, with_body, Then::Close)
    }

    /// Steps 2 and 3 for a request that goes no further. Whatever needs more than its head, a trusted proxy's request
    /// among them, goes to the proxy, which takes all steps.
    fn answer(&self, connection: &Connection) -> Option<Bytes> {
        let generation = self.generation.load();
        let head = connection.head().filter(|head| head.form == TargetForm::Origin)?;
        let bytes = connection.head_bytes();
        let method = bytes.get(head.method.clone()).unwrap_or_default();
        let target = bytes.get(head.target.clone()).unwrap_or_default();
        if generation.readiness.may_be_asked(target) || generation.trusts(connection.peer.ip()) {
            return None;
        }
        let decided = classify::classify(&generation, target);
        let refusal = classify::forwarded(decided.verdict).err()?;
        let id = RequestId::generate();
        let with_body = method != b"HEAD";
        let message = refusal.message(&id, with_body, Then::KeepAlive);
        let refused = Refused {
            decided: Some(decided),
            method,
            target,
            client: connection.peer,
            protocol: "HTTP/1.1",
            duration: connection.began().elapsed(),
            answer: if with_body { refusal.body(&id).len() } else { 0 },
        };
        self.record(&generation, refusal, &id, &refused);
        Some(message)
    }

    fn refuse_stream(&self, fault: HeadFault, stream: &RefusedStream<'_>) -> Response<Bytes> {
        let refusal = Refusal::from(fault);
        let id = RequestId::generate();
        self.metrics.count_malformed(fault);
        let body = if stream.method == b"HEAD" {
            Bytes::new()
        } else {
            refusal.body(&id)
        };
        let refused = Refused {
            decided: None,
            method: stream.method,
            target: stream.target,
            client: stream.link.peer,
            protocol: "HTTP/2",
            duration: stream.began.elapsed(),
            answer: body.len(),
        };
        self.record(&self.generation.load(), refusal, &id, &refused);
        // The texts of the table are header values.
        refusal
            .head(&id, refusal.body(&id).len())
            .map(|head| Response::from_parts(head.as_owned_parts(), body))
            .unwrap_or_default()
    }

    fn handshake_failed(&self, fault: HandshakeFault) {
        self.metrics.count_handshake_fault(fault);
        tracing::debug!(reason = fault.label(), "a TLS handshake has failed");
    }

    fn opened(&self) {
        self.metrics.connection_opened();
    }

    fn crowded(&self) {
        self.metrics.connection_crowded();
    }

    fn closed(&self) {
        self.metrics.connection_closed();
    }

    fn expects_notes(&self) -> bool {
        true
    }

    fn unparsed(&self) {
        self.metrics.count_unparsed();
        tracing::error!("a request that was found sound was refused by the HTTP library");
    }
}

/// A refused request, as its record tells it.
struct Refused<'a> {
    /// What the classifier said of a request that got as far.
    decided: Option<Classification>,
    method: &'a [u8],
    target: &'a [u8],
    client: SocketAddr,
    protocol: &'static str,
    duration: Duration,
    /// Bytes of the answer's body.
    answer: usize,
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
