//! A signal ends the gateway: work in flight is answered, the exit is clean and comes in bounded time.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::client::{Client, request_bytes};
use crate::harness::deployment::Deployment;
use crate::harness::recorder::{Answer, Then};
use crate::harness::{CENTRAL, PATIENCE, WORKSPACE};

#[test]
fn an_idle_gateway_ends_at_once() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let deployment = Deployment::new();
        let gateway = deployment.start();
        assert_eq!(gateway.get(CENTRAL).status, 200);
        gateway.signal(signal);
        let ended = gateway.wait_for_exit(Duration::from_secs(5));
        assert_eq!(ended.status.code(), Some(0), "{signal}: {ended:?}");
    }
}

#[test]
fn an_answer_in_flight_is_completed() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    deployment
        .upstream("workspace")
        .answer(Answer::script(move |_, stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")?;
            let _ = released.lock().expect("the receiver").recv();
            stream.write_all(b"-last")?;
            Ok(Then::KeepOpen)
        }));
    let mut client = gateway.client();
    client.send(request_bytes("GET", WORKSPACE, &[], b""));
    deployment.upstream("workspace").wait_for_requests(1);
    let public = gateway.public();
    gateway.signal(Signal::SIGTERM);
    // The listener has closed once a connection is refused: then the signal was taken.
    let deadline = std::time::Instant::now() + PATIENCE;
    while TcpStream::connect_timeout(&public, Duration::from_secs(1)).is_ok() {
        assert!(std::time::Instant::now() < deadline, "the listener stays open");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    release.send(()).expect("the upstream waits");
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
    let ended = gateway.wait_for_exit(Duration::from_secs(8));
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    for client in [&mut used, &mut fresh, &mut admin] {
        assert!(client.until_closed().is_empty());
    }
}

#[test]
fn work_that_never_ends_does_not_hold_the_exit_for_ever() {
    let deployment = Deployment::new();
    deployment.upstream("workspace").answer(Answer::Silence);
    let gateway = deployment.start();
    let mut client = gateway.client();
    client.send(request_bytes("GET", WORKSPACE, &[], b""));
    deployment.upstream("workspace").wait_for_requests(1);
    gateway.signal(Signal::SIGTERM);
    gateway.wait_for_exit(Duration::from_secs(15));
}

#[test]
fn a_second_signal_ends_at_once() {
    let deployment = Deployment::new();
    deployment.upstream("workspace").answer(Answer::Silence);
    let gateway = deployment.start();
    let mut client = gateway.client();
    client.send(request_bytes("GET", WORKSPACE, &[], b""));
    deployment.upstream("workspace").wait_for_requests(1);
    let public = gateway.public();
    gateway.signal(Signal::SIGTERM);
    let deadline = std::time::Instant::now() + PATIENCE;
    while TcpStream::connect_timeout(&public, Duration::from_secs(1)).is_ok() {
        assert!(std::time::Instant::now() < deadline, "the listener stays open");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    gateway.signal(Signal::SIGTERM);
    gateway.wait_for_exit(Duration::from_secs(3));
}
