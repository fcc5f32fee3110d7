//! The proof: everything that a contract says about paths, decided for every class of paths.
//!
//! One automaton holds the templates of all families and profiles, the common routes and the retired paths.
//! What is asked of each of its states is asked of all paths. What the states say is then compared with the
//! running code: the compiled matcher, the ordered scan and each profile's router answer a witness of every
//! state, so that the proof and the gateway cannot drift apart.

use std::collections::HashMap;

use crate::automaton::{Automaton, AutomatonError, Mark, StateId};
use crate::classify::Classifier;
use crate::contract::{Contract, FamilyId, LocatedTemplate, Profile, Role, Route};
use crate::diagnostic::{Diagnostic, Place};
use crate::ownership::{Decision, Owner, Ownership, TemplateId};
use crate::router::ProfileRouter;
use crate::scan::Scan;

/// The code of a contract whose templates overlap in too many ways.
pub const TOO_LARGE: &str = "RC0110";

/// A contract with all that was found out about it.
pub struct Proof<'c> {
    /// What is proved.
    pub contract: &'c Contract,
    /// The families' templates, and the rule that decides among them.
    pub ownership: Ownership,
    /// All templates.
    pub automaton: Automaton,
    /// What the gateway runs.
    pub classifier: Classifier,
    /// The oracle.
    pub scan: Scan,
    /// The routers that could be built, by the profile's index.
    pub routers: Vec<Option<ProfileRouter>>,
    /// Routes that a router cannot hold.
    pub conflicts: Vec<Diagnostic>,
    subjects: Vec<Subject>,
    /// For each state of the automaton, the decision on its paths.
    decisions: Vec<Decision>,
    /// For each mark, the owners of its paths, each with the first state that has it.
    reach: HashMap<Mark, Vec<(Owner, StateId)>>,
}

/// What a mark beyond the families' templates stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// A route of a profile: indices.
    Route(usize, usize),
    /// A common route: its index.
    Common(usize),
    /// A retired path: its index.
    Retired(usize),
}

/// How much was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Families of the contract.
    pub families: usize,
    /// Claims and routes of all families.
    pub templates: usize,
    /// Each profile with the number of routes that it registers.
    pub profiles: Vec<(String, usize)>,
    /// Classes of paths that were decided.
    pub classes: usize,
}

/// A profile's route with the owners of its paths.
pub struct Reach<'p> {
    /// The profile.
    pub profile: &'p Profile,
    /// The route.
    pub route: &'p Route,
    /// Each owner of some of its paths, with the first state that shows it.
    pub owners: &'p [(Owner, StateId)],
    /// Its mark in the automaton.
    pub mark: Mark,
}

impl<'c> Proof<'c> {
    /// Decides about every class of paths.
    ///
    /// # Errors
    /// The templates overlap in too many ways to be decided.
    pub fn new(contract: &'c Contract) -> Result<Self, Vec<Diagnostic>> {
        let ownership = Ownership::new(contract);
        let too_large =
            |error: String| vec![Diagnostic::error(TOO_LARGE, error).at(Place::new(&contract.source, 0..0))];
        let mut subjects = Vec::new();
        let mut templates: Vec<_> = ownership.templates().map(|(_, template)| template).collect();
        for (index, profile) in contract.profiles.iter().enumerate() {
            for (route_index, route) in profile.routes.iter().flatten().enumerate() {
                subjects.push(Subject::Route(index, route_index));
                templates.push(&route.template);
            }
        }
        for (index, route) in contract.common.iter().enumerate() {
            subjects.push(Subject::Common(index));
            templates.push(&route.template);
        }
        for (index, located) in contract.retired.iter().enumerate() {
            subjects.push(Subject::Retired(index));
            templates.push(&located.template);
        }
        let automaton = Automaton::new((0..).zip(templates), &contract.kinds, false)
            .map_err(|error: AutomatonError| too_large(error.to_string()))?;
        let classifier = Classifier::new(contract)?;
        let scan = Scan::new(contract).map_err(too_large)?;
        let mut conflicts = Vec::new();
        let routers = contract
            .profiles
            .iter()
            .map(|profile| {
                ProfileRouter::new(contract, profile)
                    .map_err(|faults| conflicts.extend(faults))
                    .ok()
            })
            .collect();
        let decisions: Vec<Decision> = automaton
            .states()
            .iter()
            .map(|state| ownership.decide(&state.ends))
            .collect();
        let mut reach: HashMap<Mark, Vec<(Owner, StateId)>> = HashMap::new();
        for class in automaton.classes() {
            let ends = &automaton.states()[class as usize].ends;
            let owner = decisions[class as usize].owner;
            for mark in ends {
                let owners = reach.entry(*mark).or_default();
                if owners.iter().all(|(known, _)| *known != owner) {
                    owners.push((owner, class));
                }
            }
        }
        Ok(Self {
            contract,
            ownership,
            automaton,
            classifier,
            scan,
            routers,
            conflicts,
            subjects,
            decisions,
            reach,
        })
    }

