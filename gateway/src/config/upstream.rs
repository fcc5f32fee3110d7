//! The `[upstream.NAME]` table: how one family is served.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Affinity, Config, Duration, Ready, Share, UpstreamUrl, WithheldHeader};
use crate::certificate::IdentityFiles;

/// How one family is served.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// `http://host:port`, `https://host:port`, or `h2c://host:port` for HTTP/2 without TLS; without path, query or
    /// credentials. Of a name all addresses are used.
    pub url: Option<UpstreamUrl>,
    /// Several of them, in place of `url`.
    #[serde(default)]
    pub urls: Vec<UpstreamUrl>,
    /// What `https` endpoints are spoken to with. `http` is HTTP/1.1 and `h2c` is HTTP/2, whatever this says.
    #[serde(default)]
    pub protocol: Protocol,
    /// Whom TLS trusts and shows; left out, the system's authorities and nothing.
    pub tls: Option<UpstreamTls>,
    /// How often names are resolved again.
    #[serde(default = "Upstream::default_resolve_interval")]
    pub resolve_interval: Duration,
    /// Which endpoint takes the next request.
    #[serde(default)]
    pub balance: Balance,
    /// What keeps requests that belong together on one endpoint; left out, nothing does.
    pub affinity: Option<Affinity>,
    /// False switches the family off: its paths stay its own and are answered 503 `unavailable`.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Whether the overall verdict of `/readyz` waits for this family.
    #[serde(default = "yes")]
    pub required: bool,
    /// The readiness probe: a path, a table, or `false` for none (ready until connections fail).
    #[serde(default)]
    pub ready: Ready,
    /// Ready endpoints that make the family ready. 1 to 1,000.
    #[serde(default = "Upstream::default_ready_min")]
    pub ready_min: usize,
    /// When an endpoint whose requests fail is left alone for a while.
    #[serde(default)]
    pub ejection: Ejection,
    /// To connect to an endpoint; then another one is tried, and in the end 502.
    #[serde(default = "Upstream::default_connect_timeout")]
    pub connect_timeout: Duration,
    /// From the request's last byte, or the connection, to the head of its answer; then 504.
    #[serde(default = "Upstream::default_response_timeout")]
    pub response_timeout: Duration,
    /// Silence of the upstream inside an answer; then the answer breaks off.
    #[serde(default = "Upstream::default_body_timeout")]
    pub body_timeout: Duration,
    /// From a request's first byte to the last byte of its answer, streams and tunnels excepted; then 504, or the
    /// answer breaks off.
    #[serde(default = "Upstream::default_total_timeout")]
    pub total_timeout: Duration,
    /// Silence of the upstream inside a stream: an answer that is `text/event-stream`, gRPC or JSON lines.
    #[serde(default = "Upstream::default_stream_timeout")]
    pub stream_timeout: Duration,
    /// The same as `total_timeout` for a stream; left out, a stream may last for ever.
    pub stream_total_timeout: Option<Duration>,
    /// Silence of either side of a WebSocket; left out, it is `limits.tunnel_timeout`.
    pub tunnel_timeout: Option<Duration>,
    /// The same as `total_timeout` for a WebSocket; left out, it may last for ever.
    pub tunnel_total_timeout: Option<Duration>,
    /// How long an unused connection is kept; shorter than the upstream's own.
    #[serde(default = "Upstream::default_idle_timeout")]
    pub idle_timeout: Duration,
    /// Second attempts, as a share of the requests of the last ten seconds.
    #[serde(default = "Upstream::default_retry_budget")]
    pub retry_budget: Share,
    /// Second attempts within ten seconds that are allowed however few requests there are. 0 to 10,000.
    #[serde(default = "Upstream::default_retry_min")]
    pub retry_min: u32,
    /// Requests in flight to this family; more is 503 `overloaded`. 1 to 1,000,000.
    #[serde(default = "Upstream::default_in_flight")]
    pub in_flight: usize,
    /// Requests that may wait for a place in flight instead of being answered 503 at once. 0 to 10,000.
    #[serde(default)]
    pub queue: usize,
    /// How long they wait at most.
    #[serde(default = "Upstream::default_queue_timeout")]
    pub queue_timeout: Duration,
    /// Header fields that it receives although some framework takes them for the path, the method, the host or the
    /// client, such as `x-original-url`; no other upstream does.
    #[serde(default)]
    pub pass_headers: Vec<WithheldHeader>,
}

