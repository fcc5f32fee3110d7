//! The head of an HTTP/2 request, judged by the rules that hold for HTTP/1 (RFC 9113 section 8).
//!
//! The library below has read the fields and refused what is malformed by its own rules. What it lets through is looked
//! at again, since the request may go on over HTTP/1: nothing may pass here that would not pass there.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Method, Uri};
use pingora::http::RequestHeader;

use super::client::{Link, StreamClient};
use crate::listen::head::fields::{is_authority, parse_length};
use crate::listen::head::{BodyLength, HeadFault, HeadLimits, is_target, is_token};

/// What each field costs beside its bytes (RFC 9113 section 6.5.2).
const FIELD_OVERHEAD: usize = 32;

/// A head that is sound: as Pingora takes it, and the client that it came from.
#[derive(Debug)]
pub(super) struct SoundHead {
    /// The request with an origin-form target, one Host and one Cookie.
    pub request: RequestHeader,
    /// The client, also among the request's extensions.
    pub client: Arc<StreamClient>,
}

/// Judges a head. `ends` tells whether the stream has ended with it.
pub(super) fn judge(mut parts: Parts, ends: bool, link: &Link, limits: &HeadLimits) -> Result<SoundHead, HeadFault> {
    let target = judge_target(&parts, limits)?;
    judge_size(&parts, limits)?;
    judge_fields(&parts.headers)?;
    judge_scheme(&parts)?;
    let host = authority(&parts)?;
    let body = body_length(&parts.headers, ends)?;
    join_cookies(&mut parts.headers)?;
    parts.headers.insert(HOST, host);
    // Scheme and authority have been used up; with them gone, the target has one form whatever comes next.
    let path = parts.uri.path_and_query().cloned().ok_or(HeadFault::Target)?;
    parts.uri = Uri::from(path);
    let client = Arc::new(StreamClient::new(link.clone(), parts.method.clone(), target, body));
    parts.extensions.insert(Arc::clone(&client));
    Ok(SoundHead {
        request: RequestHeader::from(parts),
        client,
    })
}

fn judge_target(parts: &Parts, limits: &HeadLimits) -> Result<Bytes, HeadFault> {
    if !is_token(parts.method.as_str().as_bytes()) {
        return Err(HeadFault::Syntax);
    }
    if parts.method == Method::CONNECT || parts.method == Method::TRACE {
        return Err(HeadFault::Method);
    }
    let target = parts.uri.path_and_query().ok_or(HeadFault::Target)?.as_str();
    if target.len() > limits.target {
        return Err(HeadFault::TargetTooLong);
    }
    let is_of_the_server = target == "*" && parts.method == Method::OPTIONS;
    if !is_of_the_server && !target.starts_with('/') {
        return Err(HeadFault::Target);
    }
    if !is_target(target.as_bytes()) {
        return Err(HeadFault::Target);
    }
    Ok(Bytes::copy_from_slice(target.as_bytes()))
}

fn judge_size(parts: &Parts, limits: &HeadLimits) -> Result<(), HeadFault> {
    let size: usize = parts
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD)
        .sum();
    let target = parts.uri.path_and_query().map_or(0, |target| target.as_str().len());
    // Cookies may come in any number of fields (RFC 9113 section 8.2.3) and are one to whoever counts lines.
    let cookies = parts.headers.get_all(COOKIE).iter().count().saturating_sub(1);
    if size + target > limits.head || parts.headers.len() - cookies > limits.headers {
        return Err(HeadFault::HeadTooLarge);
    }
    Ok(())
}

/// RFC 9113 section 8.2.1: no white space around a value. Section 8.2.2: no field of the connection.
fn judge_fields(headers: &HeaderMap) -> Result<(), HeadFault> {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    for (name, value) in headers {
        let value = value.as_bytes();
        if is_blank(value.first()) || is_blank(value.last()) || !is_token(name.as_str().as_bytes()) {
            return Err(HeadFault::Syntax);
        }
    }
    let of_the_connection = ["connection", "keep-alive", "proxy-connection", "upgrade"];
    if of_the_connection.iter().any(|name| headers.contains_key(*name)) {
        return Err(HeadFault::Syntax);
    }
    if headers.contains_key(TRANSFER_ENCODING) {
        return Err(HeadFault::Framing);
    }
    Ok(())
}

/// RFC 9113 section 8.3.1. The library keeps the scheme only beside an authority.
fn judge_scheme(parts: &Parts) -> Result<(), HeadFault> {
    match (parts.uri.authority(), parts.uri.scheme_str()) {
        (None, _) | (_, Some("http" | "https")) => Ok(()),
        _ => Err(HeadFault::Syntax),
    }
}

/// RFC 9113 section 8.3.1: `:authority`, and Host where it is there, name one host.
fn authority(parts: &Parts) -> Result<HeaderValue, HeadFault> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(HeadFault::Host);
    }
    let value = match (parts.uri.authority(), host) {
        (Some(authority), None) => HeaderValue::from_str(authority.as_str()).map_err(|_| HeadFault::Host)?,
        (None, Some(host)) => host.clone(),
        (Some(authority), Some(host)) if authority.as_str().as_bytes() == host.as_bytes() => host.clone(),
        _ => return Err(HeadFault::Host),
    };
    if is_authority(value.as_bytes()) {
        Ok(value)
    } else {
        Err(HeadFault::Host)
    }
}

