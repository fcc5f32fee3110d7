//! Certificates for tests, and clients that speak TLS.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};

use super::PATIENCE;

type Versions = &'static [&'static SupportedProtocolVersion];
static ALL_VERSIONS: Versions = &[&TLS13, &TLS12];
static ONLY_TLS12: Versions = &[&TLS12];

/// An authority, and a folder with what it has issued.
pub struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).expect("a certificate");
        fs::write(folder.path().join("ca.pem"), certificate.pem()).expect("ca.pem");
        Self {
            folder,
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// The file of the authority's own certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// Writes `NAME.pem` and `NAME-key.pem`, a certificate for these hosts, and returns the lines that name them.
    pub fn issue(&self, name: &str, hosts: &[&str]) -> String {
        let key = KeyPair::generate().expect("a key");
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let params = CertificateParams::new(hosts).expect("parameters");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let (cert, key_file) = self.files(name);
        // Replaced as a whole, as an orchestrator does it: nobody sees half a file.
        replace(&key_file, &key.serialize_pem());
        replace(&cert, &certificate.pem());
        format!("cert = '{}'\nkey = '{}'\n", cert.display(), key_file.display())
    }

    /// Where [`Self::issue`] writes.
    pub fn files(&self, name: &str) -> (PathBuf, PathBuf) {
        let file = |suffix: &str| self.folder.path().join(format!("{name}{suffix}.pem"));
        (file(""), file("-key"))
    }

    /// The first certificate in a file that was issued.
    pub fn issued(&self, name: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.files(name).0).expect("a certificate")
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("an authority");
        Arc::new(roots)
    }

    /// A client's settings that trust this authority.
    pub fn client(&self) -> TlsClient<'_> {
        TlsClient {
            authority: self,
            protocols: &[],
            certificate: None,
            versions: ALL_VERSIONS,
        }
    }
}

fn replace(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).expect("a file");
    fs::rename(&fresh, path).expect("a file in place");
}

/// How a client speaks TLS.
#[derive(Clone)]
pub struct TlsClient<'a> {
    authority: &'a Authority,
    protocols: &'a [&'a [u8]],
    certificate: Option<&'a str>,
    versions: Versions,
}

/// A TLS connection.
pub type TlsConnection = StreamOwned<ClientConnection, TcpStream>;

impl<'a> TlsClient<'a> {
    /// Offers these protocols.
    pub fn offering(mut self, protocols: &'a [&'a [u8]]) -> Self {
        self.protocols = protocols;
        self
    }

    /// Shows a certificate that the authority has issued.
    pub fn showing(mut self, name: &'a str) -> Self {
        self.certificate = Some(name);
        self
    }

    pub fn only_tls12(mut self) -> Self {
        self.versions = ONLY_TLS12;
        self
    }

    pub fn config(&self) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(self.versions)
            .expect("versions")
            .with_root_certificates(self.authority.roots());
        let mut config = match self.certificate {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let key = PrivateKeyDer::from_pem_file(self.authority.files(name).1).expect("a key");
                builder
                    .with_client_auth_cert(vec![self.authority.issued(name)], key)
                    .expect("a certificate with its key")
            }
        };
        config.alpn_protocols = self.protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }

    /// Connects, and finishes the handshake.
    pub fn connect(&self, address: SocketAddr, host: &str) -> io::Result<TlsConnection> {
        let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from(host.to_owned()).expect("a host name");
        let connection = ClientConnection::new(self.config(), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }
}

/// One HTTP/1.1 request without a body, and the bytes of its answer up to the end of a body with a length.
pub fn get(stream: &mut TlsConnection, target: &str) -> io::Result<String> {
    write!(stream, "GET {target} HTTP/1.1\r\nHost: gateway.test\r\n\r\n")?;
    stream.flush()?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .filter_map(|line| line.split_once(": "))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .and_then(|(_, value)| value.parse().ok())
                .unwrap_or(0);
            if body.len() >= length {
                return Ok(text);
            }
        }
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => answer.extend_from_slice(&part[..read]),
        }
    }
}
