//! The upstreams of a generation: for each forwarded family its endpoints, its options and its requests in flight.
//!
//! Nothing here waits on the request path: names are resolved in the background ([`resolve`]), and a request takes
//! whatever addresses are known.

mod names;
pub mod resolve;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use pingora::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};
use route_contract::contract::{Contract, FamilyId, Serve};

use crate::config::{self, Config, Host, UpstreamUrl};
pub use names::UpstreamNames;

/// Attempts to connect for one request, however many addresses there are.
const MOST_ATTEMPTS: usize = 3;

/// The upstreams of all forwarded families.
#[derive(Debug)]
pub struct Upstreams {
    by_family: Vec<Option<Arc<Upstream>>>,
}

impl Upstreams {
    /// The upstreams that `config` names for the families that `contract` forwards. A family without a table, which
    /// the check of a configuration refuses, has no upstream.
    pub fn new(contract: &Contract, config: &Config) -> Self {
        let by_family = contract
            .family_ids()
            .map(|(id, family)| match family.serve {
                Serve::Forward => config
                    .upstream
                    .get(&family.name)
                    .map(|table| Arc::new(Upstream::new(id, &family.name, table, config))),
                Serve::Never => None,
            })
            .collect();
        Self { by_family }
    }

    /// The family's upstream.
    pub fn of(&self, family: FamilyId) -> Option<&Arc<Upstream>> {
        self.by_family.get(family.index())?.as_ref()
    }

    /// Every upstream with its family, in the contract's order.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.by_family.iter().flatten()
    }
}

/// One family's upstream.
#[derive(Debug)]
pub struct Upstream {
    family: FamilyId,
    name: String,
    enabled: bool,
    url: UpstreamUrl,
    options: Options,
    endpoints: ArcSwap<Endpoints>,
    next: AtomicUsize,
    in_flight: AtomicUsize,
    in_flight_limit: usize,
}

#[derive(Clone, Copy, Debug)]
struct Options {
    connect: Duration,
    response: Duration,
    tunnel: Duration,
    idle: Duration,
}

/// The addresses that are known now.
#[derive(Debug)]
pub struct Endpoints {
    addresses: Vec<SocketAddr>,
    peers: Vec<HttpPeer>,
    names: UpstreamNames,
}

impl Endpoints {
    /// Endpoints of which only the names matter.
    #[cfg(test)]
    pub fn named(names: impl IntoIterator<Item = String>) -> Self {
        Self {
            addresses: Vec::new(),
            peers: Vec::new(),
            names: UpstreamNames::new(names),
        }
    }

    /// The addresses, sorted.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What must not be told to a client.
    pub fn names(&self) -> &UpstreamNames {
        &self.names
    }
}

