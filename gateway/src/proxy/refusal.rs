//! Every answer that the gateway makes itself: one closed table of status, code and text.
//!
//! What a client reads is fixed here, so no address, URL or upstream text can get into it; the cause goes to the log.
//! Internal-only and unknown paths are the same row, so their answers differ in the request id alone.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::HeaderValue;
use pingora::http::ResponseHeader;
use pingora::protocols::http::date::get_cached_date;

use super::request_id::{self, RequestId};
use crate::listen::HeadFault;

/// Why a request is not answered by an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The path is unknown, or internal-only.
    NotFound,
    /// Another reading of the path has another owner.
    AmbiguousPath,
    /// The target is not an origin-form target that every hop reads alike.
    InvalidTarget,
    /// The head or the body is not HTTP/1.
    InvalidRequest,
    /// CONNECT or TRACE.
    MethodNotAllowed,
    /// The body is over its limit.
    BodyTooLarge,
    /// The target is over its limit.
    TargetTooLong,
    /// The head is over its limit.
    HeadTooLarge,
    /// The client was too slow.
    RequestTimeout,
    /// The family has as many requests in flight as it may have.
    Overloaded,
    /// The family has no ready endpoint, or is switched off.
    Unavailable,
    /// The upstream could not be reached, or did not speak HTTP.
    UpstreamFailure,
    /// The upstream did not answer in time.
    UpstreamTimeout,
    /// A fault of the gateway's own.
    Internal,
    /// The admin listener's token was not shown. On the public listener nobody is asked for anything.
    Unauthorized,
    /// The admin listener does not answer to this Host.
    MisdirectedRequest,
}

/// What becomes of a connection after the gateway's own answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It closes.
    Close,
    /// It waits for another request.
    KeepAlive,
}

/// The methods that the gateway forwards, as RFC 9110 section 15.5.6 wants them beside a 405.
pub const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

impl Refusal {
    /// All rows, in the order of [`Self::index`].
    pub const ALL: [Self; 16] = [
        Self::NotFound,
        Self::AmbiguousPath,
        Self::InvalidTarget,
        Self::InvalidRequest,
        Self::MethodNotAllowed,
        Self::BodyTooLarge,
        Self::TargetTooLong,
        Self::HeadTooLarge,
        Self::RequestTimeout,
        Self::Overloaded,
        Self::Unavailable,
        Self::UpstreamFailure,
        Self::UpstreamTimeout,
        Self::Internal,
        Self::Unauthorized,
        Self::MisdirectedRequest,
    ];

    /// Whether the public listener gives this answer.
    pub fn is_public(self) -> bool {
        !matches!(self, Self::Unauthorized | Self::MisdirectedRequest)
    }

