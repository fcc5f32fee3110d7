//! A new binary takes over from a running one, and no connection is refused in between.
//!
//! 1. SIGUSR2 makes the running gateway start its own command line again: the file of that name may be another by now.
//!    The new process is its child, so it stays in the same control group, with the same environment and rights.
//! 2. The child gets the listening sockets as systemd would pass them (`inherited`), and on its standard input one end of a
//!    socket pair to talk over. There is nothing in the file system that anybody else could open.
//! 3. The child loads and checks everything, and probes its upstreams, but accepts nobody. Then it says that it is ready.
//! 4. The old process lets it begin, and from the moment when it serves accepts no more itself: it drains and ends. Until
//!    then it serves as before, and when the child ends or is late it goes on to.
//!
//! `Successor` is the old process's end, [`Predecessor`] the new one's; both speak [`Message`]s.

mod predecessor;
mod successor;

use std::io;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

pub use predecessor::{Predecessor, TakeOverError};
pub(super) use successor::{Sockets, UpgradeError, start};

use crate::readiness::{Board, State};

/// The flag by which a process knows that it is to take over.
pub const FLAG: &str = "--take-over";

/// Bytes of one message: thousands of families have room.
const MESSAGE_LIMIT: u64 = 1024 * 1024;

/// What the two processes say, in this order; each one line of JSON. Keys that are not known are ignored, so that a later
/// version may say more.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
enum Message {
    /// From the old process: how its families are.
    Prepare(Families),
    /// From the new process: it could serve.
    Ready,
    /// From the old process: it may.
    Begin,
    /// From the new process: it does.
    Serving,
}

/// The families that are ready, and those that are not, by name.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Families {
    ready: Vec<String>,
    not_ready: Vec<String>,
}

impl Families {
    fn of(board: &Board<'_>) -> Self {
        let mut families = Self::default();
        for family in board.families() {
            match family.state {
                State::Ready => families.ready.push(family.name.to_owned()),
                State::NotReady(_) => families.not_ready.push(family.name.to_owned()),
                State::Disabled => {}
            }
        }
        families
    }
}

/// One end of the socket pair.
#[derive(Debug)]
struct Channel(BufReader<UnixStream>);

impl Channel {
    fn new(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self(BufReader::new(UnixStream::from_std(stream)?)))
    }

    async fn send(&mut self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.0.get_mut().write_all(&line).await
    }

    /// The next message; an end without one is an error too.
    async fn receive(&mut self) -> io::Result<Message> {
        let mut line = String::new();
        (&mut self.0).take(MESSAGE_LIMIT).read_line(&mut line).await?;
        if !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Waits until the other process has ended, or says something out of turn.
    async fn ended(&mut self) {
        let _ended = self.0.fill_buf().await;
    }
}

/// A message out of turn.
fn unexpected(message: &Message) -> io::Error {
    io::Error::other(format!("an unexpected message: {message:?}"))
}
