//! `route-contract diff`.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Exit, Format, JSON_VERSION, STANDARD_INPUT, Stop, Streams, counted};
use crate::contract::Contract;
use crate::diagnostic::printable;
use crate::diff::replay::{Replay, replay};
use crate::diff::{About, Change, Difference, Holder, Statement};

/// The most lines of one kind that the text shows; JSON has all.
const MAX_LINES: usize = 20;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The contract before; one of the three files may be `-`, standard input
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The contract after
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Count the requests that would change owner: an access log of the gateway, or targets, one a line;
    /// `-` is standard input
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// How it is printed; the exit code is the same for both
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<Exit, Stop> {
    let named = [Some(&arguments.old), Some(&arguments.new), arguments.replay.as_ref()];
    let from_input = named
        .into_iter()
        .flatten()
        .filter(|path| path.as_os_str() == STANDARD_INPUT);
    if from_input.count() > 1 {
        return Err(streams.stop("route-contract: standard input can be only one of the files"));
    }
    let old = streams.contract(&arguments.old)?;
    let new = streams.contract(&arguments.new)?;
    let difference = streams.small_enough(Difference::between(&old, &new), &new)?;
    let replayed = match &arguments.replay {
        None => None,
        Some(path) => Some(replayed(&old, &new, path, streams)?),
    };
    match arguments.format {
        Format::Text => text(&difference, replayed.as_ref(), streams.out, streams.err)?,
        Format::Json => json(&old, &new, &difference, replayed.as_ref(), streams.out)?,
    }
    Ok(if difference.is_empty() {
        Exit::Clean
    } else {
        Exit::Findings
    })
}

fn replayed(old: &Contract, new: &Contract, path: &Path, streams: &mut Streams<'_>) -> Result<Replay, Stop> {
    let name = path.display();
    let read = if path.as_os_str() == STANDARD_INPUT {
        replay(old, new, streams.input)
    } else {
        let file = File::open(path)
            .map_err(|error| streams.stop(format_args!("route-contract: cannot read `{name}`: {error}")))?;
        replay(old, new, &mut io::BufReader::new(file))
    };
    let replayed = streams
        .sound(read)?
        .map_err(|error| streams.stop(format_args!("route-contract: cannot read `{name}`: {error}")))?;
    if replayed.requests > 0 {
        return Ok(replayed);
    }
    writeln!(
        streams.err,
        "route-contract: `{name}` holds no request: nothing was replayed"
    )?;
    Err(match replayed.first_not_understood {
        Some(line) => streams.stop(format_args!(
            "route-contract: the first line that was not understood is line {line}"
        )),
        None => Stop::Undecided,
    })
}

