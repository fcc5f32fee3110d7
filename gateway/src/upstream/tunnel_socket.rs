//! The connection for a request that asks for a WebSocket: its first read waits for a moment after each write.
//!
//! Pingora 0.9.1 sends a request's end to its upstream half through a channel, and that half takes the end for the
//! tunnel's when it has read the 101 before it (public issue 946). An upstream that answers at once wins that race now and
//! then, more often on a busy machine. When a read that follows a write is pending once, the half looks into its channel
//! first, so the end of the request is always seen before the answer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_trait::async_trait;
use pingora::connectors::L4Connect;
use pingora::protocols::l4::socket::SocketAddr;
use pingora::protocols::l4::stream::Stream;
use pingora::protocols::l4::virt::{VirtualSockOpt, VirtualSocket, VirtualSocketStream};
use pingora::{Error, ErrorType};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Opens such connections.
#[derive(Debug)]
pub(super) struct TunnelConnector {
    /// The time that connecting may take.
    pub limit: std::time::Duration,
}

#[async_trait]
impl L4Connect for TunnelConnector {
    async fn connect(&self, address: &SocketAddr) -> pingora::Result<Stream> {
        let Some(address) = address.as_inet() else {
            return Err(Error::explain(ErrorType::ConnectError, "an address of another kind"));
        };
        let connected = tokio::time::timeout(self.limit, TcpStream::connect(address)).await;
        let socket = match connected {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => {
                let kind = match error.kind() {
                    io::ErrorKind::ConnectionRefused => ErrorType::ConnectRefused,
                    io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => ErrorType::ConnectNoRoute,
                    io::ErrorKind::TimedOut => ErrorType::ConnectTimedout,
                    _ => ErrorType::ConnectError,
                };
                return Err(Error::because(kind, "connecting for a tunnel", error));
            }
            Err(_) => return Err(Error::explain(ErrorType::ConnectTimedout, "connecting for a tunnel")),
        };
        let socket = TunnelSocket {
            socket,
            has_written: false,
        };
        Ok(VirtualSocketStream::new(Box::new(socket)).into())
    }
}

#[derive(Debug)]
struct TunnelSocket {
    socket: TcpStream,
    has_written: bool,
}

impl VirtualSocket for TunnelSocket {
    fn set_socket_option(&self, option: VirtualSockOpt) -> io::Result<()> {
        match option {
            VirtualSockOpt::NoDelay => self.socket.set_nodelay(true),
            // Keep-alive probes are not configured; what else may come is not known here.
            _ => Ok(()),
        }
    }
}

impl AsyncRead for TunnelSocket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if std::mem::take(&mut this.has_written) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut this.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for TunnelSocket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.has_written = true;
        Pin::new(&mut this.socket).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.has_written = true;
        Pin::new(&mut this.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
