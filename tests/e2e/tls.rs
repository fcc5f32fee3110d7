//! TLS on the public listener.

use std::io::{Read as _, Write as _};

use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::harness::deployment::Deployment;
use crate::harness::http2::Http2Client;
use crate::harness::process::Gateway;
use crate::harness::tls::{Authority, TlsConnection, get};
use crate::harness::{UNKNOWN, WORKSPACE};

/// A deployment whose public listener speaks TLS, with these lines in its table.
fn with_tls(lines: &str) -> Deployment {
    Deployment::new().with_tables(&format!(
        "[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n[listen.tls]\nreload_interval = \"50ms\"\n{lines}"
    ))
}

fn shown(stream: &TlsConnection) -> CertificateDer<'static> {
    stream.conn.peer_certificates().expect("a certificate")[0]
        .clone()
        .into_owned()
}

/// The value of a series on the admin listener.
fn series(gateway: &Gateway, line: &str) -> u64 {
    let text = gateway.admin_get("/metrics").text();
    let found = text.lines().find_map(|found| found.strip_prefix(line));
    let value = found.unwrap_or_else(|| panic!("no {line} in\n{text}"));
    value.trim().parse().expect("a number")
}

/// Waits for a series to have grown to this value.
fn wait_for(gateway: &Gateway, line: &str, value: u64) {
    let start = std::time::Instant::now();
    while series(gateway, line) < value {
        assert!(
            start.elapsed() < crate::harness::PATIENCE,
            "{line} does not reach {value}"
        );
        std::thread::yield_now();
    }
}

#[test]
fn requests_over_tls_are_forwarded_and_said_to_be() {
    let authority = Authority::new();
    let deployment = with_tls(&authority.issue("gw", &["gateway.test"]));
    let gateway = deployment.start();
    for client in [authority.client(), authority.client().only_tls12()] {
        let mut stream = client.connect(gateway.public(), "gateway.test").unwrap();
        for _ in 0..2 {
            assert!(get(&mut stream, WORKSPACE).unwrap().starts_with("HTTP/1.1 200"));
        }
        assert!(get(&mut stream, UNKNOWN).unwrap().starts_with("HTTP/1.1 404"));
    }
    let received = deployment.upstream("workspace").requests();
    assert_eq!(received.len(), 4);
    assert!(
        received
            .iter()
            .all(|request| request.value("x-forwarded-proto") == "https")
    );
}

#[test]
fn http2_is_agreed_on_in_the_handshake() {
    let authority = Authority::new();
    let deployment = with_tls(&authority.issue("gw", &["gateway.test"]));
    let gateway = deployment.start();
    let mut client = Http2Client::over_tls(&authority.client(), gateway.public(), "gateway.test");
    let answer = client.get(WORKSPACE);
    assert_eq!((answer.status, answer.body.as_slice()), (200, WORKSPACE.as_bytes()));
    let received = deployment.upstream("workspace").only_request();
    assert_eq!(received.value("x-forwarded-proto"), "https");
    // Nothing in common is no reason to fall back on something else.
    let other = authority.client().offering(&[b"spdy/3"]);
    assert!(other.connect(gateway.public(), "gateway.test").is_err());
    wait_for(
        &gateway,
        "gateway_tls_handshake_failures_total{reason=\"incompatible\"}",
        1,
    );
}

#[test]
fn the_certificate_is_the_one_that_bears_the_host() {
    let authority = Authority::new();
    let default = authority.issue("default", &["gateway.test"]);
    let api = authority.issue("api", &["api.test", "*.api.test"]);
    let deployment = with_tls(&format!("{default}[listen.tls.certificate.api]\n{api}"));
    let gateway = deployment.start();
    for (host, name) in [("gateway.test", "default"), ("api.test", "api"), ("x.api.test", "api")] {
        let stream = authority.client().connect(gateway.public(), host).unwrap();
        assert_eq!(shown(&stream), authority.issued(name), "{host}");
    }
    // A host that no certificate bears is shown the default one, which it refuses.
    assert!(authority.client().connect(gateway.public(), "other.test").is_err());
}

