//! What is told about liveness and readiness, the same on the admin and on the public listener.
//!
//! A body holds family names and words of closed sets, and nothing else: it is read by whoever reaches the
//! listener. The verdict is read from the [`Board`]; asking starts no probe.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use route_contract::contract::FamilyId;
use serde::Serialize;

use super::{Board, FamilyState, Reason, State};
use crate::config::PublicReadiness;

/// The paths at which one listener answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    live: Option<String>,
    ready: Option<String>,
}

impl Paths {
    /// `/livez` and `/readyz`.
    pub fn admin() -> Self {
        Self {
            live: Some("/livez".to_owned()),
            ready: Some("/readyz".to_owned()),
        }
    }

    /// The paths that a configuration gives for the public listener; none where it gives none.
    pub fn public(readiness: &PublicReadiness) -> Self {
        Self {
            live: readiness.live.clone(),
            ready: readiness.ready.clone(),
        }
    }

    /// Whether a target may be a question; never false for one that is.
    pub fn may_be_asked(&self, target: &[u8]) -> bool {
        [&self.live, &self.ready]
            .into_iter()
            .flatten()
            .any(|path| target.starts_with(path.as_bytes()))
    }

    /// The question that an origin-form target asks, byte for byte: another spelling of a path is another
    /// path. `None` where the target is none of these paths, or names no forwarded family.
    pub fn question(&self, target: &[u8], board: &Board<'_>) -> Option<Question> {
        let mut parts = target.splitn(2, |byte| *byte == b'?');
        let path = parts.next().unwrap_or_default();
        let query = parts.next().unwrap_or_default();
        if self.live.as_ref().is_some_and(|live| live.as_bytes() == path) {
            return Some(Question::Live);
        }
        let rest = path.strip_prefix(self.ready.as_ref()?.as_bytes())?;
        if rest.is_empty() {
            let verbose = query
                .split(|byte| *byte == b'&')
                .any(|part| part == b"verbose" || part.starts_with(b"verbose="));
            return Some(Question::Ready { verbose });
        }
        let name = rest.strip_prefix(b"/")?;
        board
            .families()
            .find(|family| family.name.as_bytes() == name)
            .map(|family| Question::Family(family.id))
    }
}

/// What may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether the process is alive.
    Live,
    /// Whether the gateway may be sent traffic.
    Ready {
        /// With the state of every family.
        verbose: bool,
    },
    /// Whether one family is served.
    Family(FamilyId),
}

/// A status and a JSON body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 200 or 503.
    pub status: StatusCode,
    /// The body; for a HEAD request its length alone is sent (RFC 9110, section 9.3.2).
    pub body: Bytes,
}

impl Answer {
    /// Answers from what the board holds.
    pub fn to(question: Question, board: &Board<'_>) -> Self {
        match question {
            Question::Live => Self::of(true, &Report::new("live")),
            Question::Ready { verbose } => {
                let ready = board.is_ready();
                let families = verbose.then(|| board.families().map(FamilyReport::of).collect());
                Self::of(
                    ready,
                    &Report {
                        reason: board.is_draining().then(|| Reason::Draining.as_str()),
                        families,
                        ..Report::new(if ready { "ready" } else { "not_ready" })
                    },
                )
            }
            Question::Family(id) => {
                let Some(mut family) = board.families().find(|family| family.id == id) else {
                    return Self::of(false, &Report::new("not_ready"));
                };
                if board.is_draining() && family.state != State::Disabled {
                    family.state = State::NotReady(Reason::Draining);
                }
                let ready = family.state == State::Ready;
                Self::of(ready, &FamilyReport::of(family))
            }
        }
    }

    fn of(good: bool, report: &impl Serialize) -> Self {
        Self {
            status: if good {
                StatusCode::OK
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            },
            // Strings and a list of strings are always JSON.
            body: serde_json::to_vec(report).unwrap_or_default().into(),
        }
    }

