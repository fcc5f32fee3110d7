//! Upstreams that are killed, frozen, and misbehave in every way, while requests go on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::harness::deployment::Deployment;
use crate::harness::process::Gateway;
use crate::load::Client;
use crate::observed;
use crate::upstream_process::{Mode, UpstreamProcess};

/// What is done to an upstream.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Freeze,
    Misbehave(Mode),
}

const FAULTS: [Fault; 6] = [
    Fault::Kill,
    Fault::Freeze,
    Fault::Misbehave(Mode::Reset),
    Fault::Misbehave(Mode::Drip),
    Fault::Misbehave(Mode::Garbage),
    Fault::Misbehave(Mode::Hang),
];

/// A gateway in front of a family that stays well, one with two endpoints and one with a single endpoint.
pub struct Scene {
    pub gateway: Gateway,
    pub central: UpstreamProcess,
    pub workspace: [UpstreamProcess; 2],
    pub extension: UpstreamProcess,
    _deployment: Deployment,
    _folder: TempDir,
}

const TIMES: &str = "connect_timeout = \"300ms\"\nresponse_timeout = \"500ms\"\nbody_timeout = \"500ms\"\ntotal_timeout = \"2s\"\n\
                     ready = { path = \"/readyz\", interval = \"100ms\", timeout = \"200ms\", rise = 1, fall = 2 }\n\
                     ejection = { pause = \"500ms\", slow_return = \"200ms\" }\nin_flight = 64\n";

impl Scene {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let upstream = || UpstreamProcess::start(folder.path());
        let (central, workspace, extension) = (upstream(), [upstream(), upstream()], upstream());
        let mut deployment = Deployment::new();
        deployment.forget_upstream("workspace");
        let urls = workspace.each_ref().map(|one| format!("\"{}\"", one.url()));
        let deployment = deployment
            .with_tables(&format!("[upstream.workspace]\nurls = [{}]\n{TIMES}", urls.join(", ")))
            .with_tables("[log]\naccess = false")
            .with_url("central", &central.url())
            .with_only_upstream_keys("central", "ready = \"/readyz\"\n")
            .with_url("extension", &extension.url())
            .with_only_upstream_keys("extension", TIMES);
        let gateway = deployment.start();
        let deadline = Instant::now() + crate::harness::PATIENCE;
        while gateway.admin_get("/readyz").status != 200 {
            assert!(Instant::now() < deadline, "the gateway is never ready");
            std::thread::park_timeout(Duration::from_millis(20));
        }
        Self {
            gateway,
            central,
            workspace,
            extension,
            _deployment: deployment,
            _folder: folder,
        }
    }

    /// One fault after the other, on one endpoint of two and on the only one of a family, until the time is up.
    pub async fn break_until(&mut self, end: Instant, hurt: Duration, rest: Duration) -> usize {
        let mut done = 0;
        while Instant::now() + hurt + rest < end {
            let fault = FAULTS[done % FAULTS.len()];
            let other = FAULTS[(done + done / FAULTS.len() + 1) % FAULTS.len()];
            let which = done % 2;
            begin(fault, &mut self.workspace[which]).await;
            begin(other, &mut self.extension).await;
            tokio::time::sleep(hurt).await;
            mend(fault, &mut self.workspace[which]).await;
            mend(other, &mut self.extension).await;
            tokio::time::sleep(rest).await;
            done += 1;
        }
        done
    }
}

async fn begin(fault: Fault, upstream: &mut UpstreamProcess) {
    match fault {
        Fault::Kill => upstream.kill(),
        Fault::Freeze => upstream.signal(Signal::SIGSTOP),
        Fault::Misbehave(mode) => upstream.set(mode).await,
    }
}

async fn mend(fault: Fault, upstream: &mut UpstreamProcess) {
    match fault {
        Fault::Kill => upstream.restart(),
        Fault::Freeze => upstream.signal(Signal::SIGCONT),
        Fault::Misbehave(_) => upstream.set(Mode::Sound).await,
    }
}

/// What clients of one family have seen: how often which outcome.
#[derive(Default)]
pub struct Outcomes(Mutex<BTreeMap<String, usize>>);

impl Outcomes {
    pub fn of(&self, outcome: &str) -> usize {
        self.0.lock().unwrap().get(outcome).copied().unwrap_or_default()
    }

    pub fn all(&self) -> BTreeMap<String, usize> {
        self.0.lock().unwrap().clone()
    }

    fn add(&self, outcome: String) {
        *self.0.lock().unwrap().entry(outcome).or_default() += 1;
    }
}

/// Clients of one family, each a GET and a POST after the other, until they are told to stop.
pub struct Traffic {
    pub outcomes: Arc<Outcomes>,
    stop: Arc<AtomicBool>,
    clients: Vec<tokio::task::JoinHandle<()>>,
}

