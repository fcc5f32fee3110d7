//! The gateway's own answers to gRPC clients.
//!
//! A client of gRPC reads the outcome of a call from `grpc-status`, which stands in trailers or, where there is no
//! message, in the head alone. So a refusal is such an answer, with the status that a program is to act on; the code of
//! the table is in `grpc-message`.

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{StatusCode, Version};
use pingora::http::{RequestHeader, ResponseHeader};

use super::refusal::Refusal;
use super::request_id::{self, RequestId};

/// Whether a request is one of gRPC over HTTP/2: `application/grpc`, with a suffix or parameters or none.
pub fn is_spoken(request: &RequestHeader) -> bool {
    let name = b"application/grpc";
    request.version == Version::HTTP_2
        && request.headers.get(CONTENT_TYPE).is_some_and(|media| {
            let (media, rest) = media
                .as_bytes()
                .split_at_checked(name.len())
                .unwrap_or((media.as_bytes(), b"x"));
            media.eq_ignore_ascii_case(name) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
        })
}

/// The status of a refused call: UNIMPLEMENTED for what nobody serves, UNAVAILABLE for what may be tried again.
fn status(refusal: Refusal) -> u8 {
    const INVALID_ARGUMENT: u8 = 3;
    const DEADLINE_EXCEEDED: u8 = 4;
    const RESOURCE_EXHAUSTED: u8 = 8;
    const FAILED_PRECONDITION: u8 = 9;
    const UNIMPLEMENTED: u8 = 12;
    const INTERNAL: u8 = 13;
    const UNAVAILABLE: u8 = 14;
    const UNAUTHENTICATED: u8 = 16;
    match refusal {
        Refusal::NotFound | Refusal::MethodNotAllowed => UNIMPLEMENTED,
        Refusal::AmbiguousPath | Refusal::InvalidTarget | Refusal::InvalidRequest => INVALID_ARGUMENT,
        Refusal::BodyTooLarge | Refusal::TargetTooLong | Refusal::HeadTooLarge => RESOURCE_EXHAUSTED,
        Refusal::RequestTimeout => DEADLINE_EXCEEDED,
        Refusal::Overloaded | Refusal::Unavailable | Refusal::UpstreamFailure | Refusal::UpstreamTimeout => UNAVAILABLE,
        Refusal::Internal => INTERNAL,
        Refusal::Unauthorized => UNAUTHENTICATED,
        Refusal::MisdirectedRequest => FAILED_PRECONDITION,
    }
}

/// The whole answer: a head that ends the stream.
///
/// # Errors
/// Pingora's, for a value that is no header value; the values here are.
pub fn head(refusal: Refusal, id: &RequestId) -> pingora::Result<ResponseHeader> {
    let mut head = ResponseHeader::build(StatusCode::OK, Some(4))?;
    head.insert_header(CONTENT_TYPE, HeaderValue::from_static("application/grpc"))?;
    head.insert_header("grpc-status", HeaderValue::from(u16::from(status(refusal))))?;
    head.insert_header("grpc-message", HeaderValue::from_static(refusal.code()))?;
    head.insert_header(request_id::WIRE_NAME, id.header_value())?;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_is_a_media_type_over_http2() {
        let mut request = RequestHeader::build("POST", b"/s/m", None).unwrap();
        for (media, expected) in [
            ("application/grpc", true),
            ("Application/gRPC+proto", true),
            ("application/grpc;x=y", true),
            ("application/grpc-web", false),
            ("application/json", false),
            ("a", false),
        ] {
            request.insert_header("content-type", media).unwrap();
            request.set_version(Version::HTTP_2);
            assert_eq!(is_spoken(&request), expected, "{media}");
            request.set_version(Version::HTTP_11);
            assert!(!is_spoken(&request));
        }
    }

    #[test]
    fn every_refusal_has_a_status_that_is_not_ok() {
        let id = RequestId::generate();
        for refusal in Refusal::ALL {
            let head = head(refusal, &id).unwrap();
            assert_eq!(head.headers["grpc-status"], status(refusal).to_string().as_str());
            assert_ne!(status(refusal), 0);
            assert_eq!(head.headers["grpc-message"], refusal.code());
        }
        assert_eq!(status(Refusal::NotFound), 12);
        assert_eq!(status(Refusal::UpstreamFailure), 14);
    }
}
