//! The names by which an upstream could be betrayed to a client.

use memchr::memchr;
use memchr::memmem::Finder;

/// `host:port` of one upstream's URL and of its addresses, made for searching.
#[derive(Clone, Debug)]
pub struct UpstreamNames {
    /// In lower case, the port always written, IPv6 addresses in brackets.
    authorities: Vec<String>,
    finders: Vec<Finder<'static>>,
}

impl UpstreamNames {
    /// `authorities` are `host:port` with the port written, IPv6 addresses in brackets.
    pub fn new(authorities: impl IntoIterator<Item = String>) -> Self {
        let mut authorities: Vec<String> = authorities.into_iter().map(|name| name.to_ascii_lowercase()).collect();
        authorities.sort();
        authorities.dedup();
        let finders = authorities
            .iter()
            .map(|name| Finder::new(name.as_bytes()).into_owned())
            .collect();
        Self { authorities, finders }
    }

    /// Whether one of the names stands in `value` as it was written.
    pub fn stand_in(&self, value: &[u8]) -> bool {
        // Each name has a colon and most values have none.
        memchr(b':', value).is_some() && self.finders.iter().any(|finder| finder.find(value).is_some())
    }

    /// Whether a URI's authority, without user information, is one of the names; a port that is not written is
    /// `default_port`.
    pub fn have(&self, authority: &str, default_port: &str) -> bool {
        let authority = authority.to_ascii_lowercase();
        // What follows the last colon of an IPv6 address without a port ends in a bracket.
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
        let authority = if has_port {
            authority
        } else {
            format!("{authority}:{default_port}")
        };
        self.authorities.contains(&authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_may_be_left_to_the_scheme() {
        let names = UpstreamNames::new(["Web:80".to_owned(), "[::1]:8080".to_owned(), "[::2]:80".to_owned()]);
        assert!(names.have("web", "80"));
        assert!(names.have("WEB:80", "443"));
        assert!(!names.have("web", "443"));
        assert!(!names.have("web:8080", "80"));
        assert!(names.have("[::1]:8080", "80"));
        assert!(!names.have("[::1]", "80"));
        assert!(names.have("[::2]", "80"));
        assert!(names.stand_in(b"1.1 web:80 (x)"));
        assert!(!names.stand_in(b"webs"));
    }
}
