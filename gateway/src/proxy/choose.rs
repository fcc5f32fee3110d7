//! Step 5, choose: the endpoint of this attempt, and whether another attempt is safe.
//!
//! A further attempt is made in two cases. A connection was not made, so no byte can have reached an upstream: any
//! method. Or the exchange failed before an answer began, and a second execution does no harm: idempotent methods (RFC
//! 9110 section 9.2.2), once, with the body still held whole, on another endpoint; on the same one only where a kept
//! connection that the upstream has closed is the likely cause. Both take from the family's budget, and neither
//! outlasts the request's time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType};

use crate::listen::TunnelEnd;
use crate::upstream::{InUse, Tried, Upstream};

/// The attempts of one request.
#[derive(Debug, Default)]
pub struct Attempts {
    connecting: usize,
    resent: bool,
    tried: Tried,
    present: Option<InUse>,
}

/// What is asked for, which decides how long an endpoint may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anything that the gateway watches on the client's side, with times of its own.
    Watched,
    /// An ordinary answer.
    Answer,
    /// A stream.
    Stream,
}

/// What is known of a failed exchange.
#[derive(Clone, Copy, Debug)]
pub struct Failed<'e> {
    /// Pingora's error.
    pub error: &'e Error,
    /// Whether the connection had been used before.
    pub is_reused: bool,
    /// Whether the method may be executed twice.
    pub is_idempotent: bool,
    /// Whether the request's body can be sent again.
    pub body_is_held: bool,
}

impl Attempts {
    /// Chooses the endpoint of the next attempt. `key` keeps requests together; `tunnel` is there where a WebSocket is
    /// asked for.
    ///
    /// # Errors
    /// 503: no endpoint takes requests any more.
    pub fn next(
        &mut self,
        upstream: &Upstream,
        key: Option<u64>,
        kind: Kind,
        tunnel: Option<&Arc<TunnelEnd>>,
    ) -> pingora::Result<Box<HttpPeer>> {
        self.connecting += 1;
        // The last attempt's endpoint is no longer in use, or it would look busy to this choice.
        self.present = None;
        let chosen = upstream
            .choose(key, &self.tried)
            .ok_or_else(|| Error::explain(ErrorType::HTTPStatus(503), "no endpoint takes requests"))?;
        let endpoint = chosen.endpoint();
        self.tried.add(endpoint.id());
        let mut peer = Box::new(match tunnel {
            Some(end) => endpoint.tunnel_peer(Arc::clone(end)),
            None => endpoint.peer().clone(),
        });
        let timeouts = upstream.timeouts();
        peer.options.read_timeout = match kind {
            // Pingora keeps each of its timers until it would have fired, whether anybody waits for it or not: with the
            // long times of streams and tunnels that would be megabytes.
            Kind::Watched => None,
            Kind::Answer => Some(timeouts.response.max(timeouts.body.silence)),
            Kind::Stream => Some(timeouts.response.max(timeouts.stream.silence)),
        };
        self.present = Some(chosen);
        Ok(peer)
    }

    /// How many there were.
    pub fn made(&self) -> usize {
        self.connecting
    }

    /// The endpoint of the present attempt.
    pub fn endpoint(&self) -> Option<&InUse> {
        self.present.as_ref()
    }

    /// A connection was not made, so nothing has reached an upstream: another endpoint may be tried, for any method.
    pub fn may_reconnect(&self, upstream: &Upstream, began: Instant) -> bool {
        self.connecting < upstream.attempts()
            && upstream.has_other(&self.tried)
            && has_time(upstream, began)
            && upstream.may_retry()
    }

    /// A connection was made and the exchange failed before an answer began: whether the request is sent again.
    pub fn may_resend(&mut self, failed: Failed<'_>, upstream: &Upstream, began: Instant) -> bool {
        if self.resent || !failed.is_idempotent || !failed.body_is_held {
            return false;
        }
        let allowed = failed.is_stale() || (failed.is_broken() && upstream.has_other(&self.tried));
        if !allowed || !has_time(upstream, began) || !upstream.may_retry() {
            return false;
        }
        self.resent = true;
        true
    }
}

