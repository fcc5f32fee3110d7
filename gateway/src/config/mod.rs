//! `gateway.toml`: how this deployment serves the contract.
//!
//! One struct stands for one table, so a key is written once: here. Values are parsed once, into types
//! that are valid from then on. [`load()`] reads a file into them and [`check()`] finds what is wrong between
//! them and with the contract; [`effective`] shows the result with every default and origin.

mod admin;
mod affinity;
mod agreement;
mod certificates;
mod check;
pub(crate) mod codes;
mod contents;
mod deployment;
mod drain;
mod duration;
pub mod effective;
mod endpoint;
mod listen_tls;
mod load;
mod mask;
mod places;
mod quantity;
mod readiness;
mod schema;
mod secret_file;
mod share;
mod size;
mod status;
mod telemetry;
mod trust;
mod upstream;
mod variables;
mod withheld;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::listen::{ListenAddress, ListenAddressError};
pub use admin::{AdminAccess, AdminHost, SocketMode};
pub use affinity::{Affinity, AffinityError};
pub use agreement::agree;
pub use check::check;
pub use codes::{DOCUMENT, TABLE};
pub use contents::Contents;
pub use deployment::Deployment;
pub use drain::{Drain, Upgrade};
pub use duration::{Duration, DurationError};
pub use endpoint::{Host, UpstreamUrl, UpstreamUrlError};
pub use listen_tls::{CertificateFiles, ClientAuth, Http2, ListenTls, TlsVersion};
pub use load::{Loaded, load, load_source};
pub(crate) use mask::without_authorities;
pub use readiness::{Probe, Ready};
pub use schema::schema;
pub use secret_file::{SecretFile, SecretFileError};
pub use share::{Share, ShareError};
pub use size::{Size, SizeError};
pub use status::{Statuses, StatusesError};
pub use telemetry::{Level, Log, MetricsTable, Parent, Traces};
pub use upstream::{Balance, Ejection, Protocol, Upstream, UpstreamTls};
pub use variables::Environment;
pub use withheld::{WithheldHeader, WithheldHeaderError};

/// How one deployment serves a contract.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Gateway configuration")]
pub struct Config {
    /// The folder of the file, from which relative paths are taken; no key of it.
    #[serde(skip)]
    pub folder: PathBuf,
    /// The contract file; a relative path is taken from the folder of this file.
    pub contract: PathBuf,
    /// Whether this file, the contract and all other files that it names are looked at, and taken over when they have
    /// changed; SIGHUP does that at any time.
    #[serde(default)]
    pub watch: bool,
    /// Worker threads; left out, one for each core.
    pub threads: Option<NonZeroUsize>,
    /// Where the gateway listens.
    pub listen: Listen,
    /// Who may ask the admin listener.
    #[serde(default)]
    pub admin: AdminAccess,
    /// Readiness paths on the public listener; left out, readiness is answered on the admin listener alone.
    #[serde(default)]
    pub readiness: PublicReadiness,
    /// Whose `X-Forwarded-*` and `X-Request-Id` headers are believed.
    #[serde(default)]
    pub forwarded: Forwarded,
    /// Limits on what a client may send and hold.
    #[serde(default)]
    pub limits: Limits,
    /// How the gateway stops.
    #[serde(default)]
    pub drain: Drain,
    /// How a new binary takes over.
    #[serde(default)]
    pub upgrade: Upgrade,
    /// Messages and the access log.
    #[serde(default)]
    pub log: Log,
    /// Metrics.
    #[serde(default)]
    pub metrics: MetricsTable,
    /// Traces; left out, there are none.
    #[serde(default)]
    pub traces: Traces,
    /// One table for each family that the contract forwards, by the family's name.
    #[serde(default)]
    pub upstream: BTreeMap<String, Upstream>,
}

impl Config {
    /// A file named in the configuration: a relative path is taken from its folder.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }
}

/// Addresses to listen on.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// The address for traffic.
    #[schemars(with = "String")]
    pub public: SocketAddr,
    /// The address for readiness, metrics and the status page, or `unix:` and the path of a socket. Whoever reaches it
    /// may ask, unless `admin.token` is set, so it defaults to loopback: `127.0.0.1:9901`.
    #[serde(default = "Listen::default_admin")]
    #[schemars(with = "String")]
    pub admin: ListenAddress,
    /// Says that an admin address beyond loopback is meant to answer without a token, as where a network policy
    /// guards it; left out, `gateway check` refuses such an address.
    #[serde(default)]
    pub expose_admin: bool,
    /// TLS on the public listener; left out, it takes plain HTTP.
    pub tls: Option<ListenTls>,
    /// Whether the public listener takes HTTP/2 without TLS, from clients that begin with it (RFC 9113 section 3.3).
    /// With TLS, HTTP/2 is agreed on in the handshake and this has no effect.
    #[serde(default)]
    pub h2c: bool,
    /// What one HTTP/2 connection may hold.
    #[serde(default)]
    pub http2: Http2,
}

impl Listen {
    fn default_admin() -> ListenAddress {
        ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 9901)))
    }
}

/// Paths on the public listener that the gateway answers itself. The contract must not own them.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublicReadiness {
    /// Answers like the admin listener's `/livez`.
    pub live: Option<String>,
    /// Answers like the admin listener's `/readyz`, and below it like `/readyz/{family}`.
    pub ready: Option<String>,
}

/// Trust in what a client says about itself.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forwarded {
    /// Networks of proxies in front of the gateway. From any other peer, `X-Forwarded-For`, `-Proto`,
    /// `-Host` and `X-Request-Id` are replaced.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub trusted: Vec<IpNet>,
}

/// What one client may send and hold.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Open connections on the public listener; more wait in the kernel's queue. 1 to 1,000,000.
    pub connections: usize,
    /// Open connections of one client network, an IPv4 address or an IPv6 network of 64 bits; more are closed at once.
    /// Left out, there is no limit, as behind a balancer all clients have one address. 1 to 1,000,000.
    pub connections_per_network: Option<usize>,
    /// Requests in flight over all families; more is 503 `overloaded`. 1 to 1,000,000.
    pub in_flight: usize,
    /// Bytes of a request target (path and query); more is 414. Up to 60 KiB.
    pub target: Size,
    /// Bytes of a request head; more is 431. Up to 1 MiB.
    pub head: Size,
    /// Header lines of a request; more is 431. 1 to 256.
    pub headers: usize,
    /// Bytes of a request body; more is 413. `0B` means that no body is allowed.
    pub body: Size,
    /// From the accepted connection, or the first byte of a later request, to the end of the head; then 408.
    pub head_timeout: Duration,
    /// Silence between requests on one connection; then it is closed.
    pub idle_timeout: Duration,
    /// Silence of a client while it sends a body or takes an answer; then 408, or the connection is closed.
    pub client_timeout: Duration,
    /// Bytes a second that a client sends or takes on average while the gateway waits for it; slower for as long as
    /// `client_timeout` is 408, or the connection is closed. `0B` means that any rate is allowed.
    pub min_rate: Size,
    /// Silence of either side of a WebSocket; then it is closed. Longer than the pings' interval.
    pub tunnel_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_network: None,
            in_flight: 20_000,
            target: Size::kibibytes(16),
            head: Size::kibibytes(64),
            headers: 100,
            body: Size::mebibytes(1024),
            head_timeout: Duration::seconds(10),
            idle_timeout: Duration::seconds(60),
            client_timeout: Duration::seconds(30),
            min_rate: Size::bytes_of(500),
            tunnel_timeout: Duration::seconds(600),
        }
    }
}
