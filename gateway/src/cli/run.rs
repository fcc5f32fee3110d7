//! `gateway run`: serve until a signal.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::Path;

use route_contract::contract::Serve;

use super::{CLEAN, ConfigFile, FOUND, UNDECIDED, findings};
use crate::admin::Admin;
use crate::config::{Contents, Deployment};
use crate::reload::Hangups;
use crate::server::handover::{FLAG, Predecessor};
use crate::server::inherited::Inherited;
use crate::server::{self, Server, Signals};
use crate::telemetry::log;

/// What `gateway run` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    file: ConfigFile,
    /// Replace the gateway at the other end of standard input, which starts this process so on SIGUSR2.
    #[arg(long = FLAG.trim_start_matches('-'), hide = true)]
    take_over: bool,
}

/// Serves what a configuration says. What is wrong before the gateway listens goes to standard error; from then
/// on standard output has one JSON line for each message and request.
pub(super) fn run(options: &Options) -> u8 {
    let predecessor = match options.take_over.then(Predecessor::on_stdin).transpose() {
        Ok(predecessor) => predecessor,
        Err(error) => {
            fail("cannot take over", &error);
            return UNDECIDED;
        }
    };
    let inherited = match Inherited::from_environment() {
        Ok(inherited) => inherited,
        Err(error) => return fail("cannot use the sockets that were passed", &error),
    };
    let file = &options.file.config;
    let mut loaded = Contents::default();
    let deployment = match Deployment::load_noting(file, &|name| std::env::var_os(name), &mut loaded) {
        Ok(deployment) => deployment,
        Err(found) => return findings::report(&found),
    };
    let config = &deployment.loaded.config;
    let runtime = match server::runtime(config.threads) {
        Ok(runtime) => runtime,
        Err(error) => return fail("cannot start threads", &error),
    };
    let log = match log::start_as_configured(config) {
        Ok(log) => log,
        Err(error) => return fail("cannot start the log", &error),
    };
    let code = runtime.block_on(serve(file, loaded, deployment, inherited, predecessor));
    // Connections that outlived the stop hold tasks; nothing waits for them any more.
    runtime.shutdown_background();
    drop(log);
    code
}

async fn serve(
    file: &Path,
    loaded: Contents,
    deployment: Deployment,
    inherited: Inherited,
    predecessor: Option<Predecessor>,
) -> u8 {
    for warning in &deployment.warnings {
        let place = warning.place.as_ref().map(ToString::to_string).unwrap_or_default();
        tracing::warn!(code = warning.code, place, "{}", warning.message);
    }
    let families = &deployment.contract.families;
    let number = families.len();
    let forwarded = families.iter().filter(|family| family.serve == Serve::Forward);
    let names: Vec<String> = forwarded.map(|family| family.name.clone()).collect();
    let mut server = match Server::prepare(deployment, Admin::new, inherited).await {
        Ok(server) => server,
        Err(error) => return fail("cannot start", &error),
    };
    let (signals, hangups) = match (Signals::new(), Hangups::new()) {
        (Ok(signals), Ok(hangups)) => (signals, hangups),
        (Err(error), _) | (_, Err(error)) => return fail("cannot receive signals", &error),
    };
    match predecessor {
        None => server.open(),
        Some(predecessor) => {
            if let Err(error) = predecessor.take_over(&mut server).await {
                return fail("cannot take over", &error);
            }
        }
    }
    server.follow(file.to_owned(), loaded, hangups);
    tracing::info!(
        public = %server.public_address(),
        admin = %server.admin_address(),
        version = env!("CARGO_PKG_VERSION"),
        families = number,
        forwarded = names.len(),
        upstreams = names.join(","),
        contract = server.state().generation.load().digest(),
        "listening"
    );
    if server.run_until(signals).await { CLEAN } else { FOUND }
}

fn fail(what: &str, error: &dyn Display) -> u8 {
    // The code says it all when standard error is gone.
    let _ = writeln!(io::stderr().lock(), "error: {what}: {error}");
    FOUND
}
