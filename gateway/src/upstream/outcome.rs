//! What comes of attempts and probes, and what it means for an endpoint.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::{Endpoint, Reason, Upstream};

/// What has come of a family's endpoints so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Endpoints left alone for requests that failed.
    pub ejections: AtomicU64,
    pub probes_succeeded: AtomicU64,
    pub probes_failed: AtomicU64,
}

impl Upstream {
    /// Notes that a request has connected to the endpoint.
    pub fn connected(&self, endpoint: &Endpoint) {
        if endpoint.health().connected() {
            log_change(&self.name, Ok(()));
        }
    }

    /// Notes that a request could not connect to the endpoint.
    pub fn connect_failed(&self, endpoint: &Endpoint, reason: Reason) {
        if endpoint.health().connect_failed(reason, self.now()) {
            log_change(&self.name, Err(reason));
        }
        self.failed(endpoint, reason);
    }

    /// Notes an endpoint's answer to a request. A client can make an upstream answer 501 or 505 to what it asks.
    pub fn answered(&self, endpoint: &Endpoint, status: u16) {
        if status >= 500 && !matches!(status, 501 | 505) {
            self.failed(endpoint, Reason::Status);
        } else {
            endpoint.ejection().succeeded();
        }
    }

    fn failed(&self, endpoint: &Endpoint, reason: Reason) {
        if !endpoint.ejection().failed(reason, &self.ejection) {
            return;
        }
        let now = self.now();
        let endpoints = self.endpoints.load();
        let list = endpoints.list();
        let out = list.iter().filter(|other| other.ejection().out(now).is_some()).count();
        let most = self.ejection.max_ejected.of(list.len() as u64);
        if endpoint.ejection().out(now).is_none() && (out as u64) < most {
            endpoint.ejection().eject(&self.ejection, now);
            self.tally.ejections.fetch_add(1, Relaxed);
            tracing::info!(
                family = self.name,
                reason = reason.as_str(),
                "an endpoint is left alone for a while"
            );
        }
    }

    /// Takes the result of an endpoint's probe.
    pub(crate) fn probed(&self, endpoint: &Endpoint, result: Result<(), Reason>) {
        let tally = if result.is_ok() {
            &self.tally.probes_succeeded
        } else {
            &self.tally.probes_failed
        };
        tally.fetch_add(1, Relaxed);
        if let Some(change) = endpoint.probed(result, self.now()) {
            self.changes.send_replace(());
            log_change(&self.name, change);
        }
    }

    /// How long after the last completed probe of an endpoint this moment is; none before the first.
    pub(crate) fn since_probe(&self, endpoint: &Endpoint) -> Option<Duration> {
        let at = endpoint.health().probed_at()?;
        Some(Duration::from_millis(self.now().saturating_sub(at)))
    }
}

/// Names the family and a closed reason; the endpoint's address is in no log at this level.
fn log_change(family: &str, state: Result<(), Reason>) {
    match state {
        Ok(()) => tracing::info!(family, ready = true, "an endpoint's readiness changed"),
        Err(reason) => {
            tracing::info!(
                family,
                ready = false,
                reason = reason.as_str(),
                "an endpoint's readiness changed"
            );
        }
    }
}
