//! The head of an HTTP/1 request, read strictly from the bytes that came (RFC 9112, sections 2 to 6).
//!
//! Pingora's own reader mends what it can: it escapes a target, drops a fragment, drops a Content-Length beside a
//! Transfer-Encoding. Whatever it mends would reach an upstream changed, or would be framed differently by the next
//! hop, so a head is judged here first and Pingora only ever sees one that needs no mending.

use std::ops::Range;

use memchr::memchr;

/// What a head may measure.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Bytes of the request target.
    pub target: usize,
    /// Bytes of the whole head, its empty line included.
    pub head: usize,
    /// Header lines.
    pub headers: usize,
}

/// Why a head is refused before any request exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadFault {
    /// The request line or a header line is not HTTP/1 (RFC 9112 sections 2.2, 3 and 5).
    Syntax,
    /// The version is neither HTTP/1.1 nor HTTP/1.0.
    Version,
    /// CONNECT and TRACE: the gateway is no tunnel and no mirror.
    Method,
    /// The target has none of the forms that are served, or holds a byte that cannot be forwarded as it came: a space, a
    /// control or non-ASCII byte, a fragment, `"`, `<`, `>` or, in a path, a backquote (RFC 9112 section 3.2).
    Target,
    /// Host is missing, repeated or no authority (RFC 9112 section 3.2).
    Host,
    /// Content-Length and Transfer-Encoding do not name one length (RFC 9112 section 6).
    Framing,
    /// The target is longer than its limit.
    TargetTooLong,
    /// The head, or the number of its lines, is over its limit.
    HeadTooLarge,
    /// The head was not complete in time.
    Timeout,
}

/// How the end of a request's body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// There is no body.
    None,
    /// Exactly so many bytes, at least one.
    Exactly(u64),
    /// Chunks.
    Chunked,
}

/// The forms of a request target that are served (RFC 9112 section 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetForm {
    /// Path and query.
    Origin,
    /// A URL of this very host; the place of its path and query.
    Absolute(Range<usize>),
    /// `*`, with OPTIONS.
    Asterisk,
}

/// A head that is sound, as places in the bytes it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes from the request line to the empty line, that one included.
    pub len: usize,
    /// The method.
    pub method: Range<usize>,
    /// The request target, byte for byte.
    pub target: Range<usize>,
    /// What the target is.
    pub form: TargetForm,
    /// The value of Host.
    pub host: Range<usize>,
    /// Whether the version is HTTP/1.1; otherwise it is HTTP/1.0.
    pub http11: bool,
    /// How the body ends.
    pub body: BodyLength,
}

/// The search for the end of a head in bytes that arrive in pieces; no byte is looked at twice.
#[derive(Debug, Default)]
pub struct HeadScan {
    line: usize,
    searched: usize,
    lines: usize,
}

/// The longest method that is waited for; registered methods have at most 17 letters.
const LONGEST_METHOD: usize = 32;
/// " HTTP/1.1" and the line's end.
const VERSION_ROOM: usize = 11;
/// A host name has at most 255 bytes, a port at most five digits.
const LONGEST_HOST: usize = 262;

impl HeadScan {
    /// Looks through what has come since the last call; answers the head's length once its empty line is there.
    pub fn advance(&mut self, input: &[u8], limits: &HeadLimits) -> Result<Option<usize>, HeadFault> {
        while let Some(at) = input.get(self.searched..).and_then(|fresh| memchr(b'\n', fresh)) {
            let end = self.searched + at;
            let Some(line) = input.get(self.line..end).and_then(|line| line.strip_suffix(b"\r")) else {
                return Err(HeadFault::Syntax);
            };
            self.searched = end + 1;
            self.line = end + 1;
            if line.is_empty() {
                if self.lines == 0 {
                    return Err(HeadFault::Syntax);
                }
                return if end < limits.head {
                    Ok(Some(end + 1))
                } else {
                    Err(HeadFault::HeadTooLarge)
                };
            }
            if self.lines > limits.headers {
                return Err(HeadFault::HeadTooLarge);
            }
            self.lines += 1;
        }
        self.searched = input.len();
        if self.lines == 0 && input.len() > limits.target + LONGEST_METHOD + VERSION_ROOM {
            return Err(HeadFault::TargetTooLong);
        }
        if input.len() > limits.head {
            return Err(HeadFault::HeadTooLarge);
        }
        Ok(None)
    }
}

