//! How long a request may take, watched by whoever waits for its client.
//!
//! Pingora has a limit for each single read and none for what they add up to. While it waits for an upstream it also
//! reads from the client, to see it leave, and that read is made to fail when a time is up: the exchange ends, and the
//! upstream's connection with it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The times that a request has; each none for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// From the request's last byte to the beginning of its answer.
    pub answer: Option<Duration>,
    /// Silence inside the answer.
    pub silence: Option<Duration>,
    /// From the request's first byte to the last one of its answer.
    pub total: Option<Duration>,
}

/// The present request's times.
#[derive(Debug)]
pub(super) struct Deadlines {
    times: Times,
    began: Instant,
    /// When the request was found to be whole, in its present attempt.
    whole: Option<Instant>,
    /// When a byte of the answer last went to the client.
    moved: Instant,
    /// Kept from request to request: moving a timer costs less than making one.
    timer: Option<Pin<Box<Sleep>>>,
    armed: Option<Instant>,
}

impl Deadlines {
    pub fn new(now: Instant) -> Self {
        Self {
            times: Times::default(),
            began: now,
            whole: None,
            moved: now,
            timer: None,
            armed: None,
        }
    }

    /// A new request, that began then.
    pub fn begin(&mut self, began: Instant) {
        self.times = Times::default();
        self.began = began;
        self.whole = None;
        self.armed = None;
    }

    /// Whether there is nothing to watch.
    pub fn are_unset(&self) -> bool {
        self.times == Times::default()
    }

    /// Whether the answer has begun.
    pub fn is_answering(&self) -> bool {
        self.times.silence.is_some()
    }

    pub fn set(&mut self, times: Times) {
        if times == self.times {
            return;
        }
        if times.silence != self.times.silence {
            self.moved = Instant::now();
        }
        self.times = times;
        self.armed = None;
    }

    /// Bytes of the answer have gone to the client.
    pub fn moved(&mut self) {
        if self.times.silence.is_some() {
            self.moved = Instant::now();
        }
    }

    /// Ready when a time is up. `is_whole` is whether the request's last byte was handed on.
    pub fn poll(&mut self, context: &mut Context<'_>, is_whole: bool) -> Poll<()> {
        if self.are_unset() {
            return Poll::Pending;
        }
        if is_whole && self.whole.is_none() {
            self.whole = Some(Instant::now());
            self.armed = None;
        }
        loop {
            let answer = self.times.answer.zip(self.whole).map(|(limit, whole)| whole + limit);
            let silence = self.times.silence.map(|limit| self.moved + limit);
            let total = self.times.total.map(|limit| self.began + limit);
            let Some(until) = [answer, silence, total].into_iter().flatten().min() else {
                return Poll::Pending;
            };
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            // Bytes that move put the end off: the timer is moved when it fires, and not with each of them.
            if self.armed.is_none_or(|armed| armed > until) {
                timer.as_mut().reset(until);
                self.armed = Some(until);
            }
            ready!(timer.as_mut().poll(context));
            if Instant::now() >= until {
                return Poll::Ready(());
            }
            self.armed = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    const SECOND: Duration = Duration::from_secs(1);

    async fn ends_after(deadlines: &mut Deadlines, is_whole: bool) -> u64 {
        let start = Instant::now();
        let ended = poll_fn(|context| deadlines.poll(context, is_whole));
        match tokio::time::timeout(SECOND * 1_000, ended).await {
            Ok(()) => start.elapsed().as_secs(),
            Err(_) => 0,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_time_that_is_up_ends_the_request() {
        let mut deadlines = Deadlines::new(Instant::now());
        assert_eq!(ends_after(&mut deadlines, true).await, 0, "no limit");
        deadlines.begin(Instant::now());
        let times = Times {
            answer: Some(SECOND * 5),
            silence: None,
            total: Some(SECOND * 60),
        };
        deadlines.set(times);
        assert_eq!(ends_after(&mut deadlines, true).await, 5);
        deadlines.begin(Instant::now());
        deadlines.set(times);
        assert_eq!(ends_after(&mut deadlines, false).await, 60, "the request is not whole");
        // Once the answer has begun, its silence counts.
        deadlines.begin(Instant::now());
        deadlines.set(times);
        deadlines.set(Times {
            answer: None,
            silence: Some(SECOND * 10),
            total: Some(SECOND * 15),
        });
        tokio::time::advance(SECOND * 4).await;
        deadlines.moved();
        assert_eq!(ends_after(&mut deadlines, true).await, 10);
        deadlines.moved();
        assert_eq!(ends_after(&mut deadlines, true).await, 1, "the whole time is up");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_move_put_the_end_off() {
        let mut deadlines = Deadlines::new(Instant::now());
        deadlines.set(Times {
            silence: Some(SECOND * 10),
            ..Times::default()
        });
        for _ in 0..5 {
            let ended = poll_fn(|context| deadlines.poll(context, true));
            assert!(tokio::time::timeout(SECOND * 9, ended).await.is_err());
            deadlines.moved();
        }
        assert_eq!(ends_after(&mut deadlines, true).await, 10);
    }
}
