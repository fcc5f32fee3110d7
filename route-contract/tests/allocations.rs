//! What a look-up costs in memory: nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

use std::path::Path;

use route_contract::classify::{Classifier, Verdict};
use route_contract::contract::Contract;

const EXTENSION: &str = "/api/v1/workspaces/w1/agents/a1/runtime/ext/github/actions/create-issue";

#[test]
fn a_plain_path_is_classified_without_an_allocation() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/agentteam/contract.toml");
    let classifier = Classifier::new(&Contract::load(&path).unwrap()).unwrap();
    for target in [
        EXTENSION,
        "/",
        "/api/v1/workspaces/01J9Z3KX/files/Some.File_v1-2/",
        "/api/v1/orgs?next=/internal/jobs&x=%20",
        "/api/v1/workspaces/w:1/files/a@b,c",
        "/api/internal/jobs",
        "/wp-login.php",
    ] {
        let mut verdict = Verdict::Invalid;
        let counted = allocation_counter::measure(|| verdict = classifier.classify(target.as_bytes()).verdict);
        assert_eq!(counted.count_total, 0, "{target}");
        assert_ne!(verdict, Verdict::Invalid, "{target}");
    }
}

/// Why the compiled matcher is not `matchit`: see `docs/decisions/matcher.md`. When this fails, the reason is
/// gone and the decision may be looked at again.
#[test]
fn matchit_allocates_on_the_reference_contract() {
    let mut router = matchit::Router::new();
    let workspace = "/api/v1/workspaces/{workspace}";
    let agent = format!("{workspace}/agents/{{agent}}");
    let ext = format!("{agent}/runtime/ext");
    for route in [
        workspace.to_owned(),
        format!("{workspace}/agents"),
        agent.clone(),
        format!("{agent}/runtime/status"),
        ext.clone(),
        format!("{ext}/{{domain}}"),
        format!("{ext}/{{domain}}/actions/{{action}}"),
    ] {
        router.insert(route, ()).unwrap();
    }
    // More than three parameters go to the heap,
    let counted = allocation_counter::measure(|| assert!(router.at(EXTENSION).is_ok()));
    assert!(counted.count_total > 0);
    // and so does the list for backtracking, wherever a literal stands beside a parameter.
    let mut router = matchit::Router::new();
    router.insert("/api/v1/apps", ()).unwrap();
    router.insert("/api/v1/{collection}", ()).unwrap();
    let counted = allocation_counter::measure(|| assert!(router.at("/api/v1/apps").is_ok()));
    assert!(counted.count_total > 0);
    // A claim below a parameter cannot be said at all.
    router.insert("/a/{x}/b", ()).unwrap();
    assert!(router.insert("/a/{*rest}", ()).is_err());
}
