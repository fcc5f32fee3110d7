//! `route-contract`: proves who owns which path. See the library for how.

use std::process::ExitCode;

fn main() -> ExitCode {
    route_contract::cli::main()
}
