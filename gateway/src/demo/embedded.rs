//! The reference deployment's files, built into the binary: the demo needs no file beside it.

use std::path::Path;
use std::sync::Arc;

use route_contract::contract::Contract;
use route_contract::diagnostic::{Diagnostic, Source};

/// The name under which findings show the contract.
const CONTRACT: &str = "config/agentteam/contract.toml";

/// Each file by its path in this repository.
const FILES: [(&str, &str); 5] = [
    (CONTRACT, include_str!("../../../config/agentteam/contract.toml")),
    (
        "config/agentteam/profiles/all.toml",
        include_str!("../../../config/agentteam/profiles/all.toml"),
    ),
    (
        "config/agentteam/profiles/central.toml",
        include_str!("../../../config/agentteam/profiles/central.toml"),
    ),
    (
        "config/agentteam/profiles/extension.toml",
        include_str!("../../../config/agentteam/profiles/extension.toml"),
    ),
    (
        "config/agentteam/profiles/workspace.toml",
        include_str!("../../../config/agentteam/profiles/workspace.toml"),
    ),
];

/// The reference contract with its profiles.
///
/// # Errors
/// The contract's faults, which a test of this module rules out.
pub fn contract() -> Result<Contract, Vec<Diagnostic>> {
    Contract::load_with(Path::new(CONTRACT), &|path| {
        FILES
            .iter()
            .find(|(name, _)| Path::new(name) == path)
            .map(|(name, text)| Source::new(*name, *text) as Arc<Source>)
            .ok_or_else(|| Diagnostic::error("GW0101", format!("`{}` is not built in", path.display())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_contract_is_whole() {
        let contract = contract().unwrap();
        for profile in ["central", "workspace", "extension", "all"] {
            assert!(contract.profile(profile).is_some(), "{profile}");
        }
    }
}
