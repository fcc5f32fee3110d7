//! Families at their limits: who waits, who is refused, and that nobody else notices.

use std::io::{Read as _, Write as _};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::client::request_bytes;
use crate::harness::deployment::{Deployment, probe_keys};
use crate::harness::process::Gateway;
use crate::harness::recorder::{Answer, Then, answer_bytes};
use crate::harness::{CENTRAL, EXTENSION, PATIENCE, WORKSPACE};

/// An upstream that answers each request when it is told to.
fn held_back() -> (Answer, mpsc::Sender<()>) {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let answer = Answer::script(move |_, stream| {
        let _ = released.lock().expect("the receiver").recv();
        stream.write_all(&answer_bytes("200 OK", &[], b"late"))?;
        Ok(Then::KeepOpen)
    });
    (answer, release)
}

/// The value of a series.
fn gauge(gateway: &Gateway, series: &str) -> f64 {
    let text = gateway.admin_get("/metrics").text();
    let line = text.lines().find(|line| line.starts_with(series));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("no {series} in\n{text}"))
}

#[track_caller]
fn becomes(gateway: &Gateway, series: &str, value: f64) {
    let deadline = Instant::now() + PATIENCE;
    while gauge(gateway, series) != value {
        assert!(Instant::now() < deadline, "{series} is {}", gauge(gateway, series));
        thread::park_timeout(Duration::from_millis(5));
    }
}

const IN_FLIGHT: &str = "gateway_requests_in_flight{family=\"workspace\"}";
const WAITING: &str = "gateway_requests_queued{family=\"workspace\"}";

#[test]
fn a_queue_takes_a_few_for_a_while_and_refuses_the_rest_at_once() {
    let keys = "in_flight = 1\nqueue = 1\nqueue_timeout = \"15s\"";
    let deployment = Deployment::new().with_upstream_keys("workspace", keys);
    let (answer, release) = held_back();
    deployment.upstream("workspace").answer(answer);
    let gateway = deployment.start();
    let mut first = gateway.client();
    first.send(request_bytes("GET", WORKSPACE, &[], b""));
    deployment.upstream("workspace").wait_for_requests(1);
    let mut second = gateway.client();
    second.send(request_bytes("GET", WORKSPACE, &[], b""));
    becomes(&gateway, WAITING, 1.0);
    let began = Instant::now();
    let third = gateway.get(WORKSPACE);
    third.assert_refusal(503, "overloaded");
    assert!(third.value("retry-after").parse::<u32>().is_ok());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(deployment.upstream("workspace").requests().len(), 1);
    release.send(()).expect("the upstream waits");
    assert_eq!(first.response().text(), "late");
    deployment.upstream("workspace").wait_for_requests(2);
    release.send(()).expect("the upstream waits");
    assert_eq!(second.response().text(), "late");
    becomes(&gateway, IN_FLIGHT, 0.0);
    becomes(&gateway, WAITING, 0.0);
}

#[test]
fn who_waits_for_too_long_is_refused() {
    let keys = "in_flight = 1\nqueue = 5\nqueue_timeout = \"100ms\"";
    let deployment = Deployment::new().with_upstream_keys("workspace", keys);
    deployment.upstream("workspace").answer(Answer::Silence);
    let gateway = deployment.start();
    let mut first = gateway.client();
    first.send(request_bytes("GET", WORKSPACE, &[], b""));
    deployment.upstream("workspace").wait_for_requests(1);
    gateway.get(WORKSPACE).assert_refusal(503, "overloaded");
    drop(first);
    becomes(&gateway, IN_FLIGHT, 0.0);
}

