//! The classification of a request target: the compiled matcher and the rule on readings together. The
//! gateway and `route-contract classify` use this very code.

use std::sync::Arc;

use crate::automaton::{ROOT, StateId};
use crate::contract::{Contract, EncodedSlash, FamilyId};
use crate::diagnostic::{Diagnostic, Place};
use crate::matcher::Matcher;
use crate::ownership::{Decision, Owner, Ownership, TemplateId};
use crate::plain::Plainness;
use crate::readings::{Reading, Unreadable, has_encoded_slash, readings};

/// The code of a contract whose templates cannot be compiled.
const TOO_LARGE: &str = "RC0110";

/// What becomes of a request target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Forwarded to this family's upstream.
    Family(FamilyId),
    /// Refused like an unknown path: it belongs to a family that is never forwarded.
    Never(FamilyId),
    /// Refused: nobody's, or in a claim and none of its routes.
    Unknown,
    /// Refused: two servers could read it as paths of different owners.
    Ambiguous,
    /// Refused: not a target that every server reads alike.
    Invalid,
}

/// A verdict with what stands behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classification {
    /// What becomes of the target.
    pub verdict: Verdict,
    /// The template that decided about the path as it stands.
    pub template: Option<TemplateId>,
}

/// Classifies request targets by a contract. Cheap to share in an [`Arc`].
pub struct Classifier {
    ownership: Ownership,
    exact: Arc<Matcher>,
    /// For readings that fold case; the same as `exact` where the contract has no capitals and no kinds of
    /// its own, so that folding the path's letters is all there is to do.
    folded: Arc<Matcher>,
    shared: bool,
    /// By family: what it says about an encoded slash.
    encoded_slash: Box<[EncodedSlash]>,
}

/// Two readings that disagree, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The reading.
    pub reading: Reading,
    /// Whether its letters were taken as lower case too.
    pub folded: bool,
    /// Who would own it.
    pub owner: Owner,
}

impl Disagreement {
    /// The path of the reading, as text.
    pub fn path(&self) -> String {
        let path = String::from_utf8_lossy(&self.reading.path);
        if self.folded {
            path.to_ascii_lowercase()
        } else {
            path.into_owned()
        }
    }

    /// How the reading comes about, in words.
    pub fn how(&self) -> String {
        let mut words: Vec<&str> = self.reading.steps.iter().map(|step| step.as_str()).collect();
        if self.folded {
            words.push("letters in lower case");
        }
        words.join(", ")
    }
}

impl Classifier {
    /// Compiles a contract.
    ///
    /// # Errors
    /// Its templates overlap in too many ways to be compiled.
    pub fn new(contract: &Contract) -> Result<Self, Vec<Diagnostic>> {
        let ownership = Ownership::new(contract);
        let compile = |fold| {
            Matcher::new(contract, &ownership, fold).map(Arc::new).map_err(|error| {
                let place = Place::new(&contract.source, 0..0);
                vec![Diagnostic::error(TOO_LARGE, error.to_string()).at(place)]
            })
        };
        let exact = compile(false)?;
        let shared = ownership.templates().all(|(_, template)| {
            let own_kind = |kind: &str| contract.kinds.declared().any(|(name, _)| name == kind);
            !template.shape(false).bytes().any(|byte| byte.is_ascii_uppercase())
                && !template
                    .parameters()
                    .filter_map(|parameter| parameter.kind.as_deref())
                    .any(own_kind)
        });
        let folded = if shared { Arc::clone(&exact) } else { compile(true)? };
        Ok(Self {
            ownership,
            exact,
            folded,
            shared,
            encoded_slash: contract.families.iter().map(|family| family.encoded_slash).collect(),
        })
    }

    /// Classifies an origin-form request target (RFC 9112 section 3.2.1): path and query as they came. A
    /// plain path is settled in one pass without an allocation.
    pub fn classify(&self, target: &[u8]) -> Classification {
        let Some((b'/', _)) = target.split_first() else {
            return refused(Verdict::Invalid);
        };
        match Plainness::glance(target) {
            Plainness::Lower if self.shared => self.settle_lower(target),
            Plainness::Lower | Plainness::Mixed => self.settle(target, |path| self.walk_both(path)),
            _ => self.classify_closely(target),
        }
    }

