//! The real `gateway` binary as a child process: started, watched by its output, ended by a signal.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::PATIENCE;
use super::client::{Client, Response};

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_gateway");

/// The lines that a process has written, and whether it has closed its output.
#[derive(Default)]
struct Output {
    lines: Mutex<(Vec<String>, bool)>,
    grown: Condvar,
}

impl Output {
    fn follow(source: impl Read + Send + 'static) -> Arc<Self> {
        let output = Arc::new(Self::default());
        let growing = Arc::clone(&output);
        thread::spawn(move || {
            let mut source = BufReader::new(source);
            let mut line = Vec::new();
            while matches!(source.read_until(b'\n', &mut line), Ok(read) if read > 0) {
                let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
                line.clear();
                growing.lines.lock().expect("lines").0.push(text);
                growing.grown.notify_all();
            }
            growing.lines.lock().expect("lines").1 = true;
            growing.grown.notify_all();
        });
        output
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("lines").0.clone()
    }

    /// Waits until `found` answers something about the lines; `None` when the output ended or time ran out.
    fn wait<T>(&self, found: impl Fn(&[String]) -> Option<T>) -> Option<T> {
        let lines = self.lines.lock().expect("lines");
        let (lines, _) = self
            .grown
            .wait_timeout_while(lines, PATIENCE, |(lines, ended)| !*ended && found(lines).is_none())
            .expect("lines");
        found(&lines.0)
    }

    fn wait_for_end(&self, patience: Duration) -> bool {
        let lines = self.lines.lock().expect("lines");
        let (lines, _) = self
            .grown
            .wait_timeout_while(lines, patience, |(_, ended)| !*ended)
            .expect("lines");
        lines.1
    }
}

/// A running gateway. It is killed when this is dropped.
pub struct Gateway {
    child: Child,
    /// The process that has taken over from the child, and maybe from others since.
    successor: Option<Pid>,
    stdout: Arc<Output>,
    stderr: Arc<Output>,
    public: SocketAddr,
    admin: SocketAddr,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Gateway {
    /// Starts `command` and waits until `addresses` finds the public and the admin address in its output.
    #[track_caller]
    pub fn start(mut command: Command, addresses: fn(&[String]) -> Option<(SocketAddr, SocketAddr)>) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdout = Output::follow(child.stdout.take().expect("stdout is piped"));
        let stderr = Output::follow(child.stderr.take().expect("stderr is piped"));
        let Some((public, admin)) = stdout.wait(addresses) else {
            let _ = child.kill();
            let _ = child.wait();
            stderr.wait_for_end(PATIENCE);
            panic!(
                "the gateway names no addresses\nstdout:\n{}\nstderr:\n{}",
                stdout.lines().join("\n"),
                stderr.lines().join("\n")
            );
        };
        Self {
            child,
            successor: None,
            stdout,
            stderr,
            public,
            admin,
        }
    }

    #[allow(dead_code)] // the endurance tests look at the process from outside
    pub fn pid(&self) -> u32 {
        self.process().as_raw().unsigned_abs()
    }

    /// The process that serves.
    fn process(&self) -> Pid {
        let child = || Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        self.successor.unwrap_or_else(child)
    }

    /// Lets the binary take over from itself, and waits until the new process serves and the old one has ended.
    #[track_caller]
    pub fn upgrade(&mut self) {
        self.signal(Signal::SIGUSR2);
        self.adopt_successor();
    }

    /// Waits until a new process serves and the old one has ended.
    #[track_caller]
    pub fn adopt_successor(&mut self) {
        let old = self.process();
        self.successor = Some(self.wait_for_message_of_upgrade(old));
        if old.as_raw().unsigned_abs() == self.child.id() {
            let deadline = Instant::now() + PATIENCE;
            let status = loop {
                if let Some(status) = self.child.try_wait().expect("the exit status") {
                    break status;
                }
                assert!(Instant::now() < deadline, "{old} does not end:\n{}", self.all_output());
                thread::park_timeout(Duration::from_millis(5));
            };
            assert_eq!(status.code(), Some(0), "the old process:\n{}", self.all_output());
            return;
        }
        // Nobody's child any more: it is gone when no signal reaches it.
        let deadline = Instant::now() + PATIENCE;
        while kill(old, None).is_ok() && !is_zombie(old) {
            assert!(Instant::now() < deadline, "{old} does not end:\n{}", self.all_output());
            thread::park_timeout(Duration::from_millis(5));
        }
    }

    fn wait_for_message_of_upgrade(&self, old: Pid) -> Pid {
        let upgraded = |lines: &[String]| {
            let records = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            // A process names its successor once; who has named one before has ended.
            let all: Vec<i64> = records
                .filter(|record| {
                    record["message"]
                        .as_str()
                        .is_some_and(|text| text.starts_with("upgraded"))
                })
                .filter_map(|record| record["pid"].as_i64())
                .collect();
            let position = all.iter().position(|pid| *pid == i64::from(old.as_raw()));
            let next = position.map_or(0, |position| position + 1);
            all.get(next).copied()
        };
        let pid = self.wait_for_output("an upgrade", upgraded);
        Pid::from_raw(i32::try_from(pid).expect("a process id"))
    }

