//! `route-contract digest`.

use std::io::{self, Write};

use super::{ContractPath, Exit, load};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    contract: ContractPath,
}

pub fn run(arguments: &Arguments, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Exit> {
    let Some(contract) = load(&arguments.contract.contract, err)? else {
        return Ok(Exit::Undecided);
    };
    writeln!(out, "{}", contract.digest())?;
    Ok(Exit::Clean)
}