impl Upstream {
    fn new(family: FamilyId, name: &str, table: &config::Upstream, config: &Config) -> Self {
        let mut upstream = Self {
            family,
            name: name.to_owned(),
            enabled: table.enabled,
            url: table.url.clone(),
            options: Options {
                connect: table.connect_timeout.get(),
                response: table.response_timeout.get(),
                tunnel: config.limits.tunnel_timeout.get(),
                idle: table.idle_timeout.get(),
            },
            endpoints: ArcSwap::from_pointee(Endpoints {
                addresses: Vec::new(),
                peers: Vec::new(),
                names: UpstreamNames::new([]),
            }),
            next: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            in_flight_limit: table.in_flight,
        };
        let known = match upstream.url.host() {
            Host::Address(address) => vec![SocketAddr::new(*address, upstream.url.port())],
            Host::Name(_) => Vec::new(),
        };
        upstream.endpoints = ArcSwap::from_pointee(upstream.build(known));
        upstream
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

    /// Where the upstream is, as configured.
    pub fn url(&self) -> &UpstreamUrl {
        &self.url
    }

    /// What is known of its addresses.
    pub fn endpoints(&self) -> Arc<Endpoints> {
        self.endpoints.load_full()
    }

    /// Takes `addresses` for the requests that come from now on. Answers whether they are others than before.
    pub fn set_addresses(&self, mut addresses: Vec<SocketAddr>) -> bool {
        addresses.sort_unstable();
        addresses.dedup();
        if self.endpoints.load().addresses == addresses {
            return false;
        }
        self.endpoints.store(Arc::new(self.build(addresses)));
        true
    }

    fn build(&self, addresses: Vec<SocketAddr>) -> Endpoints {
        let peers = addresses.iter().map(|address| self.peer(*address)).collect();
        let host = match self.url.host() {
            Host::Name(name) => name.trim_end_matches('.').to_owned(),
            Host::Address(std::net::IpAddr::V4(address)) => address.to_string(),
            Host::Address(std::net::IpAddr::V6(address)) => format!("[{address}]"),
        };
        let url = format!("{host}:{}", self.url.port());
        let names = UpstreamNames::new(addresses.iter().map(ToString::to_string).chain([url]));
        Endpoints {
            addresses,
            peers,
            names,
        }
    }

    fn peer(&self, address: SocketAddr) -> HttpPeer {
        let tls = self.url.tls();
        let server_name = if tls { self.url.server_name() } else { String::new() };
        let mut peer = HttpPeer::new(address, tls, server_name);
        // Two families may share an address; they share no connection, so one cannot exhaust or taint the other's.
        peer.group_key = u64::from(self.family.0) + 1;
        peer.options.connection_timeout = Some(self.options.connect);
        peer.options.total_connection_timeout = Some(self.options.connect);
        peer.options.read_timeout = Some(self.options.response);
        peer.options.write_timeout = Some(self.options.response);
        peer.options.idle_timeout = Some(self.options.idle);
        peer.options.set_http_version(1, 1);
        // Pingora's policy lets a client remove any field by naming it in Connection; the proxy's own does not.
        peer.options.http_upstream_request_policy = HttpUpstreamRequestPolicy::preserve();
        peer
    }

    /// The next endpoint in turn; none while no address is known. A tunnel may be silent for longer than an answer.
    pub fn choose(&self, tunnel: bool) -> Option<Box<HttpPeer>> {
        let endpoints = self.endpoints.load();
        let turn = self
            .next
            .fetch_add(1, Ordering::Relaxed)
            .checked_rem(endpoints.peers.len())?;
        let mut peer = endpoints.peers.get(turn).cloned()?;
        if tunnel {
            peer.options.read_timeout = Some(self.options.tunnel.max(self.options.response));
        }
        Some(Box::new(peer))
    }

    /// How long an answer may take to begin. Pingora's own limit is for each read, so it is a little shorter and speaks
    /// first when the upstream is silent; this one ends the wait for an upstream that is not.
    pub fn answer_limit(&self) -> Duration {
        self.options.response + Duration::from_millis(250)
    }

    /// How often a request may try to connect: each address once, within reason.
    pub fn attempts(&self) -> usize {
        self.endpoints.load().peers.len().min(MOST_ATTEMPTS)
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Takes one of the family's places for requests in flight; none when all are taken.
    pub fn admit(self: &Arc<Self>) -> Option<Place> {
        let limit = self.in_flight_limit;
        self.in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                (taken < limit).then_some(taken + 1)
            })
            .ok()
            .map(|_| Place(Arc::clone(self)))
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
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(url: &str, in_flight: usize) -> Arc<Upstream> {
        let text = format!(
            "contract = \"c\"\n[listen]\npublic = \"127.0.0.1:0\"\n[upstream.a]\nurl = \"{url}\"\nin_flight = {in_flight}\n"
        );
        let config: Config = toml::from_str(&text).unwrap();
        Arc::new(Upstream::new(FamilyId(3), "a", &config.upstream["a"], &config))
    }

    #[test]
    fn places_are_limited_and_come_back() {
        let upstream = upstream("http://127.0.0.1:1", 2);
        let first = upstream.admit().unwrap();
        let _second = upstream.admit().unwrap();
        assert!(upstream.admit().is_none());
        drop(first);
        assert!(upstream.admit().is_some());
        assert_eq!(upstream.in_flight(), 1);
    }

    #[test]
    fn addresses_take_turns() {
        let upstream = upstream("http://name.example:81", 2);
        assert!(upstream.choose(false).is_none());
        assert!(upstream.set_addresses(vec!["10.0.0.2:81".parse().unwrap(), "10.0.0.1:81".parse().unwrap()]));
        assert!(!upstream.set_addresses(vec!["10.0.0.1:81".parse().unwrap(), "10.0.0.2:81".parse().unwrap()]));
        let mut seen: Vec<_> = (0..4)
            .map(|_| upstream.choose(false).unwrap()._address.to_string())
            .collect();
        seen.sort();
        assert_eq!(seen, ["10.0.0.1:81", "10.0.0.1:81", "10.0.0.2:81", "10.0.0.2:81"]);
        assert_eq!(upstream.attempts(), 2);
        let endpoints = upstream.endpoints();
        assert!(endpoints.names().have("name.example:81", "80"));
        assert!(endpoints.names().have("10.0.0.2:81", "80"));
    }
}
