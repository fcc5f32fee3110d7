//! A family with several endpoints: which one a request goes to, and what becomes of it when that one fails.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::client::{Client, request_bytes};
use crate::harness::deployment::{Deployment, probe_keys};
use crate::harness::process::Gateway;
use crate::harness::received::{Received, show};
use crate::harness::recorder::{Answer, Recorder, Then, answer_bytes};
use crate::harness::{CENTRAL, PATIENCE, WORKSPACE};

/// A deployment whose workspace family has these endpoints.
fn behind(endpoints: &[&Recorder], keys: &str) -> Deployment {
    let urls: Vec<String> = endpoints
        .iter()
        .map(|recorder| format!("\"{}\"", recorder.url()))
        .collect();
    let mut deployment = Deployment::new();
    deployment.forget_upstream("workspace");
    deployment.with_tables(&format!("[upstream.workspace]\nurls = [{}]\n{keys}", urls.join(", ")))
}

#[track_caller]
fn ready(gateway: &Gateway) {
    let deadline = Instant::now() + PATIENCE;
    while gateway.admin_get("/readyz/workspace").status != 200 {
        assert!(Instant::now() < deadline, "never ready");
        thread::park_timeout(Duration::from_millis(5));
    }
}

fn post(client: &mut Client, target: &str, body: &[u8]) -> u16 {
    let length = body.len().to_string();
    client.send(request_bytes("POST", target, &[("Content-Length", &length)], body));
    client.response().status
}

fn of_workspace(name: &str) -> String {
    format!("/api/v1/workspaces/{name}/files/x")
}

#[test]
fn endpoints_take_turns_and_one_that_is_down_costs_no_request() {
    let recorders = [Recorder::start(), Recorder::start(), Recorder::start()];
    let [one, two, three] = &recorders;
    let deployment = behind(&[one, two, three], "ready = false\n");
    let gateway = deployment.start();
    for _ in 0..9 {
        assert_eq!(gateway.get(WORKSPACE).status, 200);
    }
    for recorder in &recorders {
        assert_eq!(recorder.requests().len(), 3);
    }
    let [one, two, three] = recorders;
    let before = one.requests().len() + two.requests().len();
    drop(three);
    for index in 0..20 {
        let target = format!("/api/v1/workspaces/w1/files/{index}");
        assert_eq!(post(&mut gateway.client(), &target, b"abc"), 200, "{index}");
    }
    assert_eq!(
        one.requests().len() + two.requests().len(),
        before + 20,
        "each POST once"
    );
}

#[test]
fn each_endpoint_is_probed_and_the_family_is_ready_with_enough_of_them() {
    let recorders = [Recorder::start(), Recorder::start()];
    let [one, two] = &recorders;
    two.answer_probes(Answer::with("503 Service Unavailable", &[], ""));
    let deployment = behind(&[one, two], &probe_keys("20ms"));
    let gateway = deployment.start();
    ready(&gateway);
    let requests = two.requests().len();
    for _ in 0..6 {
        assert_eq!(gateway.get(WORKSPACE).status, 200);
    }
    assert_eq!(two.requests().len(), requests, "one that is not ready takes nothing");
    one.answer_probes(Answer::Close);
    let deadline = Instant::now() + PATIENCE;
    while gateway.admin_get("/readyz/workspace").status == 200 {
        assert!(Instant::now() < deadline, "still ready");
        thread::park_timeout(Duration::from_millis(5));
    }
    gateway.get(WORKSPACE).assert_refusal(503, "unavailable");
    two.answer_probes(Answer::with("200 OK", &[], ""));
    ready(&gateway);
    assert_eq!(gateway.get(WORKSPACE).status, 200);
    assert_eq!(two.requests().len(), requests + 1);

    let deployment = behind(&[one, two], &format!("{}ready_min = 2\n", probe_keys("20ms")));
    let gateway = deployment.start();
    one.wait_for_probes(one.probes() + 2);
    assert_eq!(
        gateway.admin_get("/readyz/workspace").status,
        503,
        "one of two is too few"
    );
    assert_eq!(gateway.get(WORKSPACE).status, 200, "but it takes requests");
}

