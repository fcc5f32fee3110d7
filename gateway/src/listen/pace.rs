//! How slow a client may be, as time that it may keep the gateway waiting.
//!
//! A client starts with some patience, each moment of waiting for it uses that up, and each byte that it sends or takes
//! gives some back, by the least rate that is accepted. So one that is silent is given up after the whole patience, one
//! that drips at less than the rate soon after, and one that keeps the rate never, however it is portioned. Time in which
//! the gateway waits for somebody else is not counted.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The patience with one direction of one connection.
#[derive(Debug)]
pub(super) struct Pace {
    patience: Duration,
    /// Bytes a second; 0 for any.
    rate: u64,
    left: Duration,
    waiting_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    pub fn new(patience: Duration, rate: u64) -> Self {
        Self {
            patience,
            rate,
            left: patience,
            waiting_since: None,
            timer: None,
        }
    }

    /// Starts anew.
    pub fn reset(&mut self) {
        self.left = self.patience;
        self.waiting_since = None;
    }

    /// The client has moved so many bytes.
    pub fn progress(&mut self, bytes: usize) {
        let Some(since) = self.waiting_since.take() else {
            return;
        };
        if self.rate == 0 {
            self.left = self.patience;
            return;
        }
        let earned = Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / self.rate);
        let left = self.left.saturating_sub(since.elapsed()).saturating_add(earned);
        self.left = left.min(self.patience);
    }

    /// The client is waited for. Ready when it has been for too long.
    pub fn poll_wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_new = self.waiting_since.is_none();
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let until = since + self.left;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if is_new {
            timer.as_mut().reset(until);
        }
        timer.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    /// Moves `bytes` every `pause` and answers after how many pauses the patience ended.
    async fn pauses(pace: &mut Pace, bytes: usize, pause: Duration, most: usize) -> usize {
        for done in 0..most {
            let ended = poll_fn(|context| pace.poll_wait(context));
            if tokio::time::timeout(pause, ended).await.is_ok() {
                return done;
            }
            pace.progress(bytes);
        }
        most
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_with_the_patience_and_the_rate_decides_about_the_rest() {
        let pace = || Pace::new(Duration::from_secs(10), 100);
        let second = Duration::from_secs(1);
        assert_eq!(pauses(&mut pace(), 100, Duration::from_secs(11), 5).await, 0, "silence");
        assert_eq!(pauses(&mut pace(), 1, second, 100).await, 10, "a byte a second");
        assert_eq!(pauses(&mut pace(), 50, second, 100).await, 18, "half the rate");
        assert_eq!(pauses(&mut pace(), 100, second, 1_000).await, 1_000, "the rate");
        assert_eq!(
            pauses(&mut pace(), 800, second * 8, 500).await,
            500,
            "the rate in portions"
        );
        // What came fast at first is no licence to be silent later.
        let mut pace = pace();
        pauses(&mut pace, 1_000_000, second, 1).await;
        assert_eq!(pauses(&mut pace, 1, second, 100).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_rate_any_byte_is_enough() {
        let mut pace = Pace::new(Duration::from_secs(10), 0);
        assert_eq!(pauses(&mut pace, 1, Duration::from_secs(9), 100).await, 100);
        assert_eq!(pauses(&mut pace, 1, Duration::from_secs(11), 100).await, 0);
        pace.reset();
        assert_eq!(pauses(&mut pace, 1, Duration::from_secs(9), 2).await, 2);
    }
}
