//! The upstreams of a generation: for each forwarded family its endpoints, their health, and its requests in flight.
//!
//! Nothing here waits on the request path but the queue of [`Upstream::admit`]: names are resolved in the background
//! ([`resolve`]), endpoints are probed in the background ([`crate::readiness`]), and a request takes whatever is known.
//!
//! 1. `admission` takes a place in flight. 2. `balance` chooses an endpoint, by `affinity` where there is a key.
//! 3. What comes of it (`outcome`) goes to the endpoint's `health` and `ejection`; `retry_budget` bounds second attempts.

mod admission;
mod affinity;
mod balance;
mod ejection;
mod endpoint;
mod endpoints;
mod health;
mod names;
mod outcome;
mod reason;
pub mod resolve;
mod retry_budget;
mod timeouts;
mod tunnel_socket;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use route_contract::contract::{Contract, FamilyId, Serve};
use tokio::sync::watch;

use crate::config::{self, Config, Ready, UpstreamUrl, WithheldHeader};
use admission::{Admission, Places};
pub use affinity::Keys;
use balance::Choice;
pub use balance::Tried;
pub use endpoint::{Endpoint, EndpointId, InUse};
pub use endpoints::Endpoints;
pub use names::UpstreamNames;
pub use reason::Reason;
use retry_budget::RetryBudget;
pub use timeouts::{Span, Timeouts};

/// Attempts to connect for one request, however many endpoints there are.
const MOST_ATTEMPTS: usize = Tried::MOST;

/// The upstreams of all forwarded families.
#[derive(Debug)]
pub struct Upstreams {
    by_family: Vec<Option<Arc<Upstream>>>,
    in_flight: Arc<Places>,
}

impl Upstreams {
    /// The upstreams that `config` names for the families that `contract` forwards. A family without a table, which
    /// the check of a configuration refuses, has no upstream.
    pub fn new(contract: &Contract, config: &Config) -> Self {
        let in_flight = Arc::new(Places::new(config.limits.in_flight));
        let by_family = contract
            .family_ids()
            .map(|(id, family)| match family.serve {
                Serve::Forward => config
                    .upstream
                    .get(&family.name)
                    .map(|table| Arc::new(Upstream::new(id, &family.name, table, config, &in_flight))),
                Serve::Never => None,
            })
            .collect();
        Self { by_family, in_flight }
    }

    /// The family's upstream.
    pub fn of(&self, family: FamilyId) -> Option<&Arc<Upstream>> {
        self.by_family.get(family.index())?.as_ref()
    }

    /// Every upstream with its family, in the contract's order.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.by_family.iter().flatten()
    }

    /// Requests in flight over all families.
    pub fn in_flight(&self) -> usize {
        self.in_flight.taken()
    }
}

/// One family's upstream.
#[derive(Debug)]
pub struct Upstream {
    family: FamilyId,
    name: String,
    enabled: bool,
    carries_websockets: bool,
    required: bool,
    urls: Vec<UpstreamUrl>,
    ready: Ready,
    ready_min: usize,
    resolve_interval: Duration,
    balance: config::Balance,
    timeouts: Timeouts,
    ejection: ejection::Rules,
    endpoints: ArcSwap<Endpoints>,
    /// Told whenever the endpoints are others than before.
    changes: watch::Sender<()>,
    /// By URL: whether its name could not be resolved the last time.
    unresolved: Vec<AtomicBool>,
    /// Whether each of the first endpoints has been probed once.
    started: AtomicBool,
    turn: AtomicUsize,
    admission: Admission,
    retries: RetryBudget,
    /// Times are counted from here: the wall clock may jump.
    epoch: Instant,
    passed_headers: Vec<WithheldHeader>,
}

impl Upstream {
    fn new(family: FamilyId, name: &str, table: &config::Upstream, config: &Config, all: &Arc<Places>) -> Self {
        let urls: Vec<UpstreamUrl> = table.urls().cloned().collect();
        let timeouts = Timeouts::new(table, &config.limits);
        // The files were found sound by the check. Where one is not any more, nothing is sent to where it should not go.
        let loaded = wire::Wire::load(table, config).map(Arc::new);
        if let Err(unusable) = &loaded {
            tracing::error!(
                family = name,
                file = unusable.part.name(),
                cause = %unusable.fault,
                "a file of the upstream's TLS cannot be used; the family is switched off"
            );
        }
        let is_sound = loaded.is_ok();
        let wire = loaded.unwrap_or_default();
        let peers = endpoints::Peers {
            family,
            wire: Arc::clone(&wire),
            connect: timeouts.connect,
            silence: timeouts.longest_silence(),
            write: timeouts.response,
            idle: table.idle_timeout.get(),
        };
        Self {
            family,
            name: name.to_owned(),
            enabled: table.enabled && is_sound,
            carries_websockets: urls.iter().all(|url| wire.carries_websockets(url)),
            required: table.required,
            endpoints: ArcSwap::from_pointee(Endpoints::new(&urls, peers, &table.ready)),
            unresolved: urls.iter().map(|_| AtomicBool::new(false)).collect(),
            urls,
            ready: table.ready.clone(),
            ready_min: table.ready_min,
            resolve_interval: table.resolve_interval.get(),
            balance: table.balance,
            timeouts,
            ejection: ejection::Rules::new(&table.ejection),
            changes: watch::Sender::new(()),
            started: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
            admission: Admission::new(table.in_flight, all.clone(), table.queue, table.queue_timeout.get()),
            retries: RetryBudget::new(table.retry_budget, table.retry_min),
            epoch: Instant::now(),
            passed_headers: table.pass_headers.clone(),
        }
    }

    /// The header fields that it receives although they are withheld from others.
    pub fn passed_headers(&self) -> &[WithheldHeader] {
        &self.passed_headers
    }

