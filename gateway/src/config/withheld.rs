//! Request header fields that no upstream receives unless its table asks for them: some framework takes each of them for
//! the path, the method, the host or the client, and whoever writes it would choose what the gateway has decided.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

/// The fields, in small letters; beside them every `X-Forwarded-*` but the three that the gateway writes itself.
const FIELDS: [&str; 23] = [
    "client-ip",
    "forwarded",
    "front-end-https",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-original-path",
    "x-forwarded",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-forwarded-for",
    "x-original-host",
    "x-original-method",
    "x-original-path",
    "x-original-uri",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-uri",
    "x-rewrite-url",
    "x-url-scheme",
];

/// A field that is withheld by default, in small letters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WithheldHeader(String);

/// Why a text names no such field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WithheldHeaderError {
    /// One of the fields that the gateway writes, from what it knows itself.
    #[error("the gateway writes this header field itself; `forwarded.trusted` says whose values are believed")]
    Written,
    /// A field that reaches upstreams anyway, or one that ends at every hop.
    #[error(
        "this header field is not one that is withheld: such are X-Original-URL, X-Rewrite-URL, X-HTTP-Method-Override, \
         X-Real-IP, Forwarded, and X-Forwarded-* beside For, Proto and Host"
    )]
    NotWithheld,
}

impl WithheldHeader {
    /// Whether upstreams do not receive the field of this name, in small letters, unless they ask for it.
    pub fn is_withheld(name: &str) -> bool {
        match name.strip_prefix("x-forwarded-") {
            Some(rest) => !rest.is_empty() && !is_written(rest),
            None => FIELDS.contains(&name),
        }
    }

    /// A field by its name in any letters.
    ///
    /// # Errors
    /// See [`WithheldHeaderError`].
    pub fn parse(name: &str) -> Result<Self, WithheldHeaderError> {
        let name = name.to_ascii_lowercase();
        let written = name.strip_prefix("x-forwarded-").is_some_and(is_written) || name == "x-request-id";
        let token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if written {
            Err(WithheldHeaderError::Written)
        } else if Self::is_withheld(&name) && name.bytes().all(token) {
            Ok(Self(name))
        } else {
            Err(WithheldHeaderError::NotWithheld)
        }
    }

    /// The name in small letters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What follows `x-forwarded-` in the fields that the gateway writes.
fn is_written(rest: &str) -> bool {
    matches!(rest, "for" | "proto" | "host")
}

impl fmt::Display for WithheldHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for WithheldHeader {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for WithheldHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_mislead_are_withheld_and_can_be_asked_for() {
        for name in FIELDS.into_iter().chain(["x-forwarded-prefix", "x-forwarded-uri"]) {
            assert!(WithheldHeader::is_withheld(name), "{name}");
            assert_eq!(
                WithheldHeader::parse(&name.to_ascii_uppercase()).unwrap().as_str(),
                name
            );
        }
        for name in [
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-host",
            "authorization",
            "x-original",
        ] {
            assert!(!WithheldHeader::is_withheld(name), "{name}");
        }
    }

    #[test]
    fn nothing_else_can_be_asked_for() {
        for name in [
            "X-Forwarded-For",
            "x-forwarded-proto",
            "X-Forwarded-Host",
            "X-Request-Id",
        ] {
            assert_eq!(WithheldHeader::parse(name), Err(WithheldHeaderError::Written), "{name}");
        }
        for name in [
            "",
            " x-original-url",
            "x_original_url",
            "connection",
            "transfer-encoding",
            "host",
            "authorization",
            "x-forwarded-",
            "x-forwarded-a b",
            "x-forwarded-é",
        ] {
            assert!(WithheldHeader::parse(name).is_err(), "{name}");
        }
    }
}
