//! The steps by which a contract and its profiles are weakened.

mod words;

use crate::contract::{Contract, FamilyId, LocatedTemplate, Profile, Role, Route, Serve};
use crate::template::Template;

use super::reshape;

/// The code under which the loader refuses two things where one is meant.
const DUPLICATE: &str = "RC0106";
/// The code under which the loader refuses a family that claims or lists nothing.
const EMPTY: &str = crate::contract::CODES.invalid_value;

/// A kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// A family lists a route less.
    DropRoute,
    /// A family claims a template less.
    DropClaim,
    /// A family less.
    DropFamily,
    /// A claim loses its last segment, or gets everything below it.
    WidenClaim,
    /// A claim loses what is below it, or gets a literal more.
    NarrowClaim,
    /// Two families change places.
    SwapFamilies,
    /// A parameter of a family's template loses its kind.
    LoosenKind,
    /// A family that is never forwarded is forwarded.
    ForwardNever,
    /// A retired path is forgotten.
    DropRetired,
    /// A route is registered by another profile instead.
    MoveRoute,
    /// A route is registered once more, by the same profile or another.
    RegisterTwice,
    /// A route is missing from an aggregate.
    DropFromAggregate,
    /// A profile is missing from an aggregate.
    DropPart,
    /// A profile owns a family less.
    DropOwned,
}

impl Operator {
    /// All, in their order.
    pub const ALL: [Self; 14] = [
        Self::DropRoute,
        Self::DropClaim,
        Self::DropFamily,
        Self::WidenClaim,
        Self::NarrowClaim,
        Self::SwapFamilies,
        Self::LoosenKind,
        Self::ForwardNever,
        Self::DropRetired,
        Self::MoveRoute,
        Self::RegisterTwice,
        Self::DropFromAggregate,
        Self::DropPart,
        Self::DropOwned,
    ];

    /// The name that reports show.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DropRoute => "drop-route",
            Self::DropClaim => "drop-claim",
            Self::DropFamily => "drop-family",
            Self::WidenClaim => "widen-claim",
            Self::NarrowClaim => "narrow-claim",
            Self::SwapFamilies => "swap-families",
            Self::LoosenKind => "loosen-kind",
            Self::ForwardNever => "forward-never",
            Self::DropRetired => "drop-retired",
            Self::MoveRoute => "move-route",
            Self::RegisterTwice => "register-twice",
            Self::DropFromAggregate => "drop-from-aggregate",
            Self::DropPart => "drop-part",
            Self::DropOwned => "drop-owned",
        }
    }
}

/// A template of a family: one of its claims or of its listed routes, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A claim.
    Claim(usize),
    /// A listed route.
    Route(usize),
}

/// How a claim is made wider or narrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reshape {
    /// Its last segment is cut.
    CutLastSegment,
    /// It gets a final `/**`.
    WithTail,
    /// It loses its final `/**`.
    WithoutTail,
    /// It gets one literal more.
    WithLiteral,
}

impl Reshape {
    fn apply(self, template: &Template) -> Option<Template> {
        match self {
            Self::CutLastSegment => reshape::cut_last_segment(template),
            Self::WithTail => reshape::with_tail(template),
            Self::WithoutTail => reshape::without_tail(template),
            Self::WithLiteral => reshape::with_literal(template),
        }
    }
}

/// One change of a contract. All numbers are indices into the original's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is an operator, and its fields say of what
pub enum Step {
    DropRoute {
        family: usize,
        route: usize,
    },
    DropClaim {
        family: usize,
        claim: usize,
    },
    DropFamily {
        family: usize,
    },
    ReshapeClaim {
        family: usize,
        claim: usize,
        reshape: Reshape,
    },
    SwapFamilies {
        first: usize,
        second: usize,
    },
    LoosenKind {
        family: usize,
        part: Part,
        segment: usize,
    },
    ForwardNever {
        family: usize,
    },
    DropRetired {
        index: usize,
    },
    MoveRoute {
        profile: usize,
        route: usize,
        to: usize,
    },
    RegisterTwice {
        profile: usize,
        route: usize,
        to: usize,
    },
    DropFromAggregate {
        profile: usize,
        route: usize,
    },
    DropPart {
        profile: usize,
        part: usize,
    },
    DropOwned {
        profile: usize,
        owned: usize,
    },
}

