//! The bytes under an HTTP/2 connection: those that were read while its protocol was found out come first, and a client
//! that takes nothing is given up.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::listen::connection::Transport;
use crate::listen::pace::Pace;

/// A transport with a beginning and a limit on stalled writes.
#[derive(Debug)]
pub(super) struct GuardedTransport {
    inner: Box<dyn Transport>,
    beginning: BytesMut,
    pace: Pace,
}

impl GuardedTransport {
    pub fn new(inner: Box<dyn Transport>, beginning: BytesMut, pace: Pace) -> Self {
        Self { inner, beginning, pace }
    }

    /// Fails once a client has been waited for too long.
    fn poll_progress(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            self.pace.progress(written.as_ref().map_or(0, |written| *written));
            return Poll::Ready(written);
        }
        ready!(self.pace.poll_wait(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for GuardedTransport {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.beginning.is_empty() {
            return Pin::new(&mut *this.inner).poll_read(context, buffer);
        }
        let length = this.beginning.len().min(buffer.remaining());
        buffer.put_slice(this.beginning.get(..length).unwrap_or_default());
        this.beginning.advance(length);
        if this.beginning.is_empty() {
            this.beginning = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for GuardedTransport {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut *this.inner).poll_write(context, bytes);
        this.poll_progress(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut *this.inner).poll_write_vectored(context, slices);
        this.poll_progress(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut *this.inner).poll_flush(context);
        this.poll_progress(context, flushed.map_ok(|()| 0)).map_ok(|_| ())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let closed = Pin::new(&mut *this.inner).poll_shutdown(context);
        this.poll_progress(context, closed.map_ok(|()| 0)).map_ok(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn what_was_read_comes_first_and_a_client_that_takes_nothing_is_given_up() {
        let (near, mut far) = tokio::io::duplex(16);
        let pace = Pace::new(std::time::Duration::from_millis(50), 0);
        let mut transport = GuardedTransport::new(Box::new(near), BytesMut::from(&b"first "[..]), pace);
        far.write_all(b"second").await.unwrap();
        let mut read = [0; 12];
        transport.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"first second");
        let error = transport.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
