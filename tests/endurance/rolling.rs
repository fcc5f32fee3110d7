//! Two gateways behind a balancer that obeys readiness, restarted one after the other under load: no request fails.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::balancer::Balancer;
use crate::fault::{CENTRAL, EXTENSION, Traffic, WORKSPACE};
use crate::harness::PATIENCE;
use crate::harness::deployment::Deployment;
use crate::harness::process::Gateway;
use crate::upstream_process::{PATIENT_PROBE, UpstreamProcess};

/// A gateway that keeps its address when it is restarted.
struct Member {
    address: SocketAddr,
    admin: SocketAddr,
    upstream: String,
    running: Option<(Deployment, Gateway)>,
}

impl Member {
    /// Starts the first process on an address that nobody else takes in between: one of this test's own.
    fn start(number: u8, upstream: &UpstreamProcess) -> Self {
        let [.., high, low] = std::process::id().to_be_bytes();
        let own = SocketAddr::from((Ipv4Addr::new(127, 100 + number, high, low), 0));
        let mut member = Self {
            address: own,
            admin: own,
            upstream: upstream.url(),
            running: None,
        };
        let (public, admin) = member.run();
        (member.address, member.admin) = (public, admin);
        member
    }

    fn run(&mut self) -> (SocketAddr, SocketAddr) {
        let (public, admin) = (self.address, self.admin);
        let mut deployment = Deployment::new()
            .with_tables(&format!("[listen]\npublic = \"{public}\"\nadmin = \"{admin}\""))
            .with_tables("[log]\naccess = false")
            // Several times what the balancer takes to notice, for a busy machine.
            .with_tables("[drain]\ndelay = \"3s\"\ntimeout = \"20s\"");
        for family in ["central", "workspace", "extension"] {
            deployment = deployment
                .with_url(family, &self.upstream)
                .with_only_upstream_keys(family, PATIENT_PROBE);
        }
        let gateway = deployment.start();
        let addresses = (gateway.public(), gateway.admin());
        self.running = Some((deployment, gateway));
        addresses
    }

    fn restart(&mut self) {
        let (deployment, gateway) = self.running.take().expect("a running gateway");
        gateway.signal(Signal::SIGTERM);
        let ended = gateway.wait_for_exit(PATIENCE);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stdout);
        drop(deployment);
        self.run();
    }
}

#[test]
fn rolling_restarts_lose_no_request() {
    let _alone = crate::alone();
    let rounds = crate::number("ROLLING_ROUNDS", 1);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let upstream = UpstreamProcess::start(folder.path());
    let mut members = [1, 2].map(|number| Member::start(number, &upstream));
    let balancer = Balancer::start(folder.path(), &members.each_ref().map(|member| member.address));
    balancer.wait_until_all_are_up();

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let traffic = {
        let _on_it = runtime.enter();
        let start = |path| Traffic::start(balancer.address, path, 6, Duration::from_millis(10));
        [CENTRAL, WORKSPACE, EXTENSION].map(start)
    };
    let began = Instant::now();
    for _ in 0..rounds {
        for member in &mut members {
            member.restart();
            balancer.wait_until_all_are_up();
        }
    }
    let took = began.elapsed();
    let mut requests = 0;
    for traffic in traffic {
        let outcomes = runtime.block_on(traffic.stop()).all();
        assert_eq!(outcomes.keys().collect::<Vec<_>>(), ["200"], "{outcomes:?}");
        requests += outcomes["200"];
    }
    println!(
        "{rounds} rolling restarts of two gateways behind {} in {took:?}: {requests} requests, none failed",
        balancer.name()
    );
    assert!(requests > 100, "only {requests} requests");
}
