//! Probes against real sockets.

mod tls;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;
use crate::config::{Config, load_source};
use crate::readiness::{Board, Draining};
use crate::upstream::Upstreams;
use route_contract::contract::{Contract, FamilyId};
use route_contract::diagnostic::Source;
use std::net::SocketAddr;
use std::path::Path;

/// What an upstream does with each connection.
#[derive(Clone, Copy)]
enum Conduct {
    /// Reads a request and sends these bytes.
    Answer(&'static str),
    /// Reads for ever.
    Silence,
    /// Closes once it has read something.
    Close,
}

/// An upstream on a free port; each request it read, or what came of it, arrives on the channel.
async fn upstream(conduct: Conduct) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(attend(connection, conduct, requests.clone()));
        }
    });
    (address, received)
}

async fn attend(mut connection: TcpStream, conduct: Conduct, requests: mpsc::UnboundedSender<String>) {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        match connection.read(&mut buffer).await {
            Ok(read) if read > 0 => request.extend_from_slice(&buffer[..read]),
            _ => return,
        }
        if let Conduct::Close = conduct {
            return;
        }
    }
    let _ = requests.send(String::from_utf8_lossy(&request).into_owned());
    if let Conduct::Answer(answer) = conduct {
        let _ = connection.write_all(answer.as_bytes()).await;
        let _ = connection.shutdown().await;
    }
    while let Ok(1..) = connection.read(&mut buffer).await {}
}

fn config(url: &str, ready: &str) -> Config {
    let text = format!(
        "contract = \"c\"\n[listen]\npublic = \"127.0.0.1:0\"\n[upstream.a]\nurl = \"{url}\"\nready = {ready}\n"
    );
    load_source(&Source::new("g", text), Path::new(""), &|_| None)
        .unwrap()
        .config
}

fn contract() -> Contract {
    Contract::load_with(Path::new("c"), &|_| {
        Ok(Source::new(
            "c",
            "version = 1\n[[family]]\nname = \"a\"\nclaims = [\"/**\"]\n",
        ))
    })
    .unwrap()
}

/// The probes of all families, which end with what is returned.
fn started(upstreams: &Upstreams) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let connector = Arc::new(Connector::new(None));
    for upstream in upstreams.all() {
        start(upstream, &connector, &mut tasks, &Handle::current()).unwrap();
    }
    tasks
}

/// The result of one probe.
async fn probe(url: &str, timeout: Duration) -> Result<(), Reason> {
    probe_with(Connector::new(None), url, timeout).await
}

async fn probe_with(connector: Connector, url: &str, limit: Duration) -> Result<(), Reason> {
    let ready = format!("{{ path = \"/hz?x=%2F\", timeout = \"{}ms\" }}", limit.as_millis());
    let config = config(url, &ready);
    let upstreams = Upstreams::new(&contract(), &config).unwrap();
    let upstream = upstreams.of(FamilyId(0)).unwrap().clone();
    if upstream.endpoints().list().is_empty() {
        // Names are resolved elsewhere; that the address is the same one keeps the certificate's name in play.
        let port = upstream.urls()[0].port();
        upstream.set_addresses(0, &[SocketAddr::from(([127, 0, 0, 1], port))]);
    }
    let Ready::Probe(probe) = upstream.ready() else {
        panic!("the family is probed");
    };
    let prober = Prober {
        request: request(probe, &upstream.urls()[0].authority()).unwrap(),
        endpoint: upstream.endpoints().list()[0].clone(),
        probe: probe.clone(),
        connector: Arc::new(connector),
        upstream,
    };
    prober.probe().await
}

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn only_2xx_is_a_success() {
    for (answer, result) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", Ok(())),
        ("HTTP/1.1 204 No Content\r\n\r\n", Ok(())),
        ("HTTP/1.0 200 OK\r\n\r\nuntil the end", Ok(())),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            Ok(()),
        ),
        (
            "HTTP/1.1 300 Multiple Choices\r\nContent-Length: 0\r\n\r\n",
            Err(Reason::Status),
        ),
        (
            "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
            Err(Reason::Status),
        ),
        (
            "HTTP/1.1 500 Oops\r\nContent-Length: 11\r\n\r\ndb=10.1.2.3",
            Err(Reason::Status),
        ),
        ("SSH-2.0-OpenSSH_9.6\r\n\r\n", Err(Reason::Protocol)),
    ] {
        let (address, _received) = upstream(Conduct::Answer(answer)).await;
        assert_eq!(probe(&format!("http://{address}"), LONG).await, result, "{answer}");
    }
}

