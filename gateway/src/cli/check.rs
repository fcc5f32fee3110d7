//! `gateway check`: everything that `gateway run` does short of listening.

use std::io::{self, Write};
use std::path::Path;

use route_contract::contract::Serve;
use route_contract::diagnostic::Severity;

use super::{CLEAN, ConfigFile, FOUND, counted, findings, online};
use crate::config::{Deployment, Ready, Upstream};

/// What `gateway check` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    file: ConfigFile,
    /// Resolve and probe every upstream once, too, and fail when one is not ready.
    #[arg(long)]
    online: bool,
}

/// Checks a configuration with its contract. Findings go to standard error, counts to standard output.
pub(super) fn run(options: &Options) -> u8 {
    let file = options.file.config.as_path();
    match Deployment::load(file, &|name| std::env::var_os(name)) {
        Err(found) => {
            let code = findings::report(&found);
            let counts = format!(
                "{}: {}, {}",
                file.display(),
                counted(findings::count(&found, Severity::Error), "error", "errors"),
                counted(findings::count(&found, Severity::Warning), "warning", "warnings"),
            );
            // The code has the last word when standard output is gone.
            let _ = writeln!(io::stdout().lock(), "{counts}");
            code
        }
        Ok(deployment) => {
            findings::report(&deployment.warnings);
            let mut out = io::stdout().lock();
            let probed = summarize(&mut out, file, &deployment).and_then(|()| match options.online {
                true => online::probe(&deployment, &mut out),
                false => Ok(true),
            });
            match probed {
                Ok(true) => CLEAN,
                Ok(false) => FOUND,
                Err(error) => {
                    // The code says it all when standard error is gone.
                    let _ = writeln!(io::stderr().lock(), "error: {error}");
                    FOUND
                }
            }
        }
    }
}

/// What would be served and probed, without addresses: the output of a check ends up in build logs.
fn summarize(out: &mut impl Write, file: &Path, deployment: &Deployment) -> io::Result<()> {
    let families = &deployment.contract.families;
    let upstreams = &deployment.loaded.config.upstream;
    let forwarded = families.iter().filter(|family| family.serve == Serve::Forward);
    writeln!(
        out,
        "{}: 0 errors, {}",
        file.display(),
        counted(deployment.warnings.len(), "warning", "warnings"),
    )?;
    writeln!(
        out,
        "contract: {} in order, {} forwarded; {}",
        counted(families.len(), "family", "families"),
        forwarded.clone().count(),
        counted(deployment.contract.profiles.len(), "profile", "profiles"),
    )?;
    writeln!(out, "digest: {}", deployment.contract.digest())?;
    for family in forwarded {
        let Some(upstream) = upstreams.get(&family.name) else {
            continue;
        };
        writeln!(out, "upstream {}: {}", family.name, conduct(upstream))?;
    }
    Ok(())
}

/// How one family's readiness is found out.
fn conduct(upstream: &Upstream) -> String {
    if !upstream.enabled {
        return "switched off, its paths are answered 503".to_owned();
    }
    let part = if upstream.required { "required" } else { "not required" };
    match &upstream.ready {
        Ready::Unprobed => format!("{part}, not probed, ready until connections fail"),
        Ready::Probe(probe) => format!("{part}, probed every {} for at most {}", probe.interval, probe.timeout),
    }
}
