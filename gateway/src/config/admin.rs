//! `[admin]`: who may ask the admin listener.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::endpoint::parse_host;
use super::{Host, SecretFile};

/// Who may ask the admin listener for more than liveness and readiness.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdminAccess {
    /// The file of a token that everybody must show; left out, whoever reaches the listener may ask. It is read again
    /// when it changes.
    pub token: Option<SecretFile>,
    /// Names by which the listener may be asked, beside `localhost` and IP addresses: any other Host header is refused,
    /// as it may come from a web page that had a name of its own resolved to this machine.
    pub hosts: Vec<AdminHost>,
    /// The permissions of a Unix socket.
    pub socket_mode: SocketMode,
}

/// A host name in lower case, without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminHost(String);

/// The text is no host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a host is a DNS name without a port, such as \"gateway.internal\"; IP addresses need not be named")]
pub struct AdminHostError;

impl AdminHost {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AdminHost {
    type Err = AdminHostError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match parse_host(text) {
            Ok(Host::Name(name)) => Ok(Self(name.trim_end_matches('.').to_owned())),
            Ok(Host::Address(_)) | Err(_) => Err(AdminHostError),
        }
    }
}

impl Serialize for AdminHost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for AdminHost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Permissions of a socket's file, in octal digits as `chmod` takes them: `"0600"`, `"0660"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(u32);

/// The text is no such permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("permissions are four octal digits that let the owner read and write, such as \"0600\" or \"0660\"")]
pub struct SocketModeError;

impl SocketMode {
    /// The bits, as `chmod(2)` takes them.
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl Default for SocketMode {
    /// For the gateway's own user alone.
    fn default() -> Self {
        Self(0o600)
    }
}

impl FromStr for SocketMode {
    type Err = SocketModeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.len() == 4 && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        u32::from_str_radix(text, 8)
            .ok()
            .filter(|bits| digits && *bits <= 0o777 && bits & 0o600 == 0o600)
            .map(Self)
            .ok_or(SocketModeError)
    }
}

impl fmt::Display for SocketMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl Serialize for SocketMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SocketMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_modes_are_octal() {
        let host: AdminHost = "Gateway.Internal.".parse().unwrap();
        assert_eq!(host.as_str(), "gateway.internal");
        for text in ["", "10.0.0.1", "[::1]", "a:80", "a b", "*"] {
            assert_eq!(text.parse::<AdminHost>(), Err(AdminHostError), "{text}");
        }
        let mode: SocketMode = "0660".parse().unwrap();
        assert_eq!((mode.bits(), mode.to_string().as_str()), (0o660, "0660"));
        for text in ["", "660", "0o60", "0080", "1600", "0000", "0060", "06000", "+600"] {
            assert_eq!(text.parse::<SocketMode>(), Err(SocketModeError), "{text}");
        }
    }
}
