//! The reference deployments' files, built into the binary: the demo needs no file beside it.

use std::path::Path;
use std::sync::Arc;

use route_contract::contract::Contract;
use route_contract::diagnostic::{Diagnostic, Source};

mod files {
    include!(concat!(env!("OUT_DIR"), "/deployments.rs"));
}

/// The name of a contract in a deployment's folder.
const CONTRACT: &str = "contract.toml";

/// The names of the deployments that are built in: those of their folders.
pub fn names() -> impl Iterator<Item = &'static str> {
    files::FILES.iter().filter_map(|(path, _)| {
        let (deployment, file) = path.split_once('/')?;
        (file == CONTRACT).then_some(deployment)
    })
}

/// A deployment's contract with its profiles.
///
/// # Errors
/// The name of no deployment, or the contract's faults, which a test of this module rules out.
pub fn contract(deployment: &str) -> Result<Contract, Vec<Diagnostic>> {
    let path = Path::new("config").join(deployment).join(CONTRACT);
    Contract::load_with(&path, &|path| {
        files::FILES
            .iter()
            .find(|(name, _)| Path::new("config").join(name) == path)
            .map(|(_, text)| Source::new(path.to_string_lossy(), *text) as Arc<Source>)
            .ok_or_else(|| Diagnostic::error("GW0101", format!("`{}` is not built in", path.display())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_contract_is_whole() {
        for name in names() {
            let contract = contract(name).unwrap();
            assert!(!contract.profiles.is_empty(), "{name}");
        }
        assert!(names().count() >= 2);
    }

    #[test]
    fn every_folder_of_the_repository_is_built_in() {
        let folders = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../config")).unwrap();
        for folder in folders.map(|entry| entry.unwrap()) {
            let name = folder.file_name().into_string().unwrap();
            assert!(names().any(|known| known == name), "{name}");
        }
    }

    #[test]
    fn another_name_is_an_error() {
        assert!(contract("no-such-deployment").is_err());
    }
}
