//! The page about metrics, what the binary exports, and the conventions.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::deployment::Deployment;
use crate::harness::tls::Authority;
use crate::harness::{CENTRAL, UNKNOWN};

/// The text of `/metrics` of a gateway that has all of it: TLS too.
fn exported() -> String {
    let authority = Authority::new();
    let tls = authority.issue("gw", &["gateway.test"]);
    let deployment = Deployment::new().with_tables(&format!(
        "[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n[listen.tls]\n{tls}"
    ));
    let gateway = deployment.start();
    gateway.admin_get("/metrics").text()
}

/// Type and labels of each metric, by its name.
type Metrics = BTreeMap<String, (String, BTreeSet<String>)>;

fn of_the_binary(text: &str) -> Metrics {
    let mut metrics = Metrics::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            metrics.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
            continue;
        }
        let Some((series, labels)) = line.split_once('{').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let name = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| series.strip_suffix(suffix).filter(|name| metrics.contains_key(*name)))
            .unwrap_or(series);
        let labels = labels.rsplit_once('}').expect("the end of the labels").0;
        let known = &mut metrics.get_mut(name).expect("a type before its samples").1;
        known.extend(
            labels
                .split(',')
                .filter_map(|label| Some(label.split_once('=')?.0.to_owned())),
        );
        known.remove("le");
    }
    metrics
}

fn of_the_page(page: &str) -> Metrics {
    let quoted = |cell: &str| {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    page.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let name = quoted(cells.get(1)?)
                .into_iter()
                .find(|name| name.starts_with("gateway_"))?;
            Some((
                name,
                (cells.get(2)?.to_string(), quoted(cells.get(3)?).into_iter().collect()),
            ))
        })
        .collect()
}

#[test]
fn the_page_of_metrics_and_the_binary_agree() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let page = std::fs::read_to_string(path).expect("docs/metrics.md");
    let mut exported = of_the_binary(&exported());
    // The standard names of every client of Prometheus.
    let process: Vec<String> = exported
        .keys()
        .filter(|name| name.starts_with("process_"))
        .cloned()
        .collect();
    for name in &process {
        assert!(page.contains(&format!("`{name}`")), "{name} is not on the page");
        exported.remove(name);
    }
    let documented = of_the_page(&page);
    assert!(documented.len() > 30 && process.len() > 5, "{documented:?} {process:?}");
    let missing: Vec<_> = exported.keys().filter(|name| !documented.contains_key(*name)).collect();
    let made_up: Vec<_> = documented.keys().filter(|name| !exported.contains_key(*name)).collect();
    assert!(
        missing.is_empty() && made_up.is_empty(),
        "missing: {missing:?}; made up: {made_up:?}"
    );
    for (name, found) in &exported {
        assert_eq!(Some(found), documented.get(name), "{name}: the binary, and the page");
    }
}

#[test]
#[allow(clippy::print_stderr)] // who runs the test should know what was left out
fn names_and_types_follow_the_conventions_as_promtool_has_them() {
    let child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            return eprintln!("NOT CHECKED: promtool cannot be started ({error}); Debian: apt-get install prometheus");
        }
    };
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(exported().as_bytes()).expect("promtool reads");
    drop(input);
    let output = child.wait_with_output().expect("promtool ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}

#[test]
fn where_metrics_are_off_nothing_is_counted_and_the_rest_works() {
    let deployment = Deployment::new().with_tables("[metrics]\nenabled = false");
    let gateway = deployment.start();
    assert_eq!(gateway.get(CENTRAL).status, 200);
    gateway.get(UNKNOWN).assert_refusal(404, "not_found");
    assert_eq!(gateway.admin_get("/metrics").status, 404);
    assert_eq!(gateway.admin_get("/readyz").status, 200);
}
