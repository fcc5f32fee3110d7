//! The name of one request, the same in the access log, at the upstream and at the client.

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};

/// `X-Request-Id`.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The name as it is written on HTTP/1 connections.
pub const WIRE_NAME: &str = "X-Request-Id";

/// The longest id that is taken over from a trusted proxy, in bytes.
const LONGEST: usize = 128;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// A request's id: 128 random bits in hexadecimal, or the id that a trusted proxy gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// A new id. It is unique, not secret: the generator is fast and not made for cryptography.
    pub fn generate() -> Self {
        let bits = (u128::from(fastrand::u64(..)) << 64) | u128::from(fastrand::u64(..));
        let mut text = Vec::with_capacity(32);
        for byte in bits.to_be_bytes() {
            text.extend([byte >> 4, byte & 15].map(|digit| HEX.get(usize::from(digit)).copied().unwrap_or(b'0')));
        }
        // Hexadecimal digits are a header value.
        Self(HeaderValue::from_maybe_shared(Bytes::from(text)).unwrap_or(HeaderValue::from_static("0")))
    }

    /// The id that a trusted proxy gave: 1 to 128 bytes of letters, digits, `.`, `_` and `-`, so that it can stand in
    /// a log line, a header and a JSON text as it is.
    pub fn accept(value: &HeaderValue) -> Option<Self> {
        let bytes = value.as_bytes();
        let sound = (1..=LONGEST).contains(&bytes.len())
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte));
        sound.then(|| Self(value.clone()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// As a header's value; shares the bytes.
    pub fn header_value(&self) -> HeaderValue {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_ids_are_32_digits_and_differ() {
        let (one, other) = (RequestId::generate(), RequestId::generate());
        assert_eq!(one.as_str().len(), 32);
        assert!(one.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(one, other);
    }

    #[test]
    fn only_plain_ids_are_taken_over() {
        for sound in ["a", "A-b_c.9", &"x".repeat(128)] {
            assert_eq!(
                RequestId::accept(&HeaderValue::from_str(sound).unwrap())
                    .unwrap()
                    .as_str(),
                sound
            );
        }
        for unsound in ["", "a b", "a\tb", "a\"b", "a/b", &"x".repeat(129)] {
            assert_eq!(
                RequestId::accept(&HeaderValue::from_str(unsound).unwrap()),
                None,
                "{unsound}"
            );
        }
        assert_eq!(RequestId::accept(&HeaderValue::from_bytes(b"\xff").unwrap()), None);
    }
}
