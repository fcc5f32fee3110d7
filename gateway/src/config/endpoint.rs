//! The address of an upstream as it is written in a configuration: `http://host:port`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

/// An origin: scheme, host and port (RFC 6454), and nothing else.
///
/// There is no base path, as the gateway forwards the client's target byte for byte, and there are no
/// credentials, so the value may be shown by `gateway config`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct UpstreamUrl {
    scheme: UpstreamScheme,
    host: Host,
    port: u16,
}

/// What stands before `://`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum UpstreamScheme {
    Http,
    Https,
    H2c,
}

/// The host of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name to resolve, in lower case.
    Name(String),
    /// An address that needs no resolution.
    Address(IpAddr),
}

impl UpstreamUrl {
    /// Whether the connection is made with TLS (`https`).
    pub fn tls(&self) -> bool {
        self.scheme == UpstreamScheme::Https
    }

    /// Whether the connection speaks HTTP/2 without TLS, from its first byte (`h2c`).
    pub fn h2c(&self) -> bool {
        self.scheme == UpstreamScheme::H2c
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port, 80 or 443 by the scheme where none was written.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The name that the upstream's certificate must bear, without the final dot of an absolute name; for
    /// an address, the address without brackets.
    pub fn server_name(&self) -> String {
        match &self.host {
            Host::Name(name) => name.trim_end_matches('.').to_owned(),
            Host::Address(address) => address.to_string(),
        }
    }

    /// `host:port` with an IPv6 address in brackets, and without the port where it is the scheme's own: the
    /// value of a `Host` header (RFC 9110, section 7.2).
    pub fn authority(&self) -> String {
        let host = match &self.host {
            Host::Name(name) => name.clone(),
            Host::Address(IpAddr::V4(address)) => address.to_string(),
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
        };
        if self.port == self.scheme.default_port() {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }
}

impl UpstreamScheme {
    const ALL: [Self; 3] = [Self::Http, Self::Https, Self::H2c];

    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::H2c => "h2c",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http | Self::H2c => 80,
        }
    }
}

/// Why a text is no upstream. The texts never hold the value: it may bear credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamUrlError {
    /// Nothing but blanks.
    #[error("the URL is empty: write `http://host:port`")]
    Empty,
    /// `${NAME}` inside a variable's value.
    #[error("the URL holds an unexpanded `${{...}}`: a variable's value is taken as it is")]
    Unexpanded,
    /// A space or a line break, at an end too.
    #[error("the URL holds a blank or a line break: a value read from a file may end in one")]
    Blank,
    /// A control or non-ASCII character.
    #[error("the URL holds a control or non-ASCII character: write an international name in its `xn--` form")]
    Character,
    /// No `scheme://`.
    #[error("the URL has no scheme: write `http://` or `https://` before the host")]
    NoScheme,
    /// None of `http`, `https` and `h2c`.
    #[error("the URL's scheme is none of `http`, `https` and `h2c`")]
    Scheme,
    /// `user@` or `user:password@`.
    #[error("the URL holds credentials: the gateway forwards the client's own, so take them out")]
    Credentials,
    /// `?...`.
    #[error("the URL has a query: the query of each request is forwarded as it came, so take it out")]
    Query,
    /// `#...`.
    #[error("the URL has a fragment, which means nothing to a server: take it out")]
    Fragment,
    /// Anything but `/` after the host.
    #[error(
        "the URL has a path: paths are forwarded unchanged, so a base path cannot be put before them; end the URL \
         after the port"
    )]
    Path,
    /// `http://` or `http://:8080`.
    #[error("the URL has no host: write it between `//` and the port")]
    NoHost,
    /// A character or form that a host cannot have.
    #[error("the URL's host is not a DNS name, an IPv4 address, or an IPv6 address in brackets")]
    Host,
    /// A `:` without brackets, or brackets that are not closed.
    #[error("the IPv6 address in the URL is not valid, or not in brackets: write `http://[::1]:8080`")]
    Ipv6,
    /// `0.0.0.0` or `[::]`.
    #[error("the URL's host is the unspecified address, which nothing can be sent to")]
    Unspecified,
    /// Not a number from 1 to 65535.
    #[error("the URL's port is not a number from 1 to 65535")]
    Port,
}

