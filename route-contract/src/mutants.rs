//! Mutants: a contract that is checked in can be wrong in ways that no rule sees. So it is weakened on purpose,
//! one [`Step`] at a time, and each weakened contract is checked: the rules that are worth their name find it.
//!
//! 1. [`step`] lists the steps that a contract admits, and takes them on the parsed contract; places stay those
//!    of the original.
//! 2. [`sample`](mod@sample) keeps the work of a large contract bounded.
//! 3. Here each mutant is judged: refused by the loader, caught by rules, harmless since [`diff`](crate::diff)
//!    proves that every path is forwarded as before, or a survivor, which is a finding.

mod reshape;
pub mod sample;
pub mod step;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::contract::Contract;
use crate::diagnostic::{Diagnostic, Severity};
use crate::diff::Difference;
use crate::proof::Proof;
use crate::rules::{self, Outcome};

pub use sample::Sample;
pub use step::{Operator, Step, Taken};

/// A step with what came of it.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// What was changed.
    pub step: Step,
    /// What came of it.
    pub fate: Fate,
}

/// What came of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// These rules find it, errors first; the loader's own are among them.
    Caught(Vec<(&'static str, Severity)>),
    /// No rule finds it, and none has to.
    Harmless(Harmless),
    /// No rule finds it, although something changes.
    Survived(Change),
}

/// Why a mutant is no weaker than the contract, proved for every class of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harmless {
    /// Every path has the owner that it had, and every profile registers what it did.
    SameOwners,
    /// Every path is forwarded to the family that it was forwarded to, or to nobody as before. This many classes
    /// of paths are refused for another reason, which no client can see.
    SameForwarding(usize),
}

/// What changes without a rule that finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A path gets another owner.
    Owner {
        /// Who had it, as in a plan.
        from: String,
        /// Who has it now.
        to: String,
        /// The shortest such path.
        witness: String,
    },
    /// A profile registers other routes.
    Registration(String),
    /// The contracts could not be compared.
    Undecided(String),
}

/// What came of all mutants that were tried.
#[derive(Clone, Debug)]
pub struct Report {
    /// By operator, then in the order of the contract.
    pub mutants: Vec<Mutant>,
    /// How many steps there are, and how many of them were tried.
    pub sample: Vec<Sample>,
}

impl Report {
    /// The mutants that no rule finds although something changes.
    pub fn survivors(&self) -> impl Iterator<Item = &Mutant> {
        self.mutants
            .iter()
            .filter(|mutant| matches!(mutant.fate, Fate::Survived(_)))
    }
}

/// Weakens a contract in every way that is known, at most `limit` of them, and judges what comes of it. Without a
/// limit, as many are tried as [`sample::default_limit`] says.
///
/// # Errors
/// The contract itself is not clean, so that nothing could be told from what the rules find in its mutants: its
/// errors.
pub fn run(contract: &Contract, limit: Option<usize>) -> Result<Report, Vec<Diagnostic>> {
    let outcome = rules::check(&Proof::new(contract)?);
    if !outcome.is_clean() {
        return Err(errors(outcome));
    }
    let known: HashSet<(&'static str, String)> = outcome
        .findings
        .into_iter()
        .map(|finding| (finding.code, finding.message))
        .collect();
    let steps = step::steps(contract);
    let limit = limit.unwrap_or_else(|| sample::default_limit(contract));
    let (steps, sample) = sample::choose(steps, limit);
    Ok(Report {
        mutants: judge_all(contract, &known, steps),
        sample,
    })
}

fn errors(outcome: Outcome) -> Vec<Diagnostic> {
    outcome
        .findings
        .into_iter()
        .filter(|finding| finding.severity == Severity::Error)
        .collect()
}

/// Judges the steps on all processors; the order stays that of the steps.
fn judge_all(contract: &Contract, known: &HashSet<(&'static str, String)>, steps: Vec<Step>) -> Vec<Mutant> {
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut judged = Vec::new();
        while let Some((index, step)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            steps.get(index).map(|step| (index, step))
        } {
            judged.push((index, judge(contract, known, step)));
        }
        judged
    };
    let mut fates: Vec<(usize, Fate)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| match thread.join() {
                Ok(judged) => judged,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    fates.sort_unstable_by_key(|(index, _)| *index);
    steps
        .into_iter()
        .zip(fates)
        .map(|(step, (_, fate))| Mutant { step, fate })
        .collect()
}

fn judge(contract: &Contract, known: &HashSet<(&'static str, String)>, step: &Step) -> Fate {
    let mutant = match step.take(contract) {
        Taken::Refused(code) => return Fate::Caught(vec![(code, Severity::Error)]),
        Taken::Mutant(mutant) => mutant,
    };
    let found = match Proof::new(&mutant) {
        Ok(proof) => rules::check(&proof).findings,
        Err(faults) => faults,
    };
    let mut codes: Vec<(&'static str, Severity)> = found
        .into_iter()
        .filter(|finding| finding.severity > Severity::Note)
        .map(|finding| (finding.code, finding.severity, finding.message))
        .filter(|(code, _, message)| !known.contains(&(*code, message.clone())))
        .map(|(code, severity, _)| (code, severity))
        .collect();
    if codes.is_empty() {
        return uncaught(contract, &mutant);
    }
    codes.sort_by_key(|(code, severity)| (std::cmp::Reverse(*severity), *code));
    codes.dedup();
    Fate::Caught(codes)
}

fn uncaught(contract: &Contract, mutant: &Contract) -> Fate {
    let difference = match Difference::between(contract, mutant) {
        Ok(difference) => difference,
        Err(error) => return Fate::Survived(Change::Undecided(error.to_string())),
    };
    if let Some(change) = difference
        .changes
        .iter()
        .find(|change| change.from.forwarded() != change.to.forwarded())
    {
        return Fate::Survived(Change::Owner {
            from: change.from.to_string(),
            to: change.to.to_string(),
            witness: change.witness.clone(),
        });
    }
    if let Some(registration) = difference.registrations().next() {
        return Fate::Survived(Change::Registration(format!(
            "{} {} {}",
            registration.sign.as_char(),
            registration.name,
            registration.text
        )));
    }
    Fate::Harmless(match difference.counts.refused {
        0 => Harmless::SameOwners,
        classes => Harmless::SameForwarding(classes),
    })
}
