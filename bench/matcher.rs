//! The matcher at 10, 1,000 and 100,000 templates, on a plain path of 150 bytes.
//!
//! `decide` is the bare look-up, `classify` the same with the rule on readings and the check of the bytes,
//! `matchit` the bare look-up of the crate in its most favourable form (see docs/decisions/matcher.md). `readings` is
//! what paths cost that are not plain.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use route_contract::classify::{Classifier, Verdict};
use route_contract::contract::Contract;
use route_contract::diagnostic::Source;
use route_contract::readings::MAX_SUSPICIOUS;

/// Templates in the shape of the reference contract: a few services, many resources below each.
fn templates(count: usize) -> Vec<String> {
    (0..count)
        .map(|n| {
            format!(
                "/api/v1/workspaces/{{workspace}}/service-{}/resource-{n}/{{item}}/actions/{{action}}",
                n % 97
            )
        })
        .collect()
}

fn contract(templates: &[String]) -> Contract {
    let mut text =
        "version = 1\n[[family]]\nname = \"service\"\nclaims = [\"/api/v1/workspaces/{workspace}/**\"]\nroutes = [\n"
            .to_owned();
    for template in templates {
        writeln!(text, "  \"{template}\",").expect("writing to a String");
    }
    text.push_str("]\n");
    Contract::load_with(Path::new("bench.toml"), &|_| {
        Ok(Source::new("bench.toml", text.clone()))
    })
    .expect("a sound contract")
}

/// A path of 150 bytes that matches the template in the middle.
fn path(count: usize) -> String {
    let n = count / 2;
    let head = format!(
        "/api/v1/workspaces/3fa85f64-5717-4562-b3fc-2c963f66afa6/service-{}/resource-{n}/",
        n % 97
    );
    let tail = "/actions/create-issue-comment";
    let item = "i".repeat(150 - head.len() - tail.len());
    format!("{head}{item}{tail}")
}

fn matcher(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("matcher");
    for count in [10, 1_000, 100_000] {
        let templates = templates(count);
        let classifier = Classifier::new(&contract(&templates)).expect("a contract that compiles");
        let path = path(count);
        assert_eq!(path.len(), 150);
        assert!(matches!(
            classifier.classify(path.as_bytes()).verdict,
            Verdict::Family(_)
        ));
        group.bench_with_input(BenchmarkId::new("decide", count), path.as_bytes(), |bencher, path| {
            bencher.iter(|| black_box(classifier.decide(black_box(path))));
        });
        group.bench_with_input(BenchmarkId::new("classify", count), path.as_bytes(), |bencher, path| {
            bencher.iter(|| black_box(classifier.classify(black_box(path))));
        });
        let mut router = matchit::Router::new();
        for template in &templates {
            router.insert(template.clone(), ()).expect("no conflict");
        }
        router
            .insert("/api/v1/workspaces/{workspace}", ())
            .expect("no conflict");
        assert!(router.at(&path).is_ok());
        group.bench_with_input(BenchmarkId::new("matchit", count), path.as_str(), |bencher, path| {
            bencher.iter(|| black_box(router.at(black_box(path)).is_ok()));
        });
    }
    group.finish();
}

/// What an adversary can make a path cost: the longest ones whose readings are looked at, beside an ordinary name with
/// an escape and a longer path that is refused unread.
fn readings(criterion: &mut Criterion) {
    let contract = Contract::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/agentteam/contract.toml"));
    let classifier = Classifier::new(&contract.expect("a sound contract")).expect("a contract that compiles");
    let claim = "/api/v1/workspaces/w1/files/";
    let longest = |unit: &str| claim.to_owned() + &unit.repeat((MAX_SUSPICIOUS - claim.len()) / unit.len());
    let mut group = criterion.benchmark_group("readings");
    for (name, path) in [
        ("a name with an escape", format!("{claim}Quarterly%20Report.pdf")),
        ("a name with a slash", format!("{claim}a%2Fb.txt")),
        ("%2525", longest("%2525")),
        ("/./", longest("/./")),
        (";", longest(";")),
        ("a/..;/", longest("a/..;/")),
        ("a;%2f", longest("a;%2f")),
        ("%252e%5c/;", longest("%252e%5c/;")),
        ("%41%2541/.//;x%5C", longest("%41%2541/.//;x%5C")),
        ("over 4 KiB", longest("%2525") + "%2525%2525"),
        ("64 KiB of %2525", claim.to_owned() + &"%2525".repeat(64 * 1024 / 5)),
    ] {
        group.bench_with_input(BenchmarkId::new("classify", name), path.as_bytes(), |bencher, path| {
            bencher.iter(|| black_box(classifier.classify(black_box(path))));
        });
    }
    group.finish();
}

criterion_group!(benches, matcher, readings);
criterion_main!(benches);