/// Judges a complete head of `len` bytes at the start of `input`.
pub fn parse(input: &[u8], len: usize, limits: &HeadLimits) -> Result<Head, HeadFault> {
    let head = input.get(..len).ok_or(HeadFault::Syntax)?;
    let mut lines = Lines { head, at: 0 };
    let request_line = lines.next().ok_or(HeadFault::Syntax)?;
    let (method, target, http11) = parse_request_line(head, request_line, limits)?;
    let mut fields = Fields::default();
    for line in lines {
        fields.add(head, line)?;
    }
    let host = fields.host.ok_or(HeadFault::Host)?;
    let part = |range: &Range<usize>| head.get(range.clone()).unwrap_or_default();
    let form = target_form(part(&method), part(&target), part(&host), target.start)?;
    let body = match (fields.length, fields.chunked) {
        (None, false) | (Some(0), false) => BodyLength::None,
        (Some(length), false) => BodyLength::Exactly(length),
        (None, true) if http11 => BodyLength::Chunked,
        _ => return Err(HeadFault::Framing),
    };
    Ok(Head {
        len,
        method,
        target,
        form,
        host,
        http11,
        body,
    })
}

/// RFC 9112 section 3.2: origin-form; absolute-form where its authority is the Host, byte for byte, as whom the client
/// meant would else be a matter of opinion; `*` with OPTIONS alone. `start` is the target's place in the head.
fn target_form(method: &[u8], target: &[u8], host: &[u8], start: usize) -> Result<TargetForm, HeadFault> {
    if target.starts_with(b"/") {
        return Ok(TargetForm::Origin);
    }
    if target == b"*" && method == b"OPTIONS" {
        return Ok(TargetForm::Asterisk);
    }
    let scheme = [b"http://".len(), b"https://".len()].into_iter().find(|&length| {
        let scheme = target.get(..length).unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"http://") || scheme.eq_ignore_ascii_case(b"https://")
    });
    let path = scheme.ok_or(HeadFault::Target)? + host.len();
    let authority = target.get(path - host.len()..path);
    // Without a path the origin-form would have to be made up ("/?x" for "?x"), and the target is never rewritten.
    if authority != Some(host) || target.get(path) != Some(&b'/') {
        return Err(HeadFault::Target);
    }
    Ok(TargetForm::Absolute(start + path..start + target.len()))
}

/// The lines of a head, without their ends and without the empty one.
struct Lines<'a> {
    head: &'a [u8],
    at: usize,
}

impl Iterator for Lines<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let rest = self.head.get(self.at..)?;
        let end = memchr(b'\n', rest)?;
        let line = self.at..self.at + end.saturating_sub(1);
        self.at += end + 1;
        (!line.is_empty()).then_some(line)
    }
}

