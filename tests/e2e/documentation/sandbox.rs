//! Where the commands of a page are run: a folder of their own, the built binaries, and ports that are free.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::PATIENCE;
use crate::harness::client::Client;
use crate::harness::process::{BINARY, Gateway, addresses_in_log};

/// Goes where the last script ended. `HOME` is the page's folder.
const BEFORE: &str = "test ! -f ~/.exported || { . ~/.exported; cd \"$(cat ~/.folder)\"; }\n";

/// What a command wrote, both streams as a terminal shows them, and its exit code.
#[derive(Debug)]
pub struct Ran {
    pub output: String,
    pub code: Option<i32>,
}

/// A page's folder, and what it has started.
pub struct Sandbox {
    folder: TempDir,
    /// The port that stands in for each port of the page.
    ports: BTreeMap<u16, u16>,
    running: Vec<Gateway>,
}

impl Sandbox {
    /// A folder with a copy of `config/`, the repository's other folders, and a free port for each one that the page
    /// names.
    pub fn new(page: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let binaries = folder.path().join(".bin");
        fs::create_dir(&binaries).expect("a folder for binaries");
        symlink(BINARY, binaries.join("gateway")).expect("a link");
        symlink(route_contract(), binaries.join("route-contract")).expect("a link");
        // Off a terminal curl draws a progress bar.
        fs::write(folder.path().join(".curlrc"), "silent\nshow-error\n").expect("curl's settings");
        let mut ports = BTreeMap::from([(8080, free_port()), (9901, free_port())]);
        let named = page
            .replace("localhost:", "127.0.0.1:")
            .replace("0.0.0.0:", "127.0.0.1:");
        for after in named.split("127.0.0.1:").skip(1) {
            let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
            if let Ok(port) = digits.parse::<u16>() {
                ports.entry(port).or_insert_with(free_port);
            }
        }
        let sandbox = Self {
            folder,
            ports,
            running: Vec::new(),
        };
        sandbox.copy(&root.join("config"), Path::new("config"));
        for name in ["docs", "docker", "tests"] {
            symlink(root.join(name), sandbox.folder.path().join(name)).expect("a link");
        }
        sandbox
    }

    fn copy(&self, from: &Path, to: &Path) {
        for entry in fs::read_dir(from).expect("a folder") {
            let entry = entry.expect("an entry");
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if from.is_dir() {
                self.copy(&from, &to);
            } else {
                self.write(&to, &fs::read_to_string(&from).expect("a text"));
            }
        }
    }

    /// Writes a file, with the ports that stand in for those of the text.
    pub fn write(&self, path: &Path, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, self.with_ports(text)).expect("a file is written");
    }

    /// The text with the ports that stand in for its own. What listens everywhere listens on loopback.
    fn with_ports(&self, text: &str) -> String {
        let mut text = text
            .replace("0.0.0.0:", "127.0.0.1:")
            .replace("localhost:", "127.0.0.1:");
        for (port, free) in self.ports.iter().rev() {
            text = text.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:\u{0}{free}"));
        }
        text.replace('\u{0}', "")
    }

    /// The text with the page's own ports.
    pub fn with_own_ports(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (port, free) in self.ports.iter().rev() {
            text = text.replace(&format!("127.0.0.1:{free}"), &format!("127.0.0.1:\u{0}{port}"));
        }
        text.replace('\u{0}', "")
    }

    fn bash(&self, script: &str) -> Command {
        let folder = self.folder.path();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(folder)
            .env("PATH", format!("{}:{path}", folder.join(".bin").display()))
            .env("CURL_HOME", folder)
            .env("HOME", folder)
            .env("NO_COLOR", "1");
        command
    }

    /// Runs a script. The next one begins in the folder where it ends, and sees what it exports.
    pub fn run(&self, script: &str) -> Ran {
        let script = self.with_ports(&with_addresses(script));
        let script = format!(
            "exec 2>&1\n{BEFORE}trap 'code=$?; export -p > ~/.exported; pwd > ~/.folder; exit $code' EXIT\n{script}"
        );
        let output = self
            .bash(&script)
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("bash does not start: {error}"));
        Ran {
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            code: output.status.code(),
        }
    }

    /// Starts a command, which serves until the page ends, and waits until it does.
    pub fn start(&mut self, script: &str) {
        let script = self.with_ports(&with_addresses(script.trim()));
        let script = format!("{BEFORE}exec {script}");
        let server = Gateway::start(self.bash(&script), addresses);
        let deadline = Instant::now() + PATIENCE;
        // A family becomes ready without an event outside of the gateway.
        while Client::connect(server.admin()).request("GET", "/readyz", &[]).status != 200 {
            assert!(
                Instant::now() < deadline,
                "never ready: {script}\n{}",
                server.all_output()
            );
            thread::park_timeout(Duration::from_millis(20));
        }
        self.running.push(server);
    }

    /// Ends everything that was started, and waits until its ports are free.
    pub fn stop(&mut self) {
        self.running.clear();
    }
}

/// Without `--listen` and `--url` the programs use the ports of the pages, which may be taken: they are told others.
fn with_addresses(script: &str) -> String {
    let script = script
        .replace("gateway ready", "gateway ready --url http://127.0.0.1:9901")
        .replace(" --url http://127.0.0.1:9901 --url", " --url");
    if !script.contains("gateway demo") || script.contains("--listen") {
        return script;
    }
    script.replace(
        "gateway demo",
        "gateway demo --listen 127.0.0.1:8080 --admin 127.0.0.1:9901",
    )
}

/// Where a gateway, a demo or a profile server says that it listens.
fn addresses(lines: &[String]) -> Option<(SocketAddr, SocketAddr)> {
    addresses_in_log(lines).or_else(|| {
        let mut found = lines.iter().filter_map(|line| {
            let address = line.split("http://").nth(1)?.split_whitespace().next()?;
            address.parse::<SocketAddr>().ok()
        });
        let first = found.next()?;
        match lines.first() {
            // A demo prints both of its addresses, a profile server its only one.
            Some(line) if line.contains("http://") => Some((first, first)),
            _ => Some((first, found.next()?)),
        }
    })
}

/// A port that nobody has, outside of the range from which the system takes ports for connections.
fn free_port() -> u16 {
    let mut draw = std::hash::RandomState::new();
    loop {
        let number = std::hash::BuildHasher::hash_one(&draw, std::process::id());
        let port = 20_000 + u16::try_from(number % 10_000).expect("a small number");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
        draw = std::hash::RandomState::new();
    }
}

/// The check's own binary, beside the gateway's. A run of this package's tests alone does not build it.
fn route_contract() -> PathBuf {
    let path = Path::new(BINARY).with_file_name("route-contract");
    if !path.exists() {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--locked", "--package", "route-contract"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(
            built.is_ok_and(|status| status.success()) && path.exists(),
            "build it first: cargo build --package route-contract"
        );
    }
    path
}
