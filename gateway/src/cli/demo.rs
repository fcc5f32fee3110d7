//! `gateway demo`: the reference deployment in one process.

use std::io::{self, Write as _};
use std::net::SocketAddr;

use super::{CLEAN, FOUND, findings};
use crate::demo::{self, DemoError};

/// What `gateway demo` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The address for traffic; port 0 takes a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The address for readiness, metrics and the contract; port 0 takes a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9901")]
    admin: SocketAddr,
}

/// Serves until Ctrl-C. Where to find what, and what to try, goes to standard output.
pub(super) fn run(options: &Options) -> u8 {
    let options = demo::Options {
        public: options.listen,
        admin: options.admin,
    };
    match demo::run(&options, &mut io::stdout()) {
        Ok(true) => CLEAN,
        Ok(false) => FOUND,
        Err(DemoError::Deployment(faults)) => findings::report(&faults),
        Err(error) => {
            // The code says it all when standard error is gone.
            let _ = writeln!(io::stderr().lock(), "error: {error}");
            FOUND
        }
    }
}
