//! `route-contract check`.

use std::io::{self, Write};

use serde::Serialize;

use super::{ContractPath, Exit, Format, JSON_VERSION, counted};
use crate::contract::Contract;
use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::proof::{Counts, Proof};
use crate::rules::{self, Outcome};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    contract: ContractPath,
    /// How findings are printed; the exit code is the same for all
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub fn run(arguments: &Arguments, out: &mut dyn Write) -> io::Result<Exit> {
    let decided =
        Contract::load(&arguments.contract.contract).and_then(|contract| Ok(rules::check(&Proof::new(&contract)?)));
    match arguments.format {
        Format::Text => text(&decided, out)?,
        Format::Json => json(&decided, &arguments.contract.contract.display().to_string(), out)?,
    }
    Ok(match decided {
        Ok(outcome) if outcome.is_clean() => Exit::Clean,
        Ok(_) => Exit::Findings,
        Err(_) => Exit::Undecided,
    })
}

fn text(decided: &Result<Outcome, Vec<Diagnostic>>, out: &mut dyn Write) -> io::Result<()> {
    let findings = match decided {
        Ok(outcome) => &outcome.findings,
        Err(faults) => faults,
    };
    for finding in findings {
        writeln!(out, "{finding}")?;
    }
    match decided {
        Err(faults) => writeln!(out, "{}: nothing was decided", counted(faults.len(), "error")),
        Ok(outcome) => {
            let counts = &outcome.counts;
            let profiles: Vec<String> = counts
                .profiles
                .iter()
                .map(|(name, routes)| format!("{name} {}", counted(*routes, "route")))
                .collect();
            writeln!(
                out,
                "{} families with {}; {}: {}; {} of paths decided",
                counts.families,
                counted(counts.templates, "template"),
                counted(counts.profiles.len(), "profile"),
                if profiles.is_empty() {
                    "nothing to compare".to_owned()
                } else {
                    profiles.join(", ")
                },
                classes(counts.classes),
            )?;
            writeln!(
                out,
                "{}: {}, {}, {}",
                if outcome.is_clean() { "clean" } else { "not clean" },
                counted(outcome.count(Severity::Error), "error"),
                counted(outcome.count(Severity::Warning), "warning"),
                counted(outcome.count(Severity::Note), "note"),
            )
        }
    }
}

fn classes(count: usize) -> String {
    if count == 1 {
        "1 class".to_owned()
    } else {
        format!("{count} classes")
    }
}

#[derive(Serialize)]
struct Report<'r> {
    version: u32,
    contract: &'r str,
    decided: bool,
    clean: bool,
    counts: Option<CountsReport<'r>>,
    findings: Vec<Finding<'r>>,
}

#[derive(Serialize)]
struct CountsReport<'r> {
    families: usize,
    templates: usize,
    profiles: Vec<ProfileReport<'r>>,
    classes: usize,
    errors: usize,
    warnings: usize,
    notes: usize,
}

#[derive(Serialize)]
struct ProfileReport<'r> {
    name: &'r str,
    routes: usize,
}

#[derive(Serialize)]
struct Finding<'r> {
    severity: &'static str,
    code: &'static str,
    message: &'r str,
    place: Option<PlaceReport<'r>>,
    related: Vec<RelatedReport<'r>>,
    witness: Option<&'r str>,
    help: Option<&'r str>,
}

#[derive(Serialize)]
struct PlaceReport<'r> {
    file: &'r str,
    line: usize,
    column: usize,
}

#[derive(Serialize)]
struct RelatedReport<'r> {
    message: &'r str,
    place: PlaceReport<'r>,
}

fn json(decided: &Result<Outcome, Vec<Diagnostic>>, contract: &str, out: &mut dyn Write) -> io::Result<()> {
    let (findings, counts, clean) = match decided {
        Ok(outcome) => (
            &outcome.findings,
            Some(counts_report(&outcome.counts, outcome)),
            outcome.is_clean(),
        ),
        Err(faults) => (faults, None, false),
    };
    let report = Report {
        version: JSON_VERSION,
        contract,
        decided: decided.is_ok(),
        clean,
        counts,
        findings: findings.iter().map(finding_report).collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)
}

fn counts_report<'r>(counts: &'r Counts, outcome: &Outcome) -> CountsReport<'r> {
    CountsReport {
        families: counts.families,
        templates: counts.templates,
        profiles: counts
            .profiles
            .iter()
            .map(|(name, routes)| ProfileReport { name, routes: *routes })
            .collect(),
        classes: counts.classes,
        errors: outcome.count(Severity::Error),
        warnings: outcome.count(Severity::Warning),
        notes: outcome.count(Severity::Note),
    }
}

fn finding_report(finding: &Diagnostic) -> Finding<'_> {
    Finding {
        severity: finding.severity.as_str(),
        code: finding.code,
        message: &finding.message,
        place: finding.place.as_ref().map(place_report),
        related: finding
            .related
            .iter()
            .map(|(message, place)| RelatedReport {
                message,
                place: place_report(place),
            })
            .collect(),
        witness: finding.witness.as_deref(),
        help: finding.help.as_deref(),
    }
}

fn place_report(place: &Place) -> PlaceReport<'_> {
    let (line, column) = place.line_column();
    PlaceReport {
        file: &place.source.name,
        line,
        column,
    }
}
