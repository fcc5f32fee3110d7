//! A client that sends raw bytes and reads answers strictly: what it accepts, any HTTP/1.1 client accepts.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use super::PATIENCE;
use super::received::{find, show};

/// One answer.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    /// Header lines in order, names as they were written.
    pub headers: Vec<(String, String)>,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Every byte of the answer, interim answers included.
    pub raw: Vec<u8>,
    /// The status codes of 1xx answers that came before.
    pub interim: Vec<u16>,
}

impl Response {
    /// All values of a header, in order.
    pub fn values(&self, name: &str) -> Vec<&str> {
        self.headers
            .iter()
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// The value of a header that must be there exactly once.
    #[track_caller]
    pub fn value(&self, name: &str) -> &str {
        let values = self.values(name);
        assert_eq!(values.len(), 1, "{name} must be there once in\n{}", show(&self.raw));
        values[0]
    }

    /// The body as text.
    pub fn text(&self) -> String {
        show(&self.body)
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("the body is not JSON ({error}):\n{}", show(&self.raw)))
    }

    /// Asserts that this is the gateway's own error envelope with this status and code, and returns the request id.
    #[track_caller]
    pub fn assert_refusal(&self, status: u16, code: &str) -> String {
        assert_eq!(
            self.status,
            status,
            "expected {status} {code}, got\n{}",
            show(&self.raw)
        );
        assert_eq!(self.value("content-type"), "application/json");
        let envelope = self.json();
        let object = envelope.as_object().expect("the envelope is an object");
        let mut keys: Vec<&str> = object.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["error", "requestId"], "unexpected keys in {envelope}");
        let error = envelope["error"].as_object().expect("`error` is an object");
        let mut keys: Vec<&str> = error.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["code", "message"], "unexpected keys in {envelope}");
        assert_eq!(error["code"], code);
        assert!(
            error["message"].as_str().is_some_and(|message| !message.is_empty()),
            "no message in {envelope}"
        );
        let id = envelope["requestId"]
            .as_str()
            .expect("`requestId` is a text")
            .to_owned();
        assert_eq!(
            self.value("x-request-id"),
            id,
            "header and envelope carry one request id"
        );
        id
    }

    /// Every byte of the answer with the request id blotted out, for comparing two answers.
    pub fn without_request_id(&self) -> Vec<u8> {
        let mut raw = show(&self.raw);
        for id in self.values("x-request-id") {
            raw = raw.replace(id, &"*".repeat(id.len()));
        }
        raw.into_bytes()
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoResponse {
    /// The connection was closed before the first byte.
    Closed,
    /// The connection was reset.
    Reset,
    /// The connection was closed inside the answer.
    Truncated(String),
    /// Nothing came in time.
    TimedOut(String),
    /// Not HTTP/1.1.
    Malformed(String),
}

/// One connection.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)
            .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
        Self::of(stream)
    }

    /// A client on a connection that is there.
    #[track_caller]
    pub fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a write timeout");
        stream.set_nodelay(true).expect("no delay");
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .write_all(bytes.as_ref())
            .expect("the gateway takes the bytes");
    }

    /// Sends as much as the gateway takes: for requests that it may refuse before their end.
    pub fn send_what_is_taken(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends a request without a body and reads its answer.
    #[track_caller]
    pub fn request(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) -> Response {
        self.send(request_bytes(method, target, headers, b""));
        self.response_to(method)
    }

    /// Closes the sending half.
    pub fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Reads one answer to a request that was not HEAD.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    #[track_caller]
    pub fn response_to(&mut self, method: &str) -> Response {
        match self.try_response_to(method) {
            Ok(response) => response,
            Err(failure) => panic!("no answer: {failure:?}"),
        }
    }

    pub fn try_response(&mut self) -> Result<Response, NoResponse> {
        self.try_response_to("GET")
    }

    pub fn try_response_to(&mut self, method: &str) -> Result<Response, NoResponse> {
        let mut raw = Vec::new();
        let mut interim = Vec::new();
        loop {
            let head = self.head()?;
            raw.extend_from_slice(&head);
            let (status, headers) = parse_head(&head)?;
            if (100..200).contains(&status) && status != 101 {
                interim.push(status);
                continue;
            }
            let mut response = Response {
                status,
                headers,
                body: Vec::new(),
                raw,
                interim,
            };
            self.body(method, &mut response)?;
            return Ok(response);
        }
    }

    /// Reads one interim answer and returns its status.
    #[track_caller]
    pub fn interim(&mut self) -> u16 {
        let head = self.head().and_then(|head| parse_head(&head));
        match head {
            Ok((status, _)) if (100..200).contains(&status) => status,
            other => panic!("no interim answer: {other:?}"),
        }
    }

    /// Reads exactly this many bytes, as in a tunnel.
    #[track_caller]
    pub fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            assert!(
                self.fill().expect("bytes"),
                "closed after {} of {count} bytes",
                self.buffer.len()
            );
        }
        self.buffer.drain(..count).collect()
    }

    /// Reads to the end of these bytes.
    #[track_caller]
    pub fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(start) = find(&self.buffer, end) {
                return self.buffer.drain(..start + end.len()).collect();
            }
            assert!(self.fill().expect("bytes"), "closed before {:?}", show(end));
        }
    }

    /// Waits for the end of the connection and returns what came before it.
    #[track_caller]
    pub fn until_closed(&mut self) -> Vec<u8> {
        loop {
            match self.fill() {
                Ok(true) => {}
                Ok(false) | Err(NoResponse::Reset) => return std::mem::take(&mut self.buffer),
                Err(failure) => panic!("the connection does not end: {failure:?}"),
            }
        }
    }

    fn head(&mut self) -> Result<Vec<u8>, NoResponse> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                return Ok(self.buffer.drain(..end + 4).collect());
            }
            if !self.fill()? {
                return Err(match self.buffer.is_empty() {
                    true => NoResponse::Closed,
                    false => NoResponse::Truncated(show(&self.buffer)),
                });
            }
        }
    }

    fn body(&mut self, method: &str, response: &mut Response) -> Result<(), NoResponse> {
        let lengths: Vec<String> = response
            .values("content-length")
            .iter()
            .map(|v| (*v).to_owned())
            .collect();
        let codings: Vec<String> = response
            .values("transfer-encoding")
            .iter()
            .map(|v| (*v).to_owned())
            .collect();
        if lengths.len() > 1 || codings.len() > 1 || (!lengths.is_empty() && !codings.is_empty()) {
            return Err(NoResponse::Malformed(format!(
                "ambiguous framing in {}",
                show(&response.raw)
            )));
        }
        if method == "HEAD" || matches!(response.status, 101 | 204 | 304) {
            return Ok(());
        }
        if let Some(coding) = codings.first() {
            if coding != "chunked" {
                return Err(NoResponse::Malformed(format!("transfer coding {coding}")));
            }
            return self.chunked(response);
        }
        if let Some(length) = lengths.first() {
            let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
            let length: usize = length
                .parse()
                .ok()
                .filter(|_| digits)
                .ok_or_else(|| NoResponse::Malformed(format!("Content-Length {length}")))?;
            let body = self.take(length, response)?;
            response.body = body;
            return Ok(());
        }
        while self.fill()? {}
        response.body = std::mem::take(&mut self.buffer);
        response.raw.extend_from_slice(&response.body);
        Ok(())
    }

    fn chunked(&mut self, response: &mut Response) -> Result<(), NoResponse> {
        loop {
            let line = self.line(response)?;
            let size = usize::from_str_radix(&line, 16)
                .map_err(|_| NoResponse::Malformed(format!("chunk size line {line:?}")))?;
            if size == 0 {
                break;
            }
            let mut part = self.take(size + 2, response)?;
            if part.split_off(size) != b"\r\n" {
                return Err(NoResponse::Malformed("a chunk without its line end".to_owned()));
            }
            response.body.extend_from_slice(&part);
        }
        while !self.line(response)?.is_empty() {}
        Ok(())
    }

    fn line(&mut self, response: &mut Response) -> Result<String, NoResponse> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line = self.take(end + 2, response)?;
                return Ok(show(&line[..end]));
            }
            if !self.fill()? {
                return Err(NoResponse::Truncated(show(&self.buffer)));
            }
        }
    }

    fn take(&mut self, count: usize, response: &mut Response) -> Result<Vec<u8>, NoResponse> {
        while self.buffer.len() < count {
            if !self.fill()? {
                return Err(NoResponse::Truncated(format!("{} of {count} bytes", self.buffer.len())));
            }
        }
        let taken: Vec<u8> = self.buffer.drain(..count).collect();
        response.raw.extend_from_slice(&taken);
        Ok(taken)
    }

    fn fill(&mut self) -> Result<bool, NoResponse> {
        let mut part = [0; 16 * 1024];
        match self.stream.read(&mut part) {
            Ok(read) => {
                self.buffer.extend_from_slice(&part[..read]);
                Ok(read > 0)
            }
            Err(error) => Err(match error.kind() {
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => NoResponse::Reset,
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    NoResponse::TimedOut(format!("{PATIENCE:?} after {:?}", show(&self.buffer)))
                }
                _ => NoResponse::Malformed(error.to_string()),
            }),
        }
    }
}

/// A request with `Host: gateway.test` in front of the given headers.
pub fn request_bytes(method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{method} {target} HTTP/1.1\r\nHost: gateway.test\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

type Head = (u16, Vec<(String, String)>);

fn parse_head(head: &[u8]) -> Result<Head, NoResponse> {
    let malformed = |why: &str| NoResponse::Malformed(format!("{why} in {:?}", show(head)));
    let text = std::str::from_utf8(head).map_err(|_| malformed("not UTF-8"))?;
    let mut lines = text.trim_end_matches("\r\n").split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let rest = status_line
        .strip_prefix("HTTP/1.1 ")
        .ok_or_else(|| malformed("no HTTP/1.1 status line"))?;
    let (status, _reason) = rest
        .split_once(' ')
        .ok_or_else(|| malformed("no space after the status"))?;
    let status = Some(status)
        .filter(|status| status.len() == 3)
        .and_then(|status| status.parse().ok())
        .ok_or_else(|| malformed("no three-digit status"))?;
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| malformed("a header line without colon"))?;
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) || value.bytes().any(|b| b.is_ascii_control() && b != b'\t') {
            return Err(malformed("a malformed header line"));
        }
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok((status, headers))
}
