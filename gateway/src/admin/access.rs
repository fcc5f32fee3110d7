//! Who may ask the admin listener, and how much they are told.
//!
//! 1. Liveness and readiness are told to everybody: an orchestrator's probe has no token, and the words are of closed
//!    sets.
//! 2. Where there is a token it must be shown, whatever the address (RFC 6750; as a password too, for browsers, RFC 7617).
//! 3. Otherwise whoever can open a Unix socket may ask, and over TCP whoever names the listener by an IP address, by
//!    `localhost` or by a configured name. Any other Host may be that of a web page whose name was made to resolve to
//!    this machine (DNS rebinding), and through which a stranger reads along in an operator's browser.
//! 4. Callers from another machine without a token, where that is allowed at all, are told of no upstream.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HOST};
use pingora::http::RequestHeader;

use super::token::Token;
use crate::config::{AdminHost, Config, ListenAddress};
use crate::proxy::Refusal;

/// What callers who may not ask are answered.
pub const ADMISSION_REFUSALS: [Refusal; 2] = [Refusal::Unauthorized, Refusal::MisdirectedRequest];

/// The rules of one listener.
#[derive(Debug)]
pub struct Access {
    token: Option<Token>,
    hosts: Vec<AdminHost>,
    is_unix: bool,
}

/// How much a caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Everything but secrets.
    Whole,
    /// Nothing of where upstreams are.
    WithoutUpstreams,
}

impl Access {
    /// The rules that a configuration sets.
    pub fn new(config: &Config) -> Self {
        let token = config.admin.token.as_ref();
        Self {
            token: token.map(|file| Token::in_file(config.resolve(file.path()))),
            hosts: config.admin.hosts.clone(),
            is_unix: matches!(config.listen.admin, ListenAddress::Unix(_)),
        }
    }

    /// What a caller may see.
    ///
    /// # Errors
    /// One of [`ADMISSION_REFUSALS`]: without the token, or for a Host that is not the listener's.
    pub fn admit(&self, request: &RequestHeader, peer: Option<IpAddr>) -> Result<Sight, Refusal> {
        if let Some(token) = &self.token {
            let shown = request
                .headers
                .get(AUTHORIZATION)
                .and_then(|value| credentials(value.as_bytes()));
            return match shown {
                Some(shown) if token.is(&shown) => Ok(Sight::Whole),
                _ => Err(Refusal::Unauthorized),
            };
        }
        if self.is_unix {
            return Ok(Sight::Whole);
        }
        let host = request.headers.get(HOST).and_then(|value| value.to_str().ok());
        if !host.is_some_and(|host| self.answers_to(host)) {
            return Err(Refusal::MisdirectedRequest);
        }
        Ok(match peer {
            Some(peer) if peer.to_canonical().is_loopback() => Sight::Whole,
            _ => Sight::WithoutUpstreams,
        })
    }

    /// Whether a Host header, with a port or without, names this listener.
    fn answers_to(&self, host: &str) -> bool {
        if let Some((address, port)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || port.starts_with(':'));
        }
        let name = host.split_once(':').map_or(host, |(name, _)| name);
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_named = |known: &str| known.eq_ignore_ascii_case(name);
        name.parse::<Ipv4Addr>().is_ok()
            || is_named("localhost")
            || self.hosts.iter().any(|known| is_named(known.as_str()))
    }
}

/// What `Bearer TOKEN` shows, or `Basic` as its password.
fn credentials(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, shown) = value.split_at_checked(value.iter().position(|byte| *byte == b' ')?)?;
    let shown = shown.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(shown.to_owned());
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let pair = STANDARD.decode(shown).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    pair.get(colon + 1..).map(<[u8]>::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(hosts: &[&str]) -> Access {
        Access {
            token: None,
            hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            is_unix: false,
        }
    }

    fn request(headers: &[(&'static str, &str)]) -> RequestHeader {
        let mut request = RequestHeader::build("GET", b"/config", None).unwrap();
        for (name, value) in headers {
            request.append_header(*name, *value).unwrap();
        }
        request
    }

    const HERE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    const ELSEWHERE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7)));

    #[test]
    fn a_host_that_a_page_could_have_chosen_is_refused() {
        let access = access(&["gateway.internal"]);
        for host in [
            "127.0.0.1:9901",
            "127.0.0.1",
            "10.1.2.3:9901",
            "[::1]:9901",
            "[::1]",
            "localhost:9901",
            "LOCALHOST",
            "localhost.",
            "gateway.internal:1",
            "Gateway.Internal.",
        ] {
            assert_eq!(
                access.admit(&request(&[("host", host)]), HERE),
                Ok(Sight::Whole),
                "{host}"
            );
        }
        for host in [
            "evil.example",
            "evil.example:9901",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "x.gateway.internal",
            "[::1].evil.example.",
            "[evil]",
            "2130706433",
            "0x7f.1",
            "",
        ] {
            let refused = access.admit(&request(&[("host", host)]), HERE);
            assert_eq!(refused, Err(Refusal::MisdirectedRequest), "{host}");
        }
        assert_eq!(access.admit(&request(&[]), HERE), Err(Refusal::MisdirectedRequest));
    }

    #[test]
    fn a_stranger_without_a_token_sees_no_upstreams() {
        let asked = request(&[("host", "10.0.0.1:9901")]);
        assert_eq!(access(&[]).admit(&asked, ELSEWHERE), Ok(Sight::WithoutUpstreams));
        assert_eq!(access(&[]).admit(&asked, None), Ok(Sight::WithoutUpstreams));
        let mapped: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        assert_eq!(access(&[]).admit(&asked, Some(mapped)), Ok(Sight::Whole));
    }

    #[test]
    fn a_token_is_asked_of_everybody_and_shown_in_two_ways() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        let access = Access {
            token: Some(Token::in_file(path)),
            is_unix: true,
            ..access(&[])
        };
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        for value in [
            "Bearer 0123456789abcdef",
            "bearer  0123456789abcdef",
            &basic("me:0123456789abcdef"),
        ] {
            let asked = request(&[("host", "any.example"), ("authorization", value)]);
            assert_eq!(access.admit(&asked, ELSEWHERE), Ok(Sight::Whole), "{value}");
        }
        for value in [
            "Bearer 0123456789abcdee",
            "Bearer",
            "0123456789abcdef",
            "Token 0123456789abcdef",
            &basic("0123456789abcdef"),
            "Basic !!!",
        ] {
            let asked = request(&[("host", "127.0.0.1"), ("authorization", value)]);
            assert_eq!(access.admit(&asked, HERE), Err(Refusal::Unauthorized), "{value}");
        }
        assert_eq!(
            access.admit(&request(&[("host", "127.0.0.1")]), HERE),
            Err(Refusal::Unauthorized)
        );
    }
}
