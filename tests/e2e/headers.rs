//! What the gateway writes, removes and never lets a client decide in the headers of both directions.

use crate::harness::client::{Client, request_bytes};
use crate::harness::deployment::Deployment;
use crate::harness::received::show;
use crate::harness::recorder::Answer;
use crate::harness::{CENTRAL, WORKSPACE};

#[test]
fn the_gateway_writes_the_forwarded_headers_and_a_request_id() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let response = gateway.get(CENTRAL);
    let received = deployment.upstream("central").only_request();
    assert_eq!(received.value("x-forwarded-for"), "127.0.0.1");
    assert_eq!(received.value("x-forwarded-proto"), "http");
    assert_eq!(received.value("x-forwarded-host"), "gateway.test");
    assert_eq!(received.value("host"), "gateway.test");
    let id = received.value("x-request-id");
    assert!(
        id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{id}"
    );
    assert_eq!(response.value("x-request-id"), id, "client and upstream see one id");
    assert_eq!(received.version(), "HTTP/1.1");
    let another = gateway.get(CENTRAL);
    assert_ne!(another.value("x-request-id"), id);
}

#[test]
fn a_strangers_copies_of_gateway_headers_are_replaced() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let forged = [
        ("X-Forwarded-For", "1.1.1.1"),
        ("X-Forwarded-For", "2.2.2.2, 3.3.3.3"),
        ("x-forwarded-proto", "https"),
        ("X-Forwarded-Host", "evil.example"),
        ("X-Request-Id", "forged"),
        ("X-Request-ID", "forged-again"),
        ("Forwarded", "for=1.1.1.1;host=evil.example"),
        ("X-Real-IP", "1.1.1.1"),
        ("X-Forwarded-Port", "1"),
        ("X-Forwarded-Prefix", "/evil"),
        ("X-Forwarded-Server", "evil"),
        ("X-Original-URL", "/api/internal/jobs"),
        ("X-Rewrite-URL", "/api/internal/jobs"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-HTTP-Method", "DELETE"),
        ("X-Method-Override", "DELETE"),
    ];
    assert_eq!(gateway.client().request("GET", CENTRAL, &forged).status, 200);
    let received = deployment.upstream("central").only_request();
    assert_eq!(received.value("x-forwarded-for"), "127.0.0.1");
    assert_eq!(received.value("x-forwarded-proto"), "http");
    assert_eq!(received.value("x-forwarded-host"), "gateway.test");
    assert!(!received.value("x-request-id").contains("forged"));
    let head = show(&received.head);
    for trace in ["1.1.1.1", "2.2.2.2", "evil", "DELETE", "/api/internal", "forged"] {
        assert!(!head.contains(trace), "{trace} has reached the upstream:\n{head}");
    }
}

#[test]
fn a_trusted_proxys_headers_are_kept_and_appended_to() {
    let deployment = Deployment::new().with_tables("[forwarded]\ntrusted = [\"127.0.0.0/8\"]");
    let gateway = deployment.start();
    let sent = [
        ("X-Forwarded-For", "192.0.2.7"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "edge.example"),
        ("X-Request-Id", "edge-4711.a_b"),
    ];
    let response = gateway.client().request("GET", CENTRAL, &sent);
    let received = deployment.upstream("central").only_request();
    assert_eq!(received.value("x-forwarded-for"), "192.0.2.7, 127.0.0.1");
    assert_eq!(received.value("x-forwarded-proto"), "https");
    assert_eq!(received.value("x-forwarded-host"), "edge.example");
    assert_eq!(received.value("x-request-id"), "edge-4711.a_b");
    assert_eq!(response.value("x-request-id"), "edge-4711.a_b");
    // An id that could break a log or a header is replaced even so.
    for id in ["a b", "a\"b", &"x".repeat(200), "é"] {
        let response = gateway.client().request("GET", CENTRAL, &[("X-Request-Id", id)]);
        assert_ne!(response.value("x-request-id"), id);
    }
}

