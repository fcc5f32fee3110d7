//! What is known of one request while it is on its way.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::HeaderValue;
use route_contract::contract::FamilyId;
use route_contract::ownership::TemplateId;

use super::choose::Attempts;
use super::forward::Origin;
use super::generation::Generation;
use super::refusal::Refusal;
use super::request_id::RequestId;
use super::timing::Timing;
use crate::listen::TunnelEnd;
use crate::telemetry::trace::Trace;
use crate::upstream::{Place, Upstream};

/// One request and its answer.
#[derive(Debug)]
pub struct Exchange {
    /// The generation that the request was taken with.
    pub generation: Arc<Generation>,
    /// When its first byte came.
    pub began: Instant,
    /// Where its time goes.
    pub timing: Timing,
    /// Its name.
    pub id: RequestId,
    /// The trace that it belongs to.
    pub trace: Option<Trace>,
    /// Who asks.
    pub origin: Origin,
    /// Whose the path is.
    pub family: Option<FamilyId>,
    /// The template that decided.
    pub template: Option<TemplateId>,
    /// The place among the family's requests in flight; none before the request was admitted.
    pub place: Option<Place>,
    /// The origin-form of the target, where the client sent another form.
    pub target: Option<Bytes>,
    /// Whether a WebSocket is asked for.
    pub websocket: bool,
    /// Where the end of what its client sends is told.
    pub tunnel_end: Arc<TunnelEnd>,
    /// The hash of what keeps the request with others on one endpoint.
    pub key: Option<u64>,
    /// Attempts to reach an upstream.
    pub attempts: Attempts,
    /// Bytes of the body that were sent on in the present attempt.
    pub body_bytes: u64,
    /// The answer of the gateway's own.
    pub refusal: Option<Refusal>,
    /// Whether the request is in the metrics.
    pub counted: bool,
}

impl Exchange {
    /// A request of which nothing is known yet.
    pub fn new(generation: Arc<Generation>) -> Self {
        let now = Instant::now();
        Self {
            generation,
            began: now,
            timing: Timing::begin(now),
            id: RequestId::generate(),
            trace: None,
            origin: Origin {
                address: HeaderValue::from_static("unknown"),
                scheme: HeaderValue::from_static("http"),
                trusted: false,
            },
            family: None,
            template: None,
            place: None,
            target: None,
            websocket: false,
            tunnel_end: Arc::default(),
            key: None,
            attempts: Attempts::default(),
            body_bytes: 0,
            refusal: None,
            counted: false,
        }
    }

    /// The upstream of an admitted request.
    pub fn upstream(&self) -> Option<&Arc<Upstream>> {
        self.place.as_ref().map(Place::upstream)
    }
}
