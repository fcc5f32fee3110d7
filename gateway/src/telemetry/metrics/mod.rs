//! Counters, gauges and histograms in Prometheus' text format; `docs/metrics.md` is their list.
//!
//! One file for each subject: [`requests`], [`upstreams`], [`listener`], [`reloads`], [`process`]. Handles are taken once, so nothing
//! on a request's way looks a series up, and the number of series is fixed by the contract.

pub mod listener;
pub mod process;
pub mod reloads;
pub mod requests;
mod series;
pub mod upstreams;

use std::sync::{Mutex, PoisonError};

use prometheus::{Encoder, Registry, TextEncoder};

pub use listener::ListenerMetrics;
pub use process::{GatewayGauges, ProcessMetrics};
pub use reloads::ReloadMetrics;
pub use requests::{Ended, FamilyMetrics, Totals};
pub use upstreams::{EndpointGauges, RetryCause, UpstreamGauges, UpstreamMetrics};

use requests::RequestSeries;
use series::Series;
use upstreams::UpstreamSeries;

/// The family label of requests that have no family.
pub const NO_FAMILY: &str = "none";

/// All series of one process.
pub struct Metrics {
    registry: Registry,
    requests: RequestSeries,
    upstreams: UpstreamSeries,
    /// What the listener counts.
    pub listener: ListenerMetrics,
    /// Reloads of the configuration.
    pub reloads: ReloadMetrics,
    /// What is told of the process as a whole.
    pub process: ProcessMetrics,
    /// Held while gauges are set and read, so that two who ask at once do not see each other's half.
    rendering: Mutex<()>,
    is_counting: bool,
}

impl Metrics {
    /// The series that do not depend on a contract.
    ///
    /// # Errors
    /// Two series of one name, or a name that Prometheus does not allow: a fault in these files.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let series = Series(&registry);
        Ok(Self {
            requests: RequestSeries::new(&series)?,
            upstreams: UpstreamSeries::new(&series)?,
            listener: ListenerMetrics::new(&series)?,
            reloads: ReloadMetrics::new(&series)?,
            process: ProcessMetrics::new(&series)?,
            rendering: Mutex::new(()),
            is_counting: true,
            registry,
        })
    }

    /// The same; unless it is counting, requests are not, and nobody is to be shown the rest.
    #[must_use]
    pub fn counting(mut self, is_counting: bool) -> Self {
        self.is_counting = is_counting;
        self
    }

    /// Whether requests are counted.
    pub fn is_counting(&self) -> bool {
        self.is_counting
    }

    /// The handles of a family, by its name in the contract.
    pub fn family(&self, name: &str) -> FamilyMetrics {
        self.requests.family(name, self.is_counting)
    }

    /// The handles of a forwarded family's upstream.
    pub fn upstream(&self, name: &str) -> UpstreamMetrics {
        self.upstreams.family(name)
    }

    /// Everything in the text exposition format, version 0.0.4, with the gauges as they are now. Families that are not
    /// among `upstreams` have no gauges: a contract before this one may have had them.
    ///
    /// # Errors
    /// The encoder's; it writes to memory.
    pub fn render<'n>(
        &self,
        gateway: &GatewayGauges,
        upstreams: impl Iterator<Item = (&'n str, UpstreamGauges)>,
    ) -> prometheus::Result<Vec<u8>> {
        let _one_at_a_time = self.rendering.lock().unwrap_or_else(PoisonError::into_inner);
        self.process.set(gateway);
        self.listener.set_limit(gateway.connections_limit);
        self.upstreams.reset();
        for (name, gauges) in upstreams {
            self.upstreams.set(name, &gauges);
        }
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// A count as a gauge's value.
fn gauged(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