    /// The same for a target that has a query or any byte that is not a letter, a digit, `-`, `.` or `_`.
    fn classify_closely(&self, target: &[u8]) -> Classification {
        let (path, query) = target.split_at(memchr::memchr(b'?', target).unwrap_or(target.len()));
        if !query_is_valid(query) {
            return refused(Verdict::Invalid);
        }
        match Plainness::of(path) {
            Plainness::Lower if self.shared => self.settle_lower(path),
            Plainness::Lower | Plainness::Mixed => self.settle(path, |path| self.walk_both(path)),
            Plainness::Suspicious => self.classify_suspicious(path),
            Plainness::Invalid => refused(Verdict::Invalid),
        }
    }

    #[inline]
    fn settle_lower(&self, path: &[u8]) -> Classification {
        self.settle(path, |path| {
            let at = self.exact.walk::<false>(ROOT, path);
            (at, at)
        })
    }

    /// Decides on a plain path: it has three readings besides itself, with its letters folded, without its
    /// trailing slash, and both.
    #[inline]
    fn settle(&self, path: &[u8], walk: impl Fn(&[u8]) -> (StateId, StateId)) -> Classification {
        let rest = path.get(1..).unwrap_or_default();
        let (exact, folded) = walk(rest);
        let decision = self.exact.decision(exact);
        let Owner::Family(family) = decision.owner else {
            return refusal(decision);
        };
        let owned = |owner| owner == Owner::Family(family);
        let folded_agrees =
            |exact, folded| (exact == folded && self.shared) || owned(self.folded.decision(folded).owner);
        let mut agreed = folded_agrees(exact, folded);
        if let Some((b'/', without)) = rest.split_last() {
            let (exact, folded) = walk(without);
            agreed &= owned(self.exact.decision(exact).owner) && folded_agrees(exact, folded);
        }
        Classification {
            verdict: if agreed {
                Verdict::Family(family)
            } else {
                Verdict::Ambiguous
            },
            template: decision.template,
        }
    }

    /// The walk over the letters as they stand and the one over them as lower case, side by side: they part
    /// only at a segment with capitals, and mostly meet again behind it.
    fn walk_both(&self, rest: &[u8]) -> (StateId, StateId) {
        if !self.shared {
            return (
                self.exact.walk::<false>(ROOT, rest),
                self.folded.walk::<true>(ROOT, rest),
            );
        }
        let (mut exact, mut folded) = (ROOT, ROOT);
        for segment in rest.split(|byte| *byte == b'/') {
            let together = exact == folded && !segment.iter().any(u8::is_ascii_uppercase);
            exact = self.exact.step::<false>(exact, segment);
            folded = if together {
                exact
            } else {
                self.folded.step::<true>(folded, segment)
            };
            if self.exact.is_final(exact) && self.folded.is_final(folded) {
                break;
            }
        }
        (exact, folded)
    }

    /// The slow way, for a path that some server may read as another one.
    #[cold]
    fn classify_suspicious(&self, path: &[u8]) -> Classification {
        let readings = readings(path);
        if readings == Err(Unreadable::Malformed) {
            return refused(Verdict::Invalid);
        }
        let decision = self.exact.decide::<false>(path);
        let Owner::Family(family) = decision.owner else {
            return refusal(decision);
        };
        let agreed = !self.refuses_encoded_slash(path, family)
            && readings.is_ok_and(|readings| self.disagreement_among(&readings, family).is_none());
        Classification {
            verdict: if agreed {
                Verdict::Family(family)
            } else {
                Verdict::Ambiguous
            },
            template: decision.template,
        }
    }

