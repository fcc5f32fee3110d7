//! One endpoint: an address of one of a family's URLs, with its health and its requests in flight.
//!
//! An endpoint belongs to one family even where two families share an address, so nothing that one family's requests
//! do to it is seen by the other's. What is known of it outlives a generation: the next one, with other settings for the
//! connection, may share its [`Conduct`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use pingora::upstreams::peer::HttpPeer;

use super::affinity;
use super::ejection::Ejection;
use super::health::Health;
use super::reason::Reason;
use super::tunnel_socket::TunnelConnector;
use crate::config::Ready;
use crate::listen::TunnelEnd;

/// What an endpoint is: its URL's place among the family's, and the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId {
    /// The place of its URL in the configuration.
    pub url: usize,
    /// Where it is.
    pub address: SocketAddr,
}

/// An endpoint at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointState {
    /// Where it is.
    pub address: SocketAddr,
    /// Why it takes no requests; none when it does.
    pub down: Option<Reason>,
    /// Requests in flight.
    pub in_flight: usize,
}

/// One endpoint of one family.
#[derive(Debug)]
pub struct Endpoint {
    id: EndpointId,
    peer: HttpPeer,
    /// Differs from endpoint to endpoint, and is the same in all replicas.
    seed: u64,
    conduct: Arc<Conduct>,
}

/// How an endpoint has done so far, and what it does now.
#[derive(Debug)]
pub(super) struct Conduct {
    health: Health,
    ejection: Ejection,
    in_flight: AtomicUsize,
    /// When a probe found it ready again; 0 for one that never was out.
    recovered: AtomicU64,
}

impl Conduct {
    /// Of an endpoint of which nothing is known yet.
    pub fn new(ready: &Ready) -> Arc<Self> {
        Arc::new(Self {
            health: Health::new(ready),
            ejection: Ejection::default(),
            in_flight: AtomicUsize::new(0),
            recovered: AtomicU64::new(0),
        })
    }
}

impl Endpoint {
    /// An endpoint that is connected to like this, of which this is known.
    pub(super) fn new(id: EndpointId, peer: HttpPeer, conduct: Arc<Conduct>) -> Self {
        Self {
            id,
            peer,
            seed: affinity::hash(id.address.to_string().as_bytes()),
            conduct,
        }
    }

    /// What it is.
    pub fn id(&self) -> EndpointId {
        self.id
    }

    /// How it is connected to.
    pub fn peer(&self) -> &HttpPeer {
        &self.peer
    }

    /// How it is connected to for a tunnel.
    pub fn tunnel_peer(&self, end: Arc<TunnelEnd>) -> HttpPeer {
        tunnel(&self.peer, end)
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.conduct.in_flight.load(Relaxed)
    }

    pub(super) fn conduct(&self) -> &Arc<Conduct> {
        &self.conduct
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn health(&self) -> &Health {
        &self.conduct.health
    }

    pub(super) fn ejection(&self) -> &Ejection {
        &self.conduct.ejection
    }

    /// Why it takes no requests; none when it does. For those who only look.
    pub fn down(&self, now: u64) -> Option<Reason> {
        self.health().down(now).or_else(|| self.ejection().out(now))
    }

    /// Takes a probe's result. Answers the new state when it changed.
    pub(super) fn probed(&self, result: Result<(), Reason>, now: u64) -> Option<Result<(), Reason>> {
        let before = self.health().down(now);
        let change = self.health().probed(result, now)?;
        if change.is_ok() && before.is_some_and(|reason| reason != Reason::Starting) {
            self.conduct.recovered.store(now, Relaxed);
        }
        Some(change)
    }

    /// The part of its share that it takes while it comes back, from 0 to 255; 255 is all of it.
    pub(super) fn part(&self, now: u64, slow_return: u64) -> u8 {
        let since = self.conduct.recovered.load(Relaxed).max(self.ejection().ended());
        if since == 0 || slow_return == 0 {
            return u8::MAX;
        }
        let gone = now.saturating_sub(since);
        if gone >= slow_return {
            return u8::MAX;
        }
        // A tenth at once: an endpoint that takes nothing proves nothing.
        let part = (gone.saturating_mul(255) / slow_return).max(25);
        u8::try_from(part).unwrap_or(u8::MAX)
    }
}

/// Tunnels have connections of their own, and none is kept for another request.
fn tunnel(peer: &HttpPeer, end: Arc<TunnelEnd>) -> HttpPeer {
    let mut peer = peer.clone();
    peer.group_key |= 1 << 32;
    peer.options.idle_timeout = Some(Duration::ZERO);
    // A WebSocket is opened by HTTP/1.1, whatever other requests speak.
    peer.options.set_http_version(1, 1);
    let limit = peer.options.connection_timeout.unwrap_or(Duration::MAX);
    peer.options.custom_l4 = Some(Arc::new(TunnelConnector { limit, end }));
    peer
}

/// An endpoint that an attempt uses, counted in flight until this is dropped.
#[derive(Debug)]
pub struct InUse(Arc<Endpoint>);

impl InUse {
    pub(super) fn new(endpoint: Arc<Endpoint>) -> Self {
        endpoint.conduct.in_flight.fetch_add(1, Relaxed);
        Self(endpoint)
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.conduct.in_flight.fetch_sub(1, Relaxed);
    }
}
