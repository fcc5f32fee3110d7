//! Failures on the way to an upstream and back, as answers.

use pingora::{Error, ErrorSource, ErrorType};

use super::refusal::Refusal;
use crate::listen::RequestFault;

/// The answer to a failure; none when the client is gone. The one place where Pingora's errors become statuses.
///
/// `fault` is what the client's connection knows of a failed read.
pub fn refusal(error: &Error, fault: Option<RequestFault>) -> Option<Refusal> {
    if let ErrorType::HTTPStatus(413) = error.etype {
        return Some(Refusal::BodyTooLarge);
    }
    if let ErrorType::HTTPStatus(503) = error.etype {
        return Some(Refusal::Unavailable);
    }
    match error.esource() {
        ErrorSource::Downstream => match (&error.etype, fault) {
            (ErrorType::ReadError, Some(RequestFault::Coding)) => Some(Refusal::InvalidRequest),
            (ErrorType::ReadError, Some(RequestFault::Unanswered)) => Some(Refusal::UpstreamTimeout),
            // Whoever is cut off may ask another gateway.
            (_, Some(RequestFault::Cut)) => Some(Refusal::Unavailable),
            (ErrorType::ReadError, Some(RequestFault::Slow)) | (ErrorType::ReadTimedout, _) => {
                Some(Refusal::RequestTimeout)
            }
            (ErrorType::InvalidHTTPHeader, _) => Some(Refusal::InvalidRequest),
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
        for (source, kind, fault, expected) in [
            (
                Upstream,
                ErrorType::ConnectRefused,
                None,
                Some(Refusal::UpstreamFailure),
            ),
            (
                Upstream,
                ErrorType::ConnectTimedout,
                None,
                Some(Refusal::UpstreamFailure),
            ),
            (
                Upstream,
                ErrorType::InvalidHTTPHeader,
                None,
                Some(Refusal::UpstreamFailure),
            ),
            (
                Upstream,
                ErrorType::ConnectionClosed,
                None,
                Some(Refusal::UpstreamFailure),
            ),
            (Upstream, ErrorType::ReadTimedout, None, Some(Refusal::UpstreamTimeout)),
            (Upstream, ErrorType::WriteTimedout, None, Some(Refusal::UpstreamTimeout)),
            (Downstream, ErrorType::ReadTimedout, None, Some(Refusal::RequestTimeout)),
            (
                Downstream,
                ErrorType::ReadError,
                Some(RequestFault::Coding),
                Some(Refusal::InvalidRequest),
            ),
            (Downstream, ErrorType::ReadError, None, None),
            (
                Downstream,
                ErrorType::ReadError,
                Some(RequestFault::Unanswered),
                Some(Refusal::UpstreamTimeout),
            ),
            (
                Downstream,
                ErrorType::ReadError,
                Some(RequestFault::Slow),
                Some(Refusal::RequestTimeout),
            ),
            (
                Downstream,
                ErrorType::ReadError,
                Some(RequestFault::Cut),
                Some(Refusal::Unavailable),
            ),
            (Downstream, ErrorType::ConnectionClosed, None, None),
            (Downstream, ErrorType::WriteError, None, None),
            (Internal, ErrorType::HTTPStatus(413), None, Some(Refusal::BodyTooLarge)),
            (Internal, ErrorType::HTTPStatus(503), None, Some(Refusal::Unavailable)),
            (Internal, ErrorType::InternalError, None, Some(Refusal::Internal)),
        ] {
            assert_eq!(
                refusal(&error(source.clone(), kind.clone()), fault),
                expected,
                "{source:?} {kind:?}"
            );
        }
    }
}
