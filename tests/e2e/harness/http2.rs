//! A client that speaks HTTP/2, over TLS or from the first byte.

use std::future::Future;
use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::PATIENCE;
use super::tls::TlsClient;

/// One answer.
#[derive(Debug)]
pub struct Http2Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Http2Response {
    /// The value of a field that must be there exactly once.
    #[track_caller]
    pub fn value(&self, name: &str) -> &str {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next().unwrap_or_else(|| panic!("no {name} in {self:?}"));
        assert!(values.next().is_none(), "{name} is there twice in {self:?}");
        value.to_str().expect("text")
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("the body is not JSON ({error}): {self:?}"))
    }

    /// Asserts that this is the gateway's own error envelope.
    #[track_caller]
    pub fn assert_refusal(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "expected {status} {code}, got {self:?}");
        let envelope = self.json();
        assert_eq!(envelope["error"]["code"], code);
        assert_eq!(envelope["requestId"], self.value("x-request-id"));
    }
}

/// One connection.
pub struct Http2Client {
    runtime: Runtime,
    sender: SendRequest<Bytes>,
    driver: JoinHandle<Result<(), h2::Error>>,
}

impl Http2Client {
    /// Without TLS, with prior knowledge.
    #[track_caller]
    pub fn cleartext(address: SocketAddr) -> Self {
        let runtime = runtime();
        let (sender, driver) = runtime.block_on(async {
            let socket = TcpStream::connect(address).await.expect("a connection");
            handshake(socket).await
        });
        Self {
            runtime,
            sender,
            driver,
        }
    }

    /// Over TLS.
    #[track_caller]
    pub fn over_tls(tls: &TlsClient<'_>, address: SocketAddr, host: &str) -> Self {
        let runtime = runtime();
        let connector = TlsConnector::from(tls.clone().offering(&[b"h2"]).config());
        let name = ServerName::try_from(host.to_owned()).expect("a host name");
        let (sender, driver) = runtime.block_on(async {
            let socket = TcpStream::connect(address).await.expect("a connection");
            let stream = connector.connect(name, socket).await.expect("a handshake");
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            handshake(stream).await
        });
        Self {
            runtime,
            sender,
            driver,
        }
    }

    /// Runs something on the client's runtime, within the patience of a test.
    #[track_caller]
    pub fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime
            .block_on(async { timeout(PATIENCE, work).await })
            .expect("the gateway does something in time")
    }

    /// Sends a head; the body follows on the stream unless `ends`.
    #[track_caller]
    pub fn send(&mut self, head: Request<()>, ends: bool) -> (ResponseFuture, SendStream<Bytes>) {
        let sender = self.sender.clone();
        let mut ready = self.run(sender.ready()).expect("a free stream");
        ready.send_request(head, ends).expect("a request that can be sent")
    }

    /// One request with a whole body, and its answer.
    #[track_caller]
    pub fn request(&mut self, head: Request<()>, body: &[u8]) -> Result<Http2Response, h2::Error> {
        let (response, mut stream) = self.send(head, body.is_empty());
        let body = Bytes::copy_from_slice(body);
        self.run(async {
            if !body.is_empty() {
                send_all(&mut stream, body).await?;
            }
            collect(response).await
        })
    }

    /// GET of a target with `gateway.test` as the authority.
    #[track_caller]
    pub fn get(&mut self, target: &str) -> Http2Response {
        let answer = self.request(get(target), b"");
        answer.unwrap_or_else(|error| panic!("GET {target}: {error}"))
    }

    /// The same while the connection takes requests; none once the gateway has asked to leave. A request that crosses
    /// with its final GOAWAY is none either: it was not processed and may be sent again (RFC 9113 section 6.8).
    #[track_caller]
    pub fn try_get(&mut self, target: &str) -> Option<Result<Http2Response, h2::Error>> {
        let mut ready = self.run(self.sender.clone().ready()).ok()?;
        let (response, _) = ready.send_request(get(target), true).ok()?;
        let answer = self.run(collect(response));
        let crossed = |error: &h2::Error| error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
        Some(answer).filter(|answer| !answer.as_ref().is_err_and(crossed))
    }

    /// Waits until the gateway has ended the connection.
    #[track_caller]
    pub fn until_closed(self) -> Result<(), h2::Error> {
        let Self {
            runtime,
            sender,
            driver,
        } = self;
        drop(sender);
        runtime
            .block_on(async { timeout(PATIENCE, driver).await })
            .expect("the gateway closes the connection")
            .expect("no panic")
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}

async fn handshake<S>(stream: S) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size(1024 * 1024)
        .handshake(stream)
        .await
        .expect("an HTTP/2 handshake");
    (sender, tokio::spawn(connection))
}

/// The head of a GET with `gateway.test` as the authority.
pub fn get(target: &str) -> Request<()> {
    head("GET", target)
}

/// A head with `gateway.test` as the authority.
pub fn head(method: &str, target: &str) -> Request<()> {
    Request::builder()
        .method(method)
        .uri(format!("http://gateway.test{target}"))
        .body(())
        .expect("a request")
}

/// Sends a body and its end.
pub async fn send_all(stream: &mut SendStream<Bytes>, mut body: Bytes) -> Result<(), h2::Error> {
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let Some(room) = std::future::poll_fn(|context| stream.poll_capacity(context)).await else {
            break;
        };
        let part = body.split_to(room?.min(body.len()));
        stream.send_data(part, body.is_empty())?;
    }
    Ok(())
}

/// Reads an answer to its end.
pub async fn collect(response: ResponseFuture) -> Result<Http2Response, h2::Error> {
    let (head, mut stream) = response.await?.into_parts();
    let (body, _trailers) = collect_body(&mut stream).await?;
    Ok(Http2Response {
        status: head.status.as_u16(),
        headers: head.headers,
        body,
    })
}

/// Reads a body and its trailers.
pub async fn collect_body(stream: &mut RecvStream) -> Result<(Vec<u8>, Option<HeaderMap>), h2::Error> {
    let mut body = Vec::new();
    while let Some(part) = stream.data().await {
        let part = part?;
        stream.flow_control().release_capacity(part.len())?;
        body.extend_from_slice(&part);
    }
    Ok((body, stream.trailers().await?))
}
