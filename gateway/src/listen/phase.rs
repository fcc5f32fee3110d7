//! How far a listener is on its way from its start to its end, told to every connection.
//!
//! A listener only ever goes forward. Each phase says what is still done in it; what an earlier one allows and a later
//! one does not is over from then on.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

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

impl Phase {
    const ALL: [Self; 6] = [
        Self::Bound,
        Self::Serving,
        Self::Draining,
        Self::Leaving,
        Self::Closing,
        Self::Cutting,
    ];
}

/// Moves a listener on. When it is dropped, the listener is told to break off.
#[derive(Debug)]
pub struct PhaseControl {
    begun: [watch::Sender<bool>; Phase::ALL.len()],
    phases: Phases,
}

/// A listener's phase as its connections see it.
#[derive(Clone, Debug)]
pub struct Phases(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    now: AtomicU8,
    /// Whether each phase has begun: every one of them changes once, so that whoever waits is woken by nothing else.
    begun: [watch::Receiver<bool>; Phase::ALL.len()],
}

impl PhaseControl {
    /// Begins at `first`.
    pub fn new(first: Phase) -> (Self, Phases) {
        let begun = Phase::ALL.map(|phase| watch::Sender::new(phase <= first));
        let shared = Shared {
            now: AtomicU8::new(first as u8),
            begun: begun.each_ref().map(watch::Sender::subscribe),
        };
        let phases = Phases(Arc::new(shared));
        let control = Self {
            begun,
            phases: phases.clone(),
        };
        (control, phases)
    }

    /// Goes on to `next`; a phase that is over does not come back.
    pub fn advance(&self, next: Phase) {
        // Before anybody is woken, see `Alarm`.
        self.phases.0.now.fetch_max(next as u8, Ordering::AcqRel);
        for (begun, _) in self.begun.iter().zip(Phase::ALL).filter(|(_, phase)| *phase <= next) {
            begun.send_if_modified(|begun| !std::mem::replace(begun, true));
        }
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
        self.0.now.load(Ordering::Acquire) >= phase as u8
    }

    /// Waits until this phase has begun.
    pub async fn reach(&self, phase: Phase) {
        let begun = self.0.begun.get(phase as usize).cloned();
        if let Some(mut begun) = begun {
            // The control says so at the latest when it is dropped.
            let _begun = begun.wait_for(|begun| *begun).await;
        }
    }

    /// True from [`Phase::Draining`] on, in the form that Pingora's applications take.
    pub(super) fn stopping(&self) -> &ShutdownWatch {
        let [_, _, draining, ..] = &self.0.begun;
        draining
    }

    /// Tells one task of the beginning of a phase.
    pub(super) fn alarm(&self, phase: Phase) -> Alarm {
        Alarm {
            phases: self.clone(),
            phase,
            waiting: None,
        }
    }
}

/// Waits for a phase beside the work of one task, from the first poll on. Waiting takes a lock; looking again does not,
/// because within a task the waker stays the same.
pub(super) struct Alarm {
    phases: Phases,
    phase: Phase,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Alarm {
    /// Ready when the phase has begun.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.waiting.is_none() {
            let (phases, phase) = (self.phases.clone(), self.phase);
            let mut waiting = Box::pin(async move { phases.reach(phase).await });
            let polled = waiting.as_mut().poll(context);
            self.waiting = Some(waiting);
            return polled;
        }
        if self.phases.have_reached(self.phase) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Waits for it.
    pub async fn ring(&mut self) {
        std::future::poll_fn(|context| self.poll(context)).await;
    }

    /// Runs `work` to its end. When the phase begins before, `told` is called, once, and the work is polled again: it is
    /// to find out by itself, so that it ends as it would for any other reason.
    pub async fn run<W: Future>(&mut self, work: W, told: impl FnOnce()) -> W::Output {
        let mut work = pin!(work);
        let mut told = Some(told);
        std::future::poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            if polled.is_pending() && told.is_some() && self.poll(context).is_ready() {
                if let Some(told) = told.take() {
                    told();
                }
                return work.as_mut().poll(context);
            }
            polled
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_listener_goes_forward_alone() {
        let (control, phases) = PhaseControl::new(Phase::Serving);
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
        let mut alarm = phases.alarm(Phase::Cutting);
        assert_eq!(alarm.run(async { 1 }, || panic!("there was time")).await, 1);
        let (tell, told) = tokio::sync::oneshot::channel();
        let work = alarm.run(async { told.await.unwrap() }, || tell.send(2).unwrap());
        let (ended, ()) = tokio::join!(work, async {
            // What comes before does not take the place of it.
            for phase in [Phase::Draining, Phase::Closing, Phase::Cutting] {
                tokio::task::yield_now().await;
                control.advance(phase);
            }
        });
        assert_eq!(ended, 2);
        // Work that begins afterwards is told at its first wait, whether the task has waited before or not.
        for mut alarm in [alarm, phases.alarm(Phase::Cutting)] {
            let (tell, told) = tokio::sync::oneshot::channel();
            assert_eq!(
                alarm.run(async { told.await.unwrap() }, || tell.send(3).unwrap()).await,
                3
            );
            alarm.ring().await;
        }
    }
}
