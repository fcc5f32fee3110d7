//! Generations: how the first one is made, and how the next one takes its place.
//!
//! 1. [`assembly`] makes a generation of a checked deployment: of the first at the start, of each next one with whatever
//!    still holds of the one before. Nothing changes until the whole of it is there.
//! 2. [`attendance`] keeps the tasks that resolve and probe the upstreams of the present generation.
//! 3. [`follow`] reloads on SIGHUP, and when [`files`] that are watched have changed and settled.
//! 4. It refuses what needs a [`restart`], and, where nobody has asked for the reload, what looks [`unfinished`].
//! 5. [`report`] tells what has come of it.

pub mod assembly;
pub mod attendance;
pub mod files;
pub mod follow;
pub mod report;
pub mod restart;
pub mod unfinished;

pub use assembly::{Assembly, AssemblyError};
pub use attendance::Runtimes;
pub use follow::{Follower, Hangups};
pub use report::{Outcome, Reloads, Trigger};
