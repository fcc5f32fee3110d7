//! Every deployment under `config/` by the same table: a deployment is files alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::PATIENCE;
use crate::harness::client::request_bytes;
use crate::harness::deployment::{Deployment, deployments, folder_of};
use crate::harness::process::{BINARY, Ended, run_to_end};

/// The variables that a configuration reads.
fn variables(text: &str) -> BTreeSet<&str> {
    let references = text.split("${").skip(1);
    references.filter_map(|rest| rest.split(['}', ':']).next()).collect()
}

/// Checks a configuration with its variables, all but `without`.
fn check(path: &Path, variables: &BTreeSet<&str>, without: Option<&str>) -> Ended {
    let mut command = Command::new(BINARY);
    command.args(["check", "--config"]).arg(path);
    for variable in variables {
        command.env_remove(variable);
        if Some(*variable) != without {
            command.env(variable, "http://127.0.0.1:9");
        }
    }
    run_to_end(&mut command)
}

/// Every configuration in a folder that is named `gateway*.toml`.
fn configurations(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path());
    let mut found: Vec<PathBuf> = entries
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("gateway") && name.ends_with(".toml")
        })
        .collect();
    found.sort();
    found
}

#[test]
fn every_gateway_toml_is_valid_with_its_variables_and_names_the_one_that_is_missing() {
    for name in deployments() {
        let files = configurations(&folder_of(&name));
        assert!(!files.is_empty(), "{name}");
        for path in files {
            let text = fs::read_to_string(&path).expect("a configuration");
            let variables = variables(&text);
            assert!(!variables.is_empty(), "{}", path.display());
            let ended = check(&path, &variables, None);
            assert_eq!(ended.status.code(), Some(0), "{}: {ended:?}", path.display());
            for variable in &variables {
                let ended = check(&path, &variables, Some(variable));
                assert_eq!(ended.status.code(), Some(1), "{}: {ended:?}", path.display());
                assert!(ended.stderr.contains(variable), "{}: {ended:?}", path.display());
            }
        }
    }
}

#[test]
fn what_the_image_and_the_package_serve_is_valid_without_a_warning() {
    let root = folder_of("").join("..");
    // compose.yaml lays the reference contract beside the image's configuration.
    let laid = tempfile::tempdir().expect("a temporary folder");
    let copy = |from: &Path, to: &Path| {
        fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    };
    let reference = folder_of("agentteam");
    copy(&root.join("docker/gateway.toml"), &laid.path().join("gateway.toml"));
    copy(&reference.join("contract.toml"), &laid.path().join("contract.toml"));
    fs::create_dir(laid.path().join("profiles")).expect("a folder");
    for entry in fs::read_dir(reference.join("profiles")).expect("the profiles") {
        let entry = entry.expect("an entry");
        copy(&entry.path(), &laid.path().join("profiles").join(entry.file_name()));
    }
    for path in [
        laid.path().join("gateway.toml"),
        root.join("packaging/default/gateway.toml"),
    ] {
        let text = fs::read_to_string(&path).expect("a configuration");
        let ended = check(&path, &variables(&text), None);
        assert_eq!(ended.status.code(), Some(0), "{}: {ended:?}", path.display());
        assert!(!ended.stderr.contains("warning"), "{}: {ended:?}", path.display());
    }
}

#[test]
fn open_conduits_paths_go_to_the_extension_that_they_name() {
    let deployment = Deployment::of("open-conduit");
    let gateway = deployment.start();
    for (family, target) in [
        ("github", "/github/webhook"),
        ("github", "/github"),
        ("github", "/github/apps/acme%2Fmain?installation=7"),
        ("slack", "/slack/events"),
        ("linear", "/linear/webhook/team-1"),
        ("jira", "/jira/webhook"),
        ("bitbucket", "/bitbucket/workspaces/w1"),
        ("schedule", "/schedule/nightly-report?token=x"),
        ("web-view", "/"),
        ("web-view", "/assets/app.js"),
        ("web-view", "/pages/github"),
    ] {
        deployment.passes(&gateway, family, target);
    }
    for (target, status, code) in [
        // Management and toolbelt APIs stay inside.
        ("/v1", 404, "not_found"),
        ("/v1/toolbelt/serving", 404, "not_found"),
        ("/work/w1/config-candidate", 404, "not_found"),
        // Nobody's.
        ("/githubx/webhook", 404, "not_found"),
        ("/gitlab/webhook", 404, "not_found"),
        ("/work/w1", 404, "not_found"),
        ("/healthz", 404, "not_found"),
        // One extension's path that a server may read as another's, or as an internal one.
        ("/github/../slack/events", 400, "ambiguous_path"),
        ("/github/..%2Fv1/toolbelt/serving", 400, "ambiguous_path"),
        ("/pages/..;/v1/toolbelt/guidance", 400, "ambiguous_path"),
        ("/%67ithub/webhook", 404, "not_found"),
    ] {
        deployment
            .refused(&gateway, request_bytes("POST", target, &[("Content-Length", "0")], b""))
            .assert_refusal(status, code);
    }
}

#[test]
fn families_of_every_deployment_become_unready_alone() {
    for name in deployments() {
        let mut deployment = Deployment::of(&name).with_probes();
        let gateway = deployment.start();
        let becomes = |target: &str, status: u16| {
            let deadline = Instant::now() + PATIENCE;
            // A probe's outcome has no event outside of the gateway.
            while gateway.admin_get(target).status != status {
                assert!(Instant::now() < deadline, "{name}: {target} never becomes {status}");
                thread::park_timeout(Duration::from_millis(20));
            }
        };
        becomes("/readyz", 200);
        let families = deployment.families();
        let (gone, others) = families.split_first().expect("a family");
        deployment.stop_upstream(gone);
        becomes(&format!("/readyz/{gone}"), 503);
        becomes("/readyz", 503);
        for family in others {
            assert_eq!(
                gateway.admin_get(&format!("/readyz/{family}")).status,
                200,
                "{name}: {family}"
            );
        }
    }
}
