//! Probing: one task for each endpoint, on a schedule of its own, whoever asks.
//!
//! Probes make connections of their own and take no place of the traffic's, so that a family that is full is not
//! taken for one that is down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pingora::connectors::http::Connector;
use pingora::http::RequestHeader;
use pingora::protocols::http::client::HttpSession;
use pingora::protocols::http::v1::client::HttpSession as Http1Session;
use pingora::protocols::http::v2::client::Http2Session;
use pingora::upstreams::peer::HttpPeer;
use pingora::{ErrorType, OrErr};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::Reason;
use crate::config::{Probe, Ready};
use crate::upstream::{Endpoint, EndpointId, Upstream};

/// Informational answers (RFC 9110, section 15.2) that are skipped before the final one.
const MAX_INFORMATIONAL: usize = 8;
/// Bytes of an answer's body that are read, so that a small one does not end in a reset at the upstream.
const BODY_BYTES: usize = 16 * 1024;
/// Set in the pool key of probes' connections, so that they are shared with nobody.
const PROBE_GROUP: u64 = 1 << 33;
/// How long such a body is waited for.
const BODY_PATIENCE: Duration = Duration::from_millis(100);

/// Adds a task that probes the endpoints of a family, where it is probed and switched on, to run on `runtime`. It ends
/// with the set. `connector` is one for all probes: it holds the certificates of the system's authorities.
///
/// # Errors
/// Pingora's, when a probe's request cannot be written; a checked configuration has none such.
pub fn start(
    upstream: &Arc<Upstream>,
    connector: &Arc<Connector>,
    tasks: &mut JoinSet<()>,
    runtime: &Handle,
) -> pingora::Result<()> {
    let Ready::Probe(probe) = upstream.ready() else {
        return Ok(());
    };
    let requests = upstream.urls().iter().map(|url| request(probe, &url.authority()));
    let requests = requests.collect::<pingora::Result<Vec<_>>>()?;
    let probing = follow(upstream.clone(), probe.clone(), requests, connector.clone());
    tasks.spawn_on(probing, runtime);
    Ok(())
}

fn request(probe: &Probe, authority: &str) -> pingora::Result<RequestHeader> {
    let mut request = RequestHeader::build("GET", probe.path.as_bytes(), Some(4))?;
    request.insert_header("Host", authority)?;
    request.insert_header("User-Agent", concat!("gateway-probe/", env!("CARGO_PKG_VERSION")))?;
    request.insert_header("Accept", "*/*")?;
    // A kept connection would prove that one connection works, not that a new one can be made.
    request.insert_header("Connection", "close")?;
    Ok(request)
}

/// Keeps one prober for each endpoint of a family, as they come and leave.
async fn follow(upstream: Arc<Upstream>, probe: Probe, requests: Vec<RequestHeader>, connector: Arc<Connector>) {
    let mut changes = upstream.changes();
    let mut running: BTreeMap<EndpointId, JoinSet<()>> = BTreeMap::new();
    loop {
        let endpoints = upstream.endpoints();
        running.retain(|id, _| endpoints.list().iter().any(|endpoint| endpoint.id() == *id));
        for endpoint in endpoints.list() {
            let Some(request) = requests.get(endpoint.id().url) else {
                continue;
            };
            running.entry(endpoint.id()).or_insert_with(|| {
                let prober = Prober {
                    upstream: upstream.clone(),
                    endpoint: endpoint.clone(),
                    probe: probe.clone(),
                    request: request.clone(),
                    connector: connector.clone(),
                };
                let mut task = JoinSet::new();
                task.spawn(prober.run());
                task
            });
        }
        drop(endpoints);
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// What probes one endpoint.
struct Prober {
    upstream: Arc<Upstream>,
    endpoint: Arc<Endpoint>,
    probe: Probe,
    request: RequestHeader,
    connector: Arc<Connector>,
}

impl Prober {
    async fn run(self) {
        // An endpoint that an older generation has probed is probed when it would have been.
        if let Some(since) = self.upstream.since_probe(&self.endpoint) {
            sleep(jittered(self.probe.interval.get()).saturating_sub(since)).await;
        }
        loop {
            let start = Instant::now();
            let result = self.probe().await;
            self.upstream.probed(&self.endpoint, result);
            sleep_until(start + jittered(self.probe.interval.get())).await;
        }
    }

    async fn probe(&self) -> Result<(), Reason> {
        let deadline = Instant::now() + self.probe.timeout.get();
        let family = self.upstream.name();
        match timeout_at(deadline, self.exchange()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Failure::Status(status))) => {
                tracing::debug!(family, status, "a probe was answered with another status");
                Err(Reason::Status)
            }
            Ok(Err(Failure::Transport(error))) => {
                // The error's own text names the endpoint, and may hold what it has sent.
                tracing::debug!(family, kind = error.etype().as_str(), "a probe failed");
                Err(Reason::of_error(error.etype()))
            }
            Err(_) => Err(Reason::Timeout),
        }
    }

    async fn exchange(&self) -> Result<(), Failure> {
        // Protocol and trust are the traffic's; the connection is the probe's own and is not used again.
        let mut peer: HttpPeer = self.endpoint.peer().clone();
        peer.group_key |= PROBE_GROUP;
        peer.options.max_h2_streams = 1;
        let (session, _) = self.connector.get_http_session(&peer).await?;
        match session {
            HttpSession::H1(session) => self.exchange_http1(session).await,
            HttpSession::H2(session) => self.exchange_http2(session, peer.is_tls()).await,
            HttpSession::Custom(()) => Err(Failure::Status(0)),
        }
    }

    async fn exchange_http1(&self, mut session: Http1Session) -> Result<(), Failure> {
        session.write_request_header(Box::new(self.request.clone())).await?;
        let mut status = 0;
        for _ in 0..=MAX_INFORMATIONAL {
            session.read_response().await?;
            status = session.get_status().map_or(0, |status| status.as_u16());
            if !(100..200).contains(&status) {
                break;
            }
        }
        if !self.probe.status.contains(status) {
            return Err(Failure::Status(status));
        }
        // The status has decided; what becomes of the body changes nothing.
        let _read = timeout(BODY_PATIENCE, read_some(&mut session)).await;
        Ok(())
    }

    async fn exchange_http2(&self, mut session: Http2Session, is_tls: bool) -> Result<(), Failure> {
        session.write_request_header(Box::new(http2_request(&self.request, is_tls)?), true)?;
        session.read_response_header().await?;
        let status = session.response_header().map_or(0, |head| head.status.as_u16());
        if self.probe.status.contains(status) {
            Ok(())
        } else {
            Err(Failure::Status(status))
        }
    }
}

/// The probe's request in HTTP/2's form: the host is part of the target (RFC 9113 section 8.3.1).
fn http2_request(request: &RequestHeader, is_tls: bool) -> pingora::Result<RequestHeader> {
    let invalid = "a probe's request";
    let authority = request
        .headers
        .get(http::header::HOST)
        .map_or(&b""[..], |host| host.as_bytes());
    let target = http::Uri::builder()
        .scheme(if is_tls { "https" } else { "http" })
        .authority(authority)
        .path_and_query(request.raw_path())
        .build()
        .or_err(ErrorType::InvalidHTTPHeader, invalid)?;
    let mut request = request.clone();
    request.set_uri(target);
    request.set_version(http::Version::HTTP_2);
    request.remove_header(&http::header::HOST);
    request.remove_header(&http::header::CONNECTION);
    Ok(request)
}

async fn read_some(session: &mut Http1Session) {
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
