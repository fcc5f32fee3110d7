//! A gateway that is replaced by a new process again and again under load: no request fails.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::fault::{CENTRAL, EXTENSION, Traffic, WORKSPACE};
use crate::harness::deployment::Deployment;
use crate::harness::http2::Http2Client;
use crate::observed;
use crate::upstream_process::{PATIENT_PROBE, UpstreamProcess};

/// A client of HTTP/2 that asks without a pause; answers how many requests were answered, and how one was not.
fn multiplexed(address: SocketAddr, stop: Arc<AtomicBool>) -> JoinHandle<(usize, Vec<String>)> {
    std::thread::spawn(move || {
        let (mut answered, mut failures) = (0, Vec::new());
        while !stop.load(Ordering::Relaxed) {
            let mut client = Http2Client::cleartext(address);
            // Until the gateway asks to leave.
            while let Some(answer) = client.try_get(CENTRAL).filter(|_| !stop.load(Ordering::Relaxed)) {
                match answer {
                    Ok(answer) if answer.status == 200 => answered += 1,
                    other => failures.push(format!("{other:?}")),
                }
            }
        }
        (answered, failures)
    })
}

#[test]
fn upgrades_lose_no_request() {
    let _alone = crate::alone();
    let rounds = crate::number("UPGRADE_ROUNDS", 2);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let upstream = UpstreamProcess::start(folder.path());
    let mut deployment = Deployment::new()
        .with_tables("[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nh2c = true")
        .with_tables("[log]\naccess = false")
        .with_tables("[drain]\ndelay = \"2s\"\ntimeout = \"20s\"");
    for family in ["central", "workspace", "extension"] {
        deployment = deployment
            .with_url(family, &upstream.url())
            .with_only_upstream_keys(family, PATIENT_PROBE);
    }
    let mut gateway = deployment.start();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(crate::fault::settles("readiness", Duration::from_secs(20), || {
        gateway.admin_get("/readyz").status == 200
    }));
    let traffic = {
        let _on_it = runtime.enter();
        let start = |path| Traffic::start(gateway.public(), path, 6, Duration::from_millis(10));
        [CENTRAL, WORKSPACE, EXTENSION].map(start)
    };
    let stop = Arc::<AtomicBool>::default();
    let streams = [(); 2].map(|()| multiplexed(gateway.public(), stop.clone()));

    let sound = std::fs::read_to_string(deployment.write()).expect("the configuration");
    let began = Instant::now();
    for round in 0..rounds {
        if round == rounds / 2 {
            deployment.write_text("nonsense");
            gateway.signal(Signal::SIGUSR2);
            runtime.block_on(crate::fault::settles(
                "a refused upgrade",
                Duration::from_secs(20),
                || observed::metric(&gateway, "gateway_upgrade_failures_total") == 1.0,
            ));
            deployment.write_text(&sound);
        }
        gateway.upgrade();
    }
    let took = began.elapsed();
    stop.store(true, Ordering::Relaxed);
    let mut requests = 0;
    for streams in streams {
        let (answered, failures) = streams.join().expect("a client ends");
        assert!(failures.is_empty(), "over HTTP/2: {failures:?}");
        requests += answered;
    }
    for traffic in traffic {
        let outcomes = runtime.block_on(traffic.stop()).all();
        assert_eq!(outcomes.keys().collect::<Vec<_>>(), ["200"], "{outcomes:?}");
        requests += outcomes["200"];
    }
    println!("{rounds} upgrades and one refused in {took:?}: {requests} requests, none failed");
    assert!(requests > 100, "only {requests} requests");
}
