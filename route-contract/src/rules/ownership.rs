//! RC02: every route is served by the profile that owns its family, and by no other.

use std::collections::{HashMap, HashSet};

use crate::automaton::{Mark, StateId};
use crate::contract::{FamilyId, Profile, Role, Route};
use crate::diagnostic::Diagnostic;
use crate::ownership::Owner;
use crate::proof::{Proof, Reach};

/// A route of which no path reaches a family of its profile.
pub const MISPLACED: &str = "RC0202";
/// A route of which some paths go to another profile's family.
pub const PARTLY_ELSEWHERE: &str = "RC0203";
/// A route of which some paths are refused.
pub const PARTLY_REFUSED: &str = "RC0204";
/// One path in two plain profiles.
pub const TWO_PROFILES: &str = "RC0205";
/// A route that an aggregate lacks.
pub const AGGREGATE_LACKS: &str = "RC0206";
/// A route that only an aggregate has.
pub const AGGREGATE_ADDS: &str = "RC0207";
/// A plain profile outside every aggregate.
pub const OUTSIDE_AGGREGATE: &str = "RC0208";
/// A route of a family that no profile serves.
pub const UNSERVED: &str = "RC0209";
/// A route of a family of which some paths are served by no profile.
pub const PARTLY_UNSERVED: &str = "RC0210";
/// A route of which some paths are claimed by no family.
pub const PARTLY_UNCLAIMED: &str = "RC0211";

pub(super) fn check(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    findings.extend(proof.conflicts.iter().cloned());
    for reach in proof.plain_routes() {
        placed(proof, &reach, findings);
    }
    one_profile_each(proof, findings);
    aggregates(proof, findings);
    served(proof, findings);
}

fn owns(profile: &Profile, owner: Owner) -> bool {
    let Role::Plain { owns } = &profile.role else {
        return false;
    };
    match owner {
        Owner::Family(family) | Owner::Never(family) => owns.contains(&family),
        Owner::Refused(_) | Owner::Unclaimed => false,
    }
}

fn placed(proof: &Proof<'_>, reach: &Reach<'_>, findings: &mut Vec<Diagnostic>) {
    let Reach {
        profile, route, owners, ..
    } = reach;
    let name = format!("`{} {}`", route.method, route.template);
    if !owners.iter().any(|(owner, _)| owns(profile, *owner)) {
        let Some((owner, class)) = owners.first() else { return };
        let finding = Diagnostic::error(
            MISPLACED,
            format!(
                "{name} is registered by profile `{}`, but its paths go to {}",
                profile.name,
                proof.describe(*owner)
            ),
        );
        findings.push(
            finding
                .at(route.place.clone())
                .with_witness(proof.witness(*class))
                .with_help(misplaced_help(proof, *owner)),
        );
        return;
    }
    for (owner, class) in owners.iter().filter(|(owner, _)| !owns(profile, *owner)) {
        let finding = match owner {
            Owner::Family(_) | Owner::Never(_) => Diagnostic::warning(
                PARTLY_ELSEWHERE,
                format!(
                    "some paths of {name} of profile `{}` go to {}",
                    profile.name,
                    proof.describe(*owner)
                ),
            )
            .with_help("name the paths that are meant more narrowly, or accept that requests for these never arrive"),
            Owner::Refused(family) => Diagnostic::note(
                PARTLY_REFUSED,
                format!(
                    "some paths of {name} of profile `{}` are refused by the gateway: family `{}` claims them and lists no such route",
                    profile.name,
                    proof
                        .contract
                        .families
                        .get(family.index())
                        .map_or("", |family| &family.name)
                ),
            ),
            Owner::Unclaimed => Diagnostic::warning(
                PARTLY_UNCLAIMED,
                format!(
                    "some paths of {name} of profile `{}` are claimed by no family",
                    profile.name
                ),
            )
            .with_help("widen the claim to all paths of the route, or narrow the route to those that are claimed"),
        };
        findings.push(finding.at(route.place.clone()).with_witness(proof.witness(*class)));
    }
}

fn misplaced_help(proof: &Proof<'_>, owner: Owner) -> String {
    let (Owner::Family(family) | Owner::Never(family) | Owner::Refused(family)) = owner else {
        return "claim the path for a family that the profile owns, or remove the route".to_owned();
    };
    let owners: Vec<String> = proof
        .contract
        .owners_of(family)
        .map(|profile| format!("`{}`", profile.name))
        .collect();
    match owners.as_slice() {
        [] => "remove the route, or give it to a family that the profile owns".to_owned(),
        names => format!("the family is served by {}; remove the route here", names.join(", ")),
    }
}

