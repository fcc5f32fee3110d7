//! How the admin listener's answers are written: what browsers must not do with them, and refusals.

use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use serde::Serialize;

use crate::proxy::Refusal;
use crate::proxy::request_id::{RequestId, X_REQUEST_ID};

/// The format of all data.
pub const JSON: &str = "application/json";

/// The methods of every page (RFC 9110, section 15.5.6).
const ALLOWED: HeaderValue = HeaderValue::from_static("GET, HEAD");
/// How a token can be shown: by programs, and by browsers, which ask for a password.
const CHALLENGES: [&str; 2] = [
    r#"Bearer realm="gateway admin""#,
    r#"Basic realm="gateway admin", charset="UTF-8""#,
];
/// Nothing but the page's own files is loaded, asked or shown, and no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// 200 with this body.
pub fn page(content_type: &'static str, body: impl Into<Vec<u8>>) -> Response<Vec<u8>> {
    response(StatusCode::OK, content_type, body.into())
}

/// 200 with a value as JSON.
pub fn json(value: &impl Serialize) -> Response<Vec<u8>> {
    match serde_json::to_vec(value) {
        Ok(body) => page(JSON, body),
        Err(error) => {
            tracing::error!(%error, "an answer of the admin listener cannot be written");
            refuse(Refusal::Internal)
        }
    }
}

/// An answer of the table.
pub fn refuse(refusal: Refusal) -> Response<Vec<u8>> {
    let id = RequestId::generate();
    let mut response = response(refusal.status(), JSON, refusal.body(&id).to_vec());
    let headers = response.headers_mut();
    headers.insert(X_REQUEST_ID, id.header_value());
    match refusal {
        Refusal::MethodNotAllowed => {
            headers.insert(ALLOW, ALLOWED);
        }
        Refusal::Unauthorized => {
            for challenge in CHALLENGES {
                headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            }
        }
        _ => {}
    }
    response
}

/// The answer as it is sent: with what browsers must heed, and for HEAD without its body (RFC 9110, section 9.3.2).
pub fn finish(mut response: Response<Vec<u8>>, head_only: bool) -> Response<Vec<u8>> {
    let headers = response.headers_mut();
    for (name, value) in [
        // What is told is of this moment.
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (RESOURCE_POLICY, "same-origin"),
        (OPENER_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if head_only {
        response.body_mut().clear();
    }
    response
}

fn response(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response<Vec<u8>> {
    let length = HeaderValue::from(body.len());
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_LENGTH, length);
    response
}
