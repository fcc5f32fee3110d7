//! The compiled matcher against the ordered scan, over generated contracts and paths.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

use std::path::Path;

use proptest::prelude::*;
use route_contract::automaton::Automaton;
use route_contract::classify::{Classifier, Verdict};
use route_contract::contract::Contract;
use route_contract::diagnostic::Source;
use route_contract::ownership::{Owner, Ownership};
use route_contract::scan::Scan;

/// Contracts of a run; each is asked about [`PATHS`] paths, so that a run compares 24,000 cases.
const CONTRACTS: u32 = 1_500;
const PATHS: usize = 16;

fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "ab", "c1", "A", "ext", "7", "x.s"]).prop_map(str::to_owned),
        2 => Just("{}".to_owned()),
        3 => prop::sample::select(vec!["{:int}", "{:kebab}", "{:uuid}", "{:shout}", "p-{}", "{}.s", "p-{:int}.s", "P{:kebab}"]).prop_map(str::to_owned),
    ]
}

/// A template: parameters get names by their place.
fn template() -> impl Strategy<Value = String> {
    (prop::collection::vec(segment(), 0..5), 0..4u8).prop_map(|(segments, end)| {
        let mut text = String::new();
        for (index, segment) in segments.iter().enumerate() {
            text.push('/');
            text.push_str(&segment.replace('{', &format!("{{n{index}")));
        }
        match end {
            0 => text.push_str("/**"),
            1 if !text.is_empty() => text.push('/'),
            _ if text.is_empty() => text.push('/'),
            _ => {}
        }
        text
    })
}

fn contract() -> impl Strategy<Value = String> {
    let family = (
        prop::collection::btree_set(template(), 1..4),
        prop::option::of(prop::collection::btree_set(template(), 1..5)),
        prop::bool::weighted(0.2),
    );
    prop::collection::vec(family, 1..5).prop_map(|families| {
        let mut text = "version = 1\n[kinds]\nshout = \"[A-Z]+|x\"\n".to_owned();
        for (index, (claims, routes, never)) in families.iter().enumerate() {
            let claims: Vec<&String> = claims.iter().collect();
            text.push_str(&format!("[[family]]\nname = \"f{index}\"\nclaims = {claims:?}\n"));
            if *never {
                text.push_str("serve = \"never\"\n");
            } else if let Some(routes) = routes {
                let routes: Vec<&String> = routes.iter().collect();
                text.push_str(&format!("routes = {routes:?}\n"));
            }
        }
        text
    })
}

fn path() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(vec![
        "a",
        "b",
        "ab",
        "c1",
        "A",
        "ext",
        "7",
        "x.s",
        "x",
        "",
        "p-9",
        "p-9.s",
        "P-a",
        "Pa",
        "pa",
        "SHOUT",
        "q-",
        "a-b",
        "EXT",
        "eXt",
        "123e4567-e89b-12d3-a456-426614174000",
        ".",
        "..",
        "a;v",
        "a%2Fb",
        "%61",
        "b%20c",
    ]);
    prop::collection::vec(segment, 1..7).prop_map(|segments| format!("/{}", segments.join("/")))
}

fn load(text: &str) -> Option<Contract> {
    Contract::load_with(Path::new("generated.toml"), &|_| {
        Ok(Source::new("generated.toml", text))
    })
    .ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CONTRACTS, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn the_matcher_equals_the_ordered_scan(text in contract(), paths in prop::collection::vec(path(), PATHS)) {
        let Some(contract) = load(&text) else { return Err(TestCaseError::reject("two templates of one shape")) };
        let scan = Scan::new(&contract).unwrap();
        let classifier = Classifier::new(&contract).unwrap();
        for path in &paths {
            prop_assert_eq!(classifier.decide(path.as_bytes()).owner, scan.owner(path.as_bytes()), "{} {}", text, path);
        }

        // Every class of paths, not only those that were thought of.
        let ownership = Ownership::new(&contract);
        let automaton = Automaton::new(ownership.templates(), &contract.kinds, false).unwrap();
        for class in automaton.classes() {
            let witness = automaton.witness(class);
            let owner = ownership.decide(&automaton.states()[class as usize].ends).owner;
            prop_assert_eq!(owner, scan.owner(witness.as_bytes()), "{} {}", text, witness);
            prop_assert_eq!(owner, classifier.decide(witness.as_bytes()).owner, "{} {}", text, witness);
        }

        // The one pass over a target against the readings themselves.
        for path in &paths {
            let verdict = classifier.classify(path.as_bytes()).verdict;
            let expected = match (scan.owner(path.as_bytes()), classifier.disagreement(path.as_bytes())) {
                (Owner::Never(family), _) => Verdict::Never(family),
                (Owner::Refused(_) | Owner::Unclaimed, _) => Verdict::Unknown,
                (Owner::Family(family), Ok(None)) => Verdict::Family(family),
                (Owner::Family(_), _) => Verdict::Ambiguous,
            };
            prop_assert_eq!(verdict, expected, "{} {}", text, path);
        }
    }
}

#[test]
fn the_generator_makes_contracts_that_load() {
    let text = "version = 1\n[[family]]\nname = \"f\"\nclaims = [\"/a/{n0:int}/**\"]\nroutes = [\"/a/{n0:int}/b\"]\n";
    assert!(load(text).is_some());
}