    /// Whether the path holds an encoded slash, and the family that owns it refuses those.
    pub fn refuses_encoded_slash(&self, path: &[u8], family: FamilyId) -> bool {
        self.encoded_slash.get(family.index()) == Some(&EncodedSlash::Refuse) && has_encoded_slash(path)
    }

    /// The first reading of a path that its family does not own.
    ///
    /// # Errors
    /// The path has no readings that could be compared.
    pub fn disagreement(&self, path: &[u8]) -> Result<Option<Disagreement>, Unreadable> {
        let readings = readings(path)?;
        Ok(self
            .exact
            .decide::<false>(path)
            .owner
            .forwarded()
            .and_then(|family| self.disagreement_among(&readings, family)))
    }

    fn disagreement_among(&self, readings: &[Reading], family: FamilyId) -> Option<Disagreement> {
        readings.iter().find_map(|reading| {
            let owners = [
                (false, self.exact.decide::<false>(&reading.path).owner),
                (true, self.folded.decide::<true>(&reading.path).owner),
            ];
            owners
                .into_iter()
                .find(|(_, owner)| owner.forwarded() != Some(family))
                .map(|(folded, owner)| Disagreement {
                    reading: reading.clone(),
                    folded,
                    owner,
                })
        })
    }

    /// The decision on a path taken as it stands, readings aside.
    pub fn decide(&self, path: &[u8]) -> Decision {
        self.exact.decide::<false>(path)
    }

    /// The text of the template behind a classification.
    pub fn template(&self, id: TemplateId) -> &str {
        self.ownership.template(id).map_or("", |template| template.as_str())
    }

    /// The families' templates.
    pub fn ownership(&self) -> &Ownership {
        &self.ownership
    }
}

fn refused(verdict: Verdict) -> Classification {
    Classification {
        verdict,
        template: None,
    }
}

fn refusal(decision: Decision) -> Classification {
    Classification {
        verdict: match decision.owner {
            Owner::Never(family) => Verdict::Never(family),
            _ => Verdict::Unknown,
        },
        template: decision.template,
    }
}

