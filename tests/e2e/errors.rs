//! Every failure has one answer from a closed set, and no answer names an upstream.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::client::{NoResponse, request_bytes};
use crate::harness::deployment::{Deployment, probe_keys};
use crate::harness::process::Gateway;
use crate::harness::received::show;
use crate::harness::recorder::{Answer, Recorder, Then};
use crate::harness::{CENTRAL, EXTENSION, PATIENCE, WORKSPACE};

/// The URL of a loopback port that refuses connections.
fn refusing_url() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    format!("http://{}", listener.local_addr().expect("its address"))
}

/// Asks until the answer is 200: when the gateway's own state is right again has no event outside of it.
#[track_caller]
fn answers_again(gateway: &Gateway, target: &str) {
    let deadline = Instant::now() + PATIENCE;
    while gateway.get(target).status != 200 {
        assert!(Instant::now() < deadline, "{target} is never answered again");
        thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_refused_connection_is_an_upstream_failure() {
    let deployment = Deployment::new().with_url("workspace", &refusing_url());
    let gateway = deployment.start();
    let response = gateway.get(WORKSPACE);
    response.assert_refusal(502, "upstream_failure");
    deployment.assert_names_no_upstream(&response.raw);
    assert_eq!(gateway.get(CENTRAL).status, 200, "other families are untouched");
}

#[test]
fn an_answer_that_breaks_off_is_an_upstream_failure() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for answer in [
        Answer::Close,
        Answer::Reset,
        Answer::BytesThenClose(b"HTTP/1.1 200 OK\r\nContent-Le".to_vec()),
        Answer::BytesThenClose(b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec()),
        Answer::BytesThenClose(b"\x16\x03\x01\x02\x00\x01\x00".to_vec()),
    ] {
        deployment.upstream("central").answer(answer);
        let response = gateway.client().request("POST", CENTRAL, &[("Content-Length", "0")]);
        response.assert_refusal(502, "upstream_failure");
        deployment.assert_names_no_upstream(&response.raw);
    }
    assert_eq!(
        deployment.upstream("central").requests().len(),
        5,
        "a POST is sent at most once"
    );
    deployment.upstream("central").answer(Answer::EchoTarget);
    assert_eq!(gateway.get(CENTRAL).status, 200);
}

#[test]
fn an_answer_that_breaks_off_inside_its_body_is_never_completed() {
    let deployment =
        Deployment::new().with_upstream_keys("central", "response_timeout = \"300ms\"\nbody_timeout = \"300ms\"");
    let gateway = deployment.start();
    let parts: [&[u8]; 2] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n",
    ];
    for part in parts {
        for answer in [Answer::BytesThenClose(part.to_vec()), Answer::Bytes(part.to_vec())] {
            deployment.upstream("central").answer(answer);
            let mut client = gateway.client();
            client.send(request_bytes("GET", CENTRAL, &[], b""));
            // Not a complete answer, and nothing of the gateway's own inside of it.
            let failure = client
                .try_response()
                .err()
                .unwrap_or_else(|| panic!("completed: {}", show(part)));
            assert!(
                matches!(failure, NoResponse::Truncated(_) | NoResponse::Reset),
                "{failure:?}"
            );
            let rest = show(&client.until_closed());
            assert!(!rest.contains("error"), "{rest}");
        }
    }
    deployment.upstream("central").answer(Answer::EchoTarget);
    assert_eq!(gateway.get(CENTRAL).status, 200);
}

#[test]
fn silence_is_an_upstream_timeout() {
    let deployment = Deployment::new().with_upstream_keys("central", "response_timeout = \"300ms\"");
    let gateway = deployment.start();
    deployment.upstream("central").answer(Answer::Silence);
    let response = gateway.get(CENTRAL);
    response.assert_refusal(504, "upstream_timeout");
    deployment.assert_names_no_upstream(&response.raw);
    assert_eq!(gateway.get(WORKSPACE).status, 200, "other families are untouched");
}

#[test]
fn an_upstreams_own_error_answer_is_relayed() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for status in [
        "400 Bad Request",
        "404 Not Found",
        "500 Internal Server Error",
        "503 Service Unavailable",
    ] {
        deployment
            .upstream("central")
            .answer(Answer::with(status, &[("X-Own", "1")], "the upstream's own"));
        let response = gateway.get(CENTRAL);
        assert!(status.starts_with(&response.status.to_string()));
        assert_eq!(response.text(), "the upstream's own");
        assert_eq!(response.value("x-own"), "1");
    }
}

#[test]
fn a_family_that_is_not_ready_answers_unavailable_for_its_own_requests_alone() {
    let deployment = Deployment::new().with_only_upstream_keys("workspace", &probe_keys("50ms"));
    deployment
        .upstream("workspace")
        .answer_probes(Answer::with("500 Internal Server Error", &[], "db=10.1.2.3"));
    let gateway = deployment.start();
    deployment.upstream("workspace").wait_for_probes(2);
    let response = gateway.get(WORKSPACE);
    response.assert_refusal(503, "unavailable");
    assert!(response.value("retry-after").parse::<u32>().is_ok());
    deployment.assert_names_no_upstream(&response.raw);
    assert!(deployment.upstream("workspace").requests().is_empty());
    assert_eq!(gateway.get(CENTRAL).status, 200);
    assert_eq!(gateway.get(EXTENSION).status, 200);
}

