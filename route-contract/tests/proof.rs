//! The proof over generated deployments: what it says of a class of paths holds for the members of the class, and
//! every finding's witness really breaks the rule when the gateway's own code is asked.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

mod generate;

use std::collections::BTreeSet;

use proptest::prelude::*;
use route_contract::classify::Verdict;
use route_contract::contract::{Contract, FamilyId, LocatedTemplate, Profile, Role, Route};
use route_contract::diagnostic::{Diagnostic, Place};
use route_contract::ownership::Owner;
use route_contract::proof::Proof;
use route_contract::rules;
use route_contract::scan::Scan;

use generate::{SEGMENTS, deployment, load_files, path};

/// Deployments of a run.
const DEPLOYMENTS: u32 = 300;
/// Paths that each is asked about, beside the members of its classes.
const PATHS: usize = 32;

proptest! {
    #![proptest_config(ProptestConfig { cases: DEPLOYMENTS, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn what_holds_for_a_class_holds_for_its_members(files in deployment(), paths in prop::collection::vec(path(), PATHS)) {
        let Some(contract) = load_files(&files) else { return Err(TestCaseError::reject("two templates of one shape")) };
        let proof = Proof::new(&contract).unwrap();
        let scan = Scan::new(&contract).unwrap();
        for path in &paths {
            let class = proof.automaton.run(path.as_bytes()).unwrap();
            prop_assert_eq!(proof.owner(class), scan.owner(path.as_bytes()), "{:?} {}", files, path);
        }
        for class in proof.automaton.classes() {
            for member in members(&proof, class) {
                prop_assert_eq!(proof.owner(class), scan.owner(member.as_bytes()), "{:?} {}", files, member);
                prop_assert_eq!(proof.owner(class), proof.classifier.decide(member.as_bytes()).owner, "{:?} {}", files, member);
            }
        }
    }

    #[test]
    fn every_witness_breaks_its_rule(files in deployment()) {
        let Some(contract) = load_files(&files) else { return Err(TestCaseError::reject("two templates of one shape")) };
        let proof = Proof::new(&contract).unwrap();
        for finding in rules::check(&proof).findings {
            let broken = breaks(&proof, &finding);
            prop_assert!(broken, "{:?}\n{}", files, finding);
        }
    }
}

/// Other paths that end in the class: its witness with one segment replaced at a time, and with more at its end.
fn members(proof: &Proof<'_>, class: u32) -> Vec<String> {
    let witness = proof.witness(class);
    let segments: Vec<&str> = witness.split('/').skip(1).collect();
    let mut members = vec![witness.clone()];
    for at in 0..=segments.len() {
        for other in SEGMENTS {
            let mut replaced = segments.clone();
            match replaced.get_mut(at) {
                Some(segment) => *segment = other,
                None => replaced.push(other),
            }
            let path = format!("/{}", replaced.join("/"));
            if proof.automaton.run(path.as_bytes()) == Some(class) {
                members.push(path);
            }
        }
    }
    members
}

/// The route of a profile that stands in a place.
fn route_at<'c>(contract: &'c Contract, place: &Place) -> Option<(&'c Profile, &'c Route)> {
    contract.profiles.iter().find_map(|profile| {
        let route = profile.routes.iter().flatten().find(|route| route.place == *place)?;
        Some((profile, route))
    })
}

/// The template of a family that stands in a place.
fn template_at<'c>(contract: &'c Contract, place: &Place) -> Option<(FamilyId, &'c LocatedTemplate)> {
    contract.family_ids().find_map(|(id, family)| {
        let templates = family.claims.iter().chain(family.routes.iter().flatten());
        let located = templates.into_iter().find(|located| located.place == *place)?;
        Some((id, located))
    })
}

fn owned(profile: &Profile) -> BTreeSet<FamilyId> {
    match &profile.role {
        Role::Plain { owns } => owns.iter().copied().collect(),
        Role::Aggregate { .. } => BTreeSet::new(),
    }
}

/// Whether a finding's witness shows what the finding says, asked of the ordered scan and the running classifier.
fn breaks(proof: &Proof<'_>, finding: &Diagnostic) -> bool {
    let contract = proof.contract;
    let Some(witness) = finding.witness.as_deref() else {
        // About a set of routes or a table, not about a path.
        return matches!(
            finding.code,
            "RC0201" | "RC0206" | "RC0207" | "RC0208" | "RC0305" | "RC0306" | "RC0502" | "RC0601" | "RC0602"
        );
    };
    let path = witness.as_bytes();
    let decided = proof.classifier.decide(path).owner;
    let verdict = proof.classifier.classify(path).verdict;
    let covers = |located: &route_contract::template::Template| proof.scan.covers(located, path);
    let Some(place) = &finding.place else { return false };
    let route = route_at(contract, place).filter(|(_, route)| covers(&route.template));
    let template = template_at(contract, place).filter(|(_, located)| covers(&located.template));
    let served_by_owner = |family: FamilyId| {
        contract
            .owners_of(family)
            .flat_map(|profile| profile.routes.iter().flatten())
            .any(|route| covers(&route.template))
    };
    match finding.code {
        "RC0202" => route.is_some_and(|(profile, _)| match decided {
            Owner::Family(family) | Owner::Never(family) => !owned(profile).contains(&family),
            Owner::Refused(_) | Owner::Unclaimed => true,
        }),
        "RC0203" => route.is_some_and(|(profile, _)| match decided {
            Owner::Family(family) | Owner::Never(family) => !owned(profile).contains(&family),
            Owner::Refused(_) | Owner::Unclaimed => false,
        }),
        "RC0204" => route.is_some() && matches!(decided, Owner::Refused(_)),
        "RC0211" => route.is_some() && decided == Owner::Unclaimed,
        "RC0205" => route.is_some_and(|(profile, _)| {
            contract
                .profiles
                .iter()
                .filter(|other| other.name != profile.name && matches!(other.role, Role::Plain { .. }))
                .flat_map(|other| other.routes.iter().flatten())
                .any(|other| other.template.shape(false) == route.unwrap().1.template.shape(false))
        }),
        "RC0209" | "RC0210" => {
            template.is_some_and(|(family, _)| decided == Owner::Family(family) && !served_by_owner(family))
        }
        "RC0302" => template.is_some_and(|(family, _)| {
            let claims = &contract.families[family.index()].claims;
            claims.iter().all(|claim| !covers(&claim.template))
        }),
        "RC0303" => {
            let retired = contract.retired.iter().any(|retired| covers(&retired.template));
            retired && (matches!(decided, Owner::Family(_)) || route.is_some())
        }
        "RC0304" => contract.common.iter().any(|route| covers(&route.template)) && matches!(decided, Owner::Family(_)),
        "RC0401" => template.is_some_and(
            |(family, _)| !matches!(decided, Owner::Family(of) | Owner::Never(of) | Owner::Refused(of) if of == family),
        ),
        "RC0403" => contract.profiles.iter().zip(&proof.routers).any(|(profile, router)| {
            let Some(router) = router.as_ref().filter(|_| profile.place == *place) else {
                return false;
            };
            let own = contract
                .routes_of(profile)
                .into_iter()
                .chain(&contract.common)
                .any(|route| covers(&route.template));
            own != router.route("GET", witness).path().is_some()
        }),
        "RC0501" => route.is_some() && matches!(decided, Owner::Family(_)) && verdict == Verdict::Ambiguous,
        "RC0503" => {
            template.is_some_and(|(family, _)| decided == Owner::Family(family)) && verdict == Verdict::Ambiguous
        }
        _ => false,
    }
}