#[test]
fn a_key_keeps_its_endpoint_and_only_the_keys_of_one_that_leaves_move() {
    let recorders = [Recorder::start(), Recorder::start(), Recorder::start()];
    let [one, two, three] = &recorders;
    let keys = format!("affinity = \"param:workspace\"\n{}", probe_keys("20ms"));
    let deployment = behind(&[one, two, three], &keys);
    let gateway = deployment.start();
    ready(&gateway);
    let ask_all = || {
        for n in 0..60 {
            // The key is the parameter alone, whatever else differs.
            let target = format!("{}?n={}", of_workspace(&format!("w{n}")), n * 7919 % 1_000);
            assert_eq!(gateway.get(&target).status, 200);
        }
    };
    let owners = |recorders: &[&Recorder]| {
        let mut owners: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, recorder) in recorders.iter().enumerate() {
            for target in recorder.targets() {
                let key = target.split('/').nth(4).expect("a workspace").to_owned();
                let found = owners.entry(key).or_default();
                if !found.contains(&index) {
                    found.push(index);
                }
            }
        }
        owners
    };
    ask_all();
    ask_all();
    let before = owners(&[one, two, three]);
    assert_eq!(before.len(), 60);
    assert!(before.values().all(|found| found.len() == 1), "{before:?}");
    for index in 0..3 {
        let part = before.values().filter(|found| found[0] == index).count();
        assert!((8..=34).contains(&part), "{part} of 60 on {index}");
    }
    let probes = three.probes();
    three.answer_probes(Answer::Close);
    three.wait_for_probes(probes + 2);
    ask_all();
    for (key, found) in owners(&[one, two]) {
        let was = before[&key][0];
        assert!(was == 2 || found == [was], "{key} has moved from {was} to {found:?}");
    }
    assert_eq!(
        one.requests().len() + two.requests().len() + three.requests().len(),
        180
    );
}

#[test]
fn a_header_picks_the_endpoint_and_never_the_family() {
    let recorders = [Recorder::start(), Recorder::start()];
    let [one, two] = &recorders;
    let deployment = behind(&[one, two], "affinity = \"header:x-route-workspace\"\nready = false\n");
    let gateway = deployment.start();
    for (target, family) in [(WORKSPACE, "workspace"), (CENTRAL, "central")] {
        for n in 0..8 {
            let value = format!("w{}", n % 2);
            let response = gateway
                .client()
                .request("GET", target, &[("X-Route-Workspace", &value)]);
            assert_eq!(response.status, 200, "{family}");
        }
    }
    assert_eq!(one.requests().len() + two.requests().len(), 8);
    for recorder in &recorders {
        let mut seen: Vec<String> = recorder
            .requests()
            .iter()
            .map(|r| r.value("x-route-workspace"))
            .collect();
        assert!(seen.len().is_multiple_of(4), "each value stays: {seen:?}");
        seen.dedup();
    }
    assert_eq!(deployment.upstream("central").requests().len(), 8);
}

#[test]
fn an_endpoint_that_answers_5xx_in_a_row_is_left_alone_and_comes_back() {
    let recorders = [Recorder::start(), Recorder::start()];
    let [good, bad] = &recorders;
    bad.answer(Answer::with("500 Internal Server Error", &[], "no"));
    let keys = format!(
        "{}ejection = {{ failures = 3, pause = \"300ms\", slow_return = \"1ms\" }}\n",
        probe_keys("20ms")
    );
    let deployment = behind(&[good, bad], &keys);
    let gateway = deployment.start();
    ready(&gateway);
    let mut failed = 0;
    for _ in 0..20 {
        failed += usize::from(gateway.get(WORKSPACE).status == 500);
    }
    assert_eq!(
        failed, 3,
        "an upstream's own answer is relayed until it is one too many"
    );
    assert_eq!(bad.requests().len(), 3);
    bad.answer(Answer::EchoTarget);
    let deadline = Instant::now() + PATIENCE;
    while bad.requests().len() == 3 {
        assert!(Instant::now() < deadline, "it never comes back");
        assert_eq!(gateway.get(WORKSPACE).status, 200);
    }
}

