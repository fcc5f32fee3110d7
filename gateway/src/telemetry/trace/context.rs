//! W3C Trace Context: the ids of a trace and a span, and the `traceparent` field that carries them.

use std::fmt;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};

/// The field (W3C Trace Context, section 3.2).
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// What else a trace's systems tell each other (section 3.3); it passes as it came, or goes with a trace that ends here.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The caller may have recorded its span.
pub const SAMPLED: u8 = 1;
/// The trace's id is random in its lower half.
pub const RANDOM: u8 = 2;

/// The length of the field's version 00; later versions may be longer.
const LENGTH: usize = 55;

/// A trace's id as it is written: 32 digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId([u8; 32]);

/// A span's id as it is written: 16 digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId([u8; 16]);

impl TraceId {
    /// A new id, of no meaning and no secret.
    pub fn generate() -> Self {
        let mut digits = [0; 32];
        write_digits(&mut digits, fastrand::u128(1..));
        Self(digits)
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// As bits.
    pub fn to_bits(self) -> u128 {
        read_digits(&self.0)
    }

    /// Where it lies among all ids, by its lower half alone: the same in all systems that sample a share of them.
    pub(super) fn position(self) -> u64 {
        (self.to_bits() & u128::from(u64::MAX)) as u64
    }
}

impl SpanId {
    /// A new id.
    pub fn generate() -> Self {
        let mut digits = [0; 16];
        write_digits(&mut digits, u128::from(fastrand::u64(1..)));
        Self(digits)
    }

    /// As bits.
    pub fn to_bits(self) -> u64 {
        read_digits(&self.0) as u64
    }
}

/// The value of a `traceparent` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace: TraceId,
    /// The caller's span.
    pub span: SpanId,
    /// The caller's flags.
    pub flags: u8,
}

impl TraceParent {
    /// What a request's fields say; none where the field is missing, repeated or malformed.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next()?;
        values.next().is_none().then(|| Self::parse(value.as_bytes())).flatten()
    }

    /// Section 3.2.2: `00-{trace}-{span}-{flags}`; of later versions what version 00 has, where they begin like it.
    fn parse(value: &[u8]) -> Option<Self> {
        let (known, later) = value.split_at_checked(LENGTH)?;
        let (version, rest) = known.split_at_checked(2)?;
        let is_allowed = match version {
            b"00" => later.is_empty(),
            b"ff" => false,
            _ => later.is_empty() || later.starts_with(b"-"),
        };
        let rest = rest.strip_prefix(b"-")?;
        let (trace, rest) = rest.split_first_chunk::<32>()?;
        let (span, rest) = rest.strip_prefix(b"-")?.split_first_chunk::<16>()?;
        let flags = rest.strip_prefix(b"-")?;
        let digits = [version, trace, span, flags].concat();
        let are_digits = digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let are_set = trace.iter().any(|&byte| byte != b'0') && span.iter().any(|&byte| byte != b'0');
        (is_allowed && are_digits && are_set).then(|| Self {
            trace: TraceId(*trace),
            span: SpanId(*span),
            flags: read_digits(flags) as u8,
        })
    }

    /// The field's value.
    pub fn header_value(&self) -> HeaderValue {
        // Digits and dashes are a header value.
        HeaderValue::from_maybe_shared(Bytes::from(self.to_string())).unwrap_or(HeaderValue::from_static("00"))
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = std::str::from_utf8(&self.span.0).unwrap_or_default();
        write!(formatter, "00-{}-{span}-{:02x}", self.trace.as_str(), self.flags)
    }
}

fn write_digits(digits: &mut [u8], mut bits: u128) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef".get((bits & 15) as usize).copied().unwrap_or(b'0');
        bits >>= 4;
    }
}

fn read_digits(digits: &[u8]) -> u128 {
    digits.iter().fold(0, |bits, &digit| {
        bits << 4 | u128::from(char::from(digit).to_digit(16).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn the_field_is_read_as_the_recommendation_has_it() {
        let sound = |value: &str| TraceParent::parse(value.as_bytes());
        let parent = sound(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
        assert_eq!(parent.trace.as_str(), TRACE);
        assert_eq!(parent.trace.to_bits(), 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!(parent.span.to_bits(), 0xb7ad_6b71_6920_3331);
        assert_eq!(parent.flags, SAMPLED);
        assert_eq!(parent.to_string(), format!("00-{TRACE}-{SPAN}-01"));
        assert_eq!(sound(&format!("00-{TRACE}-{SPAN}-00")).unwrap().flags, 0);
        for later in ["cc-TRACE-SPAN-01", "cc-TRACE-SPAN-01-what-the-future-will-be-like"] {
            let later = later.replace("TRACE", TRACE).replace("SPAN", SPAN);
            assert!(sound(&later).is_some(), "{later}");
        }
        for unsound in [
            "",
            "00",
            "00-TRACE-SPAN",
            "00-TRACE-SPAN-1",
            "00-TRACE-SPAN-01-more",
            "00-TRACE-SPAN-01.",
            "00-TRACE-SPAN-0g",
            "00-TRACE-SPAN-0A",
            "cc-TRACE-SPAN-01.what",
            "ff-TRACE-SPAN-01",
            "0-TRACE-SPAN-01",
            "00_TRACE-SPAN-01",
            "00-00000000000000000000000000000000-SPAN-01",
            "00-TRACE-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-SPAN-01",
            " 00-TRACE-SPAN-01",
        ] {
            let unsound = unsound.replace("TRACE", TRACE).replace("SPAN", SPAN);
            assert_eq!(sound(&unsound), None, "{unsound}");
        }
    }

    #[test]
    fn a_repeated_field_says_nothing() {
        let mut headers = HeaderMap::new();
        assert_eq!(TraceParent::of(&headers), None);
        let value = HeaderValue::from_str(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
        headers.append(TRACEPARENT, value.clone());
        assert!(TraceParent::of(&headers).is_some());
        headers.append(TRACEPARENT, value);
        assert_eq!(TraceParent::of(&headers), None);
    }

    #[test]
    fn new_ids_are_digits_and_differ() {
        let (one, other) = (TraceId::generate(), TraceId::generate());
        assert_ne!(one, other);
        assert_eq!(one.as_str().len(), 32);
        assert_eq!(format!("{:032x}", one.to_bits()), one.as_str());
    }
}
