//! The dashboard, the alerts and the runbook fit the gateway: no name in them that it does not export, no alert without
//! an entry, and rules that do what they say.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::deployment::Deployment;
use crate::harness::{CENTRAL, UNKNOWN};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}

/// What a tool says when it is happy; none, loudly, where it is not installed.
fn run(tool: &str, folder: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(tool)
        .args(arguments)
        .current_dir(root().join(folder))
        .output();
    let Ok(output) = output else {
        let _ = writeln!(
            std::io::stderr(),
            "PASSED OVER: {tool} {arguments:?}, as {tool} is not installed"
        );
        return None;
    };
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{tool} {arguments:?}:\n{stdout}{stderr}");
    Some(stdout)
}

/// Words that look like names of metrics, without what a histogram appends.
fn metrics_in(text: &str) -> BTreeSet<String> {
    text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_' || character == ':'))
        .filter(|word| word.starts_with("gateway_") || word.starts_with("process_"))
        .map(|word| {
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| word.strip_suffix(suffix));
            base.unwrap_or(word).to_owned()
        })
        .collect()
}

/// The names of alerts: what follows `alert:` in the rules.
fn alerts() -> Vec<String> {
    read("docker/prometheus/rules/alerts.yml")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: ").map(str::to_owned))
        .collect()
}

/// The page is compared with what the gateway exports by a test of its own.
#[test]
fn every_metric_that_is_watched_is_in_the_list_of_metrics() {
    let documented = metrics_in(&read("docs/metrics.md"));
    assert!(documented.len() > 30, "{documented:?}");
    for file in [
        "docker/prometheus/rules/recording.yml",
        "docker/prometheus/rules/alerts.yml",
        "docker/prometheus/tests/alerts.yml",
        "docker/grafana/dashboards/gateway.json",
        "docs/runbook.md",
    ] {
        let named = metrics_in(&read(file));
        let missing: Vec<&String> = named.difference(&documented).collect();
        assert!(
            missing.is_empty(),
            "{file} names what the gateway does not export: {missing:?}"
        );
        assert!(!named.is_empty(), "no metric was found in {file}");
    }
}

#[test]
fn every_alert_has_its_entry_and_every_entry_its_alert() {
    let alerts = alerts();
    assert!(alerts.len() >= 10, "{alerts:?}");
    let runbook = read("docs/runbook.md");
    let entries: Vec<(&str, &str)> = runbook
        .split("\n## ")
        .skip(1)
        .filter_map(|entry| entry.split_once('\n'))
        .collect();
    let titles: Vec<&str> = entries.iter().map(|(title, _)| *title).collect();
    assert_eq!(titles, alerts.iter().map(String::as_str).collect::<Vec<_>>());
    let rules = read("docker/prometheus/rules/alerts.yml");
    let tests = read("docker/prometheus/tests/alerts.yml");
    for (rule, (title, text)) in rules.split("- alert: ").skip(1).zip(entries) {
        assert!(
            rule.contains(&format!(
                "runbook_url: https://runbooks.example.com/gateway#{}\n",
                title.to_lowercase()
            )),
            "{rule}"
        );
        let severity = if rule.contains("severity: page") {
            "*Page.*"
        } else {
            "*Ticket.*"
        };
        for part in [severity, "**Users see**", "**Look at**", "**Mend**"] {
            assert!(text.contains(part), "{title} has no {part}");
        }
        // Firing, and not firing.
        let quiet = format!("alertname: {title}, exp_alerts: []");
        assert!(tests.contains(&quiet), "no test in which {title} does not fire");
        let firing = format!("alertname: {title}\n        exp_alerts:\n          - exp_labels");
        assert!(tests.contains(&firing), "no test in which {title} fires");
    }
}

#[test]
fn the_rules_do_what_they_say() {
    if run("promtool", "docker/prometheus/tests", &["test", "rules", "alerts.yml"]).is_some() {
        run("promtool", "docker/prometheus", &["check", "config", "prometheus.yml"]);
    }
}

#[test]
fn the_dashboard_is_what_its_source_prints_and_every_question_parses() {
    let dashboard = read("docker/grafana/dashboards/gateway.json");
    if let Some(printed) = run("python3", "docker/grafana", &["dashboard.py"]) {
        assert_eq!(
            printed, dashboard,
            "run: python3 docker/grafana/dashboard.py > docker/grafana/dashboards/gateway.json"
        );
    }
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let expressions = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array())
        .flatten()
        .filter_map(|target| target["expr"].as_str());
    // Each as a rule of its own, so that Prometheus reads it.
    let mut rules = String::from("groups:\n  - name: dashboard\n    rules:\n");
    let mut count = 0;
    for expression in expressions {
        let expression = expression.replace("$__rate_interval", "5m");
        rules.push_str(&format!(
            "      - record: panel:{count}\n        expr: {}\n",
            serde_json::json!(expression)
        ));
        count += 1;
    }
    assert!(count > 20, "{count} questions");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("dashboard.yml");
    fs::write(&file, rules).expect("the rules");
    run("promtool", ".", &["check", "rules", &file.display().to_string()]);
}

#[test]
fn error_series_exist_before_the_first_error() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    gateway.get(CENTRAL);
    gateway.get(UNKNOWN);
    // A rate has a value only where its counter was there before it grew.
    let text = gateway.admin_get("/metrics").text();
    for family in ["central", "none"] {
        let series = format!("gateway_requests_total{{family=\"{family}\",status_class=\"5xx\"}} 0");
        assert!(text.contains(&series), "no {series} in\n{text}");
    }
}
