//! Reloads by SIGHUP: all of a configuration or nothing of it, and what stays when it changes.

use std::io::{Read as _, Write as _};

use crate::harness::client::{Client, request_bytes};
use crate::harness::deployment::{Deployment, probe_keys};
use crate::harness::process::Gateway;
use crate::harness::recorder::{Answer, Recorder, Then};
use crate::harness::tunnel::{UPGRADE, echoing_tunnel};
use crate::harness::{CENTRAL, EXTENSION, UNKNOWN, WORKSPACE};

/// The value of a series.
fn metric(gateway: &Gateway, series: &str) -> f64 {
    let text = gateway.admin_get("/metrics").text();
    let line = text.lines().find(|line| line.starts_with(series));
    let line = line.unwrap_or_else(|| panic!("no {series} in\n{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn an_upstream_that_moves_is_followed_and_the_others_keep_their_connections() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for target in [CENTRAL, WORKSPACE] {
        assert_eq!(gateway.get(target).status, 200);
    }
    let elsewhere = Recorder::start();
    let central = deployment.upstream("central").connections();
    let deployment = deployment.with_url("workspace", &elsewhere.url());
    deployment.write();
    assert_eq!(gateway.reload(), "applied");
    for target in [CENTRAL, WORKSPACE] {
        assert_eq!(gateway.get(target).status, 200);
    }
    assert_eq!(elsewhere.targets(), [WORKSPACE]);
    assert_eq!(deployment.upstream("workspace").targets(), [WORKSPACE]);
    assert_eq!(
        deployment.upstream("central").connections(),
        central,
        "the family that is as it was has kept its connection"
    );
    assert_eq!(metric(&gateway, "gateway_generation"), 2.0);
    assert_eq!(metric(&gateway, "gateway_reloads_total{result=\"applied\"}"), 1.0);
    assert_eq!(metric(&gateway, "gateway_reload_last_successful"), 1.0);
    let page = gateway.admin_get("/reload").json();
    assert_eq!(page["generation"], 2);
    assert_eq!(page["last"]["outcome"], "applied");
    assert_eq!(page["last"]["trigger"], "signal");
    assert!(page["lastRefused"].is_null());
}

#[test]
fn the_same_once_more_changes_nothing() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    // Another form of the same, and a file that was written anew.
    for comment in ["", "# a word about it\n"] {
        let path = deployment.write();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{comment}{text}")).unwrap();
        assert_eq!(gateway.reload(), "unchanged");
    }
    assert_eq!(metric(&gateway, "gateway_generation"), 1.0);
    assert_eq!(metric(&gateway, "gateway_reloads_total{result=\"unchanged\"}"), 2.0);
    assert_eq!(gateway.get(CENTRAL).status, 200);
}

#[test]
fn a_file_with_faults_is_refused_whole_and_told_everywhere() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let elsewhere = Recorder::start();
    let secret = "http://user:s3cret@inner-host:81";
    let deployment = deployment
        .with_url("workspace", &elsewhere.url())
        .with_upstream_keys("workspace", "idle_timeout = \"30\"")
        .with_url("extension", secret);
    deployment.write();
    assert_eq!(gateway.reload(), "refused");
    assert_eq!(gateway.get(WORKSPACE).status, 200);
    assert_eq!(deployment.upstream("workspace").targets(), [WORKSPACE]);
    assert!(elsewhere.requests().is_empty(), "nothing of it is in force");
    assert_eq!(metric(&gateway, "gateway_generation"), 1.0);
    assert_eq!(metric(&gateway, "gateway_reloads_total{result=\"refused\"}"), 1.0);
    assert_eq!(metric(&gateway, "gateway_reload_last_successful"), 0.0);
    let answer = gateway.admin_get("/reload");
    let page = answer.json();
    assert_eq!(page["generation"], 1);
    assert_eq!(page["last"]["outcome"], "refused");
    assert_eq!(page["last"], page["lastRefused"]);
    let faults = page["last"]["faults"].as_array().expect("faults");
    let codes: Vec<_> = faults.iter().map(|fault| fault["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["GW0105", "GW0105"], "{page}");
    assert!(faults.iter().all(|fault| {
        let place = fault["place"].as_str().unwrap();
        place.contains("gateway.toml:")
    }));
    for told in [answer.text(), gateway.all_output()] {
        assert!(!told.contains("s3cret") && !told.contains("inner-host"), "{told}");
    }
    // Once it is mended, it is taken over.
    let deployment = deployment.with_only_upstream_keys("workspace", "ready = false");
    let url = deployment.upstream("extension").url();
    let deployment = deployment.with_url("extension", &url);
    deployment.write();
    assert_eq!(gateway.reload(), "applied");
    assert_eq!(gateway.get(WORKSPACE).status, 200);
    assert_eq!(elsewhere.targets(), [WORKSPACE]);
    let page = gateway.admin_get("/reload").json();
    assert_eq!(page["lastRefused"]["outcome"], "refused", "{page}");
}

#[test]
fn what_needs_a_restart_is_named_and_nothing_of_the_reload_is_in_force() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let elsewhere = Recorder::start();
    let deployment = deployment
        .with_url("workspace", &elsewhere.url())
        .with_tables("[listen]\npublic = \"127.0.0.1:1\"\nadmin = \"127.0.0.1:0\"\n[limits]\nconnections = 77");
    deployment.write();
    assert_eq!(gateway.reload(), "refused");
    assert_eq!(gateway.get(WORKSPACE).status, 200);
    assert!(elsewhere.requests().is_empty());
    let page = gateway.admin_get("/reload").json();
    let texts: Vec<_> = page["last"]["faults"].as_array().unwrap().iter().collect();
    assert_eq!(texts.len(), 2, "{page}");
    for (fault, key) in texts.iter().zip(["`limits.connections`", "`listen.public`"]) {
        assert_eq!(fault["code"], "GW0301");
        assert!(fault["message"].as_str().unwrap().starts_with(key), "{page}");
    }
}

