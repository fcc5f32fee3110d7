//! One client connection: the bytes that came, the message they belong to, and the bytes that leave.
//!
//! A [`Connection`] knows where each request ends, so whoever reads a request is given that request's bytes and no
//! others; what a client sent ahead stays here until its turn.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::Instant;

use super::chunked::Chunks;
use super::deadlines::{Deadlines, Times};
use super::frames::{Frames, GOING_AWAY};
use super::head::{BodyLength, Head};
use super::http2::{Http2Connection, Link};
use super::output::Output;
use super::pace::Pace;
use super::tunnel_end::TunnelEnd;

/// What carries a connection's bytes: a TCP socket, or TLS on one.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send + Sync + fmt::Debug + 'static {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync + fmt::Debug + 'static> Transport for T {}

/// Room for what comes of a head at once; most heads fit.
const INPUT_ROOM: usize = 4 * 1024;
/// Room for what is thrown away at once.
const SCRAP_ROOM: usize = 16 * 1024;
/// Bytes that are taken from a client who sends ahead while its request is being answered.
const AHEAD_ROOM: usize = 2 * 1024;
/// After an answer that leaves a request's body unread: how long, and how much of it, is read and thrown away so that
/// the client sees the answer and no reset (RFC 9112 section 9.6).
const LINGER_TIME: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 64 * 1024 * 1024;

/// The same after an idle connection was closed: a request that was under way then sees the connection's end, after which
/// it may be sent again (RFC 9112 section 9.3.1), and no reset.
const LINGER_IDLE: Duration = Duration::from_millis(500);

/// The place in the message that is being read.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Between messages, or in a head that is not complete.
    Waiting,
    /// The head is complete and is being handed on.
    Head,
    /// In a body that ends after so many bytes.
    Exactly(u64),
    /// In a chunked body.
    Chunked(Chunks),
    /// Behind the message's last byte.
    Complete,
    /// No messages any more: bytes of an upgraded protocol.
    Tunnel,
}

/// Why reading a request from its connection has failed, beside the client's having left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// The body broke the chunked coding.
    Coding,
    /// The request is whole, and its time is up.
    Unanswered,
    /// The request is not whole, and its time is up or its client is too slow.
    Slow,
    /// The gateway ends, and the time for what is in flight is over.
    Cut,
}

/// One client connection.
pub struct Connection {
    transport: Box<dyn Transport>,
    /// The client's address.
    pub peer: SocketAddr,
    /// The address that the client connected to.
    pub local: SocketAddr,
    descriptor: i32,
    is_secure: bool,
    accepted: Instant,
    /// When the first byte of the present request came.
    began: Instant,
    input: BytesMut,
    head: Option<Head>,
    /// How much of `input` has been handed on.
    given: usize,
    stage: Stage,
    fault: Option<RequestFault>,
    deadlines: Deadlines,
    /// How slowly a body may come.
    pace: Pace,
    noted: bool,
    tunnel_end: Option<Arc<TunnelEnd>>,
    /// What the upstream sends into a tunnel.
    frames: Option<Frames>,
    peer_value: OnceLock<HeaderValue>,
    output: Output,
}

impl Connection {
    /// A connection just accepted. A client that sends or takes nothing for `stall_limit` while it is waited for, or less
    /// than `min_rate` bytes a second for longer, is given up.
    pub fn new(
        transport: Box<dyn Transport>,
        peer: SocketAddr,
        local: SocketAddr,
        descriptor: i32,
        stall_limit: Duration,
        min_rate: u64,
    ) -> Self {
        let accepted = Instant::now();
        Self {
            transport,
            peer,
            local,
            descriptor,
            is_secure: false,
            accepted,
            began: accepted,
            input: BytesMut::new(),
            head: None,
            given: 0,
            stage: Stage::Waiting,
            fault: None,
            deadlines: Deadlines::new(accepted),
            pace: Pace::new(stall_limit, min_rate),
            noted: false,
            tunnel_end: None,
            frames: None,
            peer_value: OnceLock::new(),
            output: Output::new(stall_limit, min_rate),
        }
    }

    /// The same, with bytes that came over TLS, on a connection that was accepted at `accepted`.
    #[must_use]
    pub(super) fn secured_since(mut self: Box<Self>, accepted: Instant) -> Box<Self> {
        self.is_secure = true;
        self.accepted = accepted;
        self
    }

