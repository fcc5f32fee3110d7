//! The certificates of the authorities that this system trusts, by which upstreams with TLS are judged.

use pingora::tls::{RootCertStore, load_platform_certs_incl_env_into_store};
use route_contract::diagnostic::Diagnostic;

use super::{Config, UpstreamUrl, codes};

/// Finds whether the trusted certificates can be loaded, as the connections to upstreams need them. Pingora loads
/// them whether an upstream has TLS or not, and panics when it cannot.
///
/// The texts hold no path: it comes from the environment.
pub(super) fn check(config: &Config) -> Option<Diagnostic> {
    let mut store = RootCertStore::empty();
    let loaded = load_platform_certs_incl_env_into_store(&mut store);
    let has_tls = config
        .upstream
        .values()
        .any(|upstream| upstream.urls().any(UpstreamUrl::tls));
    let message = match loaded {
        Err(_) => "the certificates of the system's trusted authorities cannot be loaded",
        Ok(()) if has_tls && store.is_empty() => "an upstream has TLS, but the system trusts no authority",
        Ok(()) => return None,
    };
    Some(
        Diagnostic::error(codes::CERTIFICATES, message).with_help(
            "install the system's certificates (`ca-certificates`), or let `SSL_CERT_FILE` or `SSL_CERT_DIR` name PEM files",
        ),
    )
}
