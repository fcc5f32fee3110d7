//! Connections over real sockets, with an application that says what it was given.

use std::sync::Mutex;

use async_trait::async_trait;
use http::Response;
use pingora::apps::http_app::ServeHttp;
use pingora::protocols::http::ServerSession;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::*;

/// Answers with the target and the body, without reading the body of `/unread`.
struct Echo;

#[async_trait]
impl ServeHttp for Echo {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let mut text = session.req_header().raw_path().to_vec();
        if text != b"/unread" {
            text.push(b' ');
            while let Ok(Some(piece)) = session.read_request_body().await {
                text.extend_from_slice(&piece);
            }
        }
        let length = text.len();
        let mut response = Response::new(text);
        response
            .headers_mut()
            .insert("content-length", http::HeaderValue::from(length));
        response
    }
}

/// Counts what it is told.
#[derive(Default)]
struct Counter {
    faults: Mutex<Vec<HeadFault>>,
    open: Mutex<isize>,
}

impl Door for Counter {
    fn refuse(&self, fault: HeadFault, connection: &Connection) -> Bytes {
        self.faults.lock().unwrap().push(fault);
        PlainDoor.refuse(fault, connection)
    }
    fn opened(&self) {
        *self.open.lock().unwrap() += 1;
    }
    fn closed(&self) {
        *self.open.lock().unwrap() -= 1;
    }
}

struct Running {
    address: SocketAddr,
    door: Arc<Counter>,
    phase: PhaseControl,
    served: JoinHandle<()>,
}

async fn start(limits: Limits) -> Running {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr();
    assert_ne!(address.port(), 0);
    let door = Arc::new(Counter::default());
    let (phase, phases) = PhaseControl::new(Phase::Serving);
    let served = tokio::spawn(listener.serve(Arc::new(Echo), door.clone(), limits.fixed(), phases));
    Running {
        address,
        door,
        phase,
        served,
    }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends all at once and reads to the end.
    async fn exchange(&self, bytes: &[u8]) -> String {
        let mut socket = self.connect().await;
        socket.write_all(bytes).await.unwrap();
        read_to_end(&mut socket).await
    }
}

async fn read_to_end(socket: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), socket.read_to_end(&mut answer)).await;
    read.expect("the connection closes in time").unwrap();
    String::from_utf8(answer).unwrap()
}

/// The bodies of answers that each end with their text.
fn bodies(answers: &str) -> Vec<&str> {
    let rest = answers.split("HTTP/1.1 ").skip(1);
    rest.map(|answer| answer.split_once("\r\n\r\n").unwrap().1).collect()
}

