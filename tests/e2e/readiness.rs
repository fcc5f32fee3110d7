//! Liveness and readiness on both listeners: true, per family, and without a word about any upstream.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::client::{Client, Response, request_bytes};
use crate::harness::deployment::{Deployment, probe_keys};
use crate::harness::process::Gateway;
use crate::harness::received::show;
use crate::harness::recorder::{Answer, PROBE_TARGET, Recorder};
use crate::harness::{CENTRAL, EXTENSION, PATIENCE, WORKSPACE};

/// Asks the admin listener until the status is there. A probe's outcome has no event outside of the gateway.
#[track_caller]
fn becomes(gateway: &Gateway, target: &str, status: u16) -> Response {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let response = gateway.admin_get(target);
        if response.status == status {
            return response;
        }
        assert!(
            Instant::now() < deadline,
            "{target} never becomes {status}:\n{}",
            show(&response.raw)
        );
        thread::park_timeout(Duration::from_millis(20));
    }
}

/// Every status and body that readiness may have, and nothing that it must not say.
#[track_caller]
fn assert_closed(response: &Response) {
    assert!(matches!(response.status, 200 | 503), "{}", show(&response.raw));
    let text = show(&response.raw);
    for secret in [
        "k9f3",
        "probe=",
        "http://",
        "db=",
        "10.1.2.3",
        "idp",
        "refused by",
        "os error",
        "Connection refused",
    ] {
        assert!(!text.contains(secret), "{secret:?} in\n{text}");
    }
    let words: [&str; 26] = [
        "",
        "status",
        "state",
        "ready",
        "not_ready",
        "reason",
        "families",
        "family",
        "name",
        "required",
        "central",
        "workspace",
        "extension",
        "refused",
        "timeout",
        "tls",
        "dns",
        "status",
        "stale",
        "starting",
        "draining",
        "disabled",
        "live",
        "connect",
        "protocol",
        "reset",
    ];
    let body = show(&response.body);
    for word in body.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
        assert!(
            words.contains(&word) || word == "true" || word == "false",
            "{word:?} in {body}"
        );
    }
}

#[test]
fn both_listeners_answer_liveness_and_readiness() {
    let deployment = Deployment::probed();
    let gateway = deployment.start();
    becomes(&gateway, "/readyz", 200);
    for target in [
        "/livez",
        "/readyz",
        "/readyz?verbose",
        "/readyz/central",
        "/readyz/workspace",
        "/readyz/extension",
    ] {
        for address in [gateway.public(), gateway.admin()] {
            let response = Client::connect(address).request("GET", target, &[("Accept", "application/json")]);
            assert_eq!(response.status, 200, "{target}: {}", show(&response.raw));
            assert_eq!(response.value("content-type"), "application/json");
            assert_eq!(response.value("cache-control"), "no-store");
            response.json();
            deployment.assert_names_no_upstream(&response.raw);
            let head = Client::connect(address).request("HEAD", target, &[]);
            assert_eq!(head.status, 200);
            assert!(head.body.is_empty());
        }
    }
    let verbose = gateway.admin_get("/readyz?verbose").text();
    for family in ["central", "workspace", "extension"] {
        assert!(verbose.contains(family), "{verbose}");
    }
    assert_eq!(deployment.traffic().requests, 0, "readiness is never forwarded");
    for address in [gateway.public(), gateway.admin()] {
        assert_eq!(
            Client::connect(address).request("GET", "/readyz/nobody", &[]).status,
            404
        );
        assert_eq!(
            Client::connect(address)
                .request("GET", "/readyz/internal-only", &[])
                .status,
            404
        );
    }
}

#[test]
fn readiness_includes_the_extension_upstream() {
    let deployment = Deployment::probed();
    deployment
        .upstream("extension")
        .answer_probes(Answer::with("503 Service Unavailable", &[], "no"));
    let gateway = deployment.start();
    becomes(&gateway, "/readyz/central", 200);
    becomes(&gateway, "/readyz/workspace", 200);
    deployment.upstream("extension").wait_for_probes(3);
    for target in ["/readyz", "/readyz/extension"] {
        let response = gateway.admin_get(target);
        assert_eq!(response.status, 503, "{target}");
        assert_closed(&response);
    }
    gateway.get(EXTENSION).assert_refusal(503, "unavailable");
    deployment
        .upstream("extension")
        .answer_probes(Answer::with("204 No Content", &[], ""));
    becomes(&gateway, "/readyz", 200);
    assert_eq!(gateway.get(EXTENSION).status, 200);
}

