//! `gateway demo`: the reference deployment in one process, to be tried with `curl`.
//!
//! 1. [`embedded`] holds the reference contract and its profile files.
//! 2. [`profile`] serves each profile as its file says.

mod embedded;
mod profile;
