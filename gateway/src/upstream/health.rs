//! Active health: the state of one endpoint and the rules by which it changes.
//!
//! A probed endpoint is written by its probe alone, so that no client can mark it unhealthy. An unprobed one follows
//! the connections that requests make. Times are milliseconds of a monotonic clock.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::Reason;
use crate::config::{Probe, Ready};

/// One endpoint's state, shared between requests, probes and whoever asks.
#[derive(Debug)]
pub(super) enum Health {
    Probed(Probed),
    Unprobed(Unprobed),
}

impl Health {
    pub fn new(ready: &Ready) -> Self {
        match ready {
            Ready::Probe(probe) => Self::Probed(Probed::new(probe)),
            Ready::Unprobed => Self::Unprobed(Unprobed::default()),
        }
    }

    /// Why the endpoint is not ready; none when it is. For those who only look.
    pub fn down(&self, now: u64) -> Option<Reason> {
        match self {
            Self::Probed(probed) => probed.down(now),
            Self::Unprobed(unprobed) => unprobed.down(now),
        }
    }

    /// Whether one request is to go first, to find out whether connections can be made again. Answers true to one
    /// who asks, until that one has had the time to.
    pub fn trial(&self, now: u64) -> bool {
        match self {
            Self::Probed(_) => false,
            Self::Unprobed(unprobed) => unprobed.trial(now),
        }
    }

    /// Whether there is nobody else to be let first: the rule for requests, where [`Self::down`] is the one for
    /// lookers.
    pub fn serves(&self, now: u64) -> bool {
        match self {
            Self::Probed(probed) => probed.down(now).is_none(),
            Self::Unprobed(unprobed) => unprobed.serves(),
        }
    }

    /// Takes a probe's result; an unprobed endpoint has none. Answers the new state when it changed.
    pub fn probed(&self, result: Result<(), Reason>, now: u64) -> Option<Result<(), Reason>> {
        match self {
            Self::Probed(probed) => probed.record(result, now),
            Self::Unprobed(_) => None,
        }
    }

    /// When the last probe was completed; none before the first, and for an unprobed endpoint.
    pub fn probed_at(&self) -> Option<u64> {
        match self {
            Self::Probed(probed) => Some(probed.completed.load(Relaxed)).filter(|completed| *completed != 0),
            Self::Unprobed(_) => None,
        }
    }

    /// A request's connection was made. Answers whether that ends a time of not being ready.
    pub fn connected(&self) -> bool {
        matches!(self, Self::Unprobed(unprobed) if unprobed.connected())
    }

    /// A request's connection failed. Answers whether that begins a time of not being ready.
    pub fn connect_failed(&self, reason: Reason, now: u64) -> bool {
        matches!(self, Self::Unprobed(unprobed) if unprobed.failed(reason, now))
    }
}

/// An endpoint that is probed.
#[derive(Debug)]
pub(super) struct Probed {
    rise: u32,
    fall: u32,
    /// The age from which the last completed probe says nothing any more.
    stale_after: u64,
    /// 0 when ready, else the reason's code.
    reason: AtomicU8,
    /// Results in a row that speak against the present state.
    against: AtomicU32,
    /// When the last probe was completed.
    completed: AtomicU64,
}

impl Probed {
    /// Probes that may fail to be completed before their state counts as stale.
    const MISSED: u64 = 3;

    fn new(probe: &Probe) -> Self {
        let milliseconds = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let timeout = milliseconds(probe.timeout.get());
        let period = milliseconds(probe.interval.get()).max(timeout);
        Self {
            rise: probe.rise,
            fall: probe.fall,
            stale_after: period.saturating_mul(Self::MISSED).saturating_add(timeout),
            reason: AtomicU8::new(Reason::Starting.to_code()),
            against: AtomicU32::new(0),
            completed: AtomicU64::new(0),
        }
    }

    fn down(&self, now: u64) -> Option<Reason> {
        match Reason::of_code(self.reason.load(Relaxed)) {
            None if now.saturating_sub(self.completed.load(Relaxed)) > self.stale_after => Some(Reason::Stale),
            reason => reason,
        }
    }

    /// Takes a probe's result. Answers the new state when it changed.
    ///
    /// The first result after the start decides alone; after that `rise` successes or `fall` failures in a row
    /// are needed. Called by one task at a time.
    pub fn record(&self, result: Result<(), Reason>, now: u64) -> Option<Result<(), Reason>> {
        let before = Reason::of_code(self.reason.load(Relaxed));
        let after = match (before, result) {
            (None, Ok(())) => {
                self.against.store(0, Relaxed);
                None
            }
            (None, Err(reason)) => (self.count_against() >= self.fall).then_some(reason),
            (Some(Reason::Starting), Ok(())) => None,
            (Some(reason), Ok(())) => (self.count_against() < self.rise).then_some(reason),
            (Some(_), Err(reason)) => {
                self.against.store(0, Relaxed);
                Some(reason)
            }
        };
        self.completed.store(now, Relaxed);
        if after == before {
            return None;
        }
        if after.is_some() != before.is_some() {
            self.against.store(0, Relaxed);
        }
        self.reason.store(after.map_or(0, Reason::to_code), Relaxed);
        Some(after.map_or(Ok(()), Err))
    }

    fn count_against(&self) -> u32 {
        self.against.fetch_add(1, Relaxed).saturating_add(1)
    }
}

/// An endpoint that is ready until connections to it fail.
///
/// After [`Unprobed::FALL`] failures in a row it is not ready for [`Unprobed::PAUSE`]. Then it counts as ready
/// again, since no traffic would otherwise ever come to prove it, but one request alone goes first: until that
/// one has connected, the next pause runs.
#[derive(Debug, Default)]
pub(super) struct Unprobed {
    failures: AtomicU32,
    reason: AtomicU8,
    /// When the present pause ends.
    retry_at: AtomicU64,
}

