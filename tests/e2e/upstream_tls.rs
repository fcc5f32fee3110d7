//! TLS to upstreams: whom the gateway trusts, what it shows, and what is spoken inside.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::server::TlsStream;

use crate::harness::WORKSPACE;
use crate::harness::client::request_bytes;
use crate::harness::deployment::Deployment;
use crate::harness::process::run_to_end;
use crate::harness::tls::Authority;

/// The protocol and the server name of a connection.
type Agreed = (String, Option<String>);

/// An upstream that speaks TLS, and HTTP/2 or HTTP/1.1 inside; it answers with which of them.
struct SecureUpstream {
    address: SocketAddr,
    /// Of each connection.
    seen: Arc<Mutex<Vec<Agreed>>>,
    _runtime: Runtime,
}

impl SecureUpstream {
    /// Shows the certificate `name`; with `clients` it wants one that they have issued.
    fn start(authority: &Authority, name: &str, clients: Option<&Authority>) -> Self {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(clients.certificate()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivateKeyDer::from_pem_file(authority.files(name).1).unwrap();
        let mut config = builder.with_single_cert(vec![authority.issued(name)], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = seen.clone();
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, noted) = (acceptor.clone(), noted.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else {
                        return;
                    };
                    let session = stream.get_ref().1;
                    let protocol = session.alpn_protocol().unwrap_or(b"none");
                    let protocol = String::from_utf8_lossy(protocol).into_owned();
                    let name = session.server_name().map(ToOwned::to_owned);
                    noted.lock().unwrap().push((protocol.clone(), name));
                    if protocol == "h2" {
                        serve_http2(stream).await;
                    } else {
                        serve_http1(stream).await;
                    }
                });
            }
        });
        Self {
            address,
            seen,
            _runtime: runtime,
        }
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}", self.address.port())
    }

    fn seen(&self) -> Vec<Agreed> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve_http1(mut stream: TlsStream<TcpStream>) {
    let mut input = Vec::new();
    while let Ok(read) = stream.read_buf(&mut input).await {
        if read == 0 {
            return;
        }
        if input.ends_with(b"\r\n\r\n") {
            let answer: &[u8] = if input.windows(9).any(|part| part == b"websocket") {
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst"
            } else {
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh1"
            };
            input.clear();
            if stream.write_all(answer).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
    }
}

async fn serve_http2(stream: TlsStream<TcpStream>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let mut sender = respond.send_response(http::Response::new(()), false).unwrap();
        sender.send_data(Bytes::from_static(b"h2"), true).unwrap();
    }
}

/// The workspace family at `url`, with these lines in its table.
fn at(url: &str, lines: &str) -> Deployment {
    Deployment::new()
        .with_url("workspace", url)
        .with_upstream_keys("workspace", lines)
}

#[test]
fn an_upstream_is_trusted_by_its_authority_and_its_name() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    authority.issue("up", &["localhost", "other.test"]);
    let upstream = SecureUpstream::start(&authority, "up", None);
    let tls = |lines: &str| format!("[upstream.workspace.tls]\n{lines}");
    let ca = format!("ca = '{}'\n", authority.file().display());
    for (host, lines, expected) in [
        ("localhost", tls(&ca), 200),
        ("127.0.0.1", tls(&ca), 502),
        ("127.0.0.1", tls(&format!("{ca}server_name = \"other.test\"\n")), 200),
        ("127.0.0.1", tls(&format!("{ca}server_name = \"wrong.test\"\n")), 502),
        ("localhost", String::new(), 502),
        (
            "localhost",
            tls(&format!("ca = '{}'\n", stranger.file().display())),
            502,
        ),
        ("127.0.0.1", tls("insecure_skip_verify = true\n"), 200),
    ] {
        let deployment = at(&upstream.url(host), &lines);
        let gateway = deployment.start();
        // A name is resolved in the background.
        let answer = loop {
            let answer = gateway.get(WORKSPACE);
            if answer.status != 503 {
                break answer;
            }
        };
        assert_eq!(answer.status, expected, "{host} {lines}");
        if expected == 200 {
            assert_eq!(answer.text(), "h1");
        } else {
            answer.assert_refusal(502, "upstream_failure");
            deployment.assert_names_no_upstream(&answer.raw);
        }
    }
    let names: Vec<_> = upstream.seen().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names[0].as_deref(), Some("localhost"));
    assert!(names.contains(&Some("other.test".to_owned())));
}

