//! `route-contract digest`.

use std::io::{self, BufRead, Write};

use super::{ContractPath, Exit, load_or_read};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    contract: ContractPath,
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
    writeln!(out, "{}", contract.digest())?;
    Ok(Exit::Clean)
}
