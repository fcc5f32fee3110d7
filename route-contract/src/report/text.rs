//! The report for people: each finding, then what was looked at, then the verdict.

use std::io::{self, Write};

use super::{Report, counted};
use crate::diagnostic::{Palette, Severity};

/// Writes the report.
///
/// # Errors
/// The stream cannot be written.
pub fn write(report: &Report<'_>, palette: &Palette, out: &mut dyn Write) -> io::Result<()> {
    for finding in report.findings() {
        writeln!(out, "{}", finding.render(palette))?;
    }
    summary(report, out)
}

/// Writes how much was looked at, and the verdict: a check of nothing must not look like a clean one.
///
/// # Errors
/// The stream cannot be written.
pub fn summary(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let outcome = match report.decided {
        Ok(outcome) => outcome,
        Err(faults) => return writeln!(out, "{}: nothing was decided", counted(faults.len(), "error")),
    };
    let counts = &outcome.counts;
    let profiles: Vec<String> = counts
        .profiles
        .iter()
        .map(|(name, routes)| format!("{name} {}", counted(*routes, "route")))
        .collect();
    writeln!(
        out,
        "{} with {}; {}: {}; {} of paths decided",
        counted(counts.families, "family"),
        counted(counts.templates, "template"),
        counted(counts.profiles.len(), "profile"),
        if profiles.is_empty() {
            "nothing to compare".to_owned()
        } else {
            profiles.join(", ")
        },
        counted(counts.classes, "class"),
    )?;
    writeln!(
        out,
        "{}: {}, {}, {}",
        if report.is_clean() { "clean" } else { "not clean" },
        counted(report.count(Severity::Error), "error"),
        counted(report.count(Severity::Warning), "warning"),
        counted(report.count(Severity::Note), "note"),
    )
}
