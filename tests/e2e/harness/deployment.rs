//! A split deployment in a temporary folder: `gateway.toml`, a contract of `config/`, and a recording upstream for each
//! family that it forwards.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use route_contract::contract::{Contract, Serve};
use tempfile::TempDir;

use super::client::Response;
use super::process::{BINARY, Gateway, addresses_in_log};
use super::received::show;
use super::recorder::{PROBE_TARGET, Recorder};

/// The families that the reference contract forwards.
pub const FORWARDED: [&str; 3] = ["central", "workspace", "extension"];

/// The reference deployment's files.
pub fn reference_folder() -> PathBuf {
    folder_of("agentteam")
}

/// The files of a deployment under `config/`.
pub fn folder_of(deployment: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config").join(deployment)
}

/// The names of all deployments under `config/`.
#[allow(dead_code)] // the endurance tests use the reference deployment alone
pub fn deployments() -> Vec<String> {
    let folders = fs::read_dir(folder_of("")).expect("the folder of deployments");
    let mut names: Vec<String> = folders
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    assert!(names.len() >= 2, "only {names:?}");
    names
}

/// A split deployment. Start it, then ask what its upstreams received.
pub struct Deployment {
    folder: TempDir,
    upstreams: BTreeMap<&'static str, Recorder>,
    urls: BTreeMap<&'static str, String>,
    /// Keys of `gateway.toml` outside of the tables below.
    tables: String,
    upstream_keys: BTreeMap<&'static str, String>,
    environment: Vec<(String, String)>,
}

/// What all upstreams of a deployment received up to a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub connections: usize,
    pub requests: usize,
}

impl Deployment {
    /// The reference contract with three recording upstreams that are never probed, so that every connection
    /// an upstream sees was opened for a request.
    pub fn new() -> Self {
        Self::of("agentteam")
    }

    /// The same with any deployment under `config/`.
    pub fn of(deployment: &str) -> Self {
        let from = folder_of(deployment);
        let folder = tempfile::tempdir().expect("a temporary folder");
        copy(&from.join("contract.toml"), &folder.path().join("contract.toml"));
        let profiles = folder.path().join("profiles");
        fs::create_dir(&profiles).expect("a folder for the profiles");
        for entry in fs::read_dir(from.join("profiles")).expect("the deployment's profiles") {
            let entry = entry.expect("an entry");
            copy(&entry.path(), &profiles.join(entry.file_name()));
        }
        let families = forwarded(&from);
        let upstreams: BTreeMap<_, _> = families.iter().map(|family| (*family, Recorder::start())).collect();
        let urls = upstreams
            .iter()
            .map(|(family, recorder)| (*family, recorder.url()))
            .collect();
        Self {
            folder,
            upstreams,
            urls,
            tables: String::new(),
            upstream_keys: families
                .into_iter()
                .map(|family| (family, "ready = false\n".to_owned()))
                .collect(),
            environment: Vec::new(),
        }
    }

    /// The same with upstreams that are probed every 50 ms and change state at once.
    pub fn probed() -> Self {
        Self::new().with_probes()
    }

    /// Probes every family's upstream, every 50 ms.
    pub fn with_probes(mut self) -> Self {
        for keys in self.upstream_keys.values_mut() {
            *keys = probe_keys("50ms");
        }
        self
    }

