//! What is tried with arbitrary bytes: one function a target. `fuzz/` runs them under libFuzzer, and the test beside
//! this file over its seeds; a body panics where something is wrong.
#![allow(dead_code)] // each fuzz target is a program that uses one body
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a finding is a panic

use std::io::BufReader;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use route_contract::classify::{Classifier, Verdict};
use route_contract::contract::Contract;
use route_contract::diagnostic::{Diagnostic, Source};
use route_contract::diff::Difference;
use route_contract::diff::replay::replay;
use route_contract::map::{Detail, Map, html, mermaid, svg};
use route_contract::ownership::Owner;
use route_contract::proof::Proof;
use route_contract::rules;
use route_contract::scan::Scan;
use route_contract::template::{MAX_BYTES, Template};

/// A body with its name, which is the target's.
pub type Body = fn(&[u8]);

/// All targets.
pub const BODIES: [(&str, Body); 8] = [
    ("contract", contract),
    ("template", template),
    ("classifier", classifier),
    ("replay_log", replay_log),
    ("import_openapi", import_openapi),
    ("import_json_lines", import_json_lines),
    ("import_spring", import_spring),
    ("import_http_route", import_http_route),
];

const MANIFEST: &str =
    "[[route]]\nmethod = \"GET\"\npath = \"/a/{x}\"\n[[route]]\nmethod = \"*\"\npath = \"/b/{y:int}/**\"\n";

/// The most templates of a contract that is proved: the loader takes more, but a run should try many contracts.
const MAX_PROVED: usize = 64;

/// Reads a contract, which is the input; every manifest that it names holds two routes. What can be loaded is
/// proved, compared with itself and drawn.
pub fn contract(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    let loaded = Contract::load_with(Path::new("contract.toml"), &|path| {
        let name = path.display().to_string();
        let text = if name == "contract.toml" {
            text.as_str()
        } else {
            MANIFEST
        };
        Ok(Source::new(name, text))
    });
    let contract = match loaded {
        Ok(contract) => contract,
        Err(faults) => {
            assert!(!faults.is_empty(), "refused without a fault");
            return show(&faults);
        }
    };
    assert_eq!(contract.digest(), contract.clone().digest());
    let templates: usize = contract
        .families
        .iter()
        .map(|family| family.claims.len() + family.routes.as_ref().map_or(0, Vec::len))
        .sum();
    if templates > MAX_PROVED || contract.profiles.len() > 8 {
        return;
    }
    match Proof::new(&contract) {
        Ok(proof) => {
            let findings = rules::check(&proof).findings;
            let own = ["RC0301", "RC0402"];
            let fault = findings.iter().find(|finding| own.contains(&finding.code));
            assert!(fault.is_none(), "a fault of the program: {fault:?}");
            show(&findings);
        }
        Err(faults) => return show(&faults),
    }
    let difference = Difference::between(&contract, &contract).expect("what was proved can be compared");
    assert!(difference.is_empty(), "{difference:?}");
    if let Ok(map) = Map::new(&contract, Detail::Profiles) {
        let mut drawn = String::new();
        for draw in [html::draw, svg::draw, mermaid::draw] {
            draw(&map, &mut drawn).expect("writing to a String");
        }
    }
}

/// Parses a template; what parses means the same when it is parsed again, and a fault lies in the text.
pub fn template(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Template::parse(&text) {
        Ok(template) => {
            assert!(text.len() <= MAX_BYTES);
            assert_eq!(Template::parse(template.as_str()).as_ref(), Ok(&template));
            assert!(template.has_shape_of(&template));
            assert_eq!(template.shape(true).ends_with("/**"), template.has_tail());
        }
        Err(error) => {
            assert!(
                error.span.start <= error.span.end && error.span.end <= text.len(),
                "{error:?}"
            );
            assert!(
                text.is_char_boundary(error.span.start) && text.is_char_boundary(error.span.end),
                "{error:?}"
            );
        }
    }
}

struct Classified {
    contract: Contract,
    classifier: Classifier,
    scan: Scan,
}

