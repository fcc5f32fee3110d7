//! Clients: a kept connection each, one request after the other.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Nothing takes longer than that unless something is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// One client.
pub struct Client {
    address: SocketAddr,
    socket: Option<TcpStream>,
    input: Vec<u8>,
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            socket: None,
            input: Vec::new(),
        }
    }

    /// Sends a request, on a new connection where there is none, and answers the status of its answer.
    pub async fn ask(&mut self, method: &str, target: &str) -> io::Result<u16> {
        let body = if method == "POST" { "some body" } else { "" };
        let length = body.len();
        let request = format!("{method} {target} HTTP/1.1\r\nHost: gw\r\nContent-Length: {length}\r\n\r\n{body}");
        let asked = tokio::time::timeout(PATIENCE, self.exchange(request.as_bytes())).await;
        let answer = asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        if answer.is_err() {
            self.socket = None;
            self.input.clear();
        }
        answer
    }

    async fn exchange(&mut self, request: &[u8]) -> io::Result<u16> {
        let socket = match &mut self.socket {
            Some(socket) => socket,
            none => {
                let socket = TcpStream::connect(self.address).await?;
                socket.set_nodelay(true)?;
                none.insert(socket)
            }
        };
        socket.write_all(request).await?;
        let (head, _) = read_message(socket, &mut self.input)
            .await
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        if head.to_ascii_lowercase().contains("\r\nconnection: close") {
            self.socket = None;
            self.input.clear();
        }
        status.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Opens a WebSocket that stays silent.
    pub async fn open_websocket(address: SocketAddr, target: &str) -> io::Result<TcpStream> {
        let mut socket = TcpStream::connect(address).await?;
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: gw\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).await?;
        let mut input = Vec::new();
        match read_message(&mut socket, &mut input).await {
            Some((head, _)) if head.starts_with("HTTP/1.1 101 ") => Ok(socket),
            other => Err(io::Error::other(format!("no WebSocket: {other:?}"))),
        }
    }
}

/// Reads a message with a Content-Length, or none; the head is without its empty line.
pub async fn read_message(socket: &mut TcpStream, input: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let end = loop {
        if let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if !matches!(socket.read_buf(input).await, Ok(read) if read > 0) {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&input[..end]).into_owned();
    let length = head
        .to_ascii_lowercase()
        .split_once("\r\ncontent-length:")
        .map_or(Some(0), |(_, rest)| rest.lines().next()?.trim().parse().ok())?;
    while input.len() < end + 4 + length {
        if !matches!(socket.read_buf(input).await, Ok(read) if read > 0) {
            return None;
        }
    }
    let body = input[end + 4..end + 4 + length].to_vec();
    input.drain(..end + 4 + length);
    Some((head, body))
}

/// How long answers took.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    pub fn add(&mut self, began: Instant) {
        self.0.push(began.elapsed());
    }

    pub fn add_taken(&mut self, taken: Duration) {
        self.0.push(taken);
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The time within which this share of the answers came.
    pub fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let place = (last as f64 * share).round() as usize;
        sorted.get(place.min(last)).copied().unwrap_or_default()
    }
}
