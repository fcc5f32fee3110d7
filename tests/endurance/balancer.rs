//! A balancer in front of several gateways that obeys their readiness: HAProxy where it is installed, and otherwise one of
//! our own.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt as _, FdMapping};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::harness::PATIENCE;
use crate::load::Client;

/// From one look at a gateway's readiness to the next.
const INTERVAL: Duration = Duration::from_millis(200);
/// Bad looks in a row that take a gateway out. An answer may be late on a busy machine, which is no bad one.
const BAD_LOOKS: u32 = 2;

/// A running balancer. It ends when this is dropped.
pub struct Balancer {
    pub address: SocketAddr,
    kind: Kind,
}

enum Kind {
    HaProxy { child: Child, control: PathBuf },
    Own { up: Arc<[AtomicBool]>, _runtime: Runtime },
}

impl Balancer {
    /// Starts one in front of these gateways.
    pub fn start(folder: &Path, gateways: &[SocketAddr]) -> Self {
        let socket = StdListener::bind("127.0.0.1:0").expect("a socket");
        let address = socket.local_addr().expect("its address");
        let kind = match ha_proxy(folder, gateways, socket.try_clone().expect("the socket")) {
            Some(kind) => kind,
            None => {
                println!(
                    "!! HAProxy is not installed (apt-get install haproxy): a balancer of our own takes its place"
                );
                own(socket, gateways)
            }
        };
        Self { address, kind }
    }

    /// Its name, for what is printed.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::HaProxy { .. } => "HAProxy",
            Kind::Own { .. } => "our own balancer",
        }
    }

    /// Waits until it sends traffic to all of its gateways.
    pub fn wait_until_all_are_up(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.are_all_up() {
            assert!(
                Instant::now() < deadline,
                "the balancer does not find all gateways ready"
            );
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    fn are_all_up(&self) -> bool {
        match &self.kind {
            Kind::HaProxy { control, .. } => {
                let states = states(control);
                !states.is_empty() && states.iter().all(|state| state == "UP")
            }
            Kind::Own { up, .. } => up.iter().all(|up| up.load(Ordering::Relaxed)),
        }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        if let Kind::HaProxy { child, .. } = &mut self.kind {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Without second attempts: what fails is seen.
fn ha_proxy(folder: &Path, gateways: &[SocketAddr], socket: StdListener) -> Option<Kind> {
    let control = folder.join("haproxy.sock");
    let servers: String = gateways
        .iter()
        .enumerate()
        .map(|(index, address)| format!("  server gateway{index} {address}\n"))
        .collect();
    let interval = INTERVAL.as_millis();
    let text = format!(
        "global\n  stats socket {} level user\n  nbthread 1\n\
         defaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n  timeout check 10s\n  \
         retries 0\n         frontend front\n  bind fd@3\n  default_backend gateways\n\
         backend gateways\n  option httpchk\n  \
         http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host gateway\n  http-check expect status 200\n  \
         default-server check inter {interval} fall {BAD_LOOKS} rise 1\n{servers}",
        control.display()
    );
    let file = folder.join("haproxy.cfg");
    fs::write(&file, text).expect("the balancer's configuration");
    let mut command = Command::new("haproxy");
    command
        .arg("-db")
        .arg("-f")
        .arg(&file)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let mapping = FdMapping {
        parent_fd: OwnedFd::from(socket),
        child_fd: 3,
    };
    command.fd_mappings(vec![mapping]).expect("one descriptor");
    let child = command.spawn().ok()?;
    Some(Kind::HaProxy { child, control })
}

/// What HAProxy says of each of its servers.
fn states(control: &Path) -> Vec<String> {
    let Ok(mut stream) = UnixStream::connect(control) else {
        return Vec::new();
    };
    let mut table = String::new();
    stream.write_all(b"show stat\n").expect("a question");
    stream.read_to_string(&mut table).expect("an answer");
    let mut rows = table.lines();
    let names = rows.next().unwrap_or_default().trim_start_matches("# ");
    let column = names.split(',').position(|name| name == "status");
    rows.map(|row| row.split(',').collect::<Vec<_>>())
        .filter(|row| row.get(1).is_some_and(|server| server.starts_with("gateway")))
        .filter_map(|row| Some((*row.get(column?)?).to_owned()))
        .collect()
}

/// Connections in turn to whoever is ready, and bytes both ways.
fn own(socket: StdListener, gateways: &[SocketAddr]) -> Kind {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let up: Arc<[AtomicBool]> = gateways.iter().map(|_| AtomicBool::new(false)).collect();
    for (index, &address) in gateways.iter().enumerate() {
        let up = up.clone();
        runtime.spawn(async move {
            let (mut ticks, mut bad) = (tokio::time::interval(INTERVAL), 0);
            loop {
                ticks.tick().await;
                let is_ready = Client::new(address).ask("GET", "/readyz").await.ok() == Some(200);
                bad = if is_ready { 0 } else { bad + 1 };
                if is_ready || bad >= BAD_LOOKS {
                    up[index].store(is_ready, Ordering::Relaxed);
                }
            }
        });
    }
    socket.set_nonblocking(true).expect("a socket that does not block");
    let gateways = gateways.to_vec();
    let states = up.clone();
    runtime.spawn(async move {
        let listener = TcpListener::from_std(socket).expect("a listener");
        let turn = AtomicUsize::new(0);
        while let Ok((mut client, _)) = listener.accept().await {
            let ready: Vec<SocketAddr> = (0..gateways.len())
                .filter(|&index| states[index].load(Ordering::Relaxed))
                .map(|index| gateways[index])
                .collect();
            let Some(&address) = ready.get(turn.fetch_add(1, Ordering::Relaxed) % ready.len().max(1)) else {
                continue;
            };
            tokio::spawn(async move {
                // A gateway that refuses is seen by the client, as the end of its connection.
                if let Ok(mut gateway) = TcpStream::connect(address).await {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut gateway).await;
                }
            });
        }
    });
    Kind::Own { up, _runtime: runtime }
}
