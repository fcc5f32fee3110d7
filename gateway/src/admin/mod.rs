//! The admin listener: liveness, readiness, metrics and the contract in force. Read-only and not authenticated,
//! so it tells nothing that would help an intruder: no upstream's address, no configuration.

use async_trait::async_trait;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use pingora::apps::http_app::ServeHttp;
use pingora::protocols::http::ServerSession;
use route_contract::contract::{Contract, Serve};
use serde::Serialize;

use crate::proxy::refusal::Refusal;
use crate::proxy::request_id::{RequestId, X_REQUEST_ID};
use crate::readiness::{Answer, Paths};
use crate::reload::report::Reload;
use crate::server::State;

/// The format of Prometheus' text exposition.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The methods of every page (RFC 9110, section 15.5.6).
const ALLOWED: HeaderValue = HeaderValue::from_static("GET, HEAD");

/// The admin listener's pages.
#[derive(Clone, Debug)]
pub struct Admin {
    state: State,
    readiness: Paths,
}

impl Admin {
    /// Pages about this gateway, each as it is at the moment of a request.
    pub fn new(state: State) -> Self {
        Self {
            state,
            readiness: Paths::admin(),
        }
    }

    fn answer(&self, method: &Method, target: &[u8]) -> Response<Vec<u8>> {
        let head_only = method == Method::HEAD;
        let Some(page) = self.page(target) else {
            return refuse(Refusal::NotFound, head_only);
        };
        if !head_only && method != Method::GET {
            return refuse(Refusal::MethodNotAllowed, head_only);
        }
        match page {
            Page::Readiness(answer) => answer.into_response(head_only),
            Page::Metrics => match self.state.render_metrics() {
                Ok(text) => response(StatusCode::OK, METRICS_TYPE, text, head_only),
                Err(error) => {
                    tracing::error!(%error, "cannot render the metrics");
                    refuse(Refusal::Internal, head_only)
                }
            },
            Page::Contract => {
                let generation = self.state.generation.load();
                // Strings and lists of strings are always JSON.
                let body = serde_json::to_vec(&ContractPage::of(generation.contract(), generation.digest()))
                    .unwrap_or_default();
                response(StatusCode::OK, "application/json", body, head_only)
            }
            Page::Reload => {
                let generation = self.state.generation.load();
                let (last, last_refused) = (self.state.reloads.last(), self.state.reloads.last_refused());
                let page = ReloadPage {
                    generation: generation.number(),
                    since: generation.since(),
                    contract: generation.digest(),
                    last: last.as_deref(),
                    last_refused: last_refused.as_deref(),
                };
                // Strings, numbers and lists of them are always JSON.
                let body = serde_json::to_vec(&page).unwrap_or_default();
                response(StatusCode::OK, "application/json", body, head_only)
            }
        }
    }

    fn page(&self, target: &[u8]) -> Option<Page> {
        match target.split(|byte| *byte == b'?').next()? {
            b"/metrics" => Some(Page::Metrics),
            b"/contract" => Some(Page::Contract),
            b"/reload" => Some(Page::Reload),
            _ => {
                let generation = self.state.generation.load();
                let board = generation.board(&self.state.draining);
                let question = self.readiness.question(target, &board)?;
                Some(Page::Readiness(Answer::to(question, &board)))
            }
        }
    }
}

enum Page {
    Readiness(Answer),
    Metrics,
    Contract,
    Reload,
}

#[async_trait]
impl ServeHttp for Admin {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let request = session.req_header();
        self.answer(&request.method, request.raw_path())
    }
}

/// The digest, and the families in the order of classification.
#[derive(Serialize)]
struct ContractPage<'c> {
    digest: &'c str,
    families: Vec<FamilyPage<'c>>,
}

#[derive(Serialize)]
struct FamilyPage<'c> {
    family: &'c str,
    serve: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'c str>,
}

impl<'c> ContractPage<'c> {
    fn of(contract: &'c Contract, digest: &'c str) -> Self {
        let families = contract
            .families
            .iter()
            .map(|family| FamilyPage {
                family: &family.name,
                serve: match family.serve {
                    Serve::Forward => "forward",
                    Serve::Never => "never",
                },
                owner: family.owner.as_deref(),
            })
            .collect();
        Self { digest, families }
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

fn response(status: StatusCode, content_type: &'static str, body: Vec<u8>, head_only: bool) -> Response<Vec<u8>> {
    let length = HeaderValue::from(body.len());
    let mut response = Response::new(if head_only { Vec::new() } else { body });
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_LENGTH, length);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn refuse(refusal: Refusal, head_only: bool) -> Response<Vec<u8>> {
    let id = RequestId::generate();
    let body = refusal.body(&id).to_vec();
    let mut response = response(refusal.status(), "application/json", body, head_only);
    response.headers_mut().insert(X_REQUEST_ID, id.header_value());
    if refusal == Refusal::MethodNotAllowed {
        response.headers_mut().insert(ALLOW, ALLOWED);
    }
    response
}

#[cfg(test)]
mod tests;
