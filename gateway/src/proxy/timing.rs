//! Where a request's time goes: to the gateway, to the queue, or to the upstream.

use std::time::{Duration, Instant};

/// The marks of one request, from its complete head on.
#[derive(Debug)]
pub struct Timing {
    head: Instant,
    queued: Duration,
    attempted: Option<Instant>,
    answered: Option<Instant>,
    passed_on: Option<Instant>,
}

impl Timing {
    /// Begins where the head of a request is complete.
    pub fn begin(head: Instant) -> Self {
        Self {
            head,
            queued: Duration::ZERO,
            attempted: None,
            answered: None,
            passed_on: None,
        }
    }

    /// The request waited so long for its place.
    pub fn queued(&mut self, waited: Duration) {
        self.queued = waited;
    }

    /// An attempt begins; the first one counts.
    pub fn attempt(&mut self) {
        self.attempted.get_or_insert_with(Instant::now);
    }

    /// The head of the upstream's answer is there.
    pub fn answered(&mut self) {
        self.answered = Some(Instant::now());
    }

    /// The head of an answer, the upstream's or the gateway's own, is about to be sent.
    pub fn pass_on(&mut self) {
        self.passed_on = Some(Instant::now());
    }

    /// When the first attempt began, and when the head of an answer came of it.
    pub fn upstream(&self) -> Option<(Instant, Option<Instant>)> {
        Some((self.attempted?, self.answered))
    }

    /// From the first attempt to the head of the upstream's answer.
    pub fn upstream_latency(&self) -> Option<Duration> {
        Some(self.answered?.saturating_duration_since(self.attempted?))
    }

    /// The gateway's own share: up to the first attempt, or to an answer without one, and from the head of the
    /// upstream's answer to its being passed on. Time in the queue is none of it.
    pub fn own(&self, ended: Instant) -> Duration {
        let first = self.attempted.or(self.passed_on).unwrap_or(ended);
        let before = first.saturating_duration_since(self.head).saturating_sub(self.queued);
        let after = match (self.answered, self.passed_on) {
            (Some(answered), Some(passed_on)) => passed_on.saturating_duration_since(answered),
            _ => Duration::ZERO,
        };
        before + after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_told_apart() {
        let head = Instant::now();
        let at = |milliseconds| Some(head + Duration::from_millis(milliseconds));
        let own = |queued, attempted, answered, passed_on| {
            let timing = Timing {
                head,
                queued: Duration::from_millis(queued),
                attempted,
                answered,
                passed_on,
            };
            let latency = timing.upstream_latency().map(|latency| latency.as_millis());
            (timing.own(head + Duration::from_millis(1_000)).as_millis(), latency)
        };
        assert_eq!(own(0, at(2), at(100), at(101)), (3, Some(98)), "forwarded");
        assert_eq!(own(50, at(52), at(100), at(101)), (3, Some(48)), "after a queue");
        assert_eq!(own(0, None, None, at(4)), (4, None), "refused");
        assert_eq!(own(500, None, None, at(504)), (4, None), "refused after a queue");
        assert_eq!(own(0, at(2), None, at(400)), (2, None), "no answer came");
        assert_eq!(own(0, None, None, None), (1_000, None), "the client left");
    }
}