#[test]
fn nothing_is_ready_before_its_first_probe() {
    let deployment = Deployment::probed();
    for family in ["central", "workspace", "extension"] {
        deployment.upstream(family).answer_probes(Answer::Silence);
    }
    let gateway = deployment.start();
    let response = gateway.admin_get("/readyz?verbose");
    assert_eq!(response.status, 503);
    assert_closed(&response);
    // A path of the contract is never answered as unknown, ready or not.
    gateway.get(CENTRAL).assert_refusal(503, "unavailable");
    assert_eq!(gateway.admin_get("/livez").status, 200);
}

#[test]
fn one_family_that_is_down_takes_nothing_from_the_others() {
    let mut deployment = Deployment::probed();
    let address = deployment.upstream("workspace").address();
    deployment.stop_upstream("workspace");
    let gateway = deployment.start();
    becomes(&gateway, "/readyz/central", 200);
    assert_eq!(gateway.get(CENTRAL).status, 200);
    assert_eq!(gateway.admin_get("/readyz/workspace").status, 503);
    assert_eq!(gateway.admin_get("/readyz").status, 503);
    gateway.get(WORKSPACE).assert_refusal(503, "unavailable");
    let revived = Recorder::start_at(address);
    becomes(&gateway, "/readyz/workspace", 200);
    becomes(&gateway, "/readyz", 200);
    assert_eq!(gateway.get(WORKSPACE).status, 200);
    assert_eq!(revived.targets(), [WORKSPACE]);
    assert_eq!(gateway.admin_get("/livez").status, 200);
}

#[test]
fn a_failing_probe_tells_a_closed_reason_and_nothing_of_the_upstream() {
    let deployment = Deployment::probed();
    let gateway = deployment.start();
    let upstream = deployment.upstream("central");
    for answer in [
        Answer::with("500 Internal Server Error", &[("X-Db", "10.1.2.3")], "db=10.1.2.3"),
        Answer::with("302 Found", &[("Location", "https://idp.int.example/")], ""),
        Answer::with("404 Not Found", &[], "no"),
        Answer::Close,
        Answer::Reset,
        Answer::Silence,
        Answer::BytesThenClose(b"220 mail.int.example ESMTP\r\n\r\n".to_vec()),
    ] {
        upstream.answer_probes(Answer::with("200 OK", &[], ""));
        becomes(&gateway, "/readyz/central", 200);
        upstream.answer_probes(answer);
        becomes(&gateway, "/readyz/central", 503);
        for (address, target) in [
            (gateway.admin(), "/readyz"),
            (gateway.admin(), "/readyz?verbose"),
            (gateway.admin(), "/readyz/central"),
            (gateway.public(), "/readyz"),
            (gateway.public(), "/readyz?verbose"),
            (gateway.public(), "/readyz/central"),
        ] {
            let headers = [("Accept", "application/json"), ("Accept-Language", "de;q=zz, *")];
            let response = Client::connect(address).request("GET", target, &headers);
            assert_closed(&response);
            deployment.assert_names_no_upstream(&response.raw);
        }
    }
    let output = gateway.all_output();
    for secret in [
        "k9f3",
        "10.1.2.3",
        "idp.int",
        "mail.int",
        &upstream.address().to_string(),
    ] {
        assert!(!output.contains(secret), "{secret} in the log");
    }
}

#[test]
fn a_peer_that_accepts_and_never_speaks_is_not_ready() {
    let mute = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let url = format!("http://{}", mute.local_addr().expect("its address"));
    let deployment = Deployment::probed().with_url("central", &url);
    let gateway = deployment.start();
    becomes(&gateway, "/readyz/workspace", 200);
    let response = gateway.admin_get("/readyz/central");
    assert_eq!(response.status, 503);
    assert_closed(&response);
    // The peer takes connections in its queue the whole time.
    drop(mute);
}

