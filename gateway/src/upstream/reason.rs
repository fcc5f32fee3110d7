//! Why a family is not ready: the closed set that bodies, logs and metric labels draw from.

use pingora::ErrorType;

/// Why a family, or the whole gateway, is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No probe has been completed since the start.
    Starting,
    /// The upstream refused the connection, or no route leads to it.
    Refused,
    /// No answer within the time of a probe or a connection.
    Timeout,
    /// The TLS handshake failed: certificate, name or protocol.
    Tls,
    /// The upstream's name does not resolve.
    Dns,
    /// The upstream answered a probe with another status than it should, or requests with a row of 5xx.
    Status,
    /// The upstream closed the connection or answered something that is not HTTP.
    Protocol,
    /// Several probes in a row that should have been completed were not.
    Stale,
    /// The gateway is about to stop.
    Draining,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 9] = [
        Self::Starting,
        Self::Refused,
        Self::Timeout,
        Self::Tls,
        Self::Dns,
        Self::Status,
        Self::Protocol,
        Self::Stale,
        Self::Draining,
    ];

    /// The word that bodies, logs and labels show.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Tls => "tls",
            Self::Dns => "dns",
            Self::Status => "status",
            Self::Protocol => "protocol",
            Self::Stale => "stale",
            Self::Draining => "draining",
        }
    }

    /// The reason behind a failure to connect to an upstream or to talk to it.
    pub fn of_error(error: &ErrorType) -> Self {
        use ErrorType as E;
        match error {
            E::ConnectTimedout | E::TLSHandshakeTimedout | E::ReadTimedout | E::WriteTimedout => Self::Timeout,
            E::TLSHandshakeFailure | E::TLSWantX509Lookup | E::InvalidCert | E::HandshakeError => Self::Tls,
            // An error of the local socket (no free port, no descriptor) comes as an internal one.
            E::ConnectRefused
            | E::ConnectNoRoute
            | E::ConnectError
            | E::BindError
            | E::SocketError
            | E::InternalError => Self::Refused,
            _ => Self::Protocol,
        }
    }

    /// A number for an atomic; never 0.
    pub(super) fn to_code(self) -> u8 {
        u8::try_from(self.index() + 1).unwrap_or(1)
    }

    /// The reason's place in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The reason of a number from [`to_code`](Self::to_code); `None` for 0.
    pub(super) fn of_code(code: u8) -> Option<Self> {
        usize::from(code)
            .checked_sub(1)
            .and_then(|index| Self::ALL.get(index))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_survives_its_code() {
        assert_eq!(Reason::of_code(0), None);
        for reason in Reason::ALL {
            assert_eq!(Reason::of_code(reason.to_code()), Some(reason));
        }
        assert_eq!(Reason::of_code(200), None);
    }
}
