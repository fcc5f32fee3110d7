//! The upstreams of a generation: for each forwarded family its endpoints, their health, and its requests in flight.
//!
//! The next generation takes over what still holds: an upstream as it is where nothing of it has changed, and otherwise
//! the places in flight, the account of second attempts, and what is known of endpoints that stay, see
//! [`Upstreams::succeed`].
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

use crate::certificate::Unusable;
use crate::config::{self, Config, Ready, UpstreamUrl, WithheldHeader};
use crate::telemetry::metrics::{EndpointGauges, UpstreamGauges};
use admission::{Admission, Places};
pub use affinity::Keys;
use balance::Choice;
pub use balance::Tried;
pub use endpoint::{Endpoint, EndpointId, EndpointState, InUse};
pub use endpoints::Endpoints;
pub use names::UpstreamNames;
pub use reason::Reason;
use retry_budget::RetryBudget;
pub use timeouts::{Span, Timeouts};
use wire::Wire;

/// Attempts to connect for one request, however many endpoints there are.
const MOST_ATTEMPTS: usize = Tried::MOST;

/// The upstreams of all forwarded families.
#[derive(Debug)]
pub struct Upstreams {
    by_family: Vec<Option<Arc<Upstream>>>,
    in_flight: Arc<Places>,
    /// The last number that a pool of connections was given.
    last_group: u32,
}

/// A family's TLS cannot be set up. The check of a configuration has found its files sound, so one of them has changed
/// since.
#[derive(Debug, thiserror::Error)]
#[error("the {} file of the TLS of `{family}` {}", .unusable.part.name(), .unusable.fault)]
pub struct UnusableTls {
    /// The family's name.
    pub family: String,
    /// Which file, and why.
    pub unusable: Unusable,
}

impl Upstreams {
    /// The upstreams that `config` names for the families that `contract` forwards. A family without a table, which
    /// the check of a configuration refuses, has no upstream.
    ///
    /// # Errors
    /// A family whose TLS cannot be set up.
    pub fn new(contract: &Contract, config: &Config) -> Result<Self, UnusableTls> {
        let in_flight = Arc::new(Places::new(config.limits.in_flight));
        Self::build(contract, config, in_flight, None)
    }

    /// The same for the next generation. An upstream that is the same as before is taken over as it is; of another one
    /// under the name of a family that there was, whatever still holds.
    ///
    /// # Errors
    /// A family whose TLS cannot be set up.
    pub fn succeed(&self, contract: &Contract, config: &Config) -> Result<Self, UnusableTls> {
        let limit = config.limits.in_flight;
        let in_flight = if limit == self.in_flight.limit() {
            Arc::clone(&self.in_flight)
        } else {
            Arc::new(self.in_flight.with_limit(limit))
        };
        Self::build(contract, config, in_flight, Some(self))
    }

    fn build(
        contract: &Contract,
        config: &Config,
        in_flight: Arc<Places>,
        before: Option<&Self>,
    ) -> Result<Self, UnusableTls> {
        let mut groups = before.map_or(0, |before| before.last_group);
        let mut by_family = Vec::with_capacity(contract.families.len());
        for family in &contract.families {
            let table = config.upstream.get(&family.name);
            let table = table.filter(|_| family.serve == Serve::Forward);
            let before = before.and_then(|before| before.named(&family.name));
            let upstream = match table {
                Some(table) => Some(Upstream::succeed(
                    &family.name,
                    table,
                    config,
                    &in_flight,
                    before,
                    &mut groups,
                )?),
                None => None,
            };
            by_family.push(upstream);
        }
        Ok(Self {
            by_family,
            in_flight,
            last_group: groups,
        })
    }

    /// The family's upstream.
    pub fn of(&self, family: FamilyId) -> Option<&Arc<Upstream>> {
        self.by_family.get(family.index())?.as_ref()
    }

    /// Every upstream, in the contract's order.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.by_family.iter().flatten()
    }

    /// Every upstream with its family, in the contract's order.
    pub fn by_family(&self) -> impl Iterator<Item = (FamilyId, &Arc<Upstream>)> {
        let families = (0..).map(FamilyId).zip(&self.by_family);
        families.filter_map(|(family, upstream)| Some((family, upstream.as_ref()?)))
    }

    /// The upstream of the family with this name.
    pub fn named(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.all().find(|upstream| upstream.name == name)
    }

    /// Whether these are the very upstreams of another generation.
    pub fn are(&self, others: &Self) -> bool {
        let (ours, theirs) = (&self.by_family, &others.by_family);
        ours.len() == theirs.len()
            && ours.iter().zip(theirs).all(|pair| match pair {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (one, other) => one.is_none() && other.is_none(),
            })
    }

    /// Requests in flight over all families.
    pub fn in_flight(&self) -> usize {
        self.in_flight.taken()
    }
}

