//! Reloads one after the other, under requests, WebSockets and HTTP/2 streams: nobody notices.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::fault::{CENTRAL, WORKSPACE, settles};
use crate::harness::EXTENSION;
use crate::harness::deployment::Deployment;
use crate::harness::http2::{Http2Client, get};
use crate::harness::process::Gateway;
use crate::load::{Client, Latencies};
use crate::observed;
use crate::upstream_process::{Mode, UpstreamProcess};

/// Requests a second.
const RATE: u64 = 200;
/// Streams on one HTTP/2 connection.
const STREAMS_PER_CONNECTION: usize = 10;
/// Where times are this short, the machine's own unrest is most of them.
const FLOOR: Duration = Duration::from_millis(5);

/// How much of everything.
struct Plan {
    reloads: usize,
    websockets: usize,
    streams: usize,
    /// From one reload to the next.
    pause: Duration,
}

/// What one run has measured.
struct Measured {
    before: Latencies,
    under: Latencies,
    resident: (u64, u64),
    descriptors: (usize, usize),
}

#[test]
fn reloads_under_traffic_disturb_nobody() {
    let _alone = crate::alone();
    let measured = run(&Plan {
        reloads: 30,
        websockets: 20,
        streams: 10,
        pause: Duration::from_millis(50),
    });
    let (before, after) = measured.descriptors;
    assert!(after <= before + 8, "descriptors went from {before} to {after}");
}

#[test]
#[ignore = "two minutes: make reload-storm"]
fn reload_storm() {
    let _alone = crate::alone();
    let reloads = std::env::var("RELOADS").map_or(500, |text| text.parse().expect("a number"));
    let measured = run(&Plan {
        reloads,
        websockets: 200,
        streams: 50,
        pause: Duration::from_millis(100),
    });
    let (before, under) = (measured.before.quantile(0.99), measured.under.quantile(0.99));
    let within = |(before, after): (u64, u64)| after * 100 <= before * 105;
    let descriptors = (measured.descriptors.0 as u64, measured.descriptors.1 as u64);
    assert!(within(measured.resident), "memory {:?} KiB", measured.resident);
    assert!(within(descriptors), "descriptors {descriptors:?}");
    assert!(
        under <= before.max(FLOOR).mul_f64(1.2),
        "p99 went from {before:?} to {under:?}"
    );
}