#[test]
fn limits_and_readiness_paths_follow_a_reload() {
    let deployment = Deployment::new().with_tables("[limits]\nbody = \"10B\"\ntarget = \"1KiB\"");
    let gateway = deployment.start();
    let post = |length: usize| {
        gateway.exchange(request_bytes(
            "POST",
            CENTRAL,
            &[("Content-Length", &length.to_string())],
            &vec![b'x'; length],
        ))
    };
    let long = format!("{CENTRAL}?{}", "q".repeat(2_000));
    assert_eq!(post(11).status, 413);
    assert_eq!(gateway.get(&long).status, 414);
    assert_eq!(gateway.get("/readyz").status, 200);
    let path = deployment.write();
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text
        .replace("10B", "11B")
        .replace("1KiB", "4KiB")
        .replace("\"/readyz\"", "\"/another\"");
    std::fs::write(&path, text).unwrap();
    assert_eq!(gateway.reload(), "applied");
    assert_eq!(post(11).status, 200);
    assert_eq!(post(12).status, 413);
    assert_eq!(gateway.get(&long).status, 200);
    gateway.get("/readyz").assert_refusal(404, "not_found");
    assert_eq!(gateway.get("/another").status, 200);
}

#[test]
fn families_may_move_within_a_contract_come_and_go() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let mut kept: Vec<Client> = Vec::new();
    for target in [CENTRAL, WORKSPACE, EXTENSION] {
        let mut client = gateway.client();
        assert_eq!(client.request("GET", target, &[]).status, 200);
        kept.push(client);
    }
    let family = |name: &str, claim: &str| format!("[[family]]\nname = \"{name}\"\nclaims = [\"{claim}\"]\n");
    let central = family("central", "/api/v1/users/**");
    let workspace = family("workspace", "/api/v1/workspaces/{workspace}/files/**");
    let added = family("added", "/added/**");
    let elsewhere = Recorder::start();
    let contract = format!("version = 1\n{added}{workspace}{central}");
    let mut deployment = deployment.with_contract(&contract);
    deployment.forget_upstream("extension");
    let deployment = deployment.with_tables(&format!("[upstream.added]\nurl = '{}'\nready = false", elsewhere.url()));
    deployment.write();
    assert_eq!(gateway.reload(), "applied");
    // On connections that were there before, too.
    let statuses: Vec<u16> = [CENTRAL, WORKSPACE, EXTENSION]
        .iter()
        .zip(&mut kept)
        .map(|(target, client)| client.request("GET", target, &[]).status)
        .collect();
    assert_eq!(statuses, [200, 200, 404]);
    assert_eq!(gateway.get("/added/x").status, 200);
    assert_eq!(elsewhere.targets(), ["/added/x"]);
    assert_eq!(deployment.upstream("central").targets(), [CENTRAL, CENTRAL]);
    assert_eq!(deployment.upstream("workspace").targets(), [WORKSPACE, WORKSPACE]);
    assert_eq!(deployment.upstream("extension").targets(), [EXTENSION]);
    // One connection for the two requests of each: the pool is the family's, wherever it stands.
    for family in ["central", "workspace"] {
        assert_eq!(deployment.upstream(family).connections(), 1, "{family}");
    }
    let metrics = gateway.admin_get("/metrics").text();
    assert!(
        !metrics.contains("gateway_requests_in_flight{family=\"extension\"}"),
        "{metrics}"
    );
    assert!(
        metrics.contains("gateway_requests_in_flight{family=\"added\"}"),
        "{metrics}"
    );
}

