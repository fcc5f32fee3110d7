//! The gateway's binary. What it can do is listed in [`gateway::cli`], one file a subcommand.

use std::process::ExitCode;

/// A request takes and gives back some two hundred pieces of memory: a tenth of its work with the system's allocator, and
/// a third of that with this one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    gateway::cli::main(std::env::args_os())
}
