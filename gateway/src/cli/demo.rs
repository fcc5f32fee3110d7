//! `gateway demo`: a deployment in one process.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use super::{CLEAN, FOUND, findings};
use crate::demo::{self, Chosen, DemoError};

/// What `gateway demo` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The reference deployment.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "agentteam",
        value_parser = PossibleValuesParser::new(demo::deployments()).map(Chosen::BuiltIn)
    )]
    deployment: Chosen,
    /// A contract of your own in its place.
    #[arg(long, value_name = "FILE", conflicts_with = "deployment")]
    contract: Option<PathBuf>,
    /// Serve this profile alone at `--listen`, without a gateway in front.
    #[arg(long, value_name = "NAME", conflicts_with = "admin")]
    profile: Option<String>,
    /// The address for traffic; port 0 takes a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The address for readiness, metrics and the contract; port 0 takes a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9901")]
    admin: SocketAddr,
}

/// Serves until Ctrl-C. Where to find what, and what to try, goes to standard output.
pub(super) fn run(options: &Options) -> u8 {
    let chosen = match &options.contract {
        Some(file) => Chosen::File(file.clone()),
        None => options.deployment.clone(),
    };
    let ended = match &options.profile {
        Some(profile) => demo::run_profile(&chosen, profile, options.listen, &mut io::stdout()).map(|()| true),
        None => {
            let options = demo::Options {
                chosen,
                public: options.listen,
                admin: options.admin,
            };
            demo::run(&options, &mut io::stdout())
        }
    };
    match ended {
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
