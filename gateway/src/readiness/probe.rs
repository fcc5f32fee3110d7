//! Probing: one task for each family, on a schedule of its own, whoever asks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pingora::connectors::http::v1::Connector;
use pingora::http::RequestHeader;
use pingora::protocols::http::v1::client::HttpSession;
use pingora::upstreams::peer::HttpPeer;
use route_contract::contract::{Contract, FamilyId};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::resolution::Resolution;
use super::{Board, Reason};
use crate::config::{Config, Probe, Ready, Upstream, UpstreamUrl};

/// Addresses of one name that a single probe tries before it gives up.
const MAX_ADDRESSES: usize = 8;
/// Informational answers (RFC 9110, section 15.2) that are skipped before the final one.
const MAX_INFORMATIONAL: usize = 8;
/// Bytes of an answer's body that are read, so that a small one does not end in a reset at the upstream.
const BODY_BYTES: usize = 16 * 1024;
/// How long such a body is waited for.
const BODY_PATIENCE: Duration = Duration::from_millis(100);

/// The running probes of one board; they end when this is dropped.
#[derive(Debug)]
pub struct Probes {
    _tasks: JoinSet<()>,
}

impl Probes {
    /// Starts a task for each family that is probed and switched on. The first probes are made at once. To be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// Pingora's, when a probe's request cannot be written; a checked configuration has none such.
    pub fn start(board: &Arc<Board>, contract: &Contract, config: &Config) -> pingora::Result<Self> {
        let mut tasks = JoinSet::new();
        // One for all probes: it holds the certificates of the system's authorities.
        let connector = Arc::new(Connector::new(None));
        for (id, family) in contract.family_ids() {
            let Some(upstream) = config.upstream.get(&family.name) else {
                continue;
            };
            if let Some(prober) = Prober::new(id, &family.name, upstream, &connector)? {
                tasks.spawn(prober.run(Arc::clone(board)));
            }
        }
        Ok(Self { _tasks: tasks })
    }
}

/// What probes one family.
struct Prober {
    id: FamilyId,
    name: String,
    url: UpstreamUrl,
    probe: Probe,
    request: Box<RequestHeader>,
    resolution: Resolution,
    connector: Arc<Connector>,
    /// Turns the addresses, so that no probe depends on the first one alone.
    turn: usize,
}

impl Prober {
    /// `None` for a family that is switched off or never probed.
    fn new(id: FamilyId, name: &str, upstream: &Upstream, connector: &Arc<Connector>) -> pingora::Result<Option<Self>> {
        let Ready::Probe(probe) = &upstream.ready else {
            return Ok(None);
        };
        if !upstream.enabled {
            return Ok(None);
        }
        let mut request = RequestHeader::build("GET", probe.path.as_bytes(), Some(4))?;
        request.insert_header("Host", upstream.url.authority())?;
        request.insert_header("User-Agent", concat!("gateway-probe/", env!("CARGO_PKG_VERSION")))?;
        request.insert_header("Accept", "*/*")?;
        // A kept connection would prove that one connection works, not that a new one can be made.
        request.insert_header("Connection", "close")?;
        Ok(Some(Self {
            id,
            name: name.to_owned(),
            url: upstream.url.clone(),
            probe: probe.clone(),
            request: Box::new(request),
            resolution: Resolution::new(&upstream.url),
            connector: Arc::clone(connector),
            turn: 0,
        }))
    }

    async fn run(mut self, board: Arc<Board>) {
        loop {
            let start = Instant::now();
            let deadline = start + self.probe.timeout.get();
            let result = match timeout_at(deadline, self.probe_addresses(deadline)).await {
                Ok(result) => result,
                Err(_) => Err(Reason::Timeout),
            };
            board.probed(self.id, result);
            sleep_until(start + jittered(self.probe.interval.get())).await;
        }
    }

    /// One probe: the first address that answers 2xx makes it a success.
    async fn probe_addresses(&mut self, deadline: Instant) -> Result<(), Reason> {
        let mut addresses = self.resolution.addresses().await.ok_or(Reason::Dns)?;
        let turn = self.turn.checked_rem(addresses.len()).unwrap_or(0);
        addresses.rotate_left(turn);
        addresses.truncate(MAX_ADDRESSES);
        self.turn = self.turn.wrapping_add(1);
        let mut result = Err(Reason::Dns);
        let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        for address in addresses {
            // A share of the time for each, so that one that hangs does not speak for the others.
            let share = deadline.saturating_duration_since(Instant::now()) / left.max(1);
            left = left.saturating_sub(1);
            result = match timeout(share, self.probe_address(address)).await {
                Ok(result) => result,
                Err(_) => Err(Reason::Timeout),
            };
            if result.is_ok() {
                break;
            }
        }
        result
    }

    async fn probe_address(&self, address: SocketAddr) -> Result<(), Reason> {
        self.exchange(address).await.map_err(|failure| match failure {
            Failure::Status(status) => {
                tracing::debug!(family = self.name, status, "probe answered outside 2xx");
                Reason::Status
            }
            Failure::Transport(error) => {
                tracing::debug!(family = self.name, %error, "probe failed");
                Reason::of_error(error.etype())
            }
        })
    }

    async fn exchange(&self, address: SocketAddr) -> Result<(), Failure> {
        let peer = HttpPeer::new(address, self.url.tls(), self.url.server_name());
        let (mut session, _) = self.connector.get_http_session(&peer).await?;
        session.write_request_header(self.request.clone()).await?;
        let mut status = 0;
        for _ in 0..=MAX_INFORMATIONAL {
            session.read_response().await?;
            status = session.get_status().map_or(0, |status| status.as_u16());
            if !(100..200).contains(&status) {
                break;
            }
        }
        if !(200..300).contains(&status) {
            return Err(Failure::Status(status));
        }
        // The status has decided; what becomes of the body changes nothing.
        let _read = timeout(BODY_PATIENCE, read_some(&mut session)).await;
        Ok(())
    }
}

async fn read_some(session: &mut HttpSession) {
    while session.body_bytes_received() < BODY_BYTES {
        match session.read_body_ref().await {
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return,
        }
    }
}

enum Failure {
    /// The final status, or 0 when only informational ones came.
    Status(u16),
    Transport(Box<pingora::Error>),
}

impl From<Box<pingora::Error>> for Failure {
    fn from(error: Box<pingora::Error>) -> Self {
        Self::Transport(error)
    }
}

/// The interval, up to a twentieth shorter or longer: replicas that started together drift apart.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.95 + 0.1 * fastrand::f64())
}

#[cfg(test)]
mod tests;
