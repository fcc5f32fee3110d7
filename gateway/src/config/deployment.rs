//! All that a gateway serves from, loaded and checked: a configuration and the contract that it names.

use std::cell::RefCell;
use std::path::Path;

use route_contract::classify::Classifier;
use route_contract::contract::{self, Contract};
use route_contract::diagnostic::{Diagnostic, Place, Severity};
use route_contract::document;

use super::load::{self, Salvaged};
use super::{Contents, DOCUMENT, Environment, Loaded, agree, certificates, check, codes, trust};

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
        Self::load_noting(path, environment, &mut Contents::default())
    }

    /// The same, with a note of every file that plays a part and of what it held, those that are at fault among them.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_noting(
        path: &Path,
        environment: Environment<'_>,
        contents: &mut Contents,
    ) -> Result<Self, Vec<Diagnostic>> {
        let contents = RefCell::new(contents);
        let read = |file: &Path, codes| {
            let read = document::read_file(file, codes);
            match &read {
                Ok(source) => contents.borrow_mut().note(file, source),
                Err(_) => contents.borrow_mut().read(file),
            }
            read
        };
        let source = read(path, &DOCUMENT).map_err(|fault| vec![fault])?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let Salvaged { loaded, faults } = load::salvage(&source, folder, environment);
        let Some(loaded) = loaded else { return Err(faults) };
        for file in loaded.files_of_tls() {
            contents.borrow_mut().read(&file);
        }
        let load_contract = || Contract::load_with(&loaded.contract_path(), &|file| read(file, &contract::CODES));
        if faults.is_empty() {
            let contract = load_contract();
            return Self::join(loaded, contract);
        }
        // Which contract is meant is not known where its key is at fault.
        let key = loaded.place(&["contract"]);
        let is_known = faults
            .iter()
            .all(|fault| fault.place.as_ref().is_none_or(|place| !overlap(place, &key)));
        Err(all_faults(faults, &loaded, is_known.then(load_contract)))
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

/// The faults of a damaged configuration's form, and with them what is wrong with the meaning of what is left.
fn all_faults(
    mut faults: Vec<Diagnostic>,
    loaded: &Loaded,
    contract: Option<Result<Contract, Vec<Diagnostic>>>,
) -> Vec<Diagnostic> {
    let compiled = contract.map(|contract| {
        contract.and_then(|contract| Classifier::new(&contract).map(|classifier| (contract, classifier)))
    });
    let mut meaning = check(loaded);
    let mut others = Vec::new();
    match compiled {
        Some(Ok((contract, classifier))) => meaning.extend(agree(loaded, &contract, &classifier)),
        Some(Err(found)) => others = found,
        None => {}
    }
    // Where a value is at fault its default stands in, which may not fit what is beside it.
    let holds = |finding: &Diagnostic| {
        let at_fault = |place| {
            faults
                .iter()
                .filter_map(|fault| fault.place.as_ref())
                .any(|fault| overlap(fault, place))
        };
        codes::OF_ONE_VALUE.contains(&finding.code) && !finding.place.as_ref().is_some_and(at_fault)
    };
    let meaning: Vec<Diagnostic> = meaning.into_iter().filter(holds).collect();
    faults.extend(meaning);
    faults.sort_by_key(|fault| fault.place.as_ref().map_or(0, |place| place.span.start));
    faults.extend(others);
    faults
}

fn overlap(one: &Place, other: &Place) -> bool {
    one.source.name == other.source.name && one.span.start < other.span.end && other.span.start < one.span.end
}
