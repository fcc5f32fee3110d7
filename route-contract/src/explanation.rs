//! What the compiled matcher says about one request target, in words. `route-contract classify` and `explain` print it,
//! and the gateway serves it on its admin listener, so that an answer reads the same wherever it is asked for.

use std::borrow::Cow;

use serde::Serialize;

use crate::classify::{Classification, Classifier, Verdict};
use crate::contract::{Contract, Family};
use crate::listing::JSON_VERSION;
use crate::ownership::Owner;
use crate::proof::describe;
use crate::readings::Unreadable;

/// Who owns a target: a line of `route-contract classify --format json`.
#[derive(Clone, Debug, Serialize)]
pub struct Classified<'a> {
    /// [`JSON_VERSION`].
    pub version: u32,
    /// The family's name, or `never`, `unknown`, `ambiguous` or `invalid`, which no family can be called.
    pub owner: &'a str,
    /// The target; bytes that are no UTF-8 are replaced.
    pub target: Cow<'a, str>,
    /// The template that decided about the path as it stands.
    pub template: Option<&'a str>,
}

impl<'a> Classified<'a> {
    /// Classifies a target by a contract and the classifier that was compiled from it.
    pub fn of(contract: &'a Contract, classifier: &'a Classifier, target: &'a [u8]) -> Self {
        Self::told(contract, classifier, target, classifier.classify(target))
    }

    fn told(
        contract: &'a Contract,
        classifier: &'a Classifier,
        target: &'a [u8],
        classification: Classification,
    ) -> Self {
        Self {
            version: JSON_VERSION,
            owner: owner_name(contract, classification.verdict),
            target: String::from_utf8_lossy(target),
            template: classification.template.map(|id| classifier.template(id)),
        }
    }
}

/// The verdict's name: a family's, or one of four that no family can have.
pub fn owner_name(contract: &Contract, verdict: Verdict) -> &str {
    match verdict {
        Verdict::Family(family) => contract.families.get(family.index()).map_or("", |family| &family.name),
        Verdict::Never(_) => "never",
        Verdict::Unknown => "unknown",
        Verdict::Ambiguous => "ambiguous",
        Verdict::Invalid => "invalid",
    }
}

/// Why a target has its owner, or has none.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation<'a> {
    /// Who owns it.
    #[serde(flatten)]
    pub classified: Classified<'a>,
    /// The family that the path belongs to as it stands, even where the target is refused; none where none claims it.
    pub family: Option<&'a str>,
    /// Who answers for that family, for people.
    pub team: Option<&'a str>,
    /// The first reading of the path that goes elsewhere.
    pub reading: Option<OtherReading>,
    /// Whether it is forwarded.
    pub forwarded: bool,
    /// The status of the refusal, where it is refused.
    pub status: Option<u16>,
    /// What becomes of it, in words.
    pub why: &'static str,
}

/// A reading that some server may take, and that has another owner.
#[derive(Clone, Debug, Serialize)]
pub struct OtherReading {
    /// The path as that server reads it.
    pub path: String,
    /// How it comes to be read so.
    pub how: String,
    /// Who would own it, in words.
    pub owner: String,
}

impl<'a> Explanation<'a> {
    /// Explains what becomes of a target.
    pub fn of(contract: &'a Contract, classifier: &'a Classifier, target: &'a [u8]) -> Self {
        let path = target.split(|byte| *byte == b'?').next().unwrap_or(target);
        let classification = classifier.classify(target);
        let verdict = classification.verdict;
        // A target that is invalid has no path to speak of.
        let claimed = (verdict != Verdict::Invalid).then(|| classifier.decide(path).owner);
        let family = claimed.and_then(|owner| family_of(contract, owner));
        let refusal = refusal(contract, classifier, path, verdict);
        Self {
            classified: Classified::told(contract, classifier, target, classification),
            family: family.map(|family| family.name.as_str()),
            team: family.and_then(|family| family.owner.as_deref()),
            reading: other_reading(contract, classifier, path).unwrap_or(None),
            forwarded: refusal.is_none(),
            status: refusal.map(|(status, _)| status),
            why: refusal.map_or("every reading of it has the same owner", |(_, why)| why),
        }
    }
}

