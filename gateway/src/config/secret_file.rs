//! `file:PATH`: a secret that stands in a file of its own, as orchestrators mount them, and never in a configuration.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

const SCHEME: &str = "file:";

/// The file that a secret stands in; a relative path is taken from the folder of the configuration. What is shown of it
/// is the path alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFile(PathBuf);

/// Why a text names no file. The texts never hold the value: it may be the secret itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretFileError {
    /// No `file:` before it.
    #[error("a secret stands in a file of its own: write `file:` and its path, such as \"file:secrets/admin-token\"")]
    NoScheme,
    /// Nothing behind `file:`.
    #[error("`file:` names no file: write its path behind it, such as \"file:secrets/admin-token\"")]
    NoPath,
}

impl SecretFile {
    /// The path as written.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for SecretFile {
    type Err = SecretFileError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = text.strip_prefix(SCHEME).ok_or(SecretFileError::NoScheme)?;
        if path.trim().is_empty() {
            return Err(SecretFileError::NoPath);
        }
        Ok(Self(PathBuf::from(path)))
    }
}

impl fmt::Display for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.0.display())
    }
}

impl Serialize for SecretFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SecretFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_and_a_secret_is_not_taken_for_one() {
        let secret: SecretFile = "file:secrets/token".parse().unwrap();
        assert_eq!(secret.path(), Path::new("secrets/token"));
        assert_eq!(secret.to_string(), "file:secrets/token");
        assert_eq!("file: ".parse::<SecretFile>(), Err(SecretFileError::NoPath));
        for text in ["s3cret", "", "FILE:x", "http://x"] {
            let error = text.parse::<SecretFile>().unwrap_err();
            assert_eq!(error, SecretFileError::NoScheme, "{text}");
            assert!(!error.to_string().contains("s3cret"));
        }
    }
}
