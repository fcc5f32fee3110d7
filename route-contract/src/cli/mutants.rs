//! `route-contract mutants`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::{ContractPath, Exit, Format, JSON_VERSION, Stop, Streams, counted, counted_classes};
use crate::contract::Contract;
use crate::diagnostic::{Severity, printable};
use crate::mutants::{self, Change, Fate, Harmless, Mutant, Operator, Report};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    contract: ContractPath,
    /// The most mutants that are tried, spread over all kinds of steps; by default as many as take a bounded
    /// amount of work, which is all of them up to about 500 templates
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Show the counts and what no rule finds, not every mutant
    #[arg(long)]
    summary: bool,
    /// How it is printed; the exit code is the same for both
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<Exit, Stop> {
    let contract = streams.contract(&arguments.contract.contract)?;
    let report = streams.sound(mutants::run(&contract, arguments.limit))?;
    match arguments.format {
        Format::Text => text(&contract, &report, arguments.summary, streams.out)?,
        Format::Json => json(&contract, &report, streams.out)?,
    }
    if report.mutants.is_empty() {
        return Err(streams.stop("no mutant was tried: nothing was decided"));
    }
    Ok(if report.survivors().next().is_some() {
        Exit::Findings
    } else {
        Exit::Clean
    })
}

/// How many mutants of one operator, or of all, came to what.
#[derive(Default)]
struct Tally {
    caught: usize,
    warned: usize,
    harmless: usize,
    survived: usize,
    codes: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn add(&mut self, fate: &Fate) {
        match fate {
            Fate::Caught(codes) => {
                if codes.iter().any(|(_, severity)| *severity == Severity::Error) {
                    self.caught += 1;
                } else {
                    self.warned += 1;
                }
                for (code, _) in codes {
                    *self.codes.entry(code).or_default() += 1;
                }
            }
            Fate::Harmless(_) => self.harmless += 1,
            Fate::Survived(_) => self.survived += 1,
        }
    }
}

fn tallies(report: &Report) -> (BTreeMap<Operator, Tally>, Tally) {
    let mut by_operator: BTreeMap<Operator, Tally> = BTreeMap::new();
    let mut all = Tally::default();
    for mutant in &report.mutants {
        by_operator.entry(mutant.step.operator()).or_default().add(&mutant.fate);
        all.add(&mutant.fate);
    }
    (by_operator, all)
}

fn text(contract: &Contract, report: &Report, summary: bool, out: &mut dyn Write) -> io::Result<()> {
    let shown = |mutant: &&Mutant| !summary || !matches!(mutant.fate, Fate::Caught(_));
    let rows: Vec<[String; 3]> = report
        .mutants
        .iter()
        .filter(shown)
        .map(|mutant| {
            [
                mutant.step.operator().as_str().to_owned(),
                fate_words(&mutant.fate),
                printable(&mutant.step.describe(contract)),
            ]
        })
        .collect();
    if !rows.is_empty() {
        table(["STEP", "CAUGHT BY", "MUTANT"], &rows, out)?;
        writeln!(out)?;
    }
    let (by_operator, all) = tallies(report);
    let none = Tally::default();
    let rows: Vec<[String; 7]> = report
        .sample
        .iter()
        .map(|sample| {
            let tally = by_operator.get(&sample.operator).unwrap_or(&none);
            let codes: Vec<String> = tally
                .codes
                .iter()
                .map(|(code, count)| format!("{code} ×{count}"))
                .collect();
            [
                sample.operator.as_str().to_owned(),
                format!("{} of {}", sample.tried, sample.steps),
                tally.caught.to_string(),
                tally.warned.to_string(),
                tally.harmless.to_string(),
                tally.survived.to_string(),
                codes.join(", "),
            ]
        })
        .collect();
    table(
        ["STEP", "TRIED", "ERROR", "WARNING", "HARMLESS", "SURVIVED", "RULES"],
        &rows,
        out,
    )?;
    let steps: usize = report.sample.iter().map(|sample| sample.steps).sum();
    writeln!(
        out,
        "\n{} of {steps} tried: {} caught by errors, {} by warnings, {} harmless, {}",
        counted(report.mutants.len(), "mutant"),
        all.caught,
        all.warned,
        all.harmless,
        if all.survived == 0 {
            "none survived".to_owned()
        } else {
            format!("{} survived: no rule finds what they change", all.survived)
        }
    )
}

