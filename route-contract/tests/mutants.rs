//! Every way to weaken the reference contracts is found by a rule or proved harmless.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use route_contract::contract::Contract;
use route_contract::diff::Difference;
use route_contract::mutants::step::steps;
use route_contract::mutants::{self, Fate, Harmless, Operator, Taken};

fn references() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
    let contracts: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("contract.toml"))
        .filter(|path| path.is_file())
        .collect();
    assert!(!contracts.is_empty());
    contracts
}

#[test]
fn no_mutant_of_a_reference_contract_survives() {
    for path in references() {
        let contract = Contract::load(&path).unwrap();
        let report = mutants::run(&contract, None).unwrap();
        let survivors: Vec<String> = report
            .survivors()
            .map(|mutant| format!("{}: {:?}", mutant.step.describe(&contract), mutant.fate))
            .collect();
        assert_eq!(survivors, Vec::<String>::new(), "{}", path.display());
        assert!(report.sample.iter().all(|sample| sample.tried == sample.steps));
        assert!(report.mutants.len() > 50, "{}", report.mutants.len());
    }
}

#[test]
fn what_is_called_harmless_forwards_every_path_as_before() {
    let contract = Contract::load(&references()[0]).unwrap();
    let report = mutants::run(&contract, None).unwrap();
    for mutant in &report.mutants {
        let Fate::Harmless(why) = &mutant.fate else { continue };
        let Taken::Mutant(weakened) = mutant.step.take(&contract) else {
            panic!()
        };
        let difference = Difference::between(&contract, &weakened).unwrap();
        let counts = difference.counts;
        assert_eq!(
            (counts.opened, counts.closed, counts.moved),
            (0, 0, 0),
            "{}",
            mutant.step.describe(&contract)
        );
        assert_eq!(*why == Harmless::SameOwners, counts.refused == 0);
    }
}

#[test]
fn every_operator_finds_something_to_do_in_the_reference() {
    let contract =
        Contract::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/agentteam/contract.toml")).unwrap();
    let operators: BTreeSet<Operator> = steps(&contract).iter().map(|step| step.operator()).collect();
    assert_eq!(operators, Operator::ALL.into_iter().collect());
    for step in steps(&contract) {
        assert!(!step.describe(&contract).is_empty());
        assert!(step.place(&contract).is_some(), "{step:?}");
        // The original stays as it is, whatever is done to the copy.
        let digest = contract.digest();
        let _ = step.take(&contract);
        assert_eq!(contract.digest(), digest);
    }
}

const SLACK: &str = "version = 1\n[[family]]\nname = \"f\"\nclaims = [\"/a/**\", \"/spare/**\"]\n[profile.p]\nowns = [\"f\"]\nroutes = [\"p.toml\"]\n";

fn run(contract: &str, arguments: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("contract.toml"), contract).unwrap();
    std::fs::write(
        folder.path().join("p.toml"),
        "[[route]]\nmethod = \"GET\"\npath = \"/a/{x}\"\n[[route]]\nmethod = \"GET\"\npath = \"/a\"\n",
    )
    .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_route-contract"))
        .current_dir(folder.path())
        .args(["mutants", "contract.toml"])
        .args(arguments)
        .output()
        .unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn a_survivor_is_a_finding_with_a_witness() {
    let (code, out, _) = run(SLACK, &["--summary"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("SURVIVED: f → unknown  /spare"), "{out}");
    assert!(out.contains("f: without claim /spare/**"), "{out}");
    let (code, out, _) = run(&SLACK.replace(", \"/spare/**\"", ""), &["--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["survivors"]), (0, &0.into()), "{out}");
    assert_eq!(report["counts"]["steps"], report["counts"]["tried"]);
}

#[test]
fn a_limit_is_shared_and_told() {
    let (_, out, _) = run(SLACK, &["--limit", "6", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["counts"]["tried"], 6, "{out}");
    assert!(report["counts"]["steps"].as_u64().unwrap() > 6);
    let (code, _, err) = run(SLACK, &["--limit", "0"]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn a_contract_that_is_not_clean_has_no_mutants() {
    let (code, out, err) = run(&SLACK.replace("/a/**", "/b/**"), &[]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("RC0202"), "{err}");
}