impl Upstream {
    /// All URLs, whichever key they stand under.
    pub fn urls(&self) -> impl Iterator<Item = &UpstreamUrl> {
        self.url.iter().chain(&self.urls)
    }

    fn default_resolve_interval() -> Duration {
        Duration::seconds(5)
    }
    fn default_ready_min() -> usize {
        1
    }
    fn default_connect_timeout() -> Duration {
        Duration::seconds(5)
    }
    fn default_response_timeout() -> Duration {
        Duration::seconds(60)
    }
    fn default_body_timeout() -> Duration {
        Duration::seconds(60)
    }
    fn default_total_timeout() -> Duration {
        Duration::seconds(1_800)
    }
    fn default_stream_timeout() -> Duration {
        Duration::seconds(600)
    }
    fn default_idle_timeout() -> Duration {
        Duration::seconds(30)
    }
    fn default_retry_budget() -> Share {
        Share::percent(20)
    }
    fn default_retry_min() -> u32 {
        10
    }
    fn default_in_flight() -> usize {
        1024
    }
    fn default_queue_timeout() -> Duration {
        Duration::milliseconds(500)
    }
}

/// What an endpoint with TLS is spoken to with.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "http/1.1")]
    Http1,
    /// HTTP/2, and nothing else. WebSockets cannot be forwarded then.
    #[serde(rename = "h2")]
    Http2,
    /// What the endpoint chooses in the handshake; HTTP/1.1 for WebSockets.
    #[serde(rename = "auto")]
    Auto,
}

/// TLS to a family's endpoints. All files are PEM; they are read when the configuration is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpstreamTls {
    /// The authorities that are trusted; left out, those of the system.
    pub ca: Option<PathBuf>,
    /// The name that the endpoint is asked for (SNI) and that its certificate must bear; left out, the URL's host.
    pub server_name: Option<String>,
    /// The certificate that is shown, followed by its chain.
    pub cert: Option<PathBuf>,
    /// That certificate's private key.
    pub key: Option<PathBuf>,
    /// Takes whatever certificate an endpoint shows: anybody in between can read and change everything.
    pub insecure_skip_verify: bool,
}

impl UpstreamTls {
    /// The files of the certificate that is shown, where both are named.
    pub fn identity(&self, config: &Config) -> Option<IdentityFiles> {
        Some(IdentityFiles {
            certificate: config.resolve(self.cert.as_ref()?),
            key: config.resolve(self.key.as_ref()?),
        })
    }
}

/// Which endpoint takes the next request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The one with the fewest requests in flight.
    LeastInFlight,
}

/// When an endpoint whose requests fail is left alone for a while, whatever its probe says.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ejection {
    /// Failures in a row: connections that are not made, and 5xx answers but 501 and 505. 1 to 1,000.
    pub failures: u32,
    /// How long; each further time in a row takes that much longer, up to ten times.
    pub pause: Duration,
    /// Endpoints that may be out at a time, as a share of all, rounded down: of one endpoint, 50% is none.
    pub max_ejected: Share,
    /// After a pause or a failed probe, the time in which an endpoint comes back to its full part of the traffic.
    pub slow_return: Duration,
}

impl Default for Ejection {
    fn default() -> Self {
        Self {
            failures: 5,
            pause: Duration::seconds(10),
            max_ejected: Share::percent(50),
            slow_return: Duration::seconds(10),
        }
    }
}

fn yes() -> bool {
    true
}
