//! Rates of the last minutes, for the status page's charts: a bounded ring for each family, sampled from the counters.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::telemetry::metrics::Totals;

/// From one sample to the next.
pub const STEP: Duration = Duration::from_secs(5);

/// Samples that are kept of a family: a quarter of an hour.
pub const KEPT: usize = 180;

/// Requests and errors a second over one step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Requests that ended.
    pub requests: f64,
    /// Those of them that were answered 5xx.
    pub errors: f64,
}

/// What was sampled so far.
#[derive(Debug, Default)]
pub struct History(Mutex<Samples>);

#[derive(Debug, Default)]
struct Samples {
    taken: Option<Instant>,
    families: BTreeMap<String, Family>,
}

#[derive(Debug, Default)]
struct Family {
    last: Totals,
    rates: VecDeque<Rates>,
}

impl History {
    /// Takes one sample. Families that are not among `totals` are forgotten; of a family that is new, the rates begin
    /// with the next sample.
    pub fn sample<'n>(&self, now: Instant, totals: impl Iterator<Item = (&'n str, Totals)>) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = samples.taken.replace(now).map(|before| (now - before).as_secs_f64());
        let mut before = std::mem::take(&mut samples.families);
        for (name, total) in totals {
            let mut family = before.remove(name).map_or_else(
                || Family {
                    last: total,
                    ..Family::default()
                },
                |mut family| {
                    if let Some(seconds) = passed.filter(|seconds| *seconds > 0.0) {
                        family.push(total, seconds);
                    }
                    family
                },
            );
            family.last = total;
            samples.families.insert(name.to_owned(), family);
        }
    }

    /// The rates of a family, the oldest first.
    pub fn rates(&self, family: &str) -> Vec<Rates> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        samples
            .families
            .get(family)
            .map_or_else(Vec::new, |family| family.rates.iter().copied().collect())
    }
}

impl Family {
    fn push(&mut self, total: Totals, seconds: f64) {
        let rate = |now: u64, before: u64| {
            // Beyond 2^53 requests the last digits are lost, which no chart shows.
            let grown = now.saturating_sub(before) as f64;
            (grown / seconds * 1_000.0).round() / 1_000.0
        };
        if self.rates.len() >= KEPT {
            self.rates.pop_front();
        }
        self.rates.push_back(Rates {
            requests: rate(total.requests, self.last.requests),
            errors: rate(total.errors, self.last.errors),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(requests: u64, errors: u64) -> Totals {
        Totals { requests, errors }
    }

    #[tokio::test(start_paused = true)]
    async fn rates_are_of_the_time_that_passed_and_bounded() {
        let history = History::default();
        let start = Instant::now();
        history.sample(start, [("a", total(100, 10)), ("gone", total(1, 1))].into_iter());
        assert_eq!(history.rates("a"), []);
        let at = |seconds| start + Duration::from_secs(seconds);
        history.sample(at(5), [("a", total(150, 11))].into_iter());
        history.sample(at(15), [("a", total(250, 11)), ("new", total(9, 0))].into_iter());
        let rates = |requests, errors| Rates { requests, errors };
        assert_eq!(history.rates("a"), [rates(10.0, 0.2), rates(10.0, 0.0)]);
        assert_eq!(history.rates("gone"), []);
        assert_eq!(history.rates("new"), []);
        for step in 0..1_000 {
            history.sample(at(20 + step), [("a", total(250 + step, 11))].into_iter());
        }
        assert_eq!(history.rates("a").len(), KEPT);
        assert_eq!(history.rates("a").last(), Some(&rates(1.0, 0.0)));
    }
}
