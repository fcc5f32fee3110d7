//! What a client may send and hold: sizes, numbers and time, each refused with its own answer.

use crate::harness::client::{Client, request_bytes};
use crate::harness::deployment::Deployment;
use crate::harness::{CENTRAL, WORKSPACE};

#[test]
fn a_body_that_says_that_it_is_too_large_is_refused_before_any_contact() {
    let deployment = Deployment::new().with_tables("[limits]\nbody = \"1KiB\"");
    let gateway = deployment.start();
    let bytes = request_bytes("POST", WORKSPACE, &[("Content-Length", "1025")], &[b'x'; 1025]);
    deployment
        .refused(&gateway, bytes)
        .assert_refusal(413, "body_too_large");
    let response = gateway.exchange(request_bytes(
        "POST",
        WORKSPACE,
        &[("Content-Length", "1024")],
        &[b'x'; 1024],
    ));
    assert_eq!(response.status, 200, "the limit itself is allowed");
}

#[test]
fn a_body_that_turns_out_too_large_is_refused_and_never_completed() {
    let deployment = Deployment::new().with_tables("[limits]\nbody = \"1KiB\"");
    let gateway = deployment.start();
    let mut client = gateway.client();
    client.send(request_bytes(
        "POST",
        WORKSPACE,
        &[("Transfer-Encoding", "chunked")],
        b"",
    ));
    let chunk = format!("400\r\n{}\r\n", "x".repeat(0x400));
    let _ = client.send_what_is_taken(&chunk);
    let _ = client.send_what_is_taken(&chunk);
    let _ = client.send_what_is_taken("0\r\n\r\n");
    client.response().assert_refusal(413, "body_too_large");
    assert_eq!(deployment.traffic().requests, 0, "no request was completed");
}

#[test]
fn a_target_that_is_too_long_is_refused() {
    let deployment = Deployment::new().with_tables("[limits]\ntarget = \"1KiB\"");
    let gateway = deployment.start();
    let target = |length: usize| format!("{WORKSPACE}{}", "x".repeat(length - WORKSPACE.len()));
    deployment.passes(&gateway, "workspace", &target(1024));
    for length in [1025, 8_000, 16_000, 60_000] {
        deployment
            .refused(&gateway, request_bytes("GET", &target(length), &[], b""))
            .assert_refusal(414, "target_too_long");
    }
}

#[test]
fn a_target_at_the_edge_of_the_parser_is_refused_without_a_fault() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for length in [65_533, 65_534, 65_535, 65_536, 200_000] {
        let target = format!("/{}", "x".repeat(length - 1));
        let before = deployment.traffic();
        let mut client = gateway.client();
        let _ = client.send_what_is_taken(request_bytes("GET", &target, &[], b""));
        let response = client.response();
        assert!(
            matches!(response.status, 400 | 414 | 431),
            "{length}: {}",
            response.status
        );
        assert_eq!(deployment.traffic(), before);
    }
    assert_eq!(gateway.get(CENTRAL).status, 200);
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let deployment = Deployment::new().with_tables("[limits]\nhead = \"8KiB\"\nheaders = 20");
    let gateway = deployment.start();
    let large = "x".repeat(9_000);
    deployment
        .refused(&gateway, request_bytes("GET", CENTRAL, &[("Cookie", &large)], b""))
        .assert_refusal(431, "head_too_large");
    let many: Vec<(String, &str)> = (0..30).map(|n| (format!("X-{n}"), "1")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    deployment
        .refused(&gateway, request_bytes("GET", CENTRAL, &many, b""))
        .assert_refusal(431, "head_too_large");
    assert_eq!(gateway.client().request("GET", CENTRAL, &many[..10]).status, 200);
}

#[test]
fn a_head_that_does_not_end_is_cut_off() {
    let deployment = Deployment::new().with_tables("[limits]\nhead_timeout = \"400ms\"\nidle_timeout = \"10s\"");
    let gateway = deployment.start();
    for part in [
        "",
        "GET /api",
        &format!("GET {CENTRAL} HTTP/1.1\r\nHost: gateway.test\r\nX-Slow:"),
    ] {
        let mut client = gateway.client();
        client.send(part);
        assert_cut_off(&mut client);
    }
    // A later request on a connection has the same bound.
    let mut client = gateway.client();
    assert_eq!(client.request("GET", CENTRAL, &[]).status, 200);
    client.send("GET /api/v1");
    assert_cut_off(&mut client);
    assert_eq!(deployment.traffic().requests, 1);
}

/// The connection ends, after a 408 or without an answer.
#[track_caller]
fn assert_cut_off(client: &mut Client) {
    if let Ok(response) = client.try_response() {
        assert_eq!(response.status, 408);
        client.until_closed();
    }
}

#[test]
fn a_body_that_stops_coming_is_cut_off() {
    let deployment = Deployment::new().with_tables("[limits]\nclient_timeout = \"400ms\"");
    let gateway = deployment.start();
    let mut client = gateway.client();
    client.send(request_bytes(
        "POST",
        WORKSPACE,
        &[("Content-Length", "100")],
        b"only this",
    ));
    client.response().assert_refusal(408, "request_timeout");
    assert_eq!(deployment.traffic().requests, 0, "no request was completed");
}

#[test]
fn an_idle_connection_is_closed() {
    let deployment = Deployment::new().with_tables("[limits]\nidle_timeout = \"300ms\"");
    let gateway = deployment.start();
    let mut client = gateway.client();
    assert_eq!(client.request("GET", CENTRAL, &[]).status, 200);
    assert!(client.until_closed().is_empty());
}
