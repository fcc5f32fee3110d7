//! What makes generations of deployments, and puts each in the place of the one before.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use route_contract::diagnostic::Source;
use tokio::sync::watch;

use super::attendance::{Attendance, Attended, Runtimes};
use crate::config::{Config, Deployment, Loaded, Size};
use crate::listen::{HeadLimits, Http2Limits, Limits};
use crate::proxy::Generation;
use crate::server::Room;
use crate::telemetry::metrics::Metrics;
use crate::upstream::{UnusableTls, Upstreams};

/// How long a generation waits for the first word about endpoints that it has and the one before had not. After that it
/// serves without: an endpoint of which nothing is known is not ready.
const FIRST_WORD: Duration = Duration::from_secs(10);

/// Why a checked deployment does not become a generation.
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    /// TLS to an upstream.
    #[error(transparent)]
    Tls(#[from] UnusableTls),
    /// A probe's request cannot be written.
    #[error("cannot set up the probes: {0}")]
    Probes(Box<pingora::Error>),
}

/// The present generation, and what lives on from one to the next.
#[derive(Debug)]
pub struct Assembly {
    present: Arc<ArcSwap<Generation>>,
    client_limits: watch::Sender<Limits>,
    loaded: Arc<Loaded>,
    attendance: Attendance,
    room: Room,
    metrics: Arc<Metrics>,
}

/// A generation that is whole and could take the place of the present one.
pub struct Successor {
    generation: Generation,
    client_limits: Limits,
    loaded: Arc<Loaded>,
    begun: Vec<Attended>,
}

impl Assembly {
    /// Makes the first generation, and starts to resolve and to probe its upstreams.
    ///
    /// # Errors
    /// An [`AssemblyError`].
    pub(crate) fn first(
        deployment: Deployment,
        room: Room,
        metrics: Arc<Metrics>,
        runtimes: Runtimes,
    ) -> Result<Self, AssemblyError> {
        let loaded = Arc::new(deployment.loaded);
        let fitted = room.fit(&loaded.config);
        let upstreams = Arc::new(Upstreams::new(&deployment.contract, &fitted)?);
        let mut attendance = Attendance::new(runtimes);
        let begun = attendance.begin(&upstreams).map_err(AssemblyError::Probes)?;
        attendance.turn_to(&upstreams, begun);
        let (contract, classifier) = (deployment.contract, deployment.classifier);
        let generation = Generation::new(1, contract, classifier, upstreams, loaded.clone(), &fitted, &metrics);
        metrics
            .reloads
            .in_force(generation.number(), generation.digest(), SystemTime::now());
        Ok(Self {
            present: Arc::new(ArcSwap::from_pointee(generation)),
            client_limits: watch::Sender::new(client_limits(&fitted)),
            loaded,
            attendance,
            room,
            metrics,
        })
    }

    /// Where the present generation is found at any time.
    pub fn present(&self) -> &Arc<ArcSwap<Generation>> {
        &self.present
    }

    /// The limits for the clients that come, at any time.
    pub fn client_limits(&self) -> watch::Receiver<Limits> {
        self.client_limits.subscribe()
    }

    /// The configuration of the present generation, as it was loaded.
    pub fn config(&self) -> &Config {
        &self.loaded.config
    }

    /// The file of that configuration.
    pub fn source(&self) -> &Source {
        &self.loaded.source
    }

    /// Makes the next generation, and changes nothing; none where it would be the same as the present one.
    ///
    /// # Errors
    /// An [`AssemblyError`].
    pub fn successor(&self, deployment: Deployment) -> Result<Option<Successor>, AssemblyError> {
        let before = self.present.load();
        let loaded = Arc::new(deployment.loaded);
        let fitted = self.room.fit(&loaded.config);
        let upstreams = Arc::new(before.upstreams.succeed(&deployment.contract, &fitted)?);
        let number = before.number() + 1;
        let (contract, classifier) = (deployment.contract, deployment.classifier);
        let generation = Generation::new(
            number,
            contract,
            classifier,
            upstreams,
            loaded.clone(),
            &fitted,
            &self.metrics,
        );
        let is_same = loaded.config == self.loaded.config
            && generation.digest() == before.digest()
            && generation.upstreams.are(&before.upstreams);
        if is_same {
            return Ok(None);
        }
        let begun = self
            .attendance
            .begin(&generation.upstreams)
            .map_err(AssemblyError::Probes)?;
        Ok(Some(Successor {
            generation,
            client_limits: client_limits(&fitted),
            loaded,
            begun,
        }))
    }

    /// Puts the next generation in the place of the present one, as soon as there is a first word about its new
    /// endpoints. Requests that have begun keep theirs.
    pub async fn put_in_place(&mut self, next: Successor) {
        let Successor {
            generation,
            client_limits,
            loaded,
            begun,
        } = next;
        let words = async {
            for attended in &begun {
                attended.upstream().known().await;
            }
        };
        if tokio::time::timeout(FIRST_WORD, words).await.is_err() {
            tracing::warn!(
                seconds = FIRST_WORD.as_secs(),
                "there is no word yet about some endpoints of the new generation"
            );
        }
        let (number, digest) = (generation.number(), generation.digest());
        self.metrics.reloads.in_force(number, digest, SystemTime::now());
        self.attendance.turn_to(&generation.upstreams, begun);
        self.present.store(Arc::new(generation));
        self.client_limits.send_replace(client_limits);
        self.loaded = loaded;
    }
}

/// What clients may send and hold. The numbers of connections are the listener's, from its start.
fn client_limits(config: &Config) -> Limits {
    let limits = &config.limits;
    let bytes = |size: Size| usize::try_from(size.bytes()).unwrap_or(usize::MAX);
    let window = |size: Size| u32::try_from(size.bytes()).unwrap_or(u32::MAX);
    Limits {
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
