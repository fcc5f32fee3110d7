//! The one assembly of a running gateway: `run`, `demo` and tests all start it here.
//!
//! 1. Both listeners are bound, so that the addresses are real before anything is announced.
//! 2. A checked [`Deployment`], contract and configuration, becomes the first generation; from then on names are resolved
//!    and upstreams probed in the background, and the next one may take its place ([`crate::reload`]).
//! 3. The listeners are served from [`Server::open`] to [`Server::stop`], which is [`drain`]. In between, a new binary may
//!    take them over: [`handover`].

mod control;
mod descriptors;
pub mod drain;
pub mod handover;
pub mod inherited;
mod service_manager;
mod signals;

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use pingora::apps::HttpServerApp;
use pingora::proxy::http_proxy;
use pingora::server::configuration::ServerConf;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, JoinSet};

use crate::config::{Config, Contents, Deployment, ListenAddress, Loaded};
use crate::listen::tls::Reload;
use crate::listen::{self, BoundSocket, Listener, Phase, PhaseControl, PlainDoor, Tls};
use crate::proxy::door::PublicDoor;
use crate::proxy::{Generation, Proxy};
use crate::readiness::Draining;
use crate::reload::{Assembly, Follower, Hangups, Outcome, Reloads, Runtimes};
use crate::telemetry::access::AccessLog;
use crate::telemetry::metrics::{GatewayGauges, Metrics};
use crate::telemetry::trace::{self, Exporter};
use crate::telemetry::{Telemetry, log};
use control::Control;
pub(crate) use descriptors::Room;
pub use drain::Plan;
use handover::{Sockets, UpgradeError};
use inherited::Inherited;
use service_manager::ServiceManager;
use signals::Order;
pub use signals::Signals;

/// Unused connections to upstreams that are kept, over all families and endpoints. Pingora's pool is one list for all,
/// so it is made larger than any family needs: the families' own time limits empty it.
const KEPT_CONNECTIONS: usize = 16 * 1024;

/// Attempts that Pingora allows one request; the proxy's own rules allow fewer.
const MOST_ATTEMPTS: usize = 8;

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address is taken or not allowed.
    #[error("cannot listen on {address}: {cause}")]
    Bind {
        /// The address as configured.
        address: ListenAddress,
        /// The operating system's word.
        cause: io::Error,
    },
    /// A metric or a probe cannot be set up.
    #[error("cannot set up {what}: {cause}")]
    Setup {
        /// What it is.
        what: &'static str,
        /// Why not.
        cause: String,
    },
}

/// What the admin listener shows of a running gateway.
#[derive(Clone, Debug)]
pub struct State {
    /// The present generation.
    pub generation: Arc<ArcSwap<Generation>>,
    /// Whether the gateway is about to stop.
    pub draining: Arc<Draining>,
    /// All counters.
    pub metrics: Arc<Metrics>,
    /// What has come of reloads.
    pub reloads: Arc<Reloads>,
    /// Client connections that the public listener takes at once.
    pub connections_limit: usize,
}

impl State {
    /// The text of `/metrics`, with the gauges as they are now.
    ///
    /// # Errors
    /// The encoder's; it writes to memory.
    pub fn render_metrics(&self) -> prometheus::Result<Vec<u8>> {
        let generation = self.generation.load();
        let gauges = GatewayGauges {
            ready: generation.board(&self.draining).is_ready(),
            draining: self.draining.has_begun(),
            connections_limit: self.connections_limit,
            log_lines_dropped: log::dropped_lines(),
        };
        let upstreams = generation.upstreams.all();
        self.metrics
            .render(&gauges, upstreams.map(|upstream| (upstream.name(), upstream.gauges())))
    }
}

/// A running gateway.
#[derive(Debug)]
pub struct Server {
    public: SocketAddr,
    admin: ListenAddress,
    state: State,
    public_phase: PhaseControl,
    admin_phase: PhaseControl,
    /// For a process that takes over.
    sockets: Option<Sockets>,
    service_manager: ServiceManager,
    serving: JoinSet<()>,
    admin_serving: Option<JoinHandle<()>>,
    exporter: Option<Exporter>,
    /// Makes the next generations; the tasks of the present one end when this is dropped.
    assembly: Arc<Mutex<Assembly>>,
    control: Control,
    /// Follows the certificates; ends when this is dropped.
    _following: JoinSet<()>,
}