fn run(plan: &Plan) -> Measured {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [central, workspace, extension] = [(); 3].map(|()| UpstreamProcess::start(folder.path()));
    let deployment = Deployment::new()
        .with_tables("[log]\naccess = false\n[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nh2c = true")
        .with_url("central", &central.url())
        .with_url("workspace", &workspace.url())
        .with_url("extension", &extension.url())
        .with_only_upstream_keys("central", "ready = \"/readyz\"")
        .with_upstream_keys("extension", "response_timeout = \"10m\"");
    let gateway = deployment.start();
    let files = Files::of(&deployment, &central);
    let address = gateway.public();
    let runtime = crate::runtime();
    runtime.block_on(async {
        let ready = || gateway.admin_get("/readyz").status == 200;
        settles("readiness", Duration::from_secs(10), ready).await;
        extension.set(Mode::Hang).await;
    });
    let streams = Streams::open(address, plan.streams);
    let stop = Arc::new(AtomicBool::new(false));
    let measured = std::thread::scope(|scope| {
        // However it ends, the traffic does too.
        let _stopping = Stopping(&stop);
        let websockets = scope.spawn({
            let (stop, number) = (stop.clone(), plan.websockets);
            move || crate::runtime().block_on(echo(address, number, &stop))
        });
        let in_flight =
            || observed::metric(&gateway, "gateway_requests_in_flight{") as usize >= plan.websockets + plan.streams;
        runtime.block_on(settles("the traffic", Duration::from_secs(30), in_flight));
        let time = plan.pause * u32::try_from(plan.reloads).unwrap_or(u32::MAX);
        let quiet = Arc::new(AtomicBool::new(false));
        let before = scope.spawn({
            let quiet = quiet.clone();
            move || crate::runtime().block_on(steady(address, &quiet))
        });
        std::thread::sleep(time);
        quiet.store(true, Relaxed);
        let before = before.join().expect("the requests");
        let under = scope.spawn({
            let stop = stop.clone();
            move || crate::runtime().block_on(steady(address, &stop))
        });
        let (mut resident, mut descriptors) = ((0, 0), (0, 0));
        for turn in 0..plan.reloads {
            let due = Instant::now() + plan.pause;
            files.turn(&gateway, turn);
            if turn == plan.reloads / 5 {
                (resident.0, descriptors.0) = (observed::resident(&gateway), observed::descriptors(&gateway));
            }
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        (resident.1, descriptors.1) = (observed::resident(&gateway), observed::descriptors(&gateway));
        stop.store(true, Relaxed);
        let under = under.join().expect("the requests");
        let echoed = websockets.join().expect("the WebSockets");
        println!("{echoed} messages through {} WebSockets", plan.websockets);
        Measured {
            before,
            under,
            resident,
            descriptors,
        }
    });
    // What has waited all the time is answered by the generation that it began in.
    runtime.block_on(extension.set(Mode::Sound));
    streams.are_answered();
    runtime.block_on(settles("gauges at 0", Duration::from_secs(20), || {
        observed::metric(&gateway, "gateway_requests_in_flight{") == 0.0
    }));
    assert!(!gateway.all_output().contains("panicked"));
    let times = |latencies: &Latencies| {
        let (half, most) = (latencies.quantile(0.5), latencies.quantile(0.99));
        format!("p50 {half:?} and p99 {most:?} of {}", latencies.count())
    };
    println!(
        "{} reloads; requests before {}, under reloads {}; resident {:?} KiB, descriptors {:?}",
        plan.reloads,
        times(&measured.before),
        times(&measured.under),
        measured.resident,
        measured.descriptors
    );
    measured
}

/// What the files say in turn.
struct Files {
    folder: std::path::PathBuf,
    configuration: String,
    contract: String,
    extra_url: String,
}

impl Files {
    fn of(deployment: &Deployment, central: &UpstreamProcess) -> Self {
        let folder = deployment.folder().to_owned();
        let read = |name: &str| fs::read_to_string(folder.join(name)).expect(name);
        Self {
            configuration: read("gateway.toml"),
            contract: read("contract.toml"),
            extra_url: central.url(),
            folder,
        }
    }

    /// Writes the next state and has it reloaded: a family's table changes each time, families change their places, one
    /// comes and goes, and now and then nothing changes or the file is at fault.
    fn turn(&self, gateway: &Gateway, turn: usize) {
        let before = gateway.reloads();
        let (expected, turn) = match turn % 10 {
            7 => ("unchanged", turn - 1),
            8 => ("refused", turn),
            _ => ("applied", turn),
        };
        let idle = format!("idle_timeout = \"{}s\"\n", 20 + turn % 7);
        let mut configuration = format!(
            "{}\n",
            self.configuration
                .replace("[upstream.workspace]\n", &format!("[upstream.workspace]\n{idle}"))
        );
        let mut contract = self.contract.clone();
        if turn % 2 == 1 {
            let family = "[[family]]\nname = \"extra\"\nclaims = [\"/extra/**\"]\n\n[[family]]";
            contract = contract.replacen("[[family]]", family, 1);
            configuration.push_str(&format!(
                "[upstream.extra]\nurl = '{}'\nready = false\n",
                self.extra_url
            ));
        }
        if expected == "refused" {
            configuration.push_str("[upstream.nobody]\n");
        }
        fs::write(self.folder.join("contract.toml"), contract).expect("the contract is written");
        fs::write(self.folder.join("gateway.toml"), configuration).expect("the configuration is written");
        gateway.signal(Signal::SIGHUP);
        assert_eq!(gateway.wait_for_reload(before), expected, "turn {turn}");
    }
}

/// Sends requests at a steady rate, each timed from the moment when it was due; none may fail.
async fn steady(address: SocketAddr, stop: &AtomicBool) -> Latencies {
    let mut idle: Vec<Client> = Vec::new();
    let mut asking = JoinSet::new();
    let mut taken = Latencies::default();
    let mut ticks = tokio::time::interval(Duration::from_micros(1_000_000 / RATE));
    for turn in 0.. {
        let due = ticks.tick().await.into_std();
        while let Some(ended) = asking.try_join_next() {
            let (client, due) = ended.expect("a client");
            taken.add_taken(due);
            idle.push(client);
        }
        if stop.load(Relaxed) {
            break;
        }
        let mut client = idle.pop().unwrap_or_else(|| Client::new(address));
        let target = if turn % 2 == 0 { CENTRAL } else { WORKSPACE };
        asking.spawn(async move {
            let answer = client.ask("GET", target).await;
            assert_eq!(answer.ok(), Some(200), "{target}");
            (client, due.elapsed())
        });
    }
    while let Some(ended) = asking.join_next().await {
        taken.add_taken(ended.expect("a client").1);
    }
    taken
}

/// Keeps WebSockets open through which a message goes to and fro each second. Answers how many there were.
async fn echo(address: SocketAddr, number: usize, stop: &Arc<AtomicBool>) -> usize {
    let mut talking = JoinSet::new();
    for turn in 0..number {
        let mut socket = Client::open_websocket(address, WORKSPACE).await.expect("a WebSocket");
        let stop = stop.clone();
        talking.spawn(async move {
            let mut echoed = 0;
            tokio::time::sleep(Duration::from_millis((turn * 37) as u64 % 1_000)).await;
            while !stop.load(Relaxed) {
                let message = format!("{turn:08}");
                socket.write_all(message.as_bytes()).await.expect("an open WebSocket");
                let mut answer = [0; 8];
                let read = tokio::time::timeout(Duration::from_secs(20), socket.read_exact(&mut answer)).await;
                read.expect("an answer in time").expect("an open WebSocket");
                assert_eq!(answer, message.as_bytes());
                echoed += 1;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            echoed
        });
    }
    let mut echoed = 0;
    while let Some(ended) = talking.join_next().await {
        echoed += ended.expect("a WebSocket");
    }
    echoed
}

/// HTTP/2 streams that wait for their answer.
struct Streams(Vec<(Http2Client, Vec<h2::client::ResponseFuture>)>);

impl Streams {
    fn open(address: SocketAddr, number: usize) -> Self {
        let open = |_| {
            let mut client = Http2Client::cleartext(address);
            let streams = (0..STREAMS_PER_CONNECTION).map(|_| client.send(get(EXTENSION), true).0);
            let streams = streams.collect();
            (client, streams)
        };
        Self((0..number / STREAMS_PER_CONNECTION).map(open).collect())
    }

    fn are_answered(self) {
        for (client, streams) in self.0 {
            for stream in streams {
                let answer = client.run(stream).expect("an answer");
                assert_eq!(answer.status(), 200);
            }
        }
    }
}

/// Ends the traffic when it is dropped.
struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
