//! Traces: which one a request belongs to, and the spans that are told of it.
//!
//! 1. [`Tracer::begin`] continues the client's trace or begins one ([`context`]), and decides whether it is sampled.
//! 2. The upstream gets a `traceparent` of its own, so that its spans stand below the gateway's.
//! 3. At the end of a sampled request its two [`span`]s are queued; [`export`] sends them to the [`collector`].
//!
//! The request's way ends at the queue: where that is full, spans are dropped and counted. Without a collector nothing
//! of this happens, and `traceparent` passes as it came.

pub mod collector;
pub mod context;
pub mod export;
pub mod span;

use http::HeaderMap;
use opentelemetry_sdk::trace::SpanData;
use prometheus::IntCounter;
use tokio::sync::mpsc;

use crate::config::{Parent, Share, Traces};
pub use context::TraceId;
use context::{SpanId, TraceParent};
pub use export::{ExportError, Exporter};

/// The trace of one request.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its id.
    pub id: TraceId,
    /// What the gateway adds to it; none where there is no collector, and the client's fields pass as they came.
    pub own: Option<OwnSpans>,
}

/// The gateway's part of a trace.
#[derive(Clone, Copy, Debug)]
pub struct OwnSpans {
    /// The client's span, where its trace is continued.
    parent: Option<SpanId>,
    /// The span of the request.
    server: SpanId,
    /// The span of the upstream's part in it.
    client: SpanId,
    /// The flags that go on to the upstream (W3C Trace Context level 2, section 3.2.2.5).
    flags: u8,
}

impl OwnSpans {
    /// Whether the spans are sent.
    pub fn is_sampled(&self) -> bool {
        self.flags & context::SAMPLED != 0
    }

    /// Whether the client's trace is continued, and so its `tracestate`.
    pub fn is_continued(&self) -> bool {
        self.parent.is_some()
    }
}

impl Trace {
    /// The trace that a client says that its request belongs to, where the gateway adds nothing to it.
    pub fn passing(headers: &HeaderMap) -> Option<Self> {
        let parent = TraceParent::of(headers)?;
        Some(Self {
            id: parent.trace,
            own: None,
        })
    }

    /// Whether its spans are sent.
    pub fn is_sampled(&self) -> bool {
        self.own.is_some_and(|own| own.is_sampled())
    }

    /// What the upstream is told; none where it is told what the client has said.
    pub fn traceparent(&self) -> Option<TraceParent> {
        self.own.map(|own| TraceParent {
            trace: self.id,
            span: own.client,
            flags: own.flags,
        })
    }
}

/// Begins traces, and takes spans for the collector.
#[derive(Debug)]
pub struct Tracer {
    queue: mpsc::Sender<SpanData>,
    wake: std::sync::Arc<tokio::sync::Notify>,
    dropped: IntCounter,
    threshold: u64,
    parent: Parent,
}

impl Tracer {
    /// The trace of a request with these headers, of a client that is a trusted proxy or is not.
    pub fn begin(&self, headers: &HeaderMap, is_trusted: bool) -> Trace {
        let is_heard = is_trusted || self.parent == Parent::Any;
        let parent = Some(headers).filter(|_| is_heard).and_then(TraceParent::of);
        let (id, flags) = match &parent {
            Some(parent) => (parent.trace, parent.flags & (context::SAMPLED | context::RANDOM)),
            None => {
                let id = TraceId::generate();
                let sampled = u8::from(id.position() < self.threshold);
                (id, sampled | context::RANDOM)
            }
        };
        let own = OwnSpans {
            parent: parent.map(|parent| parent.span),
            server: SpanId::generate(),
            client: SpanId::generate(),
            flags,
        };
        Trace { id, own: Some(own) }
    }

    /// Queues spans, or drops and counts them.
    pub fn send(&self, spans: impl IntoIterator<Item = SpanData>) {
        for span in spans {
            if self.queue.try_send(span).is_err() {
                self.dropped.inc();
            }
        }
        // Well before it is full, not to wait for the next batch's time.
        if self.queue.capacity() < self.queue.max_capacity() / 2 {
            self.wake.notify_one();
        }
    }
}

/// What [`TraceId::position`] is below for this share of ids.
fn threshold(sample: Share) -> u64 {
    if sample == Share::percent(100) {
        return u64::MAX;
    }
    sample.of(u64::MAX)
}

/// Starts to send spans as the table says. Answers nothing where it names no collector.
///
/// # Errors
/// An [`ExportError`]; a checked configuration causes none.
pub fn start(traces: &Traces, dropped: &IntCounter) -> Result<Option<(Tracer, Exporter)>, ExportError> {
    let Some(endpoint) = &traces.endpoint else {
        return Ok(None);
    };
    let (queue, waiting) = mpsc::channel(traces.queue);
    let wake = std::sync::Arc::default();
    let exporter = Exporter::start(traces, endpoint, waiting, std::sync::Arc::clone(&wake), dropped.clone())?;
    let tracer = Tracer {
        queue,
        wake,
        dropped: dropped.clone(),
        threshold: threshold(traces.sample),
        parent: traces.parent,
    };
    Ok(Some((tracer, exporter)))
}

#[cfg(test)]
mod tests;
