//! The new process's part: becoming ready before it serves.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::{Channel, FLAG, Families, Message, unexpected};
use crate::readiness::{FamilyState, Reason, State};
use crate::server::{self, Server};

/// How often readiness is looked at.
const TICK: Duration = Duration::from_millis(10);

/// Why a process does not take over.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// Started by hand.
    #[error(
        "`{FLAG}` is for a process that a running gateway starts on SIGUSR2: send that signal to the one to be replaced"
    )]
    ByHand,
    /// The old process is gone, or does not keep to the rules.
    #[error("the gateway to be replaced has ended, or does not keep to the rules: {0}")]
    Lost(#[from] io::Error),
}

/// The running gateway that this process is to replace.
#[derive(Debug)]
pub struct Predecessor(UnixStream);

impl Predecessor {
    /// The one at the other end of standard input.
    ///
    /// # Errors
    /// Standard input is no socket of that kind.
    pub fn on_stdin() -> Result<Self, TakeOverError> {
        let descriptor = io::stdin().as_fd().try_clone_to_owned();
        let stream = descriptor.map(UnixStream::from).map_err(|_| TakeOverError::ByHand)?;
        stream.peer_addr().map_err(|_| TakeOverError::ByHand)?;
        Ok(Self(stream))
    }

    /// Waits until `server`, which accepts nobody yet, is as ready as the old gateway is, and lets it serve.
    ///
    /// # Errors
    /// The old gateway has ended, or has given this process up.
    pub async fn take_over(self, server: &mut Server) -> Result<(), TakeOverError> {
        let mut channel = Channel::new(self.0)?;
        let families = match channel.receive().await? {
            Message::Prepare(families) => families,
            other => return Err(unexpected(&other).into()),
        };
        tokio::select! {
            () = ready(server.state(), &families) => {}
            () = channel.ended() => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
        channel.send(&Message::Ready).await?;
        match channel.receive().await? {
            Message::Begin => {}
            other => return Err(unexpected(&other).into()),
        }
        server.open();
        // An old process that has ended in this very moment has nothing left to be told.
        let _told = channel.send(&Message::Serving).await;
        Ok(())
    }
}

/// Waits until every family is ready that has to be.
async fn ready(state: &server::State, before: &Families) {
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        let generation = state.generation.load();
        let board = generation.board(&state.draining);
        if board.families().all(|family| may_be_served(&family, before)) {
            return;
        }
    }
}

/// A family that was ready must be, and so must a required one that is new. One that was not ready before need not be:
/// the way out of an outage may be an upgrade.
fn may_be_served(family: &FamilyState<'_>, before: &Families) -> bool {
    let is_in = |names: &[String]| names.iter().any(|name| name == family.name);
    match family.state {
        State::Ready | State::Disabled => true,
        // Its first probe is still to come.
        State::NotReady(Reason::Starting) => false,
        State::NotReady(_) => is_in(&before.not_ready) || !(family.required || is_in(&before.ready)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use route_contract::contract::FamilyId;

    #[test]
    fn a_new_process_is_as_ready_as_the_old_one() {
        let before = Families {
            ready: vec!["up".to_owned()],
            not_ready: vec!["down".to_owned()],
        };
        let down = State::NotReady(Reason::Refused);
        for (name, required, state, expected) in [
            ("up", true, State::Ready, true),
            ("up", false, down, false),
            ("down", true, down, true),
            ("down", true, State::NotReady(Reason::Starting), false),
            ("new", true, down, false),
            ("new", false, down, true),
            ("new", true, State::Disabled, true),
        ] {
            let family = FamilyState {
                id: FamilyId(0),
                name,
                required,
                state,
            };
            assert_eq!(may_be_served(&family, &before), expected, "{name} {required} {state:?}");
        }
    }
}