#[tokio::test]
async fn requests_sent_ahead_are_served_in_turn_and_whole() {
    let running = start(Limits::default()).await;
    let all = b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
        POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\nX: y\r\n\r\n\
        GET /3 HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET /4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answers = running.exchange(all).await;
    assert_eq!(bodies(&answers), ["/1 hello", "/2 abcde", "/3 ", "/4 "]);

    // The same in two pieces, cut anywhere.
    for cut in (1..all.len()).step_by(7) {
        let mut socket = running.connect().await;
        socket.write_all(&all[..cut]).await.unwrap();
        tokio::task::yield_now().await;
        socket.write_all(&all[cut..]).await.unwrap();
        assert_eq!(
            bodies(&read_to_end(&mut socket).await),
            ["/1 hello", "/2 abcde", "/3 ", "/4 "],
            "{cut}"
        );
    }
    assert!(running.door.faults.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_follows_a_body_is_judged_like_any_head() {
    let running = start(Limits::default()).await;
    let answers = running
        .exchange(
            b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nokGET /2 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        )
        .await;
    assert!(answers.starts_with("HTTP/1.1 200 "), "{answers}");
    assert!(answers.contains("HTTP/1.1 400 "), "{answers}");
    assert_eq!(*running.door.faults.lock().unwrap(), [HeadFault::Host]);
}

#[tokio::test]
async fn an_unread_body_is_never_a_request_and_its_answer_is_seen() {
    let running = start(Limits::default()).await;
    let mut socket = running.connect().await;
    let smuggled = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100_000);
    let head = format!(
        "POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        smuggled.len()
    );
    let (mut reader, mut writer) = socket.split();
    let write = async {
        writer.write_all(head.as_bytes()).await.unwrap();
        // The client may be cut off while it still sends.
        let _cut = writer.write_all(&smuggled).await;
    };
    let read = async {
        let mut answer = Vec::new();
        let _reset_after_the_answer = reader.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    };
    let (answer, ()) = tokio::join!(read, write);
    assert_eq!(bodies(&answer), ["/unread"], "{answer}");
    assert!(answer.to_lowercase().contains("\r\nconnection: close\r\n"), "{answer}");
}

#[tokio::test]
async fn a_faulty_chunk_that_comes_with_its_head_reaches_nobody() {
    let running = start(Limits::default()).await;
    let answer = running
        .exchange(b"POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(*running.door.faults.lock().unwrap(), [HeadFault::Framing]);
}

#[tokio::test]
async fn a_head_has_a_deadline_that_single_bytes_do_not_move() {
    let limits = Limits {
        head_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let running = start(limits).await;
    let mut socket = running.connect().await;
    let began = std::time::Instant::now();
    let (mut reader, mut writer) = socket.split();
    let drip = async {
        loop {
            if writer.write_all(b"G").await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut answer = Vec::new();
    tokio::select! {
        read = reader.read_to_end(&mut answer) => { let _reset = read; }
        () = drip => {}
    }
    assert!(answer.starts_with(b"HTTP/1.1 408 "), "{}", answer.escape_ascii());
    assert!(began.elapsed() < Duration::from_secs(5));
    // Silence is closed without a word, on a new connection and between requests.
    assert_eq!(read_to_end(&mut running.connect().await).await, "");
}

#[tokio::test]
async fn silence_between_requests_ends_the_connection() {
    let limits = Limits {
        idle_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let running = start(limits).await;
    let mut socket = running.connect().await;
    socket.write_all(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let answers = read_to_end(&mut socket).await;
    assert_eq!(bodies(&answers), ["/1 "]);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_one_to_end() {
    let running = start(Limits {
        connections: 1,
        ..Limits::default()
    })
    .await;
    let first = running.connect().await;
    let mut second = running.connect().await;
    second
        .write_all(b"GET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut byte = [0];
    let early = tokio::time::timeout(Duration::from_millis(200), second.read(&mut byte)).await;
    assert!(early.is_err(), "the second connection is served beside the first");
    drop(first);
    assert_eq!(bodies(&read_to_end(&mut second).await), ["/2 "]);
}

#[tokio::test]
async fn stopping_ends_idle_connections_and_then_the_listener() {
    let running = start(Limits::default()).await;
    let mut idle = running.connect().await;
    idle.write_all(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut answer = [0; 4096];
    assert!(idle.read(&mut answer).await.unwrap() > 0);
    running.phase.advance(Phase::Closing);
    assert_eq!(read_to_end(&mut idle).await.find("HTTP"), None);
    tokio::time::timeout(Duration::from_secs(5), running.served)
        .await
        .expect("all connections end")
        .unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
    assert_eq!(*running.door.open.lock().unwrap(), 0);
}

#[tokio::test]
async fn while_draining_clients_are_served_and_asked_to_leave() {
    let running = start(Limits::default()).await;
    let mut kept = running.connect().await;
    kept.write_all(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut answer = [0; 4096];
    assert!(kept.read(&mut answer).await.unwrap() > 0);
    running.phase.advance(Phase::Draining);
    kept.write_all(b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let last = read_to_end(&mut kept).await;
    assert!(last.contains("Connection: close") && last.ends_with("/2 "), "{last}");
    let fresh = running.exchange(b"GET /3 HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(fresh.contains("Connection: close") && fresh.ends_with("/3 "), "{fresh}");
}

#[tokio::test]
async fn whoever_has_connected_before_the_listener_closes_is_served() {
    let running = start(Limits::default()).await;
    // Some of them are still in the kernel's queue when it closes, and have not sent anything.
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(running.connect().await);
    }
    running.phase.advance(Phase::Closing);
    for client in &mut clients {
        client.write_all(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    }
    for mut client in clients {
        assert!(read_to_end(&mut client).await.ends_with("/1 "));
    }
    running.served.await.unwrap();
}

#[tokio::test]
async fn a_listener_that_another_process_serves_closes_alone() {
    let running = start(Limits::default()).await;
    let mut kept = running.connect().await;
    kept.write_all(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut answer = [0; 4096];
    assert!(kept.read(&mut answer).await.unwrap() > 0);
    running.phase.advance(Phase::Leaving);
    while TcpStream::connect(running.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    kept.write_all(b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let last = read_to_end(&mut kept).await;
    assert!(last.contains("Connection: close") && last.ends_with("/2 "), "{last}");
    running.served.await.unwrap();
}

/// What a connection costs while its client is silent: its task, with all that it may become, and what it holds.
#[tokio::test]
async fn an_idle_connection_is_small() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let local = listener.local_addr().unwrap();
    let _client = TcpStream::connect(local).await.unwrap();
    let (socket, peer) = listener.accept().await.unwrap();
    let limits = Limits::default();
    let (_phase, phases) = PhaseControl::new(Phase::Serving);
    let (app, door) = (Arc::new(Echo), Arc::new(PlainDoor));
    let socket = Box::new(ClientSocket::Tcp(socket));
    let descriptor = socket.descriptor();
    let accepted = Accepted {
        peer,
        local,
        descriptor,
    };
    let task = begin(socket, accepted, None, &app, &door, &limits, &phases);
    let (task, held) = (std::mem::size_of_val(&task), std::mem::size_of::<Connection>());
    assert!(task + held <= 1664, "a task of {task} bytes and a connection of {held}");
}
