//! `gateway ready`: asks a running gateway whether it is ready. A container image needs no other client for
//! its health check.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::{CLEAN, FOUND};
use crate::config::{Host, ListenAddress, UpstreamUrl};

/// What `gateway ready` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The gateway's admin listener: `http://host:port`, or `unix:` and the path of its socket. No token is needed.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9901")]
    url: AdminUrl,
    /// Ask for one family in place of the whole gateway.
    #[arg(long, value_name = "NAME", value_parser = family_name)]
    family: Option<String>,
    /// How long to wait for the answer.
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    timeout: crate::config::Duration,
}

/// Where an admin listener is.
#[derive(Clone, Debug)]
enum AdminUrl {
    Http(UpstreamUrl),
    Unix(PathBuf),
}

impl FromStr for AdminUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with("unix:") {
            return match text.parse() {
                Ok(ListenAddress::Unix(path)) => Ok(Self::Unix(path)),
                Ok(ListenAddress::Tcp(_)) => Err("`unix:` is followed by the path of a socket".to_owned()),
                Err(error) => Err(error.to_string()),
            };
        }
        let url: UpstreamUrl = text
            .parse()
            .map_err(|error: crate::config::UpstreamUrlError| error.to_string())?;
        if url.tls() {
            return Err("the admin listener speaks plain HTTP: write `http://`".to_owned());
        }
        Ok(Self::Http(url))
    }
}

/// The most of an answer that is read, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

fn family_name(name: &str) -> Result<String, &'static str> {
    let plain = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    plain
        .then(|| name.to_owned())
        .ok_or("a family's name is letters, digits and `-`")
}

/// Exits 0 when the answer is 200, 1 when it is another or does not come.
pub(super) fn run(options: &Options) -> u8 {
    let target = match &options.family {
        None => "/readyz".to_owned(),
        Some(family) => format!("/readyz/{family}"),
    };
    match ask_in_time(&options.url, target, options.timeout.get()) {
        Ok(answer) => {
            // The code says it all when standard output is gone.
            let _ = writeln!(io::stdout().lock(), "{}", answer.body.trim_end());
            if answer.status == 200 { CLEAN } else { FOUND }
        }
        Err(error) => {
            let _ = writeln!(io::stderr().lock(), "error: no answer from the gateway: {error}");
            FOUND
        }
    }
}

struct Answer {
    status: u16,
    body: String,
}

/// Asks on a thread of its own: a name's resolution, and a Unix socket whose queue is full, wait without a limit.
fn ask_in_time(url: &AdminUrl, target: String, timeout: Duration) -> io::Result<Answer> {
    let (send, answered) = mpsc::channel();
    let url = url.clone();
    let deadline = Instant::now() + timeout;
    thread::spawn(move || {
        // Whoever asked may have given up.
        let _ = send.send(ask(&url, &target, deadline));
    });
    answered
        .recv_timeout(timeout)
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn ask(url: &AdminUrl, target: &str, deadline: Instant) -> io::Result<Answer> {
    let (mut connection, host) = match url {
        AdminUrl::Http(url) => (Connection::Tcp(connect(url, deadline)?), url.authority()),
        AdminUrl::Unix(path) => (Connection::Unix(UnixStream::connect(path)?), "localhost".to_owned()),
    };
    connection.set_timeouts(deadline)?;
    // HTTP/1.0 and `close`: the answer ends with the connection.
    let request = format!("GET {target} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    connection.stream().write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while answer.len() < MAX_ANSWER {
        connection.set_timeouts(deadline)?;
        match connection.stream().read(&mut buffer)? {
            0 => break,
            read => answer.extend_from_slice(buffer.get(..read).unwrap_or_default()),
        }
    }
    parse(&String::from_utf8_lossy(&answer)).ok_or_else(|| io::Error::other("it is not HTTP"))
}

enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What is read from and written to.
trait Stream: io::Read + io::Write {}
impl<S: io::Read + io::Write> Stream for S {}

impl Connection {
    fn stream(&mut self) -> &mut dyn Stream {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        }
    }

    fn set_timeouts(&self, deadline: Instant) -> io::Result<()> {
        let limit = Some(left(deadline)?);
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(limit).and(stream.set_write_timeout(limit)),
            Self::Unix(stream) => stream.set_read_timeout(limit).and(stream.set_write_timeout(limit)),
        }
    }
}

fn connect(url: &UpstreamUrl, deadline: Instant) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = match url.host() {
        Host::Address(address) => vec![SocketAddr::new(*address, url.port())],
        Host::Name(name) => (name.as_str(), url.port()).to_socket_addrs()?.collect(),
    };
    let mut failure = io::Error::other("the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(connection) => return Ok(connection),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The time until the deadline; sockets refuse a timeout of zero.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::Error::from(io::ErrorKind::TimedOut));
    }
    Ok(left)
}

/// `HTTP/1.x SSS ...` (RFC 9112, section 4) and what follows the head.
fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut parts = head.split(' ');
    parts.next()?.strip_prefix("HTTP/1.")?;
    Some(Answer {
        status: parts.next()?.parse().ok()?,
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_nonsense_is_not() {
        let answer = parse("HTTP/1.1 503 Service Unavailable\r\nA: b\r\n\r\n{}").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (503, "{}"));
        for nonsense in ["", "SSH-2.0\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\n"] {
            assert!(parse(nonsense).is_none(), "{nonsense}");
        }
    }
}
