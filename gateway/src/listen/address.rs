//! Where the admin listener stands: `"127.0.0.1:9901"`, or `"unix:/run/gateway/admin.sock"`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

const SCHEME: &str = "unix:";

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address and a port; port 0 takes a free port.
    Tcp(SocketAddr),
    /// A Unix socket's path.
    Unix(PathBuf),
}

/// Why a text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenAddressError {
    /// Neither form.
    #[error(
        "an address to listen on is an IP address and a port, such as \"127.0.0.1:9901\" or \"[::1]:9901\", or a Unix \
         socket, such as \"unix:/run/gateway/admin.sock\"; names are not resolved"
    )]
    Form,
    /// Longer than the operating system takes.
    #[error("the path of a Unix socket is at most {} bytes long", ListenAddress::MAX_PATH)]
    TooLong,
    /// A path from wherever the process happens to be started.
    #[error("the path of a Unix socket is absolute, such as \"unix:/run/gateway/admin.sock\"")]
    Relative,
}

impl ListenAddress {
    /// The most bytes of a Unix socket's path: `sun_path` with its final zero byte is 108 bytes long (unix(7)).
    pub const MAX_PATH: usize = 107;

    /// The address and port; none for a Unix socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// Whether only processes of this machine can reach it.
    pub fn is_local(&self) -> bool {
        self.tcp()
            .is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(path) = text.strip_prefix(SCHEME) else {
            return text.parse().map(Self::Tcp).map_err(|_| ListenAddressError::Form);
        };
        if !path.starts_with('/') {
            return Err(ListenAddressError::Relative);
        }
        if path.len() > Self::MAX_PATH {
            return Err(ListenAddressError::TooLong);
        }
        if path.ends_with('/') || path.contains('\0') {
            return Err(ListenAddressError::Form);
        }
        Ok(Self::Unix(path.into()))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{SCHEME}{}", path.display()),
        }
    }
}

impl Serialize for ListenAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ListenAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_written_alike() {
        for (text, is_local) in [
            ("127.0.0.1:9901", true),
            ("[::1]:0", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:9901", false),
            ("10.0.0.1:1", false),
            ("unix:/run/gateway/admin.sock", true),
        ] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.is_local()), (text, is_local));
        }
        let long = format!("unix:/{}", "x".repeat(ListenAddress::MAX_PATH));
        for (text, error) in [
            ("localhost:9901", ListenAddressError::Form),
            ("9901", ListenAddressError::Form),
            ("unix:", ListenAddressError::Relative),
            ("unix:admin.sock", ListenAddressError::Relative),
            ("unix:@admin", ListenAddressError::Relative),
            ("unix:/run/", ListenAddressError::Form),
            (&long, ListenAddressError::TooLong),
        ] {
            assert_eq!(text.parse::<ListenAddress>(), Err(error), "{text}");
        }
    }
}
