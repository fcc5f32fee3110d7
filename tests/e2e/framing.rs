//! One unambiguous message per hop: RFC 9112 sections 6 and 7, and the attacks on them.

use crate::harness::client::{NoResponse, request_bytes};
use crate::harness::deployment::Deployment;
use crate::harness::received::show;
use crate::harness::recorder::Answer;
use crate::harness::{CENTRAL, WORKSPACE};

/// Sends a POST with these header lines and body followed by a hidden request, and asserts that the answer is one
/// of `statuses`, that the connection is closed after it, and that no upstream saw anything.
#[track_caller]
fn refused_and_closed(deployment: &Deployment, line: &str, headers: &str, body: &str) {
    let gateway = deployment.start();
    let hidden = format!("GET {CENTRAL} HTTP/1.1\r\nHost: gateway.test\r\nX-Hidden: 1\r\n\r\n");
    let mut client = gateway.client();
    client.send(format!("{line}\r\nHost: gateway.test\r\n{headers}\r\n{body}{hidden}"));
    let response = client.response();
    assert!(
        matches!(response.status, 400 | 501),
        "{headers:?} was answered\n{}",
        show(&response.raw)
    );
    assert!(client.until_closed().is_empty(), "{headers:?}: more than one answer");
    assert_eq!(
        deployment.traffic().requests,
        0,
        "{headers:?}: {:?}",
        deployment.received()
    );
}

#[test]
fn two_length_signals_are_refused() {
    let deployment = Deployment::new();
    let line = format!("POST {WORKSPACE} HTTP/1.1");
    for (headers, body) in [
        ("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nG"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 6\r\n", "0\r\n\r\nG"),
        ("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"),
        ("Content-Length: 5, 6\r\n", "hello"),
        ("Content-Length: +5\r\n", "hello"),
        ("Content-Length: -5\r\n", "hello"),
        ("Content-Length: 0x5\r\n", "hello"),
        ("Content-Length: 5 5\r\n", "hello"),
        ("Content-Length:\r\n", "hello"),
        ("Content-Length: 99999999999999999999999\r\n", "hello"),
    ] {
        refused_and_closed(&deployment, &line, headers, body);
    }
}

#[test]
fn transfer_codings_other_than_chunked_are_refused() {
    let deployment = Deployment::new();
    let line = format!("POST {WORKSPACE} HTTP/1.1");
    let body = "5\r\nhello\r\n0\r\n\r\n";
    for headers in [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: \r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
    ] {
        refused_and_closed(&deployment, &line, headers, body);
    }
    refused_and_closed(
        &deployment,
        &format!("POST {WORKSPACE} HTTP/1.0"),
        "Transfer-Encoding: chunked\r\n",
        body,
    );
}

#[test]
fn a_malformed_chunk_never_completes_a_request() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for body in [
        "5\nhello\n0\n\n",
        "zz\r\nhello\r\n0\r\n\r\n",
        "-1\r\n",
        "5\r\nhelloXX0\r\n\r\n",
        "ffffffffffffffffff\r\nhello",
    ] {
        let mut client = gateway.client();
        client.send(format!(
            "POST {WORKSPACE} HTTP/1.1\r\nHost: gateway.test\r\nTransfer-Encoding: chunked\r\n\r\n{body}"
        ));
        match client.try_response() {
            Ok(response) => {
                assert_eq!(response.status, 400, "{body:?}");
                client.until_closed();
            }
            Err(NoResponse::Closed | NoResponse::Reset) => {}
            Err(failure) => panic!("{body:?}: {failure:?}"),
        }
        assert_eq!(deployment.traffic().requests, 0, "{body:?}");
    }
}