#[test]
fn what_may_be_done_twice_is_sent_again_elsewhere_and_a_post_is_not() {
    let recorders = [Recorder::start(), Recorder::start()];
    let [good, bad] = &recorders;
    bad.answer(Answer::Reset);
    let deployment = behind(&[good, bad], "ready = false\nejection = { failures = 1000 }\n");
    let gateway = deployment.start();
    for n in 0..10 {
        assert_eq!(gateway.get(&of_workspace(&format!("g{n}"))).status, 200);
    }
    let mut refused = 0;
    for n in 0..10 {
        let status = post(&mut gateway.client(), &of_workspace(&format!("p{n}")), b"abc");
        assert!(matches!(status, 200 | 502), "{status}");
        refused += usize::from(status == 502);
    }
    assert_eq!(refused, 5, "every second one went to the endpoint that resets");
    let mut posts: Vec<String> = [good.requests(), bad.requests()]
        .concat()
        .iter()
        .filter(|request| request.method() == "POST")
        .map(|request| show(&request.target()))
        .collect();
    let all = posts.len();
    posts.sort();
    posts.dedup();
    assert_eq!((all, posts.len()), (10, 10), "each POST reached an upstream once");
}

#[test]
fn second_attempts_are_bounded_by_the_budget() {
    let recorders = [Recorder::start(), Recorder::start()];
    let [one, two] = &recorders;
    for recorder in &recorders {
        recorder.answer(Answer::Reset);
    }
    let keys = "ready = false\nejection = { failures = 1000 }\nretry_min = 3\nretry_budget = \"10%\"\n";
    let deployment = behind(&[one, two], keys);
    let gateway = deployment.start();
    for _ in 0..30 {
        gateway.get(WORKSPACE).assert_refusal(502, "upstream_failure");
    }
    let attempts = one.requests().len() + two.requests().len();
    assert!((32..=34).contains(&attempts), "{attempts} attempts for 30 requests");
}

/// What an upstream does to the second request on a kept connection.
#[derive(Clone, Copy, Debug)]
enum Stale {
    CloseUnread,
    CloseUnanswered,
    HalfHead,
}

/// Counts how often each request, known by its target, was received whole.
fn executions(received: &[Received]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in received {
        *counts.entry(show(&request.target())).or_default() += 1;
    }
    counts
}

#[test]
fn a_connection_that_the_upstream_drops_never_runs_a_post_twice() {
    let body = vec![b'x'; 100 * 1024];
    let chunked = [b"19000\r\n".as_slice(), &body, b"\r\n0\r\n\r\n"].concat();
    for stale in [Stale::CloseUnread, Stale::CloseUnanswered, Stale::HalfHead] {
        let deployment = Deployment::new();
        let upstream = deployment.upstream("workspace");
        upstream.answer(Answer::script(move |received, stream| {
            use std::io::Write as _;
            if show(&received.target()).contains("second") {
                return match stale {
                    Stale::CloseUnread => unreachable!("the connection is closed by then"),
                    Stale::CloseUnanswered => Ok(Then::Close),
                    Stale::HalfHead => {
                        stream.write_all(b"HTTP/1.1 200 OK\r\nConte")?;
                        Ok(Then::Reset)
                    }
                };
            }
            stream.write_all(&answer_bytes("200 OK", &[], b"ok"))?;
            match stale {
                // It closes while the gateway may be about to use the connection again.
                Stale::CloseUnread => Ok(Then::Close),
                _ => Ok(Then::KeepOpen),
            }
        }));
        let gateway = deployment.start();
        let length = body.len().to_string();
        for round in 0..10 {
            for (method, fields, bytes) in [
                ("POST", ("Content-Length", length.as_str()), &body),
                ("POST", ("Transfer-Encoding", "chunked"), &chunked),
                ("PATCH", ("Content-Length", length.as_str()), &body),
                ("PUT", ("Content-Length", length.as_str()), &body),
            ] {
                assert_eq!(gateway.get(WORKSPACE).status, 200);
                let name = if matches!(stale, Stale::CloseUnread) {
                    "other"
                } else {
                    "second"
                };
                let target = format!("/api/v1/workspaces/w1/{name}/{round}/{method}/{}", fields.0);
                let mut client = gateway.client();
                client.send(request_bytes(method, &target, &[fields], bytes));
                let response = client.response();
                match response.status {
                    200 => {}
                    502 => {
                        response.assert_refusal(502, "upstream_failure");
                    }
                    status => panic!("{status} for {method} with {stale:?}"),
                }
            }
        }
        let received = upstream.requests();
        for request in received.iter().filter(|request| request.method() != "GET") {
            assert_eq!(request.body.len(), body.len(), "whole or not at all");
        }
        for (target, count) in executions(&received) {
            if target.contains("POST") || target.contains("PATCH") {
                assert_eq!(count, 1, "{target} with {stale:?}");
            } else if target.contains("PUT") {
                assert!(count <= 2, "{target}: {count}");
            }
        }
    }
}

