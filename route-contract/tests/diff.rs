//! `diff` against two ordered scans, over generated pairs of contracts; and what it prints.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

mod generate;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use proptest::prelude::*;
use route_contract::contract::Contract;
use route_contract::diff::{Difference, Holder};
use route_contract::ownership::Owner;
use route_contract::scan::Scan;

use generate::{contract, contract_with, load, path};

fn holder(contract: &Contract, owner: Owner) -> Holder {
    let name = |id: route_contract::contract::FamilyId| contract.families[id.index()].name.clone();
    match owner {
        Owner::Family(id) => Holder::Forwarded(name(id)),
        Owner::Never(id) => Holder::Never(name(id)),
        Owner::Refused(id) => Holder::Refused(name(id)),
        Owner::Unclaimed => Holder::Unclaimed,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    /// The kind `shout` has another expression in the new contract.
    #[test]
    fn a_path_changes_owner_where_two_scans_differ(
        old in contract(),
        new in contract_with("[A-Z]+|7"),
        paths in prop::collection::vec(path(), 32),
    ) {
        let (Some(old), Some(new)) = (load(&old), load(&new)) else {
            return Err(TestCaseError::reject("two templates of one shape"));
        };
        let difference = Difference::between(&old, &new).unwrap();
        let (before, after) = (Scan::new(&old).unwrap(), Scan::new(&new).unwrap());
        for path in &paths {
            let from = holder(&old, before.owner(path.as_bytes()));
            let to = holder(&new, after.owner(path.as_bytes()));
            let told = difference.changes.iter().any(|change| change.from == from && change.to == to);
            prop_assert!(from == to || told, "{path}: {from} to {to} in {difference:#?}");
        }
        for change in &difference.changes {
            let path = change.witness.as_bytes();
            prop_assert_eq!(&change.from, &holder(&old, before.owner(path)), "{:#?}", change);
            prop_assert_eq!(&change.to, &holder(&new, after.owner(path)), "{:#?}", change);
        }
        let classes: usize = difference.changes.iter().map(|change| change.classes).sum();
        prop_assert_eq!(classes, difference.counts.changed());
        prop_assert!(Difference::between(&old, &old).unwrap().is_empty());
    }
}

const OLD: &str = "version = 1\n[kinds]\nslug = \"[a-z]+\"\n[[family]]\nname = \"ext\"\nclaims = [\"/w/{w}/ext/**\"]\n\
    routes = [\"/w/{w}/ext/{d:slug}\"]\n[[family]]\nname = \"work\"\nclaims = [\"/w/{w}/**\", \"/x\"]\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(old: &str, new: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("old.toml"), old).unwrap();
        std::fs::write(folder.path().join("new.toml"), new).unwrap();
        Self(folder)
    }

    fn diff(&self, arguments: &[&str], input: &str) -> (i32, String, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_route-contract"))
            .current_dir(self.0.path())
            .args(["diff", "old.toml", "new.toml"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // Where the program does not read its input, the pipe is closed: that is no fault here.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        (
            status.code().unwrap(),
            String::from_utf8(stdout).unwrap(),
            String::from_utf8(stderr).unwrap(),
        )
    }
}

#[test]
fn formatting_and_order_that_change_nothing_print_nothing() {
    let new = "# the same\nversion = 1\n[[family]]\nname = 'ext'\nclaims = ['/w/{space}/ext/**']\nroutes = ['/w/{s}/ext/{d:name}']\n\
        [[family]]\nname = 'work'\nclaims = ['/x', '/w/{w}/**']\n[kinds]\nname = '[a-z]+'\n";
    let (code, out, err) = Folder::new(OLD, new).diff(&[], "");
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", "no change of meaning\n"));
}

#[test]
fn a_change_is_a_line_with_a_witness_and_counts() {
    let new = OLD.replace("[a-z]+", "[a-z0-9]+").replace(", \"/x\"", "");
    let (code, out, _) = Folder::new(OLD, &new).diff(&[], "");
    assert_eq!(code, 1);
    assert_eq!(
        out,
        "~ work → unknown  /x  in `/x`\n~ unknown (in ext) → ext  /w/w1/ext/d1  in `/w/{w}/ext/**`\n\
         2 of 9 classes of paths change owner: 1 opened, 1 closed, 0 moved, 0 refused otherwise; 0 other statements\n"
    );
}

