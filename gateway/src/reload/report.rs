//! What came of reloads, for the admin listener and the log: places and reasons, no value of a file.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use route_contract::diagnostic::{Diagnostic, Severity};
use serde::Serialize;
use tokio::sync::Notify;

use crate::config::without_authorities;
use crate::telemetry::json_line;

/// What has asked for a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// SIGHUP.
    Signal,
    /// A watched file that is another one.
    Watch,
}

/// What has come of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The next generation is in force.
    Applied,
    /// It would be the same as the present one.
    Unchanged,
    /// There are faults, so the present one stays in force.
    Refused,
}

impl Trigger {
    /// The word in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Watch => "watch",
        }
    }
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Applied, Self::Unchanged, Self::Refused];

    /// The word in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
        }
    }
}

/// One finding without the excerpt of the file, which may hold what is not everybody's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The code, see `docs/gateway-codes.md` and `route-contract explain`.
    pub code: &'static str,
    /// `file:line:column`; none where no file stands behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl From<&Diagnostic> for Fault {
    fn from(finding: &Diagnostic) -> Self {
        Self {
            code: finding.code,
            place: finding.place.as_ref().map(ToString::to_string),
            message: without_authorities(&finding.message),
            help: finding.help.as_deref().map(without_authorities),
        }
    }
}

/// The last reload.
#[derive(Clone, Debug, Serialize)]
pub struct Reload {
    /// When it ended (RFC 3339).
    pub at: String,
    /// What has asked for it.
    pub trigger: Trigger,
    /// What has come of it.
    pub outcome: Outcome,
    /// Why it was refused; empty where it was not.
    pub faults: Vec<Fault>,
}

impl Reload {
    /// A reload that has ended now with these findings, of which warnings do not count.
    pub fn now(trigger: Trigger, outcome: Outcome, findings: &[Diagnostic]) -> Self {
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
        Self {
            at: json_line::now(),
            trigger,
            outcome,
            faults: errors.map(Fault::from).collect(),
        }
    }
}

/// The reloads of a running gateway.
#[derive(Debug, Default)]
pub struct Reloads {
    last: ArcSwapOption<Reload>,
    refused: ArcSwapOption<Reload>,
    begun: Notify,
    noted: Notify,
}

impl Reloads {
    /// Says that a reload has begun; what comes of it is noted.
    pub fn begin(&self) {
        self.begun.notify_one();
    }

    /// Waits for the next reload to begin; for one task.
    pub async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Keeps what has come of a reload.
    pub fn note(&self, reload: Reload) {
        let reload = Arc::new(reload);
        if reload.outcome == Outcome::Refused {
            self.refused.store(Some(reload.clone()));
        }
        self.last.store(Some(reload));
        self.noted.notify_one();
    }

    /// Waits for the next reload to be noted; for one task.
    pub async fn noted(&self) {
        self.noted.notified().await;
    }

    /// The last reload; none before the first.
    pub fn last(&self) -> Option<Arc<Reload>> {
        self.last.load_full()
    }

    /// The last reload that was refused, whatever came after it; none before the first.
    pub fn last_refused(&self) -> Option<Arc<Reload>> {
        self.refused.load_full()
    }
}
