//! The rule on readings, against a second statement of it: the steps written once more in the plainest way, and owners
//! found by the ordered scan.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use route_contract::classify::{Classifier, Verdict};
use route_contract::contract::Contract;
use route_contract::diagnostic::Source;
use route_contract::ownership::Owner;
use route_contract::plain::Plainness;
use route_contract::readings::{MAX_READINGS, MAX_SUSPICIOUS, Reading, Step, Unreadable, has_encoded_slash, readings};
use route_contract::scan::Scan;

const STEPS: [Step; 9] = [
    Step::Decode,
    Step::DecodeUnreserved,
    Step::Backslash,
    Step::Parameters,
    Step::Cut,
    Step::Merge,
    Step::DotSegments,
    Step::TrailingSlash,
    Step::FoldLetters,
];

/// The most decodings of a reading.
const DECODINGS: usize = 2;

/// The reference contract with both ways to decide by it, compiled once for all cases.
static REFERENCE: LazyLock<(Contract, Classifier, Scan)> = LazyLock::new(|| {
    let contract =
        Contract::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/agentteam/contract.toml")).unwrap();
    let classifier = Classifier::new(&contract).unwrap();
    let scan = Scan::new(&contract).unwrap();
    (contract, classifier, scan)
});

/// Two forwarded families, as usual and refusing encoded slashes.
static USUAL_AND_STRICT: LazyLock<[Classifier; 2]> = LazyLock::new(|| {
    ["", "encoded_slash = \"refuse\"\n"].map(|key| {
        let text = format!(
            "version = 1\n[[family]]\nname = \"a\"\nclaims = [\"/api/v1/orgs/**\"]\n{key}\
             [[family]]\nname = \"b\"\nclaims = [\"/api/v1/workspaces/{{w}}/**\"]\n{key}"
        );
        Classifier::new(&loaded(&text).unwrap()).unwrap()
    })
});

fn loaded(text: &str) -> Result<Contract, Vec<String>> {
    Contract::load_with(Path::new("contract.toml"), &|_| Ok(Source::new("contract.toml", text)))
        .map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

/// A step as a person would write it: on text, one replacement after the other.
fn step(step: Step, path: &str) -> String {
    match step {
        Step::Decode => decoded(path, |_| true),
        Step::DecodeUnreserved => decoded(path, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)),
        Step::Backslash => path.replace('\\', "/"),
        Step::Parameters => {
            let segments = path
                .split('/')
                .map(|segment| segment.split(';').next().unwrap_or_default());
            segments.collect::<Vec<_>>().join("/")
        }
        Step::Cut => path.split(['?', '#', '\0']).next().unwrap_or_default().to_owned(),
        Step::Merge => {
            let mut merged = path.to_owned();
            while merged.contains("//") {
                merged = merged.replace("//", "/");
            }
            merged
        }
        Step::DotSegments => {
            // RFC 3986 section 5.2.4, by its letters.
            let mut input = path.to_owned();
            let mut output = String::new();
            while !input.is_empty() {
                if input.starts_with("/./") || input == "/." {
                    input = format!("/{}", input.get(3..).unwrap_or_default());
                } else if input.starts_with("/../") || input == "/.." {
                    input = format!("/{}", input.get(4..).unwrap_or_default());
                    output.truncate(output.rfind('/').unwrap_or(0));
                } else {
                    let end = input[1..].find('/').map_or(input.len(), |end| end + 1);
                    output.push_str(&input[..end]);
                    input = input[end..].to_owned();
                }
            }
            output
        }
        Step::TrailingSlash => match path.strip_suffix('/') {
            Some(rest) if !rest.is_empty() => rest.to_owned(),
            _ => path.to_owned(),
        },
        Step::FoldLetters => path
            .replace('\u{212a}', "k")
            .replace('\u{17f}', "s")
            .replace(['\u{130}', '\u{131}'], "i"),
    }
}

fn decoded(path: &str, wanted: impl Fn(u8) -> bool) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let [first, behind @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => u8::from_str_radix(&String::from_utf8_lossy(&[*high, *low]), 16)
                .ok()
                .filter(|_| high.is_ascii_hexdigit()),
            _ => None,
        };
        match escaped.filter(|byte| wanted(*byte)) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[3..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).expect("a path that has readings decodes to text")
}

fn decodings(reading: &Reading) -> usize {
    reading
        .steps
        .iter()
        .filter(|step| matches!(step, Step::Decode | Step::DecodeUnreserved))
        .count()
}

