//! The admin listener: what operators, probes and scrapers ask a running gateway. Read-only.
//!
//! 1. `access` says who may ask, and how much they are told; `token` is the secret that they may have to show.
//! 2. Each page is what its module makes of the present [`State`]: `status` (with the `history` of the last minutes),
//!    `explain`, `configuration`; readiness is answered by [`crate::readiness`], metrics by [`crate::telemetry`].
//! 3. `response` writes answers, with what a browser must not do with them.
//!
//! The page at `/` is the three files in `page/`, built in: it needs no network beyond this listener.

mod access;
mod configuration;
mod explain;
mod history;
mod response;
mod status;
mod token;

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use http::{Method, Response};
use pingora::apps::http_app::ServeHttp;
use pingora::http::RequestHeader;
use pingora::protocols::http::ServerSession;
use route_contract::listing::Listing;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::listen::Client;
use crate::proxy::{Generation, Refusal};
use crate::readiness::{Answer, Paths};
use crate::reload::report::Reload;
use crate::server::State;
use crate::telemetry::metrics::NO_FAMILY;
pub use access::ADMISSION_REFUSALS;
use access::{Access, Sight};
use history::History;
use response::{finish, json, page, refuse};
pub use token::{Secret, Token, TokenFault};

/// The format of Prometheus' text exposition.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The admin listener's pages.
#[derive(Debug)]
pub struct Admin {
    state: State,
    access: Access,
    readiness: Paths,
    history: Arc<History>,
    since: Instant,
    /// Takes the samples; ends when this is dropped.
    _sampling: JoinSet<()>,
}

/// What may be asked beside liveness and readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// The status page and its files.
    Static(&'static str, &'static str),
    Status,
    Metrics,
    Contract,
    Configuration,
    Explain,
    Reload,
}

impl Page {
    /// The page at a path, byte for byte: another spelling of a path is another path.
    fn at(path: &[u8]) -> Option<Self> {
        Some(match path {
            b"/" => Self::Static("text/html; charset=utf-8", include_str!("page/index.html")),
            b"/status.css" => Self::Static("text/css; charset=utf-8", include_str!("page/status.css")),
            b"/status.js" => Self::Static("text/javascript; charset=utf-8", include_str!("page/status.js")),
            b"/status.json" => Self::Status,
            b"/metrics" => Self::Metrics,
            b"/contract" => Self::Contract,
            b"/config" => Self::Configuration,
            b"/explain" => Self::Explain,
            b"/reload" => Self::Reload,
            _ => return None,
        })
    }
}

impl Admin {
    /// Pages about this gateway, each as it is at the moment of a request. Counters are sampled from now on by a task of
    /// the present runtime.
    pub fn new(state: State) -> Self {
        let history = Arc::new(History::default());
        let mut sampling = JoinSet::new();
        sampling.spawn(sample(state.clone(), history.clone()));
        Self {
            access: Access::new(&state.generation.load().loaded().config),
            state,
            readiness: Paths::admin(),
            history,
            since: Instant::now(),
            _sampling: sampling,
        }
    }

    fn answer(&self, request: &RequestHeader, peer: Option<IpAddr>) -> Response<Vec<u8>> {
        let head_only = request.method == Method::HEAD;
        let is_read = head_only || request.method == Method::GET;
        let target = request.raw_path();
        let generation = self.state.generation.load();
        let board = generation.board(&self.state.draining);
        let answer = match self.readiness.question(target, &board) {
            Some(_) if !is_read => refuse(Refusal::MethodNotAllowed),
            Some(question) => Answer::to(question, &board).into_response(head_only),
            // A probe of a family that there is not is told so, whoever it is.
            None if target.starts_with(b"/readyz/") => refuse(Refusal::NotFound),
            None => self
                .access
                .admit(request, peer)
                .inspect_err(|refusal| self.state.metrics.process.count_admin_refusal(*refusal))
                .and_then(|sight| self.page(&generation, target, is_read, sight))
                .unwrap_or_else(refuse),
        };
        finish(answer, head_only)
    }

    fn page(
        &self,
        generation: &Generation,
        target: &[u8],
        is_read: bool,
        sight: Sight,
    ) -> Result<Response<Vec<u8>>, Refusal> {
        let mut parts = target.splitn(2, |byte| *byte == b'?');
        let (path, query) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let found = Page::at(path).ok_or(Refusal::NotFound)?;
        if !is_read {
            return Err(Refusal::MethodNotAllowed);
        }
        Ok(match found {
            Page::Static(content_type, text) => page(content_type, text),
            Page::Status => {
                let (uptime, reload) = (self.since.elapsed().as_secs(), self.state.reloads.last());
                json(&status::Status::of(
                    &self.state,
                    generation,
                    reload.as_deref(),
                    &self.history,
                    sight,
                    uptime,
                ))
            }
            Page::Metrics if !self.state.metrics.is_counting() => return Err(Refusal::NotFound),
            Page::Metrics => page(METRICS_TYPE, internal(self.state.render_metrics())?),
            Page::Reload => {
                let (last, last_refused) = (self.state.reloads.last(), self.state.reloads.last_refused());
                json(&ReloadPage {
                    generation: generation.number(),
                    since: generation.since(),
                    contract: generation.digest(),
                    last: last.as_deref(),
                    last_refused: last_refused.as_deref(),
                })
            }
            Page::Contract => json(&ContractPage::of(generation)),
            Page::Configuration => json(&internal(configuration::shown(generation.loaded(), sight))?),
            Page::Explain => {
                let target = explain::asked(query).ok_or(Refusal::InvalidTarget)?;
                json(&explain::Explained::of(generation, &target))
            }
        })
    }
}

/// The detail of what should not happen goes to the log.
fn internal<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, Refusal> {
    result.map_err(|error| {
        tracing::error!(%error, "a page of the admin listener cannot be made");
        Refusal::Internal
    })
}

#[async_trait]
impl ServeHttp for Admin {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let peer = Client::of(session).map(|client| client.peer().ip());
        self.answer(session.req_header(), peer)
    }
}

/// Samples the families' counters for ever.
async fn sample(state: State, history: Arc<History>) {
    let mut ticks = tokio::time::interval(history::STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let now = ticks.tick().await;
        let generation = state.generation.load();
        let families = generation
            .contract()
            .family_ids()
            .map(|(id, family)| (family.name.as_str(), generation.metrics(Some(id)).totals()));
        let without = std::iter::once((NO_FAMILY, generation.metrics(None).totals()));
        history.sample(now, families.chain(without));
    }
}

/// The digest, and the table of the contract in the words of `route-contract list --format json`.
#[derive(Serialize)]
struct ContractPage<'g> {
    digest: &'g str,
    #[serde(flatten)]
    listing: Listing<'g>,
}

impl<'g> ContractPage<'g> {
    fn of(generation: &'g Generation) -> Self {
        Self {
            digest: generation.digest(),
            listing: Listing::of(generation.contract()),
        }
    }
}

/// The generation in force, and what has come of reloads.
#[derive(Serialize)]
struct ReloadPage<'r> {
    /// Its number; the first is 1.
    generation: u64,
    /// When it was made (RFC 3339).
    since: &'r str,
    /// The digest of its contract.
    contract: &'r str,
    /// The last reload; null before the first.
    last: Option<&'r Reload>,
    /// The last one that was refused, whatever came after it; null before the first.
    #[serde(rename = "lastRefused")]
    last_refused: Option<&'r Reload>,
}

#[cfg(test)]
mod tests;
