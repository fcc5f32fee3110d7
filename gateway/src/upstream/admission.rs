//! Places for requests in flight: a family's own and those of the whole gateway, with a short queue or none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// A number of places, shared by all who hold one.
#[derive(Debug)]
pub(super) struct Places {
    /// Shared by all generations: a request of an older one takes a place of the present one, too.
    taken: Arc<AtomicUsize>,
    limit: usize,
}

impl Places {
    pub fn new(limit: usize) -> Self {
        Self {
            taken: Arc::default(),
            limit,
        }
    }

    /// The same places under another limit. Where more are taken than that, none is given until enough are back.
    pub fn with_limit(&self, limit: usize) -> Self {
        Self {
            taken: Arc::clone(&self.taken),
            limit,
        }
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }

    fn take(&self) -> bool {
        let limit = self.limit;
        self.taken
            .fetch_update(Relaxed, Relaxed, |taken| (taken < limit).then_some(taken + 1))
            .is_ok()
    }

    fn give_back(&self) {
        self.taken.fetch_sub(1, Relaxed);
    }
}

/// One family's admission.
#[derive(Debug)]
pub(super) struct Admission {
    own: Places,
    /// The places of all families together.
    all: Arc<Places>,
    waiting: Places,
    patience: Duration,
    freed: Arc<Notify>,
}

impl Admission {
    /// `queue` requests may wait for `patience`.
    pub fn new(limit: usize, all: Arc<Places>, queue: usize, patience: Duration) -> Self {
        Self {
            own: Places::new(limit),
            all,
            waiting: Places::new(queue),
            patience,
            freed: Arc::default(),
        }
    }

    /// The same places and the same queue under other limits, for the next generation.
    pub fn with_limits(&self, limit: usize, all: Arc<Places>, queue: usize, patience: Duration) -> Self {
        Self {
            own: self.own.with_limit(limit),
            all,
            waiting: self.waiting.with_limit(queue),
            patience,
            freed: Arc::clone(&self.freed),
        }
    }

    pub fn in_flight(&self) -> usize {
        self.own.taken()
    }

    pub fn limit(&self) -> usize {
        self.own.limit
    }

    pub fn waiting(&self) -> usize {
        self.waiting.taken()
    }

    /// Takes a place at once. One who comes while others wait does not go before them.
    pub fn take(&self) -> bool {
        self.waiting.taken() == 0 && self.take_place()
    }

    fn take_place(&self) -> bool {
        if !self.own.take() {
            return false;
        }
        if self.all.take() {
            return true;
        }
        self.own.give_back();
        false
    }

    /// Waits for a place in the queue, when that has room. Whoever stops waiting leaves the queue.
    pub async fn wait(&self) -> bool {
        if !self.waiting.take() {
            return false;
        }
        let _in_queue = InQueue(&self.waiting);
        let deadline = Instant::now() + self.patience;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // From here on a place that becomes free is not missed.
            freed.as_mut().enable();
            if self.take_place() {
                return true;
            }
            if timeout_at(deadline, freed).await.is_err() {
                return false;
            }
        }
    }

    pub fn give_back(&self) {
        self.own.give_back();
        self.all.give_back();
        if self.waiting.taken() > 0 {
            self.freed.notify_one();
        }
    }
}

struct InQueue<'q>(&'q Places);

impl Drop for InQueue<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(limit: usize, all: usize, queue: usize) -> Arc<Admission> {
        let all = Arc::new(Places::new(all));
        Arc::new(Admission::new(limit, all, queue, Duration::from_millis(500)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_is_bounded_in_length_and_in_time() {
        let admission = admission(1, 10, 1);
        assert!(admission.take());
        assert!(!admission.take());
        let first = tokio::spawn({
            let admission = admission.clone();
            async move { admission.wait().await }
        });
        tokio::task::yield_now().await;
        assert_eq!(admission.waiting(), 1);
        assert!(!admission.wait().await, "the queue has one place");
        admission.give_back();
        assert!(!admission.take(), "nobody goes before those who wait");
        assert!(first.await.unwrap());
        assert_eq!((admission.in_flight(), admission.waiting()), (1, 0));
        assert!(!admission.wait().await, "the wait ends");
        let left = tokio::spawn({
            let admission = admission.clone();
            async move { admission.wait().await }
        });
        tokio::task::yield_now().await;
        left.abort();
        assert!(left.await.is_err());
        admission.give_back();
        assert!(admission.take(), "who has left holds nothing");
    }

    #[test]
    fn places_of_an_older_generation_count_and_come_back() {
        let all = Arc::new(Places::new(10));
        let older = Admission::new(2, all.clone(), 0, Duration::from_millis(1));
        assert!(older.take() && older.take());
        let newer = older.with_limits(3, Arc::new(all.with_limit(10)), 0, Duration::from_millis(1));
        assert_eq!(newer.in_flight(), 2);
        assert!(newer.take() && !newer.take());
        older.give_back();
        assert!(newer.take());
        for _ in 0..3 {
            newer.give_back();
        }
        assert_eq!((newer.in_flight(), older.in_flight(), all.taken()), (0, 0, 0));
        let fewer = newer.with_limits(1, all, 0, Duration::from_millis(1));
        assert!(fewer.take() && !fewer.take());
    }

    #[test]
    fn all_families_share_the_places_of_the_gateway() {
        let all = Arc::new(Places::new(2));
        let admission = || Admission::new(2, all.clone(), 0, Duration::from_millis(1));
        let (one, other) = (admission(), admission());
        assert!(one.take() && one.take());
        assert!(!other.take());
        assert_eq!(other.in_flight(), 0);
        one.give_back();
        assert!(other.take());
        assert_eq!(all.taken(), 2);
    }
}
