//! Counters and gauges in Prometheus' text format. Handles are taken once; the number of series is fixed by the
//! contract.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use super::reloads::ReloadMetrics;
use crate::listen::{HandshakeFault, HeadFault};
use crate::proxy::Refusal;

/// The family label of requests that have no family.
pub const NO_FAMILY: &str = "none";

/// Outcomes of new certificate files.
const LOADED: &str = "loaded";
const REFUSED: &str = "refused";

/// Status classes by the first digit; the first is for requests that got no answer.
const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// Seconds.
const BUCKETS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0,
];

/// All series of one process.
pub struct Metrics {
    /// Reloads of the configuration.
    pub reloads: ReloadMetrics,
    registry: Registry,
    requests: IntCounterVec,
    durations: HistogramVec,
    refusals: Vec<IntCounter>,
    in_flight: IntGaugeVec,
    waiting: IntGaugeVec,
    endpoints: IntGaugeVec,
    ready: IntGaugeVec,
    malformed: IntCounterVec,
    unparsed: IntCounter,
    handshake_faults: IntCounterVec,
    certificate_loads: IntCounterVec,
    certificate_expiry: IntGauge,
    connections: IntGauge,
    accepted: IntCounter,
    crowded: IntCounter,
    retries: IntCounter,
    upgrade_failures: IntCounter,
    log_lines_lost: IntGauge,
    contract: IntGaugeVec,
}

/// The handles of one family.
#[derive(Clone, Debug)]
pub struct FamilyMetrics {
    classes: Vec<IntCounter>,
    duration: Histogram,
}

/// What is gauged of one family at one moment.
#[derive(Clone, Copy, Debug)]
pub struct FamilyGauges {
    /// Requests in flight.
    pub in_flight: usize,
    /// Requests that wait for a place in flight.
    pub waiting: usize,
    /// Whether the family is ready.
    pub ready: bool,
    /// Endpoints that take requests.
    pub endpoints_ready: usize,
    /// Endpoints that do not.
    pub endpoints_down: usize,
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

    /// Counts a request that has ended with this status, or without an answer.
    pub fn count(&self, status: Option<u16>, duration: Duration) {
        let class = status.map_or(0, |status| usize::from(status / 100));
        if let Some(counter) = self.classes.get(class) {
            counter.inc();
        }
        self.duration.observe(duration.as_secs_f64());
    }
}

