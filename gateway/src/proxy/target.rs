//! Step 2, target: the request target as it came, in the one form that is classified and forwarded.
//!
//! Targets that Pingora would change never get here: [`crate::listen::head`] has refused a space, control byte,
//! non-ASCII byte or fragment. Whether the path's bytes and escapes are sound is the classifier's to say.

use super::refusal::Refusal;
use crate::listen::Connection;

/// What a target asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// Origin-form, or absolute-form for this very host, without its scheme and authority: path and query as they
    /// came. The flag says that the origin-form is not what the client sent.
    Origin { bytes: &'a [u8], was_absolute: bool },
    /// `OPTIONS *`: about the gateway itself (RFC 9110 section 9.3.7).
    Server,
}

/// The target of the request that `connection` holds.
///
/// # Errors
/// [`Refusal::InvalidTarget`] for any other form, and for an absolute-form whose authority is not the Host: whom the
/// client meant is then a matter of opinion.
pub fn of(connection: &Connection) -> Result<Target<'_>, Refusal> {
    let head = connection.head().ok_or(Refusal::Internal)?;
    let bytes = connection.head_bytes();
    let part = |range: &std::ops::Range<usize>| bytes.get(range.clone()).ok_or(Refusal::Internal);
    parse(part(&head.method)?, part(&head.target)?, part(&head.host)?)
}

/// RFC 9112 section 3.2: origin-form; absolute-form where its authority is the Host; `*` with OPTIONS alone.
fn parse<'a>(method: &[u8], target: &'a [u8], host: &[u8]) -> Result<Target<'a>, Refusal> {
    if target.starts_with(b"/") {
        return Ok(Target::Origin {
            bytes: target,
            was_absolute: false,
        });
    }
    if target == b"*" {
        return if method == b"OPTIONS" {
            Ok(Target::Server)
        } else {
            Err(Refusal::InvalidTarget)
        };
    }
    let rest = strip_scheme(target).ok_or(Refusal::InvalidTarget)?;
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?'))
        .unwrap_or(rest.len());
    let (authority, bytes) = rest.split_at(end);
    // Without a path the origin-form would have to be made up ("/?x" for "?x"), and the target is never rewritten.
    if !authority.eq_ignore_ascii_case(host) || !bytes.starts_with(b"/") {
        return Err(Refusal::InvalidTarget);
    }
    Ok(Target::Origin {
        bytes,
        was_absolute: true,
    })
}

fn strip_scheme(target: &[u8]) -> Option<&[u8]> {
    [&b"http://"[..], b"https://"].into_iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let origin = |bytes: &'static str, was_absolute| {
            Ok(Target::Origin {
                bytes: bytes.as_bytes(),
                was_absolute,
            })
        };
        let refused = Err(Refusal::InvalidTarget);
        for (method, target, expected) in [
            ("GET", "/a?b", origin("/a?b", false)),
            ("GET", "//evil.example/a", origin("//evil.example/a", false)),
            ("GET", "http://gw/a?b", origin("/a?b", true)),
            ("GET", "HTTP://GW/a", origin("/a", true)),
            ("GET", "https://gw//a", origin("//a", true)),
            ("GET", "http://other/a", refused),
            ("GET", "http://gw:80/a", refused),
            ("GET", "http://u@gw/a", refused),
            ("GET", "http://gw?x=1", refused),
            ("GET", "http://gw", refused),
            ("GET", "http:///a", refused),
            ("GET", "ftp://gw/a", refused),
            ("GET", "*", refused),
            ("OPTIONS", "*", Ok(Target::Server)),
            ("GET", "a/b", refused),
            ("GET", "?q", refused),
            ("GET", "gw:80", refused),
        ] {
            assert_eq!(
                parse(method.as_bytes(), target.as_bytes(), b"gw"),
                expected,
                "{method} {target}"
            );
        }
    }
}
