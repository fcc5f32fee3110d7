//! The pages under `docs/` and the README say what the binaries do: tables, links, and every block of commands.

mod blocks;
mod commands;
mod sandbox;

use std::fs;
use std::path::Path;

use gateway::proxy::refusal::Refusal;

use crate::harness::deployment::Deployment;
use crate::harness::process::run_to_end;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// The names of all pages.
fn pages() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names = vec!["README.md".to_owned(), "CHANGELOG.md".to_owned()];
    for folder in ["docs", "docs/decisions", "tests", "bench"] {
        let entries = fs::read_dir(root.join(folder)).expect("a folder of pages");
        let entries = entries.map(|entry| entry.expect("an entry").file_name());
        let pages = entries.filter_map(|entry| entry.into_string().ok().filter(|name| name.ends_with(".md")));
        names.extend(pages.map(|name| format!("{folder}/{name}")));
    }
    names.sort();
    names
}

/// The row of a table that names this key, as its cells.
fn row<'p>(page: &'p str, key: &str) -> Option<Vec<&'p str>> {
    let named = format!("`{key}`");
    page.lines()
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
        .find(|cells| {
            cells
                .get(1)
                .is_some_and(|cell| cell.split(", ").any(|name| name == named))
        })
}

#[test]
fn every_key_of_the_configuration_is_documented_with_its_default() {
    let page = page("docs/configuration.md");
    let deployment = Deployment::new().with_only_upstream_keys("central", "");
    let ended = run_to_end(&mut deployment.command("config"));
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let mut table = String::new();
    let mut keys = 0;
    for line in ended.stdout.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = name.to_owned();
            continue;
        }
        let (setting, origin) = line.rsplit_once("  # ").unwrap_or((line, ""));
        let (key, value) = match setting.strip_prefix("# ") {
            Some(unset) => (unset.trim_end_matches(" is not set"), None),
            None => setting
                .split_once(" = ")
                .map(|(key, value)| (key, Some(value.trim_matches('"'))))
                .unwrap_or_else(|| panic!("not a setting: {line}")),
        };
        let key = match table.strip_prefix("upstream.") {
            // Every family's table has the same keys; the others of this deployment are not at their defaults.
            Some(family) if !family.starts_with("central") => continue,
            Some(family) => match family.strip_prefix("central.") {
                Some(inner) => format!("{inner}.{key}"),
                None => key.to_owned(),
            },
            None if table.is_empty() => key.to_owned(),
            None => format!("{table}.{key}"),
        };
        let cells = row(&page, &key).unwrap_or_else(|| panic!("`{key}` is not in docs/configuration.md"));
        keys += 1;
        if let (Some(value), "default") = (value, origin) {
            let documented: Vec<&str> = cells[2].split('`').collect();
            assert!(
                documented.contains(&value),
                "`{key}` is {value} by default, not {}",
                cells[2]
            );
        }
    }
    assert!(keys > 25, "only {keys} keys in\n{}", ended.stdout);
}

#[test]
fn every_error_code_is_documented_with_its_status() {
    let page = page("docs/requests.md");
    for refusal in Refusal::ALL {
        let code = format!("`{}`", refusal.code());
        let status = refusal.status().as_str().to_owned();
        let documented = page
            .lines()
            .filter(|line| line.starts_with('|'))
            .any(|line| line.contains(&code) && line.split('|').nth(1).is_some_and(|cell| cell.contains(&status)));
        assert!(documented, "{status} {code} is not in docs/requests.md");
    }
}

#[test]
fn links_between_the_pages_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let names = pages();
    assert!(names.len() > 10, "the pages were not found: {names:?}");
    for name in &names {
        let folder = root.join(name).parent().expect("a folder").to_owned();
        for link in page(name).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or(link);
            if !link.starts_with("http") && !file.is_empty() {
                assert!(
                    folder.join(file).exists(),
                    "{name} links to {link}, which does not exist"
                );
            }
        }
    }
}