fn text(reading: &Reading) -> &str {
    std::str::from_utf8(&reading.path).unwrap()
}

fn hostile_path() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "api",
        "v1",
        "workspaces",
        "w1",
        "agents",
        "a1",
        "runtime",
        "ext",
        "d1",
        "actions",
        "files",
        "orgs",
        "internal",
        "Ext",
        "API",
        "/",
        "/",
        "/",
        "/",
        "//",
        "/./",
        "/../",
        "/..",
        "%2F",
        "%2f",
        "%252F",
        "%5C",
        "%255c",
        "%2e",
        "%2E",
        "%252e",
        ".",
        "..",
        ";",
        ";x=1",
        "%3B",
        "%3f",
        "%23",
        "%253F",
        "%25",
        "%20",
        "%C3%A9",
        "%65",
        "agent%C5%BF",
        "%2565",
        "~",
        ":",
    ]);
    let below = prop::sample::select(vec![
        "/",
        "/api/v1/workspaces/w1/",
        "/api/v1/workspaces/w1/agents/a1/runtime/",
        "/api/v1/workspaces/w1/agents/a1/runtime/ext",
        "/api/v1/orgs/",
    ]);
    (below, prop::collection::vec(piece, 0..9)).prop_map(|(below, pieces)| format!("{below}{}", pieces.concat()))
}

fn plain_path() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(vec![
        "api",
        "v1",
        "workspaces",
        "w1",
        "agents",
        "a1",
        "runtime",
        "ext",
        "d1",
        "actions",
        "files",
        "orgs",
        "internal",
        "EXT",
        "Runtime",
        "01HV5QX9ZK",
        "a.b",
        ".x",
        "v1..2",
        "-",
        "_~",
        "a:b@c",
        "users",
    ]);
    (prop::collection::vec(segment, 1..10), any::<bool>())
        .prop_map(|(segments, slash)| format!("/{}{}", segments.join("/"), if slash { "/" } else { "" }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_500, ..ProptestConfig::default() })]

    /// Each reading is what its steps make of the path, and every further step leads to one of the readings.
    #[test]
    fn the_readings_are_sound_and_closed(path in hostile_path()) {
        match readings(path.as_bytes()) {
            Err(Unreadable::TooMany) => {}
            Err(Unreadable::Malformed) => prop_assert!(path.contains('%')),
            Ok(found) => {
                prop_assert_eq!(text(&found[0]), &path);
                prop_assert!(found.len() <= MAX_READINGS);
                let paths: BTreeSet<&str> = found.iter().map(text).collect();
                for reading in &found {
                    let walked = reading.steps.iter().fold(path.clone(), |path, taken| step(*taken, &path));
                    prop_assert_eq!(&walked, text(reading), "{} by {:?}", path, reading.steps);
                    let left = decodings(reading) < DECODINGS;
                    for next in STEPS {
                        if left || !matches!(next, Step::Decode | Step::DecodeUnreserved) {
                            let further = step(next, text(reading));
                            prop_assert!(
                                paths.contains(further.as_str()) || !further.starts_with('/'),
                                "{} -> {} -{:?}-> {}", path, text(reading), next, further
                            );
                        }
                    }
                }
            }
        }
    }

    /// What is forwarded has one owner in every reading; what is refused as ambiguous has a reading that shows why.
    #[test]
    fn a_verdict_follows_from_the_readings(path in hostile_path()) {
        let (_, classifier, scan) = &*REFERENCE;
        let owners = |path: &str| [scan.owner(path.as_bytes()), scan.owner(path.to_ascii_lowercase().as_bytes())];
        let verdict = classifier.classify(path.as_bytes()).verdict;
        let Ok(found) = readings(path.as_bytes()) else {
            prop_assert!(!matches!(verdict, Verdict::Family(_)), "{}", path);
            return Ok(());
        };
        let all: Vec<Owner> = found.iter().flat_map(|reading| owners(text(reading))).collect();
        match verdict {
            Verdict::Family(family) => prop_assert!(all.iter().all(|owner| *owner == Owner::Family(family)), "{}", path),
            Verdict::Ambiguous => {
                let Owner::Family(family) = scan.owner(path.as_bytes()) else { panic!("{path} is nobody's") };
                let shown = classifier.disagreement(path.as_bytes()).unwrap().expect("a reading that disagrees");
                prop_assert_ne!(shown.owner, Owner::Family(family));
                prop_assert_eq!(shown.owner, scan.owner(shown.path().as_bytes()), "{} as {}", path, shown.path());
            }
            Verdict::Never(_) | Verdict::Unknown => {
                prop_assert!(!matches!(scan.owner(path.as_bytes()), Owner::Family(_)), "{}", path);
            }
            Verdict::Invalid => prop_assert!(false, "{} has readings, and no byte of it is invalid", path),
        }
    }

    /// A plain path is refused as ambiguous only where its small letters or its missing slash belong to another.
    #[test]
    fn a_plain_path_is_refused_for_its_letters_or_its_slash_alone(path in plain_path()) {
        let (_, classifier, scan) = &*REFERENCE;
        prop_assert!(matches!(Plainness::of(path.as_bytes()), Plainness::Lower | Plainness::Mixed), "{}", path);
        let shorter = path.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(&path);
        let owners: Vec<Owner> = [path.as_str(), shorter]
            .iter()
            .flat_map(|path| [(*path).to_owned(), path.to_ascii_lowercase()])
            .map(|path| scan.owner(path.as_bytes()))
            .collect();
        let agreed = owners.iter().all(|owner| *owner == owners[0]);
        let expected = match owners[0] {
            Owner::Family(family) if agreed => Verdict::Family(family),
            Owner::Family(_) => Verdict::Ambiguous,
            Owner::Never(family) => Verdict::Never(family),
            Owner::Refused(_) | Owner::Unclaimed => Verdict::Unknown,
        };
        prop_assert_eq!(classifier.classify(path.as_bytes()).verdict, expected, "{}", path);
    }

    /// A stricter family is never looser, and refuses nothing but encoded slashes.
    #[test]
    fn a_stricter_family_refuses_encoded_slashes_and_nothing_else(path in hostile_path()) {
        let [usual, strict] = USUAL_AND_STRICT.each_ref().map(|classifier| classifier.classify(path.as_bytes()).verdict);
        match usual {
            Verdict::Family(_) if has_encoded_slash(path.as_bytes()) => prop_assert_eq!(strict, Verdict::Ambiguous, "{}", path),
            usual => prop_assert_eq!(strict, usual, "{}", path),
        }
    }
}

