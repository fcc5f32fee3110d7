//! Each path goes to its one owner, byte for byte, or to nobody.

use crate::harness::client::request_bytes;
use crate::harness::deployment::Deployment;
use crate::harness::received::show;
use crate::harness::{CENTRAL, EXTENSION, INTERNAL, UNKNOWN, WORKSPACE};

#[test]
fn each_family_receives_its_paths_unchanged() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let extension = |rest: &str| format!("{EXTENSION}{rest}");
    for (family, target) in [
        ("central", CENTRAL.to_owned()),
        ("central", format!("{CENTRAL}?a=1&a=2&b=%2F%zz")),
        ("central", "/api/v1/workspaces".to_owned()),
        ("workspace", WORKSPACE.to_owned()),
        ("workspace", "/api/v1/workspaces/w1".to_owned()),
        ("workspace", "/api/v1/workspaces/w1/agents/a1".to_owned()),
        ("workspace", format!("{WORKSPACE}?x=../..;//")),
        ("extension", extension("")),
        ("extension", extension("?catalog=7")),
        ("extension", extension("/github")),
        ("extension", extension("/github/actions/create-issue")),
        ("extension", extension("/github/actions/create-issue?")),
    ] {
        let response = deployment.passes(&gateway, family, &target);
        assert_eq!(response.text(), target, "the answer is the upstream's");
    }
}

#[test]
fn the_extension_family_is_decided_before_the_workspace_family() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    // Ids may equal keywords: order and claims decide, not the look of a segment.
    for target in [
        "/api/v1/workspaces/ext/agents/ext/runtime/ext",
        "/api/v1/workspaces/runtime/agents/actions/runtime/ext/ext/actions/actions",
        "/api/v1/workspaces/agents/agents/agents/runtime/ext/github",
    ] {
        deployment.passes(&gateway, "extension", target);
    }
    assert!(deployment.upstream("workspace").requests().is_empty());
}

#[test]
fn methods_play_no_part_in_ownership() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let target = format!("{EXTENSION}/github/actions/create-issue");
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "PURGE"] {
        let response = gateway.client().request(method, &target, &[("Content-Length", "0")]);
        assert_eq!(response.status, 200, "{method}");
    }
    assert_eq!(deployment.upstream("extension").targets(), vec![target; 8]);
    let methods: Vec<String> = deployment
        .upstream("extension")
        .requests()
        .iter()
        .map(|r| r.method())
        .collect();
    assert_eq!(
        methods,
        ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "PURGE"]
    );
    for method in ["POST", "DELETE", "HEAD"] {
        let bytes = request_bytes(method, INTERNAL, &[("Content-Length", "0")], b"");
        let mut client = gateway.client();
        client.send(bytes);
        assert_eq!(client.response_to(method).status, 404, "{method}");
    }
    assert_eq!(deployment.traffic().requests, 8);
}

#[test]
fn internal_only_paths_reach_nobody() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for target in [
        INTERNAL,
        "/api/internal/x",
        "/api/internal",
        "/api/internal/",
        "/api/internal/ext",
        "/api/internal/exec/servers/s1/agents/a1/catalog",
        "/api/internal/jobs?next=/api/v1/users/me",
    ] {
        deployment
            .refused(&gateway, request_bytes("GET", target, &[], b""))
            .assert_refusal(404, "not_found");
    }
}

#[test]
fn unknown_paths_reach_nobody() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for target in [
        "/wp-login.php",
        "/.env",
        "/api/v2/users/me",
        "/api",
        "/api/v1",
        "/healthz",
        "/metrics",
        "/contract",
    ] {
        deployment
            .refused(&gateway, request_bytes("GET", target, &[], b""))
            .assert_refusal(404, "not_found");
    }
}

#[test]
fn unknown_descendants_of_the_extension_claim_reach_nobody() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for rest in [
        "/",
        "/github/unknown",
        "/github/",
        "/github/actions",
        "/github/actions/",
        "/github/actions/create-issue/",
        "/github/actions/create-issue/more",
        "/GitHub",
        "/git_hub",
        "/-github",
        "/github/actions/create%20issue",
        "/sales%20eu/actions/run",
        "/github/Actions/create-issue",
    ] {
        let target = format!("{EXTENSION}{rest}");
        deployment
            .refused(&gateway, request_bytes("GET", &target, &[], b""))
            .assert_refusal(404, "not_found");
        deployment
            .refused(
                &gateway,
                request_bytes("POST", &target, &[("Content-Length", "2")], b"{}"),
            )
            .assert_refusal(404, "not_found");
    }
}