impl Traffic {
    pub fn start(address: SocketAddr, path: &'static str, clients: usize, pause: Duration) -> Self {
        static POSTS: AtomicUsize = AtomicUsize::new(0);
        let (outcomes, stop) = (Arc::<Outcomes>::default(), Arc::<AtomicBool>::default());
        let clients = (0..clients)
            .map(|_| {
                let (outcomes, stop) = (outcomes.clone(), stop.clone());
                tokio::spawn(async move {
                    let mut client = Client::new(address);
                    while !stop.load(Relaxed) {
                        let target = format!("{path}/{}", POSTS.fetch_add(1, Relaxed));
                        for method in ["GET", "POST"] {
                            let outcome = match client.ask(method, &target).await {
                                Ok(status) => status.to_string(),
                                Err(error) => format!("{:?}", error.kind()),
                            };
                            outcomes.add(outcome);
                        }
                        tokio::time::sleep(pause).await;
                    }
                })
            })
            .collect();
        Self {
            outcomes,
            stop,
            clients,
        }
    }

    pub async fn stop(self) -> Arc<Outcomes> {
        self.stop.store(true, Relaxed);
        for client in self.clients {
            client.await.expect("a client ends");
        }
        self.outcomes
    }
}

pub const CENTRAL: &str = "/api/v1/users/me";
pub const WORKSPACE: &str = "/api/v1/workspaces/w1/files";
pub const EXTENSION: &str = "/api/v1/workspaces/w1/agents/a1/runtime/ext/github/actions";

/// Asserts that no POST was executed twice, over all endpoints of each family.
#[track_caller]
pub fn assert_posts_ran_once(scene: &Scene) -> usize {
    let mut all = 0;
    let [one, two] = &scene.workspace;
    for endpoints in [vec![&scene.central], vec![one, two], vec![&scene.extension]] {
        let mut posts: Vec<String> = endpoints.iter().flat_map(|endpoint| endpoint.posts()).collect();
        let count = posts.len();
        posts.sort();
        let twice: Vec<&String> = posts
            .windows(2)
            .filter(|pair| pair[0] == pair[1])
            .map(|pair| &pair[0])
            .collect();
        assert!(twice.is_empty(), "executed twice: {twice:?}");
        all += count;
    }
    all
}

/// Waits until something has become true.
pub async fn settles(what: &str, within: Duration, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} within {within:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn faults_of_some_upstreams_harm_nobody_else_and_leave_nothing_behind() {
    let _alone = crate::alone();
    let time = crate::seconds("FAULT_SECONDS", 30);
    let mut scene = Scene::start();
    crate::runtime().block_on(async {
        let address = scene.gateway.public();
        let pause = Duration::from_millis(5);
        let start = |path| Traffic::start(address, path, 8, pause);
        let (central, workspace, extension) = (start(CENTRAL), start(WORKSPACE), start(EXTENSION));
        // All that a gateway keeps for good, connections and buffers, is there after the first faults.
        let (hurt, rest) = (Duration::from_millis(700), Duration::from_millis(700));
        let end = Instant::now() + time;
        scene.break_until(Instant::now() + time / 4, hurt, rest).await;
        let before = (
            observed::descriptors(&scene.gateway),
            observed::resident(&scene.gateway),
        );
        let faults = scene.break_until(end, hurt, rest).await;
        assert!(faults > 3, "only {faults} faults");

        // Mended, all is served again.
        let good = |traffic: &Traffic| traffic.outcomes.of("200");
        let counts = [good(&workspace), good(&extension)];
        settles("service of every family", Duration::from_secs(5), || {
            good(&workspace) > counts[0] + 20 && good(&extension) > counts[1] + 20
        })
        .await;
        let after = (
            observed::descriptors(&scene.gateway),
            observed::resident(&scene.gateway),
        );
        let outcomes = [central.stop().await, workspace.stop().await, extension.stop().await];
        println!(
            "{} faults; descriptors and KiB before and after: {before:?}, {after:?}",
            faults
        );
        for (family, outcomes) in ["central", "workspace", "extension"].iter().zip(&outcomes) {
            println!("{family}: {:?}", outcomes.all());
        }

        let healthy = outcomes[0].all();
        assert_eq!(
            healthy.keys().collect::<Vec<_>>(),
            ["200"],
            "a healthy family's requests: {healthy:?}"
        );
        assert!(
            outcomes[2].all().len() > 1,
            "faults show in their own family: {:?}",
            outcomes[2].all()
        );
        for outcomes in &outcomes {
            // The gateway answers with nothing but the codes of its table, and closes no connection unanswered.
            let known = ["200", "502", "503", "504"];
            let all = outcomes.all();
            assert!(all.keys().all(|outcome| known.contains(&outcome.as_str())), "{all:?}");
        }
        let posts = assert_posts_ran_once(&scene);
        println!("{posts} POSTs executed, each once");
        settles("places given back", Duration::from_secs(5), || {
            observed::metric(&scene.gateway, "gateway_requests_in_flight{") == 0.0
        })
        .await;
        assert!(after.0 <= before.0 + 40, "descriptors: {before:?}, {after:?}");
        assert!(
            after.1 <= before.1 + before.1 / 5 + 4_096,
            "memory in KiB: {before:?}, {after:?}"
        );
        let output = scene.gateway.all_output();
        assert!(!output.contains("panicked"), "{output}");
    });
}
