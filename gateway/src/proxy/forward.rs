//! Step 6, forward: the head that an upstream receives.
//!
//! The target and the body are the client's, byte for byte. Of the header fields, those end here that belong to the
//! client's hop, and those that only a gateway may write are written.

use http::header::{CONNECTION, HOST, HeaderName, HeaderValue, UPGRADE};
use pingora::http::RequestHeader;

use super::hop_by_hop;
use super::request_id::{self, RequestId};
use crate::config::WithheldHeader;
use crate::telemetry::trace::Trace;
use crate::telemetry::trace::context::{TRACEPARENT, TRACESTATE};

const X_FORWARDED_FOR: &str = "X-Forwarded-For";
const X_FORWARDED_PROTO: &str = "X-Forwarded-Proto";
const X_FORWARDED_HOST: &str = "X-Forwarded-Host";
const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");
const UPGRADE_OPTION: HeaderValue = HeaderValue::from_static("Upgrade");

/// Who asks, as far as the gateway knows by itself.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The peer's address, without its port.
    pub address: HeaderValue,
    /// `http` or `https`.
    pub scheme: HeaderValue,
    /// Whether the peer is a proxy whose `X-Forwarded-*` fields are believed.
    pub trusted: bool,
}

/// Whether the request asks for a WebSocket (RFC 6455 section 4.1); no other upgrade is forwarded.
pub fn wants_websocket(request: &RequestHeader) -> bool {
    request.version == http::Version::HTTP_11
        && request.method == http::Method::GET
        && request
            .headers
            .get(UPGRADE)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
        && hop_by_hop::lists(&request.headers, "upgrade")
}

