//! TLS on a listener: which certificate a client is shown, what it is asked for, and how the files are followed.
//!
//! Everything hangs on one [`ServerConfig`] behind an atomic pointer: a handshake takes the one that is there, and a
//! connection keeps what it was made with. So new files take effect for the next connection and end none.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{Error, ProtocolVersion, ServerConfig, SupportedProtocolVersion};
use tokio_rustls::server::TlsStream;

use crate::certificate::{self, Identity, IdentityFiles, Part, Unusable};

/// The protocols that are offered (RFC 7301), the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
/// RFC 9113 section 3.2.
const HTTP2: &[u8] = b"h2";

/// What clients must show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Nothing.
    None,
    /// Nothing, or a certificate that an authority in this file has issued.
    Optional(PathBuf),
    /// A certificate that an authority in this file has issued.
    Required(PathBuf),
}

/// How a listener speaks TLS; paths are absolute or relative to the working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate for clients that name no host, or one that no certificate bears.
    pub default: IdentityFiles,
    /// Certificates for the hosts that they bear.
    pub more: Vec<IdentityFiles>,
    /// What clients must show.
    pub clients: ClientCertificates,
    /// Whether TLS 1.2 is refused.
    pub only_tls13: bool,
}

/// A file of the settings that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableFile {
    /// The certificate it belongs to: none for the default, or the place in [`TlsSettings::more`]. Meaningless for
    /// authorities.
    pub certificate: Option<usize>,
    /// Which file, and why.
    pub unusable: Unusable,
}

/// All files of the settings, loaded and judged.
#[derive(Debug)]
pub struct LoadedTls {
    config: Arc<ServerConfig>,
    /// The certificates: the default, then the others in their order.
    pub identities: Vec<Identity>,
}

impl LoadedTls {
    /// When the first of the certificates expires.
    pub fn expires(&self) -> Option<SystemTime> {
        self.identities.iter().map(|identity| identity.not_after).min()
    }
}

impl TlsSettings {
    /// Loads every file.
    ///
    /// # Errors
    /// All files that cannot be used.
    pub fn load(&self) -> Result<LoadedTls, Vec<UnusableFile>> {
        let mut identities = Vec::new();
        let mut faults = Vec::new();
        let files = std::iter::once((None, &self.default)).chain(self.more.iter().enumerate().map(numbered));
        for (certificate, files) in files {
            match Identity::load(files) {
                Ok(identity) => identities.push(identity),
                Err(unusable) => faults.push(UnusableFile { certificate, unusable }),
            }
        }
        let verifier = self.client_verifier().map_err(|unusable| {
            let certificate = None;
            faults.push(UnusableFile { certificate, unusable });
        });
        let (Ok(verifier), true, Some(names)) = (verifier, faults.is_empty(), Names::of(&identities)) else {
            return Err(faults);
        };
        let versions: &[&SupportedProtocolVersion] = if self.only_tls13 { &[&TLS13] } else { &[&TLS13, &TLS12] };
        let builder = ServerConfig::builder_with_provider(certificate::provider())
            .with_protocol_versions(versions)
            .map_err(|_| unusable_by_provider())?;
        let builder = match verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        let mut config = builder.with_cert_resolver(Arc::new(names));
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(LoadedTls {
            config: Arc::new(config),
            identities,
        })
    }

    fn client_verifier(
        &self,
    ) -> Result<Option<Arc<dyn tokio_rustls::rustls::server::danger::ClientCertVerifier>>, Unusable> {
        let (path, is_required) = match &self.clients {
            ClientCertificates::None => return Ok(None),
            ClientCertificates::Optional(path) => (path, false),
            ClientCertificates::Required(path) => (path, true),
        };
        let roots = Arc::new(certificate::authorities(path)?);
        let builder = WebPkiClientVerifier::builder_with_provider(roots, certificate::provider());
        let builder = if is_required {
            builder
        } else {
            builder.allow_unauthenticated()
        };
        builder.build().map(Some).map_err(|_| Unusable {
            part: Part::Authorities,
            fault: certificate::Fault::Malformed,
        })
    }

