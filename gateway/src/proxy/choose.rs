//! Step 5, choose: the endpoint of this attempt, and whether another attempt is safe.

use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType};

use crate::upstream::Upstream;

/// The attempts of one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attempts {
    connecting: usize,
    resent: bool,
}

impl Attempts {
    /// The next endpoint in turn.
    ///
    /// # Errors
    /// No address is known any more.
    pub fn next(&mut self, upstream: &Upstream, tunnel: bool) -> pingora::Result<Box<HttpPeer>> {
        self.connecting += 1;
        upstream
            .choose(tunnel)
            .ok_or_else(|| Error::explain(ErrorType::ConnectNoRoute, "no address is known"))
    }

    /// A connection was not made, so nothing has reached an upstream: another address may be tried, for any method.
    pub fn may_reconnect(&self, upstream: &Upstream) -> bool {
        self.connecting < upstream.attempts()
    }

    /// A connection was made and the exchange failed. The request is sent again once at most, and only when an
    /// upstream that has closed an idle connection is the likely cause and a second execution does no harm
    /// (RFC 9110 section 9.2.2): `is_reused`, `is_idempotent`, and the body still held whole.
    pub fn may_resend(&mut self, error: &Error, is_reused: bool, is_idempotent: bool, body_is_held: bool) -> bool {
        // Pingora marks errors that a stale connection explains: nothing of an answer has come.
        let mut retry = error.retry;
        retry.decide_reuse(is_reused);
        let is_stale = retry.retry() || (is_reused && error.etype == ErrorType::WriteError);
        if self.resent || !is_reused || !is_stale || !is_idempotent || !body_is_held {
            return false;
        }
        self.resent = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pingora::RetryType;

    #[test]
    fn a_request_is_sent_again_once_and_only_after_a_stale_connection() {
        let mut stale = Error::explain(ErrorType::ConnectionClosed, "before the answer");
        stale.retry = RetryType::ReusedOnly;
        let timeout = Error::explain(ErrorType::ReadTimedout, "while waiting");
        let mut attempts = Attempts::default();
        assert!(
            !attempts.may_resend(&stale, false, true, true),
            "a fresh connection is not stale"
        );
        assert!(!attempts.may_resend(&stale, true, false, true), "POST is sent once");
        assert!(!attempts.may_resend(&stale, true, true, false), "the body is gone");
        assert!(
            !attempts.may_resend(&timeout, true, true, true),
            "the upstream has it and is slow"
        );
        assert!(attempts.may_resend(&stale, true, true, true));
        assert!(!attempts.may_resend(&stale, true, true, true), "once");
    }
}
