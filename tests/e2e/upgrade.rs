//! A new binary takes over, and whoever connects in the meantime is served; where it cannot, nothing has happened.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use command_fds::{CommandFdExt as _, FdMapping};
use nix::sys::signal::Signal;

use crate::harness::client::{Client, request_bytes};
use crate::harness::deployment::Deployment;
use crate::harness::process::{BINARY, Gateway, addresses_in_log, run_to_end};
use crate::harness::recorder::Answer;
use crate::harness::{CENTRAL, PATIENCE, WORKSPACE};
use crate::shutdown::{Gate, half_answer};

/// Clients that ask without a pause, on connections that are kept where the gateway keeps them and on new ones.
struct Traffic {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    failures: Arc<Mutex<Vec<String>>>,
    clients: Vec<JoinHandle<()>>,
}

impl Traffic {
    fn start(address: SocketAddr) -> Self {
        let traffic = Self {
            stop: Arc::default(),
            answered: Arc::default(),
            failures: Arc::default(),
            clients: Vec::new(),
        };
        let clients = [true, true, false].map(|keeps| {
            let (stop, answered, failures) = (traffic.stop.clone(), traffic.answered.clone(), traffic.failures.clone());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if let Err(failure) = ask_until_told_to_leave(address, keeps, &stop, &answered) {
                        failures.lock().expect("failures").push(failure);
                    }
                }
            })
        });
        Self {
            clients: clients.into(),
            ..traffic
        }
    }

    /// Waits for so many more answers.
    #[track_caller]
    fn wait_for(&self, answers: usize) {
        let enough = self.answered.load(Ordering::Relaxed) + answers;
        let deadline = std::time::Instant::now() + PATIENCE;
        while self.answered.load(Ordering::Relaxed) < enough {
            assert!(std::time::Instant::now() < deadline, "no answers any more");
            thread::park_timeout(Duration::from_millis(5));
        }
    }

    #[track_caller]
    fn assert_no_failures(self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("a client ends");
        }
        let failures = self.failures.lock().expect("failures");
        assert!(failures.is_empty(), "{} failed: {:?}", failures.len(), failures.first());
    }
}

/// Asks on one connection until the gateway wants to close it.
fn ask_until_told_to_leave(
    address: SocketAddr,
    keeps: bool,
    stop: &AtomicBool,
    answered: &AtomicUsize,
) -> Result<(), String> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(|error| format!("no connection: {error}"))?;
    let mut client = Client::of(stream);
    for turn in 1.. {
        let asked = std::time::Instant::now();
        let failed = |what: &dyn std::fmt::Debug| format!("request {turn} after {:?}: {what:?}", asked.elapsed());
        let request = format!("GET {CENTRAL} HTTP/1.1\r\nHost: gw\r\n\r\n");
        client.send_what_is_taken(request).map_err(|error| failed(&error))?;
        let response = client.try_response().map_err(|failure| failed(&failure))?;
        if response.status != 200 {
            return Err(format!("status {}", response.status));
        }
        answered.fetch_add(1, Ordering::Relaxed);
        let closes = response
            .values("connection")
            .iter()
            .any(|value| value.eq_ignore_ascii_case("close"));
        if closes || !keeps || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

#[track_caller]
fn wait_for_message(gateway: &Gateway, text: &str) {
    gateway.wait_for_output(text, |lines| lines.iter().any(|line| line.contains(text)).then_some(()));
}

fn failures(gateway: &Gateway) -> String {
    let metrics = gateway.admin_get("/metrics").text();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("gateway_upgrade_failures_total "));
    line.expect("the counter").to_owned()
}

#[test]
fn a_new_process_takes_over_again_and_again_and_nobody_is_refused() {
    let deployment = Deployment::probed().with_tables("[drain]\ndelay = \"2s\"\ntimeout = \"10s\"");
    let mut gateway = deployment.start();
    while gateway.admin_get("/readyz").status != 200 {
        thread::park_timeout(Duration::from_millis(5));
    }
    let traffic = Traffic::start(gateway.public());
    let mut pids = vec![gateway.pid()];
    for _ in 0..3 {
        traffic.wait_for(50);
        gateway.upgrade();
        assert_eq!(
            gateway.admin_get("/readyz").status,
            200,
            "it is ready as soon as it serves"
        );
        pids.push(gateway.pid());
    }
    traffic.wait_for(50);
    traffic.assert_no_failures();
    pids.dedup();
    assert_eq!(pids.len(), 4, "{pids:?}");
    gateway.signal(Signal::SIGTERM);
    wait_for_message(&gateway, "\"stopped\"");
}

