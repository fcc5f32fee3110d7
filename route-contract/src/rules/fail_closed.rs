//! RC03: what nobody owns is refused.

use std::collections::HashMap;

use crate::automaton::{Mark, StateId};
use crate::classify::Verdict;
use crate::contract::{Family, LocatedTemplate, Serve};
use crate::diagnostic::Diagnostic;
use crate::ownership::{Owner, TemplateId};
use crate::proof::Proof;

/// A path in a claim, and none of its routes, that is forwarded.
pub const FALLS_THROUGH: &str = "RC0301";
/// A family's route outside its claims.
pub const OUTSIDE_CLAIM: &str = "RC0302";
/// A retired path that is alive.
pub const RETIRED: &str = "RC0303";
/// A common route that is forwarded.
pub const COMMON: &str = "RC0304";
/// A claim on everything.
pub const EVERYTHING: &str = "RC0305";

pub(super) fn check(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    refused(proof, findings);
    inside_claims(proof, findings);
    retired(proof, findings);
    common(proof, findings);
    everything(proof, findings);
}

/// What the rule of classification refuses, the running classifier refuses.
fn refused(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    for class in proof.automaton.classes() {
        let owner = proof.owner(class);
        if matches!(owner, Owner::Family(_)) {
            continue;
        }
        let witness = proof.witness(class);
        if let Verdict::Family(family) = proof.classifier.classify(witness.as_bytes()).verdict {
            let message = format!(
                "a path of {} is forwarded to {}",
                proof.describe(owner),
                proof.describe(Owner::Family(family))
            );
            findings.push(Diagnostic::error(FALLS_THROUGH, message).with_witness(witness));
        }
    }
}

fn inside_claims(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    // For each route of a family, the first class of its paths that no claim of the family covers.
    let mut outside: HashMap<Mark, StateId> = HashMap::new();
    for class in proof.automaton.classes() {
        let ends = &proof.automaton.states()[class as usize].ends;
        let own = || {
            ends.iter()
                .map(|mark| TemplateId(*mark))
                .filter(|id| proof.ownership.family_of(*id).is_some())
        };
        for route in own().filter(|id| !proof.ownership.is_claim(*id)) {
            let family = proof.ownership.family_of(route);
            if !own().any(|id| proof.ownership.is_claim(id) && proof.ownership.family_of(id) == family) {
                outside.entry(route.0).or_insert(class);
            }
        }
    }
    for (mark, family, route) in family_routes(proof) {
        if let Some(class) = outside.get(&mark) {
            let message = format!(
                "some paths of `{}` lie outside the claims of family `{}`",
                route.template, family.name
            );
            findings.push(
                Diagnostic::error(OUTSIDE_CLAIM, message)
                    .at(route.place.clone())
                    .with_witness(proof.witness(*class))
                    .with_help("widen the claim: what is not claimed falls to a later family"),
            );
        }
    }
}

/// The routes that families list, with their marks.
fn family_routes<'p>(proof: &'p Proof<'_>) -> impl Iterator<Item = (Mark, &'p Family, &'p LocatedTemplate)> {
    proof
        .contract
        .families
        .iter()
        .flat_map(|family| {
            let claims = family.claims.iter().map(move |claim| (family, claim, false));
            claims.chain(family.routes.iter().flatten().map(move |route| (family, route, true)))
        })
        .zip(0..)
        .filter_map(|((family, located, is_route), mark)| is_route.then_some((mark, family, located)))
}

fn retired(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    if proof.contract.retired.is_empty() {
        return;
    }
    // For each retired path, the first class that a profile registers all the same.
    let mut registered: HashMap<Mark, (StateId, Mark)> = HashMap::new();
    for class in proof.automaton.classes() {
        let ends = &proof.automaton.states()[class as usize].ends;
        let Some(route) = ends.iter().find(|mark| proof.route_of(**mark).is_some()) else {
            continue;
        };
        for mark in ends.iter() {
            registered.entry(*mark).or_insert((class, *route));
        }
    }
    for (retired, owners, mark) in proof.retired() {
        if let Some((owner, class)) = owners.iter().find(|(owner, _)| matches!(owner, Owner::Family(_))) {
            let message = format!(
                "the retired path `{}` is alive: it goes to {}",
                retired.template,
                proof.describe(*owner)
            );
            findings.push(
                Diagnostic::error(RETIRED, message)
                    .at(retired.place.clone())
                    .with_witness(proof.witness(*class))
                    .with_help("claim it for a family with `serve = \"never\"`, or narrow the claim that takes it"),
            );
        }
        let alive = registered
            .get(&mark)
            .and_then(|(class, route)| Some((class, proof.route_of(*route)?)));
        if let Some((class, (profile, route))) = alive {
            let message = format!(
                "profile `{}` registers a path of the retired `{}`",
                profile.name, retired.template
            );
            findings.push(
                Diagnostic::error(RETIRED, message)
                    .at(route.place.clone())
                    .with_related("retired here", retired.place.clone())
                    .with_witness(proof.witness(*class))
                    .with_help("remove the route, or stop calling the path retired"),
            );
        }
    }
}

fn common(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    for (route, owners) in proof.common() {
        if let Some((owner, class)) = owners.iter().find(|(owner, _)| matches!(owner, Owner::Family(_))) {
            let message = format!(
                "the common route `{}` is forwarded to {}",
                route.template,
                proof.describe(*owner)
            );
            findings.push(
                Diagnostic::error(COMMON, message)
                    .at(route.place.clone())
                    .with_witness(proof.witness(*class))
                    .with_help("narrow the claim: health and observability of a profile are not for the outside"),
            );
        }
    }
}

fn everything(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    for family in &proof.contract.families {
        for claim in &family.claims {
            if family.serve == Serve::Forward && claim.template.as_str() == "/**" && family.routes.is_none() {
                let message = format!(
                    "family `{}` forwards everything that no earlier family claims: nothing is unknown",
                    family.name
                );
                findings.push(
                    Diagnostic::warning(EVERYTHING, message)
                        .at(claim.place.clone())
                        .with_help("claim the paths that the family serves, or list its `routes`"),
                );
            }
        }
    }
}
