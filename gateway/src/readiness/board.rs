//! The states of all families, readable from the request path without a lock.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use route_contract::contract::{Contract, FamilyId, Serve};

use super::health::Health;
use super::{Reason, State};
use crate::config::Config;

/// What is known of each family of one contract.
#[derive(Debug)]
pub struct Board {
    /// By [`FamilyId`]; `None` for a family that is never forwarded.
    families: Vec<Option<Family>>,
    draining: AtomicBool,
    /// Times are counted from here: the wall clock may jump.
    epoch: Instant,
}

#[derive(Debug)]
struct Family {
    name: String,
    required: bool,
    health: Health,
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
    /// A board on which probed families are not ready yet and unprobed ones are. A forwarded family without
    /// its `[upstream]` table, which the check of a configuration refuses, counts as switched off.
    pub fn new(contract: &Contract, config: &Config) -> Self {
        let families = contract
            .families
            .iter()
            .map(|family| {
                let upstream = config.upstream.get(&family.name);
                (family.serve == Serve::Forward).then(|| Family {
                    name: family.name.clone(),
                    required: upstream.is_some_and(|upstream| upstream.required),
                    health: upstream.map_or(Health::Disabled, Health::new),
                })
            })
            .collect();
        Self {
            families,
            draining: AtomicBool::new(false),
            epoch: Instant::now(),
        }
    }

    /// Whether requests of this family are to be forwarded. While the gateway drains they still are.
    pub fn serves(&self, family: FamilyId) -> bool {
        self.family(family)
            .is_some_and(|family| family.health.serves(self.now()))
    }

    /// Notes that a request has connected to the family's upstream.
    pub fn connected(&self, family: FamilyId) {
        if let Some(family) = self.family(family)
            && let Health::Unprobed(unprobed) = &family.health
            && unprobed.connected()
        {
            log_change(&family.name, State::Ready);
        }
    }

    /// Notes that a request could not connect to the family's upstream. A probed family's state is left to its
    /// probe.
    pub fn connect_failed(&self, family: FamilyId, reason: Reason) {
        if let Some(family) = self.family(family)
            && let Health::Unprobed(unprobed) = &family.health
            && unprobed.failed(reason, self.now())
        {
            log_change(&family.name, State::NotReady(reason));
        }
    }

    /// Notes the result of a family's probe.
    pub(super) fn probed(&self, family: FamilyId, result: Result<(), Reason>) {
        if let Some(family) = self.family(family)
            && let Health::Probed(probed) = &family.health
            && let Some(state) = probed.record(result, self.now())
        {
            log_change(&family.name, state);
        }
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
        let now = self.now();
        (0..).map(FamilyId).zip(&self.families).filter_map(move |(id, family)| {
            family.as_ref().map(|family| FamilyState {
                id,
                name: &family.name,
                required: family.required,
                state: family.health.state(now),
            })
        })
    }

    /// Whether a family is ready, for those who only look: unlike [`serves`](Self::serves) it lets nobody go first.
    pub fn is_family_ready(&self, family: FamilyId) -> bool {
        self.family(family)
            .is_some_and(|family| family.health.state(self.now()) == State::Ready)
    }

    fn family(&self, family: FamilyId) -> Option<&Family> {
        self.families.get(family.index())?.as_ref()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Names the family and a closed reason; the upstream's address is in no log at this level.
fn log_change(family: &str, state: State) {
    match state {
        State::Ready => tracing::info!(family, ready = true, "readiness changed"),
        State::NotReady(reason) => {
            tracing::info!(family, ready = false, reason = reason.as_str(), "readiness changed");
        }
        State::Disabled => {}
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::load_source;
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
            [upstream.c]\nurl = \"http://inner-host\"\nready = false\n\
            [upstream.d]\nurl = \"http://inner-host\"\nenabled = false\n";
        let config = load_source(&Source::new("g", config), Path::new(""), &|_| None)
            .unwrap()
            .config;
        Board::new(&contract, &config)
    }

    const A: FamilyId = FamilyId(1);
    const B: FamilyId = FamilyId(2);
    const C: FamilyId = FamilyId(3);
    const D: FamilyId = FamilyId(4);

    #[test]
    fn the_verdict_waits_for_required_families_alone() {
        let board = board();
        assert!(!board.is_ready());
        board.probed(A, Ok(()));
        assert!(board.is_ready());
        assert!(board.serves(A) && !board.serves(B) && board.serves(C) && !board.serves(D));
        assert!(!board.serves(FamilyId(0)) && !board.serves(FamilyId(99)));
        for _ in 0..3 {
            board.connect_failed(C, Reason::Refused);
        }
        assert!(!board.is_ready() && !board.serves(C));
        board.connected(C);
        assert!(board.is_ready() && board.serves(C));
    }

    #[test]
    fn clients_cannot_change_a_probed_family() {
        let board = board();
        board.probed(A, Ok(()));
        for _ in 0..10 {
            board.connect_failed(A, Reason::Refused);
        }
        assert!(board.serves(A));
        board.connected(B);
        assert!(!board.serves(B));
    }

    #[test]
    fn while_draining_nothing_is_ready_and_all_is_served() {
        let board = board();
        board.probed(A, Ok(()));
        board.drain();
        assert!(!board.is_ready());
        assert!(board.serves(A));
    }
}
