//! The access record: one for each request, and for each head that never became one.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// The `tracing` target of access records.
pub const TARGET: &str = "access";

/// The longest path that is written, in bytes.
const LONGEST_TARGET: usize = 512;

/// What a record tells. Nothing in it is a credential or a value of a query.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The request's id.
    pub request_id: &'a str,
    /// The family's name in the contract.
    pub family: Option<&'a str>,
    /// The template that decided.
    pub template: Option<&'a str>,
    /// The method, as it came.
    pub method: &'a [u8],
    /// The target, as it came.
    pub target: &'a [u8],
    /// The status that the client was sent; none when it left before.
    pub status: Option<u16>,
    /// The code of the gateway's own answer.
    pub refusal: Option<&'a str>,
    /// Bytes of the request's body that were read.
    pub bytes_in: u64,
    /// Bytes of the answer's body that were written.
    pub bytes_out: u64,
    /// From the first byte of the request to the end of its answer.
    pub duration: Duration,
    /// `HTTP/1.1`, say.
    pub protocol: &'a str,
    /// Whoever connected.
    pub client: SocketAddr,
}

impl Record<'_> {
    /// Writes the record.
    pub fn write(&self) {
        tracing::info!(
            target: TARGET,
            requestId = self.request_id,
            family = self.family,
            template = self.template,
            method = known_method(self.method),
            target = %LoggedTarget(self.target),
            status = self.status,
            refusal = self.refusal,
            bytesIn = self.bytes_in,
            bytesOut = self.bytes_out,
            durationMs = self.duration.as_micros() as f64 / 1000.0,
            protocol = self.protocol,
            client = %self.client,
        );
    }
}

/// The registered methods that APIs use; any other is `other`, as a client may make up as many as it likes.
pub fn known_method(method: &[u8]) -> &'static str {
    match method {
        b"GET" => "GET",
        b"HEAD" => "HEAD",
        b"POST" => "POST",
        b"PUT" => "PUT",
        b"PATCH" => "PATCH",
        b"DELETE" => "DELETE",
        b"OPTIONS" => "OPTIONS",
        b"CONNECT" => "CONNECT",
        b"TRACE" => "TRACE",
        _ => "other",
    }
}

/// A target without its query, cut where it is very long, with all but printable ASCII escaped.
struct LoggedTarget<'a>(&'a [u8]);

impl fmt::Display for LoggedTarget<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self
            .0
            .iter()
            .position(|byte| matches!(byte, b'?' | b'#'))
            .unwrap_or(self.0.len());
        let path = self.0.get(..end).unwrap_or_default();
        // Credentials can also stand before the host of an absolute target.
        let path = match path.iter().position(|&byte| byte == b'@') {
            Some(at) if !path.starts_with(b"/") => path.get(at..).unwrap_or_default(),
            _ => path,
        };
        write!(
            formatter,
            "{}",
            path.get(..LONGEST_TARGET).unwrap_or(path).escape_ascii()
        )?;
        if path.len() > LONGEST_TARGET {
            formatter.write_str("…")?;
        }
        if end < self.0.len() {
            formatter.write_str("?…")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_logged_without_their_query() {
        for (target, logged) in [
            ("/a%2Fb", "/a%2Fb"),
            ("/a?token=secret", "/a?…"),
            ("/a?", "/a?…"),
            ("/a#b", "/a?…"),
            ("/a\r\nb\"", "/a\\r\\nb\\\""),
            ("http://user:secret@gw/a", "@gw/a"),
            ("/a@b", "/a@b"),
        ] {
            assert_eq!(LoggedTarget(target.as_bytes()).to_string(), logged);
        }
        assert_eq!(
            LoggedTarget(&[b'/'; 600]).to_string().chars().count(),
            LONGEST_TARGET + 1
        );
    }

    #[test]
    fn methods_are_a_closed_set() {
        assert_eq!(known_method(b"PATCH"), "PATCH");
        assert_eq!(known_method(b"FOO1"), "other");
    }
}
