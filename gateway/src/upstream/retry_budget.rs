//! Second attempts are a share of the requests of the last ten seconds, so that an upstream in trouble is not sent a
//! multiple of its traffic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::config::Share;

/// Seconds that count.
const SECONDS: u64 = 10;

/// The budget of one family. Times are seconds of a monotonic clock.
#[derive(Debug)]
pub(super) struct RetryBudget {
    share: Share,
    least: u64,
    /// Shared by all generations, or a reload would give a new budget.
    spent: Arc<Spent>,
}

/// What has happened in the last ten seconds.
#[derive(Debug, Default)]
struct Spent {
    requests: Window,
    retries: Window,
}

impl RetryBudget {
    /// `least` second attempts are allowed however few requests there are.
    pub fn new(share: Share, least: u32) -> Self {
        Self {
            share,
            least: u64::from(least),
            spent: Arc::default(),
        }
    }

    /// The same account under other rules, for the next generation.
    pub fn with_rules(&self, share: Share, least: u32) -> Self {
        Self {
            share,
            least: u64::from(least),
            spent: Arc::clone(&self.spent),
        }
    }

    /// A request has come.
    pub fn request(&self, now: u64) {
        self.spent.requests.add(now);
    }

    /// Takes a second attempt out of the budget. Answers whether there was one.
    pub fn take(&self, now: u64) -> bool {
        let allowed = self.share.of(self.spent.requests.sum(now)).max(self.least);
        // Of two who ask at once both may get the last one.
        if self.spent.retries.sum(now) >= allowed {
            return false;
        }
        self.spent.retries.add(now);
        true
    }
}

/// Counts by second.
#[derive(Debug, Default)]
struct Window {
    /// The second in the upper half, its count in the lower one.
    slots: [AtomicU64; SECONDS as usize],
}

impl Window {
    fn add(&self, now: u64) {
        let now = now & u64::from(u32::MAX);
        let Some(slot) = usize::try_from(now % SECONDS)
            .ok()
            .and_then(|index| self.slots.get(index))
        else {
            return;
        };
        let held = slot.load(Relaxed);
        if held >> 32 == now {
            // 4 billion in a second do not happen.
            slot.fetch_add(1, Relaxed);
        } else if slot.compare_exchange(held, now << 32 | 1, Relaxed, Relaxed).is_err() {
            // Another one has begun the second.
            slot.fetch_add(1, Relaxed);
        }
    }

    fn sum(&self, now: u64) -> u64 {
        let now = now & u64::from(u32::MAX);
        let counts = self.slots.iter().map(|slot| slot.load(Relaxed));
        counts
            .filter(|held| now.saturating_sub(held >> 32) < SECONDS)
            .map(|held| held & u64::from(u32::MAX))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_attempts_are_a_share_of_the_requests_of_ten_seconds() {
        let budget = RetryBudget::new(Share::percent(20), 2);
        assert!(budget.take(5) && budget.take(5));
        assert!(!budget.take(5));
        for second in 5..15 {
            for _ in 0..10 {
                budget.request(second);
            }
        }
        // A hundred requests and two second attempts so far.
        for left in (0..18).rev() {
            assert!(budget.take(14), "{left} left");
        }
        assert!(!budget.take(14));
        // Ten of the requests and the first two attempts are too old, but the others are not.
        assert!(!budget.take(15));
        assert!(budget.take(24) && budget.take(24) && !budget.take(24));
        assert!(budget.take(100));
    }
}
