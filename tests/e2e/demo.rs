//! `gateway demo`: the reference deployment in one process, as the README promises it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;

use nix::sys::signal::Signal;

use crate::harness::client::Client;
use crate::harness::process::{BINARY, Gateway, run_to_end};
use crate::harness::{CENTRAL, EXTENSION, INTERNAL, PATIENCE, UNKNOWN, WORKSPACE};

fn demo() -> Gateway {
    let mut command = Command::new(BINARY);
    command.args(["demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
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

#[test]
fn the_greeting_names_what_to_try_and_it_works() {
    let gateway = demo();
    let commands = gateway.wait_for_output("the curl lines", |lines| {
        let commands: Vec<String> = lines
            .iter()
            .map(|line| line.trim())
            .filter(|line| line.starts_with("curl "))
            .map(str::to_owned)
            .collect();
        (commands.len() >= 4).then_some(commands)
    });
    let public = gateway.public().to_string();
    for command in commands {
        assert!(command.contains(&public), "{command}");
        let url = command
            .split(|c: char| c.is_whitespace() || c == '\'')
            .find_map(|word| word.strip_prefix("http://"))
            .unwrap_or_else(|| panic!("no URL in {command}"));
        let target = &url[url.find('/').unwrap_or(url.len())..];
        let method = if command.contains("-X POST") { "POST" } else { "GET" };
        let response = gateway.client().request(method, target, &[("Content-Length", "0")]);
        assert!(
            matches!(response.status, 200 | 400 | 404),
            "{command}: {}",
            response.status
        );
    }
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
