//! Attempts and their limits, with a whole gateway in front of upstreams that misbehave. What an upstream was made to
//! do is counted at the upstream.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::admin::Admin;
use crate::config::Deployment;
use crate::server::{Plan, Server};

const CONTRACT: &str = "version = 1\n[[family]]\nname = \"a\"\nclaims = [\"/a/**\"]\n[profile.a]\nowns = [\"a\"]\nroutes = \
                        [\"a.toml\"]\n";
const PROFILE: &str = "[[route]]\nmethod = \"*\"\npath = \"/a/**\"\n";

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// What an upstream does with one request.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Answers 200 and keeps the connection.
    Answer,
    /// Closes with a reset, without a byte.
    Reset,
    /// Sends the beginning of a head and closes with a reset.
    HalfHead,
    /// Sends a head byte by byte, for ever.
    Drip,
    /// Sends these bytes and keeps the connection.
    Send(&'static [u8]),
}

/// An upstream that follows a list, and then answers.
#[derive(Clone)]
struct Upstream {
    address: SocketAddr,
    acts: Arc<Mutex<VecDeque<Act>>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    async fn start(acts: &[Act]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Self {
            address: listener.local_addr().unwrap(),
            acts: Arc::new(Mutex::new(acts.iter().copied().collect())),
            seen: Arc::default(),
        };
        let shared = upstream.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(shared.clone().serve(socket));
            }
        });
        upstream
    }

    async fn serve(self, mut socket: TcpStream) {
        let mut input = Vec::new();
        loop {
            let request = loop {
                if let Some(end) = whole_request(&input) {
                    break input.drain(..end).collect::<Vec<_>>();
                }
                if !matches!(socket.read_buf(&mut input).await, Ok(read) if read > 0) {
                    return;
                }
            };
            self.seen.lock().unwrap().push(String::from_utf8(request).unwrap());
            let act = self.acts.lock().unwrap().pop_front().unwrap_or(Act::Answer);
            let sent = match act {
                Act::Answer => socket.write_all(OK).await,
                Act::Send(bytes) => socket.write_all(bytes).await,
                Act::Reset => return socket.set_zero_linger().unwrap(),
                Act::HalfHead => {
                    let sent = socket.write_all(b"HTTP/1.1 200 OK\r\nConte").await;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    socket.set_zero_linger().unwrap();
                    return sent.unwrap();
                }
                Act::Drip => {
                    for byte in b"HTTP/1.1 200 OK\r\nX: ".iter().chain(std::iter::repeat(&b'y')) {
                        if socket.write_all(&[*byte]).await.is_err() {
                            return;
                        }
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    return;
                }
            };
            if sent.is_err() {
                return;
            }
        }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// The length of the request at the start of `input`, when it is all there.
fn whole_request(input: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(input).unwrap();
    let head = text.find("\r\n\r\n")? + 4;
    let length = text[..head]
        .to_ascii_lowercase()
        .split_once("content-length: ")
        .map_or(0, |(_, rest)| {
            rest.split_once('\r').unwrap().0.parse::<usize>().unwrap()
        });
    (input.len() >= head + length).then_some(head + length)
}

/// A gateway in front of one upstream.
async fn gateway(url: &str, more: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "contract = \"contract.toml\"\n[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n{more}\n\
         [upstream.a]\nurl = \"{url}\"\nready = false\nresponse_timeout = \"1s\"\n"
    );
    for (name, text) in [
        ("contract.toml", CONTRACT),
        ("a.toml", PROFILE),
        ("gateway.toml", &config),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let deployment =
        Deployment::load(&folder.path().join("gateway.toml"), &|_| None).unwrap_or_else(|found| panic!("{found:?}"));
    Server::start(deployment, Admin::new).await.unwrap()
}

/// One request on a connection of its own.
async fn ask(gateway: &Server, method: &str, body: &str) -> String {
    let mut socket = TcpStream::connect(gateway.public_address()).await.unwrap();
    let length = if body.is_empty() {
        String::new()
    } else {
        format!("Content-Length: {}\r\n", body.len())
    };
    let request = format!("{method} /a/x HTTP/1.1\r\nHost: gw\r\n{length}Connection: close\r\n\r\n{body}");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(Duration::from_secs(20), socket.read_to_string(&mut answer)).await;
    read.expect("an answer in time").unwrap();
    answer
}

fn status(answer: &str) -> &str {
    answer.get(9..12).unwrap_or(answer)
}

#[tokio::test]
async fn what_may_be_done_twice_is_sent_again_once_on_a_stale_connection() {
    for (method, body, act, executions, expected) in [
        ("GET", "", Act::Reset, 2, "200"),
        ("PUT", "abc", Act::Reset, 2, "200"),
        ("GET", "", Act::HalfHead, 2, "200"),
        ("POST", "abc", Act::Reset, 1, "502"),
        ("POST", "abc", Act::HalfHead, 1, "502"),
        ("PATCH", "abc", Act::Reset, 1, "502"),
    ] {
        let upstream = Upstream::start(&[Act::Answer, act]).await;
        let gateway = gateway(&format!("http://{}", upstream.address), "").await;
        assert_eq!(status(&ask(&gateway, "GET", "").await), "200");
        let answer = ask(&gateway, method, body).await;
        assert_eq!(status(&answer), expected, "{method} {act:?}");
        let seen = upstream.seen();
        assert_eq!(seen.len(), 1 + executions, "{method} {act:?}: {seen:?}");
        assert!(
            seen[1..]
                .iter()
                .all(|request| request.ends_with(&format!("\r\n\r\n{body}"))),
            "{seen:?}"
        );
    }
}

#[tokio::test]
async fn nothing_is_sent_again_on_a_fresh_connection() {
    let upstream = Upstream::start(&[Act::Reset]).await;
    let gateway = gateway(&format!("http://{}", upstream.address), "").await;
    assert_eq!(status(&ask(&gateway, "GET", "").await), "502");
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn a_failed_connection_is_followed_by_another_address_for_any_method() {
    let upstream = Upstream::start(&[]).await;
    // A port that nobody listens on: it was free a moment ago.
    let dead = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let gateway = gateway("http://127.0.0.1:1", "").await;
    let generation = gateway.state().generation.load_full();
    let family = generation.contract().family("a").unwrap();
    generation
        .upstreams
        .of(family)
        .unwrap()
        .set_addresses(0, &[dead, upstream.address]);
    for _ in 0..4 {
        assert_eq!(status(&ask(&gateway, "POST", "abc").await), "200");
    }
    assert_eq!(upstream.seen().len(), 4);
    // Another one, since the first is known by now.
    let dead = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    generation.upstreams.of(family).unwrap().set_addresses(0, &[dead]);
    let answer = ask(&gateway, "POST", "abc").await;
    assert_eq!(status(&answer), "502");
    assert!(!answer.contains(&dead.port().to_string()), "{answer}");
}

#[tokio::test]
async fn a_head_that_drips_is_waited_for_as_long_as_a_silent_one() {
    let upstream = Upstream::start(&[Act::Drip]).await;
    let gateway = gateway(&format!("http://{}", upstream.address), "").await;
    let began = Instant::now();
    let answer = ask(&gateway, "GET", "").await;
    assert_eq!(status(&answer), "504", "{answer}");
    assert!(began.elapsed() < Duration::from_secs(5));
    // The place is free and the next request gets a connection of its own.
    assert_eq!(status(&ask(&gateway, "GET", "").await), "200");
}

#[tokio::test]
async fn every_request_in_flight_has_its_place_and_gives_it_back() {
    let upstream = Upstream::start(&[Act::Drip, Act::Answer]).await;
    let gateway = gateway(&format!("http://{}", upstream.address), "").await;
    let generation = gateway.state().generation.load_full();
    let in_flight = || {
        generation
            .upstreams
            .all()
            .map(|upstream| upstream.in_flight())
            .sum::<usize>()
    };
    let mut leaving = TcpStream::connect(gateway.public_address()).await.unwrap();
    leaving
        .write_all(b"GET /a/x HTTP/1.1\r\nHost: gw\r\n\r\n")
        .await
        .unwrap();
    while upstream.seen().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(in_flight(), 1);
    drop(leaving);
    let freed = async {
        while in_flight() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_millis(900), freed)
        .await
        .expect("a client that leaves frees its place");
}

#[tokio::test]
async fn interim_answers_do_not_end_the_wait() {
    const INTERIM: &[u8] = b"HTTP/1.1 103 Early Hints\r\nX-Hint: 1\r\n\r\n";
    let upstream = Upstream::start(&[Act::Send(INTERIM)]).await;
    let gateway = gateway(&format!("http://{}", upstream.address), "").await;
    let answer = ask(&gateway, "GET", "").await;
    assert!(answer.starts_with("HTTP/1.1 103 "), "{answer}");
    assert!(answer.contains("HTTP/1.1 504 "), "{answer}");
}

#[tokio::test]
async fn stopping_answers_what_is_in_flight() {
    let upstream = Upstream::start(&[]).await;
    let gateway = gateway(&format!("http://{}", upstream.address), "").await;
    let address = gateway.public_address();
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"POST /a/x HTTP/1.1\r\nHost: gw\r\nContent-Length: 3\r\n\r\nab")
        .await
        .unwrap();
    let generation = gateway.state().generation.load_full();
    while generation.upstreams.all().all(|upstream| upstream.in_flight() == 0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stopping = tokio::spawn(gateway.stop(Plan::at_once(Duration::from_secs(10))));
    while TcpStream::connect(address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    slow.write_all(b"c").await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert_eq!(status(&answer), "200");
    assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
    assert!(stopping.await.unwrap(), "everything ended in time");
}