#[test]
fn a_family_that_is_switched_off_keeps_its_paths() {
    let deployment = Deployment::new().with_upstream_keys("extension", "enabled = false");
    let gateway = deployment.start();
    let response = deployment.refused(&gateway, request_bytes("GET", EXTENSION, &[], b""));
    response.assert_refusal(503, "unavailable");
    deployment
        .refused(
            &gateway,
            request_bytes("GET", &format!("{EXTENSION}/github/unknown"), &[], b""),
        )
        .assert_refusal(404, "not_found");
    assert_eq!(gateway.get(WORKSPACE).status, 200);
}

#[test]
fn a_saturated_family_answers_overloaded_at_once_and_recovers() {
    let deployment = Deployment::new().with_upstream_keys("workspace", "in_flight = 1");
    let gateway = deployment.start();
    let (release, released) = mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    deployment
        .upstream("workspace")
        .answer(Answer::script(move |_, stream| {
            let _ = released.lock().expect("the receiver").recv();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")?;
            Ok(Then::KeepOpen)
        }));
    let mut first = gateway.client();
    first.send(request_bytes("GET", WORKSPACE, &[], b""));
    deployment.upstream("workspace").wait_for_requests(1);
    let response = gateway.get(WORKSPACE);
    response.assert_refusal(503, "overloaded");
    assert!(response.value("retry-after").parse::<u32>().is_ok());
    assert_eq!(gateway.get(CENTRAL).status, 200, "other families have their own places");
    assert_eq!(deployment.upstream("workspace").requests().len(), 1);
    release.send(()).expect("the upstream waits");
    assert_eq!(first.response().text(), "late");
    deployment.upstream("workspace").answer(Answer::EchoTarget);
    // The place is given back behind the last byte of the answer.
    answers_again(&gateway, WORKSPACE);
}

#[test]
fn a_client_that_leaves_frees_its_place() {
    let deployment = Deployment::new().with_upstream_keys("workspace", "in_flight = 1");
    let gateway = deployment.start();
    let (gone, left) = mpsc::channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    deployment
        .upstream("workspace")
        .answer(Answer::script(move |_, stream| {
            use std::io::Read as _;
            let mut ignored = [0; 64];
            // The gateway closes this connection when its client has left: that is the event.
            while matches!(stream.read(&mut ignored), Ok(read) if read > 0) {}
            let _ = gone.lock().expect("the sender").send(());
            Ok(Then::Close)
        }));
    let mut first = gateway.client();
    first.send(request_bytes("GET", WORKSPACE, &[], b""));
    deployment.upstream("workspace").wait_for_requests(1);
    drop(first);
    left.recv_timeout(PATIENCE).expect("the upstream's work is cancelled");
    deployment.upstream("workspace").answer(Answer::EchoTarget);
    // The place is given back in the same turn that closes the connection, but by another thread.
    answers_again(&gateway, WORKSPACE);
}

#[test]
fn a_connection_that_the_upstream_has_closed_is_replaced_unseen() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let upstream = deployment.upstream("central");
    let (closed, has_closed) = mpsc::channel();
    let closed = std::sync::Mutex::new(closed);
    upstream.answer(Answer::script(move |received, stream| {
        let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec();
        answer.truncate(answer.len());
        stream.write_all(&answer)?;
        stream.shutdown(std::net::Shutdown::Both)?;
        let _ = closed.lock().expect("the sender").send(received.connection);
        Ok(Then::Close)
    }));
    let mut client = gateway.client();
    for expected in 1..=5 {
        assert_eq!(client.request("POST", CENTRAL, &[("Content-Length", "0")]).status, 200);
        assert_eq!(has_closed.recv_timeout(PATIENCE).expect("closed"), expected);
        // The end of the connection has to reach the gateway's pool.
        thread::yield_now();
    }
    assert_eq!(upstream.requests().len(), 5);
}

#[test]
fn no_log_line_at_info_names_an_upstream() {
    let refusing = refusing_url();
    let deployment = Deployment::new().with_url("workspace", &refusing);
    let gateway = deployment.start();
    deployment.upstream("central").answer(Answer::Close);
    for target in [WORKSPACE, CENTRAL, EXTENSION] {
        let response = gateway.get(target);
        gateway.access_record(response.value("x-request-id"));
    }
    let output = gateway.all_output();
    let names = [
        refusing,
        deployment.upstream("central").url(),
        deployment.upstream("extension").url(),
    ];
    for name in &names {
        let authority = name.trim_start_matches("http://");
        assert!(!output.contains(authority), "{authority} in\n{output}");
    }
}

#[test]
fn an_upstream_that_comes_back_is_used_again() {
    let mut deployment = Deployment::new();
    let gateway = deployment.start();
    assert_eq!(gateway.get(CENTRAL).status, 200);
    let address = deployment.upstream("central").address();
    deployment.stop_upstream("central");
    let response = gateway.get(CENTRAL);
    assert!(matches!(response.status, 502 | 503), "{}", response.status);
    let revived = Recorder::start_at(address);
    answers_again(&gateway, CENTRAL);
    assert!(!revived.requests().is_empty());
}