#[test]
fn connection_cannot_take_away_headers_that_others_rely_on() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let sent = [
        (
            "Connection",
            "close, X-Forwarded-For, X-Request-Id, Authorization, Host, Cookie, X-Mine",
        ),
        ("X-Forwarded-For", "1.1.1.1"),
        ("X-Request-Id", "mine"),
        ("Authorization", "Bearer t0ken"),
        ("Cookie", "a=b"),
        ("X-Mine", "hop"),
    ];
    let response = gateway.client().request("GET", CENTRAL, &sent);
    assert_eq!(response.status, 200);
    let received = deployment.upstream("central").only_request();
    assert_eq!(received.value("x-forwarded-for"), "127.0.0.1");
    assert_eq!(received.value("x-request-id"), response.value("x-request-id"));
    assert_eq!(received.value("authorization"), "Bearer t0ken");
    assert_eq!(received.value("cookie"), "a=b");
    assert_eq!(received.value("host"), "gateway.test");
    assert!(
        received.values("x-mine").is_empty(),
        "a header named in Connection ends at this hop"
    );
}

#[test]
fn hop_by_hop_headers_of_a_request_end_here() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let sent = [
        ("Connection", "keep-alive, X-Hop"),
        ("X-Hop", "1"),
        ("Keep-Alive", "timeout=1"),
        ("TE", "trailers, gzip"),
        ("Proxy-Connection", "keep-alive"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA"),
        ("Accept", "text/plain"),
        ("X-End-To-End", "kept"),
    ];
    assert_eq!(gateway.client().request("GET", WORKSPACE, &sent).status, 200);
    let received = deployment.upstream("workspace").only_request();
    for name in [
        "keep-alive",
        "proxy-connection",
        "x-hop",
        "upgrade",
        "http2-settings",
        "transfer-encoding",
    ] {
        assert!(received.values(name).is_empty(), "{name} in\n{}", show(&received.head));
    }
    for te in received.values("te") {
        assert_eq!(te, "trailers");
    }
    for connection in received.values("connection") {
        assert!(!connection.to_ascii_lowercase().contains("x-hop"), "{connection}");
    }
    assert_eq!(received.value("accept"), "text/plain");
    assert_eq!(received.value("x-end-to-end"), "kept");
}

#[test]
fn other_headers_pass_both_ways_as_they_came() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    deployment.upstream("central").answer(Answer::with(
        "201 Created",
        &[
            ("Set-Cookie", "a=1; Path=/"),
            ("Set-Cookie", "b=2; HttpOnly"),
            ("ETag", "\"x\""),
            ("Cache-Control", "no-store"),
            ("X-Upstream-Header", "kept"),
        ],
        "made",
    ));
    let sent = [
        ("Cookie", "s=1"),
        ("X-Twice", "1"),
        ("X-Twice", "2"),
        ("Accept-Encoding", "gzip, br"),
        ("X-Empty", ""),
    ];
    let response = gateway.client().request("GET", CENTRAL, &sent);
    let received = deployment.upstream("central").only_request();
    assert_eq!(received.values("x-twice"), ["1", "2"]);
    assert_eq!(received.value("cookie"), "s=1");
    assert_eq!(received.value("accept-encoding"), "gzip, br");
    assert_eq!(received.value("x-empty"), "");
    assert_eq!(response.status, 201);
    assert_eq!(response.values("set-cookie"), ["a=1; Path=/", "b=2; HttpOnly"]);
    assert_eq!(response.value("etag"), "\"x\"");
    assert_eq!(response.value("cache-control"), "no-store");
    assert_eq!(response.value("x-upstream-header"), "kept");
    assert_eq!(response.text(), "made");
}

