//! How a gateway ends, and how a new one takes its place.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Duration;

/// How the gateway stops.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Drain {
    /// How long traffic is still accepted after SIGTERM, while readiness says that it should go elsewhere: as long as
    /// whoever sends it needs to notice.
    pub delay: Duration,
    /// From the signal to the moment when whatever is still in flight is broken off. Longer than `delay`.
    pub timeout: Duration,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            delay: Duration::seconds(5),
            timeout: Duration::seconds(30),
        }
    }
}

/// How a new binary takes over.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Upgrade {
    /// How long the new process may take to become ready; then it is ended, and the old one serves on.
    pub ready_timeout: Duration,
}

impl Default for Upgrade {
    fn default() -> Self {
        Self {
            ready_timeout: Duration::seconds(30),
        }
    }
}