#[test]
fn the_gateway_shows_its_certificate() {
    let (authority, clients) = (Authority::new(), Authority::new());
    authority.issue("up", &["up.test"]);
    let identity = clients.issue("gateway", &["gateway.test"]);
    let upstream = SecureUpstream::start(&authority, "up", Some(&clients));
    let table = format!(
        "[upstream.workspace.tls]\nca = '{}'\nserver_name = \"up.test\"\n",
        authority.file().display()
    );
    for (lines, expected) in [(format!("{table}{identity}"), 200), (table, 502)] {
        let gateway = at(&upstream.url("127.0.0.1"), &lines).start();
        assert_eq!(gateway.get(WORKSPACE).status, expected);
    }
}

#[test]
fn what_is_spoken_is_agreed_on_and_websockets_stay_with_http1() {
    let authority = Authority::new();
    authority.issue("up", &["up.test"]);
    let upstream = SecureUpstream::start(&authority, "up", None);
    let tls = format!(
        "[upstream.workspace.tls]\nca = '{}'\nserver_name = \"up.test\"\n",
        authority.file().display()
    );
    for (protocol, body) in [("http/1.1", "h1"), ("h2", "h2"), ("auto", "h2")] {
        let lines = format!("protocol = \"{protocol}\"\n{tls}");
        let gateway = at(&upstream.url("127.0.0.1"), &lines).start();
        for _ in 0..3 {
            assert_eq!(gateway.get(WORKSPACE).text(), body, "{protocol}");
        }
        let mut client = gateway.client();
        let upgrade = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Key", "k"),
        ];
        client.send(request_bytes("GET", WORKSPACE, &upgrade, b""));
        let response = client.response();
        if protocol == "h2" {
            // Asked without its upgrade, as there is none in HTTP/2.
            assert_eq!((response.status, response.text().as_str()), (200, "h2"));
        } else {
            assert_eq!(response.status, 101, "{protocol}");
            assert_eq!(client.exactly(5), b"first");
        }
    }
    let mut protocols: Vec<String> = upstream.seen().into_iter().map(|(protocol, _)| protocol).collect();
    // The requests of the three parts and the WebSockets of the first and the last. How many connections carry
    // them is left open: one that is not back in the pool yet is not waited for.
    protocols.dedup();
    assert_eq!(protocols, ["http/1.1", "h2", "http/1.1"]);
}

#[test]
fn keys_that_do_not_fit_are_found_before_anything_listens() {
    let authority = Authority::new();
    authority.issue("up", &["up.test"]);
    let (cert, _) = authority.files("up");
    let missing = authority.file().with_file_name("none.pem");
    for (url, lines, code) in [
        ("http://127.0.0.1:1", "protocol = \"h2\"\n".to_owned(), "GW0217"),
        (
            "http://127.0.0.1:1",
            "[upstream.workspace.tls]\nserver_name = \"x\"\n".to_owned(),
            "GW0217",
        ),
        (
            "https://127.0.0.1:1",
            format!("[upstream.workspace.tls]\ncert = '{}'\n", cert.display()),
            "GW0217",
        ),
        (
            "https://127.0.0.1:1",
            format!("[upstream.workspace.tls]\nca = '{}'\n", missing.display()),
            "GW0213",
        ),
        (
            "https://127.0.0.1:1",
            "[upstream.workspace.tls]\ninsecure_skip_verify = true\n".to_owned(),
            "GW0218",
        ),
    ] {
        let ended = run_to_end(&mut at(url, &lines).command("check"));
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(said.contains(code), "no {code} in\n{said}");
        assert_eq!(ended.status.code(), Some(i32::from(code != "GW0218")), "{said}");
    }
}
