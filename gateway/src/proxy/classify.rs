//! Step 3, classify: who owns the target.

use route_contract::classify::{Classification, Verdict};
use route_contract::contract::FamilyId;

use super::generation::Generation;
use super::refusal::Refusal;

/// Classifies an origin-form target, as raw bytes.
pub fn classify(generation: &Generation, target: &[u8]) -> Classification {
    generation.classifier.classify(target)
}

/// The family that the request is forwarded to. What is internal-only is refused like what is unknown.
///
/// # Errors
/// The refusal of every other verdict.
pub fn forwarded(verdict: Verdict) -> Result<FamilyId, Refusal> {
    match verdict {
        Verdict::Family(family) => Ok(family),
        Verdict::Never(_) | Verdict::Unknown => Err(Refusal::NotFound),
        Verdict::Ambiguous => Err(Refusal::AmbiguousPath),
        Verdict::Invalid => Err(Refusal::InvalidTarget),
    }
}

/// The family that the record names: also one that is never forwarded.
pub fn recorded(verdict: Verdict) -> Option<FamilyId> {
    match verdict {
        Verdict::Family(family) | Verdict::Never(family) => Some(family),
        Verdict::Unknown | Verdict::Ambiguous | Verdict::Invalid => None,
    }
}
