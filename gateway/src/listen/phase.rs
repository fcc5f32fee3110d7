//! How far a listener is on its way from its start to its end, told to every connection.
//!
//! A listener only ever goes forward. Each phase says what is still done in it; what an earlier one allows and a later
//! one does not is over from then on.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;

use pingora::server::ShutdownWatch;
use tokio::sync::watch;

/// A step in the life of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Bound: clients wait in the kernel's queue.
    Bound,
    /// Clients are accepted and served.
    Serving,
    /// The same, and every answer asks its client to leave: `Connection: close`, or GOAWAY (RFC 9113 section 6.8).
    Draining,
    /// The same without accepting: another process has the socket and does.
    Leaving,
    /// The socket is closed, connections without a request close, and requests in flight end.
    Closing,
    /// Requests in flight are broken off.
    Cutting,
}

/// Moves a listener on. When it is dropped, the listener is told to break off.
#[derive(Debug)]
pub struct PhaseControl {
    phase: watch::Sender<Phase>,
    stopping: watch::Sender<bool>,
    cutting: watch::Sender<bool>,
    level: Arc<AtomicU8>,
}

/// A listener's phase as its connections see it.
#[derive(Clone, Debug)]
pub struct Phases {
    phase: watch::Receiver<Phase>,
    stopping: ShutdownWatch,
    /// Changes once, so that whoever waits for it is woken by nothing else.
    cutting: watch::Receiver<bool>,
    level: Arc<AtomicU8>,
}

impl PhaseControl {
    /// Begins at `first`.
    pub fn new(first: Phase) -> (Self, Phases) {
        let (phase, phases) = watch::channel(first);
        let (stopping, stopped) = watch::channel(first >= Phase::Draining);
        let (cutting, cut) = watch::channel(first >= Phase::Cutting);
        let level = Arc::new(AtomicU8::new(first as u8));
        let control = Self {
            phase,
            stopping,
            cutting,
            level: Arc::clone(&level),
        };
        let phases = Phases {
            phase: phases,
            stopping: stopped,
            cutting: cut,
            level,
        };
        (control, phases)
    }

    /// Goes on to `next`; a phase that is over does not come back.
    pub fn advance(&self, next: Phase) {
        // Before anybody is woken, see `Phases::run`.
        self.level.fetch_max(next as u8, Ordering::AcqRel);
        for (flag, phase) in [(&self.stopping, Phase::Draining), (&self.cutting, Phase::Cutting)] {
            flag.send_if_modified(|flag| {
                let begins = !*flag && next >= phase;
                *flag |= begins;
                begins
            });
        }
        self.phase.send_if_modified(|now| {
            let moves = *now < next;
            *now = next.max(*now);
            moves
        });
    }
}

impl Drop for PhaseControl {
    fn drop(&mut self) {
        self.advance(Phase::Cutting);
    }
}

impl Phases {
    /// Whether this phase has begun.
    pub fn have_reached(&self, phase: Phase) -> bool {
        self.level.load(Ordering::Acquire) >= phase as u8
    }

    /// Waits until this phase has begun.
    pub async fn reach(&mut self, phase: Phase) {
        // Without its control a listener is at its last phase.
        let _reached = self.phase.wait_for(|now| *now >= phase).await;
    }

    /// True from [`Phase::Draining`] on, in the form that Pingora's applications take.
    pub(super) fn stopping(&self) -> &ShutdownWatch {
        &self.stopping
    }

    /// Runs `work` to its end. When the time for requests in flight is over before, `cut` is called, once, and the work
    /// is polled again: it is to find out by itself, so that it ends as it would for any other reason.
    pub(super) async fn run<W: Future>(&self, work: W, cut: impl FnOnce()) -> W::Output {
        let mut work = pin!(work);
        let mut cutting = self.cutting.clone();
        let mut cutting = pin!(cutting.wait_for(|cutting| *cutting));
        let mut cut = Some(cut);
        let mut is_waiting = false;
        std::future::poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            // Waiting is asked for once: within one task the waker stays the same, and each further poll takes a lock.
            // Without its control a listener is at its last phase.
            if polled.is_ready() || cut.is_none() || (is_waiting && !self.have_reached(Phase::Cutting)) {
                return polled;
            }
            is_waiting = true;
            if cutting.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            if let Some(cut) = cut.take() {
                cut();
            }
            work.as_mut().poll(context)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_listener_goes_forward_alone() {
        let (control, mut phases) = PhaseControl::new(Phase::Serving);
        assert!(phases.have_reached(Phase::Serving) && !phases.have_reached(Phase::Draining));
        assert!(!*phases.stopping().borrow());
        control.advance(Phase::Leaving);
        control.advance(Phase::Draining);
        phases.reach(Phase::Leaving).await;
        assert!(phases.have_reached(Phase::Leaving) && !phases.have_reached(Phase::Closing));
        assert!(*phases.stopping().borrow());
        drop(control);
        phases.reach(Phase::Cutting).await;
        assert!(phases.have_reached(Phase::Cutting));
    }

    #[tokio::test]
    async fn work_is_told_once_that_its_time_is_over_and_ends_by_itself() {
        let (control, phases) = PhaseControl::new(Phase::Serving);
        assert_eq!(phases.run(async { 1 }, || panic!("there was time")).await, 1);
        let (tell, told) = tokio::sync::oneshot::channel();
        let work = phases.run(async { told.await.unwrap() }, || tell.send(2).unwrap());
        let (ended, ()) = tokio::join!(work, async {
            // What comes before does not take the place of it.
            for phase in [Phase::Draining, Phase::Closing, Phase::Cutting] {
                tokio::task::yield_now().await;
                control.advance(phase);
            }
        });
        assert_eq!(ended, 2);
        // Work that begins afterwards is told at its first wait.
        let (tell, told) = tokio::sync::oneshot::channel();
        assert_eq!(
            phases
                .run(async { told.await.unwrap() }, || tell.send(3).unwrap())
                .await,
            3
        );
    }
}
