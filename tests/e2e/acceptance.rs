//! The acceptance table of `tests/README.md` and the threats of `docs/security.md` name tests that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// Every name of the form `a::b::c` in backticks in the rows of the tables.
fn names_in_tables(page: &str) -> Vec<String> {
    page.lines()
        .filter(|line| line.starts_with('|'))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|name| name.contains("::"))
        .map(str::to_owned)
        .collect()
}

/// The names of the test functions in a source file: a `#[test]` attribute, then the next `fn`.
fn tests_in(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut announced = false;
    for line in text.lines().map(str::trim) {
        announced |= line == "#[test]" || line.starts_with("#[tokio::test");
        let rest = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "));
        if let Some(rest) = rest.filter(|_| announced) {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            names.insert(rest[..end].to_owned());
            announced = false;
        }
    }
    names
}

/// The files that may hold the module that a name's middle parts spell, for each of the three crates of tests.
fn files_of(name: &str) -> Vec<PathBuf> {
    let parts: Vec<&str> = name.split("::").collect();
    let [crate_name, modules @ .., _] = parts.as_slice() else {
        return Vec::new();
    };
    let folders = match *crate_name {
        "e2e" => vec![root().join("tests/e2e")],
        "route_contract" => vec![root().join("route-contract/src"), root().join("route-contract/tests")],
        "gateway" => vec![root().join("gateway/src"), root().join("gateway/tests")],
        other => panic!("{name}: no crate `{other}`; write e2e, route_contract or gateway"),
    };
    let modules: Vec<&str> = modules.iter().copied().filter(|module| *module != "tests").collect();
    let path: PathBuf = modules.iter().collect();
    folders
        .iter()
        .flat_map(|folder| {
            let stem = folder.join(&path);
            [
                stem.with_extension("rs"),
                stem.join("mod.rs"),
                stem.join("tests.rs"),
                stem.join("main.rs"),
            ]
        })
        .filter(|file| file.is_file())
        .collect()
}

/// The pages whose tables name tests, with the section that holds the table and the rows that it has at least.
const TABLES: [(&str, &str, usize); 2] = [
    ("tests/README.md", "## Acceptance", 12),
    ("docs/security.md", "## What is promised", 12),
];

#[test]
fn every_test_named_in_the_tables_exists() {
    for (name, _, _) in TABLES {
        let page = read(&root().join(name));
        let names = names_in_tables(&page);
        assert!(names.len() >= 20, "{name}: only {} tests are named", names.len());
        let missing: Vec<&String> = names
            .iter()
            .filter(|name| {
                let function = name.rsplit("::").next().unwrap_or_default();
                !files_of(name)
                    .iter()
                    .any(|file| tests_in(&read(file)).contains(function))
            })
            .collect();
        assert!(missing.is_empty(), "{name} names tests that do not exist: {missing:#?}");
    }
}

#[test]
fn every_row_of_the_tables_names_a_test() {
    for (name, section, least) in TABLES {
        let page = read(&root().join(name));
        let table = page.split(section).nth(1).expect("the section");
        let table = table.split("\n## ").next().unwrap_or_default();
        let rows: Vec<&str> = table
            .lines()
            .filter(|line| line.starts_with('|') && !line.starts_with("|---") && !line.contains("| Shown by |"))
            .collect();
        assert!(rows.len() >= least, "{name}: only {} rows", rows.len());
        for row in rows {
            assert!(!names_in_tables(row).is_empty(), "{name}: no test in the row {row}");
        }
    }
}
