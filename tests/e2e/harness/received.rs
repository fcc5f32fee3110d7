//! A request as it stood on the wire, and how it is read from there.

use std::io::{self, Read};
use std::net::TcpStream;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// Which connection it came on, counted from 1.
    pub connection: usize,
    /// Request line and header lines with their line ends, without the empty line.
    pub head: Vec<u8>,
    /// The body as it stood on the wire, chunk framing included.
    pub body_on_wire: Vec<u8>,
    /// The body without its framing.
    pub body: Vec<u8>,
}

impl Received {
    /// The three parts of the request line.
    fn request_line(&self) -> Vec<&[u8]> {
        let end = find(&self.head, b"\r\n").expect("a request line ends in CRLF");
        let parts: Vec<&[u8]> = self.head[..end].split(|&byte| byte == b' ').collect();
        assert_eq!(parts.len(), 3, "not a request line: {}", show(&self.head[..end]));
        parts
    }

    pub fn method(&self) -> String {
        show(self.request_line()[0])
    }

    /// The request target, byte for byte.
    pub fn target(&self) -> Vec<u8> {
        self.request_line()[1].to_vec()
    }

    pub fn version(&self) -> String {
        show(self.request_line()[2])
    }

    /// Header lines in order, names as they were written.
    pub fn headers(&self) -> Vec<(String, String)> {
        let text = show(&self.head);
        text.split("\r\n")
            .skip(1)
            .filter(|line| !line.is_empty())
            .map(|line| {
                let (name, value) = line.split_once(':').expect("a header line has a colon");
                (name.to_owned(), value.trim().to_owned())
            })
            .collect()
    }

    /// All values of a header, in order.
    pub fn values(&self, name: &str) -> Vec<String> {
        self.headers()
            .into_iter()
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect()
    }

    /// The value of a header that must be there exactly once.
    #[track_caller]
    pub fn value(&self, name: &str) -> String {
        let values = self.values(name);
        assert_eq!(
            values.len(),
            1,
            "{name} must be there once, got {values:?} in\n{}",
            show(&self.head)
        );
        values.into_iter().next().expect("one value")
    }
}

/// Reads a request's head; `None` when the peer closed before another request began.
pub fn read_head(stream: &mut TcpStream, buffer: &mut Vec<u8>, connection: usize) -> io::Result<Option<Received>> {
    let head_end = loop {
        if let Some(end) = find(buffer, b"\r\n\r\n") {
            break end + 2;
        }
        if !fill(stream, buffer)? {
            return Ok(None);
        }
    };
    let head: Vec<u8> = buffer.drain(..head_end).collect();
    buffer.drain(..2);
    Ok(Some(Received {
        connection,
        head,
        body_on_wire: Vec::new(),
        body: Vec::new(),
    }))
}

/// Reads the body that a head announces, in either framing.
pub fn read_body(stream: &mut TcpStream, buffer: &mut Vec<u8>, received: &mut Received) -> io::Result<()> {
    if !received.values("transfer-encoding").is_empty() {
        read_chunked(stream, buffer, received)?;
    } else if let Some(length) = received.values("content-length").first() {
        let length: usize = length.parse().map_err(io::Error::other)?;
        while buffer.len() < length {
            if !fill(stream, buffer)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        received.body = buffer.drain(..length).collect();
        received.body_on_wire.clone_from(&received.body);
    }
    Ok(())
}

fn read_chunked(stream: &mut TcpStream, buffer: &mut Vec<u8>, received: &mut Received) -> io::Result<()> {
    loop {
        let line = take_line(stream, buffer)?;
        received.body_on_wire.extend_from_slice(&line);
        let text = show(&line);
        let size = text.trim_end().split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
        if size == 0 {
            break;
        }
        while buffer.len() < size + 2 {
            if !fill(stream, buffer)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        received.body.extend_from_slice(&buffer[..size]);
        received.body_on_wire.extend(buffer.drain(..size + 2));
    }
    // Trailer lines, up to the empty one.
    loop {
        let line = take_line(stream, buffer)?;
        received.body_on_wire.extend_from_slice(&line);
        if line == b"\r\n" {
            return Ok(());
        }
    }
}

fn take_line(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    loop {
        if let Some(end) = find(buffer, b"\r\n") {
            return Ok(buffer.drain(..end + 2).collect());
        }
        if !fill(stream, buffer)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<bool> {
    let mut part = [0; 16 * 1024];
    let read = stream.read(&mut part)?;
    buffer.extend_from_slice(&part[..read]);
    Ok(read > 0)
}

/// Where `needle` first stands in `haystack`.
pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Bytes as text for a failure message.
pub fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
