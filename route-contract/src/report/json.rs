//! The report for programs. Its schema is `docs/schemas/check-report.schema.json`, made of these structs.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;

use super::Report;
use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::proof::Counts;

/// The version of the format: it grows when a key goes or changes its meaning, not when one is added.
pub const VERSION: u32 = 1;

/// What `route-contract check --format json` writes.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "CheckReport")]
pub struct CheckReport<'r> {
    /// The version of this format: 1.
    version: u32,
    /// The contract as it was named on the command line.
    contract: &'r str,
    /// `sha256:` and 64 hexadecimal digits; null where the contract could not be read.
    digest: Option<&'r str>,
    /// False where files could not be read: then the findings say why, and nothing was decided.
    decided: bool,
    /// Whether everything was decided and no finding is an error.
    clean: bool,
    /// How much was looked at; null where nothing was decided.
    counts: Option<CountsReport<'r>>,
    /// Worst first.
    findings: Vec<Finding<'r>>,
}

/// How much was looked at.
#[derive(Serialize, JsonSchema)]
struct CountsReport<'r> {
    /// Families of the contract.
    families: usize,
    /// Claims and routes of all families.
    templates: usize,
    /// Each profile with its routes.
    profiles: Vec<ProfileReport<'r>>,
    /// Classes of paths that were decided.
    classes: usize,
    /// Findings with severity error.
    errors: usize,
    /// Findings with severity warning.
    warnings: usize,
    /// Findings with severity note.
    notes: usize,
}

/// How much a profile registers.
#[derive(Serialize, JsonSchema)]
struct ProfileReport<'r> {
    /// The profile's name.
    name: &'r str,
    /// How many routes it registers.
    routes: usize,
}

/// One finding.
#[derive(Serialize, JsonSchema)]
struct Finding<'r> {
    /// How much it weighs: errors alone make a check fail.
    severity: SeverityName,
    /// The stable code of the rule, such as `RC0203`.
    code: &'r str,
    /// What is wrong, in one sentence.
    message: &'r str,
    /// Where; null where no file stands behind it.
    place: Option<PlaceReport<'r>>,
    /// Other places that play a part.
    related: Vec<RelatedReport<'r>>,
    /// The shortest path that shows it.
    witness: Option<&'r str>,
    /// How to mend it.
    help: Option<&'r str>,
}

/// How much a finding weighs.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SeverityName {
    /// A rule is broken, or a file cannot be read.
    Error,
    /// Allowed, but likely not meant.
    Warning,
    /// Worth knowing.
    Note,
}

/// A place in a file.
#[derive(Serialize, JsonSchema)]
struct PlaceReport<'r> {
    /// The file as it was named.
    file: &'r str,
    /// Counted from 1.
    line: usize,
    /// Counted from 1, in characters.
    column: usize,
}

/// Another place, with a few words about its part.
#[derive(Serialize, JsonSchema)]
struct RelatedReport<'r> {
    /// What part it plays.
    message: &'r str,
    /// Where.
    place: PlaceReport<'r>,
}

/// Writes the report.
///
/// # Errors
/// The stream cannot be written.
pub fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let written = CheckReport {
        version: VERSION,
        contract: report.contract,
        digest: report.digest,
        decided: report.decided.is_ok(),
        clean: report.is_clean(),
        counts: report
            .decided
            .as_ref()
            .ok()
            .map(|outcome| counts(&outcome.counts, report)),
        findings: report.findings().iter().map(finding).collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &written)?;
    writeln!(out)
}

fn counts<'r>(counts: &'r Counts, report: &Report<'_>) -> CountsReport<'r> {
    CountsReport {
        families: counts.families,
        templates: counts.templates,
        profiles: counts
            .profiles
            .iter()
            .map(|(name, routes)| ProfileReport { name, routes: *routes })
            .collect(),
        classes: counts.classes,
        errors: report.count(Severity::Error),
        warnings: report.count(Severity::Warning),
        notes: report.count(Severity::Note),
    }
}

fn finding(finding: &Diagnostic) -> Finding<'_> {
    Finding {
        severity: match finding.severity {
            Severity::Error => SeverityName::Error,
            Severity::Warning => SeverityName::Warning,
            Severity::Note => SeverityName::Note,
        },
        code: finding.code,
        message: &finding.message,
        place: finding.place.as_ref().map(place),
        related: finding
            .related
            .iter()
            .map(|(message, related)| RelatedReport {
                message,
                place: place(related),
            })
            .collect(),
        witness: finding.witness.as_deref(),
        help: finding.help.as_deref(),
    }
}

fn place(place: &Place) -> PlaceReport<'_> {
    let (line, column) = place.line_column();
    PlaceReport {
        file: &place.source.name,
        line,
        column,
    }
}
