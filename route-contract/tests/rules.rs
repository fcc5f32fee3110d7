//! Each rule with a contract that trips it, and the reference contract with one thing broken at a time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use route_contract::contract::Contract;
use route_contract::diagnostic::{Diagnostic, Severity, Source};
use route_contract::proof::Proof;
use route_contract::rules::{self, PAGES};

type Files = BTreeMap<String, String>;

fn findings(files: &Files) -> Vec<Diagnostic> {
    let contract = Contract::load_with(Path::new("contract.toml"), &|path| {
        let name = path.display().to_string();
        match files.get(&name) {
            Some(text) => Ok(Source::new(name, text.clone())),
            None => Err(Diagnostic::error("RC0101", format!("cannot read `{name}`"))),
        }
    });
    match contract {
        Ok(contract) => match Proof::new(&contract) {
            Ok(proof) => rules::check(&proof).findings,
            Err(faults) => faults,
        },
        Err(faults) => faults,
    }
}

fn codes(findings: &[Diagnostic]) -> BTreeSet<&str> {
    findings.iter().map(|finding| finding.code).collect()
}

fn errors(findings: &[Diagnostic]) -> BTreeSet<&str> {
    findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| finding.code)
        .collect()
}

fn reference() -> Files {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/agentteam");
    [
        "contract.toml",
        "profiles/central.toml",
        "profiles/workspace.toml",
        "profiles/extension.toml",
        "profiles/all.toml",
    ]
    .into_iter()
    .map(|name| (name.to_owned(), std::fs::read_to_string(folder.join(name)).unwrap()))
    .collect()
}

/// The reference with one text replaced, which must be there.
fn with(file: &str, from: &str, to: &str) -> Files {
    let mut files = reference();
    let text = files.get_mut(file).unwrap();
    assert!(text.contains(from), "{file} does not hold {from:?}");
    *text = text.replacen(from, to, 1);
    files
}

const EXT: &str = "/api/v1/workspaces/{workspace}/agents/{agent}/runtime/ext";

#[test]
fn the_reference_contract_is_clean() {
    let findings = findings(&reference());
    assert_eq!(errors(&findings), BTreeSet::new(), "{findings:#?}");
    assert!(
        findings.iter().all(|finding| finding.severity == Severity::Note),
        "{findings:#?}"
    );
}

#[test]
fn the_extension_routes_in_the_workspace_profile_too() {
    let mut files = reference();
    let extension = files["profiles/extension.toml"].clone();
    files.get_mut("profiles/workspace.toml").unwrap().push_str(&extension);
    let findings = findings(&files);
    assert!(
        errors(&findings).is_superset(&BTreeSet::from(["RC0202", "RC0205"])),
        "{findings:#?}"
    );
    let misplaced = findings.iter().find(|finding| finding.code == "RC0202").unwrap();
    assert_eq!(
        misplaced.witness.as_deref(),
        Some("/api/v1/workspaces/workspace1/agents/agent1/runtime/ext")
    );
    assert!(
        misplaced
            .place
            .as_ref()
            .unwrap()
            .to_string()
            .starts_with("profiles/workspace.toml:")
    );
}

#[test]
fn a_route_missing_from_the_aggregate() {
    let route = format!("[[route]]\nmethod = \"GET\"\npath   = \"{EXT}\"\n");
    assert_eq!(
        errors(&findings(&with("profiles/all.toml", &route, ""))),
        BTreeSet::from(["RC0206"])
    );
}

#[test]
fn a_profile_missing_from_the_aggregate() {
    let files = with(
        "contract.toml",
        "[\"central\", \"workspace\", \"extension\"]",
        "[\"central\", \"workspace\"]",
    );
    assert!(errors(&findings(&files)).contains("RC0208"));
}

#[test]
fn the_extension_family_below_workspace() {
    let mut files = reference();
    let text = files.get_mut("contract.toml").unwrap();
    let from = text.find("[[family]]\nname   = \"extension\"").unwrap();
    let to = text.find("[[family]]\nname   = \"central\"").unwrap();
    let family = text[from..to].to_owned();
    text.replace_range(from..to, "");
    let at = text.find("[profile.central]").unwrap();
    text.insert_str(at, &family);
    assert!(errors(&findings(&files)).is_superset(&BTreeSet::from(["RC0202", "RC0401"])));
}

#[test]
fn the_extension_claim_cut_to_one_path() {
    let files = with(
        "contract.toml",
        &format!("claims = [\"{EXT}/**\"]"),
        &format!("claims = [\"{EXT}\"]"),
    );
    assert!(errors(&findings(&files)).contains("RC0302"));
}

#[test]
fn a_profile_without_routes() {
    let mut files = reference();
    files.insert("profiles/extension.toml".to_owned(), "# nothing\n".to_owned());
    assert!(errors(&findings(&files)).is_superset(&BTreeSet::from(["RC0601", "RC0207", "RC0209"])));
}