impl Failed<'_> {
    /// Whether an upstream that has closed an idle connection is the likely cause.
    fn is_stale(self) -> bool {
        // Pingora marks errors that a stale connection explains: nothing of an answer has come.
        let mut retry = self.error.retry;
        retry.decide_reuse(self.is_reused);
        self.is_reused && (retry.retry() || self.error.etype == ErrorType::WriteError)
    }

    /// Whether the endpoint has broken the connection off; one that has the request and is slow is left to work.
    fn is_broken(self) -> bool {
        matches!(
            self.error.etype,
            ErrorType::ConnectionClosed | ErrorType::ReadError | ErrorType::WriteError
        )
    }
}

/// Whether another attempt, with the time that a connection may take, is still within the request's time.
fn has_time(upstream: &Upstream, began: Instant) -> bool {
    let timeouts = upstream.timeouts();
    let total = timeouts.body.total.unwrap_or(Duration::MAX);
    began.elapsed().saturating_add(timeouts.connect) < total
}

#[cfg(test)]
mod tests {
    use super::*;
    use pingora::RetryType;

    fn upstream(endpoints: u8) -> std::sync::Arc<Upstream> {
        let urls: Vec<String> = (1..=endpoints).map(|n| format!("\"http://10.0.0.{n}\"")).collect();
        crate::upstream::tests::upstream(&format!("urls = [{}]\nready = false\n", urls.join(", ")))
    }

    fn failed(error: &Error, is_reused: bool, is_idempotent: bool, body_is_held: bool) -> Failed<'_> {
        Failed {
            error,
            is_reused,
            is_idempotent,
            body_is_held,
        }
    }

    #[test]
    fn a_request_is_sent_again_once_and_only_where_that_does_no_harm() {
        let mut stale = Error::explain(ErrorType::ConnectionClosed, "before the answer");
        stale.retry = RetryType::ReusedOnly;
        let timeout = Error::explain(ErrorType::ReadTimedout, "while waiting");
        let now = Instant::now();
        for endpoints in [1, 2] {
            let upstream = upstream(endpoints);
            let mut attempts = Attempts::default();
            attempts.next(&upstream, None, Kind::Answer, None).unwrap();
            let mut may = |failed| attempts.may_resend(failed, &upstream, now);
            assert!(!may(failed(&stale, true, false, true)), "POST is sent once");
            assert!(!may(failed(&stale, true, true, false)), "the body is gone");
            assert!(
                !may(failed(&timeout, true, true, true)),
                "the upstream has it and is slow"
            );
            let elsewhere = may(failed(&stale, false, true, true));
            assert_eq!(
                elsewhere,
                endpoints == 2,
                "a fresh connection is not stale: another endpoint"
            );
            assert_eq!(may(failed(&stale, true, true, true)), endpoints == 1);
            assert!(!may(failed(&stale, true, true, true)), "once");
        }
    }

    #[test]
    fn attempts_end_with_the_endpoints_the_time_and_the_budget() {
        let upstream = upstream(2);
        let now = Instant::now();
        let mut attempts = Attempts::default();
        let first = attempts.next(&upstream, None, Kind::Answer, None).unwrap();
        assert!(attempts.may_reconnect(&upstream, now));
        let long_ago = now.checked_sub(Duration::from_secs(1_796)).unwrap();
        assert!(!attempts.may_reconnect(&upstream, long_ago), "the time is up");
        let second = attempts.next(&upstream, None, Kind::Answer, None).unwrap();
        assert_ne!(first._address, second._address);
        assert!(!attempts.may_reconnect(&upstream, now), "each endpoint once");
        let mut granted = 0;
        for _ in 0..100 {
            let mut attempts = Attempts::default();
            attempts.next(&upstream, None, Kind::Answer, None).unwrap();
            granted += usize::from(attempts.may_reconnect(&upstream, now));
        }
        assert_eq!(granted, 9, "ten within ten seconds, one of them above");
    }
}
