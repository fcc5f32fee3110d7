//! Passive health: an endpoint whose requests fail in a row is left alone for a while, whatever its probe says.
//!
//! The share of endpoints that may be out at a time is held by the upstream, so failures of all of them, which are a
//! failure of something else, do not leave a family without endpoints. Times are milliseconds of a monotonic clock.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::reason::Reason;
use crate::config;

/// The most that a pause grows.
const MOST_TIMES: u32 = 10;

/// The rules of one family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    failures: u32,
    pause: u64,
    pub max_ejected: config::Share,
    pub slow_return: u64,
}

impl Rules {
    pub fn new(table: &config::Ejection) -> Self {
        let milliseconds = |duration: config::Duration| u64::try_from(duration.get().as_millis()).unwrap_or(u64::MAX);
        Self {
            failures: table.failures,
            pause: milliseconds(table.pause),
            max_ejected: table.max_ejected,
            slow_return: milliseconds(table.slow_return),
        }
    }
}

/// What requests have found out about one endpoint.
#[derive(Debug, Default)]
pub(super) struct Ejection {
    /// Failures in a row.
    streak: AtomicU32,
    /// Pauses in a row.
    times: AtomicU32,
    /// When the present pause ends, or the last one ended; 0 before the first.
    until: AtomicU64,
    reason: AtomicU8,
}

impl Ejection {
    /// Why the endpoint is out; none when it is not.
    pub fn out(&self, now: u64) -> Option<Reason> {
        if now >= self.until.load(Relaxed) {
            return None;
        }
        Some(Reason::of_code(self.reason.load(Relaxed)).unwrap_or(Reason::Refused))
    }

    /// When the last pause ended; 0 when there was none.
    pub fn ended(&self) -> u64 {
        self.until.load(Relaxed)
    }

    /// A request has gone well.
    pub fn succeeded(&self) {
        // Read first: this runs for each answer, and a write would make all cores wait for each other.
        if self.streak.load(Relaxed) != 0 {
            self.streak.store(0, Relaxed);
        }
    }

    /// A request has failed. Answers whether the endpoint is to be left alone.
    pub fn failed(&self, reason: Reason, rules: &Rules) -> bool {
        self.reason.store(reason.to_code(), Relaxed);
        let streak = self.streak.fetch_add(1, Relaxed).saturating_add(1);
        if streak >= rules.failures {
            // Held in place, so that the count cannot run over.
            self.streak.store(rules.failures, Relaxed);
            return true;
        }
        false
    }

    /// Starts a pause. One that follows soon after another lasts longer.
    pub fn eject(&self, rules: &Rules, now: u64) {
        let times = self.times.load(Relaxed).max(1);
        let last = self.until.load(Relaxed);
        let soon = last != 0 && now.saturating_sub(last) < rules.pause.saturating_mul(u64::from(times));
        let times = if soon { (times + 1).min(MOST_TIMES) } else { 1 };
        self.times.store(times, Relaxed);
        self.streak.store(0, Relaxed);
        let pause = rules.pause.saturating_mul(u64::from(times));
        self.until.store(now.saturating_add(pause), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_eject_and_pauses_grow() {
        let rules = Rules::new(&config::Ejection::default());
        let endpoint = Ejection::default();
        for _ in 0..4 {
            assert!(!endpoint.failed(Reason::Refused, &rules));
        }
        endpoint.succeeded();
        for _ in 0..4 {
            assert!(!endpoint.failed(Reason::Refused, &rules));
        }
        assert!(endpoint.failed(Reason::Status, &rules));
        assert_eq!(endpoint.out(100), None, "the upstream decides");
        endpoint.eject(&rules, 100);
        assert_eq!(endpoint.out(10_099), Some(Reason::Status));
        assert_eq!(endpoint.out(10_100), None);
        endpoint.eject(&rules, 11_000);
        assert_eq!(endpoint.ended(), 31_000);
        endpoint.eject(&rules, 32_000);
        assert_eq!(endpoint.ended(), 62_000);
        // After a good while it starts again.
        endpoint.eject(&rules, 500_000);
        assert_eq!(endpoint.ended(), 510_000);
    }
}