/// Names as people give them; none of them is read as anything else.
const NAMES: [&str; 14] = [
    "7e57ab1e-0000-4000-8000-00000000c0de",
    "7E57AB1E-0000-4000-8000-00000000C0DE",
    "01HV5QX9ZK3J8W2M4N6P7R8S9T",
    "2026-11-30",
    "2026-11-30T12:34:56.789Z",
    "v1.2.3",
    ".hidden",
    "Read.Me..TXT",
    "Quarterly%20Report%20(final).pdf",
    "%C3%A9t%C3%A9",
    "%E6%97%A5%E6%9C%AC",
    "100%25",
    "someone+tag@example.com",
    "a,b=c!$&'*~_-",
];

#[test]
fn no_name_in_a_free_parameter_is_refused() {
    let (contract, classifier, _) = &*REFERENCE;
    let mut passed = 0;
    for (id, family) in contract.family_ids() {
        for profile in contract.owners_of(id) {
            for route in contract.routes_of(profile) {
                for name in NAMES {
                    // A kind is the family's own word on what a name may be.
                    let kinds = family.routes.is_some();
                    let path = filled(route.template.as_str(), |parameter| {
                        if kinds && matches!(parameter, "domain" | "action") {
                            "kebab-1"
                        } else {
                            name
                        }
                    });
                    let verdict = classifier.classify(path.as_bytes()).verdict;
                    assert_eq!(verdict, Verdict::Family(id), "{path} of {}", profile.name);
                    passed += 1;
                }
            }
        }
    }
    assert!(passed > 300, "only {passed} paths");
}

#[test]
fn an_encoded_slash_passes_wherever_both_readings_have_one_owner() {
    let (contract, classifier, _) = &*REFERENCE;
    let verdict = |path: &str| classifier.classify(path.as_bytes()).verdict;
    for (family, path) in [
        ("central", "/api/v1/users/a%2Fb"),
        ("central", "/api/v1/orgs/a%2fb"),
        ("central", "/assets/a%2Fb.js"),
        ("workspace", "/api/v1/workspaces/w%2F1"),
        ("workspace", "/api/v1/workspaces/w1/agents/a%2Fb"),
        ("workspace", "/api/v1/workspaces/w1/files/a%2Fb%2Fc.txt"),
        ("workspace", "/api/v1/workspaces/w1/files/a%252Fb"),
        ("workspace", "/api/v1/workspaces/w1/files/C:%5CTemp"),
        ("workspace", "/api/v1/workspaces/w1/agents/a1/runtime/logs/a%2Fb"),
    ] {
        assert_eq!(
            verdict(path),
            Verdict::Family(contract.family(family).unwrap()),
            "{path}"
        );
    }
    for path in [
        "/api/v1/workspaces/w%2F1/agents/a1/runtime/ext",
        "/api/v1/workspaces/w1/agents/a%2F1/runtime/ext/d1",
        "/api/v1/workspaces/w1%2Fagents/a1/runtime/ext",
    ] {
        assert!(
            !matches!(verdict(path), Verdict::Family(_)),
            "{path}: {:?}",
            verdict(path)
        );
    }
}

