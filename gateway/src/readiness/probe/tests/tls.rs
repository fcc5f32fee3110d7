//! Probes of upstreams that speak TLS.

use std::fs;

use pingora::connectors::ConnectorOptions;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::*;

/// An upstream with a certificate for `localhost`, and the authority that signed it.
async fn upstream() -> (SocketAddr, TempDir) {
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &authority)
        .unwrap();
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();

    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut connection) = acceptor.accept(connection).await else {
                    return;
                };
                let mut request = [0; 1024];
                let _ = connection.read(&mut request).await;
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                let _ = connection.write_all(answer).await;
                let _ = connection.shutdown().await;
            });
        }
    });
    (address, folder)
}

/// A connector that trusts this authority alone.
fn trusting(folder: &TempDir) -> Connector {
    let mut options = ConnectorOptions::new(1);
    options.ca_file = Some(folder.path().join("ca.pem").display().to_string());
    Connector::new(Some(options))
}

#[tokio::test]
async fn a_trusted_certificate_for_the_configured_name_is_a_success() {
    let (address, folder) = upstream().await;
    let url = format!("https://localhost:{}", address.port());
    assert_eq!(probe_with(trusting(&folder), &url, LONG).await, Ok(()));
}

#[tokio::test]
async fn an_unknown_authority_or_another_name_is_a_failure() {
    let (address, folder) = upstream().await;
    let by_name = format!("https://localhost:{}", address.port());
    assert_eq!(probe(&by_name, LONG).await, Err(Reason::Tls));
    let by_address = format!("https://{address}");
    assert_eq!(probe_with(trusting(&folder), &by_address, LONG).await, Err(Reason::Tls));
}