/// `cases.md` P06: what an incomplete router must not hide.
#[test]
fn an_entry_that_no_router_serves_and_a_profile_with_a_typo() {
    let listed = format!("  \"{EXT}\",\n");
    let files = with(
        "contract.toml",
        &listed,
        &format!("{listed}  \"{EXT}/{{domain:kebab}}/nobody\",\n"),
    );
    assert_eq!(errors(&findings(&files)), BTreeSet::from(["RC0209"]));
    let files = with("contract.toml", "owns   = [\"extension\"]", "owns   = [\"extensions\"]");
    let found = findings(&files);
    assert_eq!(errors(&found), BTreeSet::from(["RC0108"]));
    assert_eq!(found[0].help.as_deref(), Some("did you mean `extension`?"));
    let route = "\n[[route]]\nmethod = \"POST\"\npath = \"/api/v1/apps\"\n";
    let mut files = reference();
    files.get_mut("profiles/workspace.toml").unwrap().push_str(route);
    assert!(errors(&findings(&files)).is_superset(&BTreeSet::from(["RC0202", "RC0205"])));
}

struct Fixture {
    code: &'static str,
    contract: &'static str,
    manifests: &'static [(&'static str, &'static str)],
}

const P: &str = "\n[profile.p]\nowns = [\"f\"]\nroutes = [\"p.toml\"]\n";
const A: &str = "[[route]]\nmethod = \"GET\"\npath = \"/a\"\n";
const F: &str = "version = 1\n[[family]]\nname = \"f\"\nclaims = [\"/a/**\"]\n";