    /// The connection as one of HTTP/2, to which what was read of it belongs too.
    pub(super) fn into_http2(self: Box<Self>) -> Http2Connection {
        let link = Link {
            peer: self.peer,
            peer_value: self.peer_value().clone(),
            is_secure: self.is_secure,
        };
        Http2Connection {
            transport: self.transport,
            beginning: self.input,
            link,
            accepted: self.accepted,
        }
    }

    /// Whether the bytes came over TLS.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// When the connection was accepted.
    pub fn accepted(&self) -> Instant {
        self.accepted
    }

    /// When the first byte of the present request came.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// The number of the socket's descriptor, which is unique among open connections.
    pub fn descriptor(&self) -> i32 {
        self.descriptor
    }

    /// The head of the present request, once it is complete.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The bytes of the present request's head; before it is complete, what has come of it.
    pub fn head_bytes(&self) -> &[u8] {
        let end = self.head.as_ref().map_or(self.input.len(), |head| head.len);
        self.input.get(..end).unwrap_or_default()
    }

    /// Bytes received and not handed on.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// Why the last read of the present request has failed.
    pub fn fault(&self) -> Option<RequestFault> {
        self.fault
    }

    /// The times of the present request. Whoever waits for the client when one is up gets an error, which ends the wait
    /// for an upstream that is silent or sends byte by byte.
    pub(super) fn set_times(&mut self, times: Times) {
        self.deadlines.set(times);
    }

