//! Contracts, deployments and paths that a generator makes, small and full of overlaps: a few literals, patterns
//! that share segments, and kinds that are finite, so that templates cross wherever they can.
#![allow(dead_code)] // each test binary uses a part

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use route_contract::contract::Contract;
use route_contract::diagnostic::{Diagnostic, Source};

/// Segments of paths: literals of the templates, members of their patterns, and what servers read differently.
pub const SEGMENTS: [&str; 27] = [
    "a",
    "b",
    "ab",
    "c1",
    "A",
    "ext",
    "7",
    "x.s",
    "x",
    "",
    "p-9",
    "p-9.s",
    "P-a",
    "Pa",
    "pa",
    "SHOUT",
    "q-",
    "a-b",
    "EXT",
    "eXt",
    "123e4567-e89b-12d3-a456-426614174000",
    ".",
    "..",
    "a;v",
    "a%2Fb",
    "%61",
    "b%20c",
];

fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "ab", "c1", "A", "ext", "7", "x.s"]).prop_map(str::to_owned),
        2 => Just("{}".to_owned()),
        3 => prop::sample::select(vec!["{:int}", "{:kebab}", "{:uuid}", "{:shout}", "p-{}", "{}.s", "p-{:int}.s", "P{:kebab}"]).prop_map(str::to_owned),
    ]
}

/// A template: parameters get names by their place.
pub fn template() -> impl Strategy<Value = String> {
    (prop::collection::vec(segment(), 0..5), 0..4u8).prop_map(|(segments, end)| {
        let mut text = String::new();
        for (index, segment) in segments.iter().enumerate() {
            text.push('/');
            text.push_str(&segment.replace('{', &format!("{{n{index}")));
        }
        match end {
            0 => text.push_str("/**"),
            1 if !text.is_empty() => text.push('/'),
            _ if text.is_empty() => text.push('/'),
            _ => {}
        }
        text
    })
}

/// The text of a contract without profiles. `shout` is the expression of its own kind.
pub fn contract_with(shout: &'static str) -> impl Strategy<Value = String> {
    let family = (
        prop::collection::btree_set(template(), 1..4),
        prop::option::of(prop::collection::btree_set(template(), 1..5)),
        prop::bool::weighted(0.2),
    );
    prop::collection::vec(family, 1..5).prop_map(move |families| {
        let mut text = format!(
            "version = 1\nretired = [\"/ext/7/**\"]\n[common]\nroutes = [\"/b\"]\n[kinds]\nshout = \"{shout}\"\n"
        );
        for (index, (claims, routes, never)) in families.iter().enumerate() {
            let claims: Vec<&String> = claims.iter().collect();
            text.push_str(&format!("[[family]]\nname = \"f{index}\"\nclaims = {claims:?}\n"));
            if *never {
                text.push_str("serve = \"never\"\n");
            } else if let Some(routes) = routes {
                let routes: Vec<&String> = routes.iter().collect();
                text.push_str(&format!("routes = {routes:?}\n"));
            }
        }
        text
    })
}

/// The text of a contract without profiles.
pub fn contract() -> impl Strategy<Value = String> {
    contract_with("[A-Z]+|x")
}

/// A contract with two plain profiles and an aggregate, as files.
pub fn deployment() -> impl Strategy<Value = BTreeMap<String, String>> {
    let routes = || prop::collection::btree_set((prop::sample::select(vec!["GET", "POST"]), template()), 1..6);
    (contract(), routes(), routes(), prop::bool::ANY).prop_map(|(contract, first, second, aggregate)| {
        let families = contract.matches("[[family]]").count();
        let owned = |odd: usize| -> Vec<String> {
            (0..families)
                .filter(|index| index % 2 == odd)
                .map(|index| format!("f{index}"))
                .collect()
        };
        let mut text = contract;
        for (name, odd) in [("p", 0), ("q", 1)] {
            text.push_str(&format!(
                "[profile.{name}]\nowns = {:?}\nroutes = [\"{name}.toml\"]\n",
                owned(odd)
            ));
        }
        let manifest = |routes: &std::collections::BTreeSet<(&str, String)>| -> String {
            routes
                .iter()
                .map(|(method, path)| format!("[[route]]\nmethod = \"{method}\"\npath = \"{path}\"\n"))
                .collect()
        };
        if aggregate {
            text.push_str("[profile.all]\naggregate = [\"p\", \"q\"]\n");
        }
        BTreeMap::from([
            ("contract.toml".to_owned(), text),
            ("p.toml".to_owned(), manifest(&first)),
            ("q.toml".to_owned(), manifest(&second)),
        ])
    })
}

/// A path.
pub fn path() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(SEGMENTS.to_vec());
    prop::collection::vec(segment, 1..7).prop_map(|segments| format!("/{}", segments.join("/")))
}

/// The contract, unless two of its templates have one shape: then the loader refuses it.
pub fn load(text: &str) -> Option<Contract> {
    load_files(&BTreeMap::from([("contract.toml".to_owned(), text.to_owned())]))
}

/// The contract of some files, `contract.toml` among them.
pub fn load_files(files: &BTreeMap<String, String>) -> Option<Contract> {
    Contract::load_with(Path::new("contract.toml"), &|path| {
        let name = path.display().to_string();
        match files.get(&name) {
            Some(text) => Ok(Source::new(name, text.clone())),
            None => Err(Diagnostic::error("RC0101", format!("there is no {name}"))),
        }
    })
    .ok()
}
