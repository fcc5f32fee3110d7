//! The way of a request, one module a step: [`crate::listen`] accepts, then [`target`], [`classify`], [`admit`],
//! [`choose`], [`forward`], [`respond`], [`record`]. Nothing reaches back.
//!
//! [`Proxy`] calls the steps from Pingora's hooks, in this order: routing and admission in `request_filter`, which runs
//! once; one `upstream_peer` for each attempt; heads on their way out and back; the record at the end. [`refusal`] is
//! the one table of the gateway's own answers, [`failure`] the one map from errors to it.

pub mod admit;
pub mod choose;
pub mod classify;
pub mod door;
pub mod exchange;
pub mod failure;
pub mod forward;
pub mod generation;
pub mod grpc;
pub mod hop_by_hop;
pub mod record;
pub mod refusal;
pub mod request_id;
pub mod respond;
pub mod stream;
pub mod target;
#[cfg(test)]
mod tests;
pub mod timing;

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::modules::http::HttpModules;
use pingora::protocols::Digest;
use pingora::proxy::{FailToProxy, ProxyHttp, ProxyWarnLogContext, Session};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType, Result};

use crate::listen::head::BodyLength;
use crate::listen::{Client, Times};
use crate::readiness::{Answer, Draining, Reason};
use crate::telemetry::Telemetry;
use crate::telemetry::metrics::{RetryCause, UpstreamMetrics};
pub use exchange::Exchange;
pub use generation::Generation;
pub use refusal::Refusal;
use target::Target;

/// The gateway between its public listener and the upstreams.
#[derive(Debug)]
pub struct Proxy {
    generation: Arc<ArcSwap<Generation>>,
    draining: Arc<Draining>,
    telemetry: Arc<Telemetry>,
}

/// What becomes of a request that was looked at.
enum Way {
    /// On to its family's upstream.
    Forward,
    /// Answered from the board.
    Readiness(Answer),
    /// `OPTIONS *`.
    Capabilities,
}

impl Proxy {
    /// A proxy of the generation that `generation` holds at the start of each request.
    pub fn new(generation: Arc<ArcSwap<Generation>>, draining: Arc<Draining>, telemetry: Arc<Telemetry>) -> Self {
        Self {
            generation,
            draining,
            telemetry,
        }
    }

    /// Steps 2 to 4. What is found out goes into the exchange, so that a refusal is recorded with it.
    async fn route(&self, session: &Session, exchange: &mut Exchange) -> std::result::Result<Way, Refusal> {
        let client = Client::of(session).ok_or(Refusal::Internal)?;
        client.note_request();
        exchange.began = client.began().into_std();
        exchange.origin.address = client.peer_value().clone();
        exchange.origin.trusted = exchange.generation.trusts(client.peer().ip());
        if client.is_secure() {
            exchange.origin.scheme = HeaderValue::from_static("https");
        }
        if exchange.origin.trusted {
            let given = session.req_header().headers.get(request_id::X_REQUEST_ID);
            if let Some(id) = given.and_then(request_id::RequestId::accept) {
                exchange.id = id;
            }
        }
        let headers = &session.req_header().headers;
        exchange.trace = self.telemetry.trace(headers, exchange.origin.trusted);
        let (bytes, was_absolute) = match target::of(&client, session.req_header())? {
            Target::Origin { bytes, was_absolute } => (bytes, was_absolute),
            Target::Server => return Ok(Way::Capabilities),
        };
        let generation = &exchange.generation;
        let board = generation.board(&self.draining);
        let question = generation.readiness.question(bytes, &board);
        if let Some(question) = question.filter(|_| is_read(&session.req_header().method)) {
            return Ok(Way::Readiness(Answer::to(question, &board)));
        }
        let classification = classify::classify(&exchange.generation, bytes);
        exchange.family = classify::recorded(classification.verdict);
        exchange.template = classification.template;
        let family = classify::forwarded(classification.verdict)?;
        let body = client.body();
        let keys = exchange.generation.keys(family);
        exchange.key = keys.and_then(|keys| keys.of(bytes, exchange.template, &session.req_header().headers));
        let asked = Instant::now();
        let place = admit::admit(&exchange.generation, family, body).await;
        exchange.timing.queued(match &place {
            Ok(place) => place.waited(),
            Err(_) => asked.elapsed(),
        });
        exchange.place = Some(place?);
        exchange.target = was_absolute.then(|| Bytes::copy_from_slice(bytes));
        let carries_websockets = exchange
            .upstream()
            .is_some_and(|upstream| upstream.carries_websockets());
        exchange.websocket =
            carries_websockets && body == BodyLength::None && forward::wants_websocket(session.req_header());
        Ok(Way::Forward)
    }

