//! The life of one connection: head, request, head, request, close.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pingora::apps::{HttpServerApp, ReusedHttpStream};
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;
use tokio::time::Instant;

use super::chunked::Chunks;
use super::client_stream::{ClientStream, Home};
use super::connection::Connection;
use super::head::{self, BodyLength, Head, HeadFault, HeadScan};
use super::phase::Alarm;
use super::{Door, Limits, Phase, Phases, http2};

/// How long a client that has just connected may take to send its first bytes when the listener closes: it may not know
/// of that yet, and whoever closes on a request under way fails it.
const FIRST_BYTES: Duration = Duration::from_secs(1);

/// What came of waiting for a head.
enum Arrival {
    /// A sound head stands at the start of the connection's input.
    Request,
    /// The beginning of an HTTP/2 connection.
    Http2,
    /// A head that cannot be served.
    Unsound(HeadFault),
    /// The client is gone, or idle for too long.
    Nothing,
    /// The client is idle, and the listener has closed.
    Closing,
}

/// Serves the connection's requests one after the other until it ends.
pub(super) async fn serve<A, D>(
    mut connection: Box<Connection>,
    app: &Arc<A>,
    door: &Arc<D>,
    limits: &Limits,
    phases: &Phases,
) where
    A: HttpServerApp + Send + Sync + 'static,
    D: Door,
{
    let home = Home::default();
    // Made once, so that a request costs no lock for them.
    let mut closing = phases.alarm(Phase::Closing);
    let mut cutting = phases.alarm(Phase::Cutting);
    let mut is_new = true;
    loop {
        match await_head(&mut connection, limits, is_new, &mut closing).await {
            Arrival::Request => {}
            Arrival::Http2 => {
                return Box::pin(http2::serve(connection.into_http2(), app, door, limits, phases)).await;
            }
            Arrival::Unsound(fault) => {
                let answer = door.refuse(fault, &connection);
                // A client that does not take the answer is gone.
                let _sent = connection.send(&answer).await;
                return connection.close().await;
            }
            Arrival::Nothing => return connection.close().await,
            Arrival::Closing => return connection.close_idle().await,
        }
        let draining = phases.have_reached(Phase::Draining);
        if !draining && let Some(answer) = answered(&connection, door) {
            if connection.send(&answer).await.is_err() {
                return connection.close().await;
            }
            connection.pass_over();
            is_new = false;
            continue;
        }
        let stream = ClientStream::lend(connection, &home, door.expects_notes());
        // Pingora's own timer between requests never runs: a head is there, and whole, before Pingora is asked.
        let keepalive = (!draining).then_some(limits.idle_timeout.as_secs().max(1));
        let processing = process(app, stream, keepalive, phases.stopping());
        let reusable = cutting.run(processing, || home.cut()).await.is_some();
        // Pingora has dropped its stream by now, in one way or another.
        let Some(returned) = home.take() else { return };
        connection = returned;
        if door.expects_notes() && !connection.is_noted() {
            // Whatever the library wrote was held back, so that the client gets an answer of the table.
            door.unparsed();
            let answer = door.refuse(HeadFault::Syntax, &connection);
            let _sent = connection.send(&answer).await;
            return connection.close().await;
        }
        if home.is_cut() {
            connection.say_going_away().await;
        }
        if !reusable || !connection.is_complete() {
            return connection.close().await;
        }
        connection.end_request();
        is_new = false;
    }
}

/// Hands a request on. In a function of its own, since a local variable is part of its task even after it was moved.
fn process<'a, A>(
    app: &'a Arc<A>,
    stream: ClientStream,
    keepalive: Option<u64>,
    stopping: &'a ShutdownWatch,
) -> impl Future<Output = Option<ReusedHttpStream>> + 'a
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let mut session = ServerSession::new_http1(Box::new(stream));
    session.set_keepalive(keepalive);
    app.process_new_http(session, stopping)
}

/// The door's answer to a request that ends with its head and leaves its connection as it is.
fn answered<D: Door>(connection: &Connection, door: &Arc<D>) -> Option<Bytes> {
    let head = connection.head()?;
    let is_plain = head.http11 && head.body == BodyLength::None && !head.has_connection;
    is_plain.then(|| door.answer(connection)).flatten()
}

/// Waits for the first byte and then for the rest; on a new connection the head timeout runs from the start.
async fn await_head(connection: &mut Connection, limits: &Limits, is_new: bool, closing: &mut Alarm) -> Arrival {
    let mut scan = HeadScan::default();
    let patience = if is_new {
        limits.head_timeout
    } else {
        limits.idle_timeout
    };
    let since = if is_new { connection.accepted() } else { Instant::now() };
    let mut deadline = since + patience;
    let may_be_http2 = is_new && limits.cleartext_http2 && !connection.is_secure();
    if !connection.input().is_empty() {
        deadline = Instant::now() + limits.head_timeout;
        connection.skip_empty_line();
    }
    loop {
        // As long as all bytes are those of the preface, they are no request line yet.
        let begins_http2 = may_be_http2 && begins(connection.input(), http2::PREFACE);
        if begins_http2 && connection.input().len() >= http2::PREFACE.len() {
            return Arrival::Http2;
        }
        let scanned = if begins_http2 {
            Ok(None)
        } else {
            scan.advance(connection.input(), &limits.head)
        };
        match scanned {
            Ok(Some(length)) => {
                return match head::parse(connection.input(), length, &limits.head) {
                    Ok(head) if !is_coded(connection.input(), &head) => Arrival::Unsound(HeadFault::Framing),
                    Ok(head) => {
                        connection.begin_request(head);
                        Arrival::Request
                    }
                    Err(fault) => Arrival::Unsound(fault),
                };
            }
            Ok(None) => {}
            Err(fault) => return Arrival::Unsound(fault),
        }
        let idle = connection.input().is_empty();
        let read = tokio::select! {
            biased;
            read = tokio::time::timeout_at(deadline, connection.read_more()) => read,
            () = closed(closing, is_new), if idle => return Arrival::Closing,
        };
        match read {
            Ok(Ok(true)) => {}
            Ok(Ok(false) | Err(_)) => return Arrival::Nothing,
            Err(_) if idle => return Arrival::Nothing,
            Err(_) => return Arrival::Unsound(HeadFault::Timeout),
        }
        if idle {
            if !is_new {
                deadline = Instant::now() + limits.head_timeout;
            }
            connection.skip_empty_line();
        }
    }
}

/// Waits until a client that has sent nothing is waited for no more.
async fn closed(closing: &mut Alarm, is_new: bool) {
    closing.ring().await;
    if is_new {
        Box::pin(tokio::time::sleep(FIRST_BYTES)).await;
    }
}

/// Whether `input` is the beginning of `whole`, or begins with it.
fn begins(input: &[u8], whole: &[u8]) -> bool {
    let length = input.len().min(whole.len());
    input.get(..length) == whole.get(..length)
}

/// Whether what has come of a chunked body is so coded: a fault that is seen now needs no upstream to be found.
fn is_coded(input: &[u8], head: &Head) -> bool {
    match head.body {
        BodyLength::Chunked => Chunks::start()
            .follow(input.get(head.len..).unwrap_or_default())
            .is_ok(),
        BodyLength::None | BodyLength::Exactly(_) => true,
    }
}
