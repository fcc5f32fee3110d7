//! `gateway demo`: a deployment in one process, to be tried with `curl`.
//!
//! 1. `embedded` holds the reference deployments; a contract may be read from a file instead.
//! 2. `profile` serves each profile as its file says, on a free loopback port.
//! 3. The gateway is put in front of them by the same assembly as `gateway run`.
//! 4. `examples` finds out what to try, and `greeting` prints it once the gateway is ready.
//!
//! A single profile's server can be had alone, for containers.

mod embedded;
mod examples;
mod greeting;
mod profile;

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use route_contract::contract::{Contract, FamilyId, Profile, Role, Serve};
use route_contract::diagnostic::{Diagnostic, Source};

use crate::admin::Admin;
use crate::config::{self, Deployment, ListenAddress};
use crate::listen::{Limits, Listener, Phase, PhaseControl, Phases, PlainDoor};
use crate::server::{self, Server, Signals, StartError};
use crate::telemetry::log;
use greeting::Greeting;
use profile::ProfileServer;

/// How long the gateway may take to find its own upstreams ready.
const READY_LIMIT: Duration = Duration::from_secs(10);

/// The contract that the demo serves.
#[derive(Clone, Debug)]
pub enum Chosen {
    /// A reference deployment, by one of [`deployments`].
    BuiltIn(String),
    /// A contract in a file, with the manifests that it names.
    File(PathBuf),
}

impl Chosen {
    fn contract(&self) -> Result<Contract, Vec<Diagnostic>> {
        match self {
            Self::BuiltIn(name) => embedded::contract(name),
            Self::File(path) => Contract::load(path),
        }
    }
}

/// The names of the reference deployments that are built in.
pub fn deployments() -> impl Iterator<Item = &'static str> {
    embedded::names()
}

/// What the demo serves, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The contract.
    pub chosen: Chosen,
    /// For traffic; port 0 takes a free port.
    pub public: SocketAddr,
    /// For readiness, metrics and the contract; port 0 takes a free port.
    pub admin: SocketAddr,
}

/// Why there is no demo.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The contract has faults, or nothing in it can be served.
    #[error("the deployment has faults")]
    Deployment(Vec<Diagnostic>),
    /// The contract has no such profile.
    #[error("the contract has no profile `{0}`; it has {1}")]
    NoProfile(String, String),
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

/// Serves a deployment until SIGINT or SIGTERM. The greeting goes to `out`, one JSON line for each request to standard
/// error. Answers whether all requests in flight were answered at the end.
///
/// # Errors
/// A [`DemoError`], most likely an address that is taken or a contract with faults.
pub fn run(options: &Options, out: &mut (dyn Write + Send)) -> Result<bool, DemoError> {
    let contract = options.chosen.contract().map_err(DemoError::Deployment)?;
    let runtime = server::runtime(None)?;
    let clean = runtime.block_on(serve(options, contract, out));
    // Connections that outlived the stop hold tasks; nothing waits for them any more.
    runtime.shutdown_background();
    clean
}

/// Serves one profile of a contract at `address`, without a gateway, until SIGINT or SIGTERM. Where goes to `out`.
///
/// # Errors
/// A [`DemoError`], most likely a profile that the contract does not have.
pub fn run_profile(
    chosen: &Chosen,
    profile: &str,
    address: SocketAddr,
    out: &mut (dyn Write + Send),
) -> Result<(), DemoError> {
    let contract = chosen.contract().map_err(DemoError::Deployment)?;
    let Some(found) = contract.profile(profile) else {
        let names: Vec<_> = contract
            .profiles
            .iter()
            .map(|profile| format!("`{}`", profile.name))
            .collect();
        return Err(DemoError::NoProfile(profile.to_owned(), names.join(", ")));
    };
    let runtime = server::runtime(None)?;
    let served = runtime.block_on(async {
        let (control, phases) = PhaseControl::new(Phase::Serving);
        let mut signals = Signals::new()?;
        let at = start_profile(&contract, found, address, &phases).await?;
        writeln!(out, "{profile}  http://{at}")?;
        out.flush()?;
        signals.until_stop().await;
        control.advance(Phase::Closing);
        Ok(())
    });
    runtime.shutdown_background();
    served
}