/// The path of a template: each parameter by its name, and a leaf under a tail.
fn filled<'v>(template: &str, value: impl Fn(&str) -> &'v str) -> String {
    let mut path = String::new();
    let mut rest = template.strip_suffix("**").unwrap_or(template);
    while let Some((text, behind)) = rest.split_once('{') {
        let (parameter, behind) = behind.split_once('}').unwrap();
        path.push_str(text);
        path.push_str(value(parameter.split(':').next().unwrap()));
        rest = behind;
    }
    path.push_str(rest);
    if template.ends_with("**") {
        path.push_str(value("leaf"));
    }
    path
}

const STRICT: &str = "version = 1\n[[family]]\nname = \"files\"\nclaims = [\"/f/**\"]\nencoded_slash = \"refuse\"\n";

#[test]
fn a_family_can_refuse_encoded_slashes() {
    let contract = loaded(STRICT).unwrap();
    let classifier = Classifier::new(&contract).unwrap();
    let verdict = |path: &str| classifier.classify(path.as_bytes()).verdict;
    for path in [
        "/f/a%2Fb",
        "/f/a%2fb",
        "/f/a%252Fb",
        "/f/a%252%46b",
        "/f/a%5Cb",
        "/f/a%255cb",
        "/f/%2F",
        "/f/a/%2e%2F",
    ] {
        assert_eq!(verdict(path), Verdict::Ambiguous, "{path}");
    }
    for path in ["/f/a/b", "/f/a%20b", "/f/%C3%A9", "/f/100%25", "/f/a%25252Fb", "/f/2F"] {
        assert!(matches!(verdict(path), Verdict::Family(_)), "{path}");
    }
    assert_eq!(verdict("/g/a%2Fb"), Verdict::Unknown, "what is nobody's tells nothing");
}

#[test]
fn refusing_encoded_slashes_is_part_of_what_a_contract_means() {
    let digest = |text: &str| loaded(text).unwrap().digest();
    let admitting = STRICT.replace("refuse", "admit");
    let silent = STRICT.replace("encoded_slash = \"refuse\"\n", "");
    assert_eq!(digest(&admitting), digest(&silent));
    assert_ne!(digest(STRICT), digest(&silent));
}

#[test]
fn encoded_slash_is_admit_or_refuse_in_a_family_that_is_forwarded() {
    for (text, fault) in [
        (STRICT.replace("\"refuse\"", "\"allow\""), "RC0105"),
        (STRICT.replace("\"refuse\"", "true"), "RC0105"),
        (STRICT.replace("encoded_slash", "encoded_slashes"), "RC0103"),
        (
            STRICT.replace("encoded_slash", "serve = \"never\"\nencoded_slash"),
            "RC0105",
        ),
    ] {
        let faults = loaded(&text).unwrap_err();
        assert!(faults.len() == 1 && faults[0].contains(fault), "{text}: {faults:?}");
        assert!(faults[0].contains("contract.toml:"), "{faults:?}");
    }
}

#[test]
fn the_limits_refuse_and_never_forward() {
    let contract = loaded("version = 1\n[[family]]\nname = \"all\"\nclaims = [\"/**\"]\n").unwrap();
    let classifier = Classifier::new(&contract).unwrap();
    let long = |length: usize| format!("/%20{}", "a".repeat(length - 4));
    let verdict = |path: &str| classifier.classify(path.as_bytes()).verdict;
    assert!(matches!(verdict(&long(MAX_SUSPICIOUS)), Verdict::Family(_)));
    assert_eq!(verdict(&long(MAX_SUSPICIOUS + 1)), Verdict::Ambiguous);
    assert!(
        matches!(verdict(&format!("/{}", "a".repeat(60_000))), Verdict::Family(_)),
        "a plain path of any length has one reading"
    );
}