/// RFC 9113 section 8.1.1. Content-Length is sent on as it came, so it is held to what HTTP/1 takes; the library holds
/// the body to it.
fn body_length(headers: &HeaderMap, ends: bool) -> Result<BodyLength, HeadFault> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let length = match (lengths.next(), lengths.next()) {
        (None, _) => None,
        (Some(length), None) => Some(parse_length(length.as_bytes())?),
        (Some(_), Some(_)) => return Err(HeadFault::Framing),
    };
    match (length, ends) {
        (None | Some(0), true) => Ok(BodyLength::None),
        (Some(_), true) => Err(HeadFault::Framing),
        (Some(length), false) => Ok(BodyLength::Exactly(length)),
        (None, false) => Ok(BodyLength::Chunked),
    }
}

/// RFC 9113 section 8.2.3: what was split to compress better is one field again before it leaves HTTP/2.
fn join_cookies(headers: &mut HeaderMap) -> Result<(), HeadFault> {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return Ok(());
    }
    let crumbs: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    let whole = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])).map_err(|_| HeadFault::Syntax)?;
    headers.insert(COOKIE, whole);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    const LIMITS: HeadLimits = HeadLimits {
        target: 64,
        head: 1024,
        headers: 8,
    };

    fn link() -> Link {
        Link {
            peer: "192.0.2.1:1".parse().unwrap(),
            peer_value: HeaderValue::from_static("192.0.2.1"),
            is_secure: true,
        }
    }

    fn judged(method: &str, uri: &str, fields: &[(&str, &str)], ends: bool) -> Result<SoundHead, HeadFault> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            // Pieces of a value are not trimmed here, as they are not by the library.
            request = request.header(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        judge(request.body(()).unwrap().into_parts().0, ends, &link(), &LIMITS)
    }

    #[test]
    fn a_sound_head_has_one_form() {
        let fields = [("cookie", "a=1"), ("accept", "x"), ("cookie", "b=2"), ("host", "gw:1")];
        let sound = judged("GET", "https://gw:1/a%2Fb?c=`", &fields, true).unwrap();
        assert_eq!(sound.request.raw_path(), b"/a%2Fb?c=`");
        assert_eq!(sound.client.target(), b"/a%2Fb?c=`");
        assert_eq!(sound.request.headers["cookie"], "a=1; b=2");
        assert_eq!(sound.request.headers.get_all("cookie").iter().count(), 1);
        assert_eq!(sound.request.headers["host"], "gw:1");
        assert!(sound.request.uri.authority().is_none());
        assert_eq!(sound.client.body(), BodyLength::None);
    }

    #[test]
    fn bodies() {
        for (fields, ends, expected) in [
            (&[("content-length", "5")][..], false, Ok(BodyLength::Exactly(5))),
            (&[], false, Ok(BodyLength::Chunked)),
            (&[("content-length", "0")], true, Ok(BodyLength::None)),
            (&[("content-length", "5")], true, Err(HeadFault::Framing)),
            (&[("content-length", "+5")], false, Err(HeadFault::Framing)),
            (&[("content-length", "5, 5")], false, Err(HeadFault::Framing)),
            (
                &[("content-length", "5"), ("content-length", "5")],
                false,
                Err(HeadFault::Framing),
            ),
        ] {
            let found = judged("POST", "https://gw/", fields, ends).map(|sound| sound.client.body());
            assert_eq!(found, expected, "{fields:?}");
        }
    }

    #[test]
    fn what_would_not_pass_over_http1_does_not_pass() {
        let long = format!("https://gw/{}", "a".repeat(64));
        let many: Vec<(String, String)> = (0..9).map(|n| (format!("x-{n}"), "y".to_owned())).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let large = "z".repeat(1000);
        for (method, uri, fields, expected) in [
            ("CONNECT", "https://gw/", &[][..], HeadFault::Method),
            ("TRACE", "https://gw/", &[], HeadFault::Method),
            ("GET", "*", &[("host", "gw")], HeadFault::Target),
            ("GET", "https://gw/a\"b", &[], HeadFault::Target),
            ("GET", &long, &[], HeadFault::TargetTooLong),
            ("GET", "ftp://gw/", &[], HeadFault::Syntax),
            ("GET", "/", &[], HeadFault::Host),
            ("GET", "/", &[("host", "a"), ("host", "a")], HeadFault::Host),
            ("GET", "https://gw/", &[("host", "other")], HeadFault::Host),
            ("GET", "/", &[("host", "a,b")], HeadFault::Host),
            ("GET", "https://gw/", &[("x", " y")], HeadFault::Syntax),
            ("GET", "https://gw/", &[("x", "y\t")], HeadFault::Syntax),
            ("GET", "https://gw/", &[("connection", "close")], HeadFault::Syntax),
            (
                "GET",
                "https://gw/",
                &[("transfer-encoding", "chunked")],
                HeadFault::Framing,
            ),
            ("GET", "https://gw/", &many, HeadFault::HeadTooLarge),
            ("GET", "https://gw/", &[("x", &large)], HeadFault::HeadTooLarge),
        ] {
            let found = judged(method, uri, fields, true).map(|_| ());
            assert_eq!(found, Err(expected), "{method} {uri} {fields:?}");
        }
        assert!(judged("OPTIONS", "*", &[("host", "gw")], true).is_ok());
    }
}
