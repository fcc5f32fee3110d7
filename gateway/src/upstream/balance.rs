//! The choice of an endpoint among those that take requests.

use std::sync::Arc;

use super::affinity;
use super::endpoint::{Endpoint, EndpointId};
use crate::config::Balance;

/// Endpoints that an earlier attempt of the same request has used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tried([Option<EndpointId>; Tried::MOST]);

impl Tried {
    /// How many are remembered.
    pub const MOST: usize = 3;

    /// Remembers one; beyond [`Self::MOST`] nothing is remembered.
    pub fn add(&mut self, id: EndpointId) {
        if let Some(free) = self.0.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(id);
        }
    }

    /// Whether it was used.
    pub fn has(&self, id: EndpointId) -> bool {
        self.0.contains(&Some(id))
    }
}

/// What a choice depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'c> {
    pub balance: Balance,
    /// The hash of what keeps the request with others of its kind.
    pub key: Option<u64>,
    /// Counts the choices of the family.
    pub turn: usize,
    pub tried: &'c Tried,
    /// Milliseconds of the monotonic clock.
    pub now: u64,
    /// Milliseconds in which an endpoint comes back to its full part.
    pub slow_return: u64,
}

impl Choice<'_> {
    /// Chooses; none when no endpoint takes requests.
    pub fn among<'e>(&self, endpoints: &'e [Arc<Endpoint>]) -> Option<&'e Arc<Endpoint>> {
        let untried = |endpoint: &&Arc<Endpoint>| !self.tried.has(endpoint.id());
        // One that is to be tried again is tried by somebody, or it would stay out while the others do well.
        let trial = endpoints
            .iter()
            .filter(untried)
            .find(|endpoint| endpoint.ejection().out(self.now).is_none() && endpoint.health().trial(self.now));
        if trial.is_some() {
            return trial;
        }
        self.best(endpoints, |endpoint| {
            !self.tried.has(endpoint.id()) && self.takes_its_part(endpoint)
        })
        .or_else(|| self.best(endpoints, |endpoint| !self.tried.has(endpoint.id())))
        // All have been tried: what is asked for is another attempt, not another endpoint.
        .or_else(|| self.best(endpoints, |_| true))
    }

    fn best<'e>(
        &self,
        endpoints: &'e [Arc<Endpoint>],
        eligible: impl Fn(&Endpoint) -> bool,
    ) -> Option<&'e Arc<Endpoint>> {
        let start = self.turn.checked_rem(endpoints.len())?;
        let (before, from) = endpoints.split_at_checked(start)?;
        // The first of equals wins, and who is first changes with every turn.
        from.iter()
            .chain(before)
            .enumerate()
            .filter(|(_, endpoint)| {
                endpoint.health().serves(self.now) && endpoint.ejection().out(self.now).is_none() && eligible(endpoint)
            })
            .min_by_key(|(place, endpoint)| match (self.key, self.balance) {
                (Some(key), _) => u64::MAX - affinity::score(endpoint.seed(), key),
                (None, Balance::RoundRobin) => *place as u64,
                (None, Balance::LeastInFlight) => endpoint.in_flight() as u64,
            })
            .map(|(_, endpoint)| endpoint)
    }

    fn takes_its_part(&self, endpoint: &Endpoint) -> bool {
        let part = endpoint.part(self.now, self.slow_return);
        part == u8::MAX || fastrand::u8(..) < part
    }
}
