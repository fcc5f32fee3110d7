//! Upstreams, by family. What upstreams count themselves is read when somebody asks.

use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Result};

use super::gauged;
use super::series::Series;
use crate::readiness::Reason;

/// The series of all forwarded families.
pub(super) struct UpstreamSeries {
    in_flight: IntGaugeVec,
    in_flight_limit: IntGaugeVec,
    queued: IntGaugeVec,
    ready: IntGaugeVec,
    endpoints: IntGaugeVec,
    ejections: IntCounterVec,
    probes: IntCounterVec,
    connections: IntCounterVec,
    connect_failures: IntCounterVec,
    retries: IntCounterVec,
}

/// Why a further attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCause {
    /// A connection was not made.
    Connect,
    /// A connection broke off before the answer.
    Resend,
}

/// What is known of one family's upstream at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpstreamGauges {
    /// Requests in flight.
    pub in_flight: usize,
    /// The most of them.
    pub in_flight_limit: usize,
    /// Requests that wait for a place in flight.
    pub queued: usize,
    /// Whether the family is ready.
    pub ready: bool,
    /// Its endpoints.
    pub endpoints: EndpointGauges,
    /// Endpoints left alone so far.
    pub ejections: u64,
    /// Probes so far that succeeded.
    pub probes_succeeded: u64,
    /// Probes so far that failed.
    pub probes_failed: u64,
}

/// Endpoints by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointGauges {
    /// They take requests.
    pub ready: usize,
    /// They do not, by their probe or the last connections.
    pub not_ready: usize,
    /// They are left alone for requests that failed.
    pub ejected: usize,
}

impl UpstreamSeries {
    pub fn new(series: &Series<'_>) -> Result<Self> {
        let gauges = |name, help| series.gauges(name, help, &["family"]);
        Ok(Self {
            in_flight: gauges("gateway_requests_in_flight", "Requests that are being forwarded now.")?,
            in_flight_limit: gauges(
                "gateway_requests_in_flight_limit",
                "The most requests of the family that may be forwarded at once.",
            )?,
            queued: gauges("gateway_requests_queued", "Requests that wait for a place in flight.")?,
            ready: gauges("gateway_upstream_ready", "Whether the family is ready: 1 or 0.")?,
            endpoints: series.gauges(
                "gateway_upstream_endpoints",
                "Endpoints of the family, by whether they take requests.",
                &["family", "state"],
            )?,
            ejections: series.counters(
                "gateway_upstream_ejections_total",
                "Endpoints that were left alone for failing requests.",
                &["family"],
            )?,
            probes: series.counters(
                "gateway_upstream_probes_total",
                "Probes of endpoints that ended, by result.",
                &["family", "result"],
            )?,
            connections: series.counters(
                "gateway_upstream_connections_total",
                "Connections that requests were sent on, new ones and those used before.",
                &["family", "kind"],
            )?,
            connect_failures: series.counters(
                "gateway_upstream_connect_failures_total",
                "Connections that were not made, by reason.",
                &["family", "reason"],
            )?,
            retries: series.counters(
                "gateway_upstream_retries_total",
                "Further attempts to have a request answered, by cause.",
                &["family", "cause"],
            )?,
        })
    }

    pub fn family(&self, name: &str) -> UpstreamMetrics {
        let counter = |series: &IntCounterVec, value: &str| series.with_label_values(&[name, value]);
        UpstreamMetrics {
            new: counter(&self.connections, "new"),
            reused: counter(&self.connections, "reused"),
            failures: Reason::ALL
                .iter()
                .map(|reason| counter(&self.connect_failures, reason.as_str()))
                .collect(),
            reconnected: counter(&self.retries, "connect"),
            resent: counter(&self.retries, "resend"),
        }
    }

    /// Forgets what is read when somebody asks.
    pub fn reset(&self) {
        let gauges = [&self.in_flight, &self.in_flight_limit, &self.queued, &self.ready];
        gauges.into_iter().chain([&self.endpoints]).for_each(IntGaugeVec::reset);
        self.ejections.reset();
        self.probes.reset();
    }

    pub fn set(&self, name: &str, now: &UpstreamGauges) {
        let set = |series: &IntGaugeVec, value| series.with_label_values(&[name]).set(value);
        set(&self.in_flight, gauged(now.in_flight));
        set(&self.in_flight_limit, gauged(now.in_flight_limit));
        set(&self.queued, gauged(now.queued));
        set(&self.ready, i64::from(now.ready));
        let EndpointGauges {
            ready,
            not_ready,
            ejected,
        } = now.endpoints;
        for (state, count) in [("ready", ready), ("not_ready", not_ready), ("ejected", ejected)] {
            self.endpoints.with_label_values(&[name, state]).set(gauged(count));
        }
        self.ejections.with_label_values(&[name]).inc_by(now.ejections);
        for (result, count) in [("success", now.probes_succeeded), ("failure", now.probes_failed)] {
            self.probes.with_label_values(&[name, result]).inc_by(count);
        }
    }
}

/// The handles of one forwarded family.
#[derive(Clone, Debug)]
pub struct UpstreamMetrics {
    new: IntCounter,
    reused: IntCounter,
    failures: Vec<IntCounter>,
    reconnected: IntCounter,
    resent: IntCounter,
}

impl UpstreamMetrics {
    /// Counts a connection that a request is sent on.
    pub fn count_connection(&self, is_reused: bool) {
        if is_reused { &self.reused } else { &self.new }.inc();
    }

    /// Counts a connection that was not made.
    pub fn count_connect_failure(&self, reason: Reason) {
        if let Some(counter) = self.failures.get(reason.index()) {
            counter.inc();
        }
    }

    /// Counts a further attempt.
    pub fn count_retry(&self, cause: RetryCause) {
        match cause {
            RetryCause::Connect => self.reconnected.inc(),
            RetryCause::Resend => self.resent.inc(),
        }
    }
}
