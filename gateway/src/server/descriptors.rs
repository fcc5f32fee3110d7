//! The process's file descriptors, and what they leave room for.
//!
//! A gateway without descriptors accepts nobody, probes nothing and answers no orchestrator. So clients and upstreams get
//! no more of them than leaves some for the admin listener, probes and files, whatever the configuration allows.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::Config;

/// Descriptors for the admin listener, probes, files and the runtime.
const RESERVE: u64 = 512;
/// What is assumed where the operating system does not say.
const UNKNOWN: u64 = 1_024;

/// How the descriptors are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// For client connections.
    pub clients: usize,
    /// For requests in flight, each of which may have a connection to an upstream.
    pub in_flight: usize,
    /// For connections to upstreams that are kept for later.
    pub kept: usize,
}

impl Room {
    /// Raises the process's own limit as far as it may, and shares out what that gives.
    pub fn make() -> Self {
        let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
            return Self::of(UNKNOWN);
        };
        if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
            return Self::of(hard);
        }
        Self::of(soft)
    }

    /// The configuration with its limits held to what there is room for.
    pub fn fit(&self, config: &Config) -> Config {
        let mut config = config.clone();
        let limits = &mut config.limits;
        if limits.connections > self.clients || limits.in_flight > self.in_flight {
            limits.connections = limits.connections.min(self.clients);
            limits.in_flight = limits.in_flight.min(self.in_flight);
            tracing::info!(
                connections = limits.connections,
                inFlight = limits.in_flight,
                "the process may have too few descriptors for all that is configured: some limits are lower"
            );
        }
        config
    }

    fn of(limit: u64) -> Self {
        // Of very few, half are kept back.
        let usable = limit.saturating_sub(RESERVE.min(limit / 2));
        let part = |of: u64| usize::try_from(usable / 8 * of).unwrap_or(usize::MAX).max(1);
        Self {
            clients: part(4),
            in_flight: part(3),
            kept: part(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_always_left() {
        for limit in [0, 16, 64, 1_024, 20_000, 1 << 20, u64::MAX] {
            let room = Room::of(limit);
            assert!(room.clients >= 1 && room.in_flight >= 1 && room.kept >= 1);
            let used = (room.clients as u128) + (room.in_flight as u128) + (room.kept as u128);
            let kept_back = u128::from(limit.min(1_024) / 2);
            assert!(limit < 64 || used + kept_back <= u128::from(limit), "{limit}: {room:?}");
        }
        let room = Room::of(20_512);
        assert_eq!((room.clients, room.in_flight, room.kept), (10_000, 7_500, 2_500));
        let now = Room::make();
        assert!(now.clients >= now.in_flight);
    }
}
