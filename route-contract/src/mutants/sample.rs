//! Which of very many mutants are tried: the work is bounded, whatever the size of the contract.
//!
//! A check costs about as much as the contract has templates, and the steps are about as many; all of them
//! would cost their product. So [`WORK`] bounds it: a contract of up to about 500 templates is tried whole,
//! one of 20,000 with a sample. Every operator gets its share of the sample, the rare ones all of their steps,
//! and an operator's steps are taken at even distances, so that no part of the contract is left out and every
//! run tries the same.

use super::step::{Operator, Step};
use crate::contract::Contract;

/// How many templates are checked in all mutants together, unless a limit is given.
pub const WORK: usize = 1_500_000;

/// The fewest mutants that are tried, however large the contract is.
pub const FEWEST: usize = 64;

/// How many of an operator's steps are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The operator.
    pub operator: Operator,
    /// How many steps it admits.
    pub steps: usize,
    /// How many of them are tried.
    pub tried: usize,
}

/// The most mutants of a contract that are tried where nobody says how many.
pub fn default_limit(contract: &Contract) -> usize {
    let families: usize = contract
        .families
        .iter()
        .map(|family| family.claims.len() + family.routes.as_ref().map_or(0, Vec::len))
        .sum();
    let profiles: usize = contract
        .profiles
        .iter()
        .flat_map(|profile| &profile.routes)
        .map(Vec::len)
        .sum();
    (WORK / (families + profiles).max(1)).max(FEWEST)
}

/// Chooses at most `limit` steps, which are given by operator.
pub(super) fn choose(steps: Vec<Step>, limit: usize) -> (Vec<Step>, Vec<Sample>) {
    let mut samples: Vec<Sample> = Operator::ALL
        .into_iter()
        .map(|operator| Sample {
            operator,
            steps: steps.iter().filter(|step| step.operator() == operator).count(),
            tried: 0,
        })
        .filter(|sample| sample.steps > 0)
        .collect();
    // The operators with the fewest steps choose first; what they leave is shared by the others.
    let mut order: Vec<usize> = (0..samples.len()).collect();
    order.sort_by_key(|index| samples[*index].steps);
    let mut left = limit;
    for (place, index) in order.iter().enumerate() {
        let share = left / (order.len() - place);
        let sample = &mut samples[*index];
        sample.tried = sample.steps.min(share);
        left -= sample.tried;
    }
    let mut chosen = Vec::with_capacity(limit.min(steps.len()));
    let mut seen = 0;
    let mut at = 0;
    for step in steps {
        while at < samples.len() && samples[at].operator != step.operator() {
            at += 1;
            seen = 0;
        }
        let Some(sample) = samples.get(at) else { break };
        // The n-th of s steps is taken where n·t/s passes a whole number: t steps at even distances.
        if (seen + 1) * sample.tried / sample.steps > seen * sample.tried / sample.steps {
            chosen.push(step);
        }
        seen += 1;
    }
    (chosen, samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_operators_are_tried_whole_and_the_others_share_the_rest() {
        let claims = (0..500).map(|claim| Step::DropClaim { family: 0, claim });
        let families = (0..3).map(|family| Step::DropFamily { family });
        let retired = (0..1000).map(|index| Step::DropRetired { index });
        let by_operator: Vec<Step> = claims.chain(families).chain(retired).collect();
        let (chosen, samples) = choose(by_operator.clone(), 103);
        assert_eq!(chosen.len(), 103);
        let tried: Vec<usize> = samples.iter().map(|sample| sample.tried).collect();
        assert_eq!(tried, [50, 3, 50]);
        assert!(chosen.contains(&Step::DropRetired { index: 999 }));
        assert_eq!(choose(by_operator.clone(), usize::MAX / 2000).0.len(), 1503);
        assert!(choose(by_operator, 0).0.is_empty());
    }
}
