//! A check's outcome for people and for programs. One run can write all formats; none changes the exit code.

pub mod github;
pub mod json;
pub mod junit;
pub mod sarif;
pub mod text;

use std::io::{self, Write};

use clap::ValueEnum;

use crate::diagnostic::{Diagnostic, Palette, Severity};
use crate::rules::Outcome;

/// A format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people, in the style of rustc
    Text,
    /// For programs: see `route-contract schema report`
    Json,
    /// JUnit XML, for CI servers
    Junit,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Annotations of GitHub Actions
    Github,
}

/// What a check found, or why it found nothing.
pub struct Report<'r> {
    /// The contract as it was named.
    pub contract: &'r str,
    /// Its digest; `None` where it could not be read.
    pub digest: Option<&'r str>,
    /// The outcome, or the faults for which nothing was decided.
    pub decided: &'r Result<Outcome, Vec<Diagnostic>>,
    /// Whether a warning breaks the contract as an error does.
    pub deny_warnings: bool,
}

impl Report<'_> {
    /// The findings or the faults, worst first.
    pub fn findings(&self) -> &[Diagnostic] {
        match self.decided {
            Ok(outcome) => &outcome.findings,
            Err(faults) => faults,
        }
    }

    /// Whether everything was decided and no rule is broken.
    pub fn is_clean(&self) -> bool {
        self.decided.is_ok() && !self.findings().iter().any(|finding| self.breaks(finding))
    }

    /// Whether a finding makes the contract unclean.
    pub fn breaks(&self, finding: &Diagnostic) -> bool {
        match finding.severity {
            Severity::Error => true,
            Severity::Warning => self.deny_warnings,
            Severity::Note => false,
        }
    }

    /// How many findings have this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings()
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    }

    /// Writes the report. The palette is for [`Format::Text`] alone.
    ///
    /// # Errors
    /// The stream cannot be written.
    pub fn write(&self, format: Format, palette: &Palette, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Text => text::write(self, palette, out),
            Format::Json => json::write(self, out),
            Format::Junit => junit::write(self, out),
            Format::Sarif => sarif::write(self, out),
            Format::Github => github::write(self, out),
        }
    }
}

/// `1 error`, `2 errors`, `2 classes`, `2 families`.
pub fn counted(count: usize, what: &str) -> String {
    match (count, what.strip_suffix('y')) {
        (1, _) => format!("{count} {what}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) if what.ends_with('s') => format!("{count} {what}es"),
        (_, None) => format!("{count} {what}s"),
    }
}
