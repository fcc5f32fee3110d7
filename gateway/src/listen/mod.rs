//! Step 1, accept: sockets, connection and head limits, and the strict reading of every HTTP/1 head.
//!
//! 1. [`Listener`] takes a permit, accepts, and starts a task for the connection, which begins with a handshake where
//!    there is [`tls`].
//! 2. `serve` waits for a head and judges it ([`head`]); what is unsound is answered by the [`Door`] and never reaches
//!    Pingora; nor does a sound request of which the head tells that it is refused. A connection that speaks [`http2`] has a head for each of its streams.
//! 3. A sound request is lent to Pingora ([`client_stream`]), which sees exactly its bytes ([`connection`],
//!    [`chunked`]). Whatever the protocol, the application finds the request's [`client`].
//!
//! Pingora's own accept loop is not used: it cannot tell the address behind port 0, has no limit on connections, no
//! deadline for a head, and drops a connection before the client has read a refusal.

pub mod address;
pub mod chunked;
pub mod client;
pub mod client_stream;
pub mod connection;
mod deadlines;
mod frames;
pub mod head;
pub mod http2;
mod networks;
mod output;
mod pace;
pub mod phase;
mod serve;
mod socket;
#[cfg(test)]
mod tests;
pub mod tls;
mod tunnel_end;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use pingora::apps::HttpServerApp;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

pub use address::{ListenAddress, ListenAddressError};
pub use client::Client;
pub use client_stream::ClientStream;
use connection::Transport;
pub use connection::{Connection, RequestFault};
pub use deadlines::Times;
pub use head::{HeadFault, HeadLimits};
pub use http2::{ConnectionFault, Http2Limits, RefusedStream, StreamFault};
use networks::Networks;
pub use phase::{Phase, PhaseControl, Phases};
pub use socket::BoundSocket;
use socket::{ClientSocket, Socket};
pub use tls::{Handshake, HandshakeFault, Tls};
pub use tunnel_end::TunnelEnd;

/// What clients of one listener may hold and how long they may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open connections; more wait in the kernel's queue.
    pub connections: usize,
    /// Open connections of one IPv4 address or one IPv6 network of 64 bits; more are closed at once.
    pub per_network: usize,
    /// The measures of a request's head.
    pub head: HeadLimits,
    /// From the accepted connection, or the first byte of a later request, to the end of the head.
    pub head_timeout: Duration,
    /// Silence between two requests.
    pub idle_timeout: Duration,
    /// Silence of a client that is waited for within a request.
    pub stall_timeout: Duration,
    /// Bytes a second that such a client sends or takes on average; 0 for any.
    pub min_rate: u64,
    /// What an HTTP/2 connection may hold.
    pub http2: Http2Limits,
    /// Whether HTTP/2 may begin without TLS, by its first bytes (RFC 9113 section 3.3).
    pub cleartext_http2: bool,
}

impl Limits {
    /// These limits for as long as a listener is served.
    pub fn fixed(self) -> watch::Receiver<Self> {
        watch::channel(self).1
    }
}

impl Default for Limits {
    /// Limits for a listener that only operators reach.
    fn default() -> Self {
        Self {
            connections: 256,
            per_network: usize::MAX,
            head: HeadLimits {
                target: 8 * 1024,
                head: 32 * 1024,
                headers: 100,
            },
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(30),
            min_rate: 0,
            http2: Http2Limits::default(),
            cleartext_http2: false,
        }
    }
}

/// Who answers and counts what never becomes a request.
pub trait Door: Send + Sync + 'static {
    /// The whole answer to a head with this fault, after which the connection closes.
    fn refuse(&self, fault: HeadFault, connection: &Connection) -> Bytes;
    /// The whole answer to a sound request that needs nothing but its head, after which the connection waits for the
    /// next one; none for a request that goes to the application. Never asked for a request with a body.
    fn answer(&self, _connection: &Connection) -> Option<Bytes> {
        None
    }
    /// The whole answer to the head of an HTTP/2 stream with this fault, after which the stream closes.
    fn refuse_stream(&self, fault: HeadFault, _refused: &RefusedStream<'_>) -> Response<Bytes> {
        http2::plain_refusal(fault)
    }
    /// An HTTP/2 stream has ended before its request was served, without an answer of the door's.
    fn stream_failed(&self, _fault: StreamFault, _stream: &RefusedStream<'_>) {}
    /// An HTTP/2 connection was ended for its client's fault.
    fn connection_failed(&self, _fault: ConnectionFault) {}
    /// A client has got through its TLS handshake.
    fn handshake_done(&self, _handshake: Handshake) {}
    /// A client that has connected did not get as far as sending a request.
    fn handshake_failed(&self, _fault: HandshakeFault) {}
    /// A connection was accepted.
    fn opened(&self) {}
    /// A connection was closed at once, as its network has too many.
    fn crowded(&self) {}
    /// A connection has ended.
    fn closed(&self) {}
    /// A head that was found sound did not become a request of the application that notes its requests.
    fn unparsed(&self) {}
    /// Whether the application notes its requests, see [`ClientStream::note_request`].
    fn expects_notes(&self) -> bool {
        false
    }
}

