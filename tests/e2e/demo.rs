//! `gateway demo`: a deployment in one process, as the README promises it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;

use nix::sys::signal::Signal;

use crate::harness::client::Client;
use crate::harness::deployment::{Deployment, deployments};
use crate::harness::process::{BINARY, Gateway, run_to_end};
use crate::harness::{CENTRAL, EXTENSION, INTERNAL, PATIENCE, UNKNOWN, WORKSPACE};

fn demo() -> Gateway {
    demo_of(&[])
}

fn demo_of(options: &[&str]) -> Gateway {
    let mut command = Command::new(BINARY);
    command
        .args(["demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(options);
    Gateway::start(command, addresses_in_greeting)
}

/// The first two addresses that the demo prints are the gateway's own: public, then admin.
fn addresses_in_greeting(lines: &[String]) -> Option<(SocketAddr, SocketAddr)> {
    let mut found = lines
        .iter()
        .flat_map(|line| line.split_whitespace())
        .filter_map(|word| {
            let word = word.strip_prefix("http://").unwrap_or(word);
            word.trim_end_matches(['/', ',', '.']).parse::<SocketAddr>().ok()
        });
    Some((found.next()?, found.next()?))
}

#[test]
fn each_family_is_answered_by_its_profile_with_the_target_unchanged() {
    let gateway = demo();
    let action = format!("{EXTENSION}/github/actions/create-issue");
    for (method, target, profile, route) in [
        (
            "GET",
            format!("{EXTENSION}?x=%2F"),
            "extension",
            "/api/v1/workspaces/{workspace}/agents/{agent}/runtime/ext",
        ),
        (
            "POST",
            action.clone(),
            "extension",
            "/runtime/ext/{domain:kebab}/actions/{action:kebab}",
        ),
        ("GET", format!("{CENTRAL}?a=1&b"), "central", "/api/v1/users/{user}"),
        (
            "GET",
            "/api/v1/workspaces/w1/agents".to_owned(),
            "workspace",
            "/api/v1/workspaces/{workspace}/agents",
        ),
    ] {
        let response = gateway.client().request(method, &target, &[("Content-Length", "0")]);
        assert_eq!(response.status, 200, "{method} {target}: {}", response.text());
        let answer = response.json();
        assert_eq!(answer["profile"], profile, "{answer}");
        assert_eq!(answer["method"], method, "{answer}");
        assert_eq!(answer["target"], target, "{answer}");
        let template = answer["route"].as_str().unwrap_or_default();
        assert!(template.ends_with(route), "{answer}");
    }
    let response = gateway.client().request("DELETE", &action, &[]);
    assert_eq!(response.status, 405, "the profile's own answer: {}", response.text());
    assert_eq!(
        gateway.get(&format!("{WORKSPACE}/no/such/route/at/the/profile")).json()["profile"],
        "workspace"
    );
}

#[test]
fn what_nobody_owns_is_refused() {
    let gateway = demo();
    for target in [INTERNAL, UNKNOWN, &format!("{EXTENSION}/github/unknown")] {
        gateway.get(target).assert_refusal(404, "not_found");
    }
    gateway
        .get("/api/v1/workspaces/w1/agents/a1/runtime%2Fext")
        .assert_refusal(400, "ambiguous_path");
}

#[test]
fn the_demo_is_ready_on_both_listeners() {
    let gateway = demo();
    for address in [gateway.public(), gateway.admin()] {
        for target in ["/readyz", "/readyz/extension", "/livez"] {
            assert_eq!(
                Client::connect(address).request("GET", target, &[]).status,
                200,
                "{target}"
            );
        }
    }
    let metrics = gateway.admin_get("/metrics");
    assert_eq!(metrics.status, 200);
    assert!(metrics.text().contains("gateway_requests_total"));
}

/// Sends each request of the greeting; the line before it says what must become of it.
fn try_what_is_printed(gateway: &Gateway) -> Vec<String> {
    let lines = gateway.wait_for_output("the greeting", |lines| {
        lines.iter().any(|line| line.contains("Ctrl-C")).then(|| lines.to_vec())
    });
    let public = gateway.public().to_string();
    let mut tried = Vec::new();
    for (promise, command) in lines.iter().zip(lines.iter().skip(1)) {
        let (Some(promise), Some(command)) = (promise.trim().strip_prefix("# "), command.trim().strip_prefix("curl "))
        else {
            continue;
        };
        let (options, url) = command.split_once('\'').expect("a quoted URL");
        let url = url.trim_end_matches('\'').strip_prefix("http://").expect("a URL");
        let target = url.strip_prefix(&public).expect("a URL of the gateway");
        let method = options.trim().strip_prefix("-X ").unwrap_or("GET");
        let response = gateway.client().request(method, target, &[("Content-Length", "0")]);
        if let Some(answer) = promise.strip_prefix("answered by ") {
            let profile = answer.split(':').next().expect("a profile");
            assert_eq!(response.status, 200, "{promise}: {}", response.text());
            assert_eq!(response.json()["profile"], profile, "{promise}");
            assert_eq!(response.json()["target"], target, "{promise}");
        } else if promise.starts_with("refused: decoded") {
            response.assert_refusal(400, "ambiguous_path");
        } else if promise.starts_with("refused") {
            response.assert_refusal(404, "not_found");
        } else {
            assert_eq!(response.status, 200, "{promise}");
        }
        tried.push(promise.to_owned());
    }
    tried
}

#[test]
fn the_greeting_names_what_to_try_and_it_works() {
    assert_eq!(try_what_is_printed(&demo()).len(), 8);
}

#[test]
fn every_deployment_has_a_demo_that_keeps_its_word() {
    for name in deployments() {
        let gateway = demo_of(&["--deployment", &name]);
        let tried = try_what_is_printed(&gateway);
        let deployment = Deployment::of(&name);
        let answered = tried.iter().filter(|promise| promise.starts_with("answered")).count();
        assert!(answered >= deployment.families().len(), "{name}: {tried:?}");
        assert_eq!(gateway.admin_get("/readyz").status, 200, "{name}");
    }
}

#[test]
fn a_contract_of_ones_own_is_served_with_its_profiles() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let contract = folder.path().join("contract.toml");
    fs::write(
        &contract,
        "version = 1\n[[family]]\nname = \"inside\"\nserve = \"never\"\nclaims = [\"/inside/**\"]\n\
         [[family]]\nname = \"front\"\nclaims = [\"/front/**\"]\n\
         [profile.window]\nowns = [\"front\"]\nroutes = [\"window.toml\"]\n",
    )
    .expect("a contract");
    fs::write(
        folder.path().join("window.toml"),
        "[[route]]\nmethod = \"GET\"\npath = \"/front/{page}\"\n",
    )
    .expect("a manifest");
    let gateway = demo_of(&["--contract", contract.to_str().expect("a path")]);
    let tried = try_what_is_printed(&gateway);
    assert!(tried.contains(&"answered by window".to_owned()), "{tried:?}");

    fs::write(&contract, "version = 1\nfamilies = 3\n").expect("a contract");
    let ended = run_to_end(Command::new(BINARY).args(["demo", "--contract"]).arg(&contract));
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("contract.toml:2:1"), "{ended:?}");
}

