//! The rules: each has a stable code, a page that explains it, and one function that decides it on the proof.

pub mod breadth;
pub mod fail_closed;
pub mod order;
pub mod ownership;
mod pages;
pub mod readings;
pub mod vacuity;

use crate::diagnostic::{Diagnostic, Severity};
use crate::proof::{Counts, Proof};

pub use pages::{PAGES, Page, markdown, page};

/// What a check found, and how much it looked at.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The findings: errors first, then in the order of the rules.
    pub findings: Vec<Diagnostic>,
    /// How much was looked at.
    pub counts: Counts,
}

impl Outcome {
    /// How many findings have this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    }

    /// Whether no rule is broken.
    pub fn is_clean(&self) -> bool {
        self.count(Severity::Error) == 0
    }
}

/// Decides every rule.
pub fn check(proof: &Proof<'_>) -> Outcome {
    let mut findings = Vec::new();
    ownership::check(proof, &mut findings);
    fail_closed::check(proof, &mut findings);
    breadth::check(proof, &mut findings);
    order::check(proof, &mut findings);
    readings::check(proof, &mut findings);
    vacuity::check(proof, &mut findings);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Outcome {
        findings,
        counts: proof.counts(),
    }
}
