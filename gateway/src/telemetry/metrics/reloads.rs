//! What is counted of reloads.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec};

use super::series::Series;
use crate::reload::Outcome;

/// The counters and gauges of reloads.
#[derive(Debug)]
pub struct ReloadMetrics {
    outcomes: IntCounterVec,
    generation: IntGauge,
    last_success: IntGauge,
    last_successful: IntGauge,
    contract: IntGaugeVec,
}

impl ReloadMetrics {
    pub(super) fn new(series: &Series<'_>) -> prometheus::Result<Self> {
        let outcomes = series.counters(
            "gateway_reloads_total",
            "Reloads of the configuration, by what came of them.",
            &["result"],
        )?;
        for outcome in Outcome::ALL {
            outcomes.with_label_values(&[outcome.as_str()]);
        }
        Ok(Self {
            outcomes,
            generation: series.gauge(
                "gateway_generation",
                "The number of the configuration in force; the first is 1.",
            )?,
            last_success: series.gauge(
                "gateway_reload_last_success_timestamp_seconds",
                "When the configuration in force was read, in seconds since 1970.",
            )?,
            last_successful: series.gauge(
                "gateway_reload_last_successful",
                "Whether the files held, at the last reload, what is in force: 1, or 0 when it was refused.",
            )?,
            contract: series.gauges(
                "gateway_contract_info",
                "Always 1; the label tells the contract in force.",
                &["digest"],
            )?,
        })
    }

    /// Counts a reload.
    pub fn count(&self, outcome: Outcome) {
        self.outcomes.with_label_values(&[outcome.as_str()]).inc();
        match outcome {
            // What is the same was found to be in force still.
            Outcome::Unchanged => self.confirm(SystemTime::now()),
            Outcome::Refused => self.last_successful.set(0),
            Outcome::Applied => {}
        }
    }

    /// Tells which generation is in force from this moment on, and its contract.
    pub fn in_force(&self, generation: u64, digest: &str, now: SystemTime) {
        // There is one such series at a time.
        self.contract.reset();
        self.contract.with_label_values(&[digest]).set(1);
        self.generation.set(i64::try_from(generation).unwrap_or(i64::MAX));
        self.confirm(now);
    }

    fn confirm(&self, now: SystemTime) {
        let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.last_success.set(i64::try_from(seconds).unwrap_or(i64::MAX));
        self.last_successful.set(1);
    }
}
