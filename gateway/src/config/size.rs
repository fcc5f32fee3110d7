//! A number of bytes as it is written in a configuration: a whole number and a unit, `"64KiB"`.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::ser::{Serialize, Serializer};

use super::quantity::{self, Fault};

/// A number of bytes, at most 1 TiB.
///
/// Written as a whole number with one of the units `B`, `KiB`, `MiB` and `GiB`. The decimal units `KB`, `MB` and
/// `GB` are refused: half of those who write them mean the binary ones, and a limit that is off by a
/// twentieth is found only when it hurts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size {
    bytes: u64,
}

/// The units from large to small, each with its number of bytes.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Size {
    /// The largest size that is accepted: 1 TiB.
    pub const MAX: Self = Self { bytes: 1 << 40 };

    /// For constants: a number of bytes, held to [`Size::MAX`].
    pub const fn bytes_of(number: u64) -> Self {
        Self::held(number)
    }

    /// For constants: a number of KiB, held to [`Size::MAX`].
    pub const fn kibibytes(number: u64) -> Self {
        Self::held(number.saturating_mul(1 << 10))
    }

    /// For constants: a number of MiB, held to [`Size::MAX`].
    pub const fn mebibytes(number: u64) -> Self {
        Self::held(number.saturating_mul(1 << 20))
    }

    const fn held(bytes: u64) -> Self {
        if bytes > Self::MAX.bytes {
            Self::MAX
        } else {
            Self { bytes }
        }
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }
}

/// Why a text is no size. The texts never hold the value: it may come from the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Nothing but blanks.
    #[error("the size is empty: write a whole number and a unit, such as \"64KiB\"")]
    Empty,
    /// A number alone.
    #[error("the size has no unit: write one of B, KiB, MiB and GiB after the number, such as \"64KiB\"")]
    NoUnit,
    /// `KB`, `MB`, `GB` or `TB`.
    #[error("decimal units are refused, as they are so often meant to be binary: write KiB, MiB or GiB")]
    DecimalUnit,
    /// A number and something that is no unit.
    #[error("the unit of the size is none of B, KiB, MiB and GiB")]
    UnknownUnit,
    /// No digits at the start.
    #[error("a size is a whole number and a unit, such as \"64KiB\"")]
    NotANumber,
    /// A sign.
    #[error("a size has no sign and is never negative")]
    Signed,
    /// A decimal point.
    #[error("the number of a size is whole: write \"1536KiB\" in place of \"1.5MiB\"")]
    Fraction,
    /// Over [`Size::MAX`].
    #[error("a size is at most 1024GiB")]
    TooLarge,
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = quantity::parse(text, &UNITS).map_err(|fault| match fault {
            Fault::Empty => SizeError::Empty,
            Fault::Signed => SizeError::Signed,
            Fault::NotANumber => SizeError::NotANumber,
            Fault::NoUnit => SizeError::NoUnit,
            Fault::Fraction => SizeError::Fraction,
            Fault::UnknownUnit if has_decimal_unit(text) => SizeError::DecimalUnit,
            Fault::UnknownUnit => SizeError::UnknownUnit,
            Fault::TooLarge => SizeError::TooLarge,
        })?;
        if bytes > Self::MAX.bytes {
            return Err(SizeError::TooLarge);
        }
        Ok(Self { bytes })
    }
}

fn has_decimal_unit(text: &str) -> bool {
    let unit = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    ["kb", "mb", "gb", "tb"]
        .iter()
        .any(|decimal| unit.eq_ignore_ascii_case(decimal))
}

/// The shortest form: the largest unit that divides the number.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, scale) = UNITS
            .into_iter()
            .find(|(_, scale)| self.bytes > 0 && self.bytes.is_multiple_of(*scale))
            .unwrap_or(("B", 1));
        write!(f, "{}{unit}", self.bytes / scale)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size with a unit, such as \"64KiB\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Size, E> {
                Err(E::custom(if number < 0 {
                    SizeError::Signed
                } else {
                    SizeError::NoUnit
                }))
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
        for (text, bytes, canonical) in [
            ("0B", 0, "0B"),
            ("0MiB", 0, "0B"),
            ("1B", 1, "1B"),
            ("1024B", 1024, "1KiB"),
            ("1000B", 1000, "1000B"),
            ("64KiB", 65_536, "64KiB"),
            ("1536KiB", 1_572_864, "1536KiB"),
            ("10MiB", 10_485_760, "10MiB"),
            ("1024GiB", 1 << 40, "1024GiB"),
        ] {
            let parsed: Size = text.parse().unwrap();
            assert_eq!(parsed.bytes(), bytes, "{text}");
            assert_eq!(parsed.to_string(), canonical, "{text}");
            assert_eq!(canonical.parse(), Ok(parsed), "{text}");
        }
    }

    #[test]
    fn refused_texts_say_why() {
        use SizeError::*;
        for (text, why) in [
            ("", Empty),
            ("\t", Empty),
            ("64", NoUnit),
            ("0", NoUnit),
            ("-1B", Signed),
            ("1.5MiB", Fraction),
            ("64KB", DecimalUnit),
            ("64kb", DecimalUnit),
            ("10MB", DecimalUnit),
            ("64k", UnknownUnit),
            ("64kib", UnknownUnit),
            ("64 KiB", UnknownUnit),
            ("64KiB\n", UnknownUnit),
            ("KiB", NotANumber),
            ("lots", NotANumber),
            ("1025GiB", TooLarge),
            ("99999999999999999999999B", TooLarge),
        ] {
            assert_eq!(text.parse::<Size>(), Err(why), "{text}");
        }
    }

    #[test]
    fn constants_stay_in_range() {
        assert_eq!(Size::mebibytes(u64::MAX), Size::MAX);
        assert_eq!(Size::kibibytes(16).bytes(), 16_384);
    }
}