#[test]
fn a_profile_can_be_served_alone() {
    let mut command = Command::new(BINARY);
    command.args(["demo", "--profile", "central", "--listen", "127.0.0.1:0"]);
    // It has one listener, which stands for both here.
    let server = Gateway::start(command, |lines| {
        let line = lines.iter().find(|line| line.starts_with("central"))?;
        let address = line.split("http://").nth(1)?.parse().ok()?;
        Some((address, address))
    });
    assert_eq!(server.get(CENTRAL).json()["profile"], "central");
    assert_eq!(server.get(WORKSPACE).status, 404);
    assert_eq!(server.get("/readyz").status, 200);
    assert_eq!(server.terminate().status.code(), Some(0));

    let ended = run_to_end(Command::new(BINARY).args(["demo", "--profile", "centre"]));
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains("`centre`") && ended.stderr.contains("`central`"),
        "{ended:?}"
    );
}

#[test]
fn ctrl_c_ends_the_demo() {
    let gateway = demo();
    assert_eq!(gateway.get(CENTRAL).status, 200);
    gateway.signal(Signal::SIGINT);
    let ended = gateway.wait_for_exit(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

#[test]
fn a_taken_address_is_named() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    for flags in [
        ["--listen", &address, "--admin", "127.0.0.1:0"],
        ["--listen", "127.0.0.1:0", "--admin", &address],
    ] {
        let ended = run_to_end(Command::new(BINARY).arg("demo").args(flags));
        assert_ne!(ended.status.code(), Some(0), "{ended:?}");
        assert!(ended.stderr.contains(&address), "{ended:?}");
    }
}