impl Server {
    /// Starts a gateway that serves a checked deployment. `admin` makes the application of the admin listener. To be
    /// called within a tokio runtime, see [`runtime`].
    ///
    /// # Errors
    /// A [`StartError`]; nothing listens then.
    pub async fn start<A>(deployment: Deployment, admin: impl FnOnce(State) -> A) -> Result<Self, StartError>
    where
        A: HttpServerApp + Send + Sync + 'static,
    {
        let mut server = Self::prepare(deployment, admin, Inherited::default()).await?;
        server.open();
        Ok(server)
    }

    /// The same without accepting anybody before [`Self::open`]; clients that connect wait. Sockets that were
    /// inherited are used where their addresses are those that are configured.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub async fn prepare<A>(
        deployment: Deployment,
        admin: impl FnOnce(State) -> A,
        mut inherited: Inherited,
    ) -> Result<Self, StartError>
    where
        A: HttpServerApp + Send + Sync + 'static,
    {
        let room = Room::make();
        let config = &room.fit(&deployment.loaded.config);
        let metrics = Metrics::new().map_err(|error| setup("the metrics", &error))?;
        let metrics = Arc::new(metrics.counting(config.metrics.enabled));
        let tracing = trace::start(&config.traces, metrics.process.spans_dropped());
        let (tracer, exporter) = tracing.map_err(|error| setup("the traces", &error))?.unzip();
        let telemetry = Arc::new(Telemetry {
            metrics: metrics.clone(),
            access: config.log.access.then(log::sink).flatten().map(AccessLog::new),
            tracer,
            names_upstream: config.log.upstream,
        });
        let tls = listener_tls(&deployment.loaded, &metrics)?;
        let public_address = ListenAddress::Tcp(config.listen.public);
        let public_socket = inherited.take(inherited::PUBLIC, &public_address);
        let admin_socket = inherited.take(inherited::ADMIN, &config.listen.admin);
        if !inherited.is_empty() {
            tracing::warn!(addresses = %inherited, "passed sockets have addresses that are not configured, and close");
        }
        drop(inherited);
        let mode = config.admin.socket_mode.bits();
        let public_listener = bind(public_address, public_socket, mode).await?.with_tls(tls.clone());
        let control = Control::start().map_err(|error| setup("the control thread", &error))?;
        let admin_listener = bind_admin(&control, config, admin_socket).await?;
        let sockets = Sockets::of(&public_listener, &admin_listener).map_err(|error| setup("the sockets", &error))?;
        let runtimes = Runtimes {
            traffic: Handle::current(),
            control: control.handle().unwrap_or_else(Handle::current),
        };
        let assembly = Assembly::first(deployment, room, metrics.clone(), runtimes)
            .map_err(|error| setup("the upstreams", &error))?;

        let (generation, limits) = (assembly.present().clone(), assembly.client_limits());
        let draining = Arc::new(Draining::default());
        let state = State {
            generation: generation.clone(),
            draining: draining.clone(),
            metrics: metrics.clone(),
            reloads: Arc::default(),
            connections_limit: config.limits.connections,
        };
        let door = Arc::new(PublicDoor::new(generation.clone(), telemetry.clone()));
        let proxy = Proxy::new(generation, draining, telemetry);
        let proxy = Arc::new(http_proxy(&Arc::new(pingora_settings(config, &room)), proxy));
        let admin_app = {
            let control = control.handle();
            let _on_its_thread = control.as_ref().map(Handle::enter);
            Arc::new(admin(state.clone()))
        };

        let mut following = JoinSet::new();
        if let (Some(tls), Some(table)) = (tls, &config.listen.tls) {
            following.spawn(follow_certificates(tls, table.reload_interval.get(), metrics.clone()));
        }

        let (public_phase, public_phases) = PhaseControl::new(Phase::Bound);
        let (admin_phase, admin_phases) = PhaseControl::new(Phase::Bound);
        let (public, admin) = (public_listener.local_addr(), admin_listener.address().clone());
        let mut serving = JoinSet::new();
        serving.spawn(public_listener.serve(proxy, door, limits, public_phases));
        let admin_limits = listen::Limits::default().fixed();
        let admin_serving =
            control.spawn(admin_listener.serve(admin_app, Arc::new(PlainDoor), admin_limits, admin_phases));
        Ok(Self {
            public,
            admin,
            state,
            public_phase,
            admin_phase,
            sockets: Some(sockets),
            service_manager: ServiceManager::of_this_process(),
            serving,
            admin_serving,
            exporter,
            assembly: Arc::new(Mutex::new(assembly)),
            control,
            _following: following,
        })
    }

    /// The address for traffic, as it is really bound.
    pub fn public_address(&self) -> SocketAddr {
        self.public
    }

    /// The address for operators, as it is really bound.
    pub fn admin_address(&self) -> &ListenAddress {
        &self.admin
    }

    /// What the gateway is doing.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Accepts clients from now on, and tells the service manager.
    pub fn open(&mut self) {
        self.admin_phase.advance(Phase::Serving);
        self.public_phase.advance(Phase::Serving);
        let status = self.status();
        self.service_manager.serving(&status);
    }

    /// What the service manager shows of a gateway that serves.
    fn status(&self) -> String {
        let status = format!("serving contract {}", self.state.generation.load().digest());
        match self.state.reloads.last() {
            Some(last) if last.outcome == Outcome::Refused => {
                format!("{status}; the last reload was refused, see /reload")
            }
            _ => status,
        }
    }

    /// Reloads `file` on SIGHUP, and when it has changed where it says `watch = true`, for as long as the gateway runs.
    /// `loaded` is what its files held when the gateway was started from them.
    pub fn follow(&self, file: PathBuf, loaded: Contents, hangups: Hangups) {
        let follower = Follower {
            file,
            assembly: self.assembly.clone(),
            reloads: self.state.reloads.clone(),
            metrics: self.state.metrics.clone(),
        };
        // It ends with the thread.
        let _following = self.control.spawn(follower.run(loaded, hangups));
    }

    /// Runs until a signal says to stop, or until a new binary has taken over; a second signal ends the wait for what is
    /// in flight. Answers whether all of it has ended by itself.
    pub async fn run_until(self, mut signals: Signals) -> bool {
        let plan = loop {
            let order = tokio::select! {
                // A reload begins before it ends, whoever looks late.
                biased;
                order = signals.next() => order,
                () = self.state.reloads.begun() => {
                    self.service_manager.reloading();
                    continue;
                }
                () = self.state.reloads.noted() => {
                    self.service_manager.reloaded(&self.status());
                    continue;
                }
            };
            let order = match order {
                Order::Upgrade => tokio::select! {
                    upgraded = self.upgrade() => match upgraded {
                        Ok(pid) => {
                            tracing::info!(pid, "upgraded: the new process serves, and this one ends");
                            break Plan { is_replaced: true, ..self.plan() };
                        }
                        Err(cause) => {
                            tracing::error!(%cause, "not upgraded: this process serves on");
                            self.state.metrics.process.count_upgrade_failure();
                            self.service_manager
                                .status(&format!("{}; the last upgrade has failed, see the log", self.status()));
                            continue;
                        }
                    },
                    order = signals.next_to_stop() => order,
                },
                order => order,
            };
            match order {
                Order::Drain(signal) => {
                    tracing::info!(signal, "stopping");
                    break self.plan();
                }
                Order::Stop(signal) => {
                    tracing::info!(signal, "stopping");
                    break Plan::at_once(self.plan().timeout);
                }
                Order::Upgrade => {}
            }
        };
        let second = async { while signals.next_to_stop().await == Order::Upgrade {} };
        let clean = self.stop_unless(plan, second).await;
        if clean {
            tracing::info!("stopped");
        } else {
            tracing::warn!("stopped, with requests broken off");
        }
        clean
    }

    fn plan(&self) -> Plan {
        let generation = self.state.generation.load();
        Plan {
            delay: generation.drain.delay.get(),
            timeout: generation.drain.timeout.get(),
            is_replaced: false,
        }
    }

    async fn upgrade(&self) -> Result<u32, UpgradeError> {
        let limit = self.state.generation.load().upgrade.ready_timeout.get();
        let sockets = self.sockets.as_ref().ok_or(UpgradeError::FirstProcess)?;
        handover::start(sockets, &self.state, limit).await
    }
}