#[test]
fn a_peer_that_fails_tls_is_not_ready() {
    let plain = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let url = format!("https://{}", plain.local_addr().expect("its address"));
    thread::spawn(move || {
        while let Ok((mut stream, _)) = plain.accept() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let deployment = Deployment::probed().with_url("central", &url);
    let gateway = deployment.start();
    becomes(&gateway, "/readyz/workspace", 200);
    let deadline = Instant::now() + PATIENCE;
    while !gateway.admin_get("/readyz/central").text().contains("tls") {
        assert!(
            Instant::now() < deadline,
            "{}",
            gateway.admin_get("/readyz/central").text()
        );
        thread::park_timeout(Duration::from_millis(20));
    }
    let response = gateway.get(CENTRAL);
    response.assert_refusal(503, "unavailable");
    deployment.assert_names_no_upstream(&response.raw);
    assert_eq!(gateway.admin_get("/livez").status, 200);
}

#[test]
fn callers_never_cause_a_probe() {
    let deployment = Deployment::new();
    let deployment = ["central", "workspace", "extension"]
        .into_iter()
        .fold(deployment, |d, f| d.with_only_upstream_keys(f, &probe_keys("30s")));
    let gateway = deployment.start();
    becomes(&gateway, "/readyz", 200);
    let mut client = Client::connect(gateway.admin());
    for _ in 0..200 {
        assert_eq!(client.request("GET", "/readyz?verbose", &[]).status, 200);
    }
    for family in ["central", "workspace", "extension"] {
        assert_eq!(deployment.upstream(family).probes(), 1, "{family}");
    }
}

#[test]
fn a_family_that_is_not_required_keeps_out_of_the_verdict() {
    let mut deployment = Deployment::probed().with_upstream_keys("extension", "required = false");
    deployment.stop_upstream("extension");
    let gateway = deployment.start();
    becomes(&gateway, "/readyz", 200);
    assert_eq!(gateway.admin_get("/readyz/extension").status, 503);
}

#[test]
fn a_family_that_is_switched_off_keeps_out_of_the_verdict() {
    let mut deployment = Deployment::probed().with_upstream_keys("extension", "enabled = false");
    deployment.stop_upstream("extension");
    let gateway = deployment.start();
    becomes(&gateway, "/readyz", 200);
    assert_eq!(gateway.admin_get("/readyz/extension").status, 503);
}

#[test]
fn readiness_paths_of_the_public_listener_shadow_nothing_and_are_spelled_one_way() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    deployment.passes(&gateway, "workspace", "/api/v1/workspaces/w1/readyz");
    for target in [
        "/api/v1/../readyz",
        "/%72eadyz",
        "//readyz",
        "/readyz/",
        "/READYZ",
        "/readyz/../api/v1/users/me",
    ] {
        let response = deployment.refused(&gateway, request_bytes("GET", target, &[], b""));
        assert!(matches!(response.status, 400 | 404), "{target}: {}", response.status);
    }
    let response = gateway.exchange(request_bytes("POST", "/readyz", &[("Content-Length", "0")], b""));
    assert!(matches!(response.status, 404 | 405), "{}", response.status);
}

#[test]
fn the_public_listener_answers_no_readiness_unless_it_is_configured() {
    let deployment = Deployment::new().with_tables("[readiness]\n");
    let gateway = deployment.start();
    for target in ["/readyz", "/livez", "/readyz/central", "/metrics"] {
        deployment
            .refused(&gateway, request_bytes("GET", target, &[], b""))
            .assert_refusal(404, "not_found");
    }
    assert_eq!(
        gateway.admin_get("/readyz").status,
        200,
        "never probed, ready until connections fail"
    );
}

/// An upstream of cleartext HTTP/2 whose readiness path answers with the status that is set.
fn cleartext_http2(status: Arc<AtomicU16>) -> (tokio::runtime::Runtime, SocketAddr) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let status = status.clone();
            tokio::spawn(async move {
                let Ok(mut connection) = h2::server::handshake(socket).await else {
                    return;
                };
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let is_probe = request.uri().path_and_query().unwrap().as_str() == PROBE_TARGET;
                    let mut head = http::Response::new(());
                    if is_probe {
                        *head.status_mut() = http::StatusCode::from_u16(status.load(SeqCst)).unwrap();
                    }
                    let mut sender = respond.send_response(head, false).unwrap();
                    sender.send_data(bytes::Bytes::from_static(b"h2c"), true).unwrap();
                }
            });
        }
    });
    (runtime, address)
}

#[test]
fn an_upstream_of_cleartext_http2_is_probed_over_http2() {
    let status = Arc::new(AtomicU16::new(503));
    let (_runtime, address) = cleartext_http2(status.clone());
    let deployment = Deployment::new()
        .with_url("workspace", &format!("h2c://{address}"))
        .with_only_upstream_keys("workspace", &probe_keys("50ms"));
    let gateway = deployment.start();
    let response = becomes(&gateway, "/readyz/workspace", 503);
    assert_closed(&response);
    gateway.get(WORKSPACE).assert_refusal(503, "unavailable");
    status.store(200, SeqCst);
    becomes(&gateway, "/readyz/workspace", 200);
    assert_eq!(gateway.get(WORKSPACE).text(), "h2c");
    status.store(500, SeqCst);
    let response = becomes(&gateway, "/readyz/workspace", 503);
    assert!(response.text().contains("\"status\""), "{}", response.text());
}
