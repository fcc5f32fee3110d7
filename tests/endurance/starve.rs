//! One family hangs under a load of requests and idle WebSockets: the others must not notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::fault::{self, settles};
use crate::harness::deployment::Deployment;
use crate::load::{Client, Latencies};
use crate::observed;
use crate::upstream_process::{Mode, UpstreamProcess};

const REQUESTS: usize = 2_000;
const WEBSOCKETS: usize = 500;
const EXTENSION: &str = "/api/v1/workspaces/w1/agents/a1/runtime/ext";
/// Where times are this short, the machine's own unrest is most of them.
const FLOOR: Duration = Duration::from_millis(10);
/// How many times its baseline another family's p99 may be. What is shipped keeps to 2; a development build spends about
/// ten times as much on each of the refusals beside it, all on the same cores.
const MOST: u32 = if cfg!(debug_assertions) { 4 } else { 2 };

/// Asks a family every 20 ms for a while, whatever the answers take.
async fn latencies(address: std::net::SocketAddr, target: &'static str, time: Duration) -> Latencies {
    let mut clients: Vec<Client> = (0..4).map(|_| Client::new(address)).collect();
    let mut taken = Latencies::default();
    let end = Instant::now() + time;
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let mut turn = 0;
    while Instant::now() < end {
        ticks.tick().await;
        let client = &mut clients[turn % 4];
        turn += 1;
        let began = Instant::now();
        assert_eq!(client.ask("GET", target).await.ok(), Some(200), "{target}");
        taken.add(began);
    }
    taken
}

/// What one run has measured.
struct Measured {
    baseline: Latencies,
    loaded: Latencies,
    readiness: Latencies,
    recovery: Duration,
}

impl Measured {
    /// What is not as it must be.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.recovery >= Duration::from_secs(3) {
            faults.push(format!("recovery took {:?}", self.recovery));
        }
        let readiness = self.readiness.quantile(0.99);
        if readiness > Duration::from_millis(50) {
            faults.push(format!("readiness took {readiness:?}"));
        }
        let (before, under) = (self.baseline.quantile(0.99), self.loaded.quantile(0.99));
        if under > before.max(FLOOR) * MOST {
            faults.push(format!("another family's p99 went from {before:?} to {under:?}"));
        }
        faults
    }
}

#[test]
fn a_hanging_family_does_not_slow_the_others() {
    let _alone = crate::alone();
    let time = crate::seconds("STARVE_SECONDS", 6);
    // Other work on the machine slows one part of a run and not the other: that is no fault of the gateway's, and does
    // not happen three times.
    for chance in (0..3).rev() {
        let faults = run(time).faults();
        if faults.is_empty() {
            return;
        }
        println!("{faults:?}");
        assert!(chance > 0, "{faults:?}");
    }
}