/// The query is opaque: only what no hop may pass on unescaped is refused.
fn query_is_valid(query: &[u8]) -> bool {
    !query.iter().any(|byte| !matches!(byte, b'!'..=b'~') || *byte == b'#')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Contract;
    use std::path::Path;

    fn reference() -> (Contract, Classifier) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/agentteam/contract.toml");
        let contract = Contract::load(&path).unwrap();
        let classifier = Classifier::new(&contract).unwrap();
        (contract, classifier)
    }

    #[test]
    fn the_reference_contract_classifies_as_it_is_written() {
        let (contract, classifier) = reference();
        let ext = "/api/v1/workspaces/w1/agents/a1/runtime/ext";
        let cases: Vec<(String, &str)> = vec![
            ("/".into(), "central"),
            ("/login".into(), "central"),
            ("/api/v1/orgs".into(), "central"),
            ("/api/v1/orgs/".into(), "central"),
            ("/api/v1/orgs?next=/internal/jobs".into(), "central"),
            ("/api/v1/workspaces".into(), "central"),
            ("/api/v1/workspaces/".into(), "unknown"),
            ("/api/v1/workspaces/w1".into(), "workspace"),
            ("/api/v1/workspaces/w1/files/a%2Fb.txt".into(), "workspace"),
            ("/api/v1/workspaces/w1/files/100%25.txt".into(), "workspace"),
            ("/api/v1/workspaces/w1/files/a..b/v1.2/.hidden".into(), "workspace"),
            ("/api/v1/workspaces/w1/files/%C3%A9%20x".into(), "workspace"),
            ("/api/v1/workspaces/01HV/agents/A1/runtime/status".into(), "workspace"),
            ("/api/v1/workspaces/w1/agents/a1/runtime/extension".into(), "workspace"),
            (ext.into(), "extension"),
            (format!("{ext}/d1"), "extension"),
            (format!("{ext}/d1/actions/run"), "extension"),
            ("/api/v1/workspaces/ext/agents/ext/runtime/ext".into(), "extension"),
            ("/api/v1/workspaces/W1/agents/A1/runtime/ext/d1".into(), "extension"),
            (format!("{ext}/"), "unknown"),
            (format!("{ext}/d1/"), "unknown"),
            (format!("{ext}/d1/actions"), "unknown"),
            (format!("{ext}/d1/actions/run/more"), "unknown"),
            (format!("{ext}/sales%20eu/actions/run"), "unknown"),
            (format!("{ext}/D1"), "unknown"),
            ("/api/internal/jobs".into(), "never"),
            ("/internal".into(), "never"),
            ("/internalization".into(), "unknown"),
            ("/%69nternal/jobs".into(), "unknown"),
            ("/INTERNAL/jobs".into(), "unknown"),
            ("//internal/jobs".into(), "unknown"),
            ("/wp-login.php".into(), "unknown"),
            ("/metrics".into(), "unknown"),
            ("/api/v1/workspaces/w1/agents/a1/Runtime/ext/d1".into(), "ambiguous"),
            ("/api/v1/workspaces/w1/agents/a1/runtime%2Fext/d1".into(), "ambiguous"),
            (
                "/api/v1/workspaces/w1%2fagents%2fa1%2fruntime%2fext".into(),
                "ambiguous",
            ),
            ("/api/v1/workspaces/w1/agents/a1/runtime%252Fext".into(), "ambiguous"),
            ("/api/v1/workspaces/w1/agents/a1/runtime/e%78t/d1".into(), "ambiguous"),
            ("/api/v1/workspaces/w1/agents/a1/runtime/./ext".into(), "ambiguous"),
            ("/api/v1/workspaces/w1/agents/a1/runtime//ext".into(), "ambiguous"),
            ("/api/v1/workspaces/w1/agents/a1/runtime;v=1/ext".into(), "ambiguous"),
            ("/api/v1/workspaces/w1/../../../../internal/jobs".into(), "ambiguous"),
            (
                "/api/v1/workspaces/w1/%2e%2E/..%2f../../internal/jobs".into(),
                "ambiguous",
            ),
            ("/api/v1/orgs%3fx".into(), "unknown"),
            ("/api/v1/orgs/%zz".into(), "invalid"),
            ("/internal/%zz".into(), "invalid"),
            ("/api/v1/orgs/%00".into(), "invalid"),
            ("/api/v1/orgs/%c0%ae".into(), "invalid"),
            ("/api/v1/orgs\\x".into(), "invalid"),
            ("/api/v1/orgs#x".into(), "invalid"),
            ("/api/v1/orgs?x#y".into(), "invalid"),
            ("/api/v1/orgs?x y".into(), "invalid"),
            ("*".into(), "invalid"),
            ("".into(), "invalid"),
            ("api/v1/orgs".into(), "invalid"),
            ("http://gw/api/v1/orgs".into(), "invalid"),
        ];
        for (target, expected) in cases {
            let verdict = classifier.classify(target.as_bytes()).verdict;
            let found = match verdict {
                Verdict::Family(family) => contract.families[family.index()].name.as_str(),
                Verdict::Never(_) => "never",
                Verdict::Unknown => "unknown",
                Verdict::Ambiguous => "ambiguous",
                Verdict::Invalid => "invalid",
            };
            assert_eq!(found, expected, "{target}");
        }
    }

    #[test]
    fn a_classification_names_the_template_that_decided() {
        let (_, classifier) = reference();
        let text = |target: &str| {
            classifier
                .classify(target.as_bytes())
                .template
                .map(|id| classifier.template(id))
        };
        assert_eq!(text("/api/v1/orgs/x"), Some("/api/v1/orgs/**"));
        assert_eq!(
            text("/api/v1/workspaces/w/agents/a/runtime/ext/d/actions/x"),
            Some("/api/v1/workspaces/{workspace}/agents/{agent}/runtime/ext/{domain:kebab}/actions/{action:kebab}")
        );
        assert_eq!(text("/nobody"), None);
    }
}
