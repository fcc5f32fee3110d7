//! The life of one connection: head, request, head, request, close.

use std::sync::Arc;
use std::time::Duration;

use pingora::apps::HttpServerApp;
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;
use tokio::time::Instant;

use super::client_stream::{ClientStream, Home};
use super::connection::Connection;
use super::head::{self, HeadFault, HeadScan};
use super::{Door, Limits};

/// What came of waiting for a head.
enum Arrival {
    /// A sound head stands at the start of the connection's input.
    Request,
    /// A head that cannot be served.
    Unsound(HeadFault),
    /// The client is gone, or idle for too long, or the gateway stops.
    Nothing,
}

/// Serves the connection's requests one after the other until it ends.
pub(super) async fn serve<A, D>(
    mut connection: Box<Connection>,
    app: &Arc<A>,
    door: &D,
    limits: &Limits,
    mut shutdown: ShutdownWatch,
) where
    A: HttpServerApp + Send + Sync + 'static,
    D: Door,
{
    let home = Home::default();
    let mut patience = limits.head_timeout;
    loop {
        match await_head(&mut connection, limits, patience, &mut shutdown).await {
            Arrival::Request => {}
            Arrival::Unsound(fault) => {
                let answer = door.refuse(fault, &connection);
                // A client that does not take the answer is gone.
                let _sent = connection.send(&answer).await;
                return connection.close().await;
            }
            Arrival::Nothing => return connection.close().await,
        }
        let stream = ClientStream::lend(connection, &home);
        let mut session = ServerSession::new_http1(Box::new(stream));
        let draining = *shutdown.borrow();
        session.set_keepalive((!draining).then_some(limits.idle_timeout.as_secs().max(1)));
        let reusable = app.process_new_http(session, &shutdown).await.is_some();
        // Pingora has dropped its stream by now, in one way or another.
        let Some(returned) = home.take() else { return };
        connection = returned;
        if door.expects_notes() && !connection.is_noted() {
            door.unparsed(&connection);
        }
        if !reusable || !connection.is_complete() {
            return connection.close().await;
        }
        connection.end_request();
        patience = limits.idle_timeout;
    }
}

/// Waits `patience` for the first byte and the head timeout for the rest; on a new connection both are one.
async fn await_head(
    connection: &mut Connection,
    limits: &Limits,
    patience: Duration,
    shutdown: &mut ShutdownWatch,
) -> Arrival {
    let mut scan = HeadScan::default();
    let mut deadline = Instant::now() + patience;
    if !connection.input().is_empty() {
        deadline = Instant::now() + limits.head_timeout;
        connection.skip_empty_line();
    }
    loop {
        match scan.advance(connection.input(), &limits.head) {
            Ok(Some(length)) => {
                return match head::parse(connection.input(), length, &limits.head) {
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
            _ = shutdown.wait_for(|stop| *stop), if idle => return Arrival::Nothing,
        };
        match read {
            Ok(Ok(true)) => {}
            Ok(Ok(false) | Err(_)) => return Arrival::Nothing,
            Err(_) if idle => return Arrival::Nothing,
            Err(_) => return Arrival::Unsound(HeadFault::Timeout),
        }
        if idle {
            // A new connection has had its head timeout running since it was accepted.
            deadline = deadline.min(Instant::now() + limits.head_timeout);
            connection.skip_empty_line();
        }
    }
}
