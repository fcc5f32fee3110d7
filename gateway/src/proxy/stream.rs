//! Which exchanges are streams, that may be silent and last longer than an ordinary answer.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use pingora::http::{RequestHeader, ResponseHeader};

use crate::upstream::{Span, Timeouts};

/// How long the exchange with this answer may be silent and last.
pub fn span(response: &ResponseHeader, timeouts: &Timeouts) -> Span {
    if response.status == StatusCode::SWITCHING_PROTOCOLS {
        timeouts.tunnel
    } else if is_stream(response) {
        timeouts.stream
    } else {
        timeouts.body
    }
}

/// Whether an answer is one: server-sent events, gRPC, or JSON in lines.
pub fn is_stream(response: &ResponseHeader) -> bool {
    first(&response.headers, CONTENT_TYPE).is_some_and(is_stream_type)
}

/// Whether a request announces one.
pub fn is_wanted(request: &RequestHeader) -> bool {
    first(&request.headers, ACCEPT).is_some_and(is_stream_type)
        || first(&request.headers, CONTENT_TYPE).is_some_and(|media| starts(media, b"application/grpc"))
}

fn first(headers: &HeaderMap, name: http::HeaderName) -> Option<&[u8]> {
    headers.get(name).map(http::HeaderValue::as_bytes)
}

fn is_stream_type(media: &[u8]) -> bool {
    [
        &b"text/event-stream"[..],
        b"application/grpc",
        b"application/x-ndjson",
        b"application/jsonl",
        b"application/stream+json",
        b"multipart/x-mixed-replace",
    ]
    .iter()
    .any(|name| starts(media, name))
}

/// Media types are compared without case (RFC 9110 section 8.3.1); parameters and gRPC's suffix may follow.
fn starts(media: &[u8], name: &[u8]) -> bool {
    media
        .get(..name.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(name))
        && media
            .get(name.len())
            .is_none_or(|next| matches!(next, b';' | b' ' | b'\t' | b'+' | b','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_known_by_their_media_type() {
        for (media, expected) in [
            ("text/event-stream", true),
            ("Text/Event-Stream; charset=utf-8", true),
            ("application/grpc+proto", true),
            ("application/grpc-web", false),
            ("application/x-ndjson", true),
            ("application/json", false),
            ("text/event-streams", false),
            ("", false),
        ] {
            let mut response = ResponseHeader::build(200, None).unwrap();
            response.insert_header(CONTENT_TYPE, media).unwrap();
            assert_eq!(is_stream(&response), expected, "{media}");
            let mut request = RequestHeader::build("GET", b"/", None).unwrap();
            request.insert_header(ACCEPT, media).unwrap();
            assert_eq!(is_wanted(&request), expected, "{media}");
        }
    }
}
