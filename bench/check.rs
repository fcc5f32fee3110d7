//! `check` over 10,000 and 100,000 routes in four profiles: read, prove, decide every rule.
//!
//! The deployment has the shape of the reference: an extension family that lists its routes under a claim, a
//! central one with fifty claims and routes with kinds, a workspace that takes the rest, and an aggregate that
//! registers everything once more, so that twice as many registrations are compared.
#![allow(clippy::expect_used)] // a bench fails by panicking

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use route_contract::contract::Contract;
use route_contract::diagnostic::{Diagnostic, Source};
use route_contract::proof::Proof;
use route_contract::rules::{self, Outcome};

const WORKSPACE: &str = "/api/v1/workspaces/{workspace}";
const SERVICES: usize = 50;

type Files = HashMap<&'static str, Arc<Source>>;

/// A deployment with `count` routes in its plain profiles.
fn deployment(count: usize) -> Files {
    let ext = format!("{WORKSPACE}/agents/{{agent}}/runtime/ext");
    let listed: Vec<String> = (0..count / 20)
        .map(|n| format!("{ext}/domain-{n}/actions/{{action:kebab}}"))
        .collect();
    let extension: Vec<(&str, String)> = listed
        .iter()
        .flat_map(|path| [("GET", path.clone()), ("POST", path.clone())])
        .collect();
    let central: Vec<(&str, String)> = (0..count * 3 / 10)
        .map(|n| {
            let kind = ["", ":int", ":uuid", ":kebab"][n % 4];
            let service = n % SERVICES;
            ("GET", format!("/api/v1/service-{service}/resource-{n}/{{id{kind}}}"))
        })
        .collect();
    let workspace: Vec<(&str, String)> = (0..count - extension.len() - central.len())
        .map(|n| {
            (
                "GET",
                format!("{WORKSPACE}/kind-{}/thing-{n}/{{item}}/parts/{{part}}", n % 97),
            )
        })
        .collect();

    let mut contract = "version = 1\nretired = [\"/api/internal/ext/**\"]\n[common]\nroutes = [\"/healthz\"]\n\
        [[family]]\nname = \"internal-only\"\nserve = \"never\"\nclaims = [\"/api/internal/**\"]\n"
        .to_owned();
    let services: Vec<String> = (0..SERVICES).map(|n| format!("/api/v1/service-{n}/**")).collect();
    let workspaces = format!("{WORKSPACE}/**");
    // A list of strings is written in TOML as Rust shows it.
    write!(
        contract,
        "[[family]]\nname = \"extension\"\nclaims = [\"{ext}/**\"]\nroutes = {listed:?}\n\
         [[family]]\nname = \"central\"\nclaims = {services:?}\n\
         [[family]]\nname = \"workspace\"\nclaims = [\"{workspaces}\"]\n"
    )
    .expect("writing to a String");
    for name in ["extension", "central", "workspace"] {
        write!(
            contract,
            "[profile.{name}]\nowns = [\"{name}\"]\nroutes = [\"{name}.toml\"]\n"
        )
        .expect("writing to a String");
    }
    contract
        .push_str("[profile.all]\naggregate = [\"central\", \"workspace\", \"extension\"]\nroutes = [\"all.toml\"]\n");
    let manifest = |routes: &[(&str, String)]| -> String {
        routes
            .iter()
            .map(|(method, path)| format!("[[route]]\nmethod = \"{method}\"\npath = \"{path}\"\n"))
            .collect()
    };
    let all = [extension.as_slice(), &central, &workspace].concat();
    [
        ("contract.toml", contract),
        ("extension.toml", manifest(&extension)),
        ("central.toml", manifest(&central)),
        ("workspace.toml", manifest(&workspace)),
        ("all.toml", manifest(&all)),
    ]
    .into_iter()
    .map(|(name, text)| (name, Source::new(name, text)))
    .collect()
}

fn check(files: &Files) -> Outcome {
    let contract = Contract::load_with(Path::new("contract.toml"), &|path| {
        path.to_str()
            .and_then(|name| files.get(name))
            .map(Arc::clone)
            .ok_or_else(|| Diagnostic::error("RC0101", format!("there is no {}", path.display())))
    })
    .expect("a contract that loads");
    let proof = Proof::new(&contract).expect("a contract that can be decided");
    rules::check(&proof)
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("check");
    group.sample_size(10);
    for count in [10_000, 100_000] {
        let files = deployment(count);
        let outcome = check(&files);
        assert!(outcome.is_clean(), "{:?}", outcome.findings.first());
        let registered: usize = outcome.counts.profiles.iter().map(|(_, routes)| routes).sum();
        assert_eq!(registered, 2 * count);
        group.bench_with_input(BenchmarkId::from_parameter(count), &files, |bencher, files| {
            bencher.iter(|| black_box(check(black_box(files))));
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