#[test]
fn bodies_pass_byte_for_byte_in_either_framing() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let body: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    let length = body.len().to_string();
    let mut client = gateway.client();
    client.send(request_bytes("POST", WORKSPACE, &[("Content-Length", &length)], &body));
    assert_eq!(client.response().status, 200);
    client.send(request_bytes(
        "PUT",
        WORKSPACE,
        &[("Transfer-Encoding", "chunked")],
        b"",
    ));
    for part in body.chunks(7_001) {
        client.send(format!("{:x}\r\n", part.len()));
        client.send(part);
        client.send("\r\n");
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.response().status, 200);
    let received = deployment.upstream("workspace").requests();
    assert_eq!(received.len(), 2);
    for request in &received {
        assert!(
            request.body == body,
            "{} bytes of {} arrived",
            request.body.len(),
            body.len()
        );
        assert!(request.values("content-length").is_empty() || request.values("transfer-encoding").is_empty());
    }
}

#[test]
fn trailers_never_become_headers() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let mut client = gateway.client();
    client.send(request_bytes(
        "POST",
        WORKSPACE,
        &[("Transfer-Encoding", "chunked"), ("Trailer", "X-Forwarded-For")],
        b"",
    ));
    client.send("5\r\nhello\r\n0\r\nX-Forwarded-For: 1.1.1.1\r\nContent-Length: 9\r\n\r\n");
    let answered = client.try_response();
    for request in deployment.upstream("workspace").requests() {
        assert_eq!(request.value("x-forwarded-for"), "127.0.0.1");
        assert!(
            !show(&request.body_on_wire).contains("1.1.1.1"),
            "an identity trailer went on"
        );
        assert_eq!(request.body, b"hello");
    }
    if let Ok(response) = answered {
        assert!(matches!(response.status, 200 | 400), "{}", response.status);
    }
}

#[test]
fn an_answer_to_head_has_no_body_whatever_its_length_says() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    deployment.upstream("workspace").answer(Answer::Bytes(
        b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n".to_vec(),
    ));
    let mut client = gateway.client();
    let response = client.request("HEAD", WORKSPACE, &[]);
    assert_eq!(response.status, 200);
    assert_eq!(response.value("content-length"), "1234");
    deployment.upstream("workspace").answer(Answer::EchoTarget);
    assert_eq!(
        client.request("GET", WORKSPACE, &[]).text(),
        WORKSPACE,
        "the next request on the connection works"
    );
}

#[test]
fn answers_without_a_body_leave_the_connection_usable() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let mut client = gateway.client();
    for answer in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n",
    ] {
        deployment
            .upstream("workspace")
            .answer(Answer::Bytes(answer.as_bytes().to_vec()));
        let response = client.request("GET", WORKSPACE, &[]);
        assert!(matches!(response.status, 204 | 304));
        assert!(response.body.is_empty());
        deployment.upstream("workspace").answer(Answer::EchoTarget);
        assert_eq!(client.request("GET", WORKSPACE, &[]).text(), WORKSPACE);
    }
}

#[test]
fn an_http_1_0_client_gets_no_chunks() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    deployment.upstream("workspace").answer(Answer::Bytes(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".to_vec(),
    ));
    let mut client = gateway.client();
    client.send(format!("GET {WORKSPACE} HTTP/1.0\r\nHost: gateway.test\r\n\r\n"));
    let response = client.response();
    assert_eq!(response.status, 200);
    assert!(response.values("transfer-encoding").is_empty());
    assert_eq!(response.text(), "hello");
}

#[test]
fn an_answer_with_two_lengths_is_a_failure_and_its_connection_is_not_used_again() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    deployment.upstream("workspace").answer(Answer::Bytes(
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!".to_vec(),
    ));
    gateway.get(WORKSPACE).assert_refusal(502, "upstream_failure");
    deployment.upstream("workspace").answer(Answer::EchoTarget);
    assert_eq!(gateway.get(WORKSPACE).text(), WORKSPACE);
    let connections: Vec<usize> = deployment
        .upstream("workspace")
        .requests()
        .iter()
        .map(|r| r.connection)
        .collect();
    assert_ne!(connections[0], connections[1]);
}

