//! `gateway run`: serve until a signal.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::Path;

use route_contract::contract::Serve;

use super::{CLEAN, FOUND, findings};
use crate::admin::Admin;
use crate::config::Deployment;
use crate::server::{self, Server, Signals};
use crate::telemetry::log;

/// Serves what a configuration says. What is wrong before the gateway listens goes to standard error; from then
/// on standard output has one JSON line for each message and request.
pub(super) fn run(file: &Path) -> u8 {
    let deployment = match Deployment::load(file, &|name| std::env::var_os(name)) {
        Ok(deployment) => deployment,
        Err(found) => return findings::report(&found),
    };
    let config = &deployment.loaded.config;
    let runtime = match server::runtime(config.threads) {
        Ok(runtime) => runtime,
        Err(error) => return fail("cannot start threads", &error),
    };
    let log = match log::start_on_stdout(&config.log) {
        Ok(log) => log,
        Err(error) => return fail("cannot start the log", &error),
    };
    let code = runtime.block_on(serve(deployment));
    // Connections that outlived the stop hold tasks; nothing waits for them any more.
    runtime.shutdown_background();
    drop(log);
    code
}

async fn serve(deployment: Deployment) -> u8 {
    for warning in &deployment.warnings {
        let place = warning.place.as_ref().map(ToString::to_string).unwrap_or_default();
        tracing::warn!(code = warning.code, place, "{}", warning.message);
    }
    let families = &deployment.contract.families;
    let number = families.len();
    let forwarded = families.iter().filter(|family| family.serve == Serve::Forward);
    let names: Vec<String> = forwarded.map(|family| family.name.clone()).collect();
    let server = match Server::start(deployment, Admin::new).await {
        Ok(server) => server,
        Err(error) => return fail("cannot start", &error),
    };
    let signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail("cannot receive signals", &error),
    };
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
