//! Following the files: on SIGHUP, and where the configuration says `watch = true` whenever they have changed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use route_contract::diagnostic::Diagnostic;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::files::Watch;
use super::report::{Outcome, Reload, Reloads, Trigger};
use super::{Assembly, AssemblyError, restart, unfinished};
use crate::config::{Contents, Deployment, codes};
use crate::telemetry::metrics::Metrics;

/// How often files that change while they are read are read again before a reload is given up.
const ATTEMPTS: usize = 10;
/// The pause before each of these.
const PAUSE: Duration = Duration::from_millis(100);

/// SIGHUP, from now on: before that it ends the process.
#[derive(Debug)]
pub struct Hangups(Signal);

impl Hangups {
    /// Receives them.
    ///
    /// # Errors
    /// The operating system's, when signals cannot be received.
    pub fn new() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }
}

/// Where deployments come from and what becomes of them.
#[derive(Debug)]
pub struct Follower {
    /// The configuration file.
    pub file: PathBuf,
    /// What makes the next generation.
    pub assembly: Arc<Mutex<Assembly>>,
    /// Where it is told.
    pub reloads: Arc<Reloads>,
    /// Where it is counted.
    pub metrics: Arc<Metrics>,
}

/// What one reading of all files has given.
struct Reading {
    deployment: Result<Deployment, Vec<Diagnostic>>,
    contents: Contents,
    /// Whether all of them hold the same afterwards: two files of two states would be worse than a moment's wait.
    is_of_one_state: bool,
}

impl Follower {
    /// Reloads whenever there is reason to, one reload at a time. `loaded` is what the files held when the present
    /// generation was. Ends never.
    pub async fn run(self, loaded: Contents, mut hangups: Hangups) {
        let mut watch = Watch::of(loaded);
        loop {
            let is_watching = self.assembly.lock().await.config().watch;
            tokio::select! {
                _ = hangups.0.recv() => watch = self.asked_for().await,
                settled = watch.changed(), if is_watching => watch = self.settled(&settled).await,
            }
        }
    }

    /// A reload that somebody has asked for: what stands there now is meant.
    async fn asked_for(&self) -> Watch {
        self.reloads.begin();
        let mut reading = self.read().await;
        for _ in 0..ATTEMPTS {
            if reading.is_of_one_state {
                self.take(Trigger::Signal, reading.deployment).await;
                return Watch::of(reading.contents);
            }
            sleep(PAUSE).await;
            reading = self.read().await;
        }
        let message = "the files change again and again while they are read";
        let fault = Diagnostic::error(codes::FILE_UNFINISHED, message).with_help("send SIGHUP once they are written");
        self.tell(Trigger::Signal, &Err(vec![fault]));
        Watch::unknown(reading.contents)
    }

    /// A reload because files have changed and have settled.
    async fn settled(&self, settled: &Contents) -> Watch {
        let reading = self.read().await;
        if reading.contents != *settled || !reading.is_of_one_state {
            // Something has changed since, or other files are named now: they are to settle, too.
            return Watch::unknown(reading.contents);
        }
        self.reloads.begin();
        self.take(Trigger::Watch, reading.deployment).await;
        Watch::of(reading.contents)
    }

    async fn read(&self) -> Reading {
        let file = self.file.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let mut contents = Contents::default();
            let environment = |name: &str| std::env::var_os(name);
            let deployment = Deployment::load_noting(&file, &environment, &mut contents);
            let is_of_one_state = contents.again() == contents;
            Reading {
                deployment,
                contents,
                is_of_one_state,
            }
        });
        // It fails only when the runtime stops, and then nobody is told any more.
        reading.await.unwrap_or_else(|error| Reading {
            deployment: Err(vec![Diagnostic::error(codes::DOCUMENT.unreadable, error.to_string())]),
            contents: Contents::default(),
            is_of_one_state: true,
        })
    }

    async fn take(&self, trigger: Trigger, deployment: Result<Deployment, Vec<Diagnostic>>) {
        let outcome = match deployment {
            Ok(deployment) => put_in_place(&mut *self.assembly.lock().await, deployment, trigger).await,
            Err(faults) => Err(faults),
        };
        self.tell(trigger, &outcome);
    }

    fn tell(&self, trigger: Trigger, outcome: &Result<Outcome, Vec<Diagnostic>>) {
        let (outcome, findings) = match outcome {
            Ok(outcome) => (*outcome, &[][..]),
            Err(findings) => (Outcome::Refused, findings.as_slice()),
        };
        let reload = Reload::now(trigger, outcome, findings);
        for fault in &reload.faults {
            tracing::error!(
                code = fault.code,
                place = fault.place.as_deref().unwrap_or_default(),
                help = fault.help.as_deref().unwrap_or_default(),
                "{}",
                fault.message
            );
        }
        let faults = reload.faults.len();
        // Who reads the line finds it counted and told.
        self.metrics.reloads.count(outcome);
        self.reloads.note(reload);
        let (trigger, outcome) = (trigger.as_str(), outcome.as_str());
        if faults == 0 {
            tracing::info!(trigger, outcome, "a reload has ended");
        } else {
            tracing::error!(
                trigger,
                outcome,
                faults,
                "a reload has ended: the configuration before it stays in force"
            );
        }
    }
}

/// Puts a deployment in force, or changes nothing.
///
/// # Errors
/// All that keeps it from being put in force.
async fn put_in_place(
    assembly: &mut Assembly,
    deployment: Deployment,
    trigger: Trigger,
) -> Result<Outcome, Vec<Diagnostic>> {
    let mut faults = restart::check(assembly.config(), &deployment.loaded);
    if trigger == Trigger::Watch {
        let present = assembly.present().load();
        let contract = present.contract();
        faults.extend(unfinished::file(assembly.source(), &deployment.loaded.source));
        faults.extend(unfinished::file(&contract.source, &deployment.contract.source));
        faults.extend(unfinished::contract(contract, &deployment.contract));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    for warning in &deployment.warnings {
        let place = warning.place.as_ref().map(ToString::to_string).unwrap_or_default();
        tracing::warn!(code = warning.code, place, "{}", warning.message);
    }
    match assembly.successor(deployment).map_err(|error| vec![fault(&error)])? {
        None => Ok(Outcome::Unchanged),
        Some(next) => {
            assembly.put_in_place(next).await;
            Ok(Outcome::Applied)
        }
    }
}

fn fault(error: &AssemblyError) -> Diagnostic {
    let code = match error {
        AssemblyError::Tls(_) => codes::CERTIFICATE_FILE,
        AssemblyError::Probes(_) => codes::PROBE_TARGET,
    };
    Diagnostic::error(code, error.to_string())
}