#[test]
fn a_head_that_is_malformed_is_refused() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for headers in [
        "X A: 1\r\n",
        ": 1\r\n",
        "X-A\r\n",
        "X-A: a\x00b\r\n",
        "X-A: 1\r\n folded\r\n",
        "X-A: a\x01b\r\n",
    ] {
        let before = deployment.traffic();
        let mut client = gateway.client();
        client.send(format!("GET {CENTRAL} HTTP/1.1\r\nHost: gateway.test\r\n{headers}\r\n"));
        if let Ok(response) = client.try_response() {
            assert_eq!(response.status, 400, "{headers:?}");
        }
        assert_eq!(deployment.traffic(), before, "{headers:?}");
    }
}

#[test]
fn a_refusal_with_a_body_pending_is_seen_and_leaves_no_second_request() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let hidden = request_bytes("GET", CENTRAL, &[], b"");
    for target in ["/wp-login.php", "/api/internal/x"] {
        let mut client = gateway.client();
        let length = (hidden.len() + (4 << 20)).to_string();
        client.send(request_bytes("POST", target, &[("Content-Length", &length)], &hidden));
        client.response().assert_refusal(404, "not_found");
        // The rest of the body may be read or not; what stands in it is never a request.
        let _ = client.send_what_is_taken(vec![b'x'; 4 << 20]);
        drop(client);
    }
    assert_eq!(deployment.traffic().connections, 0);
}

#[test]
fn an_interim_answer_passes_before_the_final_one() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    deployment.upstream("workspace").answer(Answer::Bytes(
        b"HTTP/1.1 103 Early Hints\r\nX-Hint: 1\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfinal".to_vec(),
    ));
    let mut client = gateway.client();
    let response = client.request("GET", WORKSPACE, &[]);
    assert_eq!(response.text(), "final");
    assert_eq!(response.interim, [103]);
    deployment.upstream("workspace").answer(Answer::EchoTarget);
    assert_eq!(
        client.request("GET", WORKSPACE, &[]).text(),
        WORKSPACE,
        "the connection works on"
    );
}

#[test]
fn an_answer_that_comes_before_the_end_of_the_upload_reaches_the_client() {
    let early = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\nX-Own: 1\r\n\r\nlarge".to_vec();
    // An upstream that reads on, and one that closes at once.
    for answer in [Answer::Bytes(early.clone()), Answer::BytesThenClose(early.clone())] {
        let deployment = Deployment::new();
        let gateway = deployment.start();
        deployment.upstream("workspace").answer_before_the_body(answer);
        let mut client = gateway.client();
        client.send(request_bytes(
            "PUT",
            WORKSPACE,
            &[("Content-Length", "20000000")],
            &[b'x'; 100_000],
        ));
        let response = client.response();
        assert_eq!(response.status, 413, "{}", show(&response.raw));
        assert_eq!(response.text(), "large");
        // What follows is body, whatever it looks like.
        let _ = client.send_what_is_taken(request_bytes("GET", CENTRAL, &[], b""));
        client.finish();
        client.until_closed();
        assert_eq!(deployment.traffic().requests, 1);
    }
}

#[test]
fn a_client_that_waits_for_100_is_answered() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let expecting = request_bytes(
        "PUT",
        WORKSPACE,
        &[("Content-Length", "5"), ("Expect", "100-continue")],
        b"",
    );
    // Refused before the body: by the upstream, and by the gateway.
    deployment
        .upstream("workspace")
        .answer_before_the_body(Answer::with("401 Unauthorized", &[], "no"));
    assert_eq!(gateway.exchange(&expecting).status, 401);
    gateway
        .exchange(show(&expecting).replace(WORKSPACE, "/wp-login.php"))
        .assert_refusal(404, "not_found");
    // Asked for: the interim answer is the upstream's.
    deployment
        .upstream("workspace")
        .answer_before_the_body(Answer::script(|_, stream| {
            use std::io::{Read as _, Write as _};
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            let mut body = [0; 5];
            stream.read_exact(&mut body)?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")?;
            stream.write_all(&body)?;
            Ok(crate::harness::recorder::Then::Close)
        }));
    let mut client = gateway.client();
    client.send(&expecting);
    assert_eq!(client.interim(), 100);
    client.send("hello");
    assert_eq!(client.response().text(), "hello");
}
