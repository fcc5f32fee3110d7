//! HTTP/2 clients: the same gate, the same answers.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use nix::sys::signal::Signal;

use crate::harness::deployment::Deployment;
use crate::harness::http2::{Http2Client, collect, collect_body, get, head};
use crate::harness::received::show;
use crate::harness::recorder::{Answer, Then};
use crate::harness::{CENTRAL, INTERNAL, PATIENCE, UNKNOWN, WORKSPACE};

/// A deployment that takes HTTP/2 without TLS.
fn with_http2() -> Deployment {
    Deployment::new().with_tables("[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nh2c = true\n")
}

#[test]
fn a_request_reaches_its_family_unchanged_as_one_http1_request() {
    let deployment = with_http2();
    let gateway = deployment.start();
    let mut client = Http2Client::cleartext(gateway.public());
    let target = "/api/v1/workspaces/w1/files/a%2Fb?x=%zz&y=`{}|\\^";
    let request = Request::builder()
        .uri(format!("http://gateway.test:8443{target}"))
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .header("x-forwarded-for", "9.9.9.9")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let answer = client.request(request, b"").unwrap();
    assert_eq!((answer.status, show(&answer.body)), (200, target.to_owned()));
    let received = deployment.upstream("workspace").only_request();
    assert_eq!(show(&received.target()), target);
    assert_eq!(received.version(), "HTTP/1.1");
    assert_eq!(received.value("host"), "gateway.test:8443");
    assert_eq!(received.value("cookie"), "a=1; b=2");
    assert_eq!(received.value("x-forwarded-for"), "127.0.0.1");
    assert_eq!(received.value("x-forwarded-proto"), "http");
    assert_eq!(received.values("te"), [""; 0]);
    assert_eq!(received.values("transfer-encoding"), [""; 0]);
    assert_eq!(received.value("x-request-id"), answer.value("x-request-id"));
}

#[test]
fn http1_and_http2_share_a_listener() {
    let deployment = with_http2();
    let gateway = deployment.start();
    // Shorter than the preface, and beginning like it.
    assert_eq!(
        gateway
            .exchange(format!("PRI {UNKNOWN} HTTP/1.1\r\nHost: a\r\n\r\n"))
            .status,
        404,
        "a method of the client's own"
    );
    assert_eq!(gateway.get(WORKSPACE).status, 200);
    assert_eq!(Http2Client::cleartext(gateway.public()).get(WORKSPACE).status, 200);
    // Piece by piece, too.
    let mut client = gateway.client();
    client.send("P");
    client.send(format!(
        "OST {UNKNOWN} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
    ));
    client.response().assert_refusal(404, "not_found");
}

#[test]
fn without_the_key_http2_is_no_request() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let response = deployment.refused(&gateway, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    response.assert_refusal(400, "invalid_request");
}

#[test]
fn the_gate_is_the_same() {
    let deployment = with_http2();
    let gateway = deployment.start();
    let mut client = Http2Client::cleartext(gateway.public());
    let many = |count: usize| {
        let mut request = get(WORKSPACE);
        for index in 0..count {
            let name = http::HeaderName::from_bytes(format!("x-{index}").as_bytes()).unwrap();
            request.headers_mut().insert(name, "y".parse().unwrap());
        }
        request
    };
    let with = |name: &'static str, value: &str| {
        let mut request = get(WORKSPACE);
        request
            .headers_mut()
            .insert(name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        request
    };
    for (request, status, code) in [
        (get(UNKNOWN), 404, "not_found"),
        (get(INTERNAL), 404, "not_found"),
        (
            get("/api/v1/workspaces/w1/agents/a1/runtime%2Fext"),
            400,
            "ambiguous_path",
        ),
        (get("/api/v1/workspaces/w1/%ff"), 400, "invalid_target"),
        (head("TRACE", WORKSPACE), 405, "method_not_allowed"),
        (
            get(&format!("{WORKSPACE}?{}", "a".repeat(17 * 1024))),
            414,
            "target_too_long",
        ),
        (many(150), 431, "head_too_large"),
        (with("x-large", &"a".repeat(66 * 1024)), 431, "head_too_large"),
        (with("host", "other.test"), 400, "invalid_request"),
    ] {
        let text = format!("{request:?}");
        let answer = client
            .request(request, b"")
            .unwrap_or_else(|error| panic!("{error}: {text}"));
        answer.assert_refusal(status, code);
        assert!(!show(&answer.body).contains("127.0.0.1"));
    }
    assert_eq!(deployment.traffic().connections, 0);
    let metrics = gateway.admin_get("/metrics").text();
    assert!(
        metrics.contains("gateway_malformed_requests_total{fault=\"host\"} 1"),
        "{metrics}"
    );
    assert_eq!(client.get(WORKSPACE).status, 200, "the connection lives on");
}

