//! The head of an HTTP/1 request, read strictly from the bytes that came (RFC 9112, sections 2 to 6).
//!
//! Pingora's own reader mends what it can: it escapes a target, drops a fragment, drops a Content-Length beside a
//! Transfer-Encoding. Whatever it mends would reach an upstream changed, or would be framed differently by the next
//! hop, so a head is judged here first and Pingora only ever sees one that needs no mending.

pub(super) mod fields;
#[cfg(test)]
mod tests;

use std::ops::Range;

use http::StatusCode;
use memchr::memchr;

use fields::Fields;

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

impl HeadFault {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Syntax,
        Self::Version,
        Self::Method,
        Self::Target,
        Self::Host,
        Self::Framing,
        Self::TargetTooLong,
        Self::HeadTooLarge,
        Self::Timeout,
    ];

    /// The label of the metric.
    pub fn label(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::Version => "version",
            Self::Method => "method",
            Self::Target => "target",
            Self::Host => "host",
            Self::Framing => "framing",
            Self::TargetTooLong => "target_too_long",
            Self::HeadTooLarge => "head_too_large",
            Self::Timeout => "timeout",
        }
    }

    /// The status of an answer to it.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Syntax | Self::Version | Self::Target | Self::Host | Self::Framing => StatusCode::BAD_REQUEST,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

/// How the end of a request's body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// There is no body.
    None,
    /// Exactly so many bytes, at least one.
    Exactly(u64),
    /// Chunks, or the frames of an HTTP/2 stream: any number of bytes.
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
    /// Whether there is a Connection field, whatever it says.
    pub has_connection: bool,
    /// Whether there is a `traceparent`, so that the request may belong to a trace of its client's.
    pub has_traceparent: bool,
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
        has_connection: fields.has_connection,
        has_traceparent: fields.has_traceparent,
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
    if method.len() > LONGEST_METHOD || !is_token(method) {
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
    if !is_target(target) {
        return Err(HeadFault::Target);
    }
    Ok((
        line.start..line.start + method_end,
        line.start + method_end + 1..line.start + version_start,
        http11,
    ))
}

/// Whether a target has only bytes that can be forwarded as they came: visible ASCII without `#`, and without the three
/// bytes that RFC 3986 allows nowhere and that the URI type under Pingora refuses; a backquote it refuses in a path alone.
pub(super) fn is_target(target: &[u8]) -> bool {
    let path = memchr(b'?', target).and_then(|end| target.get(..end)).unwrap_or(target);
    // All bytes are looked at: without an early end the compiler takes many at once.
    let sound = target.iter().fold(true, |sound, &byte| {
        sound & byte.is_ascii_graphic() & (byte != b'#') & (byte != b'"') & (byte != b'<') & (byte != b'>')
    });
    sound && !target.is_empty() && memchr(b'`', path).is_none()
}

/// RFC 9110 section 5.6.2, one byte or more.
pub(super) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| TOKEN_BYTES[usize::from(byte)])
}

const TOKEN_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut letters: &[u8] = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    while let [letter, rest @ ..] = letters {
        table[*letter as usize] = true;
        letters = rest;
    }
    table
};

/// Whether a field's value has no control byte but tab (RFC 9110 section 5.5).
pub(super) fn is_field_value(value: &[u8]) -> bool {
    value.iter().fold(true, |sound, &byte| {
        sound & ((byte >= b' ') | (byte == b'\t')) & (byte != 0x7f)
    })
}
