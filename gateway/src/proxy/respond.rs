//! Step 7, respond: the head that a client receives from an upstream.
//!
//! Fields of the upstream's hop end here, and nothing passes that would name the upstream.

use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, LINK, LOCATION, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode, Version};
use pingora::http::ResponseHeader;

use super::hop_by_hop;
use super::request_id::{self, RequestId};
use crate::upstream::Endpoints;

/// Turns an upstream's head into the client's. `known` are the endpoints of every upstream: whichever is named, a client
/// has no business with it.
///
/// # Errors
/// Pingora's, for a value that is no header value.
pub fn rewrite(
    response: &mut ResponseHeader,
    known: &[Arc<Endpoints>],
    id: &RequestId,
    client_version: Version,
) -> pingora::Result<()> {
    let is_tunnel = response.status == StatusCode::SWITCHING_PROTOCOLS;
    let is_interim = response.status.is_informational() && !is_tunnel;
    let listed: Vec<String> = hop_by_hop::listed(&response.headers).collect();
    let ending: Vec<HeaderName> = response
        .headers
        .iter()
        .filter(|(name, value)| {
            let is_hint = is_interim && *name == LINK && names_no_host(value.as_bytes());
            (ends_here(name.as_str()) && !is_hint) || (*name != LOCATION && stands_in(known, value.as_bytes()))
        })
        .map(|(name, _)| name.clone())
        .collect();
    for name in listed {
        response.remove_header(name.as_str());
    }
    for name in &ending {
        response.remove_header(name);
    }
    rewrite_location(response, known)?;
    frame(response, client_version);
    if is_tunnel {
        response.insert_header(CONNECTION, HeaderValue::from_static("Upgrade"))?;
        response.insert_header("Upgrade", HeaderValue::from_static("websocket"))?;
    }
    response.insert_header(request_id::WIRE_NAME, id.header_value())
}

/// Whether every target in a Link field is a path on the host that was asked, as hints of what to load first (RFC 8297)
/// mostly are.
fn names_no_host(link: &[u8]) -> bool {
    link.split(|&byte| byte == b'<')
        .skip(1)
        .all(|target| target.starts_with(b"/") && !target.starts_with(b"//") && !target.starts_with(b"/\\"))
}

/// Turns an upstream's trailers into the client's: they are held to the same rules as fields, and frame nothing
/// (RFC 9110 section 6.5.1).
pub fn rewrite_trailers(trailers: &mut HeaderMap, known: &[Arc<Endpoints>]) {
    let ending: Vec<HeaderName> = trailers
        .iter()
        .filter(|(name, value)| {
            ends_here(name.as_str())
                || matches!(
                    name.as_str(),
                    "content-length" | "transfer-encoding" | "host" | "location" | "set-cookie" | "x-request-id"
                )
                || stands_in(known, value.as_bytes())
        })
        .map(|(name, _)| name.clone())
        .collect();
    for name in &ending {
        trailers.remove(name);
    }
}

fn stands_in(known: &[Arc<Endpoints>], value: &[u8]) -> bool {
    known.iter().any(|endpoints| endpoints.names().stand_in(value))
}

/// `Content-Location`, `Link`, `Refresh` and `Alt-Svc` can each name the upstream in ways that are not searched for.
fn ends_here(name: &str) -> bool {
    hop_by_hop::is_hop_by_hop(name) || matches!(name, "alt-svc" | "content-location" | "link" | "refresh")
}

/// RFC 9112 section 6: what has no body has no coding, and a client of HTTP/1.0 knows no chunks.
fn frame(response: &mut ResponseHeader, client_version: Version) {
    response.set_version(Version::HTTP_11);
    let status = response.status;
    if status.is_informational() || status == StatusCode::NO_CONTENT {
        response.remove_header(&TRANSFER_ENCODING);
        response.remove_header(&CONTENT_LENGTH);
    } else if client_version < Version::HTTP_11 || status == StatusCode::NOT_MODIFIED {
        response.remove_header(&TRANSFER_ENCODING);
    }
}

/// Whether only the end of the connection tells the end of the body, as for a client that knows no chunks.
pub fn ends_with_connection(response: &ResponseHeader) -> bool {
    !response.headers.contains_key(CONTENT_LENGTH) && response.status != StatusCode::NO_CONTENT
}

/// A redirection to the upstream itself becomes one within the host that the client knows.
fn rewrite_location(response: &mut ResponseHeader, known: &[Arc<Endpoints>]) -> pingora::Result<()> {
    let Some(location) = response.headers.get(LOCATION) else {
        return Ok(());
    };
    let Ok(text) = location.to_str() else {
        response.remove_header(&LOCATION);
        return Ok(());
    };
    match relative_location(text, known) {
        Some(path) => response.insert_header("Location", path),
        None if stands_in(known, text.to_ascii_lowercase().as_bytes()) => {
            response.remove_header(&LOCATION);
            Ok(())
        }
        None => Ok(()),
    }
}

