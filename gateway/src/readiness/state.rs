//! What is known of one family.

use super::Reason;

/// The state of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Enough of its endpoints are ready.
    Ready,
    /// Too few are; requests are answered 503 `unavailable` when none is.
    NotReady(Reason),
    /// Switched off by `enabled = false`: no part of any verdict, and requests are answered 503.
    Disabled,
}

impl State {
    /// The words that bodies show: the state, and why it is so where there is a reason.
    pub fn words(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Ready => ("ready", None),
            Self::NotReady(reason) => ("not_ready", Some(reason.as_str())),
            Self::Disabled => ("disabled", None),
        }
    }
}