/// RFC 9112 section 3: `method SP request-target SP HTTP-version`, single spaces and nothing else.
fn parse_request_line(
    head: &[u8],
    line: Range<usize>,
    limits: &HeadLimits,
) -> Result<(Range<usize>, Range<usize>, bool), HeadFault> {
    let bytes = head.get(line.clone()).ok_or(HeadFault::Syntax)?;
    let method_end = memchr(b' ', bytes).ok_or(HeadFault::Syntax)?;
    let version_start = memchr::memrchr(b' ', bytes).ok_or(HeadFault::Syntax)?;
    let method = bytes.get(..method_end).unwrap_or_default();
    if method.is_empty() || method.len() > LONGEST_METHOD || !method.iter().copied().all(is_token_byte) {
        return Err(HeadFault::Syntax);
    }
    let http11 = match bytes.get(version_start + 1..).unwrap_or_default() {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        version if version.starts_with(b"HTTP/") => return Err(HeadFault::Version),
        _ => return Err(HeadFault::Syntax),
    };
    if method == b"CONNECT" || method == b"TRACE" {
        return Err(HeadFault::Method);
    }
    let target = bytes.get(method_end + 1..version_start).ok_or(HeadFault::Syntax)?;
    if target.len() > limits.target {
        return Err(HeadFault::TargetTooLong);
    }
    // A backquote is refused by the URI type in a path alone.
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    if target.is_empty() || path.contains(&b'`') || !target.iter().copied().all(is_target_byte) {
        return Err(HeadFault::Target);
    }
    Ok((
        line.start..line.start + method_end,
        line.start + method_end + 1..line.start + version_start,
        http11,
    ))
}

/// What is known of the header lines that decide framing and authority.
#[derive(Default)]
struct Fields {
    host: Option<Range<usize>>,
    length: Option<u64>,
    chunked: bool,
}

impl Fields {
    /// RFC 9112 section 5: no space before the colon, no folded line; RFC 9110 section 5.5: no control byte but tab.
    fn add(&mut self, head: &[u8], line: Range<usize>) -> Result<(), HeadFault> {
        let bytes = head.get(line.clone()).ok_or(HeadFault::Syntax)?;
        let colon = memchr(b':', bytes).ok_or(HeadFault::Syntax)?;
        let (name, value) = (
            bytes.get(..colon).unwrap_or_default(),
            bytes.get(colon + 1..).unwrap_or_default(),
        );
        if name.is_empty() || !name.iter().copied().all(is_token_byte) {
            return Err(HeadFault::Syntax);
        }
        if value.iter().any(|&byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
            return Err(HeadFault::Syntax);
        }
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                let host = value.trim_ascii();
                if self.host.is_some() || !is_authority(host) {
                    return Err(HeadFault::Host);
                }
                let leading = value.len() - value.trim_ascii_start().len();
                let start = line.start + colon + 1 + leading;
                self.host = Some(start..start + host.len());
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                if self.length.is_some() {
                    return Err(HeadFault::Framing);
                }
                self.length = Some(parse_length(value.trim_ascii())?);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if self.chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(HeadFault::Framing);
                }
                self.chunked = true;
            }
            _ => {}
        }
        Ok(())
    }
}

/// RFC 9110 section 8.6: digits alone, and few enough of them that every hop can count so far.
fn parse_length(value: &[u8]) -> Result<u64, HeadFault> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err(HeadFault::Framing);
    }
    Ok(value
        .iter()
        .fold(0, |length, digit| length * 10 + u64::from(digit - b'0')))
}

/// Visible ASCII without `#`, and without the three bytes that RFC 3986 allows nowhere and that the URI type under
/// Pingora refuses, so that they could not be forwarded as they came.
fn is_target_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'#' | b'"' | b'<' | b'>')
}

