//! What is counted of reloads.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

use crate::reload::Outcome;

/// The counters and gauges of reloads.
#[derive(Debug)]
pub struct ReloadMetrics {
    outcomes: IntCounterVec,
    generation: IntGauge,
    last_success: IntGauge,
    last_successful: IntGauge,
}

impl ReloadMetrics {
    /// Adds them to a registry.
    ///
    /// # Errors
    /// The registry's, when a name is taken.
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            outcomes: IntCounterVec::new(
                Opts::new(
                    "gateway_reloads_total",
                    "Reloads of the configuration, by what came of them.",
                ),
                &["result"],
            )?,
            generation: IntGauge::new(
                "gateway_generation",
                "The number of the configuration in force; the first is 1.",
            )?,
            last_success: IntGauge::new(
                "gateway_reload_last_success_timestamp_seconds",
                "When the configuration in force was read, in seconds since 1970.",
            )?,
            last_successful: IntGauge::new(
                "gateway_reload_last_successful",
                "Whether the files held, at the last reload, what is in force: 1, or 0 when it was refused.",
            )?,
        };
        for outcome in Outcome::ALL {
            metrics.outcomes.with_label_values(&[outcome.as_str()]);
        }
        registry.register(Box::new(metrics.outcomes.clone()))?;
        registry.register(Box::new(metrics.generation.clone()))?;
        registry.register(Box::new(metrics.last_success.clone()))?;
        registry.register(Box::new(metrics.last_successful.clone()))?;
        Ok(metrics)
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

    /// Tells which generation is in force from this moment on.
    pub fn in_force(&self, generation: u64, now: SystemTime) {
        self.generation.set(i64::try_from(generation).unwrap_or(i64::MAX));
        self.confirm(now);
    }

    fn confirm(&self, now: SystemTime) {
        let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.last_success.set(i64::try_from(seconds).unwrap_or(i64::MAX));
        self.last_successful.set(1);
    }
}
