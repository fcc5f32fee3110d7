//! `route-contract list`.

use std::io::{self, Write};

use super::{ContractPath, Exit, Format, Stop, Streams};
use crate::contract::{Contract, EncodedSlash, Role, Serve};
use crate::listing::Listing;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    contract: ContractPath,
    /// How it is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<Exit, Stop> {
    let contract = streams.contract(&arguments.contract.contract)?;
    match arguments.format {
        Format::Text => text(&contract, streams.out)?,
        Format::Json => json(&contract, streams.out)?,
    }
    Ok(Exit::Clean)
}

fn text(contract: &Contract, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = vec![["FAMILY", "SERVED BY", "", "TEMPLATE"].map(str::to_owned)];
    for (id, family) in contract.family_ids() {
        let mut name = family.name.clone();
        let mut served = match family.serve {
            Serve::Never => "never".to_owned(),
            Serve::Forward => {
                let owners: Vec<&str> = contract.owners_of(id).map(|profile| profile.name.as_str()).collect();
                if owners.is_empty() {
                    "no profile".to_owned()
                } else {
                    owners.join(", ")
                }
            }
        };
        let claims = family.claims.iter().map(|claim| ("claims", claim));
        let routes = family.routes.iter().flatten().map(|route| ("routes", route));
        for (what, located) in claims.chain(routes) {
            rows.push([
                std::mem::take(&mut name),
                std::mem::take(&mut served),
                what.to_owned(),
                located.template.to_string(),
            ]);
        }
        if family.encoded_slash == EncodedSlash::Refuse {
            rows.push(["", "", "refuses", "an encoded slash (%2F)"].map(str::to_owned));
        }
    }
    table(&rows, out)?;
    writeln!(out)?;
    let mut rows = vec![["PROFILE", "ROLE", "", "ROUTES"].map(str::to_owned)];
    for profile in &contract.profiles {
        let (role, names) = match &profile.role {
            Role::Plain { owns } => (
                "owns",
                owns.iter()
                    .filter_map(|id| contract.families.get(id.index()))
                    .map(|family| family.name.as_str())
                    .collect(),
            ),
            Role::Aggregate { parts } => (
                "aggregate",
                parts
                    .iter()
                    .filter_map(|part| contract.profiles.get(*part))
                    .map(|part| part.name.as_str())
                    .collect::<Vec<_>>(),
            ),
        };
        rows.push([
            profile.name.clone(),
            role.to_owned(),
            names.join(", "),
            contract.routes_of(profile).len().to_string(),
        ]);
    }
    table(&rows, out)
}

/// Columns as wide as their widest cell; nothing behind the last one.
fn table(rows: &[[String; 4]], out: &mut dyn Write) -> io::Result<()> {
    let widths: Vec<usize> = (0..4)
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    for row in rows {
        let line: String = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}  "))
            .collect();
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn json(contract: &Contract, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Listing::of(contract))?;
    writeln!(out)
}
