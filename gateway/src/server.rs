//! The one assembly of a running gateway: `run`, `demo` and tests all start it here.
//!
//! 1. A checked [`Deployment`], contract and configuration, becomes one [`Generation`].
//! 2. Both listeners are bound, so that the addresses are real before anything is announced.
//! 3. Names are resolved and upstreams probed in the background.
//! 4. The listeners are served until [`Server::stop`].

mod control;
mod descriptors;

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use pingora::apps::HttpServerApp;
use pingora::proxy::http_proxy;
use pingora::server::configuration::ServerConf;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::config::{Config, Deployment, Loaded, Size};
use crate::listen::tls::Reload;
use crate::listen::{self, HeadLimits, Http2Limits, Listener, PlainDoor, Tls};
use crate::proxy::door::PublicDoor;
use crate::proxy::{Generation, Proxy};
use crate::readiness::{Board, Probes};
use crate::telemetry::metrics::{FamilyGauges, Metrics};
use crate::upstream::{self, Upstreams};
use control::Control;
use descriptors::Room;

/// Unused connections to upstreams that are kept, over all families and endpoints. Pingora's pool is one list for all,
/// so it is made larger than any family needs: the families' own time limits empty it.
const KEPT_CONNECTIONS: usize = 16 * 1024;

/// Attempts that Pingora allows one request; the proxy's own rules allow fewer.
const MOST_ATTEMPTS: usize = 8;

/// How long requests in flight may take after the gateway was told to stop.
pub const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address is taken or not allowed.
    #[error("cannot listen on {address}: {cause}")]
    Bind {
        /// The address as configured.
        address: SocketAddr,
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
    /// The families' readiness.
    pub board: Arc<Board>,
    /// All counters.
    pub metrics: Arc<Metrics>,
}

impl State {
    /// The text of `/metrics`, with the gauges as they are now.
    ///
    /// # Errors
    /// The encoder's; it writes to memory.
    pub fn render_metrics(&self) -> prometheus::Result<Vec<u8>> {
        let generation = self.generation.load();
        for upstream in generation.upstreams.all() {
            if let Some(name) = generation.name(upstream.family()) {
                let (endpoints_ready, endpoints_down) = upstream.endpoint_counts();
                let gauges = FamilyGauges {
                    in_flight: upstream.in_flight(),
                    waiting: upstream.waiting(),
                    ready: self.board.is_family_ready(upstream.family()),
                    endpoints_ready,
                    endpoints_down,
                };
                self.metrics.set_family(name, &gauges);
            }
        }
        self.metrics.set_log_lines_lost(crate::telemetry::log::lost_lines());
        self.metrics.render()
    }
}

/// A running gateway.
#[derive(Debug)]
pub struct Server {
    public: SocketAddr,
    admin: SocketAddr,
    state: State,
    stop_public: watch::Sender<bool>,
    stop_admin: watch::Sender<bool>,
    serving: JoinSet<()>,
    admin_serving: Option<JoinHandle<()>>,
    _probes: Probes,
    _control: Control,
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
        let Deployment {
            loaded,
            contract,
            classifier,
            ..
        } = deployment;
        let room = Room::make();
        let config = &room.fit(&loaded.config);
        let metrics = Metrics::new().map_err(|error| setup("the metrics", &error))?;
        let metrics = Arc::new(metrics);
        let upstreams = Arc::new(Upstreams::new(&contract, config));
        let board = Arc::new(Board::new(upstreams.clone()));
        let tls = listener_tls(&loaded, &metrics)?;
        let public_listener = bind(config.listen.public).await?.with_tls(tls.clone());
        let control = Control::start().map_err(|error| setup("the control thread", &error))?;
        let admin_listener = bind_on(&control, config.listen.admin).await?;
        let probes = {
            let _on_its_thread = control.enter();
            Probes::start(&upstreams).map_err(|error| setup("the probes", &error))?
        };
        let generation = Generation::new(contract, classifier, upstreams.clone(), config, &metrics);
        metrics.set_contract(generation.digest());
        upstream::resolve::start(&upstreams);

        let generation = Arc::new(ArcSwap::from_pointee(generation));
        let state = State {
            generation: generation.clone(),
            board: board.clone(),
            metrics: metrics.clone(),
        };
        let door = Arc::new(PublicDoor::new(generation.clone(), metrics.clone()));
        let proxy = Proxy::new(generation, board, metrics.clone());
        let proxy = Arc::new(http_proxy(&Arc::new(pingora_settings(config, &room)), proxy));
        let admin_app = Arc::new(admin(state.clone()));

        let mut following = JoinSet::new();
        if let (Some(tls), Some(table)) = (tls, &config.listen.tls) {
            following.spawn(follow_certificates(tls, table.reload_interval.get(), metrics.clone()));
        }

