//! Builds the reference deployments into the binary: every contract and manifest under `config/`, so that `gateway demo`
//! needs no file beside it. A deployment is a folder there; none is named in the code.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../config");
    // A folder as a whole: cargo looks at everything in it, so that a new file is seen too.
    println!("cargo::rerun-if-changed={}", root.display());
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut code = String::from("/// Each file by its path below `config/`.\npub const FILES: &[(&str, &str)] = &[\n");
    for file in &files {
        let name = file.strip_prefix(&root)?.to_str().ok_or("a path that is not UTF-8")?;
        writeln!(code, "    ({name:?}, include_str!({:?})),", file.canonicalize()?)?;
    }
    code.push_str("];\n");
    let out = PathBuf::from(env::var("OUT_DIR")?).join("deployments.rs");
    Ok(fs::write(out, code)?)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    Ok(())
}
