//! Certificates, private keys and authorities in PEM files: loaded and judged before anything relies on them.
//!
//! Pingora panics on a bad file, and only once it is about to listen; here each fault is a value that names the file's
//! part, so that `gateway check` and a reload can say what is wrong and change nothing.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, InconsistentKeys, RootCertStore};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

/// A file larger than that holds no certificate of a server; bytes.
const LARGEST_FILE: u64 = 1024 * 1024;

/// The cryptography of every connection that the gateway accepts.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

/// What a file was to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A certificate and its chain.
    Certificate,
    /// The certificate's private key.
    Key,
    /// Certificates of authorities.
    Authorities,
}

impl Part {
    /// What it is called in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Key => "key",
            Self::Authorities => "authorities",
        }
    }
}

/// Why a file cannot be used. The texts hold no path and nothing of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The operating system's word.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// Over 1 MiB.
    #[error("is larger than 1 MiB, so it holds something else")]
    TooLarge,
    /// Not PEM, or PEM that is broken.
    #[error("is not PEM: {0}")]
    NotPem(String),
    /// PEM without a section of the wanted kind.
    #[error("holds no PEM section of the kind that is wanted here")]
    Empty,
    /// A section that is no X.509 certificate, or one that cannot be an authority.
    #[error("holds a certificate that cannot be read")]
    Malformed,
    /// A key of a kind that cannot sign here.
    #[error("holds a private key of a kind that is not supported")]
    UnusableKey,
    /// The key signs for another certificate.
    #[error("holds a private key that does not belong to the certificate")]
    Mismatch,
}

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Which of the files.
    pub part: Part,
    /// Why.
    pub fault: Fault,
}

/// The files of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFiles {
    /// The certificate, then its chain, in PEM form.
    pub certificate: PathBuf,
    /// The private key, in PEM form.
    pub key: PathBuf,
}

/// A certificate with its key, ready to be shown to a peer.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The chain and the signing key.
    pub certified: Arc<CertifiedKey>,
    /// The DNS names in the certificate, in lower case; some start with `*.`.
    pub names: Vec<String>,
    /// The certificate is valid from then on.
    pub not_before: SystemTime,
    /// And until then.
    pub not_after: SystemTime,
}

impl Identity {
    /// Loads a certificate, its chain and its key, and checks that they belong together.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn load(files: &IdentityFiles) -> Result<Self, Unusable> {
        let chain = certificates(&files.certificate, Part::Certificate)?;
        let unusable_key = |fault| Unusable { part: Part::Key, fault };
        let key = PrivateKeyDer::from_pem_slice(&read(&files.key, Part::Key)?)
            .map_err(|error| unusable_key(pem_fault(&error)))?;
        let leaf = chain.first().ok_or(Unusable {
            part: Part::Certificate,
            fault: Fault::Empty,
        })?;
        let Validity {
            names,
            not_before,
            not_after,
        } = Validity::of(leaf)?;
        let certified = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => unusable_key(Fault::Mismatch),
            Error::InvalidCertificate(_) => Unusable {
                part: Part::Certificate,
                fault: Fault::Malformed,
            },
            _ => unusable_key(Fault::UnusableKey),
        })?;
        Ok(Self {
            certified: Arc::new(certified),
            names,
            not_before,
            not_after,
        })
    }
}

/// What is read out of a certificate beside its key.
struct Validity {
    names: Vec<String>,
    not_before: SystemTime,
    not_after: SystemTime,
}

impl Validity {
    fn of(certificate: &CertificateDer<'_>) -> Result<Self, Unusable> {
        let malformed = || Unusable {
            part: Part::Certificate,
            fault: Fault::Malformed,
        };
        let (_, parsed) = parse_x509_certificate(certificate).map_err(|_| malformed())?;
        let names = parsed
            .subject_alternative_name()
            .map_err(|_| malformed())?
            .map(|extension| {
                let names = extension.value.general_names.iter();
                names
                    .filter_map(|name| match name {
                        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
                        _ => None,
                    })
                    .collect()
            })
            .unwrap_or_default();
        Ok(Self {
            names,
            not_before: at(parsed.validity().not_before.timestamp()),
            not_after: at(parsed.validity().not_after.timestamp()),
        })
    }
}

/// Loads the certificates of authorities from a PEM file.
///
/// # Errors
/// The file cannot be read, holds none, or one that cannot be an authority.
pub fn authorities(path: &Path) -> Result<RootCertStore, Unusable> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path, Part::Authorities)? {
        store.add(certificate).map_err(|_| Unusable {
            part: Part::Authorities,
            fault: Fault::Malformed,
        })?;
    }
    Ok(store)
}