#[test]
fn the_gateway_has_a_limit_over_all_families() {
    let deployment = Deployment::new().with_tables("[limits]\nin_flight = 2");
    deployment.upstream("workspace").answer(Answer::Silence);
    let gateway = deployment.start();
    let held: Vec<_> = (1..=2)
        .map(|count| {
            let mut client = gateway.client();
            client.send(request_bytes("GET", WORKSPACE, &[], b""));
            deployment.upstream("workspace").wait_for_requests(count);
            client
        })
        .collect();
    gateway.get(CENTRAL).assert_refusal(503, "overloaded");
    assert_eq!(gateway.admin_get("/readyz").status, 200);
    drop(held);
    becomes(&gateway, IN_FLIGHT, 0.0);
    assert_eq!(gateway.get(CENTRAL).status, 200);
}

#[test]
fn a_body_that_drips_is_cut_off_and_its_place_is_free() {
    let deployment = Deployment::new().with_tables("[limits]\nclient_timeout = \"500ms\"\nmin_rate = \"1KiB\"");
    let gateway = deployment.start();
    for (fields, piece) in [
        (("Content-Length", "100000"), &b"x"[..]),
        (("Transfer-Encoding", "chunked"), b"1\r\nx\r\n"),
    ] {
        let mut client = gateway.client();
        client.send(request_bytes("POST", WORKSPACE, &[fields], b""));
        let began = Instant::now();
        while client.send_what_is_taken(piece).is_ok() && began.elapsed() < Duration::from_secs(3) {
            thread::park_timeout(Duration::from_millis(50));
        }
        // Each byte comes well within the time for silence, and all of them are far below the rate.
        if let Ok(response) = client.try_response() {
            response.assert_refusal(408, "request_timeout");
        }
        becomes(&gateway, IN_FLIGHT, 0.0);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
    assert!(
        deployment.upstream("workspace").requests().is_empty(),
        "never a whole request"
    );
}

#[test]
fn a_client_that_reads_too_slowly_is_cut_off_and_the_upstream_is_not_kept() {
    let deployment = Deployment::new().with_tables("[limits]\nclient_timeout = \"500ms\"\nmin_rate = \"100KiB\"");
    let (ended, end) = mpsc::channel::<usize>();
    let ended = Mutex::new(ended);
    deployment
        .upstream("workspace")
        .answer(Answer::script(move |_, stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")?;
            let mut sent = 0;
            while stream.write_all(&[b'x'; 65_536]).is_ok() {
                sent += 65_536;
            }
            let _ = ended.lock().expect("the sender").send(sent);
            Ok(Then::Close)
        }));
    let gateway = deployment.start();
    let mut client = gateway.client();
    client.send(request_bytes("GET", WORKSPACE, &[], b""));
    let sent = end.recv_timeout(PATIENCE).expect("the upstream's connection ends");
    // What fits into the sockets' buffers on the way, and nothing that the gateway gathers.
    assert!(sent < 64 * 1024 * 1024, "{sent} bytes");
    becomes(&gateway, IN_FLIGHT, 0.0);
    drop(client);
}

#[test]
fn a_compressed_body_is_opaque() {
    // Not valid in any coding: whoever looked inside would fail.
    let body = b"\x1f\x8b\x08\x00not really gzip at all".repeat(1_000);
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let length = body.len().to_string();
    let fields = [("Content-Encoding", "gzip"), ("Content-Length", &*length)];
    let response = gateway.exchange(request_bytes("POST", WORKSPACE, &fields, &body));
    assert_eq!(response.status, 200);
    assert_eq!(deployment.upstream("workspace").only_request().body, body);
}

#[test]
fn a_request_that_its_upstream_resets_leaves_the_family_as_it_was() {
    let deployment = Deployment::probed();
    deployment
        .upstream("workspace")
        .answer(Answer::script(|received, stream| {
            if received.head.len() > 8 * 1024 {
                return Ok(Then::Reset);
            }
            stream.write_all(&answer_bytes("200 OK", &[], b"ok"))?;
            Ok(Then::KeepOpen)
        }));
    let gateway = deployment.start();
    let deadline = Instant::now() + PATIENCE;
    while gateway.admin_get("/readyz").status != 200 {
        assert!(Instant::now() < deadline, "never ready");
        thread::park_timeout(Duration::from_millis(10));
    }
    let cookie = "c".repeat(10 * 1024);
    for _ in 0..30 {
        let long = gateway.client().request("GET", WORKSPACE, &[("Cookie", &cookie)]);
        long.assert_refusal(502, "upstream_failure");
        assert_eq!(gateway.get(WORKSPACE).status, 200);
        assert_eq!(gateway.admin_get("/readyz/workspace").status, 200);
    }
}