/// RFC 9110 section 5.6.2.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// RFC 9110 section 7.2: a host name, an IPv4 address or an IPv6 address in brackets, and perhaps a port. What RFC 3986
/// section 3.2.2 allows beside these (escapes, commas, quotes) names no host in DNS and is refused.
pub fn is_authority(value: &[u8]) -> bool {
    if value.is_empty() || value.len() > LONGEST_HOST {
        return false;
    }
    let (host, port) = match value.strip_prefix(b"[") {
        Some(rest) => {
            let Some(end) = memchr(b']', rest) else { return false };
            let (address, port) = rest.split_at(end);
            let Ok(address) = std::str::from_utf8(address) else {
                return false;
            };
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            (None, port.get(1..).unwrap_or_default())
        }
        None => {
            let end = memchr(b':', value).unwrap_or(value.len());
            let (host, port) = value.split_at(end);
            (Some(host), port)
        }
    };
    let host_is_sound = host.is_none_or(|host| {
        !host.is_empty()
            && host
                .iter()
                .all(|&byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    });
    let port_is_sound = match port.strip_prefix(b":") {
        Some(digits) => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        None => port.is_empty(),
    };
    host_is_sound && port_is_sound
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits {
        target: 64,
        head: 512,
        headers: 6,
    };

    fn judge(text: &str) -> Result<Head, HeadFault> {
        judge_bytes(text.as_bytes())
    }

    fn judge_bytes(input: &[u8]) -> Result<Head, HeadFault> {
        let mut scan = HeadScan::default();
        let len = scan.advance(input, &LIMITS)?.expect("the head is complete");
        parse(input, len, &LIMITS)
    }

    #[test]
    fn a_sound_head_is_taken_apart_in_place() {
        let text = "POST /a?b=c HTTP/1.1\r\nHost:  gw:80 \r\nContent-Length: 5\r\n\r\nhello";
        let head = judge(text).unwrap();
        assert_eq!(&text[head.method.clone()], "POST");
        assert_eq!(&text[head.target.clone()], "/a?b=c");
        assert_eq!(&text[head.host.clone()], "gw:80");
        assert_eq!(head.body, BodyLength::Exactly(5));
        assert_eq!(head.len, text.len() - 5);
        assert!(head.http11);
    }

    #[test]
    fn target_forms() {
        let form = |method: &str, target: &str| {
            let text = format!("{method} {target} HTTP/1.1\r\nHost: gw\r\n\r\n");
            judge(&text).map(|head| match head.form {
                TargetForm::Origin => "origin".to_owned(),
                TargetForm::Asterisk => "asterisk".to_owned(),
                TargetForm::Absolute(path) => text[path].to_owned(),
            })
        };
        for (method, target, expected) in [
            ("GET", "/a?b", Some("origin")),
            ("GET", "//evil.example/a", Some("origin")),
            ("GET", "http://gw/a?b", Some("/a?b")),
            ("GET", "HTTPS://gw//a", Some("//a")),
            ("OPTIONS", "*", Some("asterisk")),
            ("GET", "*", None),
            ("OPTIONS", "*/a", None),
            ("GET", "http://GW/a", None),
            ("GET", "http://other/a", None),
            ("GET", "http://gw.evil/a", None),
            ("GET", "http://gw:80/a", None),
            ("GET", "http://u@gw/a", None),
            ("GET", "http://gw?x=1", None),
            ("GET", "http://gw", None),
            ("GET", "http:///a", None),
            ("GET", "ftp://gw/a", None),
            ("GET", "a/b", None),
            ("GET", "?q", None),
            ("GET", "gw:80", None),
        ] {
            let expected = expected.map(str::to_owned).ok_or(HeadFault::Target);
            assert_eq!(form(method, target), expected, "{method} {target}");
        }
    }

    #[test]
    fn every_byte_of_a_sound_target_survives_pingora() {
        for byte in 0..=u8::MAX {
            for start in ["/a", "/a?b="] {
                let mut target = start.as_bytes().to_vec();
                target.push(byte);
                let text = [b"GET ", &target[..], b" HTTP/1.1\r\nHost: gw\r\n\r\n"].concat();
                let request = pingora::http::RequestHeader::build("GET", &target, None);
                if judge_bytes(&text).is_ok() {
                    let survives = request.is_ok_and(|request| request.raw_path() == target);
                    assert!(survives, "{start} and {:?}", char::from(byte));
                }
            }
        }
    }

    #[test]
    fn the_head_may_come_byte_by_byte() {
        let text = b"GET / HTTP/1.0\r\nHost: a\r\n\r\n";
        let mut scan = HeadScan::default();
        for end in 1..text.len() {
            assert_eq!(scan.advance(&text[..end], &LIMITS), Ok(None), "{end}");
        }
        assert_eq!(scan.advance(text, &LIMITS), Ok(Some(text.len())));
    }

    #[test]
    fn each_fault_has_its_name() {
        let with = |line: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
        let cases = [
            ("GET / HTTP/1.1\n\n".to_owned(), HeadFault::Syntax),
            ("GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n".to_owned(), HeadFault::Syntax),
            ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Target),
            ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Target),
            ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Target),
            ("GET /\u{7f} HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Target),
            ("GET /é HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Target),
            ("GET /\r HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Target),
            ("GE(T / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Syntax),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Version),
            ("PRI * HTTP/2.0\r\n\r\n".to_owned(), HeadFault::Version),
            ("GET /\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Syntax),
            (
                "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n".to_owned(),
                HeadFault::Method,
            ),
            ("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Method),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), HeadFault::Host),
            ("GET / HTTP/1.1\r\nHost:\r\n\r\n".to_owned(), HeadFault::Host),
            ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n".to_owned(), HeadFault::Host),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nhOst: a\r\n\r\n".to_owned(),
                HeadFault::Host,
            ),
            ("GET / HTTP/1.1\r\nHost: a\"\r\n\r\n".to_owned(), HeadFault::Host),
            (
                with("Content-Length: 1\r\nTransfer-Encoding: chunked"),
                HeadFault::Framing,
            ),
            (with("Content-Length: 1\r\nContent-Length: 1"), HeadFault::Framing),
            (with("Content-Length: 5, 5"), HeadFault::Framing),
            (with("Content-Length: +5"), HeadFault::Framing),
            (with("Content-Length: -1"), HeadFault::Framing),
            (with("Content-Length:"), HeadFault::Framing),
            (with("Content-Length: 9999999999999999999"), HeadFault::Framing),
            (with("Transfer-Encoding: gzip, chunked"), HeadFault::Framing),
            (with("Transfer-Encoding: xchunked"), HeadFault::Framing),
            (
                with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
                HeadFault::Framing,
            ),
            (
                "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
                HeadFault::Framing,
            ),
            (with("X : y"), HeadFault::Syntax),
            (with(" folded: y"), HeadFault::Syntax),
            (with("X: y\r\n folded"), HeadFault::Syntax),
            (with("no colon"), HeadFault::Syntax),
            (with("X: a\u{0}b"), HeadFault::Syntax),
            (with("X: a\rb"), HeadFault::Syntax),
            (
                with("A: 1\r\nB: 1\r\nC: 1\r\nD: 1\r\nE: 1\r\nF: 1\r\nG: 1"),
                HeadFault::HeadTooLarge,
            ),
            (with(&format!("A: {}", "x".repeat(600))), HeadFault::HeadTooLarge),
            (
                format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(64)),
                HeadFault::TargetTooLong,
            ),
        ];
        for (text, fault) in cases {
            assert_eq!(judge(&text), Err(fault), "{text:?}");
        }
    }

    #[test]
    fn a_target_without_end_is_refused_before_its_end() {
        let mut scan = HeadScan::default();
        let input = format!("GET /{}", "x".repeat(200));
        assert_eq!(scan.advance(input.as_bytes(), &LIMITS), Err(HeadFault::TargetTooLong));
    }

    #[test]
    fn authorities() {
        for sound in [
            "a",
            "a.example:8443",
            "127.0.0.1",
            "[::1]",
            "[::1]:80",
            "a:",
            "A_b.example.",
        ] {
            assert!(is_authority(sound.as_bytes()), "{sound}");
        }
        for unsound in [
            "", ":80", "a:b", "a:123456", "a b", "u@a", "[::1", "[::1]x", "[zz]", "a/b", "a,b:1:2", "ü",
        ] {
            assert!(!is_authority(unsound.as_bytes()), "{unsound}");
        }
    }
}