#[test]
fn hop_by_hop_headers_of_an_answer_end_here() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    deployment.upstream("central").answer(Answer::with(
        "200 OK",
        &[
            ("Connection", "keep-alive, X-Hop"),
            ("Keep-Alive", "timeout=77"),
            ("X-Hop", "secret"),
            ("Proxy-Connection", "keep-alive"),
            ("X-Kept", "1"),
        ],
        "ok",
    ));
    let response = gateway.get(CENTRAL);
    assert_eq!(response.status, 200);
    for name in ["x-hop", "proxy-connection"] {
        assert!(response.values(name).is_empty(), "{name} in\n{}", show(&response.raw));
    }
    for name in ["connection", "keep-alive"] {
        for value in response.values(name) {
            assert!(!value.contains("X-Hop") && !value.contains("77"), "{name}: {value}");
        }
    }
    assert_eq!(response.value("x-kept"), "1");
}

#[test]
fn an_upstreams_own_address_never_reaches_the_client() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let upstream = deployment.upstream("central");
    let url = upstream.url();
    let link = format!("<{url}/api/v1/users?page=2>; rel=\"next\"");
    let refresh = format!("5; url={url}/x");
    let alternative = format!("h2=\"{}\"", upstream.address());
    let content = format!("{url}/api/v1/users/7");
    upstream.answer(Answer::with(
        "302 Found",
        &[
            ("Location", &format!("{url}/sign-in?next=%2Fa#top")),
            ("Content-Location", &content),
            ("Link", &link),
            ("Refresh", &refresh),
            ("Alt-Svc", &alternative),
        ],
        "",
    ));
    let response = gateway.get(CENTRAL);
    assert_eq!(response.status, 302);
    assert_eq!(response.value("location"), "/sign-in?next=%2Fa#top");
    deployment.assert_names_no_upstream(&response.raw);
}

#[test]
fn a_location_elsewhere_passes_as_it_came() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for location in [
        "https://idp.example/authorize?x=1",
        "/api/v1/users",
        "relative",
        "//cdn.example/x",
    ] {
        deployment
            .upstream("central")
            .answer(Answer::with("302 Found", &[("Location", location)], ""));
        assert_eq!(gateway.get(CENTRAL).value("location"), location);
    }
}

#[test]
fn the_gateway_keeps_connections_as_the_client_asks() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let mut client = gateway.client();
    assert_eq!(client.request("GET", CENTRAL, &[]).status, 200);
    assert_eq!(client.request("GET", CENTRAL, &[("Connection", "close")]).status, 200);
    assert!(client.until_closed().is_empty(), "closed after Connection: close");
    let mut old = gateway.client();
    old.send(format!("GET {CENTRAL} HTTP/1.0\r\nHost: gateway.test\r\n\r\n"));
    assert_eq!(old.response().status, 200);
    assert!(old.until_closed().is_empty(), "HTTP/1.0 closes unless asked otherwise");
    assert_eq!(deployment.upstream("central").requests().len(), 3);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let mut bytes = Vec::new();
    let targets = [CENTRAL, "/wp-login.php", WORKSPACE, "/api/internal/x", CENTRAL];
    for target in targets {
        bytes.extend(request_bytes("GET", target, &[], b""));
    }
    let mut client = gateway.client();
    client.send(bytes);
    let statuses: Vec<u16> = targets.iter().map(|_| client.response().status).collect();
    assert_eq!(statuses, [200, 404, 200, 404, 200]);
    assert_eq!(deployment.traffic().requests, 3);
}

#[test]
fn a_bad_host_is_refused_and_the_connection_closed() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for head in [
        "Host: a\r\nHost: b\r\n",
        "Host: a\r\nHost: a\r\n",
        "",
        "Host: a b\r\n",
        "Host: a/b\r\n",
        "Host: a@b\r\n",
        "Host: a:b\r\n",
        "Host: a,b\r\n",
        "Host : a\r\n",
    ] {
        let before = deployment.traffic();
        let mut client: Client = gateway.client();
        client.send(format!("GET {CENTRAL} HTTP/1.1\r\n{head}\r\n"));
        let response = client.response();
        assert_eq!(response.status, 400, "{head:?}");
        client.until_closed();
        assert_eq!(deployment.traffic(), before, "{head:?}");
    }
}
