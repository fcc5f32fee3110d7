//! Failures on the way to an upstream and back, as answers.

use pingora::{Error, ErrorSource, ErrorType};

use super::refusal::Refusal;

/// The answer to a failure; none when the client is gone. The one place where Pingora's errors become statuses.
///
/// `body_fault` says that the client's body broke its coding, which Pingora sees as a failed read.
pub fn refusal(error: &Error, body_fault: bool) -> Option<Refusal> {
    if let ErrorType::HTTPStatus(413) = error.etype {
        return Some(Refusal::BodyTooLarge);
    }
    match error.esource() {
        ErrorSource::Downstream => match error.etype {
            ErrorType::ReadTimedout => Some(Refusal::RequestTimeout),
            ErrorType::ReadError | ErrorType::ConnectionClosed if body_fault => Some(Refusal::InvalidRequest),
            ErrorType::InvalidHTTPHeader => Some(Refusal::InvalidRequest),
            _ => None,
        },
        ErrorSource::Upstream => Some(match error.etype {
            ErrorType::ReadTimedout | ErrorType::WriteTimedout => Refusal::UpstreamTimeout,
            _ => Refusal::UpstreamFailure,
        }),
        ErrorSource::Internal | ErrorSource::Unset => Some(Refusal::Internal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_one_answer_each() {
        let error = |source: ErrorSource, kind: ErrorType| {
            let mut error = Error::explain(kind, "connect to 10.0.0.1:80");
            error.esource = source;
            error
        };
        use ErrorSource::{Downstream, Internal, Upstream};
        for (source, kind, body_fault, expected) in [
            (
                Upstream,
                ErrorType::ConnectRefused,
                false,
                Some(Refusal::UpstreamFailure),
            ),
            (
                Upstream,
                ErrorType::ConnectTimedout,
                false,
                Some(Refusal::UpstreamFailure),
            ),
            (
                Upstream,
                ErrorType::InvalidHTTPHeader,
                false,
                Some(Refusal::UpstreamFailure),
            ),
            (
                Upstream,
                ErrorType::ConnectionClosed,
                false,
                Some(Refusal::UpstreamFailure),
            ),
            (Upstream, ErrorType::ReadTimedout, false, Some(Refusal::UpstreamTimeout)),
            (
                Upstream,
                ErrorType::WriteTimedout,
                false,
                Some(Refusal::UpstreamTimeout),
            ),
            (
                Downstream,
                ErrorType::ReadTimedout,
                false,
                Some(Refusal::RequestTimeout),
            ),
            (Downstream, ErrorType::ReadError, true, Some(Refusal::InvalidRequest)),
            (Downstream, ErrorType::ReadError, false, None),
            (Downstream, ErrorType::ConnectionClosed, false, None),
            (Downstream, ErrorType::WriteError, false, None),
            (Internal, ErrorType::HTTPStatus(413), false, Some(Refusal::BodyTooLarge)),
            (Internal, ErrorType::InternalError, false, Some(Refusal::Internal)),
        ] {
            assert_eq!(
                refusal(&error(source.clone(), kind.clone()), body_fault),
                expected,
                "{source:?} {kind:?}"
            );
        }
    }
}
