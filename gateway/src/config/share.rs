//! A share of a whole as it is written in a configuration: `"20%"`.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

/// A share from 0% to 100%, in whole percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    percent: u8,
}

impl Share {
    /// For constants; held to 100.
    pub const fn percent(percent: u8) -> Self {
        Self {
            percent: if percent > 100 { 100 } else { percent },
        }
    }

    /// This share of a number, rounded down.
    pub const fn of(self, number: u64) -> u64 {
        // The quotient first, so that no number is too large; the rest is below 100.
        number / 100 * self.percent as u64 + number % 100 * self.percent as u64 / 100
    }
}

/// Why a text is no share. The texts never hold the value: it may come from the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// No `%` at the end.
    #[error("a share is a whole number and `%`, such as \"20%\"")]
    NoPercent,
    /// Not a whole number from 0 to 100.
    #[error("a share is a whole number from 0% to 100%")]
    Range,
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_suffix('%').ok_or(ShareError::NoPercent)?;
        if digits.is_empty() || digits.len() > 3 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ShareError::Range);
        }
        match digits.parse() {
            Ok(percent @ 0..=100) => Ok(Self { percent }),
            _ => Err(ShareError::Range),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.percent)
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_whole_percents() {
        for (text, expected) in [
            ("0%", Ok(Share::percent(0))),
            ("50%", Ok(Share::percent(50))),
            ("100%", Ok(Share::percent(100))),
            ("101%", Err(ShareError::Range)),
            ("-1%", Err(ShareError::Range)),
            ("1.5%", Err(ShareError::Range)),
            ("%", Err(ShareError::Range)),
            ("0.5", Err(ShareError::NoPercent)),
            ("", Err(ShareError::NoPercent)),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
        }
    }

    #[test]
    fn a_share_is_rounded_down() {
        let half = Share::percent(50);
        assert_eq!([0, 1, 2, 3, 199].map(|number| half.of(number)), [0, 0, 1, 1, 99]);
        assert_eq!(Share::percent(100).of(u64::MAX), u64::MAX);
        assert_eq!(Share::percent(20).of(99), 19);
    }
}
