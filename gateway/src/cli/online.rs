//! `gateway check --online`: whether each family's upstream is ready, found out as `gateway run` does.

use std::io::{self, Write};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};

use super::counted;
use crate::config::{Config, Deployment, Ready};
use crate::reload::Runtimes;
use crate::reload::attendance::Attendance;
use crate::upstream::{Upstream, Upstreams};

/// For the look-up of a name, before its addresses are probed.
const LOOKUP: Duration = Duration::from_secs(6);

/// Resolves and probes every endpoint once, and writes a line for each family. Answers whether all that are switched on
/// are ready. No line holds an address: the output of a check ends up in build logs.
///
/// # Errors
/// The writer's; or the operating system's, when a thread cannot be started.
pub(super) fn probe(deployment: &Deployment, out: &mut impl Write) -> io::Result<bool> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let config = &deployment.loaded.config;
    let upstreams = Upstreams::new(&deployment.contract, config).map_err(io::Error::other)?;
    runtime.block_on(async {
        let attendance = Attendance::new(Runtimes {
            traffic: Handle::current(),
            control: Handle::current(),
        });
        let _tasks = attendance
            .begin(&upstreams)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let known = async {
            for upstream in upstreams.all() {
                upstream.known().await;
            }
        };
        // What is not known then is told as `starting`.
        let _in_time = tokio::time::timeout(LOOKUP + longest_probe(config), known).await;
        io::Result::Ok(())
    })?;
    let mut all_ready = true;
    for upstream in upstreams.all() {
        let (is_ready, state) = state(upstream);
        all_ready &= is_ready;
        writeln!(out, "online {}: {state}", upstream.name())?;
    }
    runtime.shutdown_background();
    Ok(all_ready)
}

fn longest_probe(config: &Config) -> Duration {
    let timeouts = config.upstream.values().filter_map(|table| match &table.ready {
        Ready::Probe(probe) => Some(probe.timeout.get()),
        Ready::Unprobed => None,
    });
    timeouts.max().unwrap_or_default()
}

/// Whether the family is ready or is not meant to be, and a word about it.
fn state(upstream: &Upstream) -> (bool, String) {
    if !upstream.is_enabled() {
        return (true, "switched off".to_owned());
    }
    let endpoints = upstream.gauges().endpoints;
    let (ready, down) = (endpoints.ready, endpoints.not_ready + endpoints.ejected);
    let endpoints = counted(ready + down, "endpoint", "endpoints");
    match (upstream.readiness(), upstream.ready()) {
        (Err(reason), _) => (
            false,
            format!("not ready ({}), {ready} of {endpoints}", reason.as_str()),
        ),
        (Ok(()), Ready::Unprobed) => (true, format!("not probed, {endpoints}")),
        (Ok(()), Ready::Probe(_)) => (true, format!("ready, {ready} of {endpoints}")),
    }
}