impl Unprobed {
    /// Failures in a row that make the endpoint not ready.
    const FALL: u32 = 3;
    /// Milliseconds for which it then stays so.
    const PAUSE: u64 = 2_000;

    fn down(&self, now: u64) -> Option<Reason> {
        if self.serves() || now >= self.retry_at.load(Relaxed) {
            return None;
        }
        Some(Reason::of_code(self.reason.load(Relaxed)).unwrap_or(Reason::Refused))
    }

    fn serves(&self) -> bool {
        self.failures.load(Relaxed) < Self::FALL
    }

    fn trial(&self, now: u64) -> bool {
        if self.serves() {
            return false;
        }
        let retry_at = self.retry_at.load(Relaxed);
        // Of all requests that come after the pause, the one that moves its end goes first.
        now >= retry_at
            && self
                .retry_at
                .compare_exchange(retry_at, now.saturating_add(Self::PAUSE), Relaxed, Relaxed)
                .is_ok()
    }

    /// A connection was made. Answers whether that ends a time of not being ready.
    pub fn connected(&self) -> bool {
        // Read first: this runs for each request, and a write would make all cores wait for each other.
        self.failures.load(Relaxed) != 0 && self.failures.swap(0, Relaxed) >= Self::FALL
    }

    /// A connection failed. Answers whether that begins a time of not being ready.
    pub fn failed(&self, reason: Reason, now: u64) -> bool {
        self.reason.store(reason.to_code(), Relaxed);
        let before = self.failures.fetch_add(1, Relaxed);
        if before.saturating_add(1) < Self::FALL {
            return false;
        }
        // Held in place, so that the count cannot run over.
        self.failures.store(Self::FALL, Relaxed);
        self.retry_at.store(now.saturating_add(Self::PAUSE), Relaxed);
        before.saturating_add(1) == Self::FALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interval 2 s, timeout 1 s, rise 2, fall 3.
    fn probed() -> Probed {
        Probed::new(&Probe::of_path("/readyz"))
    }

    #[test]
    fn not_ready_before_the_first_probe_and_ready_after_one_success() {
        let endpoint = probed();
        assert_eq!(endpoint.down(0), Some(Reason::Starting));
        assert_eq!(endpoint.down(1_000_000), Some(Reason::Starting));
        assert_eq!(endpoint.record(Ok(()), 5), Some(Ok(())));
        assert_eq!(endpoint.down(5), None);
    }

    #[test]
    fn a_first_failure_gives_its_reason() {
        let endpoint = probed();
        assert_eq!(endpoint.record(Err(Reason::Dns), 5), Some(Err(Reason::Dns)));
        assert_eq!(endpoint.down(5), Some(Reason::Dns));
    }

    #[test]
    fn fall_failures_in_a_row_and_rise_successes_in_a_row_are_needed() {
        let endpoint = probed();
        let feed = |results: &[Result<(), Reason>]| -> Vec<bool> {
            results
                .iter()
                .map(|result| {
                    endpoint.record(*result, 1);
                    endpoint.down(1).is_none()
                })
                .collect()
        };
        let bad = Err(Reason::Status);
        assert_eq!(
            feed(&[Ok(()), bad, bad, Ok(()), bad, bad, bad]),
            [true, true, true, true, true, true, false]
        );
        assert_eq!(
            feed(&[Ok(()), bad, Ok(()), Ok(()), bad]),
            [false, false, false, true, true]
        );
    }

    #[test]
    fn the_reason_follows_the_last_failure() {
        let endpoint = probed();
        endpoint.record(Err(Reason::Refused), 1);
        assert_eq!(endpoint.record(Err(Reason::Refused), 2), None);
        assert_eq!(endpoint.record(Err(Reason::Timeout), 3), Some(Err(Reason::Timeout)));
        assert_eq!(endpoint.record(Ok(()), 4), None);
    }

    #[test]
    fn a_state_that_is_not_renewed_is_stale() {
        let endpoint = probed();
        endpoint.record(Ok(()), 10_000);
        // Three intervals of 2 s and one timeout of 1 s.
        assert_eq!(endpoint.down(17_000), None);
        assert_eq!(endpoint.down(17_001), Some(Reason::Stale));
        endpoint.record(Ok(()), 17_500);
        assert_eq!(endpoint.down(17_500), None);
    }

    #[test]
    fn an_unprobed_endpoint_follows_its_connections() {
        let endpoint = Unprobed::default();
        assert_eq!(endpoint.down(0), None);
        assert!(!endpoint.failed(Reason::Refused, 100));
        assert!(!endpoint.failed(Reason::Refused, 100));
        assert!(endpoint.serves() && !endpoint.trial(100));
        assert!(endpoint.failed(Reason::Timeout, 100));
        assert!(!endpoint.failed(Reason::Timeout, 100));
        assert_eq!(endpoint.down(101), Some(Reason::Timeout));
        assert!(!endpoint.serves() && !endpoint.trial(2_099));
        // The pause is over: ready in the eyes of a balancer, and one request goes first.
        assert_eq!(endpoint.down(2_100), None);
        assert!(endpoint.trial(2_100));
        assert!(!endpoint.trial(2_100));
        assert_eq!(endpoint.down(2_101), Some(Reason::Timeout));
        assert!(endpoint.connected());
        assert!(!endpoint.connected());
        assert!(endpoint.serves() && !endpoint.trial(2_102));
    }
}
