//! How many connections the clients of one network have open.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// The open connections by network: an IPv4 address, or the upper half of an IPv6 address, which is the least that one
/// customer of a provider gets (RFC 6177).
#[derive(Debug)]
pub(super) struct Networks {
    limit: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl Networks {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            open: Mutex::default(),
        })
    }

    /// Takes a place for a connection of this client; none when its network has as many as it may.
    pub fn enter(self: &Arc<Self>, client: IpAddr) -> Option<Visitor> {
        let network = network_of(client);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(network).or_insert(0);
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Visitor {
            networks: Arc::clone(self),
            network,
        })
    }
}

fn network_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

/// A connection's place, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Visitor {
    networks: Arc<Networks>,
    network: IpAddr,
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let mut open = self.networks.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.network) {
            *count -= 1;
            // Who has left is forgotten, or each network that ever came would stay in memory.
            if *count == 0 {
                open.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_places_and_is_forgotten_when_it_has_left() {
        let networks = Networks::new(2);
        let enter = |client: &str| networks.enter(client.parse().unwrap());
        let held = [
            enter("10.0.0.1"),
            enter("::ffff:10.0.0.1"),
            enter("2001:db8::1"),
            enter("2001:db8::ffff"),
        ];
        assert!(held.iter().all(Option::is_some));
        assert!(enter("10.0.0.1").is_none());
        assert!(enter("2001:db8::2").is_none());
        assert!(enter("10.0.0.2").is_some());
        assert!(enter("2001:db8:0:1::1").is_some());
        drop(held);
        assert!(enter("10.0.0.1").is_some());
        assert!(networks.open.lock().unwrap().is_empty());
    }
}
