//! A span of time as it is written in a configuration: a whole number and a unit, `"2s"`.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

use super::quantity::{self, Fault};

/// A time of at least one millisecond and at most a day.
///
/// Written as a whole number with one of the units `ms`, `s`, `m` and `h`. A bare number is refused: whether
/// `30` means seconds or milliseconds is what such settings are most often wrong about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration {
    milliseconds: u64,
}

/// The units from large to small, each with its length in milliseconds.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Duration {
    /// The longest time that is accepted: a day.
    pub const MAX: Self = Self {
        milliseconds: 86_400_000,
    };

    /// A whole number of seconds; for constants. Held to the range 1 to 86,400.
    pub const fn seconds(seconds: u64) -> Self {
        let milliseconds = seconds.saturating_mul(1_000);
        Self {
            milliseconds: if milliseconds == 0 {
                1_000
            } else if milliseconds > Self::MAX.milliseconds {
                Self::MAX.milliseconds
            } else {
                milliseconds
            },
        }
    }

    /// A whole number of milliseconds; for constants. Held to the range 1 to 86,400,000.
    pub const fn milliseconds(milliseconds: u64) -> Self {
        Self {
            milliseconds: if milliseconds == 0 {
                1
            } else if milliseconds > Self::MAX.milliseconds {
                Self::MAX.milliseconds
            } else {
                milliseconds
            },
        }
    }

    /// The time in the standard library's type.
    pub const fn get(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.milliseconds)
    }
}

/// Why a text is no duration. The texts never hold the value: it may come from the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Nothing but blanks.
    #[error("the duration is empty: write a whole number and a unit, such as \"2s\"")]
    Empty,
    /// A number alone.
    #[error("the duration has no unit: write one of ms, s, m and h after the number, such as \"2s\"")]
    NoUnit,
    /// A number and something that is no unit.
    #[error("the unit of the duration is none of ms, s, m and h")]
    UnknownUnit,
    /// No digits at the start.
    #[error("a duration is a whole number and a unit, such as \"500ms\" or \"2s\"")]
    NotANumber,
    /// A sign.
    #[error("a duration has no sign and is never negative")]
    Signed,
    /// A decimal point.
    #[error("the number of a duration is whole: write \"1500ms\" in place of \"1.5s\"")]
    Fraction,
    /// Zero of any unit.
    #[error("a duration is at least 1ms; a limit cannot be switched off with zero")]
    Zero,
    /// Over [`Duration::MAX`].
    #[error("a duration is at most 24h")]
    TooLong,
}

impl From<Fault> for DurationError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Empty => Self::Empty,
            Fault::Signed => Self::Signed,
            Fault::NotANumber => Self::NotANumber,
            Fault::NoUnit => Self::NoUnit,
            Fault::Fraction => Self::Fraction,
            Fault::UnknownUnit => Self::UnknownUnit,
            Fault::TooLarge => Self::TooLong,
        }
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let milliseconds = quantity::parse(text, &UNITS)?;
        if milliseconds == 0 {
            return Err(DurationError::Zero);
        }
        if milliseconds > Self::MAX.milliseconds {
            return Err(DurationError::TooLong);
        }
        Ok(Self { milliseconds })
    }
}

/// The shortest form: the largest unit that divides the time.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, scale) = UNITS
            .into_iter()
            .find(|(_, scale)| self.milliseconds.is_multiple_of(*scale))
            .unwrap_or(("ms", 1));
        write!(f, "{}{unit}", self.milliseconds / scale)
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Duration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration with a unit, such as \"2s\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Duration, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Duration, E> {
                Err(E::custom(match number {
                    i64::MIN..0 => DurationError::Signed,
                    0 => DurationError::Zero,
                    _ => DurationError::NoUnit,
                }))
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Duration, E> {
                Err(E::invalid_type(Unexpected::Float(number), &self))
            }
        }
        deserializer.deserialize_any(Text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_texts_have_one_canonical_form() {
        for (text, milliseconds, canonical) in [
            ("1ms", 1, "1ms"),
            ("500ms", 500, "500ms"),
            ("1000ms", 1_000, "1s"),
            ("2s", 2_000, "2s"),
            ("90s", 90_000, "90s"),
            ("60s", 60_000, "1m"),
            ("1m", 60_000, "1m"),
            ("1h", 3_600_000, "1h"),
            ("24h", 86_400_000, "24h"),
            ("007s", 7_000, "7s"),
        ] {
            let parsed: Duration = text.parse().unwrap();
            assert_eq!(parsed.get(), std::time::Duration::from_millis(milliseconds), "{text}");
            assert_eq!(parsed.to_string(), canonical, "{text}");
            assert_eq!(canonical.parse(), Ok(parsed), "{text}");
        }
    }

    #[test]
    fn refused_texts_say_why() {
        use DurationError::*;
        for (text, why) in [
            ("", Empty),
            ("  ", Empty),
            ("30", NoUnit),
            ("0", NoUnit),
            ("0s", Zero),
            ("0ms", Zero),
            ("-1s", Signed),
            ("+1s", Signed),
            ("-1", Signed),
            ("1.5s", Fraction),
            ("s", NotANumber),
            ("two seconds", NotANumber),
            (" 2s", NotANumber),
            ("2s ", UnknownUnit),
            ("2 s", UnknownUnit),
            ("2S", UnknownUnit),
            ("2sec", UnknownUnit),
            ("1m30s", UnknownUnit),
            ("1d", UnknownUnit),
            ("25h", TooLong),
            ("86400001ms", TooLong),
            ("99999999999999999999999999h", TooLong),
            ("18446744073709551615h", TooLong),
            ("２s", NotANumber),
        ] {
            assert_eq!(text.parse::<Duration>(), Err(why), "{text}");
        }
    }

    #[test]
    fn constants_stay_in_range() {
        assert_eq!(Duration::seconds(0).to_string(), "1s");
        assert_eq!(Duration::seconds(u64::MAX), Duration::MAX);
    }

    #[test]
    fn numbers_without_a_unit_are_refused_in_a_file() {
        #[derive(Debug, serde::Deserialize)]
        #[allow(dead_code)]
        struct File {
            t: Duration,
        }
        for (text, expected) in [
            ("t = 30", "has no unit"),
            ("t = 0", "at least 1ms"),
            ("t = -1", "never negative"),
            ("t = 1.5", "expected a duration with a unit"),
            ("t = true", "expected a duration with a unit"),
        ] {
            let error = toml::from_str::<File>(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
