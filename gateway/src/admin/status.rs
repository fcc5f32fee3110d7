//! `/status.json`: what the status page shows, at one moment.

use std::net::SocketAddr;

use route_contract::contract::{Family, FamilyId, Serve};
use serde::Serialize;

use super::access::Sight;
use super::history::{History, KEPT, STEP};
use crate::proxy::Generation;
use crate::readiness::FamilyState;
use crate::reload::report::Reload;
use crate::server::State;
use crate::telemetry::metrics::NO_FAMILY;
use crate::upstream::{EndpointState, Upstream};

/// The version of the form.
const VERSION: u32 = 1;

/// The whole gateway.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status<'g> {
    version: u32,
    software: &'static str,
    /// Since the admin pages were set up, which is when the gateway began to listen.
    uptime_seconds: u64,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    digest: &'g str,
    generation: GenerationStatus<'g>,
    /// The last reload; none before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    reload: Option<&'g Reload>,
    /// Whether the caller may see where upstreams are.
    shows_endpoints: bool,
    step_seconds: u64,
    steps: usize,
    families: Vec<FamilyStatus<'g>>,
    /// Requests that have no family: they are refused.
    no_family: Rates,
}

/// The generation in force.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationStatus<'g> {
    number: u64,
    since: &'g str,
}

/// One family, in the contract's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FamilyStatus<'g> {
    family: &'g str,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'g str>,
    /// `ready`, `not_ready`, `disabled`, or `never` for a family that is never forwarded.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(flatten)]
    upstream: Option<UpstreamStatus>,
    #[serde(flatten)]
    rates: Rates,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UpstreamStatus {
    required: bool,
    in_flight: usize,
    waiting: usize,
    endpoints_ready: usize,
    endpoints_not_ready: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoints: Option<Vec<EndpointStatus>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointStatus {
    address: SocketAddr,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    in_flight: usize,
}

/// A value a step, the oldest first and the newest last; fewer than `steps` while the gateway is young.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rates {
    requests_per_second: Vec<f64>,
    errors_per_second: Vec<f64>,
}

impl<'g> Status<'g> {
    /// The gateway as it is now.
    pub fn of(
        state: &State,
        generation: &'g Generation,
        reload: Option<&'g Reload>,
        history: &History,
        sight: Sight,
        uptime_seconds: u64,
    ) -> Self {
        let board = generation.board(&state.draining);
        let is_ready = board.is_ready();
        let families = generation.contract().family_ids().map(|(id, family)| {
            let found = board.families().find(|state| state.id == id);
            FamilyStatus::of(generation, id, family, found, history, sight)
        });
        Self {
            version: VERSION,
            software: env!("CARGO_PKG_VERSION"),
            uptime_seconds,
            status: if is_ready { "ready" } else { "not_ready" },
            reason: board.is_draining().then(|| crate::readiness::Reason::Draining.as_str()),
            digest: generation.digest(),
            generation: GenerationStatus {
                number: generation.number(),
                since: generation.since(),
            },
            reload,
            shows_endpoints: sight == Sight::Whole,
            step_seconds: STEP.as_secs(),
            steps: KEPT,
            families: families.collect(),
            no_family: Rates::of(history, NO_FAMILY),
        }
    }
}

impl<'g> FamilyStatus<'g> {
    fn of(
        generation: &Generation,
        id: FamilyId,
        family: &'g Family,
        found: Option<FamilyState<'_>>,
        history: &History,
        sight: Sight,
    ) -> Self {
        let (status, reason) = match (family.serve, found) {
            (Serve::Forward, Some(found)) => found.state.words(),
            (Serve::Forward, None) => ("disabled", None),
            (Serve::Never, _) => ("never", None),
        };
        Self {
            family: &family.name,
            owner: family.owner.as_deref(),
            status,
            reason,
            upstream: generation
                .upstreams
                .of(id)
                .map(|upstream| UpstreamStatus::of(upstream, sight)),
            rates: Rates::of(history, &family.name),
        }
    }
}

impl UpstreamStatus {
    fn of(upstream: &Upstream, sight: Sight) -> Self {
        let endpoints = upstream.endpoint_states();
        let ready = endpoints.iter().filter(|endpoint| endpoint.down.is_none()).count();
        Self {
            required: upstream.is_required(),
            in_flight: upstream.in_flight(),
            waiting: upstream.waiting(),
            endpoints_ready: ready,
            endpoints_not_ready: endpoints.len() - ready,
            endpoints: (sight == Sight::Whole).then(|| endpoints.iter().map(EndpointStatus::of).collect()),
        }
    }
}

impl EndpointStatus {
    fn of(endpoint: &EndpointState) -> Self {
        Self {
            address: endpoint.address,
            status: if endpoint.down.is_none() { "ready" } else { "not_ready" },
            reason: endpoint.down.map(|reason| reason.as_str()),
            in_flight: endpoint.in_flight,
        }
    }
}

impl Rates {
    fn of(history: &History, family: &str) -> Self {
        let rates = history.rates(family);
        Self {
            requests_per_second: rates.iter().map(|rates| rates.requests).collect(),
            errors_per_second: rates.iter().map(|rates| rates.errors).collect(),
        }
    }
}
