//! What keeps requests that belong together on one endpoint: `"param:workspace"` or `"header:x-route-workspace"`.

use std::fmt;
use std::str::FromStr;

use http::HeaderName;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

/// Where the key is found by which an endpoint is chosen. It picks an endpoint within the family and never the family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// The value of this parameter of the template that matched, as it stands in the path.
    Parameter(String),
    /// The value of this header field.
    Header(HeaderName),
}

/// Why a text is no affinity. The texts never hold the value: it may come from the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AffinityError {
    /// Neither `param:` nor `header:` in front.
    #[error(
        "an affinity is a parameter of the family's paths or a header, such as \"param:workspace\" or \"header:x-route-workspace\""
    )]
    Form,
    /// No parameter's name.
    #[error("the name behind `param:` is no parameter name: a letter or `_`, then letters, digits, `_` or `-`")]
    Parameter,
    /// No field's name (RFC 9110 section 5.1).
    #[error("the name behind `header:` is no header name")]
    Header,
}

impl FromStr for Affinity {
    type Err = AffinityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(name) = text.strip_prefix("param:") {
            return if route_contract::template::is_name(name) {
                Ok(Self::Parameter(name.to_owned()))
            } else {
                Err(AffinityError::Parameter)
            };
        }
        let name = text.strip_prefix("header:").ok_or(AffinityError::Form)?;
        name.parse().map(Self::Header).map_err(|_| AffinityError::Header)
    }
}

impl fmt::Display for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameter(name) => write!(f, "param:{name}"),
            Self::Header(name) => write!(f, "header:{name}"),
        }
    }
}

impl Serialize for Affinity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Affinity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_affinity_names_a_parameter_or_a_header() {
        for (text, shown) in [
            ("param:workspace", Ok("param:workspace")),
            ("header:X-Route-Workspace", Ok("header:x-route-workspace")),
            ("workspace", Err(AffinityError::Form)),
            ("", Err(AffinityError::Form)),
            ("param:", Err(AffinityError::Parameter)),
            ("param:{workspace}", Err(AffinityError::Parameter)),
            ("header:", Err(AffinityError::Header)),
            ("header:a b", Err(AffinityError::Header)),
        ] {
            let parsed = text.parse::<Affinity>().map(|affinity| affinity.to_string());
            assert_eq!(parsed, shown.map(str::to_owned), "{text}");
        }
    }
}
