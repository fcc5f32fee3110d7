//! Step 8, record: what the gateway tells its operators. Labels and codes come from closed sets; nothing that a client
//! can choose becomes a label, no credential or value of a query is ever written, and an upstream's address only where
//! that is asked for.

pub mod access;
pub mod json_line;
pub mod log;
pub mod log_file;
pub mod metrics;
pub mod redact;
pub mod sink;
pub mod trace;

use std::sync::Arc;

use http::HeaderMap;

use access::{AccessLog, Record};
use metrics::Metrics;
use trace::span::{self, UpstreamPart};
use trace::{Trace, Tracer};

/// What requests are recorded with.
#[derive(Debug)]
pub struct Telemetry {
    /// All counters.
    pub metrics: Arc<Metrics>,
    /// Takes records, where they are wanted.
    pub access: Option<AccessLog>,
    /// Begins traces, where there is a collector.
    pub tracer: Option<Tracer>,
    /// Whether records and spans name the address of the endpoint that a request went to.
    pub names_upstream: bool,
}

impl Telemetry {
    /// The trace that a request belongs to, by its client's headers; `is_trusted` for a client that is a trusted proxy.
    pub fn trace(&self, headers: &HeaderMap, is_trusted: bool) -> Option<Trace> {
        match &self.tracer {
            Some(tracer) => Some(tracer.begin(headers, is_trusted)),
            None => Trace::passing(headers),
        }
    }

    /// A trace for a request whose client has none; none where there is no collector.
    pub fn begin_trace(&self) -> Option<Trace> {
        self.tracer
            .as_ref()
            .map(|tracer| tracer.begin(&HeaderMap::new(), false))
    }

    /// Records a request that has ended: in the access log, and in its trace.
    pub fn record(&self, record: &Record<'_>, trace: Option<&Trace>, scheme: &str, upstream: Option<UpstreamPart>) {
        if let Some(access) = &self.access {
            access.write(record);
        }
        if let (Some(tracer), Some(trace)) = (&self.tracer, trace)
            && trace.is_sampled()
        {
            tracer.send(span::of(trace, record, scheme, upstream));
        }
    }
}