/// A [`Door`] that answers with a bare status and counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainDoor;

impl Door for PlainDoor {
    fn refuse(&self, fault: HeadFault, _connection: &Connection) -> Bytes {
        Bytes::from_static(match fault {
            HeadFault::Timeout => b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            HeadFault::TargetTooLong => b"HTTP/1.1 414 URI Too Long\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            HeadFault::HeadTooLarge => {
                b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            _ => b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        })
    }
}

/// A bound socket that accepts once it is served.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: ListenAddress,
    tls: Option<Arc<Tls>>,
}

impl Listener {
    /// Binds `address`; port 0 takes a free port.
    ///
    /// # Errors
    /// The operating system's, when the address is taken or not allowed.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::of(Socket::Tcp(socket::bind_tcp(address)?))
    }

    /// Binds a Unix socket with these permissions, as `chmod(2)` takes them. One that an ended gateway has left behind
    /// is replaced, and nothing else is. Its peers count as loopback.
    ///
    /// # Errors
    /// The operating system's, or what stands at the path.
    pub fn bind_unix(path: &Path, mode: u32) -> io::Result<Self> {
        Self::of(Socket::Unix(socket::bind_unix(path, mode)?))
    }

    /// A socket that somebody else has bound; it must not block.
    ///
    /// # Errors
    /// The operating system's, when it cannot be waited for.
    pub fn inherit(socket: BoundSocket) -> io::Result<Self> {
        Self::of(Socket::from_std(socket)?)
    }

    fn of(socket: Socket) -> io::Result<Self> {
        Ok(Self {
            address: socket.address()?,
            socket,
            tls: None,
        })
    }

    /// The same, with a TLS handshake at the start of every connection.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<Arc<Tls>>) -> Self {
        self.tls = tls;
        self
    }

    /// Where it really listens.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// The address that is really bound; of a Unix socket, this machine's with port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.address.tcp().unwrap_or(socket::THIS_MACHINE)
    }

    /// Accepts and serves as the [`Phase`]s say, and returns when every connection has ended after
    /// [`Phase::Leaving`] or a later one.
    ///
    /// A connection has the `limits` of the moment when it was accepted; the numbers of connections are those of the
    /// start.
    pub async fn serve<A, D>(self, app: Arc<A>, door: Arc<D>, limits: watch::Receiver<Limits>, phases: Phases)
    where
        A: HttpServerApp + Send + Sync + 'static,
        D: Door,
    {
        phases.reach(Phase::Serving).await;
        let at_start = *limits.borrow();
        let permits = Arc::new(Semaphore::new(at_start.connections));
        let reception = Reception {
            app,
            door,
            limits,
            tls: self.tls,
            networks: Networks::new(at_start.per_network),
            phases: phases.clone(),
        };
        loop {
            let accepted = tokio::select! {
                biased;
                () = phases.reach(Phase::Leaving) => break,
                accepted = accept(&self.socket, &permits) => accepted,
            };
            match accepted {
                Ok(admitted) => reception.receive(admitted),
                // The client has left the queue.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    // Out of descriptors, most likely: one that closes will help, trying at once will not.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        if phases.have_reached(Phase::Closing) {
            // Whoever has connected by now would be reset with the socket.
            for admitted in waiting(self.socket, &permits) {
                reception.receive(admitted);
            }
        } else {
            drop(self.socket);
        }
        let connections = u32::try_from(at_start.connections).unwrap_or(u32::MAX);
        // Every permit is back when every connection has ended; the semaphore is never closed.
        let _all = permits.acquire_many(connections).await;
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What every connection of a listener is served with.
struct Reception<A, D: Door> {
    app: Arc<A>,
    door: Arc<D>,
    limits: watch::Receiver<Limits>,
    tls: Option<Arc<Tls>>,
    networks: Arc<Networks>,
    phases: Phases,
}

impl<A, D> Reception<A, D>
where
    A: HttpServerApp + Send + Sync + 'static,
    D: Door,
{
    /// Starts a task for a connection.
    fn receive(&self, (socket, peer, permit): Admitted) {
        let Some(visitor) = self.networks.enter(peer.ip()) else {
            return self.door.crowded();
        };
        let local = socket.local_addr().unwrap_or(peer);
        let descriptor = socket.descriptor();
        // In a box, as the task of an idle connection would hold room for either kind for ever.
        let socket = Box::new(socket);
        let accepted = Accepted {
            peer,
            local,
            descriptor,
        };
        let (app, door, limits) = (self.app.clone(), self.door.clone(), *self.limits.borrow());
        let (tls, phases) = (self.tls.clone(), self.phases.clone());
        tokio::spawn(async move {
            let _open = Open::new(&*door);
            begin(socket, accepted, tls.as_deref(), &app, &door, &limits, &phases).await;
            drop((permit, visitor));
        });
    }
}

/// A client that has connected.
#[derive(Clone, Copy)]
struct Accepted {
    peer: SocketAddr,
    local: SocketAddr,
    descriptor: RawFd,
}

impl Accepted {
    fn connection(&self, transport: Box<dyn Transport>, limits: &Limits) -> Box<Connection> {
        let (stall_limit, min_rate) = (limits.stall_timeout, limits.min_rate);
        let connection = Connection::new(transport, self.peer, self.local, self.descriptor, stall_limit, min_rate);
        Box::new(connection)
    }
}

/// Finds out what a connection speaks, and serves it.
///
/// A connection is idle for most of its life, and its task has the size of the largest thing that it waits for: what comes
/// once is waited for apart, in a box.
async fn begin<A, D>(
    socket: Box<ClientSocket>,
    accepted: Accepted,
    tls: Option<&Tls>,
    app: &Arc<A>,
    door: &Arc<D>,
    limits: &Limits,
    phases: &Phases,
) where
    A: HttpServerApp + Send + Sync + 'static,
    D: Door,
{
    let connection = match (*socket, tls) {
        (ClientSocket::Tcp(socket), None) => accepted.connection(Box::new(socket), limits),
        // Nobody can listen in between two processes of one machine.
        (ClientSocket::Unix(socket), _) => accepted.connection(Box::new(socket), limits),
        (ClientSocket::Tcp(socket), Some(tls)) => match Box::pin(secure(socket, accepted, tls, limits)).await {
            Ok((connection, handshake)) => {
                door.handshake_done(handshake);
                if handshake.is_http2 {
                    return Box::pin(http2::serve(connection.into_http2(), app, door, limits, phases)).await;
                }
                connection
            }
            Err(fault) => return door.handshake_failed(fault),
        },
    };
    serve::serve(connection, app, door, limits, phases).await;
}

/// A connection behind its handshake, and what was agreed on in it.
async fn secure(
    socket: TcpStream,
    accepted: Accepted,
    tls: &Tls,
    limits: &Limits,
) -> Result<(Box<Connection>, Handshake), HandshakeFault> {
    let began = Instant::now();
    let stream = tls.accept(socket, limits.head_timeout).await?;
    let handshake = Handshake::of(&stream);
    let connection = accepted.connection(Box::new(stream), limits).secured_since(began);
    Ok((connection, handshake))
}

type Admitted = (ClientSocket, SocketAddr, tokio::sync::OwnedSemaphorePermit);

/// Waits for room first: a connection beyond the limit stays in the kernel's queue.
async fn accept(socket: &Socket, permits: &Arc<Semaphore>) -> io::Result<Admitted> {
    let permit = permits.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (socket, peer) = socket.accept().await?;
    Ok((socket, peer, permit))
}

/// The clients that wait in the kernel's queue now, as far as there is room for them; then the socket closes.
fn waiting(socket: Socket, permits: &Arc<Semaphore>) -> impl Iterator<Item = Admitted> {
    // Past the runtime, which may not have heard of the last of them yet.
    let socket = socket.into_std().ok();
    std::iter::from_fn(move || {
        let permit = permits.clone().try_acquire_owned().ok()?;
        let (client, peer) = socket.as_ref()?.accept_waiting().ok()?;
        Some((client, peer, permit))
    })
}

/// Counts a connection for as long as it lives, even when its task panics.
struct Open<'a, D: Door>(&'a D);

impl<'a, D: Door> Open<'a, D> {
    fn new(door: &'a D) -> Self {
        door.opened();
        Self(door)
    }
}

impl<D: Door> Drop for Open<'_, D> {
    fn drop(&mut self) {
        self.0.closed();
    }
}