    pub fn public(&self) -> SocketAddr {
        self.public
    }

    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// A connection to the public listener.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.public)
    }

    /// GET on a connection of its own to the public listener.
    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        self.client().request("GET", target, &[])
    }

    /// GET on a connection of its own to the admin listener, which is named by its address.
    #[track_caller]
    pub fn admin_get(&self, target: &str) -> Response {
        self.admin_ask("GET", target, &self.admin.to_string(), &[])
    }

    /// A request to the admin listener under any Host, with more header lines.
    #[track_caller]
    pub fn admin_ask(&self, method: &str, target: &str, host: &str, headers: &[(&str, &str)]) -> Response {
        let lines: String = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let mut client = Client::connect(self.admin);
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n"));
        client.response_to(method)
    }

    /// One request of raw bytes on a connection of its own, and its answer.
    #[track_caller]
    pub fn exchange(&self, bytes: impl AsRef<[u8]>) -> Response {
        let mut client = self.client();
        client.send(bytes);
        client.response()
    }

    /// The lines on standard output so far.
    pub fn stdout(&self) -> Vec<String> {
        self.stdout.lines()
    }

    /// Everything the process has written so far, for a search.
    pub fn all_output(&self) -> String {
        format!("{}\n{}", self.stdout.lines().join("\n"), self.stderr.lines().join("\n"))
    }

    /// Waits for something about the lines on standard output.
    #[track_caller]
    pub fn wait_for_output<T>(&self, what: &str, found: impl Fn(&[String]) -> Option<T>) -> T {
        self.stdout
            .wait(found)
            .unwrap_or_else(|| panic!("waited for {what} in the output:\n{}", self.stdout.lines().join("\n")))
    }

    /// Waits for the access record of a request.
    #[track_caller]
    pub fn access_record(&self, request_id: &str) -> Value {
        self.wait_for_output(&format!("the access record of {request_id}"), |lines| {
            lines
                .iter()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                .find(|record| is_access(record) && record["requestId"] == request_id)
        })
    }

    /// All access records so far.
    pub fn access_records(&self) -> Vec<Value> {
        self.stdout()
            .iter()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(is_access)
            .collect()
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.process(), signal).expect("the process takes the signal");
    }

    /// SIGHUP, and what has come of the reload: `applied`, `unchanged` or `refused`.
    #[track_caller]
    pub fn reload(&self) -> String {
        let before = self.reloads();
        self.signal(Signal::SIGHUP);
        self.wait_for_reload(before)
    }

    /// How many reloads have ended so far.
    pub fn reloads(&self) -> usize {
        outcomes(&self.stdout()).len()
    }

    /// What has come of the reload behind this many.
    #[track_caller]
    pub fn wait_for_reload(&self, before: usize) -> String {
        self.wait_for_output("a reload", |lines| outcomes(lines).into_iter().nth(before))
    }

    /// Waits for the process to end by itself.
    #[track_caller]
    pub fn wait_for_exit(mut self, patience: Duration) -> Ended {
        assert!(
            self.stdout.wait_for_end(patience),
            "the gateway does not end within {patience:?}:\n{}",
            self.all_output()
        );
        let status = self.child.wait().expect("the exit status");
        self.stderr.wait_for_end(PATIENCE);
        Ended {
            status,
            stdout: self.stdout.lines().join("\n"),
            stderr: self.stderr.lines().join("\n"),
        }
    }

    /// SIGTERM, and the exit that must follow.
    #[track_caller]
    pub fn terminate(self) -> Ended {
        self.signal(Signal::SIGTERM);
        self.wait_for_exit(PATIENCE)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Those that it has started to take over, also where a test has failed before it knew of them.
        for successor in self.stdout.lines().iter().filter_map(|line| successor(line)) {
            let _ = kill(successor, Signal::SIGKILL);
        }
    }
}

/// The process that a line of the log names as one that is to take over.
fn successor(line: &str) -> Option<Pid> {
    let record: Value = serde_json::from_str(line).ok()?;
    let is_named = record["message"].as_str()?.starts_with("upgrading: ");
    let pid = record["pid"].as_i64().filter(|_| is_named)?;
    i32::try_from(pid).ok().map(Pid::from_raw)
}

/// Whether a process has ended and nobody has asked for its status.
fn is_zombie(process: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_none_or(|rest| rest.starts_with('Z'))
}

/// What has come of each reload.
fn outcomes(lines: &[String]) -> Vec<String> {
    let outcome = |line: &String| {
        let line = line.contains("\"outcome\"").then_some(line)?;
        let record = serde_json::from_str::<Value>(line).ok()?;
        Some(record["outcome"].as_str()?.to_owned())
    };
    lines.iter().filter_map(outcome).collect()
}

fn is_access(record: &Value) -> bool {
    record["log"] == "access"
}

/// The addresses in the line that `gateway run` writes when it listens.
pub fn addresses_in_log(lines: &[String]) -> Option<(SocketAddr, SocketAddr)> {
    lines
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|record| Some((address(&record, "public")?, address(&record, "admin")?)))
}

fn address(record: &Value, name: &str) -> Option<SocketAddr> {
    record.get(name)?.as_str()?.parse().ok()
}

/// Runs the binary to its end.
#[track_caller]
pub fn run_to_end(command: &mut Command) -> Ended {
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    Ended {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
