//! Series by name: made and registered in one step.

use prometheus::core::Collector;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, Result,
};

/// Makes series of one registry.
pub(super) struct Series<'r>(pub &'r Registry);

impl Series<'_> {
    pub fn counter(&self, name: &str, help: &str) -> Result<IntCounter> {
        self.registered(IntCounter::new(name, help)?)
    }

    pub fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec> {
        self.registered(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    pub fn gauge(&self, name: &str, help: &str) -> Result<IntGauge> {
        self.registered(IntGauge::new(name, help)?)
    }

    /// A gauge with labels; with none of them, one that is absent until it is set.
    pub fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec> {
        self.registered(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// A histogram for each family.
    pub fn histograms(&self, name: &str, help: &str, buckets: &[f64]) -> Result<HistogramVec> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.registered(HistogramVec::new(options, &["family"])?)
    }

    pub fn registered<C: Collector + Clone + 'static>(&self, collector: C) -> Result<C> {
        self.0.register(Box::new(collector.clone()))?;
        Ok(collector)
    }
}