#[test]
fn internal_only_and_unknown_answers_are_identical_but_for_the_request_id() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for method in ["GET", "HEAD", "POST"] {
        let answers: Vec<String> = [INTERNAL, UNKNOWN, &format!("{EXTENSION}/github/unknown")]
            .iter()
            .map(|target| {
                let mut client = gateway.client();
                client.send(request_bytes(method, target, &[("Content-Length", "0")], b""));
                let mut response = client.response_to(method);
                assert_eq!(response.status, 404);
                // The date moves on by itself.
                let date = response.values("date").first().map(|date| (*date).to_owned());
                if let Some(date) = date {
                    response.raw = show(&response.raw).replace(&date, "DATE").into_bytes();
                }
                show(&response.without_request_id())
            })
            .collect();
        assert_eq!(answers[0], answers[1], "{method}");
        assert_eq!(answers[0], answers[2], "{method}");
    }
    assert_eq!(deployment.traffic().connections, 0);
}

#[test]
fn a_claim_ends_at_a_segment_boundary() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for target in [
        "/api/internalization/guide",
        "/api/v1/users-archive",
        "/api/v1/workspaces-admin/w1",
    ] {
        deployment
            .refused(&gateway, request_bytes("GET", target, &[], b""))
            .assert_refusal(404, "not_found");
    }
    for target in [
        "/api/v1/workspaces/w1/agents/a1/runtime/extension",
        "/api/v1/workspaces/w1/agents/a1/runtime/extX/d1/actions/run",
        "/api/v1/workspaces/w1/agents/a1/runtime/ext-more",
        "/api/v1/workspaces/w1/agents/a1/runtime",
    ] {
        deployment.passes(&gateway, "workspace", target);
    }
}

#[test]
fn a_miss_under_a_narrow_branch_finds_the_broader_owner() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for target in [
        "/api/v1/workspaces/w1/agents/a1/runtime/status",
        "/api/v1/workspaces/w1/agents/a1/runtime/status/",
        "/api/v1/workspaces/w1/agents/a1/runtime/statusx",
        "/api/v1/workspaces/w1/agents/a1/runtime/logs/2024",
        "/api/v1/workspaces/w1/agents/a1",
        "/api/v1/workspaces/w1/agents/a1/",
        "/api/v1/workspaces/w1/agents",
        "/api/v1/workspaces/w1/runtime/ext/github",
        "/api/v1/workspaces/w1/agents/a1/b/runtime/ext",
    ] {
        deployment.passes(&gateway, "workspace", target);
    }
}

#[test]
fn a_compiled_matcher_keeps_the_order_of_any_contract() {
    // The contract of case P05, with a static route inside the broad family.
    let deployment = Deployment::new().with_contract(
        r#"
version = 1
[[family]]
name = "extension"
claims = ["/w/{ws}/agents/{agent}/runtime/ext/**"]
routes = ["/w/{ws}/agents/{agent}/runtime/ext", "/w/{ws}/agents/{agent}/runtime/ext/{domain}"]
[[family]]
name = "central"
claims = ["/w/{ws}/agents/{agent}/runtime/status", "/"]
[[family]]
name = "workspace"
claims = ["/w/{ws}/**"]
"#,
    );
    let gateway = deployment.start();
    for (family, target) in [
        ("central", "/w/1/agents/2/runtime/status"),
        ("central", "/"),
        ("workspace", "/w/1/agents/2/runtime/statusx"),
        ("workspace", "/w/1"),
        ("workspace", "/w/ext/agents"),
        ("extension", "/w/ext/agents/ext/runtime/ext"),
        ("extension", "/w/1/agents/2/runtime/ext/status"),
        ("extension", "/w/1/agents/2/runtime/ext/sales%20eu"),
    ] {
        deployment.passes(&gateway, family, target);
    }
    // An upstream that drops the last slash would find central's route.
    let target = "/w/1/agents/2/runtime/status/";
    deployment
        .refused(&gateway, request_bytes("GET", target, &[], b""))
        .assert_refusal(400, "ambiguous_path");
    for target in ["/w/1/agents/2/runtime/ext/a/b", "/w/1/agents/2/runtime/ext/", "/w"] {
        deployment
            .refused(&gateway, request_bytes("GET", target, &[], b""))
            .assert_refusal(404, "not_found");
    }
}

