//! `gateway config`: the effective configuration.

use std::io::{self, Write as _};

use super::{CLEAN, ConfigFile, FOUND, findings};
use crate::config::{effective, load};

/// What `gateway config` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    file: ConfigFile,
    /// How to print it.
    #[arg(long, value_enum, default_value = "toml")]
    format: Format,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// A file that can be loaded again, with the origin of each value as a comment.
    Toml,
    /// Values, and origins by key.
    Json,
}

/// Prints the effective configuration. The contract is not needed for it and not read.
pub(super) fn run(options: &Options) -> u8 {
    let loaded = match load(&options.file.config, &|name| std::env::var_os(name)) {
        Ok(loaded) => loaded,
        Err(faults) => return findings::report(&faults),
    };
    let text = match options.format {
        Format::Toml => effective::toml(&loaded),
        Format::Json => effective::json(&loaded).and_then(|json| serde_json::to_string_pretty(&json)),
    };
    let written = match &text {
        Ok(text) => writeln!(io::stdout().lock(), "{}", text.trim_end()),
        Err(error) => writeln!(io::stderr().lock(), "error: the configuration cannot be shown: {error}"),
    };
    if text.is_ok() && written.is_ok() { CLEAN } else { FOUND }
}