    /// A number that changes when a file's bytes do, or when one cannot be read any more.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let identities = std::iter::once(&self.default).chain(&self.more);
        let mut paths: Vec<&PathBuf> = identities.flat_map(|files| [&files.certificate, &files.key]).collect();
        match &self.clients {
            ClientCertificates::None => {}
            ClientCertificates::Optional(path) | ClientCertificates::Required(path) => paths.push(path),
        }
        for path in paths {
            certificate::read(path, Part::Certificate).ok().hash(&mut hasher);
        }
        hasher.finish()
    }
}

fn numbered((index, files): (usize, &IdentityFiles)) -> (Option<usize>, &IdentityFiles) {
    (Some(index), files)
}

/// Cannot happen: the provider has cipher suites of both versions.
fn unusable_by_provider() -> Vec<UnusableFile> {
    let unusable = Unusable {
        part: Part::Certificate,
        fault: certificate::Fault::Malformed,
    };
    vec![UnusableFile {
        certificate: None,
        unusable,
    }]
}

/// Which certificate a client is shown, by the host that it names (RFC 6066 section 3).
#[derive(Debug)]
struct Names {
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// By what follows `*.`.
    wildcard: HashMap<String, Arc<CertifiedKey>>,
    default: Arc<CertifiedKey>,
}

impl Names {
    fn of(identities: &[Identity]) -> Option<Self> {
        let default = identities.first()?.certified.clone();
        let (mut exact, mut wildcard) = (HashMap::new(), HashMap::new());
        for identity in identities {
            for name in &identity.names {
                // The first certificate that bears a name is shown for it.
                match name.strip_prefix("*.") {
                    Some(rest) => wildcard.entry(rest.to_owned()),
                    None => exact.entry(name.clone()),
                }
                .or_insert_with(|| identity.certified.clone());
            }
        }
        Some(Self {
            exact,
            wildcard,
            default,
        })
    }

    /// RFC 6125 section 6.4.3: an asterisk stands for exactly one label.
    fn find(&self, host: &str) -> &Arc<CertifiedKey> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.exact
            .get(&host)
            .or_else(|| self.wildcard.get(host.split_once('.')?.1))
            .unwrap_or(&self.default)
    }
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(
            hello
                .server_name()
                .map_or(&self.default, |host| self.find(host))
                .clone(),
        )
    }
}

/// What client and gateway have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// TLS 1.3; else 1.2.
    pub is_tls13: bool,
    /// HTTP/2; else HTTP/1.1.
    pub is_http2: bool,
}

impl Handshake {
    /// All that can be agreed on.
    pub const ALL: [Self; 4] = [
        Self::agreed(false, false),
        Self::agreed(false, true),
        Self::agreed(true, false),
        Self::agreed(true, true),
    ];

    const fn agreed(is_tls13: bool, is_http2: bool) -> Self {
        Self { is_tls13, is_http2 }
    }

    /// What was agreed on for this connection.
    pub(super) fn of(stream: &TlsStream<TcpStream>) -> Self {
        let connection = stream.get_ref().1;
        Self {
            is_tls13: connection.protocol_version() == Some(ProtocolVersion::TLSv1_3),
            is_http2: connection.alpn_protocol() == Some(HTTP2),
        }
    }

    /// The labels of the metric: version and protocol.
    pub fn labels(self) -> [&'static str; 2] {
        [
            if self.is_tls13 { "1.3" } else { "1.2" },
            if self.is_http2 { "h2" } else { "http/1.1" },
        ]
    }
}

/// Why a handshake has failed: a closed set, for a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFault {
    /// It took longer than a head may.
    Timeout,
    /// The client left.
    Closed,
    /// What came was not TLS.
    NotTls,
    /// No version, cipher suite or protocol in common.
    Incompatible,
    /// The client showed no certificate, or one that is not trusted.
    ClientCertificate,
    /// The client refused what it was shown.
    RefusedByClient,
    /// Anything else.
    Other,
}

