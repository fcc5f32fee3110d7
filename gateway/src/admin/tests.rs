//! The pages over a real listener.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::config::load_source;
use crate::listen::{Limits, Listener, Phase, PhaseControl, PlainDoor};
use crate::proxy::Generation;
use crate::server::State;
use crate::telemetry::metrics::Metrics;
use crate::upstream::Upstreams;
use route_contract::classify::Classifier;
use route_contract::contract::Contract;
use route_contract::diagnostic::Source;

const CONTRACT: &str = "version = 1\n\
    [[family]]\nname = \"internal-only\"\nserve = \"never\"\nclaims = [\"/api/internal/**\"]\n\
    [[family]]\nname = \"workspace\"\nowner = \"ws-team\"\nclaims = [\"/ws/**\"]\n";

fn state() -> State {
    let contract = Contract::load_with(Path::new("c"), &|_| Ok(Source::new("c", CONTRACT))).unwrap();
    let config = "contract = \"c\"\n[listen]\npublic = \"127.0.0.1:0\"\n[upstream.workspace]\nurl = \
                  \"http://10.11.12.13:8443\"\nready = false\n";
    let loaded = load_source(&Source::new("g", config), Path::new(""), &|_| None).unwrap();
    let config = loaded.config.clone();
    let metrics = Metrics::new().unwrap();
    let classifier = Classifier::new(&contract).unwrap();
    let upstreams = Arc::new(Upstreams::new(&contract, &config).unwrap());
    State {
        draining: Arc::default(),
        generation: Arc::new(ArcSwap::from_pointee(Generation::new(
            1,
            contract,
            classifier,
            upstreams,
            Arc::new(loaded),
            &config,
            &metrics,
        ))),
        metrics: Arc::new(metrics),
        reloads: Arc::default(),
        connections_limit: 10,
    }
}

/// Sends these requests on one connection, the last of which closes it, and returns all that came back.
async fn exchange(address: SocketAddr, requests: &str) -> String {
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(requests.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn ask(address: SocketAddr, method: &str, target: &str) -> (u16, String, String) {
    let request = format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    let answer = exchange(address, &request).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

#[tokio::test]
async fn the_pages_are_served_read_only() {
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr();
    let (phase, phases) = PhaseControl::new(Phase::Serving);
    let admin = Arc::new(Admin::new(state()));
    let serving = tokio::spawn(listener.serve(admin, Arc::new(PlainDoor), Limits::default().fixed(), phases));

    let digest = Contract::load_with(Path::new("c"), &|_| Ok(Source::new("c", CONTRACT)))
        .unwrap()
        .digest();
    for (target, status, body) in [
        ("/livez", 200, r#"{"status":"live"}"#),
        ("/readyz", 200, r#"{"status":"ready"}"#),
        (
            "/readyz/workspace",
            200,
            r#"{"family":"workspace","status":"ready","required":true}"#,
        ),
    ] {
        let (got, head, text) = ask(address, "GET", target).await;
        assert_eq!((got, text.as_str()), (status, body), "{target}");
        assert!(head.contains("cache-control: no-store"), "{head}");
        let (got, head, text) = ask(address, "HEAD", target).await;
        assert_eq!((got, text.as_str()), (status, ""), "{target}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        let (got, head, _) = ask(address, "POST", target).await;
        assert_eq!(got, 405, "{target}");
        assert!(head.contains("allow: get, head"), "{head}");
    }
    let (status, head, text) = ask(address, "GET", "/metrics").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert!(
        text.contains(r#"family="workspace""#) && !text.contains("10.11.12.13"),
        "{text}"
    );
    let (_, _, text) = ask(address, "GET", "/contract").await;
    let contract: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(contract["digest"], digest.as_str());
    assert_eq!(contract["families"][1]["name"], "workspace");
    assert_eq!(contract["families"][1]["owner"], "ws-team");
    assert_eq!(contract["families"][1]["claims"][0], "/ws/**");
    for (target, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/status.css", "text/css; charset=utf-8"),
        ("/status.js", "text/javascript; charset=utf-8"),
        ("/status.json", "application/json"),
        ("/config", "application/json"),
        ("/explain?path=/ws/x", "application/json"),
    ] {
        let (status, head, _) = ask(address, "GET", target).await;
        assert_eq!(status, 200, "{target}");
        for line in [
            &format!("content-type: {content_type}"),
            "cache-control: no-store",
            "content-security-policy: default-src 'none'",
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(head.contains(line), "{target}: no {line} in {head}");
        }
        assert!(
            !head.contains("set-cookie") && !head.contains("access-control"),
            "{head}"
        );
    }
    for target in [
        "/index.html",
        "/readyz/internal-only",
        "/readyz/nobody",
        "/metrics/",
        "/page/status.js",
        "/%72eadyz",
    ] {
        let (got, head, text) = ask(address, "GET", target).await;
        assert_eq!(got, 404, "{target}");
        assert!(text.starts_with(r#"{"error":{"code":"not_found""#), "{text}");
        assert!(head.contains("x-request-id: "), "{head}");
    }

    // A HEAD answer leaves the connection in step for the next request.
    let both = exchange(
        address,
        "HEAD /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert_eq!(both.matches("HTTP/1.1 200").count(), 2, "{both}");
    assert!(both.ends_with(r#"{"status":"live"}"#), "{both}");

    phase.advance(Phase::Closing);
    serving.await.unwrap();
}
