//! `route-contract rules`.

use super::{Exit, Stop, Streams};
use crate::rules::{PAGES, markdown};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print all pages, as docs/rules.md holds them
    #[arg(long)]
    markdown: bool,
}

pub fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<Exit, Stop> {
    if arguments.markdown {
        streams.out.write_all(markdown().as_bytes())?;
        return Ok(Exit::Clean);
    }
    let width = PAGES.iter().map(|page| page.name.len()).max().unwrap_or(0);
    for page in PAGES {
        writeln!(streams.out, "{}  {:width$}  {}", page.code, page.name, page.severity)?;
    }
    Ok(Exit::Clean)
}
