//! The states of all families of one generation, readable from the request path without a lock.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use route_contract::contract::FamilyId;

use super::State;
use crate::upstream::{Upstream, Upstreams};

/// Whether the gateway is about to stop: a state of the process, whatever generation it serves.
#[derive(Debug, Default)]
pub struct Draining(AtomicBool);

impl Draining {
    /// Makes every verdict from now on `draining`. Requests are still served.
    pub fn begin(&self) {
        self.0.store(true, Relaxed);
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// The verdicts on the families of one generation, as they are at the moment of each question.
#[derive(Clone, Copy, Debug)]
pub struct Board<'g> {
    upstreams: &'g Upstreams,
    is_draining: bool,
}

/// One forwarded family as it stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyState<'g> {
    /// Its place in the contract.
    pub id: FamilyId,
    /// Its name.
    pub name: &'g str,
    /// Whether the overall verdict waits for it.
    pub required: bool,
    /// Whether it is ready.
    pub state: State,
}

impl<'g> Board<'g> {
    /// A board of these upstreams.
    pub fn new(upstreams: &'g Upstreams, draining: &Draining) -> Self {
        Self {
            upstreams,
            is_draining: draining.has_begun(),
        }
    }

    /// Whether the gateway drains.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Whether the gateway may be sent traffic: it is not draining, and every family that is required and
    /// switched on is ready.
    pub fn is_ready(&self) -> bool {
        !self.is_draining
            && self
                .families()
                .all(|family| !family.required || !matches!(family.state, State::NotReady(_)))
    }

    /// All forwarded families, in the order of the contract.
    pub fn families(&self) -> impl Iterator<Item = FamilyState<'g>> + use<'g> {
        self.upstreams.by_family().map(|(id, upstream)| FamilyState {
            id,
            name: upstream.name(),
            required: upstream.is_required(),
            state: state(upstream),
        })
    }

    /// Whether a family is ready.
    pub fn is_family_ready(&self, family: FamilyId) -> bool {
        self.upstreams
            .of(family)
            .is_some_and(|upstream| state(upstream) == State::Ready)
    }
}

fn state(upstream: &Upstream) -> State {
    if !upstream.is_enabled() {
        return State::Disabled;
    }
    upstream.readiness().map_or_else(State::NotReady, |()| State::Ready)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::load_source;
    use crate::readiness::Reason;
    use route_contract::contract::Contract;
    use route_contract::diagnostic::Source;
    use std::path::Path;

    /// The families `hidden`, `a` (probed), `b` (probed, not required), `c` (unprobed), `d` (off), in this order.
    pub fn upstreams() -> Upstreams {
        let family = |name: &str, serve: &str| {
            format!("[[family]]\nname = \"{name}\"\nserve = \"{serve}\"\nclaims = [\"/{name}/**\"]\n")
        };
        let contract: String = [
            ("hidden", "never"),
            ("a", "forward"),
            ("b", "forward"),
            ("c", "forward"),
            ("d", "forward"),
        ]
        .iter()
        .map(|(name, serve)| family(name, serve))
        .collect();
        let contract = Contract::load_with(Path::new("contract.toml"), &|path| {
            Ok(Source::new(
                path.display().to_string(),
                format!("version = 1\n{contract}"),
            ))
        })
        .unwrap();
        let config = "contract = \"c\"\n[listen]\npublic = \"127.0.0.1:0\"\n\
            [upstream.a]\nurl = \"http://inner-host:8443\"\nready = \"/hz-9f3?token=abc\"\n\
            [upstream.b]\nurl = \"http://inner-host\"\nrequired = false\n\
            [upstream.c]\nurl = \"http://10.0.0.1\"\nready = false\n\
            [upstream.d]\nurl = \"http://inner-host\"\nenabled = false\n";
        let config = load_source(&Source::new("g", config), Path::new(""), &|_| None)
            .unwrap()
            .config;
        Upstreams::new(&contract, &config).unwrap()
    }

    /// What is said of them while the gateway does not drain.
    pub fn board(upstreams: &Upstreams) -> Board<'_> {
        Board::new(upstreams, &Draining::default())
    }

    /// The result of a probe of a family's only endpoint.
    pub fn probed(upstreams: &Upstreams, family: FamilyId, result: Result<(), Reason>) {
        let upstream = upstreams.of(family).unwrap();
        // Names are not resolved in these tests.
        upstream.set_addresses(0, &["127.0.0.1:1".parse().unwrap()]);
        upstream.probed(&upstream.endpoints().list()[0], result);
    }

    fn requests(upstreams: &Upstreams, family: FamilyId, result: Result<(), Reason>) {
        let upstream = upstreams.of(family).unwrap();
        let endpoint = upstream.endpoints().list()[0].clone();
        match result {
            Ok(()) => upstream.connected(&endpoint),
            Err(reason) => upstream.connect_failed(&endpoint, reason),
        }
    }

    fn serves(upstreams: &Upstreams, family: FamilyId) -> bool {
        upstreams.of(family).is_some_and(|upstream| upstream.serves())
    }

    const A: FamilyId = FamilyId(1);
    const B: FamilyId = FamilyId(2);
    const C: FamilyId = FamilyId(3);
    const D: FamilyId = FamilyId(4);

    #[test]
    fn the_verdict_waits_for_required_families_alone() {
        let upstreams = upstreams();
        let board = board(&upstreams);
        assert!(!board.is_ready());
        probed(&upstreams, A, Ok(()));
        assert!(board.is_ready());
        assert!(serves(&upstreams, A) && !serves(&upstreams, B) && serves(&upstreams, C) && !serves(&upstreams, D));
        assert!(!serves(&upstreams, FamilyId(0)) && !serves(&upstreams, FamilyId(99)));
        for _ in 0..3 {
            requests(&upstreams, C, Err(Reason::Refused));
        }
        assert!(!board.is_ready() && !serves(&upstreams, C));
        requests(&upstreams, C, Ok(()));
        assert!(board.is_ready() && serves(&upstreams, C));
    }

    #[test]
    fn clients_cannot_change_a_probed_family() {
        let upstreams = upstreams();
        probed(&upstreams, A, Ok(()));
        for _ in 0..10 {
            requests(&upstreams, A, Err(Reason::Refused));
        }
        assert!(serves(&upstreams, A));
        probed(&upstreams, B, Err(Reason::Dns));
        requests(&upstreams, B, Ok(()));
        assert!(!serves(&upstreams, B));
    }

    #[test]
    fn while_draining_nothing_is_ready_and_all_is_served() {
        let upstreams = upstreams();
        let board = board(&upstreams);
        probed(&upstreams, A, Ok(()));
        assert!(board.is_ready());
        let draining = Draining::default();
        draining.begin();
        let board = Board::new(&upstreams, &draining);
        assert!(!board.is_ready());
        assert!(serves(&upstreams, A));
    }
}
