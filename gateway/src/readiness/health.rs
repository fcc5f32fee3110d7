//! The state of one family and the rules by which it changes.
//!
//! A probed family is written by its probe alone, so that no client can mark an upstream unhealthy. An
//! unprobed one follows the connections that requests make. Times are milliseconds of a monotonic clock.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::Reason;
use crate::config::{Probe, Ready, Upstream};

/// What is known of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Requests are forwarded.
    Ready,
    /// Requests are answered 503 `unavailable`.
    NotReady(Reason),
    /// Switched off by `enabled = false`: no part of any verdict, and requests are answered 503.
    Disabled,
}

/// One family's state, shared between requests, probes and whoever asks.
#[derive(Debug)]
pub(super) enum Health {
    Probed(Probed),
    Unprobed(Unprobed),
    Disabled,
}

impl Health {
    pub fn new(upstream: &Upstream) -> Self {
        match &upstream.ready {
            _ if !upstream.enabled => Self::Disabled,
            Ready::Probe(probe) => Self::Probed(Probed::new(probe)),
            Ready::Unprobed => Self::Unprobed(Unprobed::default()),
        }
    }

    pub fn state(&self, now: u64) -> State {
        match self {
            Self::Probed(probed) => probed.state(now),
            Self::Unprobed(unprobed) => unprobed.state(now),
            Self::Disabled => State::Disabled,
        }
    }

    /// Whether a request may be forwarded now.
    pub fn serves(&self, now: u64) -> bool {
        match self {
            Self::Probed(probed) => probed.state(now) == State::Ready,
            Self::Unprobed(unprobed) => unprobed.serves(now),
            Self::Disabled => false,
        }
    }
}

/// A family whose upstream is probed.
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

    fn state(&self, now: u64) -> State {
        match Reason::of_code(self.reason.load(Relaxed)) {
            Some(reason) => State::NotReady(reason),
            None if now.saturating_sub(self.completed.load(Relaxed)) > self.stale_after => {
                State::NotReady(Reason::Stale)
            }
            None => State::Ready,
        }
    }

    /// Takes a probe's result. Answers the new state when it changed.
    ///
    /// The first result after the start decides alone; after that `rise` successes or `fall` failures in a row
    /// are needed. Called by one task at a time.
    pub fn record(&self, result: Result<(), Reason>, now: u64) -> Option<State> {
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
        Some(after.map_or(State::Ready, State::NotReady))
    }

    fn count_against(&self) -> u32 {
        self.against.fetch_add(1, Relaxed).saturating_add(1)
    }
}

/// A family that is ready until connections to it fail.
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
    /// Failures in a row that make the family not ready.
    const FALL: u32 = 3;
    /// Milliseconds for which it then stays so.
    const PAUSE: u64 = 2_000;

    fn state(&self, now: u64) -> State {
        if self.failures.load(Relaxed) < Self::FALL || now >= self.retry_at.load(Relaxed) {
            return State::Ready;
        }
        State::NotReady(Reason::of_code(self.reason.load(Relaxed)).unwrap_or(Reason::Refused))
    }

    fn serves(&self, now: u64) -> bool {
        if self.failures.load(Relaxed) < Self::FALL {
            return true;
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
        let family = probed();
        assert_eq!(family.state(0), State::NotReady(Reason::Starting));
        assert_eq!(family.state(1_000_000), State::NotReady(Reason::Starting));
        assert_eq!(family.record(Ok(()), 5), Some(State::Ready));
        assert_eq!(family.state(5), State::Ready);
    }

    #[test]
    fn a_first_failure_gives_its_reason() {
        let family = probed();
        assert_eq!(family.record(Err(Reason::Dns), 5), Some(State::NotReady(Reason::Dns)));
        assert_eq!(family.state(5), State::NotReady(Reason::Dns));
    }

    #[test]
    fn fall_failures_in_a_row_and_rise_successes_in_a_row_are_needed() {
        let family = probed();
        let feed = |results: &[Result<(), Reason>]| -> Vec<bool> {
            results
                .iter()
                .map(|result| {
                    family.record(*result, 1);
                    family.state(1) == State::Ready
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
        let family = probed();
        family.record(Err(Reason::Refused), 1);
        assert_eq!(family.record(Err(Reason::Refused), 2), None);
        assert_eq!(
            family.record(Err(Reason::Timeout), 3),
            Some(State::NotReady(Reason::Timeout))
        );
        assert_eq!(family.record(Ok(()), 4), None);
    }

    #[test]
    fn a_state_that_is_not_renewed_is_stale() {
        let family = probed();
        family.record(Ok(()), 10_000);
        // Three intervals of 2 s and one timeout of 1 s.
        assert_eq!(family.state(17_000), State::Ready);
        assert_eq!(family.state(17_001), State::NotReady(Reason::Stale));
        family.record(Ok(()), 17_500);
        assert_eq!(family.state(17_500), State::Ready);
    }

    #[test]
    fn an_unprobed_family_follows_its_connections() {
        let family = Unprobed::default();
        assert_eq!(family.state(0), State::Ready);
        assert!(!family.failed(Reason::Refused, 100));
        assert!(!family.failed(Reason::Refused, 100));
        assert!(family.serves(100));
        assert!(family.failed(Reason::Timeout, 100));
        assert!(!family.failed(Reason::Timeout, 100));
        assert_eq!(family.state(101), State::NotReady(Reason::Timeout));
        assert!(!family.serves(2_099));
        // The pause is over: ready in the eyes of a balancer, and one request goes first.
        assert_eq!(family.state(2_100), State::Ready);
        assert!(family.serves(2_100));
        assert!(!family.serves(2_100));
        assert_eq!(family.state(2_101), State::NotReady(Reason::Timeout));
        assert!(family.connected());
        assert!(!family.connected());
        assert!(family.serves(2_102));
    }
}
