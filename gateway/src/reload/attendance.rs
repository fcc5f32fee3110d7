//! What goes on beside the traffic for each upstream of the present generation: its names are resolved and its endpoints
//! probed.

use std::fmt;
use std::sync::Arc;

use pingora::connectors::http::Connector;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::readiness::probe;
use crate::upstream::{Upstream, Upstreams, resolve};

/// Where that runs.
#[derive(Clone, Debug)]
pub struct Runtimes {
    /// With the traffic: names. A look-up that hangs holds a thread for blocking work, of which there are many here.
    pub traffic: Handle,
    /// On the control thread: probes, which must go on whatever the traffic does.
    pub control: Handle,
}

/// The tasks of all upstreams that are attended.
pub struct Attendance {
    runtimes: Runtimes,
    connector: Arc<Connector>,
    attended: Vec<Attended>,
}

/// One upstream and its tasks, which end when this is dropped.
pub struct Attended {
    upstream: Arc<Upstream>,
    _tasks: JoinSet<()>,
}

impl Attendance {
    /// Attends nobody yet.
    pub fn new(runtimes: Runtimes) -> Self {
        Self {
            runtimes,
            connector: Arc::new(Connector::new(None)),
            attended: Vec::new(),
        }
    }

    /// Starts the tasks of those upstreams that are not attended yet, as they are new or not what they were. The first
    /// look-ups and probes are made at once.
    ///
    /// # Errors
    /// As [`probe::start`]; nothing is started then.
    pub fn begin(&self, upstreams: &Upstreams) -> pingora::Result<Vec<Attended>> {
        let mut begun = Vec::new();
        for upstream in upstreams.all().filter(|upstream| upstream.is_enabled()) {
            if self.has(upstream) {
                continue;
            }
            let mut tasks = JoinSet::new();
            resolve::start(upstream, &mut tasks, &self.runtimes.traffic);
            probe::start(upstream, &self.connector, &mut tasks, &self.runtimes.control)?;
            begun.push(Attended {
                upstream: Arc::clone(upstream),
                _tasks: tasks,
            });
        }
        Ok(begun)
    }

    /// Takes over what was begun for these upstreams, and ends the tasks of all that are not among them.
    pub fn turn_to(&mut self, upstreams: &Upstreams, begun: Vec<Attended>) {
        self.attended.extend(begun);
        self.attended.retain(|attended| {
            upstreams
                .all()
                .any(|upstream| Arc::ptr_eq(upstream, &attended.upstream))
        });
    }

    fn has(&self, upstream: &Arc<Upstream>) -> bool {
        self.attended
            .iter()
            .any(|attended| Arc::ptr_eq(&attended.upstream, upstream))
    }
}

impl Attended {
    /// The upstream.
    pub fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }
}

impl fmt::Debug for Attendance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Attendance").finish_non_exhaustive()
    }
}