    /// Answers with a row of the table. A client that does not take it is gone, which the record shows.
    async fn refuse(&self, session: &mut Session, exchange: &mut Exchange, refusal: Refusal) -> Result<()> {
        exchange.refusal = Some(refusal);
        if grpc::is_spoken(session.req_header()) {
            let head = grpc::head(refusal, &exchange.id)?;
            return self.answer(session, exchange, head, Bytes::new()).await;
        }
        let body = refusal.body(&exchange.id);
        let head = refusal.head(&exchange.id, body.len())?;
        self.answer(session, exchange, head, body).await
    }

    async fn answer(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        head: ResponseHeader,
        body: Bytes,
    ) -> Result<()> {
        // A refusal in gRPC's form has another status on the wire than in the table.
        let status = exchange.refusal.map_or(head.status, Refusal::status);
        record::count(exchange, Some(status.as_u16()));
        exchange.timing.pass_on();
        if self.draining.has_begun() {
            session.set_keepalive(None);
        }
        let with_body = session.req_header().method != Method::HEAD && !body.is_empty();
        session
            .as_downstream_mut()
            .write_response_header(Box::new(head))
            .await?;
        if with_body {
            session.as_downstream_mut().write_response_body(body, true).await?;
        }
        Ok(())
    }
}

/// Counts something of the upstream of an admitted request.
fn count_upstream(exchange: &Exchange, count: impl FnOnce(&UpstreamMetrics)) {
    if let Some(metrics) = exchange
        .family
        .and_then(|family| exchange.generation.upstream_metrics(family))
    {
        count(metrics);
    }
}