/// The path-absolute form of a location with the upstream's authority.
fn relative_location(location: &str, known: &[Arc<Endpoints>]) -> Option<String> {
    let (rest, default_port) = match location.split_once("//")? {
        (scheme, rest) if scheme.eq_ignore_ascii_case("http:") => (rest, "80"),
        (scheme, rest) if scheme.eq_ignore_ascii_case("https:") => (rest, "443"),
        ("", rest) => (rest, "80"),
        _ => return None,
    };
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if !known
        .iter()
        .any(|endpoints| endpoints.names().have(authority, default_port))
    {
        return None;
    }
    Some(match path.as_bytes() {
        // "//x" alone would be read as a host; "/.//x" has the same path (RFC 3986 section 5.2.4).
        [b'/' | b'\\', b'/' | b'\\', ..] => format!("/.{path}"),
        [b'/', ..] => path.to_owned(),
        _ => format!("/{path}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> [Arc<Endpoints>; 2] {
        let names = |names: &[&str]| Arc::new(Endpoints::named(names.iter().map(ToString::to_string)));
        [names(&["central.int:8080", "10.0.0.7:8080"]), names(&["web:80"])]
    }

    fn rewritten(status: u16, fields: &[(&'static str, &'static str)], version: Version) -> Vec<(String, String)> {
        let mut response = ResponseHeader::build(status, None).unwrap();
        for (name, value) in fields {
            response.append_header(*name, *value).unwrap();
        }
        let id = RequestId::accept(&HeaderValue::from_static("id-1")).unwrap();
        rewrite(&mut response, &known(), &id, version).unwrap();
        let own = response.remove_header("x-request-id").unwrap();
        assert_eq!(own, "id-1");
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let mut fields: Vec<_> = response
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect();
        fields.sort();
        fields
    }

    fn fields(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn fields_of_the_upstreams_hop_end_here() {
        let sent = [
            ("Connection", "close, X-Mine, Set-Cookie"),
            ("X-Mine", "1"),
            ("Keep-Alive", "timeout=5"),
            ("Trailer", "X"),
            ("Upgrade", "h2c"),
            ("Proxy-Authenticate", "Basic"),
            ("Set-Cookie", "a=b"),
            ("X-Request-Id", "the upstream's"),
        ];
        assert_eq!(
            rewritten(200, &sent, Version::HTTP_11),
            fields(&[("set-cookie", "a=b")])
        );
    }

    #[test]
    fn nothing_names_the_upstream() {
        let sent = [
            ("Server", "nginx"),
            ("Via", "1.1 central.int:8080"),
            ("X-Backend", "http://10.0.0.7:8080/"),
            ("Content-Location", "/x"),
            ("Link", "</x>; rel=next"),
            ("Refresh", "1; url=/x"),
            ("Alt-Svc", "h3=\":443\""),
        ];
        assert_eq!(rewritten(200, &sent, Version::HTTP_11), fields(&[("server", "nginx")]));
    }

    #[test]
    fn hints_pass_where_they_name_no_host() {
        for (link, passes) in [
            ("</a.css>; rel=preload", true),
            ("</a.css>; rel=preload, </b.js>; rel=preload", true),
            ("<//cdn.example/a.css>; rel=preload", false),
            ("</a.css>; rel=preload, <http://web/b.js>; rel=preload", false),
        ] {
            let expected = if passes {
                vec![("link".to_owned(), link.to_owned())]
            } else {
                vec![]
            };
            assert_eq!(rewritten(103, &[("Link", link)], Version::HTTP_11), expected, "{link}");
            assert_eq!(rewritten(200, &[("Link", link)], Version::HTTP_11), []);
        }
    }

    #[test]
    fn trailers_are_held_to_the_rules_of_fields() {
        let mut trailers = HeaderMap::new();
        for (name, value) in [
            ("grpc-status", "0"),
            ("content-length", "5"),
            ("connection", "close"),
            ("x-from", "http://central.int:8080/"),
        ] {
            trailers.insert(name, HeaderValue::from_static(value));
        }
        rewrite_trailers(&mut trailers, &known());
        assert_eq!(trailers.keys().collect::<Vec<_>>(), ["grpc-status"]);
    }

    #[test]
    fn locations() {
        for (sent, expected) in [
            ("http://central.int:8080/a?b#c", Some("/a?b#c")),
            ("HTTP://CENTRAL.INT:8080/a", Some("/a")),
            ("//central.int:8080/a", Some("/a")),
            ("http://central.int:8080", Some("/")),
            ("http://central.int:8080?q", Some("/?q")),
            ("http://central.int:8080//evil.example", Some("/.//evil.example")),
            ("http://u@10.0.0.7:8080/a", Some("/a")),
            ("http://web/a", Some("/a")),
            ("https://web/a", Some("https://web/a")),
            ("https://login.example/a", Some("https://login.example/a")),
            ("https://login.example/?next=http://central.int:8080/a", None),
            ("/a", Some("/a")),
            ("a", Some("a")),
        ] {
            let mut expected_fields = Vec::new();
            if let Some(expected) = expected {
                expected_fields.push(("location".to_owned(), expected.to_owned()));
            }
            assert_eq!(
                rewritten(302, &[("Location", sent)], Version::HTTP_11),
                expected_fields,
                "{sent}"
            );
        }
    }

    #[test]
    fn framing_is_the_clients() {
        let chunked = [("Transfer-Encoding", "chunked")];
        assert_eq!(
            rewritten(200, &chunked, Version::HTTP_11),
            fields(&[("transfer-encoding", "chunked")])
        );
        assert_eq!(rewritten(200, &chunked, Version::HTTP_10), []);
        assert_eq!(rewritten(204, &chunked, Version::HTTP_11), []);
        assert_eq!(
            rewritten(304, &[("Content-Length", "5")], Version::HTTP_11),
            fields(&[("content-length", "5")])
        );
    }

    #[test]
    fn a_tunnel_keeps_its_upgrade() {
        let sent = [
            ("Connection", "upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Accept", "x"),
        ];
        let expected = [
            ("connection", "Upgrade"),
            ("sec-websocket-accept", "x"),
            ("upgrade", "websocket"),
        ];
        assert_eq!(rewritten(101, &sent, Version::HTTP_11), fields(&expected));
    }
}