    /// How much was looked at.
    pub fn counts(&self) -> Counts {
        Counts {
            families: self.contract.families.len(),
            templates: self.ownership.len(),
            profiles: self
                .contract
                .profiles
                .iter()
                .map(|profile| (profile.name.clone(), self.contract.routes_of(profile).len()))
                .collect(),
            classes: self.automaton.classes().count(),
        }
    }

    /// The owners of the paths of a mark, each with the first state that shows it.
    pub fn owners(&self, mark: Mark) -> &[(Owner, StateId)] {
        self.reach.get(&mark).map(Vec::as_slice).unwrap_or_default()
    }

    /// The decision on the paths that end in a state.
    pub fn decision(&self, class: StateId) -> Decision {
        self.decisions
            .get(class as usize)
            .copied()
            .unwrap_or(Decision::UNCLAIMED)
    }

    /// The owner of the paths that end in a state.
    pub fn owner(&self, class: StateId) -> Owner {
        self.decision(class).owner
    }

    /// Where a template of a family stands.
    pub fn place(&self, template: TemplateId) -> Option<&Place> {
        let mut at = template.0 as usize;
        for family in &self.contract.families {
            for templates in std::iter::once(&family.claims).chain(&family.routes) {
                match templates.get(at) {
                    Some(located) => return Some(&located.place),
                    None => at -= templates.len(),
                }
            }
        }
        None
    }

    /// The shortest path of a class.
    pub fn witness(&self, class: StateId) -> String {
        self.automaton.witness(class)
    }

    /// Every route of every plain profile that is not a common one.
    pub fn plain_routes(&self) -> impl Iterator<Item = Reach<'_>> {
        self.routes().filter(|reach| {
            matches!(reach.profile.role, Role::Plain { .. }) && !self.contract.is_common(&reach.route.template)
        })
    }

    /// Every route of every profile.
    pub fn routes(&self) -> impl Iterator<Item = Reach<'_>> {
        self.marked().filter_map(|(mark, subject)| match subject {
            Subject::Route(profile, route) => {
                let profile = self.contract.profiles.get(profile)?;
                Some(Reach {
                    profile,
                    route: profile.routes.as_ref()?.get(route)?,
                    owners: self.owners(mark),
                    mark,
                })
            }
            _ => None,
        })
    }

    /// The common routes with the owners of their paths.
    pub fn common(&self) -> impl Iterator<Item = (&Route, &[(Owner, StateId)])> {
        self.marked().filter_map(|(mark, subject)| match subject {
            Subject::Common(index) => Some((self.contract.common.get(index)?, self.owners(mark))),
            _ => None,
        })
    }

    /// The retired paths with the owners of their paths, and their marks.
    pub fn retired(&self) -> impl Iterator<Item = (&LocatedTemplate, &[(Owner, StateId)], Mark)> {
        self.marked().filter_map(|(mark, subject)| match subject {
            Subject::Retired(index) => Some((self.contract.retired.get(index)?, self.owners(mark), mark)),
            _ => None,
        })
    }

    /// The route of a mark.
    pub fn route_of(&self, mark: Mark) -> Option<(&Profile, &Route)> {
        let index = (mark as usize).checked_sub(self.ownership.len())?;
        match self.subjects.get(index)? {
            Subject::Route(profile, route) => {
                let profile = self.contract.profiles.get(*profile)?;
                Some((profile, profile.routes.as_ref()?.get(*route)?))
            }
            _ => None,
        }
    }

    /// The routes that a class of paths reaches in the plain profiles that own a family.
    pub fn serving(&self, class: StateId, family: FamilyId) -> impl Iterator<Item = &Route> {
        let ends = self
            .automaton
            .states()
            .get(class as usize)
            .map_or(&[][..], |state| &state.ends);
        ends.iter()
            .filter_map(|mark| self.route_of(*mark))
            .filter(move |(profile, _)| match &profile.role {
                Role::Plain { owns } => owns.contains(&family),
                Role::Aggregate { .. } => false,
            })
            .map(|(_, route)| route)
    }

    /// Whether a plain profile that owns the family answers the paths of a class.
    pub fn is_served(&self, class: StateId, family: FamilyId) -> bool {
        self.serving(class, family).next().is_some()
    }

    fn marked(&self) -> impl Iterator<Item = (Mark, Subject)> {
        (self.ownership.len() as Mark..).zip(self.subjects.iter().copied())
    }

    /// An owner in words.
    pub fn describe(&self, owner: Owner) -> String {
        describe(self.contract, owner)
    }
}

/// An owner in words: `family ...`, or `nobody: ...`.
pub fn describe(contract: &Contract, owner: Owner) -> String {
    let family = |id: FamilyId| {
        let family = contract.families.get(id.index());
        let name = family.map_or("", |family| &family.name);
        match family.and_then(|family| family.owner.as_deref()) {
            Some(owner) => format!("`{name}` ({owner})"),
            None => format!("`{name}`"),
        }
    };
    match owner {
        Owner::Family(id) => format!("family {}", family(id)),
        Owner::Never(id) => format!("family {}, which is never forwarded", family(id)),
        Owner::Refused(id) => format!("nobody: family {} claims it and lists no such route", family(id)),
        Owner::Unclaimed => "nobody: no family claims it".to_owned(),
    }
}
