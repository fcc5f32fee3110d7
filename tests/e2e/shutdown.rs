//! A signal ends the gateway: traffic goes elsewhere first, work in flight is answered, and the exit comes in bounded time.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::client::{Client, Response, request_bytes};
use crate::harness::deployment::Deployment;
use crate::harness::http2::{Http2Client, collect, get};
use crate::harness::process::Gateway;
use crate::harness::recorder::{Answer, Then};
use crate::harness::tunnel::{SWITCHED, UPGRADE, echo};
use crate::harness::{CENTRAL, EXTENSION, PATIENCE, WORKSPACE};

/// A frame that says `hello`.
const HELLO: &[u8] = b"\x81\x05hello";
/// Closes a WebSocket with 1001, "going away".
const GOING_AWAY: &[u8] = b"\x88\x02\x03\xe9";

/// Something that upstreams wait for.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().expect("a gate") = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let shut = self.0.0.lock().expect("a gate");
        let (_open, outcome) = self
            .0
            .1
            .wait_timeout_while(shut, PATIENCE, |open| !*open)
            .expect("a gate");
        assert!(!outcome.timed_out(), "the gate stays shut");
    }
}

/// Begins an answer and ends it when the gate opens.
pub fn half_answer(gate: &Gate) -> Answer {
    let gate = gate.clone();
    Answer::script(move |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")?;
        gate.wait();
        stream.write_all(b"-last")?;
        Ok(Then::KeepOpen)
    })
}

/// A WebSocket that echoes, or a stream of events with one event for now; what the request asks for.
fn endless_answer() -> Answer {
    Answer::script(|request, stream| {
        if request.values("upgrade").is_empty() {
            stream.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            )?;
            stream.write_all(b"9\r\ndata: 1\n\n\r\n")?;
        } else {
            stream.write_all(SWITCHED)?;
        }
        echo(stream)
    })
}

fn refuses(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err()
}

