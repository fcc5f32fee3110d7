//! Readiness: whether each family can be served, found out on the gateway's own schedule.
//!
//! 1. [`probe`] asks each family's upstream, as often as its schedule says and never because somebody asked.
//! 2. [`board`] keeps what came of it: one state for each family, in atomics, by the rules of `health`.
//! 3. [`answer`] tells it: family names and reasons of a closed set, and nothing else.

pub mod answer;
pub mod board;
mod health;
pub mod probe;
mod reason;
mod resolution;

pub use answer::{Answer, Paths, Question};
pub use board::{Board, FamilyState};
pub use health::State;
pub use probe::Probes;
pub use reason::Reason;