impl Metrics {
    /// The series that do not depend on a contract.
    ///
    /// # Errors
    /// Two series of one name, or a name that Prometheus does not allow: a fault in this file.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let refusals_by_reason = IntCounterVec::new(
            Opts::new(
                "gateway_refusals_total",
                "Requests that the gateway answered itself, by the answer's code.",
            ),
            &["reason"],
        )?;
        let refusals = Refusal::ALL
            .iter()
            .filter(|refusal| refusal.is_public())
            .map(|refusal| refusals_by_reason.with_label_values(&[refusal.code()]))
            .collect();
        let metrics = Self {
            requests: IntCounterVec::new(
                Opts::new(
                    "gateway_requests_total",
                    "Requests that have ended, by family and class of status.",
                ),
                &["family", "status_class"],
            )?,
            durations: HistogramVec::new(
                HistogramOpts::new(
                    "gateway_request_duration_seconds",
                    "From a request's first byte to the last byte of its answer.",
                )
                .buckets(BUCKETS.to_vec()),
                &["family"],
            )?,
            refusals,
            in_flight: IntGaugeVec::new(
                Opts::new("gateway_in_flight", "Requests that are being forwarded now."),
                &["family"],
            )?,
            waiting: IntGaugeVec::new(
                Opts::new("gateway_waiting", "Requests that wait for a place in flight."),
                &["family"],
            )?,
            endpoints: IntGaugeVec::new(
                Opts::new(
                    "gateway_upstream_endpoints",
                    "Endpoints of the family, by whether they take requests.",
                ),
                &["family", "state"],
            )?,
            ready: IntGaugeVec::new(
                Opts::new(
                    "gateway_upstream_ready",
                    "Whether requests of the family are forwarded: 1 or 0.",
                ),
                &["family"],
            )?,
            malformed: IntCounterVec::new(
                Opts::new(
                    "gateway_malformed_requests_total",
                    "Heads that never became a request, by fault.",
                ),
                &["fault"],
            )?,
            unparsed: IntCounter::new(
                "gateway_unparsed_requests_total",
                "Heads that the gateway found sound and its HTTP library did not. Anything but 0 is a fault.",
            )?,
            handshake_faults: IntCounterVec::new(
                Opts::new(
                    "gateway_tls_handshake_failures_total",
                    "Client connections that ended in their TLS handshake, by reason.",
                ),
                &["reason"],
            )?,
            certificate_loads: IntCounterVec::new(
                Opts::new(
                    "gateway_tls_reloads_total",
                    "Changes of the listener's certificate files, by whether they were taken over.",
                ),
                &["outcome"],
            )?,
            certificate_expiry: IntGauge::new(
                "gateway_tls_certificate_expiry_seconds",
                "When the first of the listener's certificates expires, in seconds since 1970; 0 without TLS.",
            )?,
            connections: IntGauge::new("gateway_connections", "Open client connections.")?,
            crowded: IntCounter::new(
                "gateway_connections_crowded_total",
                "Client connections closed at once because their network has too many.",
            )?,
            accepted: IntCounter::new("gateway_connections_accepted_total", "Client connections accepted.")?,
            retries: IntCounter::new(
                "gateway_upstream_retries_total",
                "Further attempts to reach an upstream.",
            )?,
            upgrade_failures: IntCounter::new(
                "gateway_upgrade_failures_total",
                "New binaries that were to take over from this process and did not.",
            )?,
            log_lines_lost: IntGauge::new(
                "gateway_log_lines_lost",
                "Log lines dropped since the start because standard output was too slow.",
            )?,
            contract: IntGaugeVec::new(
                Opts::new(
                    "gateway_contract_info",
                    "Always 1; the label tells the contract in force.",
                ),
                &["digest"],
            )?,
            reloads: ReloadMetrics::register(&registry)?,
            registry,
        };
        let build = IntGaugeVec::new(
            Opts::new("gateway_build_info", "Always 1; the labels tell."),
            &["version"],
        )?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        for fault in FAULTS {
            metrics.malformed.with_label_values(&[fault_label(fault)]);
        }
        for fault in HandshakeFault::ALL {
            metrics.handshake_faults.with_label_values(&[fault.label()]);
        }
        for outcome in [LOADED, REFUSED] {
            metrics.certificate_loads.with_label_values(&[outcome]);
        }
        let registry = &metrics.registry;
        registry.register(Box::new(refusals_by_reason))?;
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.durations.clone()))?;
        registry.register(Box::new(metrics.in_flight.clone()))?;
        registry.register(Box::new(metrics.waiting.clone()))?;
        registry.register(Box::new(metrics.endpoints.clone()))?;
        registry.register(Box::new(metrics.ready.clone()))?;
        registry.register(Box::new(metrics.malformed.clone()))?;
        registry.register(Box::new(metrics.unparsed.clone()))?;
        registry.register(Box::new(metrics.handshake_faults.clone()))?;
        registry.register(Box::new(metrics.certificate_loads.clone()))?;
        registry.register(Box::new(metrics.certificate_expiry.clone()))?;
        registry.register(Box::new(metrics.connections.clone()))?;
        registry.register(Box::new(metrics.accepted.clone()))?;
        registry.register(Box::new(metrics.crowded.clone()))?;
        registry.register(Box::new(metrics.retries.clone()))?;
        registry.register(Box::new(metrics.upgrade_failures.clone()))?;
        registry.register(Box::new(metrics.log_lines_lost.clone()))?;
        registry.register(Box::new(metrics.contract.clone()))?;
        registry.register(Box::new(build))?;
        Ok(metrics)
    }

    /// The handles of a family, by its name in the contract.
    pub fn family(&self, name: &str) -> FamilyMetrics {
        FamilyMetrics {
            classes: CLASSES
                .iter()
                .map(|class| self.requests.with_label_values(&[name, class]))
                .collect(),
            duration: self.durations.with_label_values(&[name]),
        }
    }

    /// Counts an answer of the gateway's own.
    pub fn count_refusal(&self, refusal: Refusal) {
        if let Some(counter) = self.refusals.get(refusal.index()) {
            counter.inc();
        }
    }

    /// Counts a head that never became a request.
    pub fn count_malformed(&self, fault: HeadFault) {
        self.malformed.with_label_values(&[fault_label(fault)]).inc();
    }

    /// Counts a sound head that Pingora refused.
    pub fn count_unparsed(&self) {
        self.unparsed.inc();
    }

    /// Counts a client that did not get through its TLS handshake.
    pub fn count_handshake_fault(&self, fault: HandshakeFault) {
        self.handshake_faults.with_label_values(&[fault.label()]).inc();
    }

    /// Counts new certificate files that were taken over, or were not.
    pub fn count_certificate_load(&self, is_loaded: bool) {
        let outcome = if is_loaded { LOADED } else { REFUSED };
        self.certificate_loads.with_label_values(&[outcome]).inc();
    }

    /// Tells when the first of the listener's certificates expires.
    pub fn set_certificate_expiry(&self, expiry: SystemTime) {
        let seconds = expiry.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.certificate_expiry.set(i64::try_from(seconds).unwrap_or(i64::MAX));
    }

    /// Counts a further attempt to reach an upstream.
    pub fn count_retry(&self) {
        self.retries.inc();
    }

    /// Counts a new binary that did not take over.
    pub fn count_upgrade_failure(&self) {
        self.upgrade_failures.inc();
    }

    /// A client has connected.
    pub fn connection_opened(&self) {
        self.accepted.inc();
        self.connections.inc();
    }

    /// A client's connection was closed at once.
    pub fn connection_crowded(&self) {
        self.crowded.inc();
    }

    /// A client's connection has ended.
    pub fn connection_closed(&self) {
        self.connections.dec();
    }

    /// Tells which contract is in force; there is one such series at a time.
    pub fn set_contract(&self, digest: &str) {
        self.contract.reset();
        self.contract.with_label_values(&[digest]).set(1);
    }

    /// Sets the gauges of one forwarded family, just before [`Self::render`].
    pub fn set_family(&self, name: &str, now: &FamilyGauges) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.in_flight.with_label_values(&[name]).set(count(now.in_flight));
        self.waiting.with_label_values(&[name]).set(count(now.waiting));
        self.ready.with_label_values(&[name]).set(i64::from(now.ready));
        let endpoints = |state| self.endpoints.with_label_values(&[name, state]);
        endpoints("ready").set(count(now.endpoints_ready));
        endpoints("not_ready").set(count(now.endpoints_down));
    }

    /// Takes the gauges of a family out that is forwarded no more. Its counters stay: what they count has happened.
    pub fn forget_family(&self, name: &str) {
        // Nothing is to be removed where the family was never shown.
        for gauge in [&self.in_flight, &self.waiting, &self.ready] {
            let _removed = gauge.remove_label_values(&[name]);
        }
        for state in ["ready", "not_ready"] {
            let _removed = self.endpoints.remove_label_values(&[name, state]);
        }
    }

    /// Sets the number of log lines dropped so far.
    pub fn set_log_lines_lost(&self, lines: usize) {
        self.log_lines_lost.set(i64::try_from(lines).unwrap_or(i64::MAX));
    }

    /// Everything in the text exposition format, version 0.0.4.
    ///
    /// # Errors
    /// The encoder's; it writes to memory.
    pub fn render(&self) -> prometheus::Result<Vec<u8>> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