fn family_of(contract: &Contract, owner: Owner) -> Option<&Family> {
    match owner {
        Owner::Family(id) | Owner::Never(id) | Owner::Refused(id) => contract.families.get(id.index()),
        Owner::Unclaimed => None,
    }
}

/// The family that owns the path and refuses the encoded slash in it.
pub(crate) fn stricter_family<'c>(contract: &'c Contract, classifier: &Classifier, path: &[u8]) -> Option<&'c Family> {
    match classifier.decide(path).owner {
        Owner::Family(family) if classifier.refuses_encoded_slash(path, family) => {
            contract.families.get(family.index())
        }
        _ => None,
    }
}

/// The status of the refusal, and why in words; none for a path that is forwarded.
pub(crate) fn refusal(
    contract: &Contract,
    classifier: &Classifier,
    path: &[u8],
    verdict: Verdict,
) -> Option<(u16, &'static str)> {
    match verdict {
        Verdict::Family(_) => None,
        Verdict::Never(_) => Some((404, "never forwarded; answered like an unknown path")),
        Verdict::Unknown => Some((404, "unknown")),
        Verdict::Ambiguous if stricter_family(contract, classifier, path).is_some() => {
            Some((400, "ambiguous: an escape in it may be read as a slash"))
        }
        Verdict::Ambiguous => Some((400, "ambiguous: another reading has another owner")),
        Verdict::Invalid => Some((400, "invalid: not a target that every server reads alike")),
    }
}

/// The first reading of a path that its family does not own, in words.
///
/// # Errors
/// The path has no readings that could be compared.
pub(crate) fn other_reading(
    contract: &Contract,
    classifier: &Classifier,
    path: &[u8],
) -> Result<Option<OtherReading>, Unreadable> {
    let disagreement = classifier.disagreement(path)?;
    Ok(disagreement.map(|disagreement| OtherReading {
        path: disagreement.path(),
        how: disagreement.how(),
        owner: describe(contract, disagreement.owner),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn an_explanation_names_the_owner_the_claim_and_the_reading_that_disagrees() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/agentteam/contract.toml");
        let contract = Contract::load(&path).unwrap();
        let classifier = Classifier::new(&contract).unwrap();
        let explain = |target: &'static str| Explanation::of(&contract, &classifier, target.as_bytes());

        let owned = explain("/api/v1/orgs/x?y=1");
        assert_eq!((owned.classified.owner, owned.family), ("central", Some("central")));
        assert_eq!((owned.team, owned.forwarded), (Some("accounts-team"), true));
        assert_eq!((owned.status, owned.reading.is_none()), (None, true));

        let hole = explain("/api/v1/workspaces/w/agents/a/runtime/ext/d/no");
        assert_eq!((hole.classified.owner, hole.family), ("unknown", Some("extension")));
        assert_eq!(hole.status, Some(404));
        let hidden = explain("/internal/x");
        assert_eq!(
            (hidden.classified.owner, hidden.family),
            ("never", Some("internal-only"))
        );
        let nobody = explain("/nobody");
        assert_eq!(
            (nobody.classified.owner, nobody.family, nobody.status),
            ("unknown", None, Some(404))
        );

        let ambiguous = explain("/api/v1/workspaces/w1/agents/a1/runtime%2Fext");
        assert_eq!((ambiguous.classified.owner, ambiguous.status), ("ambiguous", Some(400)));
        let reading = ambiguous.reading.unwrap();
        assert_eq!(reading.path, "/api/v1/workspaces/w1/agents/a1/runtime/ext");
        assert!(reading.owner.contains("`extension`"), "{}", reading.owner);

        for target in ["", "x", "/%zz", "/a b", "*"] {
            let invalid = explain(target);
            assert_eq!(
                (invalid.classified.owner, invalid.status),
                ("invalid", Some(400)),
                "{target}"
            );
            assert_eq!(invalid.family, None, "{target}");
        }
    }
}
