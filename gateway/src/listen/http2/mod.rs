//! An HTTP/2 connection (RFC 9113): its streams, its limits and its end.
//!
//! 1. The library's handshake, with every setting set here and none left to a default.
//! 2. Each stream's head is judged ([`head`]); what is unsound is answered by the [`Door`].
//! 3. A sound request becomes a [`session`] and is given to the application, in a task of its own.
//! 4. What the library answers by itself is found among its frames ([`frames`]), and told to the [`Door`].
//!
//! Floods are bounded by the library's limits (resets, CONTINUATION, small and empty DATA frames) and by those on
//! streams that this module refuses; a connection that has gone beyond them ends, and its streams with it.

mod client;
mod frames;
mod head;
mod session;
mod transport;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response};
use pingora::apps::HttpServerApp;
use pingora::protocols::http::ServerSession;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

pub use client::{Link, StreamClient};
use frames::{Answered, FrameWatch, Ledger, OpenStream};
pub use frames::{ConnectionFault, StreamFault};
use session::StreamSession;
use transport::GuardedTransport;

use super::connection::Transport;
use super::head::{BodyLength, HeadFault};
use super::pace::Pace;
use super::{Door, Limits, Phase, Phases};

/// What opens every connection (RFC 9113 section 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Streams of one connection that may be refused for their heads before it ends: more is no misunderstanding.
const MOST_REFUSED: usize = 100;
/// Streams that a client may open and reset before they are looked at (CVE-2023-44487).
const MOST_RESET_UNSEEN: usize = 20;
/// Streams that may go wrong by the client's fault over the life of a connection (CVE-2025-8671).
const MOST_RESET_BY_FAULT: usize = 256;
/// Streams reset by the gateway that are remembered, and for how long, so that frames under way to them are no fault.
const REMEMBERED_RESETS: usize = 64;
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// Bytes of an answer that wait for one stream's window.
const SEND_BUFFER: usize = 64 * 1024;
/// How long a connection that is closed may take to say so.
const FAREWELL: Duration = Duration::from_secs(1);

/// What one HTTP/2 connection may hold.
#[derive(Clone, Copy, Debug)]
pub struct Http2Limits {
    /// Streams at once.
    pub streams: u32,
    /// Bytes of one body that may come before they are read.
    pub stream_window: u32,
    /// Bytes of all bodies of a connection that may come before they are read.
    pub connection_window: u32,
}

impl Default for Http2Limits {
    fn default() -> Self {
        Self {
            streams: 100,
            stream_window: 256 * 1024,
            connection_window: 1024 * 1024,
        }
    }
}

/// A request that was refused for its head, or ended before it was one.
#[derive(Clone, Copy, Debug)]
pub struct RefusedStream<'a> {
    /// The connection.
    pub link: &'a Link,
    /// The value of `:method`; none where the library has kept the head to itself.
    pub method: &'a [u8],
    /// The value of `:path`, as far as the library has kept it.
    pub target: &'a [u8],
    /// When the head was there.
    pub began: Instant,
}

/// A connection that speaks HTTP/2, before its first frame.
pub(super) struct Http2Connection {
    /// The bytes.
    pub transport: Box<dyn Transport>,
    /// What was read of them while the protocol was found out.
    pub beginning: BytesMut,
    /// Whose they are.
    pub link: Link,
    /// When the connection was accepted.
    pub accepted: Instant,
}

/// Serves a connection's streams until it ends, and they with it.
pub(super) async fn serve<A, D>(
    connection: Http2Connection,
    app: &Arc<A>,
    door: &Arc<D>,
    limits: &Limits,
    phases: &Phases,
) where
    A: HttpServerApp + Send + Sync + 'static,
    D: Door,
{
    let Http2Connection {
        transport,
        beginning,
        link,
        accepted,
    } = connection;
    let head_deadline = accepted + limits.head_timeout;
    let pace = Pace::new(limits.stall_timeout, limits.min_rate);
    let ledger = Ledger::default();
    let transport = GuardedTransport::new(transport, beginning, pace, FrameWatch::new(ledger.clone()));
    // A client that says nothing, or no HTTP/2, is gone without an answer: there is no stream to answer on.
    let handshake = settings(limits).handshake::<_, Bytes>(transport);
    let mut connection = match timeout_at(head_deadline, handshake).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) if !error.is_io() => return door.connection_failed(ConnectionFault::Protocol),
        _ => return,
    };
    let mut streams = JoinSet::new();
    let mut refused = 0;
    let mut deadline = head_deadline;
    let mut is_used = false;
    let mut draining = false;
    loop {
        // A client that was told to leave before its first request would come back and be told again.
        let last = if is_used { Phase::Draining } else { Phase::Closing };
        let event = tokio::select! {
            biased;
            () = phases.reach(last), if !draining => Event::Stop,
            Some(_) = streams.join_next() => Event::StreamEnded,
            event = next(&mut connection, &ledger) => event,
            () = sleep_until(deadline), if streams.is_empty() => Event::Idle,
        };
        let (request, respond) = match event {
            Event::Request(request, respond) => (request, respond),
            Event::Stop => {
                // RFC 9113 section 6.8: streams that are open are served, and so are those under way, which end with the
                // second GOAWAY, a round trip later.
                connection.graceful_shutdown();
                draining = true;
                deadline = deadline.min(Instant::now() + FAREWELL);
                continue;
            }
            Event::StreamEnded => {
                deadline = Instant::now() + if draining { FAREWELL } else { limits.idle_timeout };
                continue;
            }
            Event::Idle => {
                connection.graceful_shutdown();
                // A client that is not there does not hear it.
                let _closed = timeout(FAREWELL, poll_fn(|context| connection.poll_closed(context))).await;
                return;
            }
            Event::Answered => {
                tell(&ledger, &link, &**door);
                continue;
            }
            Event::Ended => break,
        };
        is_used = true;
        deadline = Instant::now() + limits.idle_timeout;
        let opened = ledger.open(respond.stream_id().as_u32());
        match open(*request, respond, &link, &**door, limits) {
            Opened::Session(mut session, client) => {
                let (app, door, phases) = (Arc::clone(app), Arc::clone(door), phases.clone());
                let mut cutting = phases.alarm(Phase::Cutting);
                streams.spawn(async move {
                    let _open: OpenStream = opened;
                    if client.body() == BodyLength::Exactly(0) && session.read_nothing().await.is_err() {
                        return door.stream_failed(StreamFault::Body, &client.refused());
                    }
                    let session = ServerSession::new_custom(session);
                    // A stream serves one request, so there is nothing to reuse.
                    let processing = app.process_new_http(session, phases.stopping());
                    let _none = cutting.run(processing, || client.cut()).await;
                    if door.expects_notes() && !client.is_noted() {
                        door.unparsed();
                        door.stream_failed(StreamFault::Other, &client.refused());
                    }
                });
            }
            Opened::Refused => {
                refused += 1;
                if refused == MOST_REFUSED {
                    connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                }
            }
        }
    }
    drop(connection);
    tell(&ledger, &link, &**door);
    // Each learns in its next read or write that the connection has ended.
    while streams.join_next().await.is_some() {}
}

