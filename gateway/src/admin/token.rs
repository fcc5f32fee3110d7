//! The token of the admin listener, and the file that it stands in.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq as _;

/// Characters of a token: what cannot be guessed, and what fits a header.
const LENGTH: std::ops::RangeInclusive<usize> = 16..=512;

/// How long what was read of the file is believed.
const FRESH: Duration = Duration::from_secs(1);

/// A token that callers must show. Its file is read again when a caller comes a second or more after the last reading,
/// so a new token needs no restart. While the file cannot be used nobody is let in.
#[derive(Debug)]
pub struct Token {
    path: PathBuf,
    known: Mutex<Option<Known>>,
}

#[derive(Debug)]
struct Known {
    since: Instant,
    secret: Result<Secret, TokenFault>,
}

/// The token itself, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Why a file gives no token. The texts hold neither its path nor what stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// The operating system's.
    #[error("cannot be read")]
    Unreadable,
    /// Too short, too long, or with characters that no header can carry.
    #[error("holds no token of {} to {} visible ASCII characters", LENGTH.start(), LENGTH.end())]
    Unusable,
}

impl Token {
    /// The token in the file at this path.
    pub fn in_file(path: PathBuf) -> Self {
        Self {
            path,
            known: Mutex::default(),
        }
    }

    /// Reads a file: the token, and a line break behind it or none.
    ///
    /// # Errors
    /// A [`TokenFault`].
    pub fn read(path: &Path) -> Result<Secret, TokenFault> {
        let mut text = Vec::new();
        // One byte beyond the longest token with its line break is enough to see that it is too long.
        let most = u64::try_from(LENGTH.end() + 3).unwrap_or(u64::MAX);
        let file = File::open(path).map_err(|_| TokenFault::Unreadable)?;
        file.take(most)
            .read_to_end(&mut text)
            .map_err(|_| TokenFault::Unreadable)?;
        let token = text.strip_suffix(b"\n").unwrap_or(&text);
        let token = token.strip_suffix(b"\r").unwrap_or(token);
        if LENGTH.contains(&token.len()) && token.iter().all(u8::is_ascii_graphic) {
            Ok(Secret(token.into()))
        } else {
            Err(TokenFault::Unusable)
        }
    }

    /// Whether `shown` is the token. The time that it takes tells nothing but the token's length.
    pub fn is(&self, shown: &[u8]) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|known| known.since.elapsed() >= FRESH) {
            // A small local file, on the thread that serves operators alone.
            let secret = Self::read(&self.path);
            if let Err(fault) = &secret
                && known.as_ref().is_none_or(|known| known.secret.is_ok())
            {
                tracing::error!(cause = %fault, "the admin listener's token file is of no use: nobody is let in");
            }
            *known = Some(Known {
                since: Instant::now(),
                secret,
            });
        }
        match known.as_ref().map(|known| &known.secret) {
            Some(Ok(Secret(secret))) => secret.ct_eq(shown).into(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_token_is_read_from_its_file_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for (text, sound) in [
            ("0123456789abcdef", true),
            ("0123456789abcdef\n", true),
            ("0123456789abcdef\r\n", true),
            ("0123456789abcde", false),
            ("0123456789 abcdef", false),
            ("0123456789abcdef\n\n", false),
            ("0123456789abcdéf", false),
            ("", false),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(Token::read(&path).is_ok(), sound, "{text:?}");
        }
        fs::write(&path, "x".repeat(512)).unwrap();
        assert!(!format!("{:?}", Token::read(&path).unwrap()).contains('x'));
        fs::write(&path, "x".repeat(513)).unwrap();
        assert_eq!(Token::read(&path), Err(TokenFault::Unusable));
        assert_eq!(Token::read(folder.path()), Err(TokenFault::Unreadable));
        assert_eq!(Token::read(&folder.path().join("none")), Err(TokenFault::Unreadable));
    }

    #[test]
    fn the_token_alone_is_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "0123456789abcdef\n").unwrap();
        let token = Token::in_file(path);
        assert!(token.is(b"0123456789abcdef"));
        for shown in [
            "",
            "0123456789abcde",
            "0123456789abcdeg",
            "0123456789abcdef\n",
            "0123456789ABCDEF",
        ] {
            assert!(!token.is(shown.as_bytes()), "{shown:?}");
        }
        assert!(!Token::in_file(folder.path().join("none")).is(b""));
    }
}
