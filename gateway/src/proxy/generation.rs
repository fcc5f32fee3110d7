//! What one state of the configuration means: contract, matcher, upstreams and limits, immutable and taken whole.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use route_contract::classify::Classifier;
use route_contract::contract::{Contract, FamilyId, Serve};

use crate::config::{Config, Drain, Loaded, Upgrade};
use crate::readiness::{Board, Draining, Paths};
use crate::telemetry::json_line;
use crate::telemetry::metrics::{FamilyMetrics, Metrics, NO_FAMILY, UpstreamMetrics};
use crate::upstream::{Keys, Upstreams};

/// One generation. A request takes the present one at its start and keeps it to its end.
pub struct Generation {
    number: u64,
    loaded: Arc<Loaded>,
    /// When it was made (RFC 3339).
    since: String,
    contract: Arc<Contract>,
    digest: String,
    /// Decides about every path; the very code that the contract was proved with.
    pub classifier: Classifier,
    /// Where each family goes.
    pub upstreams: Arc<Upstreams>,
    /// Readiness paths of the public listener.
    pub readiness: Paths,
    /// Bytes of a request body.
    pub body_limit: u64,
    /// Silence of a client within a request.
    pub client_timeout: Duration,
    /// How the gateway stops.
    pub drain: Drain,
    /// How a new binary takes over.
    pub upgrade: Upgrade,
    /// By family: what keeps its requests together.
    keys: Vec<Keys>,
    trusted: Vec<IpNet>,
    family_metrics: Vec<FamilyMetrics>,
    no_family_metrics: FamilyMetrics,
    upstream_metrics: Vec<Option<UpstreamMetrics>>,
}

impl Generation {
    /// The generation with this number, counted from 1. Puts together `contract`, the `classifier` that was compiled from
    /// it, its `upstreams`, and what `config` says about all of them: what was `loaded`, held to what the process can do.
    pub fn new(
        number: u64,
        contract: Contract,
        classifier: Classifier,
        upstreams: Arc<Upstreams>,
        loaded: Arc<Loaded>,
        config: &Config,
        metrics: &Metrics,
    ) -> Self {
        let affinity = |name: &str| config.upstream.get(name).and_then(|table| table.affinity.as_ref());
        let keys = contract
            .family_ids()
            .map(|(id, family)| Keys::new(affinity(&family.name), id, &classifier))
            .collect();
        Self {
            number,
            loaded,
            since: json_line::now(),
            keys,
            classifier,
            upstreams,
            readiness: Paths::public(&config.readiness),
            body_limit: config.limits.body.bytes(),
            client_timeout: config.limits.client_timeout.get(),
            drain: config.drain.clone(),
            upgrade: config.upgrade.clone(),
            trusted: config.forwarded.trusted.clone(),
            family_metrics: contract
                .families
                .iter()
                .map(|family| metrics.family(&family.name))
                .collect(),
            no_family_metrics: metrics.family(NO_FAMILY),
            upstream_metrics: contract
                .families
                .iter()
                .map(|family| (family.serve == Serve::Forward).then(|| metrics.upstream(&family.name)))
                .collect(),
            digest: contract.digest(),
            contract: Arc::new(contract),
        }
    }

    /// How many generations there have been since the start, with this one.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The configuration that it was made of, with the places of its values.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// When it was made (RFC 3339).
    pub fn since(&self) -> &str {
        &self.since
    }

    /// The contract.
    pub fn contract(&self) -> &Arc<Contract> {
        &self.contract
    }

    /// The contract's digest, by which what is served can be compared with what was reviewed.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// What can be said now of the readiness of its families.
    pub fn board(&self, draining: &Draining) -> Board<'_> {
        Board::new(&self.upstreams, draining)
    }

    /// The family's name.
    pub fn name(&self, family: FamilyId) -> Option<&str> {
        self.contract
            .families
            .get(family.index())
            .map(|family| family.name.as_str())
    }

    /// Whether a peer's `X-Forwarded-*` and `X-Request-Id` are believed.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted.iter().any(|network| network.contains(&peer))
    }

    /// What keeps a family's requests together.
    pub fn keys(&self, family: FamilyId) -> Option<&Keys> {
        self.keys.get(family.index())
    }

    /// The counters of a family, or of requests without one.
    pub fn metrics(&self, family: Option<FamilyId>) -> &FamilyMetrics {
        family
            .and_then(|family| self.family_metrics.get(family.index()))
            .unwrap_or(&self.no_family_metrics)
    }

    /// The counters of a forwarded family's upstream.
    pub fn upstream_metrics(&self, family: FamilyId) -> Option<&UpstreamMetrics> {
        self.upstream_metrics.get(family.index())?.as_ref()
    }
}

impl std::fmt::Debug for Generation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Generation").finish_non_exhaustive()
    }
}