/// One family's upstream.
#[derive(Debug)]
pub struct Upstream {
    name: String,
    table: config::Upstream,
    urls: Vec<UpstreamUrl>,
    wire: Arc<Wire>,
    /// The number of its pool of connections.
    group: u32,
    carries_websockets: bool,
    timeouts: Timeouts,
    ejection: ejection::Rules,
    endpoints: ArcSwap<Endpoints>,
    /// Told whenever the endpoints are others than before, and when it turns out whether they are ready.
    changes: watch::Sender<()>,
    /// By URL: whether its name could not be resolved the last time.
    unresolved: Vec<AtomicBool>,
    /// Whether each of the first endpoints has been probed once.
    started: AtomicBool,
    turn: AtomicUsize,
    admission: Admission,
    /// All families' places, which its own are among.
    all: Arc<Places>,
    retries: RetryBudget,
    /// Times are counted from here: the wall clock may jump.
    epoch: Instant,
    tally: Arc<outcome::Tally>,
}

impl Upstream {
    /// The upstream of a table. `before` is that of the family in the generation before; it is answered itself where
    /// nothing has changed. `groups` is the last number that a pool was given.
    fn succeed(
        name: &str,
        table: &config::Upstream,
        config: &Config,
        all: &Arc<Places>,
        before: Option<&Arc<Self>>,
        groups: &mut u32,
    ) -> Result<Arc<Self>, UnusableTls> {
        let timeouts = Timeouts::new(table, &config.limits);
        let wire = Wire::load(table, config).map_err(|unusable| UnusableTls {
            family: name.to_owned(),
            unusable,
        })?;
        let same_wire = before.filter(|before| *before.wire == wire);
        if let Some(same) = same_wire
            && same.table == *table
            && same.timeouts == timeouts
            && Arc::ptr_eq(&same.all, all)
        {
            return Ok(Arc::clone(same));
        }
        let (wire, group) = match same_wire {
            Some(before) => (Arc::clone(&before.wire), before.group),
            None => {
                *groups = groups.wrapping_add(1);
                (Arc::new(wire), *groups)
            }
        };
        let urls: Vec<UpstreamUrl> = table.urls().cloned().collect();
        let peers = endpoints::Peers {
            group,
            wire: Arc::clone(&wire),
            connect: timeouts.connect,
            silence: timeouts.longest_silence(),
            write: timeouts.response,
            idle: table.idle_timeout.get(),
        };
        let known = before.map(|before| before.endpoints());
        let known = before
            .zip(known.as_deref())
            .map(|(before, endpoints)| endpoints::Before {
                endpoints,
                urls: &before.urls,
                conduct_holds: same_wire.is_some() && before.table.enabled && before.table.ready == table.ready,
            });
        let endpoints = Endpoints::new(&urls, peers, &table.ready, known);
        let was_unresolved = |url: &UpstreamUrl| {
            let place = before?.urls.iter().position(|other| other == url)?;
            Some(before?.unresolved.get(place)?.load(Relaxed))
        };
        let (queue, patience) = (table.queue, table.queue_timeout.get());
        let (share, least) = (table.retry_budget, table.retry_min);
        let (admission, retries) = match before {
            Some(before) => (
                before
                    .admission
                    .with_limits(table.in_flight, all.clone(), queue, patience),
                before.retries.with_rules(share, least),
            ),
            None => (
                Admission::new(table.in_flight, all.clone(), queue, patience),
                RetryBudget::new(share, least),
            ),
        };
        Ok(Arc::new(Self {
            name: name.to_owned(),
            carries_websockets: urls.iter().all(|url| wire.carries_websockets(url)),
            endpoints: ArcSwap::from_pointee(endpoints),
            unresolved: urls
                .iter()
                .map(|url| AtomicBool::new(was_unresolved(url).unwrap_or(false)))
                .collect(),
            urls,
            wire,
            group,
            timeouts,
            ejection: ejection::Rules::new(&table.ejection),
            changes: watch::Sender::new(()),
            started: AtomicBool::new(before.is_some_and(|before| before.started.load(Relaxed))),
            turn: AtomicUsize::new(before.map_or(0, |before| before.turn.load(Relaxed))),
            admission,
            all: Arc::clone(all),
            retries,
            // Times of what was taken over are counted from there.
            epoch: before.map_or_else(Instant::now, |before| before.epoch),
            tally: before.map(|before| Arc::clone(&before.tally)).unwrap_or_default(),
            table: table.clone(),
        }))
    }

