//! The states of all families, readable from the request path without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use route_contract::contract::FamilyId;

use super::State;
use crate::upstream::{Upstream, Upstreams};

/// The verdicts on the families of one contract.
#[derive(Debug)]
pub struct Board {
    upstreams: Arc<Upstreams>,
    draining: AtomicBool,
}

/// One forwarded family as it stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyState<'b> {
    /// Its place in the contract.
    pub id: FamilyId,
    /// Its name.
    pub name: &'b str,
    /// Whether the overall verdict waits for it.
    pub required: bool,
    /// Whether it is ready.
    pub state: State,
}

impl Board {
    /// A board of these upstreams.
    pub fn new(upstreams: Arc<Upstreams>) -> Self {
        Self {
            upstreams,
            draining: AtomicBool::new(false),
        }
    }

    /// Whether requests of this family are to be forwarded. While the gateway drains they still are.
    pub fn serves(&self, family: FamilyId) -> bool {
        self.upstreams.of(family).is_some_and(|upstream| upstream.serves())
    }

    /// Makes every verdict from now on `draining`. Requests are still served.
    pub fn drain(&self) {
        self.draining.store(true, Relaxed);
    }

    /// Whether [`drain`](Self::drain) was called.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Whether the gateway may be sent traffic: it is not draining, and every family that is required and
    /// switched on is ready.
    pub fn is_ready(&self) -> bool {
        !self.is_draining()
            && self
                .families()
                .all(|family| !family.required || !matches!(family.state, State::NotReady(_)))
    }

    /// All forwarded families, in the order of the contract.
    pub fn families(&self) -> impl Iterator<Item = FamilyState<'_>> {
        self.upstreams.all().map(|upstream| FamilyState {
            id: upstream.family(),
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
    pub fn board() -> Board {
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
        Board::new(Arc::new(Upstreams::new(&contract, &config)))
    }

    /// The result of a probe of a family's only endpoint.
    pub fn probed(board: &Board, family: FamilyId, result: Result<(), Reason>) {
        let upstream = board.upstreams.of(family).unwrap();
        // Names are not resolved in these tests.
        upstream.set_addresses(0, &["127.0.0.1:1".parse().unwrap()]);
        upstream.probed(&upstream.endpoints().list()[0], result);
    }

    fn requests(board: &Board, family: FamilyId, result: Result<(), Reason>) {
        let upstream = board.upstreams.of(family).unwrap();
        let endpoint = upstream.endpoints().list()[0].clone();
        match result {
            Ok(()) => upstream.connected(&endpoint),
            Err(reason) => upstream.connect_failed(&endpoint, reason),
        }
    }

    const A: FamilyId = FamilyId(1);
    const B: FamilyId = FamilyId(2);
    const C: FamilyId = FamilyId(3);
    const D: FamilyId = FamilyId(4);

    #[test]
    fn the_verdict_waits_for_required_families_alone() {
        let board = board();
        assert!(!board.is_ready());
        probed(&board, A, Ok(()));
        assert!(board.is_ready());
        assert!(board.serves(A) && !board.serves(B) && board.serves(C) && !board.serves(D));
        assert!(!board.serves(FamilyId(0)) && !board.serves(FamilyId(99)));
        for _ in 0..3 {
            requests(&board, C, Err(Reason::Refused));
        }
        assert!(!board.is_ready() && !board.serves(C));
        requests(&board, C, Ok(()));
        assert!(board.is_ready() && board.serves(C));
    }

    #[test]
    fn clients_cannot_change_a_probed_family() {
        let board = board();
        probed(&board, A, Ok(()));
        for _ in 0..10 {
            requests(&board, A, Err(Reason::Refused));
        }
        assert!(board.serves(A));
        probed(&board, B, Err(Reason::Dns));
        requests(&board, B, Ok(()));
        assert!(!board.serves(B));
    }

    #[test]
    fn while_draining_nothing_is_ready_and_all_is_served() {
        let board = board();
        probed(&board, A, Ok(()));
        board.drain();
        assert!(!board.is_ready());
        assert!(board.serves(A));
    }
}
