//! Tells the program which axum it was built with, from its own lock file.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let lock = std::fs::read_to_string("Cargo.lock")?;
    let version = lock
        .split("[[package]]")
        .find(|package| package.contains("name = \"axum\"\n"))
        .and_then(|package| package.lines().find_map(|line| line.strip_prefix("version = ")))
        .ok_or("axum is not in Cargo.lock")?;
    println!("cargo::rustc-env=AXUM_VERSION={}", version.trim_matches('"'));
    println!("cargo::rerun-if-changed=Cargo.lock");
    Ok(())
}
