//! Secrets planted wherever a client can put them are written nowhere: not at any level that anybody runs with, and not
//! where things go wrong.

use crate::harness::client::request_bytes;
use crate::harness::deployment::Deployment;
use crate::harness::process::Gateway;
use crate::harness::recorder::Answer;
use crate::harness::{CENTRAL, EXTENSION, INTERNAL, UNKNOWN, WORKSPACE};

const SECRET: &str = "s3cret";

/// Requests with secrets in headers, cookies, queries, subprotocols, paths' parameters and lines that are no requests.
fn hostile() -> Vec<Vec<u8>> {
    let headers = [
        ("Authorization", "Bearer s3cret-bearer"),
        ("Proxy-Authorization", "Basic s3cret-basic"),
        ("Cookie", "session=s3cret-cookie"),
        ("X-Api-Key", "s3cret-key"),
        ("Referer", "https://example.test/?token=s3cret"),
        ("User-Agent", "s3cret-agent"),
        ("X-Request-Id", "s3cret"),
    ];
    let websocket = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Protocol", "chat, bearer.s3cret-subprotocol"),
    ];
    let mut requests = Vec::new();
    for target in [CENTRAL, WORKSPACE, EXTENSION, INTERNAL, UNKNOWN] {
        requests.push(request_bytes(
            "GET",
            &format!("{target}?token=s3cret&s3cret"),
            &headers,
            b"",
        ));
        requests.push(request_bytes("GET", &format!("{target}?token=s3cret"), &websocket, b""));
        requests.push(request_bytes(
            "GET",
            &format!("{target};jsessionid=s3cret"),
            &headers,
            b"",
        ));
        requests.push(request_bytes("GET", &format!("{target}%3Ftoken=s3cret"), &headers, b""));
        requests.push(request_bytes(
            "GET",
            &format!("http://user:s3cret@gateway.test{target}"),
            &headers,
            b"",
        ));
        requests.push(request_bytes(
            "POST",
            target,
            &[("Content-Length", "14"), ("Cookie", "a=s3cret")],
            b"password=s3cret",
        ));
        requests.push(
            format!("POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\ns3cret\r\n").into_bytes(),
        );
    }
    let lines = [
        "Authorization: Bearer s3cret\r\n\r\n",
        "Cookie: a=s3cret; b=c\r\n\r\n",
        "GET / Authorization: s3cret HTTP/1.1\r\n\r\n",
        "GET /\tCookie:s3cret HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET s3cret HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET user:s3cret@host HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET //user:s3cret@host/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT user:s3cret@host:1 HTTP/1.1\r\nHost: host:1\r\n\r\n",
        "s3cret / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: user:s3cret@a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nCookie s3cret\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n Folded: s3cret\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: s3cret\r\n\r\n",
        "GET / HTTP/9.s3cret\r\nHost: a\r\n\r\n",
    ];
    requests.extend(lines.map(|line| line.as_bytes().to_vec()));
    requests
}

fn send_all(gateway: &Gateway) {
    for bytes in hostile() {
        let mut client = gateway.client();
        let _ = client.send_what_is_taken(bytes);
        client.finish();
        let _ = client.try_response();
    }
}

/// A gateway at this level whose upstreams do everything wrong, with secrets of their own.
fn output_at(level: &str) -> String {
    let deployment = Deployment::new().with_tables(&format!("[log]\nlevel = \"{level}\"\n"));
    let gateway = deployment.start();
    let broken: [&[u8]; 6] = [
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a=s3cret\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 500 s3cret\r\nContent-Length: 6\r\n\r\ns3cret",
        b"HTTP/1.1 200 OK\r\nSet-Cookie s3cret\r\n\r\n",
        b"s3cret s3cret s3cret\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\nX: s3cret\r\n\r\ns3cret",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ns3cret\r\n",
    ];
    for bytes in broken {
        for family in ["central", "workspace", "extension"] {
            deployment
                .upstream(family)
                .answer(Answer::BytesThenClose(bytes.to_vec()));
        }
        send_all(&gateway);
    }
    for answer in [Answer::Close, Answer::Reset] {
        deployment.upstream("central").answer(answer);
        send_all(&gateway);
    }
    let last = gateway.get(UNKNOWN);
    gateway.access_record(last.value("x-request-id"));
    let ended = gateway.terminate();
    format!("{}\n{}", ended.stdout, ended.stderr)
}

#[test]
fn nothing_that_a_client_or_an_upstream_keeps_secret_is_written() {
    for level in ["info", "debug"] {
        let output = output_at(level);
        let found: Vec<&str> = output.lines().filter(|line| line.contains(SECRET)).collect();
        assert!(found.is_empty(), "at {level}: {found:#?}");
        assert!(output.lines().count() > 300, "{output}");
        assert_eq!(
            output.contains("\"log\":\"debug\""),
            level == "debug",
            "a level that writes nothing proves nothing"
        );
    }
}
