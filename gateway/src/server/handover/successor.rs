//! The old process's part: starting the new one, and letting it begin once it is ready.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use tokio::time::{Instant, timeout_at};

use super::{Channel, FLAG, Families, Message, unexpected};
use crate::server::State;
use crate::server::inherited::{ADMIN, PUBLIC};

/// The first descriptor that is passed, see `sd_listen_fds(3)`.
const FIRST_DESCRIPTOR: i32 = 3;
/// How long the new process may take from being let to serving: it has nothing left to do.
const BEGIN_LIMIT: Duration = Duration::from_secs(5);

/// Why a new binary does not take over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpgradeError {
    /// In a container, or wherever else this process is the first one.
    #[error("the process is the first of its container, which ends with it: replace the container")]
    FirstProcess,
    /// The command line cannot be started again.
    #[error("the new process cannot be started: {0}")]
    Start(io::Error),
    /// The new process has ended by itself. What was wrong stands in its own messages, which go where this one's go.
    #[error("the new process has ended ({0}); its own messages say why")]
    Ended(ExitStatus),
    /// The new process was given up.
    #[error("the new process was not ready after {} s", .0.as_secs_f64())]
    Late(Duration),
    /// The new process is no gateway, or one of another time.
    #[error("the new process does not keep to the rules: {0}")]
    Unruly(io::Error),
}

/// The listening sockets, held for a successor. As long as they are, no socket is closed.
#[derive(Debug)]
pub(crate) struct Sockets {
    public: OwnedFd,
    admin: OwnedFd,
}

impl Sockets {
    /// Second handles on these sockets.
    ///
    /// # Errors
    /// The operating system's, when there are no descriptors left.
    pub fn of(public: &impl AsFd, admin: &impl AsFd) -> io::Result<Self> {
        Ok(Self {
            public: public.as_fd().try_clone_to_owned()?,
            admin: admin.as_fd().try_clone_to_owned()?,
        })
    }

    fn mappings(&self) -> io::Result<Vec<FdMapping>> {
        let sockets = [&self.public, &self.admin].into_iter().zip(FIRST_DESCRIPTOR..);
        sockets
            .map(|(socket, child_fd)| {
                let parent_fd = socket.try_clone()?;
                Ok(FdMapping { parent_fd, child_fd })
            })
            .collect()
    }
}

/// A process that is to take over. It is ended when this is dropped before it serves.
struct Successor {
    child: Child,
    serves: bool,
}

impl Drop for Successor {
    fn drop(&mut self) {
        if !self.serves {
            // One that has ended by itself is only waited for.
            let _killed = self.child.kill();
            let _status = self.child.wait();
        }
    }
}

/// Starts this process's command line again and lets the new process take over; answers its id. When this fails, or is
/// dropped, the new process is gone and nothing has changed.
pub(crate) async fn start(sockets: &Sockets, state: &State, limit: Duration) -> Result<u32, UpgradeError> {
    if std::process::id() == 1 {
        return Err(UpgradeError::FirstProcess);
    }
    let (ours, theirs) = UnixStream::pair().map_err(UpgradeError::Start)?;
    let mut channel = Channel::new(ours).map_err(UpgradeError::Start)?;
    let mut command = command(theirs.into(), sockets).map_err(UpgradeError::Start)?;
    let mut successor = Successor {
        child: command.spawn().map_err(UpgradeError::Start)?,
        serves: false,
    };
    // With it goes this process's copy of the child's end, so that the child's death is seen.
    drop(command);
    let pid = successor.child.id();
    tracing::info!(pid, "upgrading: a new process is started and made ready");
    let ready = timeout_at(Instant::now() + limit, prepare(&mut channel, state)).await;
    let begun = match ready {
        Err(_) => return Err(UpgradeError::Late(limit)),
        Ok(Ok(())) => timeout_at(Instant::now() + BEGIN_LIMIT, begin(&mut channel)).await,
        Ok(Err(error)) => Ok(Err(error)),
    };
    match begun {
        Ok(Ok(())) => {
            successor.serves = true;
            Ok(pid)
        }
        Ok(Err(error)) => Err(successor.failure(error)),
        Err(_) => Err(UpgradeError::Late(BEGIN_LIMIT)),
    }
}

impl Successor {
    fn failure(&mut self, error: io::Error) -> UpgradeError {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        if !matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) {
            return UpgradeError::Unruly(error);
        }
        // Its end of the channel is closed, which it never does itself: it ends or has ended.
        self.child.wait().map_or_else(UpgradeError::Unruly, UpgradeError::Ended)
    }
}

async fn prepare(channel: &mut Channel, state: &State) -> io::Result<()> {
    let families = Families::of(&state.generation.load().board(&state.draining));
    channel.send(&Message::Prepare(families)).await?;
    match channel.receive().await? {
        Message::Ready => Ok(()),
        other => Err(unexpected(&other)),
    }
}

async fn begin(channel: &mut Channel) -> io::Result<()> {
    channel.send(&Message::Begin).await?;
    match channel.receive().await? {
        Message::Serving => Ok(()),
        other => Err(unexpected(&other)),
    }
}

fn command(channel: OwnedFd, sockets: &Sockets) -> io::Result<Command> {
    let mut arguments = std::env::args_os();
    // By its name and not by what is open: a new file, or a link to another one, is the new binary.
    let program = arguments.next().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command
        .args(arguments.filter(|argument| argument != FLAG))
        .arg(FLAG)
        .stdin(channel)
        .env("LISTEN_FDS", "2")
        .env("LISTEN_FDNAMES", format!("{PUBLIC}:{ADMIN}"))
        // These name the process that they were meant for, which is this one.
        .env_remove("LISTEN_PID")
        .env_remove("LISTEN_FDS_FIRST_FD")
        .env_remove("WATCHDOG_PID");
    command.fd_mappings(sockets.mappings()?).map_err(io::Error::other)?;
    Ok(command)
}