/// No two plain profiles register one path, with the same method or another.
fn one_profile_each(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    let mut first: HashMap<String, (&Profile, &Route)> = HashMap::new();
    let mut reported: HashSet<(String, &str)> = HashSet::new();
    let reaches: Vec<Reach<'_>> = proof.plain_routes().collect();
    for reach in &reaches {
        let shape = reach.route.template.shape(false);
        match first.get(&shape) {
            None => {
                first.insert(shape, (reach.profile, reach.route));
            }
            Some((profile, route)) if profile.name != reach.profile.name => {
                if !reported.insert((shape, &reach.profile.name)) {
                    continue;
                }
                let message = format!(
                    "`{}` is registered by two profiles, `{}` and `{}`",
                    reach.route.template, profile.name, reach.profile.name
                );
                let witness = reach
                    .owners
                    .first()
                    .map(|(_, class)| proof.witness(*class))
                    .unwrap_or_default();
                findings.push(
                    Diagnostic::error(TWO_PROFILES, message)
                        .at(reach.route.place.clone())
                        .with_related(
                            format!("profile `{}` registers it here", profile.name),
                            route.place.clone(),
                        )
                        .with_witness(witness)
                        .with_help("a path has one owner, whatever the method: keep it in one of them"),
                );
            }
            Some(_) => {}
        }
    }
}

fn aggregates(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    let contract = proof.contract;
    let mut covered: HashSet<usize> = HashSet::new();
    let mut any = false;
    for aggregate in &contract.profiles {
        let Role::Aggregate { parts } = &aggregate.role else {
            continue;
        };
        any = true;
        covered.extend(parts);
        let Some(own) = &aggregate.routes else { continue };
        let key = |route: &Route| (route.method.clone(), route.template.shape(true));
        let has: HashSet<_> = own.iter().map(key).collect();
        let mut wanted = HashSet::new();
        for part in parts.iter().filter_map(|part| contract.profiles.get(*part)) {
            for route in part
                .routes
                .iter()
                .flatten()
                .filter(|route| !contract.is_common(&route.template))
            {
                wanted.insert(key(route));
                if !has.contains(&key(route)) {
                    let message = format!(
                        "`{} {}` of profile `{}` is missing from aggregate `{}`",
                        route.method, route.template, part.name, aggregate.name
                    );
                    findings.push(
                        Diagnostic::error(AGGREGATE_LACKS, message)
                            .at(route.place.clone())
                            .with_related(format!("aggregate `{}`", aggregate.name), aggregate.place.clone())
                            .with_help("register it there too: the monolith serves everything"),
                    );
                }
            }
        }
        for route in own
            .iter()
            .filter(|route| !wanted.contains(&key(route)) && !contract.is_common(&route.template))
        {
            let message = format!(
                "`{} {}` is registered by aggregate `{}` and by none of its parts",
                route.method, route.template, aggregate.name
            );
            findings.push(
                Diagnostic::error(AGGREGATE_ADDS, message)
                    .at(route.place.clone())
                    .with_help("give it to the profile that owns it, or remove it"),
            );
        }
    }
    if !any {
        return;
    }
    for (index, profile) in contract.profiles.iter().enumerate() {
        if matches!(profile.role, Role::Plain { .. }) && !covered.contains(&index) {
            let message = format!("profile `{}` is part of no aggregate", profile.name);
            findings.push(
                Diagnostic::error(OUTSIDE_AGGREGATE, message)
                    .at(profile.place.clone())
                    .with_help("list it under `aggregate`: the monolith serves everything"),
            );
        }
    }
}

/// Each route that a forwarded family lists is served by a profile that owns the family, and where it does not
/// end in `/**`, which means whatever there is below, each of its paths is.
fn served(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    let contract = proof.contract;
    let mut served: HashSet<(FamilyId, Mark)> = HashSet::new();
    let mut unserved: HashMap<(FamilyId, Mark), StateId> = HashMap::new();
    for class in proof.automaton.classes() {
        let ends = &proof.automaton.states()[class as usize].ends;
        let Owner::Family(family) = proof.owner(class) else {
            continue;
        };
        let own = ends
            .iter()
            .copied()
            .take_while(|mark| (*mark as usize) < proof.ownership.len())
            .map(|mark| (family, mark));
        if proof.is_served(class, family) {
            served.extend(own);
        } else {
            own.for_each(|key| {
                unserved.entry(key).or_insert(class);
            });
        }
    }
    let mut mark = 0;
    for (id, family) in contract.family_ids() {
        mark += family.claims.len() as Mark;
        for route in family.routes.iter().flatten() {
            let key = (id, mark);
            mark += 1;
            let Some(class) = unserved.get(&key) else { continue };
            let finding = if !served.contains(&key) {
                Diagnostic::error(
                    UNSERVED,
                    format!(
                        "`{}` of family `{}` is served by no profile that owns the family",
                        route.template, family.name
                    ),
                )
                .with_help("register it in the profile, or remove it from the family")
            } else if !route.template.has_tail() {
                Diagnostic::warning(
                    PARTLY_UNSERVED,
                    format!(
                        "some paths of `{}` of family `{}` are served by no profile that owns the family",
                        route.template, family.name
                    ),
                )
                .with_help("narrow it to what the profile registers, usually by the kind of a parameter")
            } else {
                continue;
            };
            findings.push(finding.at(route.place.clone()).with_witness(proof.witness(*class)));
        }
    }
}