    /// The client's address without its port, as a header's value; made once for a connection.
    pub fn peer_value(&self) -> &HeaderValue {
        self.peer_value.get_or_init(|| {
            let text = self.peer.ip().to_canonical().to_string();
            HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("unknown"))
        })
    }

    /// Whether the present request has reached its application, as far as that tells.
    pub(super) fn is_noted(&self) -> bool {
        self.noted
    }

    pub(super) fn set_noted(&mut self, noted: bool) {
        self.noted = noted;
    }

    /// Whether the present request has been handed on to its last byte.
    pub fn is_complete(&self) -> bool {
        matches!(self.stage, Stage::Complete)
    }

    /// Reads more of a head; false is the end of the client's bytes.
    pub async fn read_more(&mut self) -> io::Result<bool> {
        poll_fn(|context| {
            // On the stack, so that a connection which waits has no room for what may never come.
            let mut room = [MaybeUninit::uninit(); INPUT_ROOM];
            let mut fresh = ReadBuf::uninit(&mut room);
            if Pin::new(&mut self.transport)
                .poll_read(context, &mut fresh)?
                .is_pending()
            {
                self.rest();
                return Poll::Pending;
            }
            if self.input.is_empty() {
                self.began = Instant::now();
            }
            self.input.extend_from_slice(fresh.filled());
            Poll::Ready(Ok(!fresh.filled().is_empty()))
        })
        .await
    }

    /// Gives back what an idle connection does not need.
    fn rest(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
            self.output.rest();
        }
    }

    /// RFC 9112 section 2.2: an empty line in front of a request line is skipped.
    pub fn skip_empty_line(&mut self) {
        if self.input.starts_with(b"\r\n") {
            self.input.advance(2);
        }
    }

    /// Takes up the request whose head stands at the start of the input.
    pub fn begin_request(&mut self, head: Head) {
        self.head = Some(head);
        self.given = 0;
        self.fault = None;
        self.deadlines.begin(self.began);
        self.pace.reset();
        self.stage = Stage::Head;
    }

    /// Leaves a request without a body that was answered by its head.
    pub fn pass_over(&mut self) {
        self.given = self.head.as_ref().map_or(0, |head| head.len);
        self.end_request();
    }

    /// Leaves a request that was handed on to its last byte; what came after it is the start of the next one.
    pub fn end_request(&mut self) {
        self.input.advance(self.given.min(self.input.len()));
        self.head = None;
        self.given = 0;
        self.stage = Stage::Waiting;
        // A request sent ahead begins when its turn comes.
        self.began = Instant::now();
    }

    /// From here on all bytes belong to an upgraded protocol, and its end is told to `end`.
    pub fn begin_tunnel(&mut self, end: Option<Arc<TunnelEnd>>) {
        self.stage = Stage::Tunnel;
        if end.is_some() {
            self.tunnel_end = end;
        }
    }

    /// From here on what is written is the answer that opens a WebSocket, and its frames.
    pub(super) fn follow_frames(&mut self) {
        self.frames.get_or_insert_with(Frames::new);
    }

    /// Tells the client of a WebSocket that it is being closed, where that can be told from what the upstream has sent:
    /// between two frames. In the middle of one, the end of the connection must do.
    pub async fn say_going_away(&mut self) {
        if self.frames.is_some_and(|frames| frames.may_end()) {
            // A client that does not take it is gone.
            let _sent = self.send(GOING_AWAY).await;
        }
    }

    /// Writes `answer` and everything before it.
    pub async fn send(&mut self, answer: &[u8]) -> io::Result<()> {
        self.output.gather(answer);
        poll_fn(|context| self.poll_flush_output(context)).await
    }

    /// Closes the connection so that the client sees the answer to a request whose body was left unread.
    pub async fn close(self: Box<Self>) {
        let unread = !matches!(self.stage, Stage::Complete | Stage::Tunnel | Stage::Waiting) || !self.input.is_empty();
        let linger = if unread { LINGER_TIME } else { Duration::ZERO };
        // Apart: a connection's task should be small for as long as it is idle, and this comes once.
        Box::pin(self.close_and_linger(linger)).await;
    }

    /// Closes a connection whose client may be about to send a request.
    pub async fn close_idle(self: Box<Self>) {
        Box::pin(self.close_and_linger(LINGER_IDLE)).await;
    }

    async fn close_and_linger(mut self: Box<Self>, linger: Duration) {
        let farewell = async {
            poll_fn(|context| self.poll_flush_output(context)).await?;
            self.transport.shutdown().await
        };
        if farewell.await.is_err() || linger.is_zero() {
            return;
        }
        let mut thrown = 0;
        let mut scrap = BytesMut::with_capacity(SCRAP_ROOM);
        let discard = async {
            while thrown < LINGER_BYTES {
                scrap.clear();
                match self.transport.read_buf(&mut scrap).await {
                    Ok(read) if read > 0 => thrown += read,
                    _ => return,
                }
            }
        };
        // Whoever has not finished by then sees the reset.
        let _elapsed = tokio::time::timeout(linger, discard).await;
    }

    /// Gives the reader of the present request its next bytes; none, without being pending, is the client's end.
    pub fn poll_read_request(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.stage {
            Stage::Head => {
                let end = self.head.as_ref().map_or(0, |head| head.len);
                let room = buffer.remaining();
                let part = self.input.get(self.given..end).unwrap_or_default();
                let part = part.get(..room).unwrap_or(part);
                buffer.put_slice(part);
                self.given += part.len();
                if self.given == end {
                    self.stage = match self.head.as_ref().map(|head| head.body) {
                        Some(BodyLength::Exactly(length)) => Stage::Exactly(length),
                        Some(BodyLength::Chunked) => Stage::Chunked(Chunks::start()),
                        Some(BodyLength::None) | None => Stage::Complete,
                    };
                }
                Poll::Ready(Ok(()))
            }
            Stage::Exactly(_) | Stage::Chunked(_) => {
                if self.deadlines.poll(context, false).is_ready() {
                    return self.time_is_up(RequestFault::Slow);
                }
                self.poll_read_body(context, buffer)
            }
            Stage::Complete => self.poll_read_ahead(context),
            Stage::Tunnel => {
                if self.deadlines.poll(context, true).is_ready() {
                    return self.time_is_up(RequestFault::Unanswered);
                }
                self.poll_read_tunnel(context, buffer)
            }
            Stage::Waiting => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_read_body(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let waiting = self.input.get(self.given..).unwrap_or_default();
        let from_input = !waiting.is_empty();
        if from_input {
            let part = waiting.get(..buffer.remaining()).unwrap_or(waiting);
            buffer.put_slice(part);
        } else {
            let read = self.poll_transport(context, buffer);
            if read.is_pending() && !self.deadlines.is_answering() && self.pace.poll_wait(context).is_ready() {
                return self.time_is_up(RequestFault::Slow);
            }
            ready!(read)?;
            self.pace.progress(buffer.filled().len() - before);
        }
        let fresh = buffer.filled().get(before..).unwrap_or_default();
        let Ok(taken) = follow(&mut self.stage, fresh) else {
            self.fault = Some(RequestFault::Coding);
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        };
        if from_input {
            self.given += taken;
        } else {
            self.input.extend_from_slice(fresh.get(taken..).unwrap_or_default());
        }
        buffer.set_filled(before + taken);
        Poll::Ready(Ok(()))
    }

    fn poll_read_tunnel(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let part = self.input.get(self.given..).unwrap_or_default();
        if part.is_empty() {
            if self.tunnel_end.as_ref().is_some_and(|end| end.total().is_some()) {
                return self.pending(context);
            }
            let read = ready!(self.poll_transport(context, buffer));
            // A client may leave TLS without its farewell.
            if read
                .as_ref()
                .is_err_and(|error| error.kind() != io::ErrorKind::UnexpectedEof)
            {
                return Poll::Ready(read);
            }
        } else {
            let part = part.get(..buffer.remaining()).unwrap_or(part);
            buffer.put_slice(part);
            self.given += part.len();
        }
        let length = buffer.filled().len() - before;
        match &self.tunnel_end {
            Some(end) if length > 0 => end.add(length),
            Some(end) => {
                end.finish();
                return self.pending(context);
            }
            None => {}
        }
        Poll::Ready(Ok(()))
    }

    /// The request is complete, but its reader still wants to know whether the client is there. What a client sends
    /// ahead waits for its turn.
    fn poll_read_ahead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.deadlines.poll(context, true).is_ready() {
            return self.time_is_up(RequestFault::Unanswered);
        }
        if self.input.len() > self.given {
            return self.pending(context);
        }
        let mut room = [MaybeUninit::uninit(); AHEAD_ROOM];
        let mut ahead = ReadBuf::uninit(&mut room);
        ready!(self.poll_transport(context, &mut ahead))?;
        if ahead.filled().is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.input.extend_from_slice(ahead.filled());
        self.pending(context)
    }

    /// Breaks the present request off.
    pub(super) fn cut(&mut self) -> Poll<io::Result<()>> {
        self.fault = Some(RequestFault::Cut);
        Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
    }

    fn time_is_up(&mut self, fault: RequestFault) -> Poll<io::Result<()>> {
        self.fault = Some(fault);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_transport(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.transport).poll_read(context, buffer) {
            Poll::Ready(read) => Poll::Ready(read),
            Poll::Pending => self.pending(context),
        }
    }

    /// Whoever waits for the client has nothing more to say for now, so what was gathered leaves.
    fn pending(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.output.is_empty() {
            // An error shows again in the next write.
            let _written = self.poll_flush_output(context);
        }
        Poll::Pending
    }

    /// Takes bytes of an answer, see `Output::poll_write`.
    pub fn poll_write_answer(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.output.poll_write(&mut *self.transport, context, bytes);
        if let Poll::Ready(written) = &written {
            if let (Some(frames), Ok(length)) = (&mut self.frames, written) {
                frames.follow(bytes.get(..*length).unwrap_or_default());
            }
            self.deadlines.moved();
        } else if self.deadlines.poll(context, true).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        written
    }

    /// Sends what was gathered.
    pub fn poll_flush_output(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.poll_flush(&mut *self.transport, context)
    }
}

/// Follows the body's bytes and answers how many of `bytes` belong to it.
fn follow(stage: &mut Stage, bytes: &[u8]) -> Result<usize, super::chunked::ChunkFault> {
    match stage {
        Stage::Exactly(left) => {
            let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
            *left -= taken as u64;
            if *left == 0 {
                *stage = Stage::Complete;
            }
            Ok(taken)
        }
        Stage::Chunked(chunks) => {
            let taken = chunks.follow(bytes)?;
            if chunks.is_done() {
                *stage = Stage::Complete;
            }
            Ok(taken)
        }
        _ => Ok(0),
    }
}

impl fmt::Debug for Connection {
    /// Pingora prints a stream into its own messages: nothing that a client sent belongs there.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Connection")
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}
