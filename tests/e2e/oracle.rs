//! The harness itself, without a gateway between its two ends: an oracle that is wrong proves anything.

use crate::harness::client::{Client, NoResponse, request_bytes};
use crate::harness::received::show;
use crate::harness::recorder::{Answer, Recorder, Then};

#[test]
fn the_recorder_keeps_exact_bytes_and_counts_connections() {
    let recorder = Recorder::start();
    let mut client = Client::connect(recorder.address());
    client.send("GET /a%2Fb?x=%zz HTTP/1.1\r\nhOst:  a\r\nX-B: 1\r\n\r\n");
    assert_eq!(client.response().text(), "/a%2Fb?x=%zz");
    let chunked = "3;x=1\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n";
    client.send(request_bytes(
        "POST",
        "/c",
        &[("Transfer-Encoding", "chunked")],
        chunked.as_bytes(),
    ));
    assert_eq!(client.response().status, 200);
    let mut other = Client::connect(recorder.address());
    other.send(request_bytes("PUT", "/d", &[("Content-Length", "4")], b"body"));
    assert_eq!(other.response().status, 200);
    let received = recorder.requests();
    assert_eq!(
        show(&received[0].head),
        "GET /a%2Fb?x=%zz HTTP/1.1\r\nhOst:  a\r\nX-B: 1\r\n"
    );
    assert_eq!(received[0].value("host"), "a");
    assert_eq!(
        (received[1].body.as_slice(), received[1].connection),
        (&b"abcde"[..], 1)
    );
    assert_eq!(show(&received[1].body_on_wire), chunked);
    assert_eq!((received[2].body.as_slice(), received[2].connection), (&b"body"[..], 2));
    assert_eq!(recorder.connections(), 2);
}

#[test]
fn the_client_tells_every_way_in_which_there_is_no_answer() {
    let recorder = Recorder::start();
    let ask = |answer: Answer| {
        recorder.answer(answer);
        let mut client = Client::connect(recorder.address());
        client.send(request_bytes("GET", "/", &[], b""));
        client.try_response()
    };
    let bytes = |text: &str| Answer::BytesThenClose(text.as_bytes().to_vec());
    assert_eq!(ask(Answer::Close).err(), Some(NoResponse::Closed));
    assert_eq!(ask(Answer::Reset).err(), Some(NoResponse::Reset));
    assert!(matches!(ask(bytes("HTTP/1.1 200 O")), Err(NoResponse::Truncated(_))));
    assert!(matches!(
        ask(bytes("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc")),
        Err(NoResponse::Truncated(_))
    ));
    for malformed in [
        "HTTP/1.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
        "HTTP/1.1 200 OK\r\nA B: 1\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ] {
        assert!(
            matches!(ask(bytes(malformed)), Err(NoResponse::Malformed(_))),
            "{malformed:?}"
        );
    }
}

#[test]
fn the_client_reads_every_framing() {
    let recorder = Recorder::start();
    recorder.answer(Answer::script(|received, stream| {
        use std::io::Write as _;
        let answer: &[u8] = match received.target().as_slice() {
            b"/length" => b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            b"/chunks" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",
            b"/head" => b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
            _ => b"HTTP/1.1 200 OK\r\n\r\nabc",
        };
        stream.write_all(answer)?;
        Ok(if received.target() == b"/close" {
            Then::Close
        } else {
            Then::KeepOpen
        })
    }));
    let mut client = Client::connect(recorder.address());
    let response = client.request("GET", "/length", &[]);
    assert_eq!(
        (response.text(), response.interim.clone()),
        ("abc".to_owned(), vec![103])
    );
    assert_eq!(client.request("GET", "/chunks", &[]).text(), "abc");
    assert!(client.request("HEAD", "/head", &[]).body.is_empty());
    assert_eq!(client.request("GET", "/close", &[]).text(), "abc");
    assert_eq!(recorder.targets(), ["/length", "/chunks", "/head", "/close"]);
}
