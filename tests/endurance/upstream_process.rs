//! An upstream that is a process of its own, so that it can be killed, frozen and restarted: this very test binary,
//! started again with the one test below.
//!
//! It answers every request with 200 and its target, `/readyz` always, and upgrades to a WebSocket that sends back what
//! comes.
//! Each POST is noted in a file before anything else, by its target. `POST /mode/NAME` makes it misbehave from then on.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::load;

const ADDRESS: &str = "ENDURANCE_UPSTREAM_ADDRESS";
const JOURNAL: &str = "ENDURANCE_UPSTREAM_JOURNAL";

/// The key of a probe that a busy machine does not fail.
pub const PATIENT_PROBE: &str =
    "ready = { path = \"/readyz\", interval = \"5s\", timeout = \"5s\", rise = 1, fall = 2 }\n";

/// How an upstream behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As it should.
    Sound,
    /// Answers nothing; what waits is answered when it is sound again.
    Hang,
    /// Resets the connection of each request.
    Reset,
    /// Sends a head byte by byte, for ever.
    Drip,
    /// Sends bytes that are no HTTP.
    Garbage,
}

impl Mode {
    const ALL: [Self; 5] = [Self::Sound, Self::Hang, Self::Reset, Self::Drip, Self::Garbage];

    fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::Hang => "hang",
            Self::Reset => "reset",
            Self::Drip => "drip",
            Self::Garbage => "garbage",
        }
    }
}

/// A running upstream. It is killed when this is dropped.
pub struct UpstreamProcess {
    child: Child,
    address: SocketAddr,
    journal: PathBuf,
}

impl UpstreamProcess {
    /// Starts one on a free port, with a new journal.
    pub fn start(folder: &Path) -> Self {
        let address = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let journal = folder.join(format!("upstream-{}.journal", address.port()));
        Self {
            child: spawn(address, &journal),
            address,
            journal,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        kill(pid, signal).expect("the process takes the signal");
    }

    /// Ends it without a word; its port refuses connections.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again where it was.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.address, &self.journal);
    }

    /// From now on it behaves like this.
    pub async fn set(&self, mode: Mode) {
        let mut client = load::Client::new(self.address);
        let status = client.ask("POST", &format!("/mode/{}", mode.name())).await;
        assert_eq!(status.ok(), Some(200), "{mode:?}");
    }

    /// The targets of all POSTs that it has begun to execute.
    pub fn posts(&self) -> Vec<String> {
        let file = File::open(&self.journal).expect("the journal");
        BufReader::new(file).lines().map(|line| line.expect("a line")).collect()
    }
}

impl Drop for UpstreamProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(address: SocketAddr, journal: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "upstream_process::serve", "--ignored", "--nocapture"])
        .env(ADDRESS, address.to_string())
        .env(JOURNAL, journal)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the upstream starts");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    let listens = lines.any(|line| line.is_ok_and(|line| line.contains("listening")));
    assert!(listens, "the upstream does not listen on {address}");
    // What else it writes goes nowhere, and must not stop it.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

/// The process itself; nothing to do unless it was started as one.
#[test]
#[ignore = "the upstream that the other tests start"]
fn serve() {
    let (Ok(address), Ok(journal)) = (std::env::var(ADDRESS), std::env::var(JOURNAL)) else {
        return;
    };
    let journal = OpenOptions::new().create(true).append(true).open(journal).unwrap();
    crate::runtime().block_on(async {
        let address: SocketAddr = address.parse().unwrap();
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        let listener: TcpListener = socket.listen(4_096).unwrap();
        println!("listening");
        let mode = Arc::new(watch::Sender::new(Mode::Sound));
        let journal = Arc::new(Mutex::new(journal));
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let _ = socket.set_nodelay(true);
            tokio::spawn(attend(socket, mode.clone(), journal.clone()));
        }
    });
}

async fn attend(mut socket: TcpStream, mode: Arc<watch::Sender<Mode>>, journal: Arc<Mutex<File>>) {
    let mut input = Vec::new();
    while let Some((head, body)) = load::read_message(&mut socket, &mut input).await {
        drop(body);
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if let Some(name) = target.strip_prefix("/mode/") {
            let found = Mode::ALL.into_iter().find(|mode| mode.name() == name);
            mode.send_replace(found.expect("a mode"));
        } else if !target.starts_with("/readyz") {
            if method == "POST" {
                // One write for each line: lines of connections do not mix.
                let line = format!("{target}\n");
                journal.lock().unwrap().write_all(line.as_bytes()).unwrap();
            }
            if head.to_ascii_lowercase().contains("upgrade: websocket") {
                let accepted = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
                let _ = socket.write_all(accepted).await;
                let (mut from, mut to) = socket.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                return;
            }
            let now = *mode.borrow();
            if now != Mode::Sound && !misbehave(&mut socket, now, &mode).await {
                return;
            }
        }
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len());
        if socket.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Answers whether the request is to be answered after all.
async fn misbehave(socket: &mut TcpStream, now: Mode, mode: &watch::Sender<Mode>) -> bool {
    match now {
        Mode::Sound => true,
        Mode::Hang => {
            let mut changes = mode.subscribe();
            let mut ignored = [0; 64];
            tokio::select! {
                _ = changes.wait_for(|mode| *mode != Mode::Hang) => true,
                // The gateway has given it up.
                _ = socket.read(&mut ignored) => false,
            }
        }
        Mode::Reset => {
            let _ = socket.set_zero_linger();
            false
        }
        Mode::Drip => {
            let head = b"HTTP/1.1 200 OK\r\nX-Drip: ";
            for byte in head.iter().chain(std::iter::repeat(&b'x')) {
                if socket.write_all(&[*byte]).await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            false
        }
        Mode::Garbage => {
            let _ = socket
                .write_all(b"\x16\x03\x01\0\0not HTTP at all\r\n\r\n\xff\xfe")
                .await;
            false
        }
    }
}