/// What comes of a step.
#[derive(Debug)]
pub enum Taken {
    /// Such a contract cannot be loaded: the code of the fault.
    Refused(&'static str),
    /// The weakened contract.
    Mutant(Box<Contract>),
}

/// All steps that a contract admits, by operator.
pub fn steps(contract: &Contract) -> Vec<Step> {
    let mut steps = Vec::new();
    for (family, of) in contract.families.iter().enumerate() {
        let routes = of.routes.as_ref().map_or(0, Vec::len);
        steps.extend((0..routes).map(|route| Step::DropRoute { family, route }));
        steps.extend((0..of.claims.len()).map(|claim| Step::DropClaim { family, claim }));
        steps.push(Step::DropFamily { family });
        for (claim, located) in of.claims.iter().enumerate() {
            for reshape in [
                Reshape::CutLastSegment,
                Reshape::WithTail,
                Reshape::WithoutTail,
                Reshape::WithLiteral,
            ] {
                if reshape.apply(&located.template).is_some() {
                    steps.push(Step::ReshapeClaim { family, claim, reshape });
                }
            }
        }
        steps.extend((family + 1..contract.families.len()).map(|second| Step::SwapFamilies { first: family, second }));
        let claims = of
            .claims
            .iter()
            .enumerate()
            .map(|(at, located)| (Part::Claim(at), located));
        let routes = of
            .routes
            .iter()
            .flatten()
            .enumerate()
            .map(|(at, located)| (Part::Route(at), located));
        for (part, located) in claims.chain(routes) {
            let kinds = reshape::segments_with_kind(&located.template);
            steps.extend(kinds.map(|segment| Step::LoosenKind { family, part, segment }));
        }
        if of.serve == Serve::Never {
            steps.push(Step::ForwardNever { family });
        }
    }
    steps.extend((0..contract.retired.len()).map(|index| Step::DropRetired { index }));
    for (profile, of) in contract.profiles.iter().enumerate() {
        profile_steps(contract, profile, of, &mut steps);
    }
    steps.sort_by_key(Step::operator);
    steps
}

fn profile_steps(contract: &Contract, profile: usize, of: &Profile, steps: &mut Vec<Step>) {
    let routes = of.routes.as_ref().map_or(0, Vec::len);
    match &of.role {
        Role::Aggregate { parts } => {
            steps.extend((0..routes).map(|route| Step::DropFromAggregate { profile, route }));
            steps.extend((0..parts.len()).map(|part| Step::DropPart { profile, part }));
        }
        Role::Plain { owns } => {
            let plain = |to: &usize| {
                contract
                    .profiles
                    .get(*to)
                    .is_some_and(|other| matches!(other.role, Role::Plain { .. }))
            };
            for to in (0..contract.profiles.len()).filter(plain) {
                steps.extend((0..routes).map(|route| Step::RegisterTwice { profile, route, to }));
                if to != profile {
                    steps.extend((0..routes).map(|route| Step::MoveRoute { profile, route, to }));
                }
            }
            steps.extend((0..owns.len()).map(|owned| Step::DropOwned { profile, owned }));
        }
    }
}

impl Step {
    /// What kind of step it is.
    pub fn operator(&self) -> Operator {
        match self {
            Self::DropRoute { .. } => Operator::DropRoute,
            Self::DropClaim { .. } => Operator::DropClaim,
            Self::DropFamily { .. } => Operator::DropFamily,
            Self::ReshapeClaim {
                reshape: Reshape::CutLastSegment | Reshape::WithTail,
                ..
            } => Operator::WidenClaim,
            Self::ReshapeClaim { .. } => Operator::NarrowClaim,
            Self::SwapFamilies { .. } => Operator::SwapFamilies,
            Self::LoosenKind { .. } => Operator::LoosenKind,
            Self::ForwardNever { .. } => Operator::ForwardNever,
            Self::DropRetired { .. } => Operator::DropRetired,
            Self::MoveRoute { .. } => Operator::MoveRoute,
            Self::RegisterTwice { .. } => Operator::RegisterTwice,
            Self::DropFromAggregate { .. } => Operator::DropFromAggregate,
            Self::DropPart { .. } => Operator::DropPart,
            Self::DropOwned { .. } => Operator::DropOwned,
        }
    }

    /// Takes the step on a copy of the contract that it was made for; on another, an index that does not exist
    /// changes nothing.
    pub fn take(&self, contract: &Contract) -> Taken {
        let mut mutant = contract.clone();
        match self.change(&mut mutant) {
            Some(code) => Taken::Refused(code),
            None => Taken::Mutant(Box::new(mutant)),
        }
    }