fn classified() -> &'static Classified {
    static CLASSIFIED: OnceLock<Classified> = OnceLock::new();
    CLASSIFIED.get_or_init(|| {
        let contract = fixed(
            "version = 1\n[kinds]\nshout = \"[A-Z]+|x\"\n\
             [[family]]\nname = \"internal\"\nserve = \"never\"\nclaims = [\"/internal/**\", \"/Api/{x:shout}/**\"]\n\
             [[family]]\nname = \"ext\"\nclaims = [\"/w/{w}/ext/**\"]\n\
             routes = [\"/w/{w}/ext\", \"/w/{w}/ext/{d:kebab}\", \"/w/{w}/ext/{d:kebab}/p-{n:int}.s\"]\n\
             [[family]]\nname = \"central\"\nclaims = [\"/\", \"/login\", \"/api/**\"]\n\
             [[family]]\nname = \"work\"\nclaims = [\"/w/{w}/**\", \"/{id:uuid}\"]\n",
        );
        Classified {
            classifier: Classifier::new(&contract).expect("a contract that compiles"),
            scan: Scan::new(&contract).expect("a contract that compiles"),
            contract,
        }
    })
}

fn fixed(text: &str) -> Contract {
    Contract::load_with(Path::new("contract.toml"), &|_| Ok(Source::new("contract.toml", text)))
        .expect("a contract that loads")
}

/// Classifies a target: the one pass must agree with the ordered scan and the readings themselves.
pub fn classifier(data: &[u8]) {
    let Classified { classifier, scan, .. } = classified();
    let verdict = classifier.classify(data).verdict;
    let path = data.split(|byte| *byte == b'?').next().unwrap_or_default();
    if verdict == Verdict::Invalid {
        // Plain text with no query is never invalid.
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(byte);
        assert!(data.first() != Some(&b'/') || !data.iter().all(plain), "{data:?}");
        return;
    }
    let expected = match (scan.owner(path), classifier.disagreement(path)) {
        (Owner::Never(family), _) => Verdict::Never(family),
        (Owner::Refused(_) | Owner::Unclaimed, _) => Verdict::Unknown,
        (Owner::Family(family), Ok(None)) => Verdict::Family(family),
        (Owner::Family(_), _) => Verdict::Ambiguous,
    };
    assert_eq!(verdict, expected, "{:?}", String::from_utf8_lossy(data));
}

/// Replays a log.
pub fn replay_log(data: &[u8]) {
    let Classified { contract, .. } = classified();
    let replayed = replay(contract, contract, &mut BufReader::new(data))
        .expect("a contract that compiles")
        .expect("memory can be read");
    assert_eq!(replayed.changed, 0);
    let lines = replayed.requests + replayed.passed_over + replayed.cut + replayed.not_understood;
    let written = data.split(|byte| *byte == b'\n').count() as u64;
    assert!(lines <= written, "{lines} of {written} lines");
}

/// Reads the input as an OpenAPI document.
pub fn import_openapi(data: &[u8]) {
    import("openapi", "", data);
}

/// Reads the input as JSON Lines, with paths as Express and as gin write them.
pub fn import_json_lines(data: &[u8]) {
    for syntax in ["", ", syntax = \"express\"", ", syntax = \"gin\""] {
        import("json-lines", syntax, data);
    }
}

/// Reads the input as Spring's mappings.
pub fn import_spring(data: &[u8]) {
    import("spring", "", data);
}

/// Reads the input as Kubernetes HTTPRoute.
pub fn import_http_route(data: &[u8]) {
    import("http-route", "", data);
}

fn import(format: &str, more: &str, data: &[u8]) {
    let contract = format!(
        "version = 1\n[[family]]\nname = \"f\"\nclaims = [\"/**\"]\n[profile.p]\nowns = [\"f\"]\n\
         routes = [{{ file = \"routes\", format = \"{format}\"{more} }}]\n"
    );
    let routes = Source::new("routes", String::from_utf8_lossy(data));
    let loaded = Contract::load_with(Path::new("contract.toml"), &|path| {
        Ok(match path.to_str() {
            Some("routes") => Arc::clone(&routes),
            _ => Source::new("contract.toml", contract.clone()),
        })
    });
    match loaded {
        Ok(contract) => {
            for route in contract
                .profiles
                .iter()
                .flat_map(|profile| profile.routes.iter().flatten())
            {
                // What was imported can be said in the grammar, and stands in the file.
                assert!(Template::parse(route.template.as_str()).is_ok(), "{}", route.template);
                assert!(routes.text.get(route.place.span.clone()).is_some(), "{}", route.place);
            }
        }
        Err(faults) => {
            assert!(!faults.is_empty(), "refused without a fault");
            show(&faults);
        }
    }
}

/// Every finding can be printed, whatever it quotes.
fn show(findings: &[Diagnostic]) {
    for finding in findings {
        let text = finding.to_string();
        assert!(!text.is_empty());
        if let Some(place) = &finding.place {
            let _ = place.line_column();
        }
    }
}
