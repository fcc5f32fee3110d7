//! What systemd hears, over a real socket (`sd_notify(3)`), and what its units say.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use crate::harness::PATIENCE;
use crate::harness::deployment::Deployment;
use crate::harness::process::{BINARY, Gateway, addresses_in_log};

/// The service manager's end.
struct Manager {
    socket: UnixDatagram,
    _folder: tempfile::TempDir,
}

impl Manager {
    fn start(deployment: &Deployment, more: &[(&str, &str)]) -> (Self, Gateway) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut command = deployment.command("run");
        command.env("NOTIFY_SOCKET", path).envs(more.iter().copied());
        let gateway = Gateway::start(command, addresses_in_log);
        let manager = Self {
            socket,
            _folder: folder,
        };
        (manager, gateway)
    }

    /// The lines of a message that must be there by now.
    #[track_caller]
    fn heard(&self) -> Vec<String> {
        self.socket.set_nonblocking(true).expect("a socket");
        let message = self.next();
        self.socket.set_nonblocking(false).expect("a socket");
        message
    }

    /// Asks for a reload, which must begin at some time and end with a status.
    #[track_caller]
    fn hears_of_a_reload(&self, gateway: &Gateway, status: &str) {
        gateway.signal(Signal::SIGHUP);
        let begun = self.next();
        assert_eq!(begun[0], "RELOADING=1");
        let at = begun[1].strip_prefix("MONOTONIC_USEC=").expect("a time");
        assert!(at.parse::<u64>().is_ok_and(|at| at > 0), "{at}");
        assert_eq!(self.next(), ["READY=1", status]);
    }

    /// The lines of the next message.
    #[track_caller]
    fn next(&self) -> Vec<String> {
        let mut message = [0; 4096];
        let length = self.socket.recv(&mut message).expect("a message");
        let text = std::str::from_utf8(&message[..length]).expect("text");
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn systemd_hears_of_the_start_the_upgrade_and_the_end() {
    let deployment = Deployment::new().with_tables("[drain]\ndelay = \"100ms\"\ntimeout = \"3s\"");
    let (manager, mut gateway) = Manager::start(&deployment, &[]);
    let first = gateway.pid();
    let serving = manager.next();
    assert_eq!(serving[..2], [format!("MAINPID={first}"), "READY=1".to_owned()]);
    assert!(serving[2].starts_with("STATUS=serving contract "), "{serving:?}");
    gateway.upgrade();
    // A service whose main process ends before another one is named has ended.
    let serving = manager.heard();
    assert_eq!(
        serving[..2],
        [format!("MAINPID={}", gateway.pid()), "READY=1".to_owned()]
    );
    assert_ne!(gateway.pid(), first);
    gateway.signal(Signal::SIGTERM);
    // The old process has ended without a word: the service is not stopping when it does.
    assert_eq!(
        manager.next(),
        ["STOPPING=1", "STATUS=draining", "EXTEND_TIMEOUT_USEC=4000000"]
    );
}

#[test]
fn what_has_failed_is_in_the_status() {
    let deployment = Deployment::new();
    let (manager, gateway) = Manager::start(&deployment, &[]);
    let started = manager.next();
    let serving = started.last().expect("a status");
    let sound = std::fs::read_to_string(deployment.write()).expect("the configuration");
    deployment.write_text("nonsense");
    gateway.signal(Signal::SIGUSR2);
    assert_eq!(
        manager.next(),
        [format!("{serving}; the last upgrade has failed, see the log")]
    );
    manager.hears_of_a_reload(
        &gateway,
        &format!("{serving}; the last reload was refused, see /reload"),
    );
    deployment.write_text(&sound);
    manager.hears_of_a_reload(&gateway, serving);
}

#[test]
fn the_watchdog_is_fed_by_whoever_serves() {
    let deployment = Deployment::new();
    let (manager, mut gateway) = Manager::start(&deployment, &[("WATCHDOG_USEC", "100000")]);
    assert!(manager.next().contains(&"READY=1".to_owned()));
    for _ in 0..3 {
        assert_eq!(manager.next(), ["WATCHDOG=1"]);
    }
    gateway.upgrade();
    while !manager.next().contains(&format!("MAINPID={}", gateway.pid())) {}
    for _ in 0..3 {
        assert_eq!(manager.next(), ["WATCHDOG=1"]);
    }
}

/// The units as they are shipped, for the binary under test.
fn units(folder: &Path) -> Vec<PathBuf> {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/systemd");
    let units = ["gateway.service", "gateway.socket"].map(|name| {
        let text = std::fs::read_to_string(shipped.join(name)).expect("a unit");
        let path = folder.join(name);
        std::fs::write(&path, text.replace("/usr/bin/gateway", BINARY)).expect("a unit");
        path
    });
    units.into()
}

#[test]
fn the_units_are_valid_and_give_no_more_rights_than_needed() {
    let folder = tempfile::tempdir().expect("a folder");
    let units = units(folder.path());
    let Ok(verified) = Command::new("systemd-analyze").arg("verify").args(&units).output() else {
        eprintln!("!! systemd-analyze is not installed (apt-get install systemd): the units are not verified");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && !said.contains("gateway"), "{said}");
    // In tenths: what is left are the network, a port below 1024 and what upgrades need.
    let rated = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=20", "--no-pager"])
        .arg(&units[0])
        .output()
        .expect("a rating");
    let said = String::from_utf8_lossy(&rated.stdout);
    assert!(rated.status.success(), "{said}");
}