fn run(time: Duration) -> Measured {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [central, workspace, extension] = [(); 3].map(|()| UpstreamProcess::start(folder.path()));
    let deployment = Deployment::new()
        .with_tables("[log]\naccess = false")
        .with_url("central", &central.url())
        .with_url("extension", &extension.url())
        .with_url("workspace", &workspace.url())
        .with_only_upstream_keys("workspace", "ready = \"/readyz\"\nresponse_timeout = \"20s\"");
    let gateway = deployment.start();
    let (address, admin) = (gateway.public(), gateway.admin());
    // The measuring clients have a thread of their own, or they would measure the load's.
    let measured = std::thread::scope(|scope| {
        let (finished, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let load = scope.spawn({
            let (finished, stop, workspace) = (finished.clone(), stop.clone(), &workspace);
            move || crate::runtime().block_on(hang(address, workspace, &finished, &stop))
        });
        // However the measuring ends, the load does too.
        let _stopping = Stopping(&finished, &stop);
        let measured = crate::runtime().block_on(async {
            settles("readiness", Duration::from_secs(10), || {
                gateway.admin_get("/readyz").status == 200
            })
            .await;
            let baseline = latencies(address, fault::CENTRAL, time).await;
            finished.store(true, Relaxed);
            settles("the load", Duration::from_secs(30), || {
                observed::metric(&gateway, "gateway_requests_in_flight{family=\"workspace\"}") >= 1_024.0
                    && observed::metric(&gateway, "gateway_requests_in_flight{family=\"extension\"}")
                        >= WEBSOCKETS as f64
            })
            .await;
            // The last of them have been refused, too.
            tokio::time::sleep(Duration::from_secs(2)).await;
            let (loaded, readiness) = tokio::join!(
                latencies(address, fault::CENTRAL, time),
                latencies(admin, "/readyz", time)
            );
            // The upstream is well again: how long until it is served as before?
            workspace.set(Mode::Sound).await;
            let began = Instant::now();
            let mut client = Client::new(address);
            let mut row = 0;
            while row < 20 {
                row = match client.ask("GET", fault::WORKSPACE).await {
                    Ok(200) => row + 1,
                    _ => 0,
                };
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Measured {
                baseline,
                loaded,
                readiness,
                recovery: began.elapsed(),
            }
        });
        stop.store(true, Relaxed);
        let statuses = load.join().expect("the load ends");
        println!("what the load has seen: {statuses:?}");
        assert!(
            statuses.iter().all(|(status, _)| [200, 503, 504].contains(status)),
            "{statuses:?}"
        );
        measured
    });
    let times = |latencies: &Latencies| {
        format!(
            "p50 {:?} and p99 {:?} of {}",
            latencies.quantile(0.5),
            latencies.quantile(0.99),
            latencies.count()
        )
    };
    println!(
        "another family {}; under load {}; readiness {}; recovery {:?}",
        times(&measured.baseline),
        times(&measured.loaded),
        times(&measured.readiness),
        measured.recovery
    );
    crate::runtime().block_on(settles("gauges at 0", Duration::from_secs(10), || {
        observed::metric(&gateway, "gateway_requests_in_flight{") == 0.0
    }));
    measured
}

/// Ends the load when it is dropped.
struct Stopping<'s>(&'s AtomicBool, &'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.store(true, Relaxed);
    }
}

/// Waits for the start, then makes the upstream hang and keeps as many requests and WebSockets open until the stop.
/// Whoever is refused tries again when the answer says so, and is done with an answer. Answers how often which status
/// came.
async fn hang(
    address: std::net::SocketAddr,
    workspace: &UpstreamProcess,
    start: &AtomicBool,
    stop: &Arc<AtomicBool>,
) -> Vec<(u16, usize)> {
    while !start.load(Relaxed) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    workspace.set(Mode::Hang).await;
    let mut websockets = Vec::new();
    for _ in 0..WEBSOCKETS {
        websockets.push(Client::open_websocket(address, EXTENSION).await.expect("a WebSocket"));
    }
    let mut clients = JoinSet::new();
    for turn in 0..REQUESTS {
        let stop = stop.clone();
        clients.spawn(async move {
            let mut client = Client::new(address);
            let mut seen = Vec::new();
            while !stop.load(Relaxed) {
                match client.ask("GET", fault::WORKSPACE).await {
                    Ok(status) => seen.push(status),
                    Err(error) => panic!("a request is not answered: {error}"),
                }
                if seen.last() == Some(&200) {
                    break;
                }
                // Not before Retry-After, and not all at once.
                tokio::time::sleep(Duration::from_millis(1_000 + (turn * 97) as u64 % 3_000)).await;
            }
            seen
        });
    }
    let mut statuses = std::collections::BTreeMap::new();
    while let Some(seen) = clients.join_next().await {
        for status in seen.expect("a client ends") {
            *statuses.entry(status).or_insert(0) += 1;
        }
    }
    statuses.into_iter().collect()
}
