//! `gateway demo`: the reference deployment in one process, to be tried with `curl`.
//!
//! 1. `embedded` holds the reference contract and its profile files.
//! 2. `profile` serves each plain profile as its file says, on a free loopback port.
//! 3. The gateway is put in front of them by the same assembly as `gateway run`.
//! 4. `greeting` prints where everything listens and what to try, once the gateway is ready.

mod embedded;
mod greeting;
mod profile;

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use route_contract::contract::{Contract, Role};
use route_contract::diagnostic::{Diagnostic, Source};

use crate::admin::Admin;
use crate::config::{self, Deployment};
use crate::listen::{Limits, Listener, Phase, PhaseControl, Phases, PlainDoor};
use crate::server::{self, Server, Signals, StartError};
use crate::telemetry::log;
use greeting::Greeting;
use profile::ProfileServer;

/// How long the gateway may take to find its own upstreams ready.
const READY_LIMIT: Duration = Duration::from_secs(10);

/// Where the demo listens.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// For traffic; port 0 takes a free port.
    pub public: SocketAddr,
    /// For readiness, metrics and the contract; port 0 takes a free port.
    pub admin: SocketAddr,
}

/// Why there is no demo.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The built-in contract or configuration has faults.
    #[error("the built-in deployment has faults")]
    Deployment(Vec<Diagnostic>),
    /// The gateway does not start.
    #[error("{cause}{}", hint(.cause))]
    Start {
        /// Why not.
        #[from]
        cause: StartError,
    },
    /// The gateway does not become ready in front of its own upstreams.
    #[error("the gateway is not ready after {} s", READY_LIMIT.as_secs())]
    NotReady,
    /// The log cannot be set up.
    #[error("cannot start the log: {0}")]
    Log(String),
    /// A thread, a profile server's socket, a signal or the output is not to be had.
    #[error(transparent)]
    System(#[from] io::Error),
}

fn hint(cause: &StartError) -> &'static str {
    match cause {
        StartError::Bind { .. } => "; choose other addresses with --listen and --admin (port 0 takes a free one)",
        _ => "",
    }
}

/// Serves the reference deployment until SIGINT or SIGTERM. The greeting goes to `out`, one JSON line for each
/// request to standard error. Answers whether all requests in flight were answered at the end.
///
/// # Errors
/// A [`DemoError`], most likely an address that is taken.
pub fn run(options: &Options, out: &mut (dyn Write + Send)) -> Result<bool, DemoError> {
    let contract = embedded::contract().map_err(DemoError::Deployment)?;
    let runtime = server::runtime(None)?;
    let clean = runtime.block_on(serve(options, contract, out));
    // Connections that outlived the stop hold tasks; nothing waits for them any more.
    runtime.shutdown_background();
    clean
}

async fn serve(options: &Options, contract: Contract, out: &mut (dyn Write + Send)) -> Result<bool, DemoError> {
    let (profiles, phases) = PhaseControl::new(Phase::Serving);
    let upstreams = start_profiles(&contract, &phases).await?;
    let deployment = deployment(options, contract, &upstreams).map_err(DemoError::Deployment)?;
    let _log =
        log::start(&deployment.loaded.config.log, io::stderr()).map_err(|error| DemoError::Log(error.to_string()))?;
    let server = Server::start(deployment, Admin::new).await?;
    await_ready(&server).await?;
    let signals = Signals::new()?;
    let greeting = Greeting {
        public: server.public_address(),
        admin: server.admin_address(),
        upstreams: &upstreams,
    };
    write!(out, "{greeting}")?;
    out.flush()?;
    let clean = server.run_until(signals).await;
    profiles.advance(Phase::Closing);
    Ok(clean)
}

/// A profile's name and where its server listens.
type Upstream = (String, SocketAddr);

/// Starts a server for each plain profile.
async fn start_profiles(contract: &Contract, phases: &Phases) -> Result<Vec<Upstream>, DemoError> {
    let mut upstreams = Vec::new();
    let plain = contract
        .profiles
        .iter()
        .filter(|profile| matches!(profile.role, Role::Plain { .. }));
    for profile in plain {
        let app = ProfileServer::new(contract, profile).map_err(DemoError::Deployment)?;
        let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        upstreams.push((profile.name.clone(), listener.local_addr()));
        let serving = listener.serve(
            Arc::new(app),
            Arc::new(PlainDoor),
            Limits::default().fixed(),
            phases.clone(),
        );
        tokio::spawn(serving);
    }
    Ok(upstreams)
}

/// A configuration as a file would give it, so that the demo goes through the same checks as `gateway run`.
fn deployment(options: &Options, contract: Contract, upstreams: &[Upstream]) -> Result<Deployment, Vec<Diagnostic>> {
    let mut text = format!(
        "contract = \"contract.toml\"\n\
         [listen]\npublic = \"{}\"\nadmin = \"{}\"\nexpose_admin = true\n\
         [readiness]\nlive = \"/livez\"\nready = \"/readyz\"\n",
        options.public, options.admin
    );
    for family in contract.families.iter().map(|family| family.name.as_str()) {
        // In the reference contract each forwarded family has the name of the profile that serves it.
        let profile = upstreams.iter().find(|(profile, _)| profile == family);
        if let Some((_, address)) = profile {
            // Writing to a String cannot fail.
            let _ = write!(text, "[upstream.{family}]\nurl = \"http://{address}\"\n");
        }
    }
    let source = Source::new("the demo's configuration", text);
    let loaded = config::load_source(&source, Path::new(""), &|_| None)?;
    Deployment::with_contract(loaded, contract)
}

/// Waits for the first probes, so that what is printed works at once.
async fn await_ready(server: &Server) -> Result<(), DemoError> {
    let ready = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        let state = server.state();
        while !state.generation.load().board(&state.draining).is_ready() {
            ticks.tick().await;
        }
    };
    tokio::time::timeout(READY_LIMIT, ready)
        .await
        .map_err(|_| DemoError::NotReady)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_configuration_fits_the_built_in_contract() {
        let contract = embedded::contract().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 3000));
        let upstreams = ["central", "workspace", "extension"].map(|name| (name.to_owned(), address));
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = Options {
            public: any,
            admin: any,
        };
        let deployment = deployment(&options, contract, &upstreams).unwrap();
        assert!(deployment.warnings.is_empty());
    }
}
