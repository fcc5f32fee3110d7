//! Step 4, admit: whether the family takes the request now.

use route_contract::contract::FamilyId;

use super::generation::Generation;
use super::refusal::Refusal;
use crate::listen::head::BodyLength;
use crate::upstream::Place;

/// Takes a place among the family's requests in flight, and waits for one where the family has a queue.
///
/// # Errors
/// [`Refusal::BodyTooLarge`] for a length over the limit; [`Refusal::Unavailable`] for a family that is switched off or
/// has no ready endpoint; [`Refusal::Overloaded`] when all places are taken.
pub async fn admit(generation: &Generation, family: FamilyId, body: BodyLength) -> Result<Place, Refusal> {
    let upstream = generation.upstreams.of(family).ok_or(Refusal::Unavailable)?;
    if !upstream.is_enabled() {
        return Err(Refusal::Unavailable);
    }
    let is_too_large = match body {
        BodyLength::None => false,
        BodyLength::Exactly(length) => length > generation.body_limit,
        BodyLength::Chunked => generation.body_limit == 0,
    };
    if is_too_large {
        return Err(Refusal::BodyTooLarge);
    }
    if !upstream.serves() {
        return Err(Refusal::Unavailable);
    }
    upstream.admit().await.ok_or(Refusal::Overloaded)
}
