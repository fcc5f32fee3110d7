//! An upstream that keeps the exact bytes of every request and answers as it is told.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};

use super::PATIENCE;
use super::received::{Received, read_body, read_head, show};

/// What to do with the connection after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    KeepOpen,
    Close,
    Reset,
}

type Script = dyn Fn(&Received, &mut TcpStream) -> io::Result<Then> + Send + Sync;

/// How an upstream answers.
#[derive(Clone)]
pub enum Answer {
    /// 200 with the received target as the body.
    EchoTarget,
    /// These bytes, whatever they are, and the connection stays open.
    Bytes(Vec<u8>),
    /// These bytes, and the connection is closed.
    BytesThenClose(Vec<u8>),
    /// The connection is closed without an answer.
    Close,
    /// The connection is reset without an answer.
    Reset,
    /// Nothing, for as long as the peer keeps the connection.
    Silence,
    /// Whatever this function does.
    Script(Arc<Script>),
}

impl Answer {
    /// A complete answer with a Content-Length.
    pub fn with(status: &str, headers: &[(&str, &str)], body: &str) -> Self {
        Self::Bytes(answer_bytes(status, headers, body.as_bytes()))
    }

    pub fn script(script: impl Fn(&Received, &mut TcpStream) -> io::Result<Then> + Send + Sync + 'static) -> Self {
        Self::Script(Arc::new(script))
    }
}

/// A complete answer with a Content-Length, as bytes.
pub fn answer_bytes(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status}\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(body);
    bytes
}

#[derive(Default)]
struct Notes {
    requests: Vec<Received>,
    probes: usize,
}

struct Shared {
    notes: Mutex<Notes>,
    noted: Condvar,
    answer: Mutex<Answer>,
    probe_answer: Mutex<Answer>,
    early_answer: Mutex<Option<Answer>>,
    connections: AtomicUsize,
    ended: AtomicBool,
    /// Second handles, by connection, to end connections whose thread waits for input.
    open: Mutex<BTreeMap<usize, TcpStream>>,
}

/// The path that deployments probe: requests for it are counted apart.
pub const PROBE_TARGET: &str = "/readyz?probe=k9f3";

/// The upstream. Its threads end when it is dropped.
pub struct Recorder {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Listens on a free loopback port and echoes targets until told otherwise; probes are answered 200.
    pub fn start() -> Self {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }

    /// The same on a given address, for an upstream that comes back where it was.
    pub fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap_or_else(|error| panic!("cannot listen on {address}: {error}"));
        let address = listener.local_addr().expect("a bound listener has an address");
        let shared = Arc::new(Shared {
            notes: Mutex::default(),
            noted: Condvar::new(),
            answer: Mutex::new(Answer::EchoTarget),
            probe_answer: Mutex::new(Answer::with("200 OK", &[], "ready")),
            early_answer: Mutex::new(None),
            connections: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let accepted = Arc::clone(&shared);
        let accepting = thread::spawn(move || accept(&listener, &accepted));
        Self {
            address,
            shared,
            accepting: Some(accepting),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for a `gateway.toml`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on, answer like this.
    pub fn answer(&self, answer: Answer) {
        *self.shared.answer.lock().expect("answer") = answer;
    }

    /// From now on, answer like this as soon as a head is there; the body is neither awaited nor recorded.
    pub fn answer_before_the_body(&self, answer: Answer) {
        *self.shared.early_answer.lock().expect("early answer") = Some(answer);
    }

    /// From now on, answer probes like this.
    pub fn answer_probes(&self, answer: Answer) {
        *self.shared.probe_answer.lock().expect("probe answer") = answer;
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// What was received so far, probes left out.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.notes.lock().expect("notes").requests.clone()
    }

    /// How much was received so far, probes left out, and the target of the last request.
    pub fn tally(&self) -> (usize, Option<String>) {
        let notes = self.shared.notes.lock().expect("notes");
        let last = notes.requests.last().map(|request| show(&request.target()));
        (notes.requests.len(), last)
    }

    /// The targets of what was received so far, as text.
    pub fn targets(&self) -> Vec<String> {
        self.requests().iter().map(|request| show(&request.target())).collect()
    }

    /// The one request that must have been received.
    #[track_caller]
    pub fn only_request(&self) -> Received {
        let requests = self.requests();
        assert_eq!(
            requests.len(),
            1,
            "one request must have reached the upstream, got {:?}",
            self.targets()
        );
        requests.into_iter().next().expect("one request")
    }

    /// Waits until this many requests have been received.
    #[track_caller]
    pub fn wait_for_requests(&self, count: usize) {
        self.wait(&format!("{count} requests at the upstream"), |notes| {
            notes.requests.len() >= count
        });
    }

    /// Waits until this many probes have been received.
    #[track_caller]
    pub fn wait_for_probes(&self, count: usize) {
        self.wait(&format!("{count} probes at the upstream"), |notes| {
            notes.probes >= count
        });
    }

    pub fn probes(&self) -> usize {
        self.shared.notes.lock().expect("notes").probes
    }

    #[track_caller]
    fn wait(&self, what: &str, reached: impl Fn(&Notes) -> bool) {
        let notes = self.shared.notes.lock().expect("notes");
        let (notes, outcome) = self
            .shared
            .noted
            .wait_timeout_while(notes, PATIENCE, |notes| !reached(notes))
            .expect("notes");
        assert!(
            !outcome.timed_out(),
            "waited {PATIENCE:?} for {what}: {} requests, {} probes",
            notes.requests.len(),
            notes.probes
        );
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, which then sees that it has ended and frees the port.
        drop(TcpStream::connect_timeout(&self.address, Duration::from_secs(1)));
        for stream in self.shared.open.lock().expect("open connections").values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.ended.load(Ordering::SeqCst) {
            return;
        }
        let connection = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
        if let Ok(handle) = stream.try_clone() {
            shared.open.lock().expect("open connections").insert(connection, handle);
        }
        let serving = Arc::clone(shared);
        thread::spawn(move || {
            let mut stream = stream;
            // A peer that leaves is no fault of the upstream's.
            let then = serve(&mut stream, connection, &serving).unwrap_or(Then::Close);
            serving.open.lock().expect("open connections").remove(&connection);
            if then != Then::Reset {
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
    }
}

fn serve(stream: &mut TcpStream, connection: usize, shared: &Shared) -> io::Result<Then> {
    let mut buffer = Vec::new();
    while let Some(mut received) = read_head(stream, &mut buffer, connection)? {
        let early = shared.early_answer.lock().expect("early answer").clone();
        if early.is_none() {
            read_body(stream, &mut buffer, &mut received)?;
        }
        let probe = received.target() == PROBE_TARGET.as_bytes();
        let answer = {
            let mut notes = shared.notes.lock().expect("notes");
            if probe {
                notes.probes += 1;
            } else {
                notes.requests.push(received.clone());
            }
            shared.noted.notify_all();
            let chosen = if probe { &shared.probe_answer } else { &shared.answer };
            early.clone().unwrap_or_else(|| chosen.lock().expect("answer").clone())
        };
        match perform(&answer, &received, stream)? {
            Then::KeepOpen if early.is_some() => return perform(&Answer::Silence, &received, stream),
            Then::KeepOpen => {}
            end => return Ok(end),
        }
    }
    Ok(Then::Close)
}

fn perform(answer: &Answer, received: &Received, stream: &mut TcpStream) -> io::Result<Then> {
    match answer {
        Answer::EchoTarget => {
            let head_only = received.method() == "HEAD";
            let mut bytes = answer_bytes("200 OK", &[("Content-Type", "text/plain")], &received.target());
            if head_only {
                bytes.truncate(bytes.len() - received.target().len());
            }
            stream.write_all(&bytes)?;
            Ok(Then::KeepOpen)
        }
        Answer::Bytes(bytes) => {
            stream.write_all(bytes)?;
            Ok(Then::KeepOpen)
        }
        Answer::BytesThenClose(bytes) => {
            stream.write_all(bytes)?;
            Ok(Then::Close)
        }
        Answer::Close => Ok(Then::Close),
        Answer::Reset => {
            // Dropping a socket that may linger for no time at all sends a reset.
            let at_once = nix::libc::linger {
                l_onoff: 1,
                l_linger: 0,
            };
            setsockopt(stream, sockopt::Linger, &at_once)?;
            Ok(Then::Reset)
        }
        Answer::Silence => {
            let mut ignored = [0; 1024];
            while stream.read(&mut ignored)? > 0 {}
            Ok(Then::Close)
        }
        Answer::Script(script) => script(received, stream),
    }
}