/// Whether the client takes trailers (RFC 9110 section 10.1.4), which gRPC servers want to be told.
pub fn takes_trailers(request: &RequestHeader) -> bool {
    request
        .headers
        .get_all(http::header::TE)
        .iter()
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// Whether the client waits to be asked for its body (RFC 9110 section 10.1.1).
pub fn expects_continue(request: &RequestHeader) -> bool {
    request
        .headers
        .get(http::header::EXPECT)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Turns the client's head into the upstream's. `target` replaces the target where the client sent another form of it;
/// `passed` are the withheld fields that the upstream has asked for.
///
/// # Errors
/// Pingora's, for a value that is no header value or a target that is no URI; the values here are checked before.
pub fn rewrite(
    request: &mut RequestHeader,
    target: Option<&[u8]>,
    origin: &Origin,
    id: &RequestId,
    websocket: bool,
    passed: &[WithheldHeader],
) -> pingora::Result<()> {
    if let Some(target) = target {
        request.set_raw_path(target)?;
    }
    let listed: Vec<String> = hop_by_hop::listed(&request.headers).collect();
    // Nearly no request has a field that must go beside Connection, so names are looked at once and in place.
    let ending: Vec<HeaderName> = request
        .headers
        .keys()
        .filter(|name| ends_here(name.as_str(), passed))
        .cloned()
        .collect();
    for name in listed {
        request.remove_header(name.as_str());
    }
    for name in &ending {
        request.remove_header(name);
    }
    if websocket {
        request.insert_header(CONNECTION, UPGRADE_OPTION)?;
        request.insert_header("Upgrade", WEBSOCKET)?;
    }
    write_forwarded(request, origin)?;
    request.insert_header(request_id::WIRE_NAME, id.header_value())
}

/// Writes the gateway's part of a trace. Without one, the client's fields pass as they came.
///
/// # Errors
/// Pingora's, for a value that is no header value; a `traceparent` is one.
pub fn write_trace(request: &mut RequestHeader, trace: Option<&Trace>) -> pingora::Result<()> {
    let Some(trace) = trace else { return Ok(()) };
    let (Some(own), Some(parent)) = (trace.own, trace.traceparent()) else {
        return Ok(());
    };
    if !own.is_continued() {
        // It belongs to a trace that was not continued.
        request.remove_header(&TRACESTATE);
    }
    request.insert_header(TRACEPARENT, parent.header_value())
}

/// The three fields have one value each; a trusted proxy's own are kept, and the peer is appended to the path so far.
fn write_forwarded(request: &mut RequestHeader, origin: &Origin) -> pingora::Result<()> {
    if !origin.trusted {
        let host = request.headers.get(HOST).cloned();
        request.insert_header(X_FORWARDED_FOR, origin.address.clone())?;
        request.insert_header(X_FORWARDED_PROTO, origin.scheme.clone())?;
        return match host {
            Some(host) => request.insert_header(X_FORWARDED_HOST, host),
            None => Ok(()),
        };
    }
    let mut path = Vec::new();
    for value in request.headers.get_all(X_FORWARDED_FOR) {
        path.extend_from_slice(value.as_bytes());
        path.extend_from_slice(b", ");
    }
    path.extend_from_slice(origin.address.as_bytes());
    request.insert_header(X_FORWARDED_FOR, path)?;
    keep_last_or_write(request, X_FORWARDED_PROTO, Some(origin.scheme.clone()))?;
    let host = request.headers.get(HOST).cloned();
    keep_last_or_write(request, X_FORWARDED_HOST, host)
}

/// A repeated field could be read in two ways; the proxy next to the gateway wrote the last one.
fn keep_last_or_write(
    request: &mut RequestHeader,
    name: &'static str,
    own: Option<HeaderValue>,
) -> pingora::Result<()> {
    let last = request.headers.get_all(name).iter().next_back().cloned();
    match last.or(own) {
        Some(value) => request.insert_header(name, value),
        None => Ok(()),
    }
}

/// Fields that never reach an upstream as the client sent them, but for those that it has asked for.
fn ends_here(name: &str, passed: &[WithheldHeader]) -> bool {
    if name.contains('_') {
        // Upstreams behind CGI-like interfaces cannot tell `X_Forwarded_For` from `X-Forwarded-For`.
        let dashed = name.replace('_', "-");
        return hop_by_hop::is_hop_by_hop(&dashed)
            || WithheldHeader::is_withheld(&dashed)
            || dashed.starts_with("x-forwarded-")
            || matches!(
                dashed.as_str(),
                "x-request-id" | "content-length" | "transfer-encoding" | "host"
            );
    }
    hop_by_hop::is_hop_by_hop(name)
        || WithheldHeader::is_withheld(name) && !passed.iter().any(|passed| passed.as_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(fields: &[(&'static str, &'static str)]) -> RequestHeader {
        let mut request = RequestHeader::build("GET", b"/a", None).unwrap();
        request.append_header("Host", "gw").unwrap();
        for (name, value) in fields {
            request.append_header(*name, *value).unwrap();
        }
        request
    }

    fn rewritten(fields: &[(&'static str, &'static str)], trusted: bool) -> Vec<(String, String)> {
        rewritten_for(&[], fields, trusted)
    }

    fn rewritten_for(passed: &[&str], fields: &[(&'static str, &'static str)], trusted: bool) -> Vec<(String, String)> {
        let passed: Vec<_> = passed.iter().map(|name| WithheldHeader::parse(name).unwrap()).collect();
        let mut request = request(fields);
        let websocket = wants_websocket(&request);
        let origin = Origin {
            address: HeaderValue::from_static("192.0.2.1"),
            scheme: HeaderValue::from_static("http"),
            trusted,
        };
        let id = RequestId::accept(&HeaderValue::from_static("id-1")).unwrap();
        rewrite(&mut request, None, &origin, &id, websocket, &passed).unwrap();
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let mut fields: Vec<_> = request
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect();
        fields.sort();
        fields
    }

    const OWN: [(&str, &str); 5] = [
        ("host", "gw"),
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-host", "gw"),
        ("x-forwarded-proto", "http"),
        ("x-request-id", "id-1"),
    ];

    fn own_and(more: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut fields: Vec<_> = OWN
            .iter()
            .chain(more)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        fields.sort();
        fields
    }

    #[test]
    fn what_a_client_says_about_itself_is_replaced() {
        let fields = [
            ("X-Forwarded-For", "1.1.1.1"),
            ("X-Forwarded-For", "2.2.2.2"),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Host", "evil"),
            ("X-Forwarded-Port", "1"),
            ("X-Forwarded-Prefix", "/x"),
            ("X_Forwarded_For", "3.3.3.3"),
            ("X-Request-Id", "forged"),
            ("Forwarded", "for=4.4.4.4"),
            ("X-Real-IP", "5.5.5.5"),
            ("X-Original-URL", "/internal"),
            ("X-Rewrite-URL", "/internal"),
            ("X-HTTP-Method-Override", "DELETE"),
        ];
        assert_eq!(rewritten(&fields, false), own_and(&[]));
    }

    #[test]
    fn an_upstream_receives_the_misleading_fields_that_it_asks_for_and_no_other() {
        let fields = [
            ("X-Original-URL", "/a"),
            ("X-Rewrite-URL", "/b"),
            ("X_Original_URL", "/c"),
            ("X-HTTP-Method-Override", "DELETE"),
            ("X-Forwarded-Prefix", "/d"),
        ];
        assert_eq!(
            rewritten_for(&["X-Original-URL", "x-forwarded-prefix"], &fields, false),
            own_and(&[("x-forwarded-prefix", "/d"), ("x-original-url", "/a")])
        );
        // A listing in Connection takes them away all the same.
        let fields = [("Connection", "X-Original-URL"), ("X-Original-URL", "/a")];
        assert_eq!(rewritten_for(&["X-Original-URL"], &fields, false), own_and(&[]));
    }

    #[test]
    fn a_trusted_proxy_is_believed_and_appended_to() {
        let fields = [
            ("X-Forwarded-For", "1.1.1.1"),
            ("X-Forwarded-For", "2.2.2.2"),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Host", "one"),
            ("X-Forwarded-Host", "two"),
            ("X-Original-URL", "/internal"),
        ];
        let fields = rewritten(&fields, true);
        let get = |name: &'static str| {
            let values = fields.iter().filter(move |field| field.0 == name);
            values.map(|field| field.1.as_str())
        };
        assert_eq!(
            get("x-forwarded-for").collect::<Vec<_>>(),
            ["1.1.1.1, 2.2.2.2, 192.0.2.1"]
        );
        assert_eq!(get("x-forwarded-proto").collect::<Vec<_>>(), ["https"]);
        assert_eq!(get("x-forwarded-host").collect::<Vec<_>>(), ["two"]);
        assert_eq!(get("x-original-url").count(), 0);
    }

    #[test]
    fn hop_by_hop_fields_end_and_no_listing_takes_more() {
        let fields = [
            (
                "Connection",
                "close, X-Mine, Authorization, X-Forwarded-For, X-Request-Id, Cookie",
            ),
            ("X-Mine", "1"),
            ("Authorization", "secret"),
            ("Cookie", "a=b"),
            ("Keep-Alive", "timeout=1"),
            ("TE", "trailers, gzip"),
            ("Proxy-Authorization", "x"),
            ("Proxy-Connection", "keep-alive"),
            ("Trailer", "X"),
            ("Upgrade", "h2c"),
            ("HTTP2-Settings", "AAA"),
        ];
        assert_eq!(
            rewritten(&fields, false),
            own_and(&[("authorization", "secret"), ("cookie", "a=b")])
        );
    }

    #[test]
    fn only_a_websocket_is_an_upgrade() {
        let asked = [
            ("Connection", "keep-alive, Upgrade"),
            ("Upgrade", "WebSocket"),
            ("Sec-WebSocket-Key", "k"),
        ];
        let expected = own_and(&[
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", "k"),
        ]);
        assert_eq!(rewritten(&asked, false), expected);
        for unasked in [
            [("Connection", "Upgrade"), ("Upgrade", "websocket, h2c")],
            [("Connection", "keep-alive"), ("Upgrade", "websocket")],
            [("Connection", "Upgrade"), ("Upgrade", "tls/1.3")],
        ] {
            assert_eq!(rewritten(&unasked, false), own_and(&[]), "{unasked:?}");
        }
    }

    #[test]
    fn the_origin_form_of_an_absolute_target_is_forwarded() {
        let mut request = RequestHeader::build("GET", b"http://gw/a%2Fb?c=%20", None).unwrap();
        request.append_header("Host", "gw").unwrap();
        let origin = Origin {
            address: HeaderValue::from_static("::1"),
            scheme: HeaderValue::from_static("http"),
            trusted: false,
        };
        rewrite(
            &mut request,
            Some(b"/a%2Fb?c=%20"),
            &origin,
            &RequestId::generate(),
            false,
            &[],
        )
        .unwrap();
        assert_eq!(request.raw_path(), b"/a%2Fb?c=%20");
    }
}
