//! The thread that the admin listener and the probes run on.
//!
//! They must answer when the traffic's threads are busy to the last moment, or an orchestrator would take a gateway under
//! load for a dead one. On a thread of their own the operating system gives them their turn.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// A runtime with one thread.
#[derive(Debug)]
pub(super) struct Control(Option<Runtime>);

impl Control {
    /// Starts the thread.
    ///
    /// # Errors
    /// The operating system's, when a thread cannot be started.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(4)
            .thread_name("gateway-control")
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Runs a task on the thread; none once the runtime is gone, which it is only when this is dropped.
    pub fn spawn<F>(&self, task: F) -> Option<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0.as_ref().map(|runtime| runtime.spawn(task))
    }

    /// To start tasks on the thread from elsewhere; none as for [`Self::spawn`].
    pub fn handle(&self) -> Option<Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for Control {
    /// A runtime cannot be waited for from within another one.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
