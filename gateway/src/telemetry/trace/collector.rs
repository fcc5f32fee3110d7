//! The collector's side of the wire: one POST for each batch, by the client that probes use, so that there is one TLS
//! in the gateway.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use pingora::connectors::http::Connector;
use pingora::http::RequestHeader;
use pingora::protocols::http::client::HttpSession;
use pingora::upstreams::peer::HttpPeer;

use crate::config::{Host, UpstreamUrl};

/// Bytes of an answer that are read: it says how many spans were refused, and why.
const MOST_ANSWER: usize = 64 * 1024;

/// A collector that takes OTLP over HTTP/1.1.
pub(super) struct Collector {
    url: UpstreamUrl,
    connector: Connector,
    timeout: Duration,
}

impl Collector {
    /// A collector at `url` that is waited for so long.
    pub fn new(url: UpstreamUrl, timeout: Duration) -> Self {
        Self {
            url,
            connector: Connector::new(None),
            timeout,
        }
    }

    async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let port = self.url.port();
        match self.url.host() {
            Host::Address(address) => Ok(vec![SocketAddr::new(*address, port)]),
            Host::Name(name) => Ok(tokio::net::lookup_host((name.as_str(), port)).await?.collect()),
        }
    }

    /// A connection to the first address that can be connected to. It is closed after the exchange: batches are
    /// seconds apart, and a kept connection that the collector has closed would cost one of them.
    async fn connect(&self) -> Result<HttpSession, HttpError> {
        let mut failure: HttpError = "the collector's name has no address".into();
        for address in self.addresses().await? {
            let mut peer = HttpPeer::new(address, self.url.tls(), self.url.server_name());
            peer.options.total_connection_timeout = Some(self.timeout);
            peer.options.set_http_version(1, 1);
            match self.connector.get_http_session(&peer).await {
                Ok((session, _)) => return Ok(session),
                Err(error) => failure = error.etype().as_str().to_owned().into(),
            }
        }
        Err(failure)
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let HttpSession::H1(mut session) = self.connect().await? else {
            return Err("the collector does not speak HTTP/1.1".into());
        };
        let (parts, body) = request.into_parts();
        let mut head = RequestHeader::build("POST", parts.uri.path().as_bytes(), Some(8))?;
        for (name, value) in &parts.headers {
            head.append_header(name, value)?;
        }
        head.insert_header("Host", self.url.authority())?;
        head.insert_header("User-Agent", concat!("gateway/", env!("CARGO_PKG_VERSION")))?;
        head.insert_header("Content-Length", body.len())?;
        head.insert_header("Connection", "close")?;
        session.write_request_header(Box::new(head)).await?;
        session.write_body(&body).await?;
        session.finish_body().await?;
        session.read_response().await?;
        let status = session.get_status().unwrap_or_default();
        let retry_after = session.get_header(http::header::RETRY_AFTER).cloned();
        let mut answer = BytesMut::new();
        while let Some(piece) = session.read_body_ref().await? {
            if answer.len() + piece.len() > MOST_ANSWER {
                return Err("the collector's answer is too long".into());
            }
            answer.extend_from_slice(piece);
        }
        let mut response = Response::new(answer.freeze());
        *response.status_mut() = status;
        if let Some(value) = retry_after {
            response.headers_mut().insert(http::header::RETRY_AFTER, value);
        }
        Ok(response)
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        match tokio::time::timeout(self.timeout, self.exchange(request)).await {
            Ok(answer) => answer,
            Err(_) => Err("the collector does not answer in time".into()),
        }
    }
}

impl fmt::Debug for Collector {
    /// Its address is nobody's business.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Collector").finish_non_exhaustive()
    }
}