/// The runtime that a gateway runs on: the one place where threads are chosen.
///
/// Tokio's own, with work stealing: connections are accepted on our own sockets, so a connection's task may run on any
/// thread, and stealing evens out families that are busy in bursts.
///
/// # Errors
/// The operating system's, when threads cannot be started.
pub fn runtime(threads: Option<NonZeroUsize>) -> io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads.get());
    }
    builder.thread_name("gateway").enable_all().build()
}

/// Makes a listener of a passed socket, or binds one. `mode` is for a Unix socket.
async fn bind(address: ListenAddress, inherited: Option<BoundSocket>, mode: u32) -> Result<Listener, StartError> {
    let bound = match (inherited, &address) {
        (Some(socket), _) => Listener::inherit(socket),
        (None, ListenAddress::Tcp(address)) => Listener::bind(*address).await,
        (None, ListenAddress::Unix(path)) => Listener::bind_unix(path, mode),
    };
    bound.map_err(|cause| StartError::Bind { address, cause })
}

/// TLS for the public listener. The files were found sound by the check, a moment ago.
fn listener_tls(loaded: &Loaded, metrics: &Metrics) -> Result<Option<Arc<Tls>>, StartError> {
    let Some(settings) = loaded.tls_settings() else {
        return Ok(None);
    };
    let files = settings.load().map_err(|faults| {
        let fault = faults.into_iter().next();
        setup(
            "TLS",
            &fault.map_or_else(|| "no certificate".to_owned(), |fault| fault.unusable.fault.to_string()),
        )
    })?;
    if let Some(expiry) = files.expires() {
        metrics.listener.set_certificate_expiry(expiry);
    }
    Ok(Some(Arc::new(Tls::new(settings, &files))))
}

