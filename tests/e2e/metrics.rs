//! Metrics: what happened is counted under labels from closed sets, however hostile the traffic.

use std::collections::{BTreeMap, BTreeSet};

use crate::harness::client::request_bytes;
use crate::harness::deployment::{Deployment, FORWARDED};
use crate::harness::process::Gateway;
use crate::harness::{CENTRAL, EXTENSION, INTERNAL, UNKNOWN, WORKSPACE};

/// Every series with its value.
#[track_caller]
fn scrape(gateway: &Gateway) -> BTreeMap<String, f64> {
    let response = gateway.admin_get("/metrics");
    assert_eq!(response.status, 200);
    response
        .text()
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("not a sample: {line}"));
            (
                series.to_owned(),
                value.parse().unwrap_or_else(|_| panic!("not a number: {line}")),
            )
        })
        .collect()
}

fn names(series: &BTreeMap<String, f64>) -> BTreeSet<String> {
    series.keys().cloned().collect()
}

/// The sum over the series of one metric that carry all of these labels.
fn sum(series: &BTreeMap<String, f64>, metric: &str, labels: &[(&str, &str)]) -> f64 {
    series
        .iter()
        .filter(|(name, _)| name.split('{').next() == Some(metric))
        .filter(|(name, _)| {
            labels
                .iter()
                .all(|(label, value)| name.contains(&format!("{label}=\"{value}\"")))
        })
        .map(|(_, value)| value)
        .sum()
}

/// A request of every kind: forwarded, refused and malformed.
fn one_of_each(gateway: &Gateway, n: usize) {
    let long = "x".repeat(20_000);
    let host = match n % 4 {
        0 => format!("h{n}.example:80{}", n % 10),
        1 => format!("H{n}.EXAMPLE."),
        2 => "y".repeat(200 + n),
        _ => format!("[2001:db8::{n}]"),
    };
    let get = |target: &str| request_bytes("GET", target, &[], b"");
    let requests: Vec<Vec<u8>> = vec![
        get(&format!("/unknown-{n}")),
        get(&format!("/api/internal/{n}")),
        get(&format!("/api/v1/workspaces/w{n}/files/{n}")),
        get(&format!(
            "/api/v1/workspaces/w{n}/agents/a{n}/runtime/ext/d{n}/actions/a{n}"
        )),
        get(&format!("/api/v1/workspaces/w{n}/agents/a{n}/runtime%2Fext/d{n}")),
        get(&format!("/api/v1/users/%zz{n}")),
        get(&format!("{CENTRAL}?q={n}")),
        get(&format!("/{long}{n}")),
        format!("FOO{n} {CENTRAL} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes(),
        format!("GET {WORKSPACE} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: agent-{n}\r\n\r\n").into_bytes(),
        request_bytes(
            "GET",
            CENTRAL,
            &[("Connection", "Upgrade"), ("Upgrade", &format!("proto{n}"))],
            b"",
        ),
        format!("GET {CENTRAL} HTTP/1.1\r\n\r\n").into_bytes(),
        format!("nonsense{n}\r\n\r\n").into_bytes(),
        format!("CONNECT h{n}:1 HTTP/1.1\r\nHost: h{n}:1\r\n\r\n").into_bytes(),
        format!("POST {CENTRAL} HTTP/1.1\r\nHost: a\r\nContent-Length: {n}\r\nTransfer-Encoding: chunked\r\n\r\n")
            .into_bytes(),
        format!("GET /{n} HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "z".repeat(80_000)).into_bytes(),
    ];
    for bytes in requests {
        let mut client = gateway.client();
        let _ = client.send_what_is_taken(bytes);
        let _ = client.try_response();
    }
}

#[test]
fn hostile_traffic_adds_no_series() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    one_of_each(&gateway, 0);
    let before = names(&scrape(&gateway));
    // 16 requests each, 5,000 in all; `make hostile` sends ten times as many.
    for n in 1..=313 {
        one_of_each(&gateway, n);
    }
    let after = names(&scrape(&gateway));
    let added: Vec<&String> = after.difference(&before).collect();
    assert!(added.is_empty(), "new series: {added:#?}");
}

#[test]
fn no_label_holds_what_a_client_or_an_upstream_chose() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    one_of_each(&gateway, 77);
    let text = gateway.admin_get("/metrics").text();
    for part in [
        "77",
        "example",
        "runtime",
        "/api",
        "w7",
        "agent-",
        "FOO",
        "proto7",
        "127.0.0.1",
        "http://",
    ] {
        let found = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once('{').and_then(|(_, rest)| rest.split_once('}')))
            .find(|(labels, _)| labels.contains(part) && !labels.contains("le=") && !labels.contains("digest="));
        assert!(found.is_none(), "{part} in {found:?}");
    }
    deployment.assert_names_no_upstream(
        text.lines()
            .filter(|l| l.contains('{'))
            .map(labels)
            .collect::<String>()
            .as_bytes(),
    );
}

/// The labels of a sample without the bounds of histogram buckets.
fn labels(line: &str) -> &str {
    match line.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
        Some((labels, _)) if !labels.contains("le=") => labels,
        _ => "",
    }
}

#[test]
fn requests_are_counted_by_family_and_status_class_and_refusals_by_reason() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let before = scrape(&gateway);
    for (target, count) in [
        (CENTRAL, 1),
        (WORKSPACE, 2),
        (EXTENSION, 3),
        (UNKNOWN, 4),
        (INTERNAL, 5),
    ] {
        for _ in 0..count {
            gateway.get(target);
        }
    }
    gateway.get("/api/v1/workspaces/w1/agents/a1/runtime%2Fext");
    let after = scrape(&gateway);
    let grown = |metric: &str, labels: &[(&str, &str)]| sum(&after, metric, labels) - sum(&before, metric, labels);
    for (family, count) in [("central", 1.0), ("workspace", 2.0), ("extension", 3.0)] {
        let labels = [("family", family), ("status_class", "2xx")];
        assert_eq!(
            grown("gateway_requests_total", &labels),
            count,
            "{family} in {after:#?}"
        );
        assert_eq!(
            grown("gateway_request_duration_seconds_count", &[("family", family)]),
            count,
            "{family}"
        );
        assert_eq!(
            sum(&after, "gateway_requests_in_flight", &[("family", family)]),
            0.0,
            "{family}"
        );
    }
    assert_eq!(grown("gateway_requests_total", &[]), 16.0);
    assert_eq!(grown("gateway_refusals_total", &[]), 10.0, "{after:#?}");
    assert_eq!(grown("gateway_refusals_total", &[("reason", "ambiguous_path")]), 1.0);
}

#[test]
fn what_the_parser_refuses_is_counted_too() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let total = |series: &BTreeMap<String, f64>| {
        sum(series, "gateway_refusals_total", &[]) + sum(series, "gateway_malformed_requests_total", &[])
    };
    let before = total(&scrape(&gateway));
    for bytes in [
        "nonsense\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
    ] {
        let mut client = gateway.client();
        client.send(bytes);
        let _ = client.try_response();
        client.until_closed();
    }
    let after = total(&scrape(&gateway));
    assert!(after - before >= 3.0, "{before} to {after}");
}

#[test]
fn readiness_of_every_family_is_a_series() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let series = scrape(&gateway);
    for family in FORWARDED {
        assert_eq!(
            sum(&series, "gateway_upstream_ready", &[("family", family)]),
            1.0,
            "{family}"
        );
    }
}