#[track_caller]
fn wait_until_refused(address: SocketAddr) {
    let deadline = Instant::now() + PATIENCE;
    while !refuses(address) {
        assert!(Instant::now() < deadline, "the listener stays open");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[track_caller]
fn assert_draining(response: &Response) {
    assert_eq!(response.status, 503);
    assert_eq!(response.json()["reason"], "draining");
}

/// A request of `WORKSPACE` whose answer never begins.
fn unanswered(deployment: &Deployment, gateway: &Gateway) -> Client {
    deployment.upstream("workspace").answer(Answer::Silence);
    let mut client = gateway.client();
    client.send(request_bytes("GET", WORKSPACE, &[], b""));
    deployment.upstream("workspace").wait_for_requests(1);
    client
}

#[test]
fn traffic_goes_elsewhere_before_anybody_is_turned_away() {
    let deployment = Deployment::new()
        .with_tables("[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nh2c = true")
        .with_tables("[drain]\ndelay = \"1500ms\"\ntimeout = \"6s\"");
    let gateway = deployment.start();
    let (public, admin) = (gateway.public(), gateway.admin());
    let gate = Gate::default();
    deployment.upstream("workspace").answer(half_answer(&gate));
    deployment.upstream("extension").answer(endless_answer());

    let mut idle = gateway.client();
    assert_eq!(idle.request("GET", CENTRAL, &[]).status, 200);
    let mut in_flight = gateway.client();
    in_flight.send(request_bytes("GET", WORKSPACE, &[], b""));
    let mut multiplexed = Http2Client::cleartext(public);
    assert_eq!(multiplexed.get(CENTRAL).status, 200);
    let (open_stream, _) = multiplexed.send(get(WORKSPACE), true);
    deployment.upstream("workspace").wait_for_requests(2);
    let mut websocket = gateway.client();
    websocket.send(request_bytes("GET", EXTENSION, &UPGRADE, b""));
    assert_eq!(websocket.response().status, 101);
    let mut events = gateway.client();
    events.send(request_bytes("GET", EXTENSION, &[("Accept", "text/event-stream")], b""));
    let head_and_event = events.until(b"data: 1\n\n\r\n");
    assert!(head_and_event.starts_with(b"HTTP/1.1 200 "));

    gateway.signal(Signal::SIGTERM);
    gateway.wait_for_output("the drain", |lines| {
        lines.iter().any(|line| line.contains("draining:")).then_some(())
    });
    let mut served = 0;
    // Connections that were refused are the end of the window; whoever got one is served.
    while let Ok(stream) = TcpStream::connect_timeout(&public, Duration::from_secs(1)) {
        let mut client = Client::of(stream);
        let response = client.request("GET", CENTRAL, &[]);
        assert_eq!(response.status, 200);
        assert_eq!(response.value("connection").to_ascii_lowercase(), "close");
        served += 1;
        assert_draining(&gateway.admin_get("/readyz"));
        if let Ok(stream) = TcpStream::connect_timeout(&public, Duration::from_secs(1)) {
            assert_draining(&Client::of(stream).request("GET", "/readyz", &[]));
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    assert!(served >= 3, "only {served} requests in the window");

    // The window is over: only the admin listener answers.
    assert_draining(&gateway.admin_get("/readyz"));
    assert_eq!(gateway.admin_get("/livez").status, 200);
    assert!(
        idle.until_closed().is_empty(),
        "an idle connection is closed without a word"
    );
    websocket.send(HELLO);
    assert_eq!(websocket.exactly(HELLO.len()), HELLO, "a tunnel goes on");
    gate.open();
    assert_eq!(in_flight.response().text(), "first-last");
    in_flight.until_closed();
    let answer = multiplexed.run(collect(open_stream)).expect("the open stream ends");
    assert_eq!(answer.body, b"first-last");
    multiplexed.until_closed().expect("the connection ends in order");

    // Then what has no end is ended.
    assert_eq!(websocket.until_closed(), GOING_AWAY);
    assert!(events.until_closed().is_empty());
    let ended = gateway.wait_for_exit(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "work was broken off: {ended:?}");
    assert!(refuses(admin));
}

#[test]
fn a_client_of_http2_is_told_to_leave_and_loses_no_request() {
    let deployment = Deployment::new()
        .with_tables("[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nh2c = true")
        .with_tables("[drain]\ndelay = \"2s\"");
    let gateway = deployment.start();
    let mut used = Http2Client::cleartext(gateway.public());
    assert_eq!(used.get(CENTRAL).status, 200);
    let mut unused = Http2Client::cleartext(gateway.public());
    gateway.signal(Signal::SIGTERM);
    gateway.wait_for_output("the drain", |lines| {
        lines.iter().any(|line| line.contains("draining:")).then_some(())
    });
    // Requests that are under way with the GOAWAY are served.
    while let Some(answer) = used.try_get(CENTRAL) {
        assert_eq!(answer.expect("an answer").status, 200);
    }
    used.until_closed().expect("GOAWAY without an error");
    // A connection that has not been used is good for one request, and so is a new one.
    assert_eq!(unused.get(CENTRAL).status, 200);
    unused.until_closed().expect("GOAWAY without an error");
    let mut fresh = Http2Client::cleartext(gateway.public());
    assert_eq!(fresh.get(CENTRAL).status, 200);
    fresh.until_closed().expect("GOAWAY without an error");
    let ended = gateway.wait_for_exit(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

#[test]
fn an_idle_gateway_ends_after_its_delay_and_at_a_terminal_at_once() {
    let deployment = Deployment::new();
    for signal in [Signal::SIGTERM, Signal::SIGQUIT] {
        let gateway = deployment.start();
        assert_eq!(gateway.get(CENTRAL).status, 200);
        gateway.signal(signal);
        let ended = gateway.wait_for_exit(PATIENCE);
        assert_eq!(ended.status.code(), Some(0), "{signal}: {ended:?}");
    }
    let deployment = Deployment::new().with_tables("[drain]\ndelay = \"1h\"\ntimeout = \"2h\"");
    let gateway = deployment.start();
    gateway.signal(Signal::SIGINT);
    let ended = gateway.wait_for_exit(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

#[test]
fn an_answer_in_flight_is_completed() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let gate = Gate::default();
    deployment.upstream("workspace").answer(half_answer(&gate));
    let mut client = gateway.client();
    client.send(request_bytes("GET", WORKSPACE, &[], b""));
    deployment.upstream("workspace").wait_for_requests(1);
    gateway.signal(Signal::SIGTERM);
    wait_until_refused(gateway.public());
    gate.open();
    assert_eq!(client.response().text(), "first-last");
    client.until_closed();
    let ended = gateway.wait_for_exit(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

#[test]
fn an_idle_connection_does_not_hold_the_exit() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let mut used = gateway.client();
    assert_eq!(used.request("GET", CENTRAL, &[]).status, 200);
    let mut fresh = gateway.client();
    let mut admin = Client::connect(gateway.admin());
    assert_eq!(admin.request("GET", "/livez", &[]).status, 200);
    gateway.signal(Signal::SIGTERM);
    let ended = gateway.wait_for_exit(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    for client in [&mut used, &mut fresh, &mut admin] {
        assert!(client.until_closed().is_empty());
    }
}

#[test]
fn work_that_never_ends_is_answered_that_it_will_not() {
    let deployment = Deployment::new()
        .with_tables("[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nh2c = true")
        .with_tables("[drain]\ndelay = \"50ms\"\ntimeout = \"500ms\"");
    let gateway = deployment.start();
    let mut client = unanswered(&deployment, &gateway);
    let mut multiplexed = Http2Client::cleartext(gateway.public());
    let (stream, _) = multiplexed.send(get(WORKSPACE), true);
    deployment.upstream("workspace").wait_for_requests(2);
    gateway.signal(Signal::SIGTERM);
    let response = client.response();
    let id = response.assert_refusal(503, "unavailable");
    client.until_closed();
    let answer = multiplexed.run(collect(stream)).expect("an answer");
    answer.assert_refusal(503, "unavailable");
    assert_eq!(gateway.access_record(&id)["refusal"], "unavailable");
    let ended = gateway.wait_for_exit(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
}

#[test]
fn a_second_signal_ends_at_once() {
    for first in [Signal::SIGTERM, Signal::SIGINT] {
        let deployment = Deployment::new().with_tables("[drain]\ndelay = \"1h\"\ntimeout = \"2h\"");
        let gateway = deployment.start();
        let mut client = unanswered(&deployment, &gateway);
        gateway.signal(first);
        gateway.wait_for_output("the first", |lines| {
            lines.iter().any(|line| line.contains("stopping")).then_some(())
        });
        gateway.signal(Signal::SIGTERM);
        client.response().assert_refusal(503, "unavailable");
        let ended = gateway.wait_for_exit(PATIENCE);
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    }
}