/// Waits for a stream, for the connection's end, or for an answer of the library's.
async fn next(connection: &mut Connection<GuardedTransport, Bytes>, ledger: &Ledger) -> Event {
    poll_fn(|context| match connection.poll_accept(context) {
        Poll::Ready(accepted) => Poll::Ready(accepted.map_or(Event::Ended, Event::of)),
        // What it has to write was written in this very poll.
        Poll::Pending if ledger.has_answers() => Poll::Ready(Event::Answered),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Tells the door what the library has answered by itself. Of such a stream nothing else is known.
fn tell(ledger: &Ledger, link: &Link, door: &dyn Door) {
    for answered in ledger.take() {
        match answered {
            Answered::Connection(fault) => door.connection_failed(fault),
            Answered::Stream(fault) => {
                let refused = RefusedStream {
                    link,
                    method: b"",
                    target: b"",
                    began: Instant::now(),
                };
                door.stream_failed(fault, &refused);
            }
        }
    }
}

/// What happens to a connection.
enum Event {
    Stop,
    StreamEnded,
    Request(Box<Request<RecvStream>>, SendResponse<Bytes>),
    /// The library has answered something by itself.
    Answered,
    Idle,
    Ended,
}

impl Event {
    fn of(accepted: Result<(Request<RecvStream>, SendResponse<Bytes>), h2::Error>) -> Self {
        match accepted {
            Ok((request, respond)) => Self::Request(Box::new(request), respond),
            // The client was told why, in a GOAWAY frame, where it could be.
            Err(_) => Self::Ended,
        }
    }
}

/// What became of a new stream.
enum Opened {
    Session(Box<StreamSession>, Arc<StreamClient>),
    Refused,
}

fn open(
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    link: &Link,
    door: &dyn Door,
    limits: &Limits,
) -> Opened {
    let (parts, body) = request.into_parts();
    let (method, uri) = (parts.method.clone(), parts.uri.clone());
    match head::judge(parts, body.is_end_stream(), link, &limits.head) {
        Ok(sound) => {
            let client = Arc::clone(&sound.client);
            let session = StreamSession::new(sound.request, sound.client, body, respond, limits);
            Opened::Session(Box::new(session), client)
        }
        Err(fault) => {
            let refused = RefusedStream {
                link,
                method: method.as_str().as_bytes(),
                target: uri
                    .path_and_query()
                    .map_or(&b""[..], |target| target.as_str().as_bytes()),
                began: Instant::now(),
            };
            refuse(respond, door.refuse_stream(fault, &refused));
            Opened::Refused
        }
    }
}

/// RFC 9113 section 8.1.1: an answer may come before the stream is closed; what else comes on it is not waited for.
fn refuse(mut respond: SendResponse<Bytes>, answer: Response<Bytes>) {
    let (head, body) = answer.into_parts();
    let ends = body.is_empty();
    // A client that has reset the stream in the meantime wants no answer.
    if let Ok(mut sender) = respond.send_response(Response::from_parts(head, ()), ends)
        && !ends
    {
        let _sent = sender.send_data(body, true);
    }
}

fn settings(limits: &Limits) -> Builder {
    let framing_budget = usize::try_from(limits.http2.connection_window / 2).unwrap_or(usize::MAX);
    let list = u32::try_from(limits.head.head).unwrap_or(u32::MAX);
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limits.http2.streams)
        .initial_window_size(limits.http2.stream_window)
        .initial_connection_window_size(limits.http2.connection_window)
        .max_frame_size(16 * 1024)
        // Above the gateway's own limit, so that what is only a little too large gets the gateway's own answer.
        .max_header_list_size(list.saturating_mul(2))
        .max_pending_accept_reset_streams(MOST_RESET_UNSEEN)
        .max_local_error_reset_streams(Some(MOST_RESET_BY_FAULT))
        .max_concurrent_reset_streams(REMEMBERED_RESETS)
        .reset_stream_duration(REMEMBERED_FOR)
        .max_send_buffer_size(SEND_BUFFER)
        .data_frame_budget(framing_budget);
    builder
}

/// The fault that a plain answer stands for, where nobody makes a better one.
pub(super) fn plain_refusal(fault: HeadFault) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = fault.status();
    response
}
