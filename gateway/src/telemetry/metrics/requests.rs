//! Requests, by family.

use std::time::Duration;

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, Result};

use super::series::Series;
use crate::proxy::Refusal;

/// Status classes by the first digit; the first is for requests that got no answer.
const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// Seconds of whole requests and of upstreams.
const SECONDS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0,
];

/// Seconds of the gateway's own: tens of microseconds where all is well.
const OWN_SECONDS: [f64; 12] = [
    0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0,
];

/// Bytes of bodies: an empty one, 1 KiB, and so on by factors of sixteen.
const BYTES: [f64; 6] = [0.0, 1_024.0, 16_384.0, 262_144.0, 4_194_304.0, 67_108_864.0];

/// The series of all families.
pub(super) struct RequestSeries {
    requests: IntCounterVec,
    refusals: IntCounterVec,
    duration: HistogramVec,
    latency: HistogramVec,
    overhead: HistogramVec,
    request_bytes: HistogramVec,
    response_bytes: HistogramVec,
}

impl RequestSeries {
    pub fn new(series: &Series<'_>) -> Result<Self> {
        Ok(Self {
            requests: series.counters(
                "gateway_requests_total",
                "Requests that have ended, by class of status; none where the client left before an answer.",
                &["family", "status_class"],
            )?,
            refusals: series.counters(
                "gateway_refusals_total",
                "Requests that the gateway answered itself, by the answer's code.",
                &["family", "reason"],
            )?,
            duration: series.histograms(
                "gateway_request_duration_seconds",
                "From a request's first byte to the last byte of its answer.",
                &SECONDS,
            )?,
            latency: series.histograms(
                "gateway_upstream_latency_seconds",
                "From the first attempt to the head of the upstream's answer.",
                &SECONDS,
            )?,
            overhead: series.histograms(
                "gateway_overhead_seconds",
                "The gateway's own share: from the head to the first attempt, and of passing the answer's head on.",
                &OWN_SECONDS,
            )?,
            request_bytes: series.histograms(
                "gateway_request_body_bytes",
                "Bytes of requests' bodies that were read.",
                &BYTES,
            )?,
            response_bytes: series.histograms(
                "gateway_response_body_bytes",
                "Bytes of answers' bodies that were written.",
                &BYTES,
            )?,
        })
    }

    pub fn family(&self, name: &str, is_counting: bool) -> FamilyMetrics {
        FamilyMetrics {
            is_counting,
            classes: CLASSES
                .iter()
                .map(|class| self.requests.with_label_values(&[name, class]))
                .collect(),
            refusals: Refusal::ALL
                .iter()
                .filter(|refusal| refusal.is_public())
                .map(|refusal| self.refusals.with_label_values(&[name, refusal.code()]))
                .collect(),
            duration: self.duration.with_label_values(&[name]),
            latency: self.latency.with_label_values(&[name]),
            overhead: self.overhead.with_label_values(&[name]),
            request_bytes: self.request_bytes.with_label_values(&[name]),
            response_bytes: self.response_bytes.with_label_values(&[name]),
        }
    }
}

/// The handles of one family.
#[derive(Clone, Debug)]
pub struct FamilyMetrics {
    is_counting: bool,
    classes: Vec<IntCounter>,
    refusals: Vec<IntCounter>,
    duration: Histogram,
    latency: Histogram,
    overhead: Histogram,
    request_bytes: Histogram,
    response_bytes: Histogram,
}

/// What is measured of a request that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    /// From its first byte to its end.
    pub total: Duration,
    /// From the first attempt to the head of the upstream's answer; none without such an answer.
    pub upstream: Option<Duration>,
    /// The gateway's own share.
    pub own: Duration,
    /// Bytes of its body that were read.
    pub bytes_in: u64,
    /// Bytes of its answer's body that were written.
    pub bytes_out: u64,
}

/// What has been counted of one family since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that have ended.
    pub requests: u64,
    /// Those of them that were answered 5xx.
    pub errors: u64,
}

impl FamilyMetrics {
    /// What has been counted so far.
    pub fn totals(&self) -> Totals {
        Totals {
            requests: self.classes.iter().map(IntCounter::get).sum(),
            errors: self.classes.get(5).map_or(0, IntCounter::get),
        }
    }

    /// Counts a request with this status, or without an answer; `refusal` where the answer was the gateway's own.
    pub fn count(&self, status: Option<u16>, refusal: Option<Refusal>) {
        if !self.is_counting {
            return;
        }
        let class = status.map_or(0, |status| usize::from(status / 100));
        if let Some(counter) = self.classes.get(class) {
            counter.inc();
        }
        if let Some(counter) = refusal.and_then(|refusal| self.refusals.get(refusal.index())) {
            counter.inc();
        }
    }

    /// Adds what was measured of a request.
    pub fn measure(&self, ended: &Ended) {
        if !self.is_counting {
            return;
        }
        self.duration.observe(ended.total.as_secs_f64());
        self.overhead.observe(ended.own.as_secs_f64());
        if let Some(upstream) = ended.upstream {
            self.latency.observe(upstream.as_secs_f64());
        }
        self.request_bytes.observe(ended.bytes_in as f64);
        self.response_bytes.observe(ended.bytes_out as f64);
    }
}
