//! `route-contract map`.

use std::io::{self, BufRead, Write};

use clap::ValueEnum;

use super::{ContractPath, Exit, load_or_read, report_faults};
use crate::diagnostic::{Diagnostic, Place};
use crate::map::{Detail, Map, html, mermaid, svg};
use crate::proof::TOO_LARGE;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    contract: ContractPath,
    /// How it is drawn: `html` is one self-contained page, `mermaid` has the families' templates alone
    #[arg(long, value_enum, default_value = "html")]
    format: Drawing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Drawing {
    /// A page with a search, for a browser.
    Html,
    /// A drawing.
    Svg,
    /// A flowchart, for a README.
    Mermaid,
}

pub fn run(
    arguments: &Arguments,
    input: &mut dyn BufRead,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let Some(contract) = load_or_read(&arguments.contract.contract, input, err)? else {
        return Ok(Exit::Undecided);
    };
    let detail = match arguments.format {
        Drawing::Html | Drawing::Svg => Detail::Profiles,
        Drawing::Mermaid => Detail::Families,
    };
    let map = match Map::new(&contract, detail) {
        Ok(map) => map,
        Err(error) => {
            let fault = Diagnostic::error(TOO_LARGE, error.to_string()).at(Place::new(&contract.source, 0..0));
            report_faults(&[fault], err)?;
            return Ok(Exit::Undecided);
        }
    };
    let mut text = String::new();
    let drawn = match arguments.format {
        Drawing::Html => html::draw(&map, &mut text),
        Drawing::Svg => svg::draw(&map, &mut text),
        Drawing::Mermaid => mermaid::draw(&map, &mut text),
    };
    drawn.map_err(io::Error::other)?;
    out.write_all(text.as_bytes())?;
    Ok(Exit::Clean)
}