fn is_read(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = Exchange;

    fn new_ctx(&self) -> Exchange {
        Exchange::new(self.generation.load_full())
    }

    /// None: each would cost every request.
    fn init_downstream_modules(&self, _modules: &mut HttpModules) {}

    /// Steps 2 to 4: target, classify, admit. True: the request is answered.
    async fn request_filter(&self, session: &mut Session, exchange: &mut Exchange) -> Result<bool> {
        session.set_read_timeout(Some(exchange.generation.client_timeout));
        match self.route(session, exchange).await {
            Ok(Way::Forward) => return Ok(false),
            Ok(Way::Readiness(answer)) => {
                let (parts, body) = answer.into_response(false).into_parts();
                let mut head = ResponseHeader::build(parts.status, Some(8))?;
                for (name, value) in &parts.headers {
                    head.insert_header(name, value)?;
                }
                head.insert_header(request_id::WIRE_NAME, exchange.id.header_value())?;
                self.answer(session, exchange, head, body.into()).await?;
            }
            Ok(Way::Capabilities) => {
                let mut head = ResponseHeader::build(StatusCode::NO_CONTENT, Some(4))?;
                head.insert_header("Allow", refusal::ALLOWED_METHODS)?;
                head.insert_header(request_id::WIRE_NAME, exchange.id.header_value())?;
                self.answer(session, exchange, head, Bytes::new()).await?;
            }
            Err(refusal) => self.refuse(session, exchange, refusal).await?,
        }
        Ok(true)
    }

    /// Step 5: choose. Runs once for each attempt.
    async fn upstream_peer(&self, session: &mut Session, exchange: &mut Exchange) -> Result<Box<HttpPeer>> {
        exchange.timing.attempt();
        // A further attempt sends the body from its start.
        exchange.body_bytes = 0;
        let place = exchange.place.as_ref();
        let upstream = place.map(crate::upstream::Place::upstream).ok_or_else(not_admitted)?;
        let is_watched = Client::of(session).is_some();
        let kind = if is_watched {
            choose::Kind::Watched
        } else if stream::is_wanted(session.req_header()) {
            choose::Kind::Stream
        } else {
            choose::Kind::Answer
        };
        let tunnel = exchange.websocket.then_some(&exchange.tunnel_end);
        exchange.attempts.next(upstream, exchange.key, kind, tunnel)
    }

    fn fail_to_connect(
        &self,
        _session: &mut Session,
        _peer: &HttpPeer,
        exchange: &mut Exchange,
        mut error: Box<Error>,
    ) -> Box<Error> {
        let Some(upstream) = exchange.upstream() else {
            return error;
        };
        if let Some(in_use) = exchange.attempts.endpoint() {
            let reason = Reason::of_error(&error.etype);
            upstream.connect_failed(in_use.endpoint(), reason);
            count_upstream(exchange, |metrics| metrics.count_connect_failure(reason));
        }
        let retry = exchange.attempts.may_reconnect(upstream, exchange.began);
        error.set_retry(retry);
        if retry {
            count_upstream(exchange, |metrics| metrics.count_retry(RetryCause::Connect));
        }
        error
    }

    async fn connected_to_upstream(
        &self,
        session: &mut Session,
        is_reused: bool,
        _peer: &HttpPeer,
        _descriptor: std::os::fd::RawFd,
        _digest: Option<&Digest>,
        exchange: &mut Exchange,
    ) -> Result<()> {
        count_upstream(exchange, |metrics| metrics.count_connection(is_reused));
        if let Some(upstream) = exchange.upstream() {
            if let Some(in_use) = exchange.attempts.endpoint() {
                upstream.connected(in_use.endpoint());
            }
            if let Some(client) = Client::of(session) {
                let timeouts = upstream.timeouts();
                client.set_times(Times {
                    answer: Some(timeouts.response),
                    silence: None,
                    total: timeouts.body.total,
                });
            }
        }
        Ok(())
    }

    /// Step 6: forward the head.
    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        exchange: &mut Exchange,
    ) -> Result<()> {
        let is_http2 = request.version == Version::HTTP_2;
        let takes_trailers = is_http2 && forward::takes_trailers(session.req_header());
        // Pingora passes no interim answer on from HTTP/2, so nobody else would ask the client for its body.
        if is_http2 && forward::expects_continue(session.req_header()) {
            request.remove_header("Expect");
            session.as_downstream_mut().write_continue_response().await?;
        }
        let target = exchange.target.as_deref();
        let passed = exchange
            .upstream()
            .map_or(&[][..], |upstream| upstream.passed_headers());
        forward::rewrite(
            request,
            target,
            &exchange.origin,
            &exchange.id,
            exchange.websocket,
            passed,
        )?;
        forward::write_trace(request, exchange.trace.as_ref())?;
        if takes_trailers {
            request.insert_header("TE", HeaderValue::from_static("trailers"))?;
        }
        Ok(())
    }

    /// Step 6: forward the body, counted.
    async fn request_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        exchange: &mut Exchange,
    ) -> Result<()> {
        if session.was_upgraded() {
            return Ok(());
        }
        exchange.body_bytes += body.as_ref().map_or(0, |bytes| bytes.len() as u64);
        if exchange.body_bytes > exchange.generation.body_limit {
            return Err(Error::explain(ErrorType::HTTPStatus(413), "the body is over its limit"));
        }
        if end_of_stream && body.as_ref().is_some_and(Bytes::is_empty) {
            // An empty last piece would be written as a second end of the chunked body and be read as the start of
            // the next answer's request.
            *body = None;
        }
        Ok(())
    }

    fn error_while_proxy(
        &self,
        _peer: &HttpPeer,
        session: &mut Session,
        mut error: Box<Error>,
        exchange: &mut Exchange,
        is_reused: bool,
    ) -> Box<Error> {
        let is_idempotent = session.req_header().method.is_idempotent();
        let body_is_held = !session.as_ref().retry_buffer_truncated();
        let untouched = session.response_written().is_none();
        let failed = choose::Failed {
            error: &error,
            is_reused,
            is_idempotent,
            body_is_held,
        };
        let retry = match exchange.place.as_ref().filter(|_| untouched) {
            Some(place) => exchange.attempts.may_resend(failed, place.upstream(), exchange.began),
            None => false,
        };
        error.set_retry(retry);
        if retry {
            count_upstream(exchange, |metrics| metrics.count_retry(RetryCause::Resend));
        }
        error
    }

    /// Step 7: respond.
    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        exchange: &mut Exchange,
    ) -> Result<()> {
        if response.status == StatusCode::SWITCHING_PROTOCOLS && !exchange.websocket {
            return Err(Error::explain(ErrorType::InvalidHTTPHeader, "an upgrade that was not asked for").into_up());
        }
        let version = session.req_header().version;
        let client = Client::of(session);
        let is_final = !response.status.is_informational() || response.status == StatusCode::SWITCHING_PROTOCOLS;
        if is_final {
            exchange.timing.answered();
        }
        if let Some(upstream) = exchange.upstream().filter(|_| is_final) {
            if let Some(in_use) = exchange.attempts.endpoint() {
                upstream.answered(in_use.endpoint(), response.status.as_u16());
            }
            let span = stream::span(response, upstream.timeouts());
            if let Some(client) = client {
                client.set_times(Times {
                    answer: None,
                    silence: Some(span.silence),
                    total: span.total,
                });
            }
            if response.status == StatusCode::SWITCHING_PROTOCOLS {
                session.set_read_timeout(Some(span.silence));
            }
        }
        let known: Vec<_> = exchange
            .generation
            .upstreams
            .all()
            .map(|upstream| upstream.endpoints())
            .collect();
        respond::rewrite(response, &known, &exchange.id, version)?;
        if response.status == StatusCode::SWITCHING_PROTOCOLS {
            if let Some(client) = Client::of(session) {
                // Under TLS the socket cannot tell which of its bytes are the client's.
                let in_use = exchange.attempts.endpoint();
                let is_plain = in_use.is_some_and(|in_use| !in_use.endpoint().peer().is_tls());
                client.begin_tunnel(is_plain.then(|| exchange.tunnel_end.clone()));
            }
        } else if self.draining.has_begun() || (version < Version::HTTP_11 && respond::ends_with_connection(response)) {
            session.set_keepalive(None);
        }
        if is_final {
            exchange.timing.pass_on();
        }
        Ok(())
    }

    /// Step 7: respond, behind the body.
    async fn response_trailer_filter(
        &self,
        _session: &mut Session,
        trailers: &mut HeaderMap,
        exchange: &mut Exchange,
    ) -> Result<Option<Bytes>> {
        let known: Vec<_> = exchange
            .generation
            .upstreams
            .all()
            .map(|upstream| upstream.endpoints())
            .collect();
        respond::rewrite_trailers(trailers, &known);
        Ok(None)
    }

    /// The answer to a failure. What has begun cannot be answered again: its connection closes.
    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, exchange: &mut Exchange) -> FailToProxy {
        let family = exchange.family.and_then(|family| exchange.generation.name(family));
        // The error's own text names the upstream, and may hold what either side has sent.
        let (kind, side) = (error.etype.as_str(), error.esource.as_str());
        tracing::debug!(
            requestId = exchange.id.as_str(),
            family,
            kind,
            side,
            "a request has failed"
        );
        let fault = Client::of(session).and_then(|client| client.fault());
        let begun = session
            .response_written()
            // Behind a 101 the bytes are the tunnel's: an envelope among them would be taken for a frame.
            .is_some_and(|head| !head.status.is_informational() || head.status == StatusCode::SWITCHING_PROTOCOLS);
        // A client that is gone is answered nothing.
        let Some(refusal) = failure::refusal(error, fault) else {
            return FailToProxy {
                error_code: 0,
                can_reuse_downstream: false,
            };
        };
        if begun {
            exchange.refusal = Some(refusal);
            return FailToProxy {
                error_code: 0,
                can_reuse_downstream: false,
            };
        }
        if matches!(
            refusal,
            Refusal::UpstreamFailure | Refusal::UpstreamTimeout | Refusal::Internal
        ) {
            tracing::warn!(
                requestId = exchange.id.as_str(),
                family,
                kind,
                "the upstream has failed"
            );
        }
        session.set_keepalive(None);
        if let Err(error) = self.refuse(session, exchange, refusal).await {
            tracing::debug!(kind = error.etype.as_str(), "an answer could not be written");
        }
        FailToProxy {
            error_code: refusal.status().as_u16(),
            can_reuse_downstream: false,
        }
    }

    /// Step 8: record.
    async fn logging(&self, session: &mut Session, _error: Option<&Error>, exchange: &mut Exchange) {
        record::record(session, exchange, &self.telemetry);
        // The place is free before the connection is waited on for the next request.
        exchange.attempts = choose::Attempts::default();
        exchange.place = None;
    }

    /// Pingora's own line would hold the upstream's address.
    fn suppress_error_log(&self, _session: &Session, _exchange: &Exchange, _error: &Error) -> bool {
        true
    }

    fn suppress_proxy_warn_log(
        &self,
        _session: &Session,
        _exchange: &Exchange,
        _error: &Error,
        _context: ProxyWarnLogContext,
    ) -> bool {
        true
    }
}

/// Cannot happen: only an admitted request gets past `request_filter`.
fn not_admitted() -> Box<Error> {
    Error::explain(ErrorType::InternalError, "the request was not admitted")
}