#[test]
fn routing_hints_of_a_client_never_choose_the_family() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let hints = [
        ("X-Route-Workspace", "w9"),
        ("X-Original-URL", INTERNAL),
        ("X-Rewrite-URL", EXTENSION),
        ("X-Forwarded-Host", "extension"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-Forwarded-Prefix", "/api/internal"),
    ];
    assert_eq!(gateway.client().request("GET", WORKSPACE, &hints).status, 200);
    let received = deployment.upstream("workspace").only_request();
    assert_eq!(show(&received.target()), WORKSPACE);
    assert_eq!(
        received.value("x-route-workspace"),
        "w9",
        "a hint is the upstream's to judge"
    );
    deployment
        .refused(&gateway, request_bytes("GET", INTERNAL, &hints, b""))
        .assert_refusal(404, "not_found");
    assert_eq!(deployment.traffic().requests, 1);
}

#[test]
fn the_host_plays_no_part_in_routing() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for host in ["gateway.test", "GATEWAY.test:8080", "[::1]:80", "other.example."] {
        let response = gateway.exchange(format!("GET {WORKSPACE} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(response.status, 200, "{host}");
        let received = deployment.upstream("workspace").requests().pop().expect("a request");
        assert_eq!(received.value("host"), host, "the upstream receives the client's Host");
    }
    assert_eq!(deployment.traffic().requests, 4);
}

#[test]
fn the_monolith_takes_all_families_at_one_url() {
    let deployment = Deployment::new();
    let url = deployment.upstream("central").url();
    let deployment = deployment.with_url("workspace", &url).with_url("extension", &url);
    let gateway = deployment.start();
    for target in [CENTRAL, WORKSPACE, EXTENSION] {
        assert_eq!(gateway.get(target).text(), target);
    }
    assert_eq!(
        deployment.upstream("central").targets(),
        [CENTRAL, WORKSPACE, EXTENSION]
    );
    for target in [INTERNAL, UNKNOWN] {
        deployment
            .refused(&gateway, request_bytes("GET", target, &[], b""))
            .assert_refusal(404, "not_found");
    }
}

#[test]
fn one_connection_serves_requests_of_every_family_in_turn() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let mut client = gateway.client();
    for _ in 0..3 {
        for target in [CENTRAL, WORKSPACE, EXTENSION] {
            assert_eq!(client.request("GET", target, &[]).text(), target);
        }
        client.request("GET", INTERNAL, &[]).assert_refusal(404, "not_found");
        client.request("GET", UNKNOWN, &[]).assert_refusal(404, "not_found");
    }
    for (family, target) in [("central", CENTRAL), ("workspace", WORKSPACE), ("extension", EXTENSION)] {
        assert_eq!(deployment.upstream(family).targets(), vec![target; 3]);
        assert!(
            deployment.upstream(family).connections() <= 2,
            "connections to {family} are kept and used again"
        );
    }
}

/// A request that its head decides is answered before the proxy sees it, with the bytes of every other refusal; the
/// connection goes on.
#[test]
fn a_refusal_leaves_its_connection_in_step() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let mut client = gateway.client();
    let mut ahead = Vec::new();
    for (method, target) in [
        ("GET", UNKNOWN),
        ("HEAD", INTERNAL),
        ("GET", WORKSPACE),
        ("GET", INTERNAL),
        ("GET", "/api/v1/orgs/%zz"),
        ("GET", CENTRAL),
    ] {
        ahead.extend(request_bytes(method, target, &[], b""));
    }
    client.send(ahead);
    let early = client.response();
    early.assert_refusal(404, "not_found");
    let head = client.response_to("HEAD");
    assert_eq!((head.status, head.text().as_str()), (404, ""));
    assert_eq!(client.response().text(), WORKSPACE);
    let internal = client.response();
    assert_eq!(internal.without_request_id(), early.without_request_id());
    assert_eq!(client.response().status, 400);
    assert_eq!(client.response().text(), CENTRAL);

    // The proxy answers where the connection is spoken of, and where there is a body.
    let late = gateway
        .client()
        .request("GET", UNKNOWN, &[("Connection", "keep-alive")]);
    assert_eq!(late.without_request_id(), early.without_request_id());
    let late = gateway.client().request("POST", UNKNOWN, &[("Content-Length", "0")]);
    assert_eq!(late.without_request_id(), early.without_request_id());
    let mut leaving = gateway.client();
    let last = leaving.request("GET", UNKNOWN, &[("Connection", "close")]);
    last.assert_refusal(404, "not_found");
    assert!(leaving.until_closed().is_empty());
    assert_eq!(deployment.traffic().requests, 2);
}
