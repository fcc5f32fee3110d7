//! Sends spans in batches, from a task of its own.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use prometheus::IntCounter;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::collector::Collector;
use crate::config::{Traces, UpstreamUrl};

/// Spans of one batch.
const BATCH: usize = 512;
/// The longest that a span waits for others to be sent with.
const INTERVAL: Duration = Duration::from_secs(1);
/// What the last batches may take when the gateway stops.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why spans cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ExportError(#[from] opentelemetry_otlp::ExporterBuildError);

/// The task that sends.
#[derive(Debug)]
pub struct Exporter {
    task: JoinHandle<()>,
    stop: Arc<Notify>,
}

impl Exporter {
    /// Starts to send what comes out of `waiting`. To be called within a tokio runtime.
    pub(super) fn start(
        traces: &Traces,
        endpoint: &UpstreamUrl,
        waiting: mpsc::Receiver<SpanData>,
        wake: Arc<Notify>,
        dropped: IntCounter,
    ) -> Result<Self, ExportError> {
        let timeout = traces.timeout.get();
        // What is sent where is the table's alone; credentials come from `OTEL_EXPORTER_OTLP_HEADERS`, so that they
        // stand in no file. A batch that fails is dropped: the next one is under way, and memory is bounded.
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(endpoint.clone(), timeout))
            .with_retry_policy(RetryPolicy::disabled())
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{endpoint}/v1/traces"))
            .with_timeout(timeout)
            .build()?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder_empty()
            .with_service_name(traces.service.clone())
            .with_attribute(version)
            .build();
        exporter.set_resource(&resource);
        let stop = Arc::new(Notify::new());
        let sending = Sending {
            exporter,
            waiting,
            wake,
            dropped,
            is_failing: false,
        };
        let task = tokio::spawn(sending.run(Arc::clone(&stop)));
        Ok(Self { task, stop })
    }

    /// Sends what waits, for a short while, and ends.
    pub async fn finish(self) {
        self.stop.notify_one();
        let mut task = self.task;
        if tokio::time::timeout(FAREWELL, &mut task).await.is_err() {
            task.abort();
        }
    }
}

struct Sending {
    exporter: SpanExporter,
    waiting: mpsc::Receiver<SpanData>,
    wake: Arc<Notify>,
    dropped: IntCounter,
    is_failing: bool,
}

impl Sending {
    async fn run(mut self, stop: Arc<Notify>) {
        loop {
            let is_last = tokio::select! {
                () = stop.notified() => true,
                () = self.wake.notified() => false,
                () = tokio::time::sleep(INTERVAL) => false,
            };
            while let Some(batch) = self.batch() {
                self.send(batch).await;
            }
            if is_last {
                return;
            }
        }
    }

    /// What waits now, or a part of it.
    fn batch(&mut self) -> Option<Vec<SpanData>> {
        let length = self.waiting.len().min(BATCH);
        let mut batch = Vec::with_capacity(length);
        while batch.len() < length {
            batch.push(self.waiting.try_recv().ok()?);
        }
        (length > 0).then_some(batch)
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let spans = batch.len() as u64;
        let is_sent = self.exporter.export(batch).await.is_ok();
        if !is_sent {
            self.dropped.inc_by(spans);
        }
        // Once for each change: a collector that is gone would else fill the log.
        if is_sent == self.is_failing {
            self.is_failing = !is_sent;
            if is_sent {
                tracing::info!("the collector takes spans again");
            } else {
                tracing::warn!(spans, "the collector takes no spans: they are dropped and counted");
            }
        }
    }
}