#[tokio::test]
async fn the_request_is_the_configured_path_with_the_upstream_as_host() {
    let (address, mut received) = upstream(Conduct::Answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")).await;
    assert_eq!(probe(&format!("http://{address}"), LONG).await, Ok(()));
    let request = received.recv().await.unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        request,
        format!(
            "GET /hz?x=%2F HTTP/1.1\r\nHost: {address}\r\nUser-Agent: gateway-probe/{version}\r\nAccept: \
             */*\r\nConnection: close\r\n\r\n"
        )
    );
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_is_not_followed() {
    let (target, mut followed) = upstream(Conduct::Answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")).await;
    let answer = format!("HTTP/1.1 302 Found\r\nLocation: http://{target}/\r\nContent-Length: 0\r\n\r\n");
    let (address, _received) = upstream(Conduct::Answer(answer.leak())).await;
    assert_eq!(probe(&format!("http://{address}"), LONG).await, Err(Reason::Status));
    assert!(followed.try_recv().is_err());
}

#[tokio::test]
async fn failures_of_the_connection_have_their_reasons() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    assert_eq!(probe(&format!("http://{closed}"), LONG).await, Err(Reason::Refused));
    assert_eq!(probe(&format!("https://{closed}"), LONG).await, Err(Reason::Refused));
    let (silent, _received) = upstream(Conduct::Silence).await;
    assert_eq!(probe(&format!("http://{silent}"), SHORT).await, Err(Reason::Timeout));
    assert_eq!(probe(&format!("https://{silent}"), SHORT).await, Err(Reason::Timeout));
    let (closing, _received) = upstream(Conduct::Close).await;
    assert_eq!(probe(&format!("http://{closing}"), LONG).await, Err(Reason::Protocol));
    assert_eq!(probe(&format!("https://{closing}"), LONG).await, Err(Reason::Tls));
}

#[tokio::test]
async fn another_status_may_be_the_expected_one() {
    let answer = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
    let (address, mut received) = upstream(Conduct::Answer(answer)).await;
    let config = config(&format!("http://{address}"), "{ path = \"/hz\", status = \"401\" }");
    let upstreams = Upstreams::new(&contract(), &config).unwrap();
    let _probes = started(&upstreams);
    received.recv().await.unwrap();
    let upstream = upstreams.of(FamilyId(0)).unwrap();
    while upstream.readiness() == Err(Reason::Starting) {
        tokio::task::yield_now().await;
    }
    assert_eq!(upstream.readiness(), Ok(()));
}

#[tokio::test]
async fn a_running_probe_makes_the_family_ready_and_asking_makes_no_probe() {
    let (address, mut received) = upstream(Conduct::Answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")).await;
    let config = config(&format!("http://{address}"), "{ path = \"/hz\", interval = \"100ms\" }");
    let upstreams = Upstreams::new(&contract(), &config).unwrap();
    let board = Board::new(&upstreams, &Draining::default());
    assert!(!board.is_ready());
    let probes = started(&upstreams);
    received.recv().await.unwrap();
    for _ in 0..1_000 {
        let _ = board.is_ready();
    }
    // The second probe starts when the first one is completed, and no sooner for all the asking.
    received.recv().await.unwrap();
    assert!(board.is_ready());
    let upstream = Arc::downgrade(upstreams.of(FamilyId(0)).unwrap());
    drop((probes, upstreams));
    // Nothing holds the upstream when the probes have ended.
    while upstream.upgrade().is_some() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn each_endpoint_is_probed_for_itself_as_it_comes_and_until_it_leaves() {
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let (one, mut first) = upstream(Conduct::Answer(OK)).await;
    let (two, mut second) = upstream(Conduct::Answer("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")).await;
    let config = config(
        "http://name.invalid",
        "{ path = \"/hz\", interval = \"20ms\", fall = 1 }",
    );
    let upstreams = Upstreams::new(&contract(), &config).unwrap();
    let _probes = started(&upstreams);
    let upstream = upstreams.of(FamilyId(0)).unwrap();
    upstream.set_addresses(0, &[one]);
    assert!(first.recv().await.unwrap().contains("\r\nHost: name.invalid\r\n"));
    upstream.set_addresses(0, &[one, two]);
    second.recv().await.unwrap();
    second.recv().await.unwrap();
    assert_eq!(upstream.readiness(), Ok(()), "one endpoint is enough");
    upstream.set_addresses(0, &[two]);
    second.recv().await.unwrap();
    while upstream.readiness().is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(upstream.readiness(), Err(Reason::Status));
    while first.try_recv().is_ok() {}
    for _ in 0..3 {
        second.recv().await.unwrap();
    }
    // At most the probe that was under way when its endpoint left.
    assert!(first.try_recv().is_err() || first.try_recv().is_err());
}
