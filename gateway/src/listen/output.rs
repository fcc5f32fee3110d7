//! The bytes that leave on a client's connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::connection::Transport;
use super::pace::Pace;
use bytes::{Buf, BytesMut};

/// Answers smaller than this leave in one write with their head.
const ROOM: usize = 8 * 1024;

/// Bytes of answers on their way to a client.
#[derive(Debug)]
pub(super) struct Output {
    gathered: BytesMut,
    pace: Pace,
}

impl Output {
    /// A client that takes nothing for `stall_limit`, or less than `min_rate` bytes a second for longer, is given up.
    pub fn new(stall_limit: Duration, min_rate: u64) -> Self {
        Self {
            gathered: BytesMut::new(),
            pace: Pace::new(stall_limit, min_rate),
        }
    }

    /// Whether nothing waits to leave.
    pub fn is_empty(&self) -> bool {
        self.gathered.is_empty()
    }

    /// Gives its room back when nothing waits to leave.
    pub fn rest(&mut self) {
        if self.gathered.is_empty() {
            self.gathered = BytesMut::new();
        }
    }

    /// Puts bytes behind those that wait, however many.
    pub fn gather(&mut self, bytes: &[u8]) {
        self.gathered.extend_from_slice(bytes);
    }

    /// Takes bytes of an answer. Small pieces are gathered until [`Self::poll_flush`].
    pub fn poll_write(
        &mut self,
        transport: &mut dyn Transport,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.gathered.len() + bytes.len() <= ROOM {
            self.gather(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        ready!(self.poll_drain(transport, context))?;
        let written = Pin::new(transport).poll_write(context, bytes);
        self.poll_progress(context, written)
    }

    /// Sends what was gathered.
    pub fn poll_flush(&mut self, transport: &mut dyn Transport, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(transport, context))?;
        Pin::new(transport).poll_flush(context)
    }

    fn poll_drain(&mut self, transport: &mut dyn Transport, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.gathered.is_empty() {
            let written = Pin::new(&mut *transport).poll_write(context, &self.gathered);
            let written = ready!(self.poll_progress(context, written))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.gathered.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Gives up a client that is too slow.
    fn poll_progress(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = &written {
            self.pace.progress(result.as_ref().copied().unwrap_or(0));
            return written;
        }
        ready!(self.pace.poll_wait(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test]
    async fn small_pieces_leave_together_and_a_client_that_takes_nothing_is_given_up() {
        let (mut near, far) = tokio::io::duplex(64);
        let mut output = Output::new(Duration::from_millis(50), 1);
        for _ in 0..8 {
            let written = poll_fn(|context| output.poll_write(&mut near, context, b"0123456789"))
                .await
                .unwrap();
            assert_eq!(written, 10);
        }
        assert!(!output.is_empty());
        let flushed = poll_fn(|context| output.poll_flush(&mut near, context)).await;
        assert_eq!(flushed.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(far);
    }
}
