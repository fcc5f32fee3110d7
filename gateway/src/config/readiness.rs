//! The `ready` key of an `[upstream]` table: how a family's readiness is found out.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error as DeError, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::{Duration, Statuses};

/// Whether and how one family's upstream is probed.
///
/// Written as a path (`"/readyz"`, with the default schedule), as a table with the keys of [`Probe`], or as
/// `false`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Never probed: ready until connections fail.
    Unprobed,
    /// Probed on a schedule.
    Probe(Probe),
}

impl Default for Ready {
    fn default() -> Self {
        Self::Probe(Probe::of_path(Probe::DEFAULT_PATH))
    }
}

/// A readiness probe and its schedule.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// The target of the probe's GET request, query included.
    pub path: String,
    /// From one probe's start to the next one's; a tenth of it is jitter.
    #[serde(default = "Probe::default_interval")]
    pub interval: Duration,
    /// For the whole probe: resolution, connection and answer.
    #[serde(default = "Probe::default_timeout")]
    pub timeout: Duration,
    /// Successes in a row that make a family ready again. 1 to 100. The first probe after the start needs one.
    #[serde(default = "Probe::default_rise")]
    pub rise: u32,
    /// Failures in a row that make it not ready. 1 to 100.
    #[serde(default = "Probe::default_fall")]
    pub fall: u32,
    /// The final statuses that are a success; a redirect is never followed.
    #[serde(default = "Probe::default_status")]
    pub status: Statuses,
}

impl Probe {
    /// The path that is probed where none is written.
    pub const DEFAULT_PATH: &str = "/readyz";

    /// A probe of this path on the default schedule.
    pub fn of_path(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            interval: Self::default_interval(),
            timeout: Self::default_timeout(),
            rise: Self::default_rise(),
            fall: Self::default_fall(),
            status: Self::default_status(),
        }
    }

    fn default_interval() -> Duration {
        Duration::seconds(2)
    }
    fn default_timeout() -> Duration {
        Duration::seconds(1)
    }
    fn default_rise() -> u32 {
        2
    }
    fn default_fall() -> u32 {
        3
    }
    fn default_status() -> Statuses {
        Statuses::SUCCESSFUL
    }
}

impl Serialize for Ready {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unprobed => serializer.serialize_bool(false),
            Self::Probe(probe) => probe.serialize(serializer),
        }
    }
}

/// By hand, so that a fault inside the table keeps its own place and text.
impl<'de> Deserialize<'de> for Ready {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Forms;
        impl<'de> Visitor<'de> for Forms {
            type Value = Ready;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path such as \"/readyz\", a table with `path`, or `false`")
            }

            fn visit_bool<E: DeError>(self, probed: bool) -> Result<Ready, E> {
                if probed {
                    return Err(E::custom(
                        "`true` does not say what to probe: write the path, such as \"/readyz\"",
                    ));
                }
                Ok(Ready::Unprobed)
            }

            fn visit_str<E: DeError>(self, path: &str) -> Result<Ready, E> {
                Ok(Ready::Probe(Probe::of_path(path)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Ready, A::Error> {
                Probe::deserialize(MapAccessDeserializer::new(map)).map(Ready::Probe)
            }
        }
        deserializer.deserialize_any(Forms)
    }
}