fn text(
    difference: &Difference,
    replayed: Option<&Replay>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<()> {
    for same_way in difference
        .changes
        .chunk_by(|left, right| (&left.from, &left.to) == (&right.from, &right.to))
    {
        for change in same_way.iter().take(MAX_LINES) {
            writeln!(out, "{}", plan_line(change))?;
        }
        if let Some(rest) = same_way.get(MAX_LINES..)
            && let Some(first) = rest.first()
        {
            let classes = rest.iter().map(|change| change.classes).sum();
            writeln!(
                out,
                "~ {} → {}  below {} more claims, {}",
                first.from,
                first.to,
                rest.len(),
                super::counted_classes(classes)
            )?;
        }
    }
    for same_kind in difference
        .statements
        .chunk_by(|left, right| (left.about, &left.name) == (right.about, &right.name))
    {
        for statement in same_kind.iter().take(MAX_LINES) {
            writeln!(out, "{}", statement_line(statement))?;
        }
        if same_kind.len() > MAX_LINES {
            writeln!(out, "… and {} more of these", same_kind.len() - MAX_LINES)?;
        }
    }
    if difference.is_empty() {
        writeln!(err, "no change of meaning")?;
    } else {
        let counts = &difference.counts;
        writeln!(
            out,
            "{} of {} of paths change owner: {} opened, {} closed, {} moved, {} refused otherwise; {}",
            counts.changed(),
            super::counted_classes(counts.classes),
            counts.opened,
            counts.closed,
            counts.moved,
            counts.refused,
            counted(difference.statements.len(), "other statement")
        )?;
    }
    match replayed {
        Some(replayed) => replay_text(replayed, out),
        None => Ok(()),
    }
}

fn plan_line(change: &Change) -> String {
    let claim = change.old_claim.as_ref().or(change.new_claim.as_ref());
    let below = match claim {
        Some(claim) => format!("in `{claim}`"),
        None => String::new(),
    };
    let classes = match change.classes {
        1 => String::new(),
        more => format!("{} ", super::counted_classes(more)),
    };
    let line = format!(
        "~ {} → {}  {}  {classes}{below}",
        change.from,
        change.to,
        printable(&change.witness)
    );
    line.trim_end().to_owned()
}

fn statement_line(statement: &Statement) -> String {
    let Statement {
        about,
        name,
        text,
        sign,
    } = statement;
    let subject = match about {
        About::Family => format!("family {name}"),
        About::Profile => format!("profile {name}"),
        About::Owns => format!("profile {name} owns"),
        About::Parts => format!("profile {name} is made of"),
        About::Registration => format!("profile {name} registers"),
        About::Common => "common".to_owned(),
        About::Retired => "retired".to_owned(),
    };
    format!("{} {subject} {text}", sign.as_char()).trim_end().to_owned()
}

fn replay_text(replayed: &Replay, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{} of {} would change owner",
        replayed.changed,
        counted(usize::try_from(replayed.requests).unwrap_or(usize::MAX), "request")
    )?;
    for transition in &replayed.transitions {
        writeln!(
            out,
            "{:>8}  {} → {}  {}",
            transition.requests,
            transition.from,
            transition.to,
            printable(&transition.example)
        )?;
    }
    if replayed.ways > replayed.transitions.len() {
        writeln!(
            out,
            "          and {} more ways",
            replayed.ways - replayed.transitions.len()
        )?;
    }
    if replayed.cut > 0 {
        writeln!(out, "{} with a cut target: not classified", replayed.cut)?;
    }
    if let Some(line) = replayed.first_not_understood {
        writeln!(
            out,
            "{} not understood, the first is line {line}",
            counted(usize::try_from(replayed.not_understood).unwrap_or(usize::MAX), "line")
        )?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Report<'r> {
    version: u32,
    same: bool,
    old_digest: String,
    new_digest: String,
    counts: CountsReport,
    changes: Vec<ChangeReport<'r>>,
    statements: Vec<StatementReport<'r>>,
    replay: Option<ReplayReport<'r>>,
}

#[derive(Serialize)]
struct CountsReport {
    classes: usize,
    changed: usize,
    opened: usize,
    closed: usize,
    moved: usize,
    refused: usize,
}

#[derive(Serialize)]
struct ChangeReport<'r> {
    from: HolderReport<'r>,
    to: HolderReport<'r>,
    witness: &'r str,
    classes: usize,
    old_claim: Option<&'r str>,
    new_claim: Option<&'r str>,
}

#[derive(Serialize)]
struct HolderReport<'r> {
    verdict: &'static str,
    family: Option<&'r str>,
}

impl<'r> HolderReport<'r> {
    fn new(holder: &'r Holder) -> Self {
        Self {
            verdict: holder.verdict(),
            family: holder.family(),
        }
    }
}

#[derive(Serialize)]
struct StatementReport<'r> {
    change: &'static str,
    about: &'static str,
    name: &'r str,
    text: &'r str,
}

#[derive(Serialize)]
struct ReplayReport<'r> {
    requests: u64,
    changed: u64,
    ways: usize,
    passed_over: u64,
    cut: u64,
    not_understood: u64,
    transitions: Vec<TransitionReport<'r>>,
}

#[derive(Serialize)]
struct TransitionReport<'r> {
    from: &'r str,
    to: &'r str,
    requests: u64,
    example: &'r str,
}

fn json(
    old: &Contract,
    new: &Contract,
    difference: &Difference,
    replayed: Option<&Replay>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let counts = &difference.counts;
    let report = Report {
        version: JSON_VERSION,
        same: difference.is_empty(),
        old_digest: old.digest(),
        new_digest: new.digest(),
        counts: CountsReport {
            classes: counts.classes,
            changed: counts.changed(),
            opened: counts.opened,
            closed: counts.closed,
            moved: counts.moved,
            refused: counts.refused,
        },
        changes: difference
            .changes
            .iter()
            .map(|change| ChangeReport {
                from: HolderReport::new(&change.from),
                to: HolderReport::new(&change.to),
                witness: &change.witness,
                classes: change.classes,
                old_claim: change.old_claim.as_deref(),
                new_claim: change.new_claim.as_deref(),
            })
            .collect(),
        statements: difference
            .statements
            .iter()
            .map(|statement| StatementReport {
                change: statement.sign.as_str(),
                about: statement.about.as_str(),
                name: &statement.name,
                text: &statement.text,
            })
            .collect(),
        replay: replayed.map(|replayed| ReplayReport {
            requests: replayed.requests,
            changed: replayed.changed,
            ways: replayed.ways,
            passed_over: replayed.passed_over,
            cut: replayed.cut,
            not_understood: replayed.not_understood,
            transitions: replayed
                .transitions
                .iter()
                .map(|transition| TransitionReport {
                    from: &transition.from,
                    to: &transition.to,
                    requests: transition.requests,
                    example: &transition.example,
                })
                .collect(),
        }),
    };
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)
}
