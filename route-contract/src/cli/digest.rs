//! `route-contract digest`.

use super::{ContractPath, Exit, Stop, Streams};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    contract: ContractPath,
}

pub fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<Exit, Stop> {
    let contract = streams.contract(&arguments.contract.contract)?;
    writeln!(streams.out, "{}", contract.digest())?;
    Ok(Exit::Clean)
}
