//! `[log]`, `[metrics]` and `[traces]`: what the gateway tells its operators, and where to.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Duration, Share, UpstreamUrl};

/// Messages and the access log.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// Whether each request leaves a JSON line.
    pub access: bool,
    /// The least level of the gateway's own messages: `error`, `warn`, `info`, `debug` or `trace`.
    pub level: Level,
    /// A file in place of standard output; a relative path is taken from the folder of this file. It is opened again
    /// when it was renamed or removed.
    pub file: Option<PathBuf>,
    /// Whether access records and spans name the address of the endpoint that a request went to.
    pub upstream: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            access: true,
            level: Level::Info,
            file: None,
            upstream: false,
        }
    }
}

/// A level of the gateway's own messages.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Failures that need a person.
    Error,
    /// Failures that the gateway has dealt with.
    Warn,
    /// Start, stop, readiness changes.
    Info,
    /// Detail for a developer.
    Debug,
    /// All there is.
    Trace,
}

/// Metrics.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsTable {
    /// Whether requests are counted and `/metrics` answers.
    pub enabled: bool,
}

impl Default for MetricsTable {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Traces: spans of requests, sent to a collector by OTLP over HTTP.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Traces {
    /// `http://host:port` or `https://host:port` of a collector, which is sent `POST /v1/traces`; left out, there are no
    /// traces, and clients' `traceparent` passes as it came.
    pub endpoint: Option<UpstreamUrl>,
    /// The share of the traces begun here that are sent.
    pub sample: Share,
    /// Whose `traceparent` is continued, with its decision on sampling.
    pub parent: Parent,
    /// `service.name` of the spans.
    pub service: String,
    /// Spans that may wait to be sent; more are dropped and counted. 1 to 1,000,000.
    pub queue: usize,
    /// For one batch to be taken by the collector; then it is dropped and counted.
    pub timeout: Duration,
}

impl Default for Traces {
    fn default() -> Self {
        Self {
            endpoint: None,
            sample: Share::percent(10),
            parent: Parent::Any,
            service: "gateway".to_owned(),
            queue: 8_192,
            timeout: Duration::seconds(5),
        }
    }
}

/// Whose `traceparent` is continued.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Parent {
    /// Every client's.
    Any,
    /// That of the proxies in `forwarded.trusted`; for all others a trace begins here.
    Trusted,
}
