//! The statuses with which a probe succeeds: `"2xx"`, `"204"` or `"200-299"`.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

/// A range of final statuses, from 200 to 599.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statuses {
    first: u16,
    last: u16,
}

impl Statuses {
    /// 200 to 299.
    pub const SUCCESSFUL: Self = Self { first: 200, last: 299 };

    /// Whether the status is one of them.
    pub const fn contains(self, status: u16) -> bool {
        self.first <= status && status <= self.last
    }
}

/// The text is no range of statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("statuses are a class, a status or a range between 200 and 599, such as \"2xx\", \"204\" or \"200-399\"")]
pub struct StatusesError;

impl FromStr for Statuses {
    type Err = StatusesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let status = |text: &str| {
            let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse()
                .ok()
                .filter(|status| digits && (200..=599).contains(status))
                .ok_or(StatusesError)
        };
        let (first, last) = if let Some(class) = text.strip_suffix("xx") {
            (status(&format!("{class}00"))?, status(&format!("{class}99"))?)
        } else if let Some((first, last)) = text.split_once('-') {
            (status(first)?, status(last)?)
        } else {
            (status(text)?, status(text)?)
        };
        if first > last {
            return Err(StatusesError);
        }
        Ok(Self { first, last })
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else if self.first.is_multiple_of(100) && self.last == self.first + 99 {
            write!(f, "{}xx", self.first / 100)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl Serialize for Statuses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_statuses_and_ranges() {
        for (text, first, last, shown) in [
            ("2xx", 200, 299, "2xx"),
            ("204", 204, 204, "204"),
            ("200-299", 200, 299, "2xx"),
            ("200-399", 200, 399, "200-399"),
            ("401-401", 401, 401, "401"),
        ] {
            let statuses: Statuses = text.parse().unwrap();
            assert_eq!(statuses, Statuses { first, last });
            assert_eq!(statuses.to_string(), shown);
            assert!(statuses.contains(first) && statuses.contains(last) && !statuses.contains(last + 1));
        }
        for text in [
            "", "xx", "1xx", "6xx", "20", "2000", "299-200", "200-", "+20", "200-600", "2XX",
        ] {
            assert_eq!(text.parse::<Statuses>(), Err(StatusesError), "{text}");
        }
    }
}