const FIXTURES: &[Fixture] = &[
    Fixture {
        code: "RC0101",
        contract: "{F}{P}",
        manifests: &[],
    },
    Fixture {
        code: "RC0102",
        contract: "version = 1\nversion = 1\n",
        manifests: &[],
    },
    Fixture {
        code: "RC0103",
        contract: "{F}clams = []\n{P}",
        manifests: &[("p.toml", A)],
    },
    Fixture {
        code: "RC0104",
        contract: "version = 1\n[[family]]\nname = \"f\"\n",
        manifests: &[],
    },
    Fixture {
        code: "RC0105",
        contract: "version = 2\n[[family]]\nname = \"f\"\nclaims = [\"/a\"]\n",
        manifests: &[],
    },
    Fixture {
        code: "RC0106",
        contract: "{F}[[family]]\nname = \"f\"\nclaims = [\"/b\"]\n{P}",
        manifests: &[("p.toml", A)],
    },
    Fixture {
        code: "RC0107",
        contract: "{F}routes = [\"/a//b\"]\n{P}",
        manifests: &[("p.toml", A)],
    },
    Fixture {
        code: "RC0108",
        contract: "{F}routes = [\"/a/{x:number}\"]\n{P}",
        manifests: &[("p.toml", A)],
    },
    Fixture {
        code: "RC0201",
        contract: "{F}{P}",
        manifests: &[(
            "p.toml",
            "[[route]]\nmethod = \"GET\"\npath = \"/a/{x}/b\"\n[[route]]\nmethod = \"GET\"\npath = \"/a/**\"\n",
        )],
    },
    Fixture {
        code: "RC0202",
        contract: "{F}{P}",
        manifests: &[("p.toml", "[[route]]\nmethod = \"GET\"\npath = \"/b\"\n")],
    },
    Fixture {
        code: "RC0203",
        contract: "version = 1\n[[family]]\nname = \"g\"\nclaims = [\"/a/b\"]\n[[family]]\nname = \"f\"\nclaims = [\"/a/**\"]\n{P}[profile.q]\nowns = [\"g\"]\nroutes = [\"q.toml\"]\n",
        manifests: &[
            ("p.toml", "[[route]]\nmethod = \"GET\"\npath = \"/a/{x}\"\n"),
            ("q.toml", "[[route]]\nmethod = \"GET\"\npath = \"/a/b\"\n"),
        ],
    },
    Fixture {
        code: "RC0204",
        contract: "{F}routes = [\"/a/{x:int}\"]\n{P}",
        manifests: &[("p.toml", "[[route]]\nmethod = \"GET\"\npath = \"/a/{x}\"\n")],
    },
    Fixture {
        code: "RC0205",
        contract: "{F}{P}[profile.q]\nowns = [\"f\"]\nroutes = [\"q.toml\"]\n",
        manifests: &[
            ("p.toml", A),
            ("q.toml", "[[route]]\nmethod = \"POST\"\npath = \"/a\"\n"),
        ],
    },
    Fixture {
        code: "RC0206",
        contract: "{F}{P}[profile.all]\naggregate = [\"p\"]\nroutes = [\"all.toml\"]\n",
        manifests: &[("p.toml", A), ("all.toml", "")],
    },
    Fixture {
        code: "RC0207",
        contract: "{F}{P}[profile.all]\naggregate = [\"p\"]\nroutes = [\"all.toml\"]\n",
        manifests: &[
            ("p.toml", A),
            (
                "all.toml",
                "[[route]]\nmethod = \"GET\"\npath = \"/a\"\n[[route]]\nmethod = \"GET\"\npath = \"/a/debug\"\n",
            ),
        ],
    },
    Fixture {
        code: "RC0208",
        contract: "{F}{P}[profile.q]\nowns = [\"f\"]\nroutes = [\"q.toml\"]\n[profile.all]\naggregate = [\"p\"]\n",
        manifests: &[
            ("p.toml", A),
            ("q.toml", "[[route]]\nmethod = \"GET\"\npath = \"/a/q\"\n"),
        ],
    },
    Fixture {
        code: "RC0209",
        contract: "{F}routes = [\"/a\", \"/a/b\"]\n{P}",
        manifests: &[("p.toml", A)],
    },
    Fixture {
        code: "RC0210",
        contract: "{F}routes = [\"/a/{x}\"]\n{P}",
        manifests: &[("p.toml", "[[route]]\nmethod = \"GET\"\npath = \"/a/{x:int}\"\n")],
    },
    Fixture {
        code: "RC0211",
        contract: "{F}{P}",
        manifests: &[("p.toml", "[[route]]\nmethod = \"GET\"\npath = \"/{x}\"\n")],
    },
    Fixture {
        code: "RC0302",
        contract: "{F}routes = [\"/a\", \"/b\"]\n{P}",
        manifests: &[("p.toml", A)],
    },
    Fixture {
        code: "RC0303",
        contract: "retired = [\"/a/old/**\"]\n{F}{P}",
        manifests: &[("p.toml", A)],
    },
    Fixture {
        code: "RC0303",
        contract: "retired = [\"/b/**\"]\n{F}{P}",
        manifests: &[(
            "p.toml",
            "[[route]]\nmethod = \"GET\"\npath = \"/a\"\n[[route]]\nmethod = \"GET\"\npath = \"/b/c\"\n",
        )],
    },
    Fixture {
        code: "RC0304",
        contract: "{F}{P}[common]\nroutes = [\"/a/health\"]\n",
        manifests: &[("p.toml", A)],
    },
    Fixture {
        code: "RC0305",
        contract: "version = 1\n[[family]]\nname = \"f\"\nclaims = [\"/**\"]\n{P}",
        manifests: &[("p.toml", A)],
    },
    Fixture {
        code: "RC0306",
        contract: "{F}{P}",
        manifests: &[("p.toml", A)],
    },
    Fixture {
        code: "RC0306",
        contract: "{F}{P}",
        manifests: &[("p.toml", "[[route]]\nmethod = \"GET\"\npath = \"/a/b/{x}\"\n")],
    },
    Fixture {
        code: "RC0306",
        contract: "version = 1\n[[family]]\nname = \"f\"\nclaims = [\"/a\", \"/b\"]\n{P}",
        manifests: &[("p.toml", A)],
    },
    Fixture {
        code: "RC0401",
        contract: "{F}[[family]]\nname = \"g\"\nclaims = [\"/a/b\"]\n{P}",
        manifests: &[("p.toml", A)],
    },
    Fixture {
        code: "RC0501",
        contract: "{F}[[family]]\nname = \"g\"\nclaims = [\"/A/**\"]\n{P}[profile.q]\nowns = [\"g\"]\nroutes = [\"q.toml\"]\n",
        manifests: &[
            ("p.toml", A),
            ("q.toml", "[[route]]\nmethod = \"GET\"\npath = \"/A\"\n"),
        ],
    },
    Fixture {
        code: "RC0502",
        contract: "{F}{P}",
        manifests: &[("p.toml", A)],
    },
    Fixture {
        code: "RC0503",
        contract: "version = 1\n[[family]]\nname = \"g\"\nclaims = [\"/a\"]\n[[family]]\nname = \"f\"\nclaims = [\"/a/**\"]\n{P}[profile.q]\nowns = [\"g\"]\nroutes = [\"q.toml\"]\n",
        manifests: &[
            ("p.toml", "[[route]]\nmethod = \"GET\"\npath = \"/a/{x}\"\n"),
            ("q.toml", A),
        ],
    },
    Fixture {
        code: "RC0601",
        contract: "{F}{P}",
        manifests: &[("p.toml", "")],
    },
    Fixture {
        code: "RC0602",
        contract: "{F}[[family]]\nname = \"g\"\nclaims = [\"/g\"]\n{P}",
        manifests: &[("p.toml", A)],
    },
    Fixture {
        code: "RC0603",
        contract: "{F}",
        manifests: &[],
    },
];

