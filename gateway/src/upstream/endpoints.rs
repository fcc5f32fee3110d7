//! The endpoints of a family that are known now, as one immutable list.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pingora::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};

use super::endpoint::{Conduct, Endpoint, EndpointId};
use super::names::UpstreamNames;
use super::wire::Wire;
use crate::config::{Host, Ready, UpstreamUrl};

/// The endpoints that are known now.
#[derive(Debug)]
pub struct Endpoints {
    list: Vec<Arc<Endpoint>>,
    names: UpstreamNames,
    peers: Peers,
}

/// The endpoints of the generation before, and what the next one may take over of them.
#[derive(Clone, Copy)]
pub(super) struct Before<'b> {
    pub endpoints: &'b Endpoints,
    /// Their URLs, by whose place they are known.
    pub urls: &'b [UpstreamUrl],
    /// Whether TLS and probe are what they were, so that what was found out still holds.
    pub conduct_holds: bool,
}

impl Before<'_> {
    /// All addresses at this URL.
    fn addresses(&self, url: &UpstreamUrl) -> impl Iterator<Item = SocketAddr> {
        let place = self.urls.iter().position(|other| other == url);
        let list = self.endpoints.list.iter().map(|endpoint| endpoint.id());
        list.filter(move |id| Some(id.url) == place).map(|id| id.address)
    }

    fn conduct(&self, url: &UpstreamUrl, address: SocketAddr) -> Option<Arc<Conduct>> {
        let place = self.urls.iter().position(|other| other == url)?;
        let id = EndpointId { url: place, address };
        let found = self.endpoints.list.iter().find(|endpoint| endpoint.id() == id)?;
        self.conduct_holds.then(|| Arc::clone(found.conduct()))
    }
}

impl Endpoints {
    /// The endpoints whose URLs hold addresses, and those whose addresses are known from `before`; those of other names
    /// come by [`Self::with_addresses`].
    pub(super) fn new(urls: &[UpstreamUrl], peers: Peers, ready: &Ready, before: Option<Before<'_>>) -> Self {
        let known = urls.iter().enumerate().flat_map(|(url, at)| {
            let addresses: Vec<SocketAddr> = match at.host() {
                Host::Address(address) => vec![SocketAddr::new(*address, at.port())],
                Host::Name(_) => before.iter().flat_map(|before| before.addresses(at)).collect(),
            };
            addresses.into_iter().map(move |address| EndpointId { url, address })
        });
        Self::of(known.collect(), urls, peers, |id, peer| {
            let known = before.and_then(|before| before.conduct(urls.get(id.url)?, id.address));
            Arc::new(Endpoint::new(id, peer, known.unwrap_or_else(|| Conduct::new(ready))))
        })
    }

    /// None, under names that must not be told: what tests and measurements of [`Self::names`] need.
    pub fn named(names: impl IntoIterator<Item = String>) -> Self {
        Self {
            list: Vec::new(),
            names: UpstreamNames::new(names),
            peers: Peers {
                group: 0,
                wire: Arc::default(),
                connect: Duration::ZERO,
                silence: Duration::ZERO,
                write: Duration::ZERO,
                idle: Duration::ZERO,
            },
        }
    }

    /// The endpoints, in the order of their URLs and addresses.
    pub fn list(&self) -> &[Arc<Endpoint>] {
        &self.list
    }

    /// What must not be told to a client.
    pub fn names(&self) -> &UpstreamNames {
        &self.names
    }

    /// The same with these addresses for one URL; none where that is no change.
    pub(super) fn with_addresses(
        &self,
        urls: &[UpstreamUrl],
        url: usize,
        addresses: &[SocketAddr],
        ready: &Ready,
    ) -> Option<Self> {
        let mut ids: Vec<EndpointId> = self.list.iter().map(|endpoint| endpoint.id()).collect();
        ids.retain(|id| id.url != url);
        ids.extend(addresses.iter().map(|address| EndpointId { url, address: *address }));
        ids.sort_unstable();
        ids.dedup();
        if self.list.iter().map(|endpoint| endpoint.id()).eq(ids.iter().copied()) {
            return None;
        }
        Some(Self::of(ids, urls, self.peers.clone(), |id, peer| {
            let stays = self.list.iter().find(|endpoint| endpoint.id() == id);
            let new = || Arc::new(Endpoint::new(id, peer, Conduct::new(ready)));
            stays.cloned().unwrap_or_else(new)
        }))
    }

    fn of(
        mut ids: Vec<EndpointId>,
        urls: &[UpstreamUrl],
        peers: Peers,
        endpoint: impl Fn(EndpointId, HttpPeer) -> Arc<Endpoint>,
    ) -> Self {
        ids.sort_unstable();
        ids.dedup();
        let list: Vec<Arc<Endpoint>> = ids
            .into_iter()
            .filter_map(|id| Some(endpoint(id, peers.peer(urls.get(id.url)?, id.address))))
            .collect();
        let addresses = list.iter().map(|endpoint| endpoint.id().address.to_string());
        let names = UpstreamNames::new(addresses.chain(urls.iter().map(written)));
        Self { list, names, peers }
    }
}

/// `host:port` with the port always written.
fn written(url: &UpstreamUrl) -> String {
    let host = match url.host() {
        Host::Name(name) => name.trim_end_matches('.').to_owned(),
        Host::Address(std::net::IpAddr::V4(address)) => address.to_string(),
        Host::Address(std::net::IpAddr::V6(address)) => format!("[{address}]"),
    };
    format!("{host}:{}", url.port())
}

/// What all connections to a family's endpoints have in common.
#[derive(Clone, Debug)]
pub(super) struct Peers {
    /// The number of their pool. Two families may share an address; they share no connection, so one cannot exhaust or
    /// taint the other's. Nor does one family share connections over a change of whom TLS trusts, which Pingora's pool
    /// does not look at.
    pub group: u32,
    pub wire: Arc<Wire>,
    pub connect: Duration,
    /// Silence of an endpoint, whatever it is asked for; each attempt sets its own.
    pub silence: Duration,
    /// An endpoint that takes nothing of a request.
    pub write: Duration,
    pub idle: Duration,
}

impl Peers {
    fn peer(&self, url: &UpstreamUrl, address: SocketAddr) -> HttpPeer {
        let tls = url.tls();
        let server_name = if tls { url.server_name() } else { String::new() };
        let mut peer = HttpPeer::new(address, tls, server_name);
        peer.group_key = u64::from(self.group);
        peer.options.connection_timeout = Some(self.connect);
        peer.options.total_connection_timeout = Some(self.connect);
        peer.options.read_timeout = Some(self.silence);
        peer.options.write_timeout = Some(self.write);
        peer.options.idle_timeout = Some(self.idle);
        self.wire.apply(url, &mut peer);
        // Pingora's policy lets a client remove any field by naming it in Connection; the proxy's own does not.
        peer.options.http_upstream_request_policy = HttpUpstreamRequestPolicy::preserve();
        peer
    }
}