#[test]
fn tunnels_and_answers_in_flight_end_in_the_generation_that_they_began_in() {
    let deployment = Deployment::new();
    deployment.upstream("workspace").answer(echoing_tunnel());
    deployment.upstream("central").answer(Answer::script(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")?;
        let mut ignored = [0; 1];
        let _peer_has_sent = stream.read(&mut ignored)?;
        Ok(Then::Close)
    }));
    let gateway = deployment.start();
    let mut tunnel = gateway.client();
    tunnel.send(request_bytes("GET", WORKSPACE, &UPGRADE, b""));
    assert_eq!(tunnel.response().status, 101);
    let in_flight = "gateway_requests_in_flight{family=\"workspace\"}";
    assert_eq!(metric(&gateway, in_flight), 1.0);
    // The family moves, and may have one request in flight: the tunnel is that one.
    let elsewhere = Recorder::start();
    let deployment = deployment
        .with_url("workspace", &elsewhere.url())
        .with_upstream_keys("workspace", "in_flight = 1");
    deployment.write();
    assert_eq!(gateway.reload(), "applied");
    assert_eq!(metric(&gateway, in_flight), 1.0);
    tunnel.send(b"hello");
    assert_eq!(tunnel.exactly(5), b"hello");
    gateway.get(WORKSPACE).assert_refusal(503, "overloaded");
    tunnel.finish();
    tunnel.until_closed();
    let deadline = std::time::Instant::now() + crate::harness::PATIENCE;
    while metric(&gateway, in_flight) > 0.0 {
        assert!(std::time::Instant::now() < deadline, "the place does not come back");
    }
    assert_eq!(gateway.get(WORKSPACE).status, 200);
    assert_eq!(elsewhere.targets(), [WORKSPACE]);
}

#[test]
fn endpoints_that_stay_keep_their_health_and_new_ones_are_probed_before_they_are_asked() {
    let deployment = Deployment::probed();
    let gateway = deployment.start();
    let ready = |verdict: u16| {
        let deadline = std::time::Instant::now() + crate::harness::PATIENCE;
        while gateway.get("/readyz").status != verdict {
            assert!(std::time::Instant::now() < deadline, "never {verdict}");
        }
    };
    ready(200);
    // One family's endpoint goes down; the others are as they were.
    deployment
        .upstream("extension")
        .answer_probes(Answer::with("500 No", &[], ""));
    ready(503);
    let elsewhere = Recorder::start();
    let deployment = deployment
        .with_url("workspace", &elsewhere.url())
        .with_upstream_keys("central", "idle_timeout = \"7s\"")
        .with_upstream_keys("extension", "idle_timeout = \"7s\"");
    deployment.write();
    assert_eq!(gateway.reload(), "applied");
    let states = gateway.get("/readyz?verbose").json();
    assert_eq!(elsewhere.probes().min(1), 1, "probed before it is asked");
    for (family, status, reason) in [
        ("central", "ready", serde_json::Value::Null),
        ("workspace", "ready", serde_json::Value::Null),
        ("extension", "not_ready", "status".into()),
    ] {
        let families = states["families"].as_array().unwrap();
        let state = families.iter().find(|state| state["family"] == family).unwrap();
        assert_eq!(
            (&state["status"], &state["reason"]),
            (&status.into(), &reason),
            "{states}"
        );
    }
    assert_eq!(gateway.get(WORKSPACE).status, 200);
    assert_eq!(gateway.get(CENTRAL).status, 200);
    gateway.get(EXTENSION).assert_refusal(503, "unavailable");
    // The probes go on, with the new generation's upstreams, and no more go to one that is gone.
    deployment
        .upstream("extension")
        .answer_probes(Answer::with("200 OK", &[], ""));
    ready(200);
    let gone = deployment.upstream("workspace").probes();
    elsewhere.wait_for_probes(elsewhere.probes() + 4);
    assert!(deployment.upstream("workspace").probes() <= gone + 1);
}

#[test]
fn a_family_is_switched_off_and_on() {
    let deployment = Deployment::probed();
    let gateway = deployment.start();
    let wait = |status: u16| {
        let deadline = std::time::Instant::now() + crate::harness::PATIENCE;
        while gateway.get(WORKSPACE).status != status {
            assert!(std::time::Instant::now() < deadline, "never {status}");
        }
    };
    wait(200);
    let keys = probe_keys("50ms");
    let deployment = deployment.with_only_upstream_keys("workspace", &format!("{keys}enabled = false"));
    deployment.write();
    assert_eq!(gateway.reload(), "applied");
    gateway.get(WORKSPACE).assert_refusal(503, "unavailable");
    let deployment = deployment.with_only_upstream_keys("workspace", &keys);
    deployment.write();
    assert_eq!(gateway.reload(), "applied");
    assert_eq!(gateway.get(WORKSPACE).status, 200);
    gateway.get(UNKNOWN).assert_refusal(404, "not_found");
}
