//! Step 2, target: the request target as it came, in the one form that is classified and forwarded.
//!
//! [`crate::listen::head`] has refused targets of other forms, and those with a byte that Pingora would change. Whether
//! the path's bytes and escapes are sound is the classifier's to say.

use pingora::http::RequestHeader;

use super::refusal::Refusal;
use crate::listen::Connection;
use crate::listen::head::TargetForm;

/// What a target asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// Path and query, byte for byte as the client sent them.
    Origin {
        /// The bytes.
        bytes: &'a [u8],
        /// Whether they came behind a scheme and this host's authority.
        was_absolute: bool,
    },
    /// `OPTIONS *`: about the gateway itself (RFC 9110 section 9.3.7).
    Server,
}

/// The target of the request that `connection` holds and that Pingora read as `parsed`.
///
/// # Errors
/// [`Refusal::InvalidTarget`] where Pingora would forward other bytes than came: it would be classified by one target
/// and served by another.
pub fn of<'a>(connection: &'a Connection, parsed: &RequestHeader) -> Result<Target<'a>, Refusal> {
    let head = connection.head().ok_or(Refusal::Internal)?;
    let part = |range: &std::ops::Range<usize>| connection.head_bytes().get(range.clone()).ok_or(Refusal::Internal);
    let sent = part(&head.target)?;
    if parsed.raw_path() != sent {
        return Err(Refusal::InvalidTarget);
    }
    Ok(match &head.form {
        TargetForm::Origin => Target::Origin {
            bytes: sent,
            was_absolute: false,
        },
        TargetForm::Absolute(path) => Target::Origin {
            bytes: part(path)?,
            was_absolute: true,
        },
        TargetForm::Asterisk => Target::Server,
    })
}
