//! What a family's endpoints are spoken to with: the protocol, and whom TLS trusts and shows.

use std::sync::Arc;
use std::time::Duration;

use pingora::protocols::tls::CaType;
use pingora::upstreams::peer::HttpPeer;
use pingora::utils::tls::{CertKey, WrappedX509, parse_x509};
use sha2::{Digest as _, Sha256};

use crate::certificate::{Identity, Part, Unusable, certificates};
use crate::config::{Config, Protocol, Upstream, UpstreamUrl};

/// Requests at once on one HTTP/2 connection to an endpoint; more open another connection.
const STREAMS: usize = 100;
/// Bytes of one answer that may come before the client takes them, and of all answers of a connection.
const STREAM_WINDOW: u32 = 512 * 1024;
const CONNECTION_WINDOW: u32 = 2 * 1024 * 1024;
/// A connection whose other end is gone shows it within so long, and not with the next request.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// How a family's endpoints are spoken to.
#[derive(Clone, Debug, Default)]
pub(super) struct Wire {
    protocol: Protocol,
    server_name: Option<String>,
    authorities: Option<Arc<CaType>>,
    identity: Option<Arc<CertKey>>,
    is_unverified: bool,
    /// Of the bytes of all files.
    fingerprint: [u8; 32],
}

/// Two are equal where every connection that one makes could be the other's.
impl PartialEq for Wire {
    fn eq(&self, other: &Self) -> bool {
        self.protocol == other.protocol
            && self.server_name == other.server_name
            && self.is_unverified == other.is_unverified
            && self.fingerprint == other.fingerprint
    }
}

impl Wire {
    /// Loads the files that the family's table names.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn load(table: &Upstream, config: &Config) -> Result<Self, Unusable> {
        let tls = table.tls.clone().unwrap_or_default();
        let mut files = Sha256::new();
        let authorities = match &tls.ca {
            Some(path) => Some(wrapped(&config.resolve(path), Part::Authorities, &mut files)?),
            None => None,
        };
        let identity = match tls.identity(config) {
            Some(identity) => {
                // Pingora takes a key for good as it is, and panics on one that is not.
                Identity::load(&identity)?;
                let chain = certificates(&identity.certificate, Part::Certificate)?;
                let chain: Vec<Vec<u8>> = chain.iter().map(|certificate| certificate.to_vec()).collect();
                let key = crate::certificate::key(&identity.key)?;
                files.update(b"identity");
                chain.iter().chain([&key]).for_each(|bytes| add(&mut files, bytes));
                Some(Arc::new(CertKey::new(chain, key)))
            }
            None => None,
        };
        Ok(Self {
            protocol: table.protocol,
            server_name: tls.server_name,
            authorities,
            identity,
            is_unverified: tls.insecure_skip_verify,
            fingerprint: files.finalize().into(),
        })
    }

    /// Whether HTTP/1.1 can be spoken to an endpoint at `url`, and so WebSockets forwarded.
    pub fn carries_websockets(&self, url: &UpstreamUrl) -> bool {
        !url.h2c() && (!url.tls() || self.protocol != Protocol::Http2)
    }

    /// Sets up connections to an endpoint at `url`.
    pub fn apply(&self, url: &UpstreamUrl, peer: &mut HttpPeer) {
        let (most, least) = match (url.h2c(), url.tls(), self.protocol) {
            (true, _, _) | (false, true, Protocol::Http2) => (2, 2),
            (false, true, Protocol::Auto) => (2, 1),
            _ => (1, 1),
        };
        peer.options.set_http_version(most, least);
        peer.options.max_h2_streams = STREAMS;
        peer.options.h2_stream_window_size = Some(STREAM_WINDOW);
        peer.options.h2_connection_window_size = Some(CONNECTION_WINDOW);
        if most == 2 {
            peer.options.h2_ping_interval = Some(PING_INTERVAL);
        }
        if !url.tls() {
            return;
        }
        if let Some(name) = &self.server_name {
            peer.sni.clone_from(name);
        }
        peer.options.ca.clone_from(&self.authorities);
        peer.client_cert_key.clone_from(&self.identity);
        peer.options.verify_cert = !self.is_unverified;
        peer.options.verify_hostname = !self.is_unverified;
    }
}

/// With the length in front, so that bytes cannot move from one part to the next.
fn add(files: &mut Sha256, bytes: &[u8]) {
    files.update(bytes.len().to_le_bytes());
    files.update(bytes);
}

fn wrapped(path: &std::path::Path, part: Part, files: &mut Sha256) -> Result<Arc<CaType>, Unusable> {
    // Judged as authorities first: the library below takes what it is given.
    crate::certificate::authorities(path)?;
    let found = certificates(path, part)?;
    found.iter().for_each(|certificate| add(files, certificate));
    let found: Vec<WrappedX509> = found
        .iter()
        .map(|certificate| WrappedX509::new(certificate.to_vec(), parse_x509))
        .collect();
    Ok(found.into())
}