#[test]
fn a_new_process_that_fails_changes_nothing() {
    let deployment = Deployment::new().with_tables("[upgrade]\nready_timeout = \"4s\"");
    let mut gateway = deployment.start();
    let traffic = Traffic::start(gateway.public());
    let sound = fs::read_to_string(deployment.write()).expect("the configuration");

    deployment.write_text(&format!("{sound}\nnonsense = true\n"));
    gateway.signal(Signal::SIGUSR2);
    wait_for_message(&gateway, "not upgraded");
    wait_for_message(&gateway, "exit status: 1");
    traffic.wait_for(20);
    assert_eq!(failures(&gateway), "gateway_upgrade_failures_total 1");

    // An upstream that nobody answers for: ready in the old process, which does not probe it, and never in the new one.
    let closed = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("its address");
    let central = deployment.upstream("central").url();
    let unready = sound.replace(
        &format!("url = '{central}'\nready = false"),
        &format!("url = 'http://{closed}'"),
    );
    assert_ne!(unready, sound);
    deployment.write_text(&unready);
    gateway.signal(Signal::SIGUSR2);
    wait_for_message(&gateway, "was not ready after 4 s");
    traffic.wait_for(20);
    assert_eq!(failures(&gateway), "gateway_upgrade_failures_total 2");

    deployment.write_text(&sound);
    gateway.upgrade();
    traffic.wait_for(20);
    traffic.assert_no_failures();
    assert_eq!(
        failures(&gateway),
        "gateway_upgrade_failures_total 0",
        "the new process counts anew"
    );
}

#[test]
fn the_new_binary_is_the_file_that_has_the_name_by_then() {
    let deployment = Deployment::new();
    let folder = tempfile::tempdir().expect("a folder");
    let name = folder.path().join("gateway");
    let point_to = |target: &str| {
        let next = folder.path().join("next");
        symlink(target, &next).expect("a link");
        fs::rename(next, &name).expect("the link is replaced");
    };
    point_to(BINARY);
    let mut gateway = started_as(&name, &deployment);
    for broken in ["/bin/false", "/nowhere", "/etc/hostname"] {
        point_to(broken);
        let before = failures(&gateway);
        gateway.signal(Signal::SIGUSR2);
        let deadline = std::time::Instant::now() + PATIENCE;
        while failures(&gateway) == before {
            assert!(
                std::time::Instant::now() < deadline,
                "{broken}: {}",
                gateway.all_output()
            );
            thread::park_timeout(Duration::from_millis(5));
        }
        assert_eq!(gateway.get(CENTRAL).status, 200, "{broken}");
    }
    point_to(BINARY);
    gateway.upgrade();
    assert_eq!(gateway.get(CENTRAL).status, 200);
}

fn started_as(name: &Path, deployment: &Deployment) -> Gateway {
    let written = deployment.command("run");
    let mut command = std::process::Command::new(name);
    command
        .args(written.get_args())
        .current_dir(name.parent().expect("a folder"));
    Gateway::start(command, addresses_in_log)
}

#[test]
fn requests_that_the_old_process_has_are_its_own_to_the_end() {
    let deployment = Deployment::new().with_tables("[drain]\ndelay = \"10s\"\ntimeout = \"20s\"");
    let mut gateway = deployment.start();
    let gate = Gate::default();
    deployment.upstream("workspace").answer(half_answer(&gate));
    let (public, mut in_flight) = (gateway.public(), gateway.client());
    in_flight.send(request_bytes("GET", WORKSPACE, &[], b""));
    deployment.upstream("workspace").wait_for_requests(1);
    let mut idle = gateway.client();
    assert_eq!(idle.request("GET", CENTRAL, &[]).status, 200);
    gateway.signal(Signal::SIGUSR2);
    wait_for_message(&gateway, "\"upgraded: ");
    // The new process serves whoever comes; the old one serves its own, and asks them to leave.
    assert_eq!(Client::connect(public).request("GET", CENTRAL, &[]).status, 200);
    let last = idle.request("GET", CENTRAL, &[]);
    assert_eq!(last.value("connection").to_ascii_lowercase(), "close");
    gate.open();
    assert_eq!(in_flight.response().text(), "first-last");
    drop(in_flight);
    // Nobody is left to wait for, so the old process does not wait for its delay.
    let before = std::time::Instant::now();
    gateway.adopt_successor();
    assert!(before.elapsed() < Duration::from_secs(8), "{:?}", before.elapsed());
}

