//! The command line: one file a subcommand. Results go to standard output, notes to standard error; the exit
//! code is 0 where all is well, 1 where there are findings, 2 where nothing could be decided.

mod check;
mod classify;
mod diff;
mod digest;
mod explain;
mod list;
pub mod manual;
mod map;
mod mutants;
mod rules;
mod schema;
mod streams;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::diagnostic::Palette;
use crate::listing::JSON_VERSION;
use streams::{STANDARD_INPUT, Stop, Streams};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Clean = 0,
    /// There are findings, or the answer is no.
    Findings = 1,
    /// Nothing could be decided: a bad file, a bad flag, a broken pipe.
    Undecided = 2,
}

/// Proves who owns which path of a split deployment.
#[derive(Debug, Parser)]
#[command(name = "route-contract", version, about, max_term_width = 100)]
pub struct Arguments {
    /// The styles of text on standard output: for a terminal, colours.
    #[arg(skip = Palette::PLAIN)]
    palette: Palette,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Decide every rule for all paths: 0 clean, 1 findings, 2 could not decide
    Check(check::Arguments),
    /// Show who owns what: families in order, their templates, and who serves them
    List(list::Arguments),
    /// Say why a path is owned or not (exit 0 when owned, 1 when not), or what a rule means
    Explain(explain::Arguments),
    /// Classify request targets, one a line on standard input
    Classify(classify::Arguments),
    /// Print the contract's digest: the same for any formatting, another for any other meaning
    Digest(digest::Arguments),
    /// Compare two contracts by meaning: 0 the same, 1 paths change owner, 2 could not compare
    Diff(diff::Arguments),
    /// Weaken the contract step by step and show which rule catches each: 1 where none does
    Mutants(mutants::Arguments),
    /// List the rules, or print their pages
    Rules(rules::Arguments),
    /// Print the JSON Schema of a contract, a manifest or a report
    Schema(schema::Arguments),
    /// Print a script that completes this program's arguments in a shell
    Completions(manual::Completions),
    /// Print the manual page
    Man(manual::Man),
    /// Draw the tree of paths, coloured by family, with claims, routes and holes
    Map(map::Arguments),
}

/// Text for people or JSON for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs: an object with a `version`.
    Json,
}

/// Runs the program with the process's own arguments and streams.
pub fn main() -> ExitCode {
    let mut arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // clap knows the stream and the code: 0 for help, 2 for a bad flag. A closed stream changes neither.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    // `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` and `TERM` are respected; a file or a pipe gets no colours.
    if AutoStream::choice(&io::stdout()) != ColorChoice::Never {
        arguments.palette = Palette::COLOURED;
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut err = io::stderr().lock();
    let ended =
        run(&arguments, &mut io::stdin().lock(), &mut out, &mut err).and_then(|exit| out.flush().map(|()| exit));
    match ended {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(Exit::Undecided as u8),
        Err(error) => {
            // Standard error may be gone too; there is nobody left to tell.
            let _ = writeln!(err, "route-contract: {error}");
            ExitCode::from(Exit::Undecided as u8)
        }
    }
}

/// Runs a command on the given streams.
///
/// # Errors
/// A stream cannot be read or written.
pub fn run(
    arguments: &Arguments,
    input: &mut dyn io::BufRead,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let streams = &mut Streams { input, out, err };
    let ended = match &arguments.command {
        Command::Check(check) => check::run(check, &arguments.palette, streams),
        Command::List(arguments) => list::run(arguments, streams),
        Command::Explain(arguments) => explain::run(arguments, streams),
        Command::Classify(arguments) => classify::run(arguments, streams),
        Command::Digest(arguments) => digest::run(arguments, streams),
        Command::Diff(arguments) => diff::run(arguments, streams),
        Command::Mutants(arguments) => mutants::run(arguments, streams),
        Command::Rules(arguments) => rules::run(arguments, streams),
        Command::Schema(arguments) => schema::run(arguments, streams),
        Command::Completions(arguments) => {
            manual::completions(Arguments::command(), arguments, streams.out).map_err(Stop::Broken)
        }
        Command::Man(arguments) => {
            manual::man(Arguments::command(), arguments, streams.out, streams.err).map_err(Stop::Broken)
        }
        Command::Map(arguments) => map::run(arguments, streams),
    };
    match ended {
        Ok(exit) => Ok(exit),
        Err(Stop::Undecided) => Ok(Exit::Undecided),
        Err(Stop::Broken(error)) => Err(error),
    }
}

/// The contract that a command is about.
#[derive(Debug, clap::Args)]
struct ContractPath {
    /// The contract file; `-` is standard input, with manifests from the current folder
    #[arg(value_name = "CONTRACT")]
    contract: PathBuf,
}

/// `1 error`, `2 errors`.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// `1 class`, `2 classes`.
fn counted_classes(count: usize) -> String {
    match count {
        1 => "1 class".to_owned(),
        more => format!("{more} classes"),
    }
}
