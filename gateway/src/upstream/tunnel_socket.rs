//! The connection for a request that asks for a WebSocket: its first read waits for a moment after each write.
//!
//! Pingora 0.9.1 sends a request's end to its upstream half through a channel, and that half takes the end for the
//! tunnel's when it has read the 101 before it (public issue 946). An upstream that answers at once wins that race now and
//! then, more often on a busy machine. When a read that follows a write is pending once, the half looks into its channel
//! first, so the end of the request is always seen before the answer.
//!
//! It also closes its sending half when the client has ended and all that it sent is written, see [`TunnelEnd`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use pingora::connectors::L4Connect;
use pingora::protocols::l4::socket::SocketAddr;
use pingora::protocols::l4::stream::Stream;
use pingora::protocols::l4::virt::{VirtualSockOpt, VirtualSocket, VirtualSocketStream};
use pingora::{Error, ErrorType};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::listen::TunnelEnd;

/// Opens such connections.
#[derive(Debug)]
pub(super) struct TunnelConnector {
    /// The time that connecting may take.
    pub limit: std::time::Duration,
    /// The end of what the client sends.
    pub end: Arc<TunnelEnd>,
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
            written: 0,
            head: None,
            has_ended: false,
            end: Arc::clone(&self.end),
        };
        Ok(VirtualSocketStream::new(Box::new(socket)).into())
    }
}

#[derive(Debug)]
struct TunnelSocket {
    socket: TcpStream,
    has_written: bool,
    /// Bytes written in all.
    written: u64,
    /// How many of them came before the first byte that was read: the request's head.
    head: Option<u64>,
    has_ended: bool,
    end: Arc<TunnelEnd>,
}

impl TunnelSocket {
    /// Closes the sending half once the client's last byte is written.
    fn follow_client(&mut self, context: &mut Context<'_>) {
        let (Some(head), false) = (self.head, self.has_ended) else {
            return;
        };
        self.end.wait(context.waker());
        if self.end.total().is_some_and(|total| self.written >= head + total) {
            self.has_ended = true;
            // At once, for a socket; one that is gone shows it in the next read.
            let _closed = Pin::new(&mut self.socket).poll_shutdown(context);
        }
    }

    fn note_written(&mut self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(written)) = written {
            self.written += *written as u64;
        }
    }
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
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.socket).poll_read(context, buffer);
        if this.head.is_none() && buffer.filled().len() > before {
            this.head = Some(this.written);
        }
        this.follow_client(context);
        read
    }
}

impl AsyncWrite for TunnelSocket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.has_written = true;
        let written = Pin::new(&mut this.socket).poll_write(context, bytes);
        this.note_written(&written);
        written
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
        let written = Pin::new(&mut this.socket).poll_write_vectored(context, slices);
        this.note_written(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