#[test]
fn readiness_is_answered_while_all_connections_for_traffic_are_taken() {
    let deployment = Deployment::new()
        .with_tables("[limits]\nconnections = 20")
        .with_only_upstream_keys("workspace", &probe_keys("20ms"));
    deployment.upstream("workspace").answer(Answer::Silence);
    let gateway = deployment.start();
    let held: Vec<_> = (1..=20)
        .map(|count| {
            let mut client = gateway.client();
            client.send(request_bytes("GET", WORKSPACE, &[], b""));
            deployment.upstream("workspace").wait_for_requests(count);
            client
        })
        .collect();
    let mut next = gateway.client();
    next.send(request_bytes("GET", CENTRAL, &[], b""));
    let probes = deployment.upstream("workspace").probes();
    deployment.upstream("workspace").wait_for_probes(probes + 3);
    assert_eq!(gateway.admin_get("/readyz/workspace").status, 200);
    assert_eq!(gateway.admin_get("/livez").status, 200);
    drop(held);
    assert_eq!(
        next.response().status,
        200,
        "it has waited in the queue for a connection"
    );
}

#[test]
fn one_client_network_has_no_more_connections_than_it_may() {
    let deployment = Deployment::new().with_tables("[limits]\nconnections_per_network = 3");
    let gateway = deployment.start();
    let mut held: Vec<_> = (0..3).map(|_| gateway.client()).collect();
    for client in &mut held {
        assert_eq!(client.request("GET", CENTRAL, &[]).status, 200);
    }
    let mut next = gateway.client();
    let _ = next.send_what_is_taken(request_bytes("GET", CENTRAL, &[], b""));
    assert_eq!(next.until_closed(), b"", "closed without an answer");
    becomes(&gateway, "gateway_connections_rejected_total", 1.0);
    held.truncate(2);
    becomes(&gateway, "gateway_connections ", 2.0);
    assert_eq!(gateway.get(CENTRAL).status, 200);
}

#[test]
fn a_hanging_family_leaves_the_others_their_places_and_comes_back() {
    let deployment = Deployment::new().with_upstream_keys("workspace", "in_flight = 40");
    let (closed, all_closed) = mpsc::channel::<()>();
    let closed = Mutex::new(closed);
    deployment
        .upstream("workspace")
        .answer(Answer::script(move |_, stream| {
            while matches!(stream.read(&mut [0; 64]), Ok(read) if read > 0) {}
            let _ = closed.lock().expect("the sender").send(());
            Ok(Then::Close)
        }));
    let gateway = deployment.start();
    let mut held = Vec::new();
    for count in 1..=40 {
        let mut client = gateway.client();
        client.send(request_bytes("GET", WORKSPACE, &[], b""));
        deployment.upstream("workspace").wait_for_requests(count);
        held.push(client);
    }
    for _ in 0..20 {
        gateway.get(WORKSPACE).assert_refusal(503, "overloaded");
        assert_eq!(gateway.get(CENTRAL).status, 200);
        assert_eq!(gateway.get(EXTENSION).status, 200);
        assert_eq!(gateway.admin_get("/readyz").status, 200);
    }
    assert_eq!(deployment.upstream("workspace").requests().len(), 40);
    drop(held);
    for _ in 0..40 {
        all_closed.recv_timeout(PATIENCE).expect("the upstream's work ends");
    }
    deployment.upstream("workspace").answer(Answer::EchoTarget);
    becomes(&gateway, IN_FLIGHT, 0.0);
    assert_eq!(gateway.get(WORKSPACE).status, 200);
}