    /// The head and, unless the request was a HEAD, the body.
    pub fn into_response(self, head_only: bool) -> Response<Vec<u8>> {
        let length = HeaderValue::from(self.body.len());
        let body = if head_only { Vec::new() } else { self.body.to_vec() };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, length);
        // A verdict is of this moment: a cache that kept it would be believed instead of the gateway.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

#[derive(Serialize)]
struct Report<'b> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    families: Option<Vec<FamilyReport<'b>>>,
}

impl Report<'_> {
    fn new(status: &'static str) -> Self {
        Self {
            status,
            reason: None,
            families: None,
        }
    }
}

#[derive(Serialize)]
struct FamilyReport<'b> {
    family: &'b str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    required: bool,
}

impl<'b> FamilyReport<'b> {
    fn of(family: FamilyState<'b>) -> Self {
        let (status, reason) = family.state.words();
        Self {
            family: family.name,
            status,
            reason,
            required: family.required,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readiness::Draining;
    use crate::readiness::board::tests::{board, probed, upstreams};

    fn ask(target: &str, board: &Board<'_>) -> Option<(u16, String)> {
        let question = Paths::admin().question(target.as_bytes(), board)?;
        let answer = Answer::to(question, board);
        Some((answer.status.as_u16(), String::from_utf8(answer.body.to_vec()).unwrap()))
    }

    #[test]
    fn bodies_hold_family_names_and_closed_words() {
        let upstreams = upstreams();
        let board = board(&upstreams);
        probed(&upstreams, FamilyId(2), Err(Reason::Dns));
        for (target, status, body) in [
            ("/livez", 200, r#"{"status":"live"}"#),
            ("/readyz", 503, r#"{"status":"not_ready"}"#),
            ("/readyz?x=1", 503, r#"{"status":"not_ready"}"#),
            (
                "/readyz?verbose",
                503,
                r#"{"status":"not_ready","families":[{"family":"a","status":"not_ready","reason":"starting","required":true},{"family":"b","status":"not_ready","reason":"dns","required":false},{"family":"c","status":"ready","required":true},{"family":"d","status":"disabled","required":true}]}"#,
            ),
            (
                "/readyz/b",
                503,
                r#"{"family":"b","status":"not_ready","reason":"dns","required":false}"#,
            ),
            ("/readyz/c", 200, r#"{"family":"c","status":"ready","required":true}"#),
            (
                "/readyz/d",
                503,
                r#"{"family":"d","status":"disabled","required":true}"#,
            ),
        ] {
            assert_eq!(ask(target, &board), Some((status, body.to_owned())), "{target}");
        }
        probed(&upstreams, FamilyId(1), Ok(()));
        assert_eq!(ask("/readyz", &board), Some((200, r#"{"status":"ready"}"#.to_owned())));
        let draining = Draining::default();
        draining.begin();
        let board = Board::new(&upstreams, &draining);
        let draining = r#"{"status":"not_ready","reason":"draining"}"#.to_owned();
        assert_eq!(ask("/readyz", &board), Some((503, draining)));
        assert_eq!(ask("/readyz/a", &board).map(|(status, _)| status), Some(503));
        assert_eq!(ask("/livez", &board).map(|(status, _)| status), Some(200));
    }

    #[test]
    fn other_spellings_and_unknown_families_are_no_question() {
        let upstreams = upstreams();
        let board = board(&upstreams);
        for target in [
            "/",
            "/readyz/",
            "/readyz/hidden",
            "/readyz/e",
            "/readyz/a/",
            "/readyzx",
            "/READYZ",
            "/%72eadyz",
            "/x/../readyz",
            "//readyz",
            "/livez/",
            "/readyz/%61",
            "readyz",
            "",
        ] {
            assert_eq!(ask(target, &board), None, "{target}");
        }
        assert_eq!(Paths::default().question(b"/readyz", &board), None);
    }

    #[test]
    fn a_head_request_gets_the_length_without_the_body() {
        let answer = Answer::to(Question::Live, &board(&upstreams()));
        let length = answer.body.len();
        let response = answer.into_response(true);
        assert_eq!(response.headers()[CONTENT_LENGTH], length.to_string());
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        assert!(response.body().is_empty());
    }
}
