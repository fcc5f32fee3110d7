//! Step 8, record: metrics and the access log, once for each request.

use http::Version;
use pingora::proxy::Session;

use super::exchange::Exchange;
use crate::listen::Client;
use crate::telemetry::access::Record;
use crate::telemetry::metrics::Metrics;

/// Counts the request, once. An answer of the gateway's own is counted before it leaves, so that who has read it finds
/// it counted.
pub fn count(exchange: &mut Exchange, status: Option<u16>, metrics: &Metrics) {
    if std::mem::replace(&mut exchange.counted, true) {
        return;
    }
    if let Some(refusal) = exchange.refusal {
        metrics.count_refusal(refusal);
    }
    exchange
        .generation
        .metrics(exchange.family)
        .count(status, exchange.began.elapsed());
}

/// Counts the request, unless that is done, and writes its record.
pub fn record(session: &Session, exchange: &mut Exchange, metrics: &Metrics) {
    let duration = exchange.began.elapsed();
    let status = session.response_written().map(|head| head.status.as_u16());
    count(exchange, status, metrics);
    let generation = &exchange.generation;
    let Some(client) = Client::of(session) else { return };
    Record {
        request_id: exchange.id.as_str(),
        family: exchange.family.and_then(|family| generation.name(family)),
        template: exchange
            .template
            .map(|template| generation.classifier.template(template)),
        method: client.method(),
        target: client.target(),
        status,
        refusal: exchange.refusal.map(|refusal| refusal.code()),
        bytes_in: session.body_bytes_read() as u64,
        bytes_out: session.body_bytes_sent() as u64,
        duration,
        protocol: protocol(session.req_header().version),
        client: client.peer(),
    }
    .write();
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2",
        _ => "HTTP/1.1",
    }
}
