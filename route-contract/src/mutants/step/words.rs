//! A step in words, and its place in the files.

use super::{Part, Step};
use crate::contract::{Contract, LocatedTemplate, Role};
use crate::diagnostic::Place;
use crate::mutants::reshape;
use crate::template::Template;

impl Step {
    /// What the step does to the contract that it was made for, in words.
    pub fn describe(&self, contract: &Contract) -> String {
        let family = |index: usize| contract.families.get(index).map_or("", |family| &family.name);
        let profile = |index: usize| contract.profiles.get(index).map_or("", |profile| &profile.name);
        let claim = |family: usize, claim: usize| {
            let claim = contract
                .families
                .get(family)
                .and_then(|family| family.claims.get(claim));
            claim.map(|located| &located.template)
        };
        let text = |template: Option<&Template>| template.map_or_else(String::new, ToString::to_string);
        let route = |profile: usize, route: usize| {
            let routes = contract
                .profiles
                .get(profile)
                .and_then(|profile| profile.routes.as_ref());
            routes
                .and_then(|routes| routes.get(route))
                .map_or_else(String::new, |route| format!("{} {}", route.method, route.template))
        };
        match *self {
            Self::DropRoute { family: of, .. } => format!("{}: without route {}", family(of), self.written(contract)),
            Self::DropClaim { family: of, .. } => format!("{}: without claim {}", family(of), self.written(contract)),
            Self::DropFamily { family: of } => format!("without family {}", family(of)),
            Self::ReshapeClaim {
                family: of,
                claim: at,
                reshape,
            } => {
                let before = claim(of, at);
                let after = before.and_then(|template| reshape.apply(template));
                format!("{}: claim {} → {}", family(of), text(before), text(after.as_ref()))
            }
            Self::SwapFamilies { first, second } => format!("{} and {} change places", family(first), family(second)),
            Self::LoosenKind {
                family: of, segment, ..
            } => {
                let before = self.template(contract);
                let after = before.and_then(|template| reshape::without_kind(template, segment));
                format!("{}: {} → {}", family(of), text(before), text(after.as_ref()))
            }
            Self::ForwardNever { family: of } => format!("{}: forwarded, where it is never", family(of)),
            Self::DropRetired { .. } => format!("without the retired {}", self.written(contract)),
            Self::MoveRoute {
                profile: from,
                route: at,
                to,
            } => {
                format!("{}: {} moved to {}", profile(from), route(from, at), profile(to))
            }
            Self::RegisterTwice {
                profile: from,
                route: at,
                to,
            } if from == to => {
                format!("{}: {} registered twice", profile(from), route(from, at))
            }
            Self::RegisterTwice {
                profile: from,
                route: at,
                to,
            } => {
                format!(
                    "{}: {} registered by {} too",
                    profile(from),
                    route(from, at),
                    profile(to)
                )
            }
            Self::DropFromAggregate {
                profile: from,
                route: at,
            } => {
                format!("{}: without {}", profile(from), route(from, at))
            }
            Self::DropPart { profile: of, part } => {
                let parts = contract.profiles.get(of).map(|profile| &profile.role);
                let name = match parts {
                    Some(Role::Aggregate { parts }) => parts.get(part).map_or("", |part| profile(*part)),
                    _ => "",
                };
                format!("{}: without part {name}", profile(of))
            }
            Self::DropOwned { profile: of, owned } => {
                let name = match contract.profiles.get(of).map(|profile| &profile.role) {
                    Some(Role::Plain { owns }) => owns.get(owned).map_or("", |id| family(id.index())),
                    _ => "",
                };
                format!("{}: does not own {name}", profile(of))
            }
        }
    }

    /// Where the thing stands that the step changes.
    pub fn place<'c>(&self, contract: &'c Contract) -> Option<&'c Place> {
        match *self {
            Self::DropFamily { family } | Self::ForwardNever { family } | Self::SwapFamilies { first: family, .. } => {
                contract.families.get(family).map(|family| &family.place)
            }
            Self::MoveRoute { profile, route, .. }
            | Self::RegisterTwice { profile, route, .. }
            | Self::DropFromAggregate { profile, route } => {
                let routes = contract.profiles.get(profile)?.routes.as_ref()?;
                routes.get(route).map(|route| &route.place)
            }
            Self::DropPart { profile, .. } | Self::DropOwned { profile, .. } => {
                contract.profiles.get(profile).map(|profile| &profile.place)
            }
            _ => self.located(contract).map(|located| &located.place),
        }
    }

    /// The family's template, or the retired path, that the step is about.
    fn located<'c>(&self, contract: &'c Contract) -> Option<&'c LocatedTemplate> {
        let claim = |family: usize, claim: usize| contract.families.get(family)?.claims.get(claim);
        let route = |family: usize, route: usize| contract.families.get(family)?.routes.as_ref()?.get(route);
        match *self {
            Self::DropRoute { family, route: at } => route(family, at),
            Self::DropClaim { family, claim: at } | Self::ReshapeClaim { family, claim: at, .. } => claim(family, at),
            Self::LoosenKind { family, part, .. } => match part {
                Part::Claim(at) => claim(family, at),
                Part::Route(at) => route(family, at),
            },
            Self::DropRetired { index } => contract.retired.get(index),
            _ => None,
        }
    }

    fn template<'c>(&self, contract: &'c Contract) -> Option<&'c Template> {
        self.located(contract).map(|located| &located.template)
    }

    fn written(&self, contract: &Contract) -> String {
        self.template(contract).map_or_else(String::new, ToString::to_string)
    }
}
