//! `route-contract classify`.

use std::io::{BufRead as _, Read as _};
use std::path::PathBuf;

use serde::Serialize;

use super::{Exit, Format, JSON_VERSION, Stop, Streams};
use crate::classify::{Classifier, Verdict};
use crate::contract::Contract;

/// The longest line that is read, in bytes: longer ones are classified by what they start with, as invalid.
const MAX_LINE: u64 = 1 << 20;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The contract file; standard input holds the targets
    #[arg(value_name = "CONTRACT")]
    contract: PathBuf,
    /// `text`: owner, tab, target. `json`: an object a line
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Serialize)]
struct Line<'l> {
    version: u32,
    owner: &'l str,
    target: &'l str,
    template: Option<&'l str>,
}

pub fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<Exit, Stop> {
    let contract = streams.sound(Contract::load(&arguments.contract))?;
    let classifier = streams.sound(Classifier::new(&contract))?;
    let (input, out) = (&mut *streams.input, &mut *streams.out);
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(Exit::Clean);
        }
        let target = line.strip_suffix(b"\n").unwrap_or(&line);
        let target = target.strip_suffix(b"\r").unwrap_or(target);
        let classification = classifier.classify(target);
        let owner = name(&contract, classification.verdict);
        match arguments.format {
            Format::Text => {
                out.write_all(owner.as_bytes())?;
                out.write_all(b"\t")?;
                out.write_all(target)?;
                out.write_all(b"\n")?;
            }
            Format::Json => {
                let text = String::from_utf8_lossy(target);
                let line = Line {
                    version: JSON_VERSION,
                    owner,
                    target: &text,
                    template: classification.template.map(|id| classifier.template(id)),
                };
                serde_json::to_writer(&mut *out, &line)?;
                writeln!(out)?;
            }
        }
    }
}

/// The verdict's name: a family's, or one of four that no family can have.
pub(super) fn name(contract: &Contract, verdict: Verdict) -> &str {
    match verdict {
        Verdict::Family(family) => contract.families.get(family.index()).map_or("", |family| &family.name),
        Verdict::Never(_) => "never",
        Verdict::Unknown => "unknown",
        Verdict::Ambiguous => "ambiguous",
        Verdict::Invalid => "invalid",
    }
}
