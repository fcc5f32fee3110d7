#![no_main]

//! `gateway.toml` as any bytes: loaded, checked, compared with a contract and shown, without a panic. What is shown loads
//! to itself, so that nothing is lost on the way. No file that it names is read.

use std::ffi::OsString;
use std::path::Path;
use std::sync::OnceLock;

use gateway::config::{Loaded, agree, check, effective, load_source};
use gateway::reload::restart;
use route_contract::classify::Classifier;
use route_contract::contract::Contract;
use route_contract::diagnostic::{Diagnostic, Source};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match load(text) {
        Err(faults) => assert!(!faults.is_empty() && all_in_range(&faults, text)),
        Ok(loaded) => {
            let (contract, classifier) = reference();
            let mut findings = check(&loaded);
            findings.extend(agree(&loaded, contract, classifier));
            assert!(all_in_range(&findings, text));
            assert!(restart::check(&loaded.config, &loaded).is_empty());
            let shown = effective::toml(&loaded).expect("a configuration can be shown");
            let again = load(&shown).unwrap_or_else(|faults| panic!("{shown}\n{faults:#?}"));
            assert!(again.config == loaded.config, "{shown}");
        }
    }
});

/// With every variable but `NONE` set.
fn load(text: &str) -> Result<Loaded, Vec<Diagnostic>> {
    let environment = |name: &str| (name != "NONE").then(|| OsString::from("http://inner:1"));
    load_source(&Source::new("gateway.toml", text), Path::new(""), &environment)
}

fn all_in_range(findings: &[Diagnostic], text: &str) -> bool {
    findings.iter().all(|finding| {
        let in_range = finding.place.as_ref().is_none_or(|place| place.span.end <= text.len() + 1);
        in_range && !finding.to_string().is_empty()
    })
}

fn reference() -> &'static (Contract, Classifier) {
    static REFERENCE: OnceLock<(Contract, Classifier)> = OnceLock::new();
    REFERENCE.get_or_init(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/agentteam/contract.toml");
        let contract = Contract::load(&path).expect("the reference contract");
        let classifier = Classifier::new(&contract).expect("its matcher");
        (contract, classifier)
    })
}
