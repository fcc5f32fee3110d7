//! Step 2, target: the request target as it came, in the one form that is classified and forwarded.
//!
//! [`crate::listen::head`] has refused targets of other forms, and those with a byte that Pingora would change. Whether
//! the path's bytes and escapes are sound is the classifier's to say.

use pingora::http::RequestHeader;

use super::refusal::Refusal;
use crate::listen::Client;

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

/// The target of the request that `client` sent and that Pingora read as `parsed`.
///
/// # Errors
/// [`Refusal::InvalidTarget`] where Pingora would forward other bytes than came: it would be classified by one target
/// and served by another.
pub fn of<'a>(client: &Client<'a>, parsed: &RequestHeader) -> Result<Target<'a>, Refusal> {
    let sent = client.target();
    if parsed.raw_path() != sent {
        return Err(Refusal::InvalidTarget);
    }
    Ok(match client.origin_form() {
        Some(bytes) => Target::Origin {
            bytes,
            was_absolute: bytes.len() != sent.len(),
        },
        None => Target::Server,
    })
}