async fn serve(options: &Options, contract: Contract, out: &mut (dyn Write + Send)) -> Result<bool, DemoError> {
    let name = contract.source.name.clone();
    let examples = examples::examples(&contract).map_err(DemoError::Deployment)?;
    let (profiles, phases) = PhaseControl::new(Phase::Serving);
    let upstreams = start_profiles(&contract, &phases).await?;
    let deployment = deployment(options, contract, &upstreams).map_err(DemoError::Deployment)?;
    let _log =
        log::start(&deployment.loaded.config.log, io::stderr()).map_err(|error| DemoError::Log(error.to_string()))?;
    let server = Server::start(deployment, Admin::new).await?;
    await_ready(&server).await?;
    let signals = Signals::new()?;
    let greeting = Greeting {
        contract: &name,
        public: server.public_address(),
        admin: server.admin_address(),
        upstreams: &upstreams,
        examples: &examples,
    };
    write!(out, "{greeting}")?;
    out.flush()?;
    let clean = server.run_until(signals).await;
    profiles.advance(Phase::Closing);
    Ok(clean)
}

/// A profile's name and where its server listens.
type Upstream = (String, SocketAddr);

/// Starts a server for each plain profile behind the gateway.
async fn start_profiles(contract: &Contract, phases: &Phases) -> Result<Vec<Upstream>, DemoError> {
    let mut upstreams = Vec::new();
    for profile in contract.profiles.iter().filter(|profile| is_behind(contract, profile)) {
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let address = start_profile(contract, profile, free, phases).await?;
        upstreams.push((profile.name.clone(), address));
    }
    Ok(upstreams)
}

/// Whether the gateway forwards to a profile: it is plain and owns a family that is forwarded.
fn is_behind(contract: &Contract, profile: &Profile) -> bool {
    let forwarded = |id: &FamilyId| {
        let family = contract.families.get(id.index());
        family.is_some_and(|family| family.serve == Serve::Forward)
    };
    matches!(&profile.role, Role::Plain { owns } if owns.iter().any(forwarded))
}

async fn start_profile(
    contract: &Contract,
    profile: &Profile,
    address: SocketAddr,
    phases: &Phases,
) -> Result<SocketAddr, DemoError> {
    let app = ProfileServer::new(contract, profile).map_err(DemoError::Deployment)?;
    let bound = Listener::bind(address).await;
    let listener = bound.map_err(|cause| DemoError::Start {
        cause: StartError::Bind {
            address: ListenAddress::Tcp(address),
            cause,
        },
    })?;
    let address = listener.local_addr();
    let serving = listener.serve(
        Arc::new(app),
        Arc::new(PlainDoor),
        Limits::default().fixed(),
        phases.clone(),
    );
    tokio::spawn(serving);
    Ok(address)
}

/// A configuration as a file would give it, so that the demo goes through the same checks as `gateway run`.
fn deployment(options: &Options, contract: Contract, upstreams: &[Upstream]) -> Result<Deployment, Vec<Diagnostic>> {
    let mut text = format!(
        "contract = \"contract.toml\"\n\
         [listen]\npublic = \"{}\"\nadmin = \"{}\"\nexpose_admin = true\n\
         [readiness]\nlive = \"/livez\"\nready = \"/readyz\"\n",
        options.public, options.admin
    );
    for (id, family) in contract.family_ids() {
        // Health routes stand under `[common]`; a contract without any has nothing to probe.
        let probe = contract
            .common
            .iter()
            .map(|route| route.template.as_str())
            .find(|path| *path == "/readyz");
        let ready = probe.map_or("false".to_owned(), |path| format!("{path:?}"));
        let name = family.name.as_str();
        let owner = contract.owners_of(id).find_map(|profile| {
            let mut started = upstreams.iter();
            started.find(|(started, _)| *started == profile.name)
        });
        if let (Serve::Forward, Some((_, address))) = (family.serve, owner) {
            // Writing to a String cannot fail.
            let _ = write!(text, "[upstream.{name}]\nurl = \"http://{address}\"\nready = {ready}\n");
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
    fn the_configuration_fits_every_built_in_contract() {
        for name in deployments() {
            let contract = embedded::contract(name).unwrap();
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 3000));
            let upstreams: Vec<Upstream> = contract
                .profiles
                .iter()
                .map(|profile| (profile.name.clone(), address))
                .collect();
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let options = Options {
                chosen: Chosen::BuiltIn(name.to_owned()),
                public: any,
                admin: any,
            };
            let deployment = deployment(&options, contract, &upstreams).unwrap();
            assert!(deployment.warnings.is_empty(), "{name}");
        }
    }
}
