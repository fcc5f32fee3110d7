//! `gateway ready`: asks a running gateway whether it is ready. A container image needs no other client for
//! its health check.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use super::{CLEAN, FOUND, UNDECIDED};
use crate::config::{Host, UpstreamUrl};

/// What `gateway ready` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The gateway's admin listener.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9901")]
    url: UpstreamUrl,
    /// Ask for one family in place of the whole gateway.
    #[arg(long, value_name = "NAME", value_parser = family_name)]
    family: Option<String>,
    /// How long to wait for the answer.
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    timeout: crate::config::Duration,
}

/// The most of an answer that is read, in bytes.
const MAX_ANSWER: u64 = 64 * 1024;

fn family_name(name: &str) -> Result<String, &'static str> {
    let plain = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    plain
        .then(|| name.to_owned())
        .ok_or("a family's name is letters, digits and `-`")
}

/// Exits 0 when the answer is 200, 1 when it is another or does not come, 2 when it could not be asked.
pub(super) fn run(options: &Options) -> u8 {
    if options.url.tls() {
        let _ = writeln!(
            io::stderr().lock(),
            "error: the admin listener speaks plain HTTP: write `http://`"
        );
        return UNDECIDED;
    }
    let target = match &options.family {
        None => "/readyz".to_owned(),
        Some(family) => format!("/readyz/{family}"),
    };
    match ask(&options.url, &target, options.timeout.get()) {
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

fn ask(url: &UpstreamUrl, target: &str, timeout: Duration) -> io::Result<Answer> {
    let deadline = Instant::now() + timeout;
    let mut connection = connect(url, deadline)?;
    connection.set_write_timeout(Some(left(deadline)?))?;
    // HTTP/1.0 and `close`: the answer ends with the connection.
    let request = format!(
        "GET {target} HTTP/1.0\r\nHost: {}\r\nConnection: close\r\n\r\n",
        url.authority()
    );
    connection.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut limited = connection.take(MAX_ANSWER);
    let mut buffer = [0; 4096];
    loop {
        limited.get_ref().set_read_timeout(Some(left(deadline)?))?;
        match limited.read(&mut buffer)? {
            0 => break,
            read => answer.extend_from_slice(buffer.get(..read).unwrap_or_default()),
        }
    }
    parse(&String::from_utf8_lossy(&answer)).ok_or_else(|| io::Error::other("it is not HTTP"))
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