        let (stop_public, public_stopped) = watch::channel(false);
        let (stop_admin, admin_stopped) = watch::channel(false);
        let (public, admin) = (public_listener.local_addr(), admin_listener.local_addr());
        let mut serving = JoinSet::new();
        serving.spawn(public_listener.serve(proxy, door, public_limits(config), public_stopped));
        let admin_limits = listen::Limits::default();
        let admin_serving =
            control.spawn(admin_listener.serve(admin_app, Arc::new(PlainDoor), admin_limits, admin_stopped));
        Ok(Self {
            public,
            admin,
            state,
            stop_public,
            stop_admin,
            serving,
            admin_serving,
            _probes: probes,
            _control: control,
            _following: following,
        })
    }

    /// The address for traffic, as it is really bound.
    pub fn public_address(&self) -> SocketAddr {
        self.public
    }

    /// The address for operators, as it is really bound.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// What the gateway is doing.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Accepts no more, lets requests in flight end for at most `limit`, and answers whether all of them did. The
    /// admin listener tells `draining` until then.
    pub async fn stop(mut self, limit: Duration) -> bool {
        self.state.board.drain();
        self.stop_public.send_replace(true);
        let ended = async { while self.serving.join_next().await.is_some() {} };
        let in_time = tokio::time::timeout(limit, ended).await.is_ok();
        self.stop_admin.send_replace(true);
        // A scrape that is under way may end; nobody waits for an idle one.
        if let Some(serving) = self.admin_serving.take() {
            let _admin_in_time = tokio::time::timeout(Duration::from_millis(500), serving).await;
        }
        in_time
    }

    /// Runs until one of the signals, then stops; a second one ends the wait at once. Answers whether all requests in
    /// flight were answered.
    pub async fn run_until(self, mut signals: Signals) -> bool {
        let name = signals.next().await;
        tracing::info!(
            signal = name,
            "stopping: requests in flight are answered, no more are accepted"
        );
        let clean = tokio::select! {
            clean = self.stop(STOP_LIMIT) => clean,
            _ = signals.next() => false,
        };
        if clean {
            tracing::info!("stopped");
        } else {
            tracing::warn!("stopped with requests in flight");
        }
        clean
    }
}

/// The signals that end the gateway: SIGTERM, SIGINT and SIGQUIT.
#[derive(Debug)]
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
}

impl Signals {
    /// Receives them from now on. To be called before the gateway is announced: whoever reads the announcement may send
    /// one at once, and until then it would end the process.
    ///
    /// # Errors
    /// The operating system's, when signals cannot be received.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.quit.recv() => "SIGQUIT",
        }
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

async fn bind(address: SocketAddr) -> Result<Listener, StartError> {
    Listener::bind(address)
        .await
        .map_err(|cause| StartError::Bind { address, cause })
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
        metrics.set_certificate_expiry(expiry);
    }
    Ok(Some(Arc::new(Tls::new(settings, &files))))
}

/// Takes over new certificate files; those that cannot be used change nothing.
async fn follow_certificates(tls: Arc<Tls>, interval: Duration, metrics: Arc<Metrics>) {
    tls.follow(interval, |reload, expiry| match reload {
        Reload::Loaded => {
            metrics.count_certificate_load(true);
            if let Some(expiry) = expiry {
                metrics.set_certificate_expiry(expiry);
            }
            tracing::info!("new certificates are in use");
        }
        Reload::Refused(faults) => {
            metrics.count_certificate_load(false);
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
async fn bind_on(control: &Control, address: SocketAddr) -> Result<Listener, StartError> {
    match control.spawn(bind(address)) {
        Some(binding) => binding.await.map_err(|error| setup("the admin listener", &error))?,
        None => bind(address).await,
    }
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

fn public_limits(config: &Config) -> listen::Limits {
    let limits = &config.limits;
    let bytes = |size: Size| usize::try_from(size.bytes()).unwrap_or(usize::MAX);
    let window = |size: Size| u32::try_from(size.bytes()).unwrap_or(u32::MAX);
    listen::Limits {
        connections: limits.connections,
        per_network: limits.connections_per_network.unwrap_or(usize::MAX),
        head: HeadLimits {
            target: bytes(limits.target),
            head: bytes(limits.head),
            headers: limits.headers,
        },
        head_timeout: limits.head_timeout.get(),
        idle_timeout: limits.idle_timeout.get(),
        stall_timeout: limits.client_timeout.get(),
        min_rate: limits.min_rate.bytes(),
        http2: Http2Limits {
            streams: config.listen.http2.streams,
            stream_window: window(config.listen.http2.stream_window),
            connection_window: window(config.listen.http2.connection_window),
        },
        cleartext_http2: config.listen.h2c,
    }
}
