//! The endpoints of a family that are known now, as one immutable list.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pingora::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};
use route_contract::contract::FamilyId;

use super::endpoint::{Endpoint, EndpointId};
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

impl Endpoints {
    /// The endpoints whose URLs hold addresses; those of names come by [`Self::with_addresses`].
    pub(super) fn new(urls: &[UpstreamUrl], peers: Peers, ready: &Ready) -> Self {
        let known = urls.iter().enumerate().filter_map(|(url, at)| match at.host() {
            Host::Address(address) => Some(EndpointId {
                url,
                address: SocketAddr::new(*address, at.port()),
            }),
            Host::Name(_) => None,
        });
        Self::of(known.collect(), &[], urls, peers, ready)
    }

    /// Endpoints of which only the names matter.
    #[cfg(test)]
    pub fn named(names: impl IntoIterator<Item = String>) -> Self {
        Self {
            list: Vec::new(),
            names: UpstreamNames::new(names),
            peers: Peers {
                family: FamilyId(0),
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
        Some(Self::of(ids, &self.list, urls, self.peers.clone(), ready))
    }

    fn of(
        mut ids: Vec<EndpointId>,
        present: &[Arc<Endpoint>],
        urls: &[UpstreamUrl],
        peers: Peers,
        ready: &Ready,
    ) -> Self {
        ids.sort_unstable();
        ids.dedup();
        let list: Vec<Arc<Endpoint>> = ids
            .into_iter()
            .filter_map(|id| {
                let stays = present.iter().find(|endpoint| endpoint.id() == id);
                stays.cloned().or_else(|| {
                    let peer = peers.peer(urls.get(id.url)?, id.address);
                    Some(Arc::new(Endpoint::new(id, peer, ready)))
                })
            })
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
    pub family: FamilyId,
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
        // Two families may share an address; they share no connection, so one cannot exhaust or taint the other's.
        peer.group_key = u64::from(self.family.0) + 1;
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
