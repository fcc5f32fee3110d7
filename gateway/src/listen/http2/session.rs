//! One HTTP/2 stream as Pingora's proxy sees it: the request's head is there, its body is read and the answer written.
//!
//! Pingora's own session for HTTP/2 has no limit on a client that stops sending its body, none on an answer that does
//! not begin, sends no interim answers, and passes a body's empty last piece on as one more piece. This one does what
//! the gateway's HTTP/1 connections do, so that the proxy need not know which it has.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONNECTION, DATE, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, Response, StatusCode};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::Digest;
use pingora::protocols::http::HttpTask;
use pingora::protocols::http::custom::CustomMessageWrite;
use pingora::protocols::http::custom::server::Session;
use pingora::protocols::http::date::get_cached_date;
use pingora::protocols::http::v1::client::http_req_header_to_wire;
use pingora::protocols::l4::socket::SocketAddr;
use pingora::{Error, ErrorType, OrErr, Result};
use tokio::time::timeout;

use super::client::StreamClient;
use crate::listen::Limits;
use crate::listen::connection::RequestFault;
use crate::listen::deadlines::Deadlines;
use crate::listen::pace::Pace;

/// Bytes of a body that are kept for a second attempt; as many as Pingora keeps of one that came over HTTP/1.
const KEPT_BODY: usize = 64 * 1024;
/// Fields of an HTTP/1 connection, which HTTP/2 must not bear (RFC 9113 section 8.2.2).
const OF_THE_CONNECTION: [HeaderName; 6] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    TE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// One stream: a request and its answer.
pub(super) struct StreamSession {
    request: RequestHeader,
    client: Arc<StreamClient>,
    body: RecvStream,
    is_read: bool,
    respond: SendResponse<Bytes>,
    sender: Option<SendStream<Bytes>>,
    answer: Option<Box<ResponseHeader>>,
    has_ended: bool,
    received: usize,
    sent: usize,
    kept: Option<KeptBody>,
    read_limit: Option<Duration>,
    write_limit: Option<Duration>,
    drain_limit: Option<Duration>,
    deadlines: Deadlines,
    /// The patience with a client that sends.
    sending: Pace,
    /// The patience with a client that takes.
    taking: Pace,
}

/// The beginning of a body; none once it has become too long.
struct KeptBody(Option<BytesMut>);

impl StreamSession {
    /// A session whose client has the times of `limits` to send and to take.
    pub fn new(
        request: RequestHeader,
        client: Arc<StreamClient>,
        body: RecvStream,
        respond: SendResponse<Bytes>,
        limits: &Limits,
    ) -> Self {
        let pace = || Pace::new(limits.stall_timeout, limits.min_rate);
        Self {
            deadlines: Deadlines::new(client.began()),
            sending: pace(),
            taking: pace(),
            request,
            client,
            is_read: body.is_end_stream(),
            body,
            respond,
            sender: None,
            answer: None,
            has_ended: false,
            received: 0,
            sent: 0,
            kept: None,
            read_limit: None,
            write_limit: None,
            drain_limit: Some(limits.stall_timeout),
        }
    }

    /// Reads the end of a body that is to be empty, so that nothing is asked of an upstream for one that is not
    /// (RFC 9113 section 8.1.1).
    ///
    /// # Errors
    /// The client's, or the library's for bytes beyond the length that the head has told.
    pub async fn read_nothing(&mut self) -> Result<()> {
        match self.next_piece().await? {
            None => Ok(()),
            Some(_) => Error::e_explain(ErrorType::ReadError, "a body beyond its length"),
        }
    }

