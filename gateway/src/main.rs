//! The gateway's binary. What it can do is listed in [`gateway::cli`], one file a subcommand.

use std::process::ExitCode;

fn main() -> ExitCode {
    gateway::cli::main(std::env::args_os())
}
