//! The fuzz targets as an ordinary test: each body over its seeds, what was found once, and a fixed number of
//! mutations of them, the same in every run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

mod bodies;

use std::path::{Path, PathBuf};

use bodies::BODIES;

/// Mutations of each target. libFuzzer tries millions; these keep the bodies from rotting.
const MUTATIONS: u64 = 200;

/// The largest input that a mutation starts from, in bytes: a test should not spend its time on one file.
const LARGEST: usize = 16 << 10;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files of the folders that a target is fed from.
fn inputs(target: &str) -> Vec<Vec<u8>> {
    let mut folders = vec![
        root().join("fuzz/seeds").join(target),
        root().join("fuzz/found").join(target),
    ];
    match target.strip_prefix("import_") {
        Some(format) => folders.push(root().join("tests/import").join(format)),
        None if target == "contract" => {
            folders.extend(["agentteam", "open-conduit"].map(|name| root().join("config").join(name)))
        }
        None => {}
    }
    let mut files: Vec<PathBuf> = folders
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Xorshift (Marsaglia 2003): the same numbers on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// Bytes that mean something to one of the parsers.
const MEANINGFUL: &[u8] = b"/{}[]\"'\\%?#:;.,*-=~\n\r\t\0 aA0\xc3\xff";

fn mutate(input: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut output = input.get(..LARGEST).unwrap_or(input).to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(output.len());
        match numbers.below(5) {
            0 if !output.is_empty() => output[at] = MEANINGFUL[numbers.below(MEANINGFUL.len())],
            1 => output.insert(at, MEANINGFUL[numbers.below(MEANINGFUL.len())]),
            2 if !output.is_empty() => {
                output.remove(at);
            }
            3 => output.truncate(at),
            _ => {
                let end = (at + numbers.below(64)).min(output.len());
                let part = output[at.min(end)..end].to_vec();
                let to = numbers.below(output.len());
                output.splice(to..to, part);
            }
        }
    }
    output
}

#[test]
fn every_target_has_seeds_and_survives_their_mutations() {
    for (target, body) in BODIES {
        let inputs = inputs(target);
        assert!(!inputs.is_empty(), "{target} has no seeds");
        body(b"");
        for input in &inputs {
            body(input);
        }
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        for round in 0..MUTATIONS {
            let input = &inputs[round as usize % inputs.len()];
            body(&mutate(input, &mut numbers));
        }
    }
}

#[test]
fn every_target_is_a_program_of_the_fuzz_crate() {
    let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    for (target, _) in BODIES {
        assert!(
            manifest.contains(&format!("name = \"{target}\"")),
            "{target} is missing from fuzz/Cargo.toml"
        );
        let program = std::fs::read_to_string(root().join(format!("fuzz/fuzz_targets/{target}.rs"))).unwrap();
        assert!(program.contains(&format!("bodies::{target}(data)")), "{program}");
    }
}