    /// The families that are forwarded, by name.
    #[allow(dead_code)] // the endurance tests use the reference deployment alone
    pub fn families(&self) -> Vec<&'static str> {
        self.upstream_keys.keys().copied().collect()
    }

    /// Adds whole tables to `gateway.toml`.
    pub fn with_tables(mut self, text: &str) -> Self {
        self.tables.push_str(text);
        self.tables.push('\n');
        self
    }

    /// Adds keys to a family's table.
    pub fn with_upstream_keys(mut self, family: &'static str, text: &str) -> Self {
        let keys = self.upstream_keys.entry(family).or_default();
        keys.push_str(text);
        keys.push('\n');
        self
    }

    /// Replaces the keys of a family's table, its probe among them.
    pub fn with_only_upstream_keys(mut self, family: &'static str, text: &str) -> Self {
        self.upstream_keys.insert(family, format!("{text}\n"));
        self
    }

    /// Points a family at another URL than its recorder's; the text stands in the file as it is.
    pub fn with_url(mut self, family: &'static str, url: &str) -> Self {
        self.urls.insert(family, url.to_owned());
        self
    }

    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The environment variables that the gateway is started with.
    pub fn variables(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.environment.iter().cloned()
    }

    /// Leaves a family's table out of `gateway.toml`.
    pub fn forget_upstream(&mut self, family: &str) {
        self.urls.remove(family);
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Replaces the contract.
    pub fn with_contract(self, text: &str) -> Self {
        fs::write(self.folder.path().join("contract.toml"), text).expect("the contract is written");
        self
    }

    /// Writes `gateway.toml` and returns its path.
    pub fn write(&self) -> PathBuf {
        let mut text = String::from("contract = \"contract.toml\"\nthreads = 2\n");
        if !self.tables.contains("[listen]") {
            text.push_str("\n[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n");
        }
        if !self.tables.contains("[readiness]") {
            text.push_str("\n[readiness]\nlive = \"/livez\"\nready = \"/readyz\"\n");
        }
        if !self.tables.contains("[drain]") {
            // Nothing in front of a test's gateway has to notice that it stops.
            text.push_str("\n[drain]\ndelay = \"100ms\"\n");
        }
        text.push('\n');
        text.push_str(&self.tables);
        for (family, url) in &self.urls {
            let keys = self.upstream_keys.get(family).map_or("", String::as_str);
            // Writing to a String cannot fail.
            let _ = write!(text, "\n[upstream.{family}]\nurl = '{url}'\n{keys}");
        }
        self.write_text(&text)
    }

    /// Writes this text as `gateway.toml` and returns its path.
    pub fn write_text(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("gateway.toml");
        fs::write(&path, text).expect("gateway.toml is written");
        path
    }

    /// The binary with this subcommand and this deployment's configuration.
    pub fn command(&self, subcommand: &str) -> Command {
        let path = self.write();
        let mut command = Command::new(BINARY);
        command
            .arg(subcommand)
            .arg("--config")
            .arg(path)
            .current_dir(self.folder.path())
            .envs(self.variables());
        command
    }

    /// Starts the gateway and waits until it listens.
    #[track_caller]
    pub fn start(&self) -> Gateway {
        Gateway::start(self.command("run"), addresses_in_log)
    }

    #[track_caller]
    pub fn upstream(&self, family: &str) -> &Recorder {
        self.upstreams
            .get(family)
            .unwrap_or_else(|| panic!("no upstream {family}"))
    }

    /// Stops a family's upstream: its port refuses connections from now on.
    pub fn stop_upstream(&mut self, family: &str) {
        drop(self.upstreams.remove(family));
    }

    /// What all upstreams have received.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            connections: self.upstreams.values().map(Recorder::connections).sum(),
            requests: self.upstreams.values().map(|recorder| recorder.tally().0).sum(),
        }
    }

    /// What each upstream has received: family and targets.
    pub fn received(&self) -> BTreeMap<&'static str, Vec<String>> {
        self.upstreams
            .iter()
            .map(|(family, recorder)| (*family, recorder.targets()))
            .collect()
    }

    /// Sends these bytes, and asserts that they are answered and that no upstream saw a connection or a request.
    #[track_caller]
    pub fn refused(&self, gateway: &Gateway, bytes: impl AsRef<[u8]>) -> Response {
        let before = self.traffic();
        let response = gateway.exchange(bytes);
        assert_eq!(
            self.traffic(),
            before,
            "a refused request has reached an upstream: {:?}",
            self.received()
        );
        self.assert_names_no_upstream(&response.raw);
        response
    }

    /// GETs a target that `family` must receive byte for byte, once, and nobody else.
    #[track_caller]
    pub fn passes(&self, gateway: &Gateway, family: &str, target: &str) -> Response {
        let mut expected = self.received();
        let response = gateway.get(target);
        expected
            .get_mut(family)
            .expect("a forwarded family")
            .push(target.to_owned());
        assert_eq!(
            self.received(),
            expected,
            "after GET {target}, answered {}",
            show(&response.raw)
        );
        assert_eq!(response.status, 200, "GET {target}");
        response
    }

    /// Asserts that bytes that a client sees hold no address and no port of any upstream.
    #[track_caller]
    pub fn assert_names_no_upstream(&self, bytes: &[u8]) {
        let text = show(bytes);
        // A request id is random hexadecimal and may hold the digits of a port by chance.
        let text = blot_request_ids(&text);
        assert!(!text.contains("127.0.0.1"), "an address in\n{text}");
        for url in self.urls.values() {
            let authority = url.trim_start_matches("http://").trim_start_matches("https://");
            assert!(!text.contains(authority), "{authority} in\n{text}");
            if let Some((_, port)) = authority.rsplit_once(':') {
                assert!(!text.contains(port), "port {port} in\n{text}");
            }
        }
    }
}

/// The families that a contract forwards. Their names live as long as the tests do.
fn forwarded(folder: &Path) -> Vec<&'static str> {
    let contract = Contract::load(&folder.join("contract.toml")).expect("a sound contract");
    let forwarded = contract.families.iter().filter(|family| family.serve == Serve::Forward);
    forwarded.map(|family| &*family.name.clone().leak()).collect()
}

/// A readiness probe for recorders: every `interval`, one success or failure is enough to change state.
pub fn probe_keys(interval: &str) -> String {
    format!(
        "ready = {{ path = \"{PROBE_TARGET}\", interval = \"{interval}\", timeout = \"1s\", rise = 1, fall = 1 }}\n"
    )
}

/// Replaces every run of at least 32 hexadecimal digits.
fn blot_request_ids(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut run = String::new();
    for character in text.chars().chain(['\0']) {
        if character.is_ascii_hexdigit() {
            run.push(character);
            continue;
        }
        if run.len() < 32 {
            out.push_str(&run);
        }
        run.clear();
        out.push(character);
    }
    out
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap_or_else(|error| panic!("cannot copy {}: {error}", from.display()));
}
