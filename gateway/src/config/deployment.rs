//! All that a gateway serves from, loaded and checked: a configuration and the contract that it names.

use std::path::Path;

use route_contract::classify::Classifier;
use route_contract::contract::Contract;
use route_contract::diagnostic::{Diagnostic, Severity};

use super::{Environment, Loaded, agree, certificates, check, load, trust};

/// A configuration and its contract, which fit together.
pub struct Deployment {
    /// The configuration.
    pub loaded: Loaded,
    /// The contract that it names.
    pub contract: Contract,
    /// The contract's compiled matcher.
    pub classifier: Classifier,
    /// What is allowed, but likely not meant.
    pub warnings: Vec<Diagnostic>,
}

impl Deployment {
    /// Loads and checks a configuration file and its contract.
    ///
    /// # Errors
    /// All faults of the configuration; when it can be read, those of the contract with them; when both can,
    /// where they disagree. Warnings come along.
    pub fn load(path: &Path, environment: Environment<'_>) -> Result<Self, Vec<Diagnostic>> {
        Self::of(load(path, environment)?)
    }

    /// Checks a loaded configuration, and loads its contract.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn of(loaded: Loaded) -> Result<Self, Vec<Diagnostic>> {
        let contract = Contract::load(&loaded.contract_path());
        Self::join(loaded, contract)
    }

    /// Checks a loaded configuration against a contract that need not stand in the file that it names, as one that
    /// is built in.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn with_contract(loaded: Loaded, contract: Contract) -> Result<Self, Vec<Diagnostic>> {
        Self::join(loaded, Ok(contract))
    }

    fn join(loaded: Loaded, contract: Result<Contract, Vec<Diagnostic>>) -> Result<Self, Vec<Diagnostic>> {
        let mut findings = check(&loaded);
        findings.extend(trust::check(&loaded.config));
        findings.extend(certificates::check(&loaded));
        let compiled =
            contract.and_then(|contract| Classifier::new(&contract).map(|classifier| (contract, classifier)));
        match compiled {
            Err(faults) => {
                findings.extend(faults.into_iter().map(|fault| match fault.place {
                    // A file that cannot be read has no place of its own: the key that names it is the next best.
                    None => fault.at(loaded.place(&["contract"])),
                    Some(_) => fault,
                }));
                Err(findings)
            }
            Ok((contract, classifier)) => {
                findings.extend(agree(&loaded, &contract, &classifier));
                if findings.iter().any(|finding| finding.severity == Severity::Error) {
                    return Err(findings);
                }
                Ok(Self {
                    loaded,
                    contract,
                    classifier,
                    warnings: findings,
                })
            }
        }
    }
}