    /// The next bytes of the body, never none of them; `None` is its end. Trailers are read, so that malformed ones
    /// are a fault, and end here: Pingora has no way for them.
    async fn next_piece(&mut self) -> Result<Option<Bytes>> {
        while !self.is_read {
            let Some(piece) = poll_fn(|context| self.poll_piece(context)).await? else {
                self.is_read = true;
                break;
            };
            // An error here shows again in the next read.
            let _released = self.body.flow_control().release_capacity(piece.len());
            self.is_read = self.body.is_end_stream();
            if piece.is_empty() {
                continue;
            }
            self.received += piece.len();
            if let Some(kept) = &mut self.kept {
                kept.add(&piece);
            }
            return Ok(Some(piece));
        }
        Ok(None)
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>>> {
        let read = |error| Error::because(ErrorType::ReadError, "reading an HTTP/2 body", error);
        if self.client.is_cut() {
            return Poll::Ready(self.fail(RequestFault::Cut));
        }
        self.deadlines.set(self.client.times());
        if self.deadlines.poll(context, false).is_ready() {
            return Poll::Ready(self.fail(RequestFault::Slow));
        }
        let piece = match self.body.poll_data(context) {
            Poll::Ready(Some(piece)) => Poll::Ready(piece.map(Some)),
            Poll::Ready(None) => self.body.poll_trailers(context).map_ok(|_| None),
            Poll::Pending => Poll::Pending,
        };
        match piece {
            Poll::Ready(piece) => {
                let length = piece.as_ref().ok().and_then(Option::as_ref).map_or(0, Bytes::len);
                self.sending.progress(length);
                Poll::Ready(piece.map_err(read))
            }
            // A client that is being answered already need not send.
            Poll::Pending if !self.deadlines.is_answering() => {
                ready!(self.sending.poll_wait(context));
                Poll::Ready(self.fail(RequestFault::Slow))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn fail<T>(&self, fault: RequestFault) -> Result<T> {
        self.client.set_fault(fault);
        Error::e_explain(ErrorType::ReadError, "a time is up")
    }

    /// Waits until the client gives the stream up, or the answer is late.
    async fn idle(&mut self) -> Result<Option<Bytes>> {
        let reason = poll_fn(|context| {
            if self.client.is_cut() {
                return Poll::Ready(Err(RequestFault::Cut));
            }
            self.deadlines.set(self.client.times());
            if self.deadlines.poll(context, true).is_ready() {
                return Poll::Ready(Err(RequestFault::Unanswered));
            }
            let reset = match &mut self.sender {
                Some(sender) => sender.poll_reset(context),
                None => self.respond.poll_reset(context),
            };
            reset.map(Ok)
        })
        .await;
        match reason {
            Ok(Ok(reason)) => Error::e_explain(ErrorType::ConnectionClosed, format!("the client reset: {reason}")),
            Ok(Err(error)) => Error::e_because(ErrorType::ConnectionClosed, "the client is gone", error),
            Err(fault) => self.fail(fault),
        }
    }

    fn send_head(&mut self, mut head: Box<ResponseHeader>, ends: bool) -> Result<()> {
        if self.has_ended || self.answer.is_some() {
            return Ok(());
        }
        for name in &OF_THE_CONNECTION {
            head.remove_header(name);
        }
        if head.status.is_informational() {
            return self.send_interim(&head);
        }
        head.insert_header(DATE, get_cached_date())?;
        let response = Response::from_parts(head.as_owned_parts(), ());
        let sender = self.respond.send_response(response, ends).map_err(unwritten)?;
        self.sender = Some(sender);
        self.answer = Some(head);
        self.has_ended = ends;
        Ok(())
    }

    /// RFC 9113 section 8.1: interim answers are header blocks of their own; 101 does not exist.
    fn send_interim(&mut self, head: &ResponseHeader) -> Result<()> {
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Error::e_explain(ErrorType::InvalidHTTPHeader, "HTTP/2 has no upgrades");
        }
        let response = Response::from_parts(head.as_owned_parts(), ());
        self.respond.send_informational(response).map_err(unwritten)
    }

    async fn send_piece(&mut self, mut piece: Bytes, ends: bool) -> Result<()> {
        if self.has_ended {
            return Ok(());
        }
        let Some(sender) = &mut self.sender else {
            return Error::e_explain(ErrorType::InternalError, "a body without a head");
        };
        if piece.is_empty() {
            return if ends { self.send_end() } else { Ok(()) };
        }
        self.sent += piece.len();
        while !piece.is_empty() {
            sender.reserve_capacity(piece.len());
            let room = poll_fn(|context| {
                if let Poll::Ready(room) = sender.poll_capacity(context) {
                    return Poll::Ready(Some(room));
                }
                let late = self.taking.poll_wait(context).is_ready() || self.deadlines.poll(context, true).is_ready();
                if late { Poll::Ready(None) } else { Poll::Pending }
            });
            let room = match self.write_limit {
                Some(limit) => timeout(limit, room).await.unwrap_or_default(),
                None => room.await,
            };
            let room = room.ok_or_else(|| {
                Error::explain(ErrorType::WriteTimedout, "the client takes no more of its answer").into_down()
            })?;
            let room = room
                .transpose()
                .map_err(unwritten)?
                .ok_or_else(|| Error::explain(ErrorType::WriteError, "the stream is closed").into_down())?;
            self.taking.progress(room);
            self.deadlines.moved();
            let part = piece.split_to(room.min(piece.len()));
            let ends = ends && piece.is_empty();
            sender.send_data(part, ends).map_err(unwritten)?;
            self.has_ended = ends;
        }
        Ok(())
    }

    fn send_end(&mut self) -> Result<()> {
        if let Some(sender) = self.sender.as_mut().filter(|_| !self.has_ended) {
            sender.send_data(Bytes::new(), true).map_err(unwritten)?;
            self.has_ended = true;
        }
        Ok(())
    }

    fn send_trailers(&mut self, trailers: HeaderMap) -> Result<()> {
        if let Some(sender) = self.sender.as_mut().filter(|_| !self.has_ended) {
            sender.send_trailers(trailers).map_err(unwritten)?;
            self.has_ended = true;
        }
        Ok(())
    }
}

fn unwritten(error: h2::Error) -> Box<Error> {
    Error::because(ErrorType::WriteError, "writing an HTTP/2 answer", error).into_down()
}

impl KeptBody {
    fn add(&mut self, piece: &Bytes) {
        match &mut self.0 {
            Some(kept) if kept.len() + piece.len() <= KEPT_BODY => kept.extend_from_slice(piece),
            kept => *kept = None,
        }
    }
}

/// The trait has more methods than this kind of session has uses for; messages beside the body, which only protocols
/// of one's own have, are none here.
#[async_trait]
impl Session for StreamSession {
    fn req_header(&self) -> &RequestHeader {
        &self.request
    }

    fn req_header_mut(&mut self) -> &mut RequestHeader {
        &mut self.request
    }

    async fn read_body_bytes(&mut self) -> Result<Option<Bytes>> {
        match self.read_limit {
            Some(limit) => timeout(limit, self.next_piece())
                .await
                .or_err(ErrorType::ReadTimedout, "the client sends no more of its body")?,
            None => self.next_piece().await,
        }
    }

    async fn drain_request_body(&mut self) -> Result<()> {
        let limit = self.drain_limit;
        let drain = async {
            while self.next_piece().await?.is_some() {}
            Ok(())
        };
        match limit {
            Some(limit) => timeout(limit, drain)
                .await
                .or_err(ErrorType::ReadTimedout, "the client does not end its body")?,
            None => drain.await,
        }
    }

    async fn write_response_header(&mut self, head: Box<ResponseHeader>, ends: bool) -> Result<()> {
        self.send_head(head, ends)
    }

    async fn write_response_header_ref(&mut self, head: &ResponseHeader, ends: bool) -> Result<()> {
        self.send_head(Box::new(head.clone()), ends)
    }

    async fn write_body(&mut self, piece: Bytes, ends: bool) -> Result<()> {
        self.send_piece(piece, ends).await
    }

    async fn write_trailers(&mut self, trailers: HeaderMap) -> Result<()> {
        self.send_trailers(trailers)
    }

    async fn response_duplex_vec(&mut self, tasks: Vec<HttpTask>) -> Result<bool> {
        let mut is_done = false;
        for task in tasks {
            match task {
                HttpTask::Header(head, ends) => {
                    self.send_head(head, ends)?;
                    is_done |= ends;
                }
                HttpTask::Body(piece, ends) => {
                    self.send_piece(piece.unwrap_or_default(), ends).await?;
                    is_done |= ends;
                }
                HttpTask::UpgradedBody(..) => {
                    return Error::e_explain(ErrorType::InternalError, "HTTP/2 has no upgrades");
                }
                HttpTask::Trailer(trailers) => {
                    if let Some(trailers) = trailers {
                        self.send_trailers(*trailers)?;
                    }
                    is_done = true;
                }
                HttpTask::Done => is_done = true,
                HttpTask::Failed(error) => return Err(error),
            }
        }
        if is_done {
            self.finish().await?;
        }
        Ok(is_done)
    }

    fn set_read_timeout(&mut self, limit: Option<Duration>) {
        self.read_limit = limit;
    }

    fn get_read_timeout(&self) -> Option<Duration> {
        self.read_limit
    }

    fn set_write_timeout(&mut self, limit: Option<Duration>) {
        self.write_limit = limit;
    }

    fn get_write_timeout(&self) -> Option<Duration> {
        self.write_limit
    }

    fn set_total_drain_timeout(&mut self, limit: Option<Duration>) {
        self.drain_limit = limit;
    }

    fn get_total_drain_timeout(&self) -> Option<Duration> {
        self.drain_limit
    }

    /// Nothing that a client sent belongs into a message of the library's.
    fn request_summary(&self) -> String {
        "an HTTP/2 request".to_owned()
    }

    fn response_written(&self) -> Option<&ResponseHeader> {
        self.answer.as_deref()
    }

    async fn shutdown(&mut self, _code: u32, _context: &str) {
        if !self.has_ended {
            self.respond.send_reset(Reason::INTERNAL_ERROR);
        }
    }

    fn is_body_done(&mut self) -> bool {
        self.is_read
    }

    /// Ends an answer that has begun; one that has not is a reset when this is dropped.
    async fn finish(&mut self) -> Result<()> {
        self.send_end()
    }

    fn is_body_empty(&mut self) -> bool {
        self.is_read && self.received == 0
    }

    async fn read_body_or_idle(&mut self, no_body_expected: bool) -> Result<Option<Bytes>> {
        if no_body_expected || self.is_read {
            self.idle().await
        } else {
            self.read_body_bytes().await
        }
    }

    fn body_bytes_sent(&self) -> usize {
        self.sent
    }

    fn body_bytes_read(&self) -> usize {
        self.received
    }

    fn digest(&self) -> Option<&Digest> {
        None
    }

    fn digest_mut(&mut self) -> Option<&mut Digest> {
        None
    }

    fn client_addr(&self) -> Option<&SocketAddr> {
        None
    }

    fn server_addr(&self) -> Option<&SocketAddr> {
        None
    }

    fn pseudo_raw_h1_request_header(&self) -> Bytes {
        http_req_header_to_wire(&self.request)
            .map(BytesMut::freeze)
            .unwrap_or_default()
    }

    fn enable_retry_buffering(&mut self) {
        self.kept.get_or_insert_with(|| KeptBody(Some(BytesMut::new())));
    }

    fn retry_buffer_truncated(&self) -> bool {
        matches!(self.kept, Some(KeptBody(None)))
    }

    fn get_retry_buffer(&self) -> Option<Bytes> {
        let kept = self.kept.as_ref()?.0.as_ref()?;
        (!kept.is_empty()).then(|| kept.clone().freeze())
    }

    async fn finish_custom(&mut self) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_reader(
        &mut self,
    ) -> Option<Box<dyn futures_core::Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>> {
        None
    }

    fn restore_custom_message_reader(
        &mut self,
        _reader: Box<dyn futures_core::Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>,
    ) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_writer(&mut self) -> Option<Box<dyn CustomMessageWrite>> {
        None
    }

    fn restore_custom_message_writer(&mut self, _writer: Box<dyn CustomMessageWrite>) -> Result<()> {
        Ok(())
    }
}
