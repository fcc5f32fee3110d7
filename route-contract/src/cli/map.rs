//! `route-contract map`.

use std::io;

use clap::ValueEnum;

use super::{ContractPath, Exit, Stop, Streams};
use crate::map::{Detail, Map, html, mermaid, svg};

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

pub fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<Exit, Stop> {
    let contract = streams.contract(&arguments.contract.contract)?;
    let detail = match arguments.format {
        Drawing::Html | Drawing::Svg => Detail::Profiles,
        Drawing::Mermaid => Detail::Families,
    };
    let map = streams.small_enough(Map::new(&contract, detail), &contract)?;
    let mut text = String::new();
    let drawn = match arguments.format {
        Drawing::Html => html::draw(&map, &mut text),
        Drawing::Svg => svg::draw(&map, &mut text),
        Drawing::Mermaid => mermaid::draw(&map, &mut text),
    };
    drawn.map_err(io::Error::other)?;
    streams.out.write_all(text.as_bytes())?;
    Ok(Exit::Clean)
}
