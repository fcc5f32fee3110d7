//! The gateway as a whole: readiness, build, and what its telemetry has lost.

use prometheus::{IntCounter, IntCounterVec, IntGauge, Result};

use super::series::Series;
use crate::admin::ADMISSION_REFUSALS;
use crate::proxy::Refusal;

/// What is known of the gateway at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct GatewayGauges {
    /// What `/readyz` says.
    pub ready: bool,
    /// Whether it is stopping.
    pub draining: bool,
    /// The most client connections at once.
    pub connections_limit: usize,
    /// Log lines dropped so far.
    pub log_lines_dropped: u64,
}

/// The handles of the process.
pub struct ProcessMetrics {
    ready: IntGauge,
    draining: IntGauge,
    upgrade_failures: IntCounter,
    admin_refusals: IntCounterVec,
    log_dropped: IntCounter,
    spans_dropped: IntCounter,
}

impl ProcessMetrics {
    pub(super) fn new(series: &Series<'_>) -> Result<Self> {
        #[cfg(target_os = "linux")]
        series
            .0
            .register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        let build = series.gauges(
            "gateway_build_info",
            "Always 1; the label tells the version.",
            &["version"],
        )?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let dropped = series.counters(
            "gateway_telemetry_dropped_total",
            "Log lines and spans that were dropped because nobody took them in time.",
            &["signal"],
        )?;
        let admin_refusals = series.counters(
            "gateway_admin_refusals_total",
            "Requests to the admin listener from callers that may not ask it, by the answer's code.",
            &["reason"],
        )?;
        for refusal in ADMISSION_REFUSALS {
            admin_refusals.with_label_values(&[refusal.code()]);
        }
        Ok(Self {
            admin_refusals,
            ready: series.gauge("gateway_ready", "What /readyz says: 1 or 0.")?,
            draining: series.gauge("gateway_draining", "Whether the gateway is stopping: 1 or 0.")?,
            upgrade_failures: series.counter(
                "gateway_upgrade_failures_total",
                "New binaries that were to take over from this process and did not.",
            )?,
            log_dropped: dropped.with_label_values(&["log"]),
            spans_dropped: dropped.with_label_values(&["trace"]),
        })
    }

    /// Counts a new binary that did not take over.
    pub fn count_upgrade_failure(&self) {
        self.upgrade_failures.inc();
    }

    /// Counts a request to the admin listener from somebody who may not ask it.
    pub fn count_admin_refusal(&self, refusal: Refusal) {
        self.admin_refusals.with_label_values(&[refusal.code()]).inc();
    }

    /// Counts spans that were dropped.
    pub fn spans_dropped(&self) -> &IntCounter {
        &self.spans_dropped
    }

    pub(super) fn set(&self, now: &GatewayGauges) {
        self.ready.set(i64::from(now.ready));
        self.draining.set(i64::from(now.draining));
        let counted = self.log_dropped.get();
        self.log_dropped.inc_by(now.log_lines_dropped.saturating_sub(counted));
    }
}