    /// The row's place in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The status of the answer.
    pub fn status(self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AmbiguousPath | Self::InvalidTarget | Self::InvalidRequest => StatusCode::BAD_REQUEST,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::Overloaded | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::UpstreamFailure => StatusCode::BAD_GATEWAY,
            Self::UpstreamTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::MisdirectedRequest => StatusCode::MISDIRECTED_REQUEST,
        }
    }

    /// The code in the envelope; also the label of the metric and the field of the access log.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::AmbiguousPath => "ambiguous_path",
            Self::InvalidTarget => "invalid_target",
            Self::InvalidRequest => "invalid_request",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::BodyTooLarge => "body_too_large",
            Self::TargetTooLong => "target_too_long",
            Self::HeadTooLarge => "head_too_large",
            Self::RequestTimeout => "request_timeout",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
            Self::UpstreamFailure => "upstream_failure",
            Self::UpstreamTimeout => "upstream_timeout",
            Self::Internal => "internal_error",
            Self::Unauthorized => "unauthorized",
            Self::MisdirectedRequest => "misdirected_request",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::NotFound => "There is nothing at this path.",
            Self::AmbiguousPath => "The path can be read in more than one way.",
            Self::InvalidTarget => "The request target is not valid.",
            Self::InvalidRequest => "The request is not valid HTTP.",
            Self::MethodNotAllowed => "The method is not allowed.",
            Self::BodyTooLarge => "The request body is too large.",
            Self::TargetTooLong => "The request target is too long.",
            Self::HeadTooLarge => "The request header fields are too large.",
            Self::RequestTimeout => "The request took too long to arrive.",
            Self::Overloaded => "Too many requests are in progress. Try again shortly.",
            Self::Unavailable => "The service is not available. Try again shortly.",
            Self::UpstreamFailure => "The service did not give a valid answer.",
            Self::UpstreamTimeout => "The service did not answer in time.",
            Self::Internal => "The request could not be completed.",
            Self::Unauthorized => "This needs the token of the admin listener.",
            Self::MisdirectedRequest => "The admin listener does not answer to this host name.",
        }
    }

    /// Seconds after which a client may try again.
    fn retry_after(self) -> Option<HeaderValue> {
        match self {
            Self::Overloaded => Some(HeaderValue::from_static("1")),
            Self::Unavailable => Some(HeaderValue::from_static("5")),
            _ => None,
        }
    }

    /// The envelope.
    pub fn body(self, id: &RequestId) -> Bytes {
        [
            r#"{"error":{"code":""#,
            self.code(),
            r#"","message":""#,
            self.text(),
            r#""},"requestId":""#,
            id.as_str(),
            r#""}"#,
        ]
        .concat()
        .into()
    }

    /// The fields of the answer with a body of so many bytes, but for Date and Connection.
    fn fields(self, id: &RequestId, length: usize) -> impl Iterator<Item = (&'static str, HeaderValue)> {
        let allowed = (self == Self::MethodNotAllowed).then_some(ALLOWED_METHODS);
        [
            ("Content-Type", Some(JSON)),
            ("Content-Length", Some(HeaderValue::from(length))),
            ("Cache-Control", Some(NO_STORE)),
            (request_id::WIRE_NAME, Some(id.header_value())),
            ("Retry-After", self.retry_after()),
            ("Allow", allowed),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }

    /// The head for a body of so many bytes; Pingora appends Date and Connection.
    ///
    /// # Errors
    /// Pingora's, for a value that is no header value; the values here are.
    pub fn head(self, id: &RequestId, length: usize) -> pingora::Result<ResponseHeader> {
        let mut head = ResponseHeader::build(self.status(), Some(8))?;
        for (name, value) in self.fields(id, length) {
            head.insert_header(name, value)?;
        }
        Ok(head)
    }

    /// The whole answer with this [`body`](Self::body), which a HEAD is not sent, as it leaves on a connection that Pingora
    /// does not know: the same fields in the same order.
    pub fn message(self, id: &RequestId, body: &[u8], with_body: bool, then: Then) -> Bytes {
        let status = self.status();
        let mut message = BytesMut::with_capacity(512 + body.len());
        let mut write = |text: &[u8]| message.extend_from_slice(text);
        write(b"HTTP/1.1 ");
        write(status.as_str().as_bytes());
        write(b" ");
        write(status.canonical_reason().unwrap_or_default().as_bytes());
        for (name, value) in self.fields(id, body.len()) {
            write(b"\r\n");
            write(name.as_bytes());
            write(b": ");
            write(value.as_bytes());
        }
        write(b"\r\nDate: ");
        write(get_cached_date().as_bytes());
        write(match then {
            Then::Close => b"\r\nConnection: close\r\n\r\n",
            Then::KeepAlive => b"\r\nConnection: keep-alive\r\n\r\n",
        });
        if with_body {
            write(body);
        }
        message.freeze()
    }
}

impl From<HeadFault> for Refusal {
    fn from(fault: HeadFault) -> Self {
        match fault {
            HeadFault::Syntax | HeadFault::Version | HeadFault::Host | HeadFault::Framing => Self::InvalidRequest,
            HeadFault::Method => Self::MethodNotAllowed,
            HeadFault::Target => Self::InvalidTarget,
            HeadFault::TargetTooLong => Self::TargetTooLong,
            HeadFault::HeadTooLarge => Self::HeadTooLarge,
            HeadFault::Timeout => Self::RequestTimeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_and_in_order() {
        let mut codes = std::collections::HashSet::new();
        for (index, refusal) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal.index(), index);
            assert!(codes.insert(refusal.code()), "{} stands twice", refusal.code());
        }
    }

    #[test]
    fn bodies_are_the_envelope() {
        let id = RequestId::generate();
        for refusal in Refusal::ALL {
            let body: serde_json::Value = serde_json::from_slice(&refusal.body(&id)).unwrap();
            assert_eq!(body["error"]["code"], refusal.code());
            assert_eq!(body["requestId"], id.as_str());
            assert_eq!(body.as_object().unwrap().len(), 2);
            assert_eq!(body["error"].as_object().unwrap().len(), 2);
        }
    }

    #[test]
    fn both_ways_of_writing_an_answer_have_the_same_fields() {
        let id = RequestId::generate();
        for refusal in Refusal::ALL {
            let body = refusal.body(&id);
            let mut wire = Vec::new();
            refusal.head(&id, body.len()).unwrap().header_to_h1_wire(&mut wire);
            let message = refusal.message(&id, &body, true, Then::Close);
            let message = std::str::from_utf8(&message).unwrap();
            assert!(message.contains(std::str::from_utf8(&wire).unwrap()), "{message}");
            assert!(message.contains("\r\nX-Request-Id: "), "{message}");
            assert!(message.contains("\r\nConnection: close\r\n\r\n"), "{message}");
            assert!(message.ends_with(std::str::from_utf8(&body).unwrap()));
        }
    }
}