/// Codes that no contract of a fixture's size trips: limits, and faults of the program itself.
const WITHOUT_FIXTURE: [&str; 6] = ["RC0109", "RC0110", "RC0301", "RC0402", "RC0403", "RC0701"];

fn files_of(fixture: &Fixture) -> Files {
    let contract = fixture.contract.replace("{F}", F).replace("{P}", P);
    // `retired` is a key of the whole file and must stand before its first table.
    let contract = match contract.strip_prefix("retired") {
        Some(rest) => {
            let (line, rest) = rest.split_once('\n').unwrap();
            rest.replacen("version = 1\n", &format!("version = 1\nretired{line}\n"), 1)
        }
        None => contract,
    };
    let manifests = fixture
        .manifests
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    std::iter::once(("contract.toml".to_owned(), contract))
        .chain(manifests)
        .collect()
}

#[test]
fn every_rule_is_tripped_by_its_fixture() {
    for fixture in FIXTURES {
        let found = findings(&files_of(fixture));
        assert!(codes(&found).contains(fixture.code), "{}: {found:#?}", fixture.code);
        for finding in &found {
            assert!(!finding.message.ends_with('.'), "{finding}");
            assert!(rules::page(finding.code).is_some(), "{} has no page", finding.code);
            let _ = finding.to_string();
        }
    }
    let with_fixture: BTreeSet<&str> = FIXTURES
        .iter()
        .map(|fixture| fixture.code)
        .chain(WITHOUT_FIXTURE)
        .collect();
    let pages: BTreeSet<&str> = PAGES.iter().map(|page| page.code).collect();
    assert_eq!(with_fixture, pages);
}

#[test]
fn a_sound_contract_of_the_same_shape_trips_nothing() {
    let files = files_of(&Fixture {
        code: "",
        contract: "{F}routes = [\"/a\"]\n{P}",
        manifests: &[("p.toml", A)],
    });
    assert_eq!(findings(&files), []);
}

#[test]
fn all_faults_of_all_files_are_reported_in_one_run() {
    let files = files_of(&Fixture {
        code: "",
        contract: "{F}routes = [\"/a/{x:nope}\", \"/a/%20\", \"/a\", \"/a\"]\n{P}[profile.q]\nowns = [\"g\"]\nroutes = [\"q.toml\", \"missing.toml\"]\n",
        manifests: &[
            ("p.toml", "[[route]]\nmethod = \"get\"\npath = \"a\"\n"),
            ("q.toml", "route = 1\n"),
        ],
    });
    let found = findings(&files);
    let seen: Vec<String> = found
        .iter()
        .map(|finding| {
            format!(
                "{} {}",
                finding.code,
                finding.place.as_ref().map(ToString::to_string).unwrap_or_default()
            )
        })
        .collect();
    for expected in [
        "RC0108 contract.toml:5:11",
        "RC0107 contract.toml:5:30",
        "RC0106 contract.toml:5:42",
        "RC0108 contract.toml:11:9",
        "RC0105 p.toml:2:10",
        "RC0107 p.toml:3:9",
        "RC0105 q.toml:1:9",
        "RC0101 contract.toml:12:21",
    ] {
        assert!(seen.iter().any(|seen| seen == expected), "{expected} not in {seen:#?}");
    }
}

/// A fault of form must not hide those of meaning, nor make up others.
#[test]
fn what_is_left_of_a_damaged_contract_is_looked_at_too() {
    let files = files_of(&Fixture {
        code: "",
        contract: "{F}clams = []\nroutes = [\"/a//b\", \"/a/{x:kebob}\", 3]\n[[family]]\nname = \"g\"\nclaims = [7]\n{P}",
        manifests: &[],
    });
    let found = findings(&files);
    let seen: Vec<&str> = found.iter().map(|finding| finding.code).collect();
    assert_eq!(
        seen,
        ["RC0103", "RC0105", "RC0105", "RC0107", "RC0108", "RC0101"],
        "{found:#?}"
    );
}

#[test]
fn the_digest_is_of_the_meaning() {
    let load = |files: &Files| {
        Contract::load_with(Path::new("contract.toml"), &|path| {
            let name = path.display().to_string();
            Ok(Source::new(name.clone(), files[&name].clone()))
        })
        .unwrap()
        .digest()
    };
    let digest = load(&reference());
    assert_eq!(digest.len(), "sha256:".len() + 64);
    let reformatted = with(
        "contract.toml",
        "\"/assets/**\",\n  \"/login\",",
        "'/login', # moved\n\"/assets/**\",",
    );
    assert_eq!(load(&reformatted), digest);
    let narrowed = with("contract.toml", "\"/assets/**\"", "\"/assets/x/**\"");
    assert_ne!(load(&narrowed), digest);
}