fn fate_words(fate: &Fate) -> String {
    match fate {
        Fate::Caught(codes) => codes
            .iter()
            .map(|(code, severity)| match severity {
                Severity::Error => (*code).to_owned(),
                other => format!("{code} ({})", other.as_str()),
            })
            .collect::<Vec<_>>()
            .join(", "),
        Fate::Harmless(Harmless::SameOwners) => "harmless: every path keeps its owner".to_owned(),
        Fate::Harmless(Harmless::SameForwarding(classes)) => format!(
            "harmless: the same paths are forwarded, {} refused otherwise",
            counted_classes(*classes)
        ),
        Fate::Survived(Change::Owner { from, to, witness }) => {
            format!("SURVIVED: {from} → {to}  {}", printable(witness))
        }
        Fate::Survived(Change::Registration(what)) => format!("SURVIVED: {}", printable(what)),
        Fate::Survived(Change::Undecided(why)) => format!("SURVIVED: {why}"),
    }
}

/// Columns as wide as their widest cell; nothing behind the last one.
fn table<const N: usize>(head: [&str; N], rows: &[[String; N]], out: &mut dyn Write) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(head.get(column).map_or(0, |cell| cell.len()))
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let line: String = cells
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}  "))
            .collect();
        writeln!(out, "{}", line.trim_end())
    };
    line(&mut head.into_iter())?;
    for row in rows {
        line(&mut row.iter().map(String::as_str))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct JsonReport<'r> {
    version: u32,
    survivors: usize,
    counts: CountsReport,
    operators: Vec<OperatorReport>,
    mutants: Vec<MutantReport<'r>>,
}

#[derive(Serialize)]
struct CountsReport {
    steps: usize,
    tried: usize,
    errors: usize,
    warnings: usize,
    harmless: usize,
    survived: usize,
    codes: BTreeMap<&'static str, usize>,
}

#[derive(Serialize)]
struct OperatorReport {
    operator: &'static str,
    steps: usize,
    tried: usize,
}

#[derive(Serialize)]
struct MutantReport<'r> {
    operator: &'static str,
    change: String,
    place: Option<String>,
    fate: &'static str,
    rules: Vec<RuleReport>,
    reason: Option<&'static str>,
    witness: Option<&'r str>,
}

#[derive(Serialize)]
struct RuleReport {
    code: &'static str,
    severity: &'static str,
}

fn json(contract: &Contract, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let (_, all) = tallies(report);
    let report = JsonReport {
        version: JSON_VERSION,
        survivors: all.survived,
        counts: CountsReport {
            steps: report.sample.iter().map(|sample| sample.steps).sum(),
            tried: report.mutants.len(),
            errors: all.caught,
            warnings: all.warned,
            harmless: all.harmless,
            survived: all.survived,
            codes: all.codes,
        },
        operators: report
            .sample
            .iter()
            .map(|sample| OperatorReport {
                operator: sample.operator.as_str(),
                steps: sample.steps,
                tried: sample.tried,
            })
            .collect(),
        mutants: report
            .mutants
            .iter()
            .map(|mutant| mutant_report(contract, mutant))
            .collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)
}

fn mutant_report<'r>(contract: &Contract, mutant: &'r Mutant) -> MutantReport<'r> {
    let (fate, reason) = match &mutant.fate {
        Fate::Caught(_) => ("caught", None),
        Fate::Harmless(Harmless::SameOwners) => ("harmless", Some("same-owners")),
        Fate::Harmless(Harmless::SameForwarding(_)) => ("harmless", Some("same-forwarding")),
        Fate::Survived(Change::Owner { .. }) => ("survived", Some("owner")),
        Fate::Survived(Change::Registration(_)) => ("survived", Some("registration")),
        Fate::Survived(Change::Undecided(_)) => ("survived", Some("undecided")),
    };
    MutantReport {
        operator: mutant.step.operator().as_str(),
        change: mutant.step.describe(contract),
        place: mutant.step.place(contract).map(ToString::to_string),
        fate,
        rules: match &mutant.fate {
            Fate::Caught(codes) => codes
                .iter()
                .map(|(code, severity)| RuleReport {
                    code,
                    severity: severity.as_str(),
                })
                .collect(),
            _ => Vec::new(),
        },
        reason,
        witness: match &mutant.fate {
            Fate::Survived(Change::Owner { witness, .. }) => Some(witness),
            _ => None,
        },
    }
}
