//! `[listen.tls]` and `[listen.http2]`: how the public listener speaks.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Duration, Loaded, Size};
use crate::certificate::IdentityFiles;
use crate::listen::tls::{ClientCertificates, TlsSettings};

/// TLS on the public listener. All files are PEM; a relative path is taken from the folder of this file.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListenTls {
    /// The certificate, followed by its chain, for clients that name no host or one that no other certificate bears.
    pub cert: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// Further certificates, by any name; each is shown to clients that name a host in it. `*.` stands for one label.
    #[serde(default)]
    pub certificate: BTreeMap<String, CertificateFiles>,
    /// The least version of TLS.
    #[serde(default)]
    pub min_version: TlsVersion,
    /// Certificates of the authorities that issue clients' certificates.
    pub client_ca: Option<PathBuf>,
    /// Whether clients must show a certificate; left out, they must where there is `client_ca`.
    pub client_auth: Option<ClientAuth>,
    /// How often the files are looked at for changes; new ones serve the next connection and end none.
    #[serde(default = "ListenTls::default_reload_interval")]
    pub reload_interval: Duration,
}

impl ListenTls {
    fn default_reload_interval() -> Duration {
        Duration::seconds(10)
    }
}

/// One certificate and its key.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    /// The certificate, followed by its chain.
    pub cert: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    #[default]
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3 (RFC 8446).
    #[serde(rename = "1.3")]
    Tls13,
}

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// They are not asked.
    None,
    /// They are asked; who shows none is served.
    Optional,
    /// Who shows none is refused in the handshake.
    Required,
}

/// What one HTTP/2 connection of a client may hold.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Http2 {
    /// Requests at once on one connection. 1 to 10,000.
    pub streams: u32,
    /// Bytes of one request's body that may come before the upstream takes them. 64 KiB to 64 MiB.
    pub stream_window: Size,
    /// The same for all requests of a connection together. 64 KiB to 64 MiB.
    pub connection_window: Size,
}

impl Default for Http2 {
    fn default() -> Self {
        Self {
            streams: 100,
            stream_window: Size::kibibytes(256),
            connection_window: Size::mebibytes(1),
        }
    }
}

impl Loaded {
    /// How the public listener speaks TLS; none when it does not. Client certificates that are asked for without an
    /// authority, which the check refuses, are not asked for.
    pub fn tls_settings(&self) -> Option<TlsSettings> {
        let table = self.config.listen.tls.as_ref()?;
        let files = |cert, key| IdentityFiles {
            certificate: self.resolve(cert),
            key: self.resolve(key),
        };
        let authorities = table.client_ca.as_ref().map(|path| self.resolve(path));
        let clients = match (authorities, table.client_auth.unwrap_or(ClientAuth::Required)) {
            (None, _) | (Some(_), ClientAuth::None) => ClientCertificates::None,
            (Some(path), ClientAuth::Optional) => ClientCertificates::Optional(path),
            (Some(path), ClientAuth::Required) => ClientCertificates::Required(path),
        };
        Some(TlsSettings {
            default: files(&table.cert, &table.key),
            more: table
                .certificate
                .values()
                .map(|more| files(&more.cert, &more.key))
                .collect(),
            clients,
            only_tls13: table.min_version == TlsVersion::Tls13,
        })
    }
}