#[test]
fn bodies_pass_both_ways_and_an_empty_last_frame_ends_one_once() {
    let deployment = with_http2();
    let gateway = deployment.start();
    let large: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    let answer = large.clone();
    deployment
        .upstream("workspace")
        .answer(Answer::script(move |_, stream| {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len())?;
            stream.write_all(&answer)?;
            Ok(Then::KeepOpen)
        }));
    let mut client = Http2Client::cleartext(gateway.public());
    let answer = client.request(head("PUT", WORKSPACE), &large).unwrap();
    assert!(answer.body == large, "{} of {} bytes", answer.body.len(), large.len());
    let received = deployment.upstream("workspace").only_request();
    assert!(received.body == large);
    assert_eq!(received.value("transfer-encoding"), "chunked");
    // What follows on the same upstream connection is the next request, not the rest of a second end.
    for turn in 0..3 {
        let (response, mut stream) = client.send(head("POST", WORKSPACE), false);
        stream.send_data(Bytes::from_static(b"hello"), false).unwrap();
        stream.send_data(Bytes::new(), true).unwrap();
        assert_eq!(client.run(collect(response)).unwrap().status, 200, "turn {turn}");
    }
    let requests = deployment.upstream("workspace").requests();
    assert_eq!(requests.len(), 4);
    assert!(requests.iter().skip(1).all(|request| request.body == b"hello"));
    assert_eq!(deployment.upstream("workspace").connections(), 1);
}

#[test]
fn one_slow_stream_holds_up_no_other() {
    let deployment = with_http2();
    let gateway = deployment.start();
    deployment.upstream("central").answer(Answer::Silence);
    let mut client = Http2Client::cleartext(gateway.public());
    let (_slow, _stream) = client.send(get(CENTRAL), true);
    for _ in 0..20 {
        assert_eq!(client.get(WORKSPACE).status, 200);
    }
}

#[test]
fn a_silent_client_and_a_silent_upstream_have_their_answers() {
    let deployment = with_http2()
        .with_tables("[limits]\nclient_timeout = \"300ms\"\n")
        .with_upstream_keys("central", "response_timeout = \"300ms\"");
    let gateway = deployment.start();
    deployment.upstream("central").answer(Answer::Silence);
    let mut client = Http2Client::cleartext(gateway.public());
    client.get(CENTRAL).assert_refusal(504, "upstream_timeout");
    let (response, mut stream) = client.send(head("POST", WORKSPACE), false);
    stream.send_data(Bytes::from_static(b"part"), false).unwrap();
    let answer = client.run(collect(response)).unwrap();
    answer.assert_refusal(408, "request_timeout");
    assert_eq!(client.get(WORKSPACE).status, 200);
}

#[test]
fn an_answer_that_breaks_off_is_no_whole_one() {
    let deployment = with_http2();
    let gateway = deployment.start();
    let part = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart".to_vec();
    deployment.upstream("workspace").answer(Answer::BytesThenClose(part));
    let mut client = Http2Client::cleartext(gateway.public());
    let (response, _stream) = client.send(get(WORKSPACE), true);
    let broken = client.run(async {
        let mut body = response.await?.into_body();
        collect_body(&mut body).await
    });
    assert!(broken.is_err_and(|error| error.is_reset()));
}

#[test]
fn interim_answers_pass() {
    let deployment = with_http2();
    let gateway = deployment.start();
    let bytes = b"HTTP/1.1 103 Early Hints\r\nX-Hint: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec();
    deployment.upstream("workspace").answer(Answer::Bytes(bytes));
    let mut client = Http2Client::cleartext(gateway.public());
    let (mut response, _stream) = client.send(get(WORKSPACE), true);
    let hint = client.run(std::future::poll_fn(|context| response.poll_informational(context)));
    let hint = hint.expect("an interim answer").unwrap();
    assert_eq!(hint.status(), 103);
    assert_eq!(client.run(collect(response)).unwrap().body, b"ok");
}

#[test]
fn a_stop_lets_open_streams_end() {
    let deployment = with_http2();
    let gateway = deployment.start();
    let (released, release) = std::sync::mpsc::channel::<()>();
    let release = std::sync::Mutex::new(release);
    deployment
        .upstream("workspace")
        .answer(Answer::script(move |_, stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")?;
            let _waited = release.lock().unwrap().recv_timeout(PATIENCE);
            stream.write_all(b"k")?;
            Ok(Then::KeepOpen)
        }));
    let mut client = Http2Client::cleartext(gateway.public());
    let (response, _stream) = client.send(get(WORKSPACE), true);
    let mut body = client.run(response).unwrap().into_body();
    gateway.signal(Signal::SIGTERM);
    gateway.wait_for_output("the stop", |lines| {
        lines.iter().any(|line| line.contains("stopping")).then_some(())
    });
    released.send(()).unwrap();
    assert_eq!(client.run(collect_body(&mut body)).unwrap().0, b"ok");
    client.until_closed().unwrap();
    assert!(gateway.wait_for_exit(Duration::from_secs(5)).status.success());
}
