//! The header lines that decide framing and authority.

use std::ops::Range;

use memchr::memchr;

use super::{HeadFault, is_field_value, is_token};

/// A host name has at most 255 bytes, a port at most five digits.
const LONGEST_HOST: usize = 262;

/// What is known of the header lines that decide framing and authority.
#[derive(Default)]
pub(super) struct Fields {
    /// The value of Host.
    pub host: Option<Range<usize>>,
    /// The value of Content-Length.
    pub length: Option<u64>,
    /// Whether Transfer-Encoding is there; it is `chunked` then.
    pub chunked: bool,
    /// Whether Connection is there.
    pub has_connection: bool,
    /// Whether there is a `traceparent`.
    pub has_traceparent: bool,
}

impl Fields {
    /// RFC 9112 section 5: no space before the colon, no folded line; RFC 9110 section 5.5: no control byte but tab.
    pub fn add(&mut self, head: &[u8], line: Range<usize>) -> Result<(), HeadFault> {
        let bytes = head.get(line.clone()).ok_or(HeadFault::Syntax)?;
        let colon = memchr(b':', bytes).ok_or(HeadFault::Syntax)?;
        let (name, value) = (
            bytes.get(..colon).unwrap_or_default(),
            bytes.get(colon + 1..).unwrap_or_default(),
        );
        if !is_token(name) || !is_field_value(value) {
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
            10 if name.eq_ignore_ascii_case(b"connection") => self.has_connection = true,
            11 if name.eq_ignore_ascii_case(b"traceparent") => self.has_traceparent = true,
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
pub(in crate::listen) fn parse_length(value: &[u8]) -> Result<u64, HeadFault> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err(HeadFault::Framing);
    }
    Ok(value
        .iter()
        .fold(0, |length, digit| length * 10 + u64::from(digit - b'0')))
}

/// RFC 9110 section 7.2: a host name, an IPv4 address or an IPv6 address in brackets, and perhaps a port. What RFC 3986
/// section 3.2.2 allows beside these (escapes, commas, quotes) names no host in DNS and is refused.
pub(in crate::listen) fn is_authority(value: &[u8]) -> bool {
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
