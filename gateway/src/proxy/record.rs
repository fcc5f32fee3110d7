//! Step 8, record: metrics, the access log and the trace, once for each request.

use std::time::Instant;

use http::Version;
use pingora::proxy::Session;

use super::exchange::Exchange;
use crate::listen::Client;
use crate::telemetry::Telemetry;
use crate::telemetry::access::Record;
use crate::telemetry::metrics::Ended;
use crate::telemetry::trace::span::UpstreamPart;

/// Counts the request, once. An answer of the gateway's own is counted before it leaves, so that who has read it finds
/// it counted.
pub fn count(exchange: &mut Exchange, status: Option<u16>) {
    if !std::mem::replace(&mut exchange.counted, true) {
        let family = exchange.generation.metrics(exchange.family);
        family.count(status, exchange.refusal);
    }
}

/// Counts the request, unless that is done, adds what was measured of it, and writes its record.
pub fn record(session: &Session, exchange: &mut Exchange, telemetry: &Telemetry) {
    let now = Instant::now();
    let status = session.response_written().map(|head| head.status.as_u16());
    count(exchange, status);
    let ended = Ended {
        total: now.saturating_duration_since(exchange.began),
        upstream: exchange.timing.upstream_latency(),
        own: exchange.timing.own(now),
        bytes_in: session.body_bytes_read() as u64,
        bytes_out: session.body_bytes_sent() as u64,
    };
    let generation = &exchange.generation;
    generation.metrics(exchange.family).measure(&ended);
    let Some(client) = Client::of(session) else { return };
    let endpoint = exchange.attempts.endpoint().filter(|_| telemetry.names_upstream);
    let record = Record {
        request_id: exchange.id.as_str(),
        trace_id: exchange.trace.as_ref().map(|trace| trace.id.as_str()),
        family: exchange.family.and_then(|family| generation.name(family)),
        template: exchange
            .template
            .map(|template| generation.classifier.template(template)),
        method: client.method(),
        target: client.target(),
        status,
        refusal: exchange.refusal.map(|refusal| refusal.code()),
        bytes_in: ended.bytes_in,
        bytes_out: ended.bytes_out,
        duration: ended.total,
        upstream_latency: ended.upstream,
        own: ended.own,
        attempts: exchange.attempts.made(),
        protocol: protocol(session.req_header().version),
        client: client.peer(),
        upstream: endpoint.map(|in_use| in_use.endpoint().id().address),
    };
    let scheme = if client.is_secure() { "https" } else { "http" };
    let part = upstream_part(exchange, now);
    telemetry.record(&record, exchange.trace.as_ref(), scheme, part);
}

/// The upstream's part, from the request's first byte on.
fn upstream_part(exchange: &Exchange, ended: Instant) -> Option<UpstreamPart> {
    let (attempted, answered) = exchange.timing.upstream()?;
    Some(UpstreamPart {
        began: attempted.saturating_duration_since(exchange.began),
        ended: answered.unwrap_or(ended).saturating_duration_since(exchange.began),
        is_answered: answered.is_some(),
    })
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2",
        _ => "HTTP/1.1",
    }
}
