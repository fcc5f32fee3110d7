//! The compiled matcher against the ordered scan, over generated contracts and paths.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

mod generate;

use proptest::prelude::*;
use route_contract::automaton::Automaton;
use route_contract::classify::{Classifier, Verdict};
use route_contract::ownership::{Owner, Ownership};
use route_contract::scan::Scan;

use generate::{contract, load, path};

/// Contracts of a run; each is asked about [`PATHS`] paths, so that a run compares 24,000 cases.
const CONTRACTS: u32 = 1_500;
const PATHS: usize = 16;

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