    /// The family.
    pub fn family(&self) -> FamilyId {
        self.family
    }

    /// The family's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the family is switched on.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether WebSockets can be forwarded: every endpoint can be spoken to by HTTP/1.1.
    pub fn carries_websockets(&self) -> bool {
        self.carries_websockets
    }

    /// Whether the overall verdict waits for it.
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Where the upstream is, as configured.
    pub fn urls(&self) -> &[UpstreamUrl] {
        &self.urls
    }

    /// How its endpoints are probed.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// How long requests may take.
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    pub(super) fn resolve_interval(&self) -> Duration {
        self.resolve_interval
    }

    /// What is known of its addresses.
    pub fn endpoints(&self) -> Arc<Endpoints> {
        self.endpoints.load_full()
    }

    /// Tells of changes of the endpoints from now on.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Takes what the name of one URL was resolved to, for the requests that come from now on. Endpoints that stay
    /// keep their health. Answers whether something has changed.
    pub fn set_addresses(&self, url: usize, addresses: &[std::net::SocketAddr]) -> bool {
        if let Some(unresolved) = self.unresolved.get(url) {
            unresolved.store(false, Relaxed);
        }
        let mut changed = false;
        self.endpoints.rcu(|present| {
            let next = present.with_addresses(&self.urls, url, addresses, &self.ready);
            changed = next.is_some();
            next.map_or_else(|| Arc::clone(present), Arc::new)
        });
        if changed {
            self.changes.send_replace(());
        }
        changed
    }

    /// Notes that the name of one URL could not be resolved.
    pub(super) fn unresolved(&self, url: usize) {
        if let Some(unresolved) = self.unresolved.get(url) {
            unresolved.store(true, Relaxed);
        }
    }

    /// Whether the family is ready, and otherwise why it is not. For those who only look.
    ///
    /// # Errors
    /// The reason: [`Reason::Starting`] before each of the first endpoints has been probed once, [`Reason::Dns`] where
    /// no address is known, else that of the first endpoint that is not ready.
    pub fn readiness(&self) -> Result<(), Reason> {
        let now = self.now();
        let endpoints = self.endpoints.load();
        let list = endpoints.list();
        if list.is_empty() {
            let failed = self.unresolved.iter().any(|unresolved| unresolved.load(Relaxed));
            return Err(if failed { Reason::Dns } else { Reason::Starting });
        }
        let downs = || list.iter().map(|endpoint| endpoint.down(now));
        if !self.started.load(Relaxed) {
            if downs().any(|down| down == Some(Reason::Starting)) {
                return Err(Reason::Starting);
            }
            self.started.store(true, Relaxed);
        }
        if downs().filter(Option::is_none).count() >= self.ready_min {
            return Ok(());
        }
        // Fewer endpoints than must be ready, all of them good: some are missing.
        Err(downs().flatten().next().unwrap_or(Reason::Dns))
    }

    /// How many endpoints take requests, and how many do not.
    pub fn endpoint_counts(&self) -> (usize, usize) {
        let now = self.now();
        let endpoints = self.endpoints.load();
        let all = endpoints.list().len();
        let ready = endpoints
            .list()
            .iter()
            .filter(|endpoint| endpoint.down(now).is_none())
            .count();
        (ready, all - ready)
    }

    /// Whether some endpoint takes requests, or is to be tried again.
    pub fn serves(&self) -> bool {
        let now = self.now();
        let endpoints = self.endpoints.load();
        self.enabled && endpoints.list().iter().any(|endpoint| endpoint.down(now).is_none())
    }

    /// Chooses an endpoint for an attempt; none when none takes requests. `key` keeps requests together, and an
    /// endpoint that was `tried` is taken only when there is no other.
    pub fn choose(&self, key: Option<u64>, tried: &Tried) -> Option<InUse> {
        let endpoints = self.endpoints.load();
        let choice = Choice {
            balance: self.balance,
            key,
            turn: self.turn.fetch_add(1, Relaxed),
            tried,
            now: self.now(),
            slow_return: self.ejection.slow_return,
        };
        choice.among(endpoints.list()).cloned().map(InUse::new)
    }

    /// How often a request may try to connect: each endpoint once, within reason.
    pub fn attempts(&self) -> usize {
        self.endpoints.load().list().len().min(MOST_ATTEMPTS)
    }

    /// Whether an endpoint that takes requests has not been tried.
    pub fn has_other(&self, tried: &Tried) -> bool {
        let now = self.now();
        let endpoints = self.endpoints.load();
        let mut list = endpoints.list().iter();
        list.any(|endpoint| !tried.has(endpoint.id()) && endpoint.down(now).is_none())
    }

    /// Takes a second attempt out of the family's budget.
    pub fn may_retry(&self) -> bool {
        self.retries.take(self.now() / 1_000)
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.admission.in_flight()
    }

    /// Requests that wait for a place in flight.
    pub fn waiting(&self) -> usize {
        self.admission.waiting()
    }

    /// Takes one of the family's places for requests in flight, waiting for one in the queue where the family has
    /// one; none when all are taken.
    pub async fn admit(self: &Arc<Self>) -> Option<Place> {
        self.retries.request(self.now() / 1_000);
        if self.admission.take() || self.admission.wait().await {
            return Some(Place(Arc::clone(self)));
        }
        None
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A place among a family's requests in flight, free again when dropped, however the request ends.
#[derive(Debug)]
pub struct Place(Arc<Upstream>);

impl Place {
    /// The upstream that the place belongs to.
    pub fn upstream(&self) -> &Arc<Upstream> {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.admission.give_back();
    }
}

#[cfg(test)]
pub(crate) mod tests;
