//! The access record: one for each request, and for each head that never became one.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use time::OffsetDateTime;

use super::json_line;
use super::redact::Redacted;
use super::sink::Sink;

/// What a record tells. Nothing in it is a credential or a value of a query.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The request's id.
    pub request_id: &'a str,
    /// The id of the trace that it belongs to.
    pub trace_id: Option<&'a str>,
    /// The family's name in the contract.
    pub family: Option<&'a str>,
    /// The template that decided.
    pub template: Option<&'a str>,
    /// The method, as it came; empty where it is not known.
    pub method: &'a [u8],
    /// The target, as it came; empty where it is not known.
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
    /// From the first attempt to the head of the upstream's answer.
    pub upstream_latency: Option<Duration>,
    /// The gateway's own share.
    pub own: Duration,
    /// Attempts to have it answered by an upstream.
    pub attempts: usize,
    /// `HTTP/1.1`, say.
    pub protocol: &'a str,
    /// Whoever connected.
    pub client: SocketAddr,
    /// The endpoint of the last attempt, where that is to be told.
    pub upstream: Option<SocketAddr>,
}

/// Writes records. They do not go the way of messages: a record's fields are known, so a line is made in place, without
/// a visitor and without an allocation.
#[derive(Clone, Debug)]
pub struct AccessLog(Sink);

thread_local! {
    /// The line that is being made, and the second that the last one was made in.
    static LINE: RefCell<(String, Clock)> = RefCell::default();
}

impl AccessLog {
    /// A log whose lines go to `sink`.
    pub fn new(sink: Sink) -> Self {
        Self(sink)
    }

    /// Writes a record.
    pub fn write(&self, record: &Record<'_>) {
        LINE.with_borrow_mut(|(line, clock)| {
            line.clear();
            line.push_str("{\"time\":\"");
            clock.write_to(line, SystemTime::now());
            line.push_str("\",\"log\":\"access\"");
            record.write_to(line);
            line.push_str("}\n");
            self.0.append(line.as_bytes());
        });
    }
}

impl Record<'_> {
    /// Writes the fields, each with a comma before it.
    fn write_to(&self, line: &mut String) {
        text(line, "requestId", self.request_id);
        optional(line, "traceId", self.trace_id);
        optional(line, "family", self.family);
        optional(line, "template", self.template);
        optional(
            line,
            "method",
            (!self.method.is_empty()).then(|| known_method(self.method)),
        );
        if !self.target.is_empty() {
            shown(line, "target", Redacted(self.target));
        }
        if let Some(status) = self.status {
            number(line, "status", u64::from(status));
        }
        optional(line, "refusal", self.refusal);
        number(line, "bytesIn", self.bytes_in);
        number(line, "bytesOut", self.bytes_out);
        milliseconds(line, "durationMs", self.duration);
        if let Some(latency) = self.upstream_latency {
            milliseconds(line, "upstreamMs", latency);
        }
        milliseconds(line, "gatewayMs", self.own);
        number(line, "attempts", self.attempts as u64);
        text(line, "protocol", self.protocol);
        address(line, "client", self.client);
        if let Some(upstream) = self.upstream {
            address(line, "upstream", upstream);
        }
    }
}

fn key(line: &mut String, key: &str) {
    line.push_str(",\"");
    line.push_str(key);
    line.push_str("\":");
}

fn text(line: &mut String, name: &str, value: &str) {
    key(line, name);
    line.push('"');
    // Writing to a String cannot fail.
    let _ = json_line::Value::new(line).write_str(value);
    line.push('"');
}

fn optional(line: &mut String, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        text(line, name, value);
    }
}

fn shown(line: &mut String, name: &str, value: impl fmt::Display) {
    key(line, name);
    line.push('"');
    // Writing to a String cannot fail.
    let _ = write!(json_line::Value::new(line), "{value}");
    line.push('"');
}

/// As it is displayed. The formatting of the standard library is a quarter of a record's cost for an IPv4 address.
fn address(line: &mut String, name: &str, value: SocketAddr) {
    let SocketAddr::V4(value) = value else {
        return shown(line, name, value);
    };
    key(line, name);
    line.push('"');
    let mut buffer = itoa::Buffer::new();
    for (place, octet) in value.ip().octets().into_iter().enumerate() {
        if place > 0 {
            line.push('.');
        }
        line.push_str(buffer.format(octet));
    }
    line.push(':');
    line.push_str(buffer.format(value.port()));
    line.push('"');
}

