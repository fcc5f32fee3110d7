//! The signals that a running gateway obeys.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// To stop, after the delay in which traffic goes elsewhere.
    Drain(&'static str),
    /// To stop without that delay: from a terminal, where nobody else sends traffic.
    Stop(&'static str),
    /// To let a new binary take over.
    Upgrade,
}

/// SIGTERM and SIGQUIT drain, SIGINT stops, SIGUSR2 upgrades.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    quit: Signal,
    interrupt: Signal,
    upgrade: Signal,
}

impl Signals {
    /// Receives them from now on. To be called before the gateway is announced: whoever reads the announcement may send
    /// one at once, and until then it would end the process.
    ///
    /// # Errors
    /// The operating system's, when signals cannot be received.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            interrupt: signal(SignalKind::interrupt())?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }

    pub(super) async fn next(&mut self) -> Order {
        tokio::select! {
            _ = self.terminate.recv() => Order::Drain("SIGTERM"),
            _ = self.quit.recv() => Order::Drain("SIGQUIT"),
            _ = self.interrupt.recv() => Order::Stop("SIGINT"),
            _ = self.upgrade.recv() => Order::Upgrade,
        }
    }

    /// Waits until one asks to stop: for a server that has nothing to drain.
    pub async fn until_stop(&mut self) {
        self.next_to_stop().await;
    }

    /// The next one that asks to stop, whatever way.
    pub(super) async fn next_to_stop(&mut self) -> Order {
        loop {
            match self.next().await {
                Order::Upgrade => tracing::warn!("SIGUSR2 is not heeded now: an upgrade or the end is under way"),
                order => return order,
            }
        }
    }
}
