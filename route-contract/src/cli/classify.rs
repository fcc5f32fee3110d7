//! `route-contract classify`.

use std::io::{BufRead as _, Read as _};
use std::path::PathBuf;

use super::{Exit, Format, Stop, Streams};
use crate::classify::Classifier;
use crate::contract::Contract;
use crate::explanation::{Classified, owner_name};

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
        match arguments.format {
            Format::Text => {
                let verdict = classifier.classify(target).verdict;
                out.write_all(owner_name(&contract, verdict).as_bytes())?;
                out.write_all(b"\t")?;
                out.write_all(target)?;
                out.write_all(b"\n")?;
            }
            Format::Json => {
                serde_json::to_writer(&mut *out, &Classified::of(&contract, &classifier, target))?;
                writeln!(out)?;
            }
        }
    }
}