impl FromStr for UpstreamUrl {
    type Err = UpstreamUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        use UpstreamUrlError as E;
        if text.trim().is_empty() {
            return Err(E::Empty);
        }
        if text.contains("${") {
            return Err(E::Unexpanded);
        }
        if text.contains(char::is_whitespace) {
            return Err(E::Blank);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(E::Character);
        }
        let (scheme, rest) = text.split_once("://").ok_or(E::NoScheme)?;
        let known = UpstreamScheme::ALL
            .into_iter()
            .find(|known| scheme.eq_ignore_ascii_case(known.name()));
        let scheme = match known {
            Some(scheme) => scheme,
            None if scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) =>
            {
                return Err(E::Scheme);
            }
            // As in `h/x://y`: what stands before `://` is no scheme at all.
            None => return Err(E::NoScheme),
        };
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        if authority.contains('@') {
            return Err(E::Credentials);
        }
        if tail.contains('#') {
            return Err(E::Fragment);
        }
        if tail.contains('?') {
            return Err(E::Query);
        }
        if !matches!(tail, "" | "/") {
            return Err(E::Path);
        }
        let (host, port) = split_port(authority)?;
        let host = parse_host(host)?;
        let port = match port {
            None => scheme.default_port(),
            Some(digits) => parse_port(digits)?,
        };
        Ok(Self { scheme, host, port })
    }
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`, the brackets kept.
fn split_port(authority: &str) -> Result<(&str, Option<&str>), UpstreamUrlError> {
    if authority.starts_with('[') {
        let close = authority.find(']').ok_or(UpstreamUrlError::Ipv6)?;
        let (host, rest) = authority.split_at(close + 1);
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(UpstreamUrlError::Host),
        };
    }
    match authority.split_once(':') {
        None => Ok((authority, None)),
        Some((_, port)) if port.contains(':') => Err(UpstreamUrlError::Ipv6),
        Some((host, port)) => Ok((host, Some(port))),
    }
}

/// A DNS name, an IPv4 address, or an IPv6 address in brackets.
pub(super) fn parse_host(host: &str) -> Result<Host, UpstreamUrlError> {
    use UpstreamUrlError as E;
    if host.is_empty() {
        return Err(E::NoHost);
    }
    let address = if let Some(bracketed) = host.strip_prefix('[') {
        let inner = bracketed.strip_suffix(']').ok_or(E::Ipv6)?;
        let address: Ipv6Addr = inner.parse().map_err(|_| E::Ipv6)?;
        Some(IpAddr::V6(address))
    } else {
        host.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
    };
    if let Some(address) = address {
        return if address.is_unspecified() {
            Err(E::Unspecified)
        } else {
            Ok(Host::Address(address))
        };
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    // Underscores are no part of a host name by RFC 952, but container networks use them in service names.
    let label_is_valid = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    // A last label of digits is taken by some resolvers for an IPv4 address in a short or octal form.
    let ends_in_number = name
        .rsplit('.')
        .next()
        .is_some_and(|label| label.bytes().all(|byte| byte.is_ascii_digit()));
    if name.len() > 253 || ends_in_number || !name.split('.').all(label_is_valid) {
        return Err(E::Host);
    }
    Ok(Host::Name(host.to_ascii_lowercase()))
}

fn parse_port(digits: &str) -> Result<u16, UpstreamUrlError> {
    if digits.is_empty() || digits.len() > 5 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(UpstreamUrlError::Port);
    }
    match digits.parse() {
        Ok(0) | Err(_) => Err(UpstreamUrlError::Port),
        Ok(port) => Ok(port),
    }
}

/// The canonical form: scheme, host and port.
impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.authority())
    }
}

/// Without the value: a debug print of a structure that holds an upstream must not carry it into a log.
impl fmt::Debug for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpstreamUrl(..)")
    }
}

impl Serialize for UpstreamUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UpstreamUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_urls_have_one_canonical_form() {
        for (text, canonical, tls, port) in [
            ("http://h:8080", "http://h:8080", false, 8080),
            ("http://h", "http://h", false, 80),
            ("http://h/", "http://h", false, 80),
            ("http://h:80/", "http://h", false, 80),
            ("https://h", "https://h", true, 443),
            ("https://h:443", "https://h", true, 443),
            ("https://h:80", "https://h:80", true, 80),
            (
                "HTTP://Loop-Server_Extension:3002",
                "http://loop-server_extension:3002",
                false,
                3002,
            ),
            (
                "http://a.b.svc.cluster.local.:1",
                "http://a.b.svc.cluster.local.:1",
                false,
                1,
            ),
            ("http://127.0.0.1:65535", "http://127.0.0.1:65535", false, 65_535),
            ("http://[::1]:3000", "http://[::1]:3000", false, 3000),
            ("http://[2001:DB8::1]", "http://[2001:db8::1]", false, 80),
            ("H2C://h", "h2c://h", false, 80),
            ("h2c://h:50051", "h2c://h:50051", false, 50051),
        ] {
            let url: UpstreamUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), canonical, "{text}");
            assert_eq!((url.tls(), url.port()), (tls, port), "{text}");
            assert_eq!(canonical.parse(), Ok(url), "{text}");
        }
    }

    #[test]
    fn refused_urls_say_why_without_the_value() {
        use UpstreamUrlError::*;
        for (text, why) in [
            ("", Empty),
            ("   ", Empty),
            ("\n", Empty),
            ("${WS_URL}", Unexpanded),
            ("http://${HOST}:80", Unexpanded),
            ("http://h:80\n", Blank),
            (" http://h:80", Blank),
            ("http://h h:80", Blank),
            ("http://h\u{0}:80", Character),
            ("http://hé:80", Character),
            ("h:8080", NoScheme),
            ("h", NoScheme),
            ("//h:80", NoScheme),
            ("://h", Scheme),
            ("ftp://h", Scheme),
            ("unix:///run/s3cret", Scheme),
            ("http:/h", NoScheme),
            ("http://", NoHost),
            ("http:///", NoHost),
            ("http://:8080", NoHost),
            ("http://h/base/", Path),
            ("http://h/base", Path),
            ("http://h//", Path),
            ("http://h\\base", Path),
            ("http://h?x=s3cret", Query),
            ("http://h/?", Query),
            ("http://h#s3cret", Fragment),
            ("http://u:s3cret@h", Credentials),
            ("http://s3cret@h:80/base", Credentials),
            ("http://h:0", Port),
            ("http://h:", Port),
            ("http://h:65536", Port),
            ("http://h:99999999999", Port),
            ("http://h:+80", Port),
            ("http://h:80a", Port),
            ("http://::1:80", Ipv6),
            ("http://[::1", Ipv6),
            ("http://[::1%25eth0]:80", Ipv6),
            ("http://[::g]", Ipv6),
            ("http://[::1]80", Host),
            ("http://-h", Host),
            ("http://h..h", Host),
            ("http://.", Host),
            ("http://h%2f", Host),
            ("http://999.1.1.1", Host),
            ("http://127.1", Host),
            ("http://0x7f.1", Host),
            ("http://h,h", Host),
            ("http://0.0.0.0:80", Unspecified),
            ("http://[::]:80", Unspecified),
        ] {
            let refused = text.parse::<UpstreamUrl>();
            assert_eq!(refused, Err(why), "{text:?}");
            assert!(!refused.unwrap_err().to_string().contains("s3cret"), "{text:?}");
        }
        let long = format!("http://{}", "a.".repeat(200));
        assert_eq!(long.parse::<UpstreamUrl>(), Err(Host));
    }

    #[test]
    fn the_value_is_not_in_a_debug_print() {
        let url: UpstreamUrl = "http://inner-host:3002".parse().unwrap();
        assert!(!format!("{url:?}").contains("inner-host"));
    }
}