#[test]
fn a_new_process_has_nothing_of_the_old_one_but_the_sockets() {
    let deployment = Deployment::new();
    let mut gateway = deployment.start();
    let descriptors = |gateway: &Gateway| {
        let entries = fs::read_dir(format!("/proc/{}/fd", gateway.pid())).expect("the process's descriptors");
        entries.count()
    };
    let mut counts = Vec::new();
    for _ in 0..3 {
        counts.push(descriptors(&gateway));
        // A client's connection and an upstream's, which the old process has at the moment of the upgrade.
        let mut client = gateway.client();
        assert_eq!(client.request("GET", CENTRAL, &[]).status, 200);
        assert!(descriptors(&gateway) > counts[counts.len() - 1]);
        gateway.upgrade();
        assert!(
            client.until_closed().is_empty(),
            "nobody else holds the client's connection"
        );
    }
    counts.push(descriptors(&gateway));
    counts.dedup();
    assert_eq!(counts.len(), 1, "{counts:?}");
}

#[test]
fn a_changed_address_is_bound_anew() {
    let deployment = Deployment::new();
    let mut gateway = deployment.start();
    let old = gateway.public();
    let text = fs::read_to_string(deployment.write()).expect("the configuration");
    deployment.write_text(&text.replace("public = \"127.0.0.1:0\"", "public = \"127.0.0.2:0\""));
    gateway.upgrade();
    let new = gateway.wait_for_output("the new address", |lines| {
        let last = lines.iter().rposition(|line| line.contains("\"listening\""))?;
        let (public, _) = addresses_in_log(&lines[last..])?;
        (public.ip() != old.ip()).then_some(public)
    });
    assert_eq!(Client::connect(new).request("GET", CENTRAL, &[]).status, 200);
    assert!(TcpStream::connect_timeout(&old, Duration::from_secs(1)).is_err());
    assert_eq!(gateway.admin_get("/livez").status, 200, "the other address is the same");
}

#[test]
fn a_stop_ends_an_upgrade_that_is_under_way() {
    let deployment = Deployment::new().with_tables("[upgrade]\nready_timeout = \"1h\"");
    let gateway = deployment.start();
    let text = fs::read_to_string(deployment.write()).expect("the configuration");
    deployment.write_text(&text.replace("ready = false", "ready = \"/nothing\""));
    for family in ["central", "workspace", "extension"] {
        deployment.upstream(family).answer(Answer::Silence);
    }
    gateway.signal(Signal::SIGUSR2);
    wait_for_message(&gateway, "upgrading: ");
    gateway.signal(Signal::SIGTERM);
    // Standard output ends with the last process that has it: the new one is gone, too.
    let ended = gateway.wait_for_exit(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

#[test]
fn taking_over_is_not_for_people() {
    let deployment = Deployment::new();
    let ended = run_to_end(deployment.command("run").arg("--take-over"));
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("SIGUSR2"), "{}", ended.stderr);
}

#[test]
fn sockets_that_a_service_manager_passes_are_used() {
    let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a socket"));
    let [public, admin] = sockets
        .each_ref()
        .map(|socket| socket.local_addr().expect("an address"));
    let deployment = Deployment::new().with_tables(&format!("[listen]\npublic = \"{public}\"\nadmin = \"{admin}\""));
    let mut command = deployment.command("run");
    // In another order than the configuration's: they are told apart by their addresses.
    let mappings = sockets.into_iter().rev().zip(3..).map(|(socket, child_fd)| FdMapping {
        parent_fd: OwnedFd::from(socket),
        child_fd,
    });
    command
        .env("LISTEN_FDS", "2")
        .env_remove("LISTEN_PID")
        .env("LISTEN_FDNAMES", "gateway.socket:gateway.socket")
        .fd_mappings(mappings.collect())
        .expect("descriptors");
    let mut gateway = Gateway::start(command, addresses_in_log);
    assert_eq!((gateway.public(), gateway.admin()), (public, admin));
    assert_eq!(gateway.get(CENTRAL).status, 200);
    gateway.upgrade();
    assert_eq!(gateway.get(CENTRAL).status, 200);
    assert_eq!(gateway.admin_get("/livez").status, 200);
}
