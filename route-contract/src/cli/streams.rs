//! What every subcommand reads and writes, and how it ends before its answer.

use std::fmt::Display;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::Arc;

use crate::contract::{CODES, Contract};
use crate::diagnostic::{Diagnostic, Place};
use crate::document;
use crate::proof::TOO_LARGE;

/// The name of standard input among paths.
pub(super) const STANDARD_INPUT: &str = "-";

/// The streams of one run.
pub(super) struct Streams<'s> {
    /// Standard input.
    pub input: &'s mut dyn BufRead,
    /// Results.
    pub out: &'s mut dyn Write,
    /// Notes and faults.
    pub err: &'s mut dyn Write,
}

/// Why a command ends without an answer.
#[derive(Debug)]
pub(super) enum Stop {
    /// Nothing could be decided, and standard error says why.
    Undecided,
    /// A stream cannot be read or written.
    Broken(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl From<serde_json::Error> for Stop {
    fn from(error: serde_json::Error) -> Self {
        Self::Broken(error.into())
    }
}

impl Streams<'_> {
    /// Reads a contract, from standard input where it is named `-`.
    pub fn contract(&mut self, path: &Path) -> Result<Contract, Stop> {
        let read = read(path, self.input);
        self.sound(read)
    }

    /// The value, or its faults on standard error.
    pub fn sound<T>(&mut self, result: Result<T, Vec<Diagnostic>>) -> Result<T, Stop> {
        result.or_else(|faults| {
            for fault in &faults {
                writeln!(self.err, "{fault}")?;
            }
            writeln!(
                self.err,
                "{}: nothing was decided",
                super::counted(faults.len(), "error")
            )?;
            Err(Stop::Undecided)
        })
    }

    /// The value, or that the contract is too large for it.
    pub fn small_enough<T>(&mut self, result: Result<T, impl Display>, contract: &Contract) -> Result<T, Stop> {
        self.sound(result.map_err(|error| {
            vec![Diagnostic::error(TOO_LARGE, error.to_string()).at(Place::new(&contract.source, 0..0))]
        }))
    }

    /// Says on standard error why nothing can be decided.
    pub fn stop(&mut self, why: impl Display) -> Stop {
        match writeln!(self.err, "{why}") {
            Ok(()) => Stop::Undecided,
            Err(error) => Stop::Broken(error),
        }
    }
}

/// Reads a contract, from `input` where it is named `-`: manifests are then those of the current folder.
pub(super) fn read(path: &Path, input: &mut dyn BufRead) -> Result<Contract, Vec<Diagnostic>> {
    if path.as_os_str() != STANDARD_INPUT {
        return Contract::load(path);
    }
    let text = document::read_stream("<stdin>", input, &CODES).map_err(|fault| vec![fault])?;
    Contract::load_with(path, &|file| {
        if file == path {
            Ok(Arc::clone(&text))
        } else {
            document::read_file(file, &CODES)
        }
    })
}