const FAULTS: [HeadFault; 9] = [
    HeadFault::Syntax,
    HeadFault::Version,
    HeadFault::Method,
    HeadFault::Target,
    HeadFault::Host,
    HeadFault::Framing,
    HeadFault::TargetTooLong,
    HeadFault::HeadTooLarge,
    HeadFault::Timeout,
];

fn fault_label(fault: HeadFault) -> &'static str {
    match fault {
        HeadFault::Syntax => "syntax",
        HeadFault::Version => "version",
        HeadFault::Method => "method",
        HeadFault::Target => "target",
        HeadFault::Host => "host",
        HeadFault::Framing => "framing",
        HeadFault::TargetTooLong => "target_too_long",
        HeadFault::HeadTooLarge => "head_too_large",
        HeadFault::Timeout => "timeout",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_exist_before_the_first_request() {
        let metrics = Metrics::new().unwrap();
        let family = metrics.family("workspace");
        let lines = |metrics: &Metrics| String::from_utf8(metrics.render().unwrap()).unwrap().lines().count();
        let before = lines(&metrics);
        family.count(Some(200), Duration::from_millis(3));
        family.count(None, Duration::from_millis(3));
        metrics.count_refusal(Refusal::NotFound);
        metrics.count_malformed(HeadFault::Host);
        assert_eq!(lines(&metrics), before);
        let text = String::from_utf8(metrics.render().unwrap()).unwrap();
        assert!(
            text.contains("gateway_requests_total{family=\"workspace\",status_class=\"2xx\"} 1"),
            "{text}"
        );
        assert!(
            text.contains("gateway_refusals_total{reason=\"not_found\"} 1"),
            "{text}"
        );
        assert!(
            text.contains("gateway_malformed_requests_total{fault=\"host\"} 1"),
            "{text}"
        );
    }
}
