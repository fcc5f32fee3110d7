//! RC04: the order of the families leaves no template idle, and the running code keeps to it.

use std::collections::HashSet;

use crate::automaton::{Mark, StateId};
use crate::diagnostic::Diagnostic;
use crate::ownership::{Owner, TemplateId};
use crate::proof::Proof;

/// A template that decides nothing.
pub const UNREACHABLE: &str = "RC0401";
/// The compiled matcher, the ordered scan and the automaton disagree.
pub const DISAGREE: &str = "RC0402";
/// A profile's router and the automaton disagree.
pub const ROUTER: &str = "RC0403";

/// How many templates the ordered scan may look at in one check, all paths together. Beyond it the scan,
/// which is slow because it is obvious, is asked about every n-th class; the compiled matcher and the routers
/// are always asked about all.
const SCAN_BUDGET: usize = 20_000_000;

pub(super) fn check(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    unreachable(proof, findings);
    let common: HashSet<StateId> = proof
        .common()
        .flat_map(|(_, classes)| classes.iter().map(|(_, class)| *class))
        .collect();
    let work = proof.automaton.states().len().saturating_mul(proof.ownership.len());
    let stride = work / SCAN_BUDGET + 1;
    for (index, class) in proof.automaton.classes().enumerate() {
        let witness = proof.witness(class);
        let owner = proof.owner(class);
        let matched = proof.classifier.decide(witness.as_bytes()).owner;
        let scanned = if index % stride == 0 {
            proof.scan.owner(witness.as_bytes())
        } else {
            owner
        };
        if matched != owner || scanned != owner {
            let message = format!(
                "the proof says {}, the compiled matcher {}, the ordered scan {}",
                proof.describe(owner),
                proof.describe(matched),
                proof.describe(scanned)
            );
            let finding = Diagnostic::error(DISAGREE, message).with_witness(&witness);
            findings.push(finding.with_help("this is a fault of the program: report it"));
        }
        routers(proof, class, &witness, &common, findings);
    }
}

fn unreachable(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    // A claim or a route is of use where it matches a path that its family decides about.
    let mut of_use: HashSet<Mark> = HashSet::new();
    for class in proof.automaton.classes() {
        let ends = &proof.automaton.states()[class as usize].ends;
        let (Owner::Family(family) | Owner::Never(family) | Owner::Refused(family)) =
            proof.ownership.decide(ends).owner
        else {
            continue;
        };
        of_use.extend(
            ends.iter()
                .filter(|mark| proof.ownership.family_of(TemplateId(**mark)) == Some(family)),
        );
    }
    let mut mark = 0;
    for family in &proof.contract.families {
        let claims = family.claims.iter().map(|claim| ("claim", claim));
        let routes = family.routes.iter().flatten().map(|route| ("route", route));
        for (what, located) in claims.chain(routes) {
            if !of_use.contains(&mark) {
                let (_, class) = proof.owners(mark).first().copied().unwrap_or((Owner::Unclaimed, 0));
                let message = format!(
                    "the {what} `{}` of family `{}` is never reached: its paths go to {}",
                    located.template,
                    family.name,
                    proof.describe(proof.owner(class))
                );
                findings.push(
                    Diagnostic::error(UNREACHABLE, message)
                        .at(located.place.clone())
                        .with_witness(proof.witness(class))
                        .with_help("move the family up, or remove the template"),
                );
            }
            mark += 1;
        }
    }
}

/// A profile's router answers a path if and only if one of the profile's templates matches it.
fn routers(
    proof: &Proof<'_>,
    class: StateId,
    witness: &str,
    common: &HashSet<StateId>,
    findings: &mut Vec<Diagnostic>,
) {
    let ends = &proof.automaton.states()[class as usize].ends;
    for (profile, router) in proof.contract.profiles.iter().zip(&proof.routers) {
        let (Some(router), Some(_)) = (router, &profile.routes) else {
            continue;
        };
        let own = ends
            .iter()
            .filter_map(|mark| proof.route_of(*mark))
            .any(|(owner, _)| std::ptr::eq(owner, profile));
        let expected = own || common.contains(&class);
        let answered = router.route("GET", witness).path().is_some();
        if expected != answered {
            let message = format!(
                "the router of profile `{}` {} a path that {} of its routes matches",
                profile.name,
                if answered { "answers" } else { "does not answer" },
                if expected { "one" } else { "none" }
            );
            findings.push(Diagnostic::error(ROUTER, message).at(profile.place.clone()).with_witness(witness).with_help(
                "two routes of the profile overlap in a way that its router resolves differently; make one of them narrower",
            ));
        }
    }
}
