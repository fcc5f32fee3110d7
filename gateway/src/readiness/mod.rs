//! Readiness: whether each family can be served, found out on the gateway's own schedule.
//!
//! 1. [`probe`] asks each endpoint, as often as its schedule says and never because somebody asked.
//! 2. What came of it is kept with the endpoint, in atomics ([`crate::upstream`]); [`board`] makes a verdict of it.
//! 3. [`answer`] tells it: family names and reasons of a closed set, and nothing else.

pub mod answer;
pub mod board;
pub mod probe;
mod state;

pub use crate::upstream::Reason;
pub use answer::{Answer, Paths, Question};
pub use board::{Board, Draining, FamilyState};
pub use state::State;