/// The bytes of the first private key in a PEM file, in DER form.
///
/// # Errors
/// The file cannot be read, is not PEM, or holds no key.
pub fn key(path: &Path) -> Result<Vec<u8>, Unusable> {
    let part = Part::Key;
    let key = PrivateKeyDer::from_pem_slice(&read(path, part)?).map_err(|error| Unusable {
        part,
        fault: pem_fault(&error),
    })?;
    Ok(key.secret_der().to_vec())
}

/// All certificates in a PEM file, in its order; at least one.
///
/// # Errors
/// The file cannot be read, is not PEM, or holds no certificate or one that cannot be read.
pub fn certificates(path: &Path, part: Part) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let text = read(path, part)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| Unusable {
        part,
        fault: pem_fault(&error),
    })?;
    if found.is_empty() {
        let fault = Fault::Empty;
        return Err(Unusable { part, fault });
    }
    if found
        .iter()
        .any(|certificate| parse_x509_certificate(certificate).is_err())
    {
        let fault = Fault::Malformed;
        return Err(Unusable { part, fault });
    }
    Ok(found)
}

/// The bytes of a file of certificates or keys.
///
/// # Errors
/// The file cannot be read or is too large.
pub fn read(path: &Path, part: Part) -> Result<Vec<u8>, Unusable> {
    let unreadable = |error: io::Error| Unusable {
        part,
        fault: Fault::Unreadable(error.kind().to_string()),
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(LARGEST_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST_FILE {
        let fault = Fault::TooLarge;
        return Err(Unusable { part, fault });
    }
    Ok(bytes)
}

fn pem_fault(error: &tokio_rustls::rustls::pki_types::pem::Error) -> Fault {
    use tokio_rustls::rustls::pki_types::pem::Error;
    match error {
        Error::NoItemsFound => Fault::Empty,
        Error::MissingSectionEnd { .. } => Fault::NotPem("a section has no end".to_owned()),
        Error::IllegalSectionStart { .. } => Fault::NotPem("a section's first line is malformed".to_owned()),
        Error::Base64Decode(_) => Fault::NotPem("a section is not Base64".to_owned()),
        _ => Fault::NotPem("a section cannot be read".to_owned()),
    }
}

/// Seconds since 1970 as a time; a time before that is 1970, which is as past as any other.
fn at(seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use std::fs;

    fn files(folder: &Path) -> IdentityFiles {
        IdentityFiles {
            certificate: folder.join("cert.pem"),
            key: folder.join("key.pem"),
        }
    }

    fn write(folder: &Path, certificate: &str, key: &str) -> IdentityFiles {
        let files = files(folder);
        fs::write(&files.certificate, certificate).unwrap();
        fs::write(&files.key, key).unwrap();
        files
    }

    fn issue(names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2040, 1, 1);
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn a_certificate_tells_its_names_and_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = issue(&["Gateway.Test", "*.gateway.test"]);
        let identity = Identity::load(&write(folder.path(), &certificate, &key)).unwrap();
        assert_eq!(identity.names, ["gateway.test", "*.gateway.test"]);
        assert_eq!(identity.not_before, at(1_577_836_800));
        assert_eq!(identity.not_after, at(2_208_988_800));
    }

    #[test]
    fn each_fault_names_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = issue(&["a.test"]);
        let (_, other_key) = issue(&["a.test"]);
        let broken = certificate.replace("MII", "!!!");
        for (certificate, key, part, fault) in [
            ("", key.as_str(), Part::Certificate, Fault::Empty),
            (key.as_str(), key.as_str(), Part::Certificate, Fault::Empty),
            (&certificate, "", Part::Key, Fault::Empty),
            (&certificate, certificate.as_str(), Part::Key, Fault::Empty),
            (&certificate, other_key.as_str(), Part::Key, Fault::Mismatch),
        ] {
            let unusable = Identity::load(&write(folder.path(), certificate, key)).unwrap_err();
            assert_eq!(unusable, Unusable { part, fault });
        }
        let unusable = Identity::load(&write(folder.path(), &broken, &key)).unwrap_err();
        assert!(matches!(unusable.fault, Fault::NotPem(_)), "{unusable:?}");
        let missing = Identity::load(&files(Path::new("/nowhere"))).unwrap_err();
        assert_eq!(missing.part, Part::Certificate);
        assert!(matches!(missing.fault, Fault::Unreadable(_)));
        fs::write(folder.path().join("big.pem"), vec![b'-'; 1024 * 1024 + 1]).unwrap();
        assert_eq!(
            authorities(&folder.path().join("big.pem")).unwrap_err().fault,
            Fault::TooLarge
        );
    }
}
