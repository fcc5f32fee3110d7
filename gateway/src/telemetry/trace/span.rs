//! The spans of one request, with the attributes of the semantic conventions for HTTP.
//!
//! They hold what the access record holds and no more: the target goes through the same redactor, and an endpoint's
//! address is there only where records name it.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    SpanContext, SpanId as OtelSpanId, SpanKind, Status, TraceFlags, TraceId as OtelTraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::context::SpanId;
use super::{OwnSpans, Trace};
use crate::telemetry::access::{Record, known_method};
use crate::telemetry::redact::Redacted;

/// The upstream's part of a request.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamPart {
    /// From the request's first byte to the first attempt.
    pub began: Duration,
    /// From the request's first byte to the head of the answer, or to the end where none came.
    pub ended: Duration,
    /// Whether the head of an answer came.
    pub is_answered: bool,
}

/// The spans of a request that has just ended: its own, and one for the upstream's part in it, where it got that far.
/// None for a request that is not sampled.
pub fn of(trace: &Trace, record: &Record<'_>, scheme: &str, upstream: Option<UpstreamPart>) -> Vec<SpanData> {
    let Some(own) = trace.own.filter(OwnSpans::is_sampled) else {
        return Vec::new();
    };
    let end = SystemTime::now();
    let begin = end.checked_sub(record.duration).unwrap_or(end);
    let builder = Builder { trace, own, begin };
    let mut spans = vec![builder.server(record, scheme, end)];
    spans.extend(upstream.map(|part| builder.client(record, part)));
    spans
}

struct Builder<'t> {
    trace: &'t Trace,
    own: OwnSpans,
    /// When the request's first byte came.
    begin: SystemTime,
}

impl Builder<'_> {
    fn server(&self, record: &Record<'_>, scheme: &str, end: SystemTime) -> SpanData {
        let method = method(record);
        let name = match record.template {
            Some(template) => Cow::Owned(format!("{method} {template}")),
            None => Cow::Borrowed(method),
        };
        let mut attributes = Vec::with_capacity(16);
        attributes.extend([
            KeyValue::new("http.request.method", method),
            KeyValue::new("url.scheme", scheme.to_owned()),
            KeyValue::new("url.path", Redacted(record.target).to_string()),
            KeyValue::new("network.protocol.name", "http"),
            KeyValue::new("network.protocol.version", protocol_version(record.protocol)),
            KeyValue::new("client.address", record.client.ip().to_canonical().to_string()),
            KeyValue::new("http.request.body.size", count(record.bytes_in)),
            KeyValue::new("http.response.body.size", count(record.bytes_out)),
            KeyValue::new("gateway.request_id", record.request_id.to_owned()),
            KeyValue::new("gateway.overhead", record.own.as_secs_f64()),
        ]);
        let optional = [("http.route", record.template), ("gateway.family", record.family)];
        let named = optional.into_iter().filter_map(|(key, value)| Some((key, value?)));
        attributes.extend(named.map(|(key, value)| KeyValue::new(key, value.to_owned())));
        attributes.extend(status(record));
        let mut span = self.span(self.own.server, name, SpanKind::Server, attributes);
        span.parent_span_id = self.own.parent.map_or(OtelSpanId::INVALID, otel);
        span.parent_span_is_remote = self.own.parent.is_some();
        span.end_time = end;
        // A client's fault is no error of a server's span.
        if record.status.is_some_and(|status| status >= 500) {
            span.status = Status::error("");
        }
        span
    }

    fn client(&self, record: &Record<'_>, part: UpstreamPart) -> SpanData {
        let method = method(record);
        let mut attributes = Vec::with_capacity(8);
        attributes.push(KeyValue::new("http.request.method", method));
        attributes.extend(
            record
                .family
                .map(|family| KeyValue::new("peer.service", family.to_owned())),
        );
        if record.attempts > 1 {
            let resent = i64::try_from(record.attempts - 1).unwrap_or(i64::MAX);
            attributes.push(KeyValue::new("http.request.resend_count", resent));
        }
        attributes.extend(record.upstream.into_iter().flat_map(server));
        let is_error = !part.is_answered || record.status.is_some_and(|status| status >= 400);
        if part.is_answered && record.refusal.is_none() {
            attributes.extend(status(record));
        } else if let Some(refusal) = record.refusal {
            attributes.push(KeyValue::new("error.type", refusal.to_owned()));
        }
        let mut span = self.span(self.own.client, Cow::Borrowed(method), SpanKind::Client, attributes);
        span.parent_span_id = otel(self.own.server);
        span.start_time = self.begin + part.began;
        span.end_time = self.begin + part.ended;
        if is_error {
            span.status = Status::error("");
        }
        span
    }

    fn span(&self, id: SpanId, name: Cow<'static, str>, kind: SpanKind, attributes: Vec<KeyValue>) -> SpanData {
        let trace = OtelTraceId::from_bytes(self.trace.id.to_bits().to_be_bytes());
        let flags = TraceFlags::new(self.own.flags);
        SpanData {
            span_context: SpanContext::new(trace, otel(id), flags, false, TraceState::NONE),
            parent_span_id: OtelSpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: kind,
            name,
            start_time: self.begin,
            end_time: self.begin,
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder("gateway")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        }
    }
}

fn otel(id: SpanId) -> OtelSpanId {
    OtelSpanId::from_bytes(id.to_bits().to_be_bytes())
}

/// What the conventions call a method that is none of the known ones.
fn method(record: &Record<'_>) -> &'static str {
    match known_method(record.method) {
        "other" => "_OTHER",
        known => known,
    }
}

fn protocol_version(protocol: &str) -> &'static str {
    match protocol {
        "HTTP/2" => "2",
        "HTTP/1.0" => "1.0",
        _ => "1.1",
    }
}

/// The status, and what is wrong with it.
fn status(record: &Record<'_>) -> impl Iterator<Item = KeyValue> {
    let status = record
        .status
        .map(|status| KeyValue::new("http.response.status_code", i64::from(status)));
    let refusal = record.refusal.map(str::to_owned);
    let error = match (refusal, record.status) {
        (Some(refusal), _) => Some(refusal),
        (None, Some(status)) if status >= 500 => Some(status.to_string()),
        (None, None) => Some("client_gone".to_owned()),
        _ => None,
    };
    status
        .into_iter()
        .chain(error.map(|error| KeyValue::new("error.type", error)))
}

fn server(address: SocketAddr) -> [KeyValue; 2] {
    [
        KeyValue::new("server.address", address.ip().to_string()),
        KeyValue::new("server.port", i64::from(address.port())),
    ]
}

fn count(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
