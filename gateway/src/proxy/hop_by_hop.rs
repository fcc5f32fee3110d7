//! Header fields that end at the next hop (RFC 9110 section 7.6.1), in either direction.

use http::header::{CONNECTION, HeaderMap};

/// Fields that end at the next hop whatever `Connection` says. Transfer-Encoding is not among them: it frames the
/// message, so whoever writes the message needs it.
pub fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authentication-info"
            | "proxy-authorization"
            | "proxy-connection"
            | "http2-settings"
            | "te"
            | "trailer"
            | "upgrade"
    )
}

/// Fields that `Connection` may name and cannot remove: they frame or describe the message, bear the client's
/// credentials, or are written by the gateway. RFC 9110 section 7.6.1 forbids naming them; such a naming is ignored.
pub fn is_end_to_end(name: &str) -> bool {
    name.starts_with("x-forwarded-")
        || name.starts_with("content-")
        || name.starts_with("accept")
        || name.starts_with("access-control-")
        || name.starts_with("if-")
        || name.starts_with("sec-")
        || matches!(
            name,
            "age"
                | "allow"
                | "authorization"
                | "cache-control"
                | "cookie"
                | "date"
                | "etag"
                | "expect"
                | "expires"
                | "from"
                | "host"
                | "last-modified"
                | "location"
                | "max-forwards"
                | "origin"
                | "pragma"
                | "range"
                | "referer"
                | "retry-after"
                | "server"
                | "set-cookie"
                | "strict-transport-security"
                | "traceparent"
                | "tracestate"
                | "transfer-encoding"
                | "user-agent"
                | "vary"
                | "via"
                | "www-authenticate"
                | "x-request-id"
        )
}

/// The lower-case names that `Connection` lists and that end here, beside those that always do.
pub fn listed(headers: &HeaderMap) -> impl Iterator<Item = String> {
    options(headers)
        // Nearly every listing is one of these, and they need no look at the header fields.
        .filter(|option| {
            ![&b"close"[..], b"keep-alive", b"upgrade"]
                .iter()
                .any(|usual| option.eq_ignore_ascii_case(usual))
        })
        .filter_map(|option| std::str::from_utf8(option).ok())
        .map(str::to_ascii_lowercase)
        .filter(|name| !is_end_to_end(name) && !is_hop_by_hop(name))
}

/// Whether `Connection` lists `option`.
pub fn lists(headers: &HeaderMap, option: &str) -> bool {
    options(headers).any(|listed| listed.eq_ignore_ascii_case(option.as_bytes()))
}

fn options(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|option| !option.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn connection_takes_away_only_what_it_may() {
        let mut headers = HeaderMap::new();
        headers.append(
            CONNECTION,
            HeaderValue::from_static("close, X-Mine ,Authorization,X-Forwarded-For"),
        );
        headers.append(
            CONNECTION,
            HeaderValue::from_static("host,, X-Request-Id, content-length, te"),
        );
        assert_eq!(listed(&headers).collect::<Vec<_>>(), ["x-mine"]);
        assert!(lists(&headers, "CLOSE"));
        assert!(lists(&headers, "te"));
        assert!(!lists(&headers, "x"));
    }
}
