//! `route-contract schema`: JSON Schemas of what is written by hand, for editors, and of what is written here.

use clap::ValueEnum;
use schemars::{Schema, schema_for};

use super::{Exit, Stop, Streams};
use crate::contract::{ContractFile, ManifestFile};
use crate::report::json::CheckReport;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What is described
    #[arg(value_enum)]
    subject: Subject,
}

/// What has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// A contract file
    Contract,
    /// A TOML manifest of a profile
    Manifest,
    /// What `check --format json` writes
    Report,
}

/// The schema of a subject (JSON Schema 2020-12).
pub fn schema(subject: Subject) -> Schema {
    match subject {
        Subject::Contract => schema_for!(ContractFile),
        Subject::Manifest => schema_for!(ManifestFile),
        Subject::Report => schema_for!(CheckReport<'static>),
    }
}

pub fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<Exit, Stop> {
    serde_json::to_writer_pretty(&mut *streams.out, &schema(arguments.subject))?;
    writeln!(streams.out)?;
    Ok(Exit::Clean)
}