#[test]
fn new_files_serve_new_connections_and_end_none() {
    let authority = Authority::new();
    let deployment = with_tls(&authority.issue("gw", &["gateway.test"]));
    let gateway = deployment.start();
    let client = authority.client();
    let mut kept = client.connect(gateway.public(), "gateway.test").unwrap();
    assert!(get(&mut kept, WORKSPACE).unwrap().starts_with("HTTP/1.1 200"));
    let first = authority.issued("gw");
    authority.issue("gw", &["gateway.test"]);
    // A pair may be seen half written, which is refused; then the whole one is taken.
    wait_for(&gateway, "gateway_tls_reloads_total{result=\"applied\"}", 1);
    let fresh = client.connect(gateway.public(), "gateway.test").unwrap();
    assert_ne!(shown(&fresh), first);
    assert_eq!(shown(&fresh), authority.issued("gw"));
    assert!(get(&mut kept, WORKSPACE).unwrap().starts_with("HTTP/1.1 200"));

    let refused = series(&gateway, "gateway_tls_reloads_total{result=\"refused\"}");
    std::fs::write(authority.files("gw").0, "no certificate").unwrap();
    wait_for(&gateway, "gateway_tls_reloads_total{result=\"refused\"}", refused + 1);
    let still = client.connect(gateway.public(), "gateway.test").unwrap();
    assert_eq!(shown(&still), shown(&fresh));
    assert!(get(&mut kept, WORKSPACE).unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn clients_show_certificates_where_they_must() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let lines = authority.issue("gw", &["gateway.test"]);
    authority.issue("client", &["client.test"]);
    stranger.issue("client", &["client.test"]);
    let ca = authority.file();
    let strange = authority.file().with_file_name("strange.pem");
    for name in ["", "-key"] {
        let suffix = |file: &std::path::Path| file.with_file_name(format!("strange{name}.pem"));
        let (cert, key) = stranger.files("client");
        let from = if name.is_empty() { cert } else { key };
        std::fs::copy(from, suffix(&strange)).unwrap();
    }
    for (auth, without) in [("required", false), ("optional", true)] {
        let deployment = with_tls(&format!(
            "{lines}client_ca = '{}'\nclient_auth = \"{auth}\"\n",
            ca.display()
        ));
        let gateway = deployment.start();
        for (client, expected) in [
            (authority.client(), without),
            (authority.client().showing("client"), true),
            (authority.client().showing("strange"), false),
        ] {
            // With TLS 1.3 the client learns of the refusal in its first read.
            let served = client
                .connect(gateway.public(), "gateway.test")
                .and_then(|mut stream| get(&mut stream, WORKSPACE))
                .is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"));
            assert_eq!(served, expected, "{auth}");
        }
        let failures = if without { 1 } else { 2 };
        let line = "gateway_tls_handshake_failures_total{reason=\"client_certificate\"}";
        wait_for(&gateway, line, failures);
        assert_eq!(deployment.upstream("workspace").requests().len() as u64, 3 - failures);
    }
}

#[test]
fn an_older_version_is_refused_where_it_is_to_be() {
    let authority = Authority::new();
    let lines = authority.issue("gw", &["gateway.test"]);
    let deployment = with_tls(&format!("{lines}min_version = \"1.3\"\n"));
    let gateway = deployment.start();
    let old = authority.client().only_tls12();
    assert!(old.connect(gateway.public(), "gateway.test").is_err());
    assert!(authority.client().connect(gateway.public(), "gateway.test").is_ok());
}

#[test]
fn what_is_not_tls_gets_no_further() {
    let authority = Authority::new();
    let deployment = with_tls(&authority.issue("gw", &["gateway.test"]));
    let gateway = deployment.start();
    let mut plain = std::net::TcpStream::connect(gateway.public()).unwrap();
    plain.set_read_timeout(Some(crate::harness::PATIENCE)).unwrap();
    // In one write: the gateway may have closed the connection before a second one.
    let request = format!("GET {WORKSPACE} HTTP/1.1\r\nHost: gateway.test\r\n\r\n");
    plain.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // An alert, or a reset.
    let _end = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"));
    wait_for(&gateway, "gateway_tls_handshake_failures_total{reason=\"not_tls\"}", 1);
    assert_eq!(deployment.traffic().connections, 0);
}
