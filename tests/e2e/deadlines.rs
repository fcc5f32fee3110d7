//! How long a request may take, and what becomes of the upstream's work when nobody waits for it any more.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::client::{NoResponse, request_bytes};
use crate::harness::deployment::Deployment;
use crate::harness::recorder::{Answer, Then};
use crate::harness::{PATIENCE, WORKSPACE};

/// Sends this, then this again and again, until the gateway closes the connection, which is told.
fn dripping(start: &'static [u8], drop: &'static [u8]) -> (Answer, mpsc::Receiver<()>) {
    let (closed, told) = mpsc::channel();
    let closed = Mutex::new(closed);
    let answer = Answer::script(move |_, stream| {
        stream.write_all(start)?;
        while !is_closed(stream) && stream.write_all(drop).is_ok() {
            thread::park_timeout(Duration::from_millis(20));
        }
        let _ = closed.lock().expect("the sender").send(());
        Ok(Then::Close)
    });
    (answer, told)
}

/// Whether the peer has closed; nothing is expected from it.
fn is_closed(stream: &mut TcpStream) -> bool {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(1)));
    match stream.read(&mut [0; 16]) {
        Ok(read) => read == 0,
        Err(error) => !matches!(
            error.kind(),
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
        ),
    }
}

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nX-Drip: ";
const BODY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
const EVENTS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn a_request_has_a_whole_time_that_single_bytes_do_not_put_off() {
    let keys = "total_timeout = \"400ms\"\nresponse_timeout = \"300ms\"\nbody_timeout = \"300ms\"\nconnect_timeout = \"300ms\"";
    let deployment = Deployment::new().with_upstream_keys("workspace", keys);
    let gateway = deployment.start();
    let (answer, closed) = dripping(HEAD, b"x");
    deployment.upstream("workspace").answer(answer);
    let began = Instant::now();
    gateway.get(WORKSPACE).assert_refusal(504, "upstream_timeout");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    closed
        .recv_timeout(PATIENCE)
        .expect("the upstream's connection is closed");

    let (answer, closed) = dripping(BODY, b"x");
    deployment.upstream("workspace").answer(answer);
    let mut client = gateway.client();
    client.send(request_bytes("GET", WORKSPACE, &[], b""));
    let failure = client.try_response().expect_err("an answer that breaks off");
    assert!(
        matches!(failure, NoResponse::Truncated(_) | NoResponse::Reset),
        "{failure:?}"
    );
    closed
        .recv_timeout(PATIENCE)
        .expect("the upstream's connection is closed");
}

#[test]
fn a_stream_outlasts_the_whole_time_of_other_requests_and_has_its_own() {
    let keys = "total_timeout = \"300ms\"\nresponse_timeout = \"300ms\"\nbody_timeout = \"100ms\"\nconnect_timeout = \"300ms\"\nstream_total_timeout = \"1500ms\"";
    let deployment = Deployment::new().with_upstream_keys("workspace", keys);
    let gateway = deployment.start();
    let (answer, closed) = dripping(EVENTS, b"1\r\nx\r\n");
    deployment.upstream("workspace").answer(answer);
    let began = Instant::now();
    let mut client = gateway.client();
    client.send(request_bytes("GET", WORKSPACE, &[], b""));
    let failure = client.try_response().expect_err("a stream that is ended");
    assert!(
        matches!(failure, NoResponse::Truncated(_) | NoResponse::Reset),
        "{failure:?}"
    );
    assert!(began.elapsed() >= Duration::from_millis(1_400), "{:?}", began.elapsed());
    closed
        .recv_timeout(PATIENCE)
        .expect("the upstream's connection is closed");
}

#[test]
fn silence_inside_an_answer_and_inside_a_stream_are_two_times() {
    let keys = "body_timeout = \"200ms\"\nstream_timeout = \"900ms\"";
    let deployment = Deployment::new().with_upstream_keys("workspace", keys);
    let gateway = deployment.start();
    for (start, least, most) in [(BODY, 150, 800), (EVENTS, 800, 10_000)] {
        deployment.upstream("workspace").answer(Answer::Bytes(start.to_vec()));
        let began = Instant::now();
        let mut client = gateway.client();
        client.send(request_bytes("GET", WORKSPACE, &[], b""));
        client.try_response().expect_err("an answer that breaks off");
        let took = began.elapsed().as_millis();
        assert!((least..most).contains(&took), "{took} ms");
    }
}

#[test]
fn the_upstreams_work_ends_when_the_client_leaves() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for start in [b"" as &[u8], BODY, EVENTS] {
        let (answer, closed) = dripping(start, b"");
        deployment.upstream("workspace").answer(answer);
        let mut client = gateway.client();
        let seen = deployment.upstream("workspace").requests().len();
        client.send(request_bytes("GET", WORKSPACE, &[], b""));
        deployment.upstream("workspace").wait_for_requests(seen + 1);
        assert!(closed.try_recv().is_err(), "the client still waits");
        drop(client);
        closed
            .recv_timeout(PATIENCE)
            .expect("the upstream's connection is closed");
    }
}
