//! The bytes under an HTTP/2 connection: those that were read while its protocol was found out come first, and a client
//! that takes nothing is given up.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::FrameWatch;
use crate::listen::connection::Transport;
use crate::listen::pace::Pace;

/// A transport with a beginning, a limit on stalled writes, and somebody who looks at what is written.
#[derive(Debug)]
pub(super) struct GuardedTransport {
    inner: Box<dyn Transport>,
    beginning: BytesMut,
    pace: Pace,
    watch: FrameWatch,
}

impl GuardedTransport {
    pub fn new(inner: Box<dyn Transport>, beginning: BytesMut, pace: Pace, watch: FrameWatch) -> Self {
        Self {
            inner,
            beginning,
            pace,
            watch,
        }
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
        if let Poll::Ready(Ok(length)) = written {
            this.watch.written(bytes.get(..length).unwrap_or_default());
        }
        this.poll_progress(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut *this.inner).poll_write_vectored(context, slices);
        if let Poll::Ready(Ok(mut length)) = written {
            for slice in slices {
                let part = length.min(slice.len());
                this.watch.written(slice.get(..part).unwrap_or_default());
                length -= part;
            }
        }
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
    use crate::listen::http2::frames::Ledger;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn what_was_read_comes_first_and_a_client_that_takes_nothing_is_given_up() {
        let (near, mut far) = tokio::io::duplex(16);
        let pace = Pace::new(std::time::Duration::from_millis(50), 0);
        let watch = FrameWatch::new(Ledger::default());
        let mut transport = GuardedTransport::new(Box::new(near), BytesMut::from(&b"first "[..]), pace, watch);
        far.write_all(b"second").await.unwrap();
        let mut read = [0; 12];
        transport.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"first second");
        let error = transport.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