    /// Changes the contract; answers a code where the loader would refuse what comes of it.
    fn change(&self, contract: &mut Contract) -> Option<&'static str> {
        match *self {
            Self::DropRoute { family, route } => {
                let routes = contract.families.get_mut(family)?.routes.as_mut()?;
                remove(routes, route);
                routes.is_empty().then_some(EMPTY)
            }
            Self::DropClaim { family, claim } => {
                let claims = &mut contract.families.get_mut(family)?.claims;
                remove(claims, claim);
                claims.is_empty().then_some(EMPTY)
            }
            Self::DropFamily { family } => {
                remove(&mut contract.families, family);
                let dropped = FamilyId(u16::try_from(family).ok()?);
                for owns in owned_families(contract) {
                    owns.retain(|id| *id != dropped);
                    for id in owns.iter_mut().filter(|id| **id > dropped) {
                        id.0 -= 1;
                    }
                }
                contract.families.is_empty().then_some(EMPTY)
            }
            Self::ReshapeClaim { family, claim, reshape } => {
                let claims = &mut contract.families.get_mut(family)?.claims;
                replace(claims, claim, |template| reshape.apply(template))
            }
            Self::SwapFamilies { first, second } => {
                if first.max(second) < contract.families.len() {
                    contract.families.swap(first, second);
                    let (left, right) = (u16::try_from(first).ok()?, u16::try_from(second).ok()?);
                    for id in owned_families(contract).flatten() {
                        match id.0 {
                            place if place == left => id.0 = right,
                            place if place == right => id.0 = left,
                            _ => {}
                        }
                    }
                }
                None
            }
            Self::LoosenKind { family, part, segment } => {
                let family = contract.families.get_mut(family)?;
                let (templates, at) = match part {
                    Part::Claim(at) => (&mut family.claims, at),
                    Part::Route(at) => (family.routes.as_mut()?, at),
                };
                replace(templates, at, |template| reshape::without_kind(template, segment))
            }
            Self::ForwardNever { family } => {
                contract.families.get_mut(family)?.serve = Serve::Forward;
                None
            }
            Self::DropRetired { index } => {
                remove(&mut contract.retired, index);
                None
            }
            Self::MoveRoute { profile, route, to } => {
                let routes = contract.profiles.get_mut(profile)?.routes.as_mut()?;
                let moved = remove(routes, route)?;
                register(contract, to, moved)
            }
            Self::RegisterTwice { profile, route, to } => {
                let registered = contract.profiles.get(profile)?.routes.as_ref()?.get(route)?.clone();
                register(contract, to, registered)
            }
            Self::DropFromAggregate { profile, route } => {
                remove(contract.profiles.get_mut(profile)?.routes.as_mut()?, route);
                None
            }
            Self::DropPart { profile, part } => {
                if let Role::Aggregate { parts } = &mut contract.profiles.get_mut(profile)?.role {
                    remove(parts, part);
                }
                None
            }
            Self::DropOwned { profile, owned } => {
                if let Role::Plain { owns } = &mut contract.profiles.get_mut(profile)?.role {
                    remove(owns, owned);
                }
                None
            }
        }
    }
}

fn remove<T>(list: &mut Vec<T>, at: usize) -> Option<T> {
    (at < list.len()).then(|| list.remove(at))
}

fn owned_families(contract: &mut Contract) -> impl Iterator<Item = &mut Vec<FamilyId>> {
    contract
        .profiles
        .iter_mut()
        .filter_map(|profile| match &mut profile.role {
            Role::Plain { owns } => Some(owns),
            Role::Aggregate { .. } => None,
        })
}

fn replace(
    templates: &mut [LocatedTemplate],
    at: usize,
    change: impl Fn(&Template) -> Option<Template>,
) -> Option<&'static str> {
    let template = change(&templates.get(at)?.template)?;
    let shape = template.shape(true);
    let twice = templates
        .iter()
        .enumerate()
        .any(|(index, other)| index != at && other.template.shape(true) == shape);
    templates.get_mut(at)?.template = template;
    twice.then_some(DUPLICATE)
}

fn register(contract: &mut Contract, to: usize, route: Route) -> Option<&'static str> {
    let routes = contract.profiles.get_mut(to)?.routes.as_mut()?;
    let shape = route.template.shape(true);
    let twice = routes
        .iter()
        .any(|other| other.method == route.method && other.template.shape(true) == shape);
    routes.push(route);
    twice.then_some(DUPLICATE)
}
