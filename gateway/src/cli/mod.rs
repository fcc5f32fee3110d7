//! The command line: one file a subcommand.
//!
//! Results go to standard output, findings and notes to standard error. Exit codes: 0 done or clean, 1 findings
//! or failure, 2 nothing could be decided (an unreadable file, a bad flag).

mod check;
mod config;
mod demo;
mod findings;
mod online;
mod ready;
mod run;
mod schema;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use route_contract::cli::{Exit, manual};

/// Nothing to complain about.
const CLEAN: u8 = 0;
/// Findings, or the command failed.
const FOUND: u8 = 1;
/// The command could not decide.
const UNDECIDED: u8 = 2;

/// An edge gateway that serves a proved route contract.
#[derive(Debug, Parser)]
#[command(name = "gateway", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve: classify, forward and refuse requests until SIGTERM.
    Run(run::Options),
    /// Do everything `run` does short of listening, and report every finding.
    Check(check::Options),
    /// Print the effective configuration: every value, default or not, and where it came from.
    Config(config::Options),
    /// Print the JSON Schema of the configuration, for editors.
    Schema,
    /// Serve a deployment with embedded profile servers, and print what to try.
    Demo(demo::Options),
    /// Ask a running gateway whether it is ready, for a container's health check.
    Ready(ready::Options),
    /// Print a script that completes this program's arguments in a shell.
    Completions(manual::Completions),
    /// Print the manual page.
    Man(manual::Man),
}

/// The configuration that a subcommand works on.
#[derive(Debug, clap::Args)]
struct ConfigFile {
    /// The configuration file.
    #[arg(
        long,
        value_name = "FILE",
        env = "GATEWAY_CONFIG",
        hide_env_values = true,
        default_value = "gateway.toml"
    )]
    config: PathBuf,
}

/// Runs the subcommand that the arguments name, program name first, and answers the process's exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // To standard output for `--help` and `--version`, with 0; to standard error for the rest, with 2. When
            // neither can be written, the code alone must do.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(UNDECIDED));
        }
    };
    ExitCode::from(match arguments.command {
        Command::Run(options) => run::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Config(options) => config::run(&options),
        Command::Schema => schema::run(),
        Command::Demo(options) => demo::run(&options),
        Command::Ready(options) => ready::run(&options),
        Command::Completions(options) => {
            written(manual::completions(Arguments::command(), &options, &mut io::stdout()))
        }
        Command::Man(options) => written(manual::man(
            Arguments::command(),
            &options,
            &mut io::stdout(),
            &mut io::stderr(),
        )),
    })
}

/// A number with its noun.
fn counted(number: usize, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

/// The exit code of a command that only prints.
fn written(ended: io::Result<Exit>) -> u8 {
    // Where the reader of a pipe has gone, the code says it all.
    ended.map_or(UNDECIDED, |exit| exit as u8)
}
