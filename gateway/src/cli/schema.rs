//! `gateway schema`: the JSON Schema of `gateway.toml`.

use std::io::{self, Write as _};

use super::{CLEAN, FOUND};
use crate::config;

/// Prints it.
pub(super) fn run() -> u8 {
    let written = serde_json::to_string_pretty(&config::schema())
        .map_err(io::Error::from)
        .and_then(|text| writeln!(io::stdout().lock(), "{text}"));
    match written {
        Ok(()) => CLEAN,
        // When standard output is gone, the code says it all.
        Err(_) => FOUND,
    }
}