#[test]
fn all_addresses_of_a_name_are_used_and_the_readiness_of_one_is_enough() {
    let recorder = Recorder::start();
    let url = format!("http://localhost:{}", recorder.address().port());
    let deployment = Deployment::new().with_url("workspace", &url).with_only_upstream_keys(
        "workspace",
        &format!("{}resolve_interval = \"50ms\"", probe_keys("20ms")),
    );
    let gateway = deployment.start();
    ready(&gateway);
    for _ in 0..4 {
        assert_eq!(gateway.get(WORKSPACE).status, 200);
    }
    assert_eq!(recorder.requests().len(), 4);
}

#[test]
fn a_name_that_does_not_resolve_is_a_reason_of_its_own() {
    let deployment = Deployment::new()
        .with_url("workspace", "http://central.invalid:8443")
        .with_only_upstream_keys("workspace", &probe_keys("20ms"));
    let gateway = deployment.start();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let response = gateway.admin_get("/readyz/workspace");
        assert_eq!(response.status, 503);
        assert!(!show(&response.raw).contains("invalid") && !show(&response.raw).contains("8443"));
        if response.text().contains("\"dns\"") {
            break;
        }
        assert!(Instant::now() < deadline, "{}", response.text());
        thread::park_timeout(Duration::from_millis(20));
    }
    gateway.get(WORKSPACE).assert_refusal(503, "unavailable");
    let output = gateway.all_output();
    assert!(!output.contains("central.invalid"), "{output}");
}

#[test]
fn two_families_at_one_address_have_states_of_their_own() {
    let recorder = Recorder::start();
    let good = probe_keys("20ms");
    let other = good.replace("/readyz?probe=k9f3", "/elsewhere");
    recorder.answer(Answer::script(|received, stream| {
        use std::io::Write as _;
        let found = !show(&received.target()).contains("elsewhere");
        let status = if found { "200 OK" } else { "404 Not Found" };
        stream.write_all(&answer_bytes(status, &[], b""))?;
        Ok(Then::KeepOpen)
    }));
    let deployment = Deployment::new()
        .with_url("workspace", &recorder.url())
        .with_only_upstream_keys("workspace", &good)
        .with_url("central", &recorder.url())
        .with_only_upstream_keys("central", &other);
    let gateway = deployment.start();
    ready(&gateway);
    let deadline = Instant::now() + PATIENCE;
    while !gateway
        .admin_get("/readyz/central")
        .text()
        .contains("\"reason\":\"status\"")
    {
        assert!(Instant::now() < deadline, "the probe's answer does not show");
        thread::park_timeout(Duration::from_millis(10));
    }
    assert_eq!(gateway.get(WORKSPACE).status, 200);
    gateway.get(CENTRAL).assert_refusal(503, "unavailable");
}
