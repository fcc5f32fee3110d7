//! The gateway on the wire decides as the library does that the proof is about.

use std::collections::BTreeSet;

use route_contract::classify::{Classifier, Verdict};
use route_contract::contract::Contract;

use crate::harness::deployment::{Deployment, deployments, folder_of};

/// What a segment is replaced by: keywords of other templates, and other spellings.
const REPLACEMENTS: [&str; 16] = [
    "ext",
    "runtime",
    "actions",
    "internal",
    "workspaces",
    "EXT",
    "e%78t",
    "%2e%2e",
    "..",
    ".",
    "",
    "a%2Fb",
    "a%252Fb",
    "x;y",
    "a%5Cb",
    "%zz",
];

/// Every template as a path, with every segment removed, doubled, lengthened and replaced, and with its tail cut and
/// grown.
fn corpus(contract: &Contract) -> BTreeSet<String> {
    let templates = contract
        .families
        .iter()
        .flat_map(|family| family.claims.iter().chain(family.routes.iter().flatten()))
        .map(|located| located.template.to_string())
        .chain(contract.common.iter().map(|route| route.template.to_string()));
    let mut paths = BTreeSet::from(["/".to_owned(), "/wp-login.php".to_owned()]);
    for template in templates {
        let plain: Vec<String> = template
            .split('/')
            .skip(1)
            .map(|segment| match segment.strip_prefix('{') {
                Some(name) => name.chars().take_while(|c| c.is_ascii_alphanumeric()).collect(),
                None => segment.replace("**", "rest"),
            })
            .collect();
        let mut keep = |segments: &[String]| paths.insert(format!("/{}", segments.join("/")));
        keep(&plain);
        for end in 0..plain.len() {
            keep(&plain[..end]);
        }
        for at in 0..plain.len() {
            let change = |with: &[String]| [&plain[..at], with, &plain[at + 1..]].concat();
            keep(&change(&[]));
            keep(&change(&[plain[at].clone(), plain[at].clone()]));
            keep(&change(&[format!("{}x", plain[at])]));
            for replacement in REPLACEMENTS {
                keep(&change(&[replacement.to_owned()]));
            }
        }
        for tail in ["", "more", "more/still"] {
            keep(&[plain.as_slice(), &[tail.to_owned()]].concat());
        }
    }
    paths
}

#[test]
fn the_gateway_decides_every_path_as_the_proved_matcher_does() {
    for name in deployments() {
        agrees(&name);
    }
}

fn agrees(name: &str) {
    let contract = Contract::load(&folder_of(name).join("contract.toml")).expect("a sound contract");
    let classifier = Classifier::new(&contract).expect("the compiled contract");
    // Without readiness paths on the public listener, every path is the contract's to decide.
    let deployment = Deployment::of(name).with_tables("[readiness]\n");
    let families = deployment.families();
    let tallies = || -> Vec<_> {
        families
            .iter()
            .map(|family| deployment.upstream(family).tally())
            .collect()
    };
    let gateway = deployment.start();
    let mut client = gateway.client();
    let mut counts = [0; 3];
    for path in corpus(&contract) {
        let verdict = classifier.classify(path.as_bytes()).verdict;
        let expected = match verdict {
            Verdict::Family(id) => (200, contract.families[id.index()].name.as_str()),
            Verdict::Never(_) | Verdict::Unknown => (404, "not_found"),
            Verdict::Ambiguous => (400, "ambiguous_path"),
            Verdict::Invalid => (400, "invalid_target"),
        };
        let mut received = tallies();
        let response = client.request("GET", &path, &[]);
        assert_eq!(response.status, expected.0, "{name}: {path} is {verdict:?}");
        if expected.0 == 200 {
            let owner = families
                .iter()
                .position(|family| *family == expected.1)
                .expect("a forwarded family");
            received[owner] = (received[owner].0 + 1, Some(path.clone()));
        } else {
            response.assert_refusal(expected.0, expected.1);
        }
        assert_eq!(tallies(), received, "{name}: {path} is {verdict:?}");
        counts[match expected.0 {
            200 => 0,
            404 => 1,
            _ => 2,
        }] += 1;
    }
    assert!(
        counts.iter().all(|count| *count > 20),
        "{name}: a lopsided corpus: {counts:?}"
    );
    assert!(
        families
            .iter()
            .all(|family| !deployment.upstream(family).requests().is_empty()),
        "{name}: a family received nothing"
    );
}
