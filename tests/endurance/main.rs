//! Endurance: the real `gateway` binary in front of upstreams that are processes of their own, under load and faults,
//! for as long as one likes.
//!
//! `make test` runs the short forms; `make fault`, `starve`, `soak`, `rolling`, `upgrade` and `reload-storm` the long ones.
//! Times are compared only with times of the same run, since no two machines are alike.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking
#![allow(clippy::print_stdout)] // the upstream process speaks on it, and the long forms show what they measured

#[allow(dead_code)] // made for the end-to-end tests, of which these use a part
#[path = "../e2e/harness/mod.rs"]
mod harness;

mod balancer;
mod fault;
mod hostile;
mod load;
mod observed;
mod reload;
mod rolling;
mod soak;
mod starve;
mod upgrade;
mod upstream_process;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One test at a time: they measure.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number of seconds from the environment.
fn seconds(variable: &str, default: u64) -> Duration {
    Duration::from_secs(number(variable, default))
}

/// A number from the environment.
fn number(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(default, |text| text.parse().expect("a number"))
}

/// The runtime of a driver.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}