#[test]
fn a_subtree_that_moves_is_one_line() {
    let routes: String = (0..500).map(|n| format!("\"/w/{{w}}/ext/r{n}/{{x}}\",")).collect();
    let old = OLD.replace("\"/w/{w}/ext/{d:slug}\"", &routes);
    let new = old.replace("name = \"ext\"", "name = \"extension\"");
    let (code, out, _) = Folder::new(&old, &new).diff(&[], "");
    assert_eq!(code, 1);
    assert!(
        out.starts_with("~ ext → extension  /w/w1/ext/r0/x1  500 classes in `/w/{w}/ext/**`\n"),
        "{out}"
    );
    assert!(out.lines().count() < 8, "{out}");
}

#[test]
fn requests_are_replayed_from_the_access_log() {
    let new = OLD.replace(", \"/x\"", "").replace("[a-z]+", "[a-y]+");
    let log = "{\"time\":\"t\",\"log\":\"access\",\"target\":\"/x?…\",\"status\":200}\n\
        {\"log\":\"info\",\"message\":\"started\"}\n/x\n\n/w/1/ext/z\n/w/1/y\n{\"log\":\"access\",\"target\":\"/w/it\\\\'s\"}\n\
        {\"log\":\"access\",\"target\":\"/w/long…\"}\n{broken\n/w/a/%2e%2e/x\n";
    let (code, out, err) = Folder::new(OLD, &new).diff(&["--replay", "-", "--format", "json"], log);
    assert_eq!((code, err.as_str()), (1, ""));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let replay = &report["replay"];
    for (field, expected) in [
        ("requests", 6),
        ("changed", 3),
        ("passed_over", 2),
        ("cut", 1),
        ("not_understood", 1),
    ] {
        assert_eq!(replay[field], expected, "{field} in {replay}");
    }
    let first = &replay["transitions"][0];
    assert_eq!(first["requests"], 2);
    assert_eq!(
        (first["from"].as_str(), first["to"].as_str()),
        (Some("work"), Some("unknown"))
    );
    assert_eq!(first["example"], "/x");

    let (code, out, _) = Folder::new(OLD, &new).diff(&["--replay", "-"], log);
    assert_eq!(code, 1);
    assert!(out.contains("3 of 6 requests would change owner\n"), "{out}");
    assert!(out.contains("1 line not understood, the first is line 9\n"), "{out}");
}

#[test]
fn a_logged_path_of_which_a_part_is_left_out_is_not_classified() {
    let log = "{\"log\":\"access\",\"target\":\"/w/1;…/y\"}\n{\"log\":\"access\",\"target\":\"/w/1%3F…\"}\n/x\n";
    let new = OLD.replace(", \"/x\"", "");
    let (code, out, _) = Folder::new(OLD, &new).diff(&["--replay", "-", "--format", "json"], log);
    assert_eq!(code, 1);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    for (field, expected) in [("requests", 1), ("changed", 1), ("cut", 2), ("not_understood", 0)] {
        assert_eq!(report["replay"][field], expected, "{field} in {report}");
    }
}

#[test]
fn what_cannot_be_compared_exits_with_two() {
    let folder = Folder::new(OLD, "version = 1\n");
    let (code, out, err) = folder.diff(&[], "");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("RC0104"), "{err}");
    let folder = Folder::new(OLD, OLD);
    assert_eq!(folder.diff(&["--replay", "-"], "\n\n").0, 2, "no request");
    assert_eq!(folder.diff(&["--replay", "missing.log"], "").0, 2);
}

#[test]
fn what_profiles_say_is_compared_too() {
    let profile = |owns: &str| format!("{OLD}[profile.p]\nowns = [{owns}]\nroutes = [\"p.toml\"]\n");
    let load = |contract: String, path: &str| {
        generate::load_files(&BTreeMap::from([
            ("contract.toml".to_owned(), contract),
            (
                "p.toml".to_owned(),
                format!("[[route]]\nmethod = \"GET\"\npath = \"{path}\"\n"),
            ),
        ]))
        .unwrap()
    };
    let old = load(profile("\"ext\""), "/x");
    let new = load(profile("\"ext\", \"work\""), "/x/{y}");
    let difference = Difference::between(&old, &new).unwrap();
    assert!(difference.changes.is_empty());
    let said: Vec<String> = difference
        .statements
        .iter()
        .map(|statement| {
            format!(
                "{} {} {}",
                statement.sign.as_char(),
                statement.about.as_str(),
                statement.text
            )
        })
        .collect();
    assert_eq!(
        said,
        ["+ owns work", "- registration GET /x", "+ registration GET /x/{y}"]
    );
}