/// Takes over new certificate files; those that cannot be used change nothing.
async fn follow_certificates(tls: Arc<Tls>, interval: Duration, metrics: Arc<Metrics>) {
    tls.follow(interval, |reload, expiry| match reload {
        Reload::Loaded => {
            metrics.listener.count_certificate_load(true);
            if let Some(expiry) = expiry {
                metrics.listener.set_certificate_expiry(expiry);
            }
            tracing::info!("new certificates are in use");
        }
        Reload::Refused(faults) => {
            metrics.listener.count_certificate_load(false);
            for fault in faults {
                tracing::error!(
                    file = fault.unusable.part.name(),
                    certificate = fault.certificate.map_or(0, |index| index + 1),
                    cause = %fault.unusable.fault,
                    "changed certificate files cannot be used; the ones before them stay in use"
                );
            }
        }
    })
    .await;
}

/// Binds on the control thread, whose sockets must wake that thread and no other.
async fn bind_admin(
    control: &Control,
    config: &Config,
    inherited: Option<BoundSocket>,
) -> Result<Listener, StartError> {
    let (address, mode) = (config.listen.admin.clone(), config.admin.socket_mode.bits());
    let binding = control.spawn(bind(address, inherited, mode));
    let binding = binding.ok_or_else(|| setup("the admin listener", &"its thread is gone"))?;
    binding.await.map_err(|error| setup("the admin listener", &error))?
}

fn setup(what: &'static str, error: &dyn std::fmt::Display) -> StartError {
    StartError::Setup {
        what,
        cause: error.to_string(),
    }
}

fn pingora_settings(config: &Config, room: &Room) -> ServerConf {
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    ServerConf {
        threads: config.threads.map_or_else(cores, NonZeroUsize::get),
        upstream_keepalive_pool_size: KEPT_CONNECTIONS.min(room.kept),
        max_retries: MOST_ATTEMPTS,
        ..ServerConf::default()
    }
}