fn number(line: &mut String, name: &str, value: u64) {
    key(line, name);
    line.push_str(itoa::Buffer::new().format(value));
}

/// With three digits of a fraction.
fn milliseconds(line: &mut String, name: &str, value: Duration) {
    let microseconds = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
    number(line, name, microseconds / 1_000);
    line.push('.');
    digits(line, microseconds % 1_000, 100);
}

/// All digits of a number, from the one that counts `highest`.
fn digits(line: &mut String, value: u64, highest: u64) {
    let mut place = highest;
    while place > 0 {
        line.push(char::from(b'0' + u8::try_from(value / place % 10).unwrap_or_default()));
        place /= 10;
    }
}

/// Times as text. The text of a second serves all records in it.
#[derive(Debug, Default)]
struct Clock {
    second: u64,
    text: String,
}

impl Clock {
    /// RFC 3339, with microseconds.
    fn write_to(&mut self, line: &mut String, now: SystemTime) {
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if since.as_secs() != self.second || self.text.is_empty() {
            self.second = since.as_secs();
            self.text = second_as_text(self.second);
        }
        line.push_str(&self.text);
        line.push('.');
        digits(line, u64::from(since.subsec_micros()), 100_000);
        line.push('Z');
    }
}

/// The calendar's words for a second since 1970: `2026-11-30T15:21:12`.
fn second_as_text(second: u64) -> String {
    let since = i64::try_from(second).unwrap_or(i64::MAX);
    // A clock beyond the year 9999 is as good as none.
    let moment = OffsetDateTime::from_unix_timestamp(since).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = (moment.year(), u8::from(moment.month()), moment.day());
    let (hour, minute, second) = moment.to_hms();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_object_on_one_line() {
        let record = Record {
            request_id: "id",
            trace_id: None,
            family: Some("a"),
            template: Some("/a/{b}\"\\"),
            method: b"GET",
            target: b"/a/\"\\\xff\x1b?secret",
            status: Some(200),
            refusal: None,
            bytes_in: 0,
            bytes_out: 1_234_567,
            duration: Duration::from_micros(12_045),
            upstream_latency: Some(Duration::from_micros(7)),
            own: Duration::from_micros(1_000),
            attempts: 2,
            protocol: "HTTP/2",
            client: "[2001:db8::1]:443".parse().unwrap(),
            upstream: Some("192.0.2.1:80".parse().unwrap()),
        };
        let mut line = String::new();
        record.write_to(&mut line);
        assert_eq!(
            line,
            concat!(
                r#","requestId":"id","family":"a","template":"/a/{b}\"\\","method":"GET","target":"/a/\"\\\\xff\\x1b?…","#,
                r#""status":200,"bytesIn":0,"bytesOut":1234567,"durationMs":12.045,"upstreamMs":0.007,"gatewayMs":1.000,"#,
                r#""attempts":2,"protocol":"HTTP/2","client":"[2001:db8::1]:443","upstream":"192.0.2.1:80""#
            )
        );
        let object: serde_json::Value = serde_json::from_str(&format!("{{{}}}", &line[1..])).unwrap();
        assert_eq!(object["target"], "/a/\"\\\\xff\\x1b?…");
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (second, text) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_709_164_800, "2024-02-29T00:00:00"),
            (1_796_138_472, "2026-12-01T15:21:12"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            assert_eq!(second_as_text(second), text);
        }
        let mut clock = Clock::default();
        let mut line = String::new();
        for micros in [1, 999_999, 1_000_000] {
            clock.write_to(&mut line, SystemTime::UNIX_EPOCH + Duration::from_micros(micros));
            line.push(' ');
        }
        assert_eq!(
            line,
            "1970-01-01T00:00:00.000001Z 1970-01-01T00:00:00.999999Z 1970-01-01T00:00:01.000000Z "
        );
    }

    #[test]
    fn methods_are_a_closed_set() {
        assert_eq!(known_method(b"PATCH"), "PATCH");
        assert_eq!(known_method(b"FOO1"), "other");
    }
}