impl HandshakeFault {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Timeout,
        Self::Closed,
        Self::NotTls,
        Self::Incompatible,
        Self::ClientCertificate,
        Self::RefusedByClient,
        Self::Other,
    ];

    /// The label of the metric.
    pub fn label(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::NotTls => "not_tls",
            Self::Incompatible => "incompatible",
            Self::ClientCertificate => "client_certificate",
            Self::RefusedByClient => "refused_by_client",
            Self::Other => "other",
        }
    }

    fn of(error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(Error::InvalidMessage(_)) => Self::NotTls,
            Some(Error::PeerIncompatible(_) | Error::NoApplicationProtocol) => Self::Incompatible,
            Some(Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => Self::ClientCertificate,
            Some(Error::AlertReceived(_)) => Self::RefusedByClient,
            Some(_) => Self::Other,
            None => match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                    Self::Closed
                }
                _ => Self::Other,
            },
        }
    }
}

/// What became of files that have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reload {
    /// They serve the next connection.
    Loaded,
    /// They cannot be used, so the ones before them stay.
    Refused(Vec<UnusableFile>),
}

/// TLS on one listener.
pub struct Tls {
    settings: TlsSettings,
    config: ArcSwap<ServerConfig>,
}

impl Tls {
    /// TLS with files that were loaded by these settings.
    pub fn new(settings: TlsSettings, loaded: &LoadedTls) -> Self {
        Self {
            settings,
            config: ArcSwap::new(loaded.config.clone()),
        }
    }

    /// The handshake with a client that has connected.
    ///
    /// # Errors
    /// Why it has failed; the client was sent the alert that RFC 8446 section 6 wants.
    pub async fn accept(&self, socket: TcpStream, limit: Duration) -> Result<TlsStream<TcpStream>, HandshakeFault> {
        let handshake = TlsAcceptor::from(self.config.load_full()).accept(socket);
        match tokio::time::timeout(limit, handshake).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(HandshakeFault::of(&error)),
            Err(_) => Err(HandshakeFault::Timeout),
        }
    }

    /// Looks at the files every `interval` and takes them over when their bytes have changed; `notice` hears of each
    /// change once. Ends never.
    ///
    /// Bytes are compared, not times: orchestrators replace links, copies keep their times, and the files are small.
    pub async fn follow(&self, interval: Duration, notice: impl Fn(Reload, Option<SystemTime>)) {
        let mut seen = self.fingerprint().await;
        loop {
            tokio::time::sleep(interval).await;
            let found = self.fingerprint().await;
            if found == seen {
                continue;
            }
            let settings = self.settings.clone();
            let loaded = tokio::task::spawn_blocking(move || settings.load()).await;
            match loaded {
                Ok(Ok(loaded)) => {
                    self.config.store(loaded.config.clone());
                    notice(Reload::Loaded, loaded.expires());
                }
                Ok(Err(faults)) => notice(Reload::Refused(faults), None),
                // The runtime stops.
                Err(_) => return,
            }
            seen = found;
        }
    }

    async fn fingerprint(&self) -> u64 {
        let settings = self.settings.clone();
        tokio::task::spawn_blocking(move || settings.fingerprint())
            .await
            .unwrap_or_default()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tls").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertifiedKey as Issued, generate_simple_self_signed};

    fn identity(names: &[&str]) -> Identity {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let Issued { cert, signing_key } = generate_simple_self_signed(names).unwrap();
        let files = IdentityFiles {
            certificate: folder.path().join("cert.pem"),
            key: folder.path().join("key.pem"),
        };
        std::fs::write(&files.certificate, cert.pem()).unwrap();
        std::fs::write(&files.key, signing_key.serialize_pem()).unwrap();
        Identity::load(&files).unwrap()
    }

    #[test]
    fn a_host_is_shown_the_certificate_that_bears_it() {
        let identities = [
            identity(&["default.test"]),
            identity(&["api.test", "*.api.test"]),
            identity(&["deep.api.test", "api.test"]),
        ];
        let names = Names::of(&identities).unwrap();
        for (host, expected) in [
            ("default.test", 0),
            ("unknown.test", 0),
            ("", 0),
            ("api.test", 1),
            ("API.test.", 1),
            ("x.api.test", 1),
            ("deep.api.test", 2),
            ("a.b.api.test", 0),
        ] {
            assert!(
                Arc::ptr_eq(names.find(host), &identities[expected].certified),
                "{host} is not shown certificate {expected}"
            );
        }
    }
}