    /// The header fields that it receives although they are withheld from others.
    pub fn passed_headers(&self) -> &[WithheldHeader] {
        &self.table.pass_headers
    }

    /// The family's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the family is switched on.
    pub fn is_enabled(&self) -> bool {
        self.table.enabled
    }

    /// Whether WebSockets can be forwarded: every endpoint can be spoken to by HTTP/1.1.
    pub fn carries_websockets(&self) -> bool {
        self.carries_websockets
    }

    /// Whether the overall verdict waits for it.
    pub fn is_required(&self) -> bool {
        self.table.required
    }

    /// Where the upstream is, as configured.
    pub fn urls(&self) -> &[UpstreamUrl] {
        &self.urls
    }

    /// How its endpoints are probed.
    pub fn ready(&self) -> &Ready {
        &self.table.ready
    }

    /// How long requests may take.
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    pub(super) fn resolve_interval(&self) -> Duration {
        self.table.resolve_interval.get()
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
            let next = present.with_addresses(&self.urls, url, addresses, &self.table.ready);
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
        self.changes.send_replace(());
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
        if downs().filter(Option::is_none).count() >= self.table.ready_min {
            return Ok(());
        }
        // Fewer endpoints than must be ready, all of them good: some are missing.
        Err(downs().flatten().next().unwrap_or(Reason::Dns))
    }

    /// Waits until it is known whether the family is ready: each name has been looked up, and each of the first
    /// endpoints has been probed, once.
    pub async fn known(&self) {
        let mut changes = self.changes();
        while self.table.enabled && self.readiness() == Err(Reason::Starting) {
            // The sender is this upstream's own.
            let _told = changes.changed().await;
        }
    }

    /// What is told of it in metrics: all of it as it is now.
    pub fn gauges(&self) -> UpstreamGauges {
        let now = self.now();
        let mut endpoints = EndpointGauges::default();
        for endpoint in self.endpoints.load().list() {
            let state = if endpoint.health().down(now).is_some() {
                &mut endpoints.not_ready
            } else if endpoint.ejection().out(now).is_some() {
                &mut endpoints.ejected
            } else {
                &mut endpoints.ready
            };
            *state += 1;
        }
        UpstreamGauges {
            in_flight: self.admission.in_flight(),
            in_flight_limit: self.admission.limit(),
            queued: self.admission.waiting(),
            ready: self.is_enabled() && self.readiness().is_ok(),
            endpoints,
            ejections: self.tally.ejections.load(Relaxed),
            probes_succeeded: self.tally.probes_succeeded.load(Relaxed),
            probes_failed: self.tally.probes_failed.load(Relaxed),
        }
    }

    /// Every endpoint as it stands now, in the order of URLs and addresses.
    pub fn endpoint_states(&self) -> Vec<EndpointState> {
        let now = self.now();
        let endpoints = self.endpoints.load();
        let state = |endpoint: &Arc<Endpoint>| EndpointState {
            address: endpoint.id().address,
            down: endpoint.down(now),
            in_flight: endpoint.in_flight(),
        };
        endpoints.list().iter().map(state).collect()
    }

    /// Whether some endpoint takes requests, or is to be tried again.
    pub fn serves(&self) -> bool {
        let now = self.now();
        let endpoints = self.endpoints.load();
        self.table.enabled && endpoints.list().iter().any(|endpoint| endpoint.down(now).is_none())
    }

    /// Chooses an endpoint for an attempt; none when none takes requests. `key` keeps requests together, and an
    /// endpoint that was `tried` is taken only when there is no other.
    pub fn choose(&self, key: Option<u64>, tried: &Tried) -> Option<InUse> {
        let endpoints = self.endpoints.load();
        let choice = Choice {
            balance: self.table.balance,
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
        let place = |waited| Place {
            upstream: Arc::clone(self),
            waited,
        };
        if self.admission.take() {
            return Some(place(Duration::ZERO));
        }
        let since = Instant::now();
        self.admission.wait().await.then(|| place(since.elapsed()))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A place among a family's requests in flight, free again when dropped, however the request ends.
#[derive(Debug)]
pub struct Place {
    upstream: Arc<Upstream>,
    waited: Duration,
}

impl Place {
    /// The upstream that the place belongs to.
    pub fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// How long it was waited for.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.upstream.admission.give_back();
    }
}

#[cfg(test)]
pub(crate) mod tests;
