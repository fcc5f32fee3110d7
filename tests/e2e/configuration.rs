//! A configuration is whole and valid, or the gateway does not start and says why, without a value that may be
//! a secret.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;

use crate::harness::CENTRAL;
use crate::harness::deployment::{Deployment, reference_folder};
use crate::harness::process::{BINARY, Ended, run_to_end};
use crate::harness::recorder::{Answer, PROBE_TARGET};

const VARIABLE: &str = "E2E_WORKSPACE_URL";

/// Runs `check` and `run`, which must both fail with this exit code, and returns what each wrote.
#[track_caller]
fn both_fail(deployment: &Deployment, code: i32) -> Vec<Ended> {
    ["check", "run"]
        .into_iter()
        .map(|subcommand| {
            let ended = run_to_end(
                deployment
                    .command(subcommand)
                    .env_remove(VARIABLE)
                    .envs(deployment.variables()),
            );
            assert_eq!(ended.status.code(), Some(code), "{subcommand}: {ended:?}");
            assert!(
                ended.stderr.contains("gateway.toml:") || code == 2,
                "no place: {}",
                ended.stderr
            );
            ended
        })
        .collect()
}

#[test]
fn the_reference_deployments_are_valid_with_the_documented_variables() {
    for file in ["gateway.toml", "gateway-monolith.toml"] {
        let mut command = Command::new(BINARY);
        command.args(["check", "--config"]).arg(reference_folder().join(file));
        for family in ["CENTRAL", "WORKSPACE", "EXTENSION"] {
            command.env(
                format!("AGENTTEAM_GATEWAY_{family}_UPSTREAM_URL"),
                "http://loop-server-extension:3002",
            );
        }
        let ended = run_to_end(&mut command);
        assert_eq!(ended.status.code(), Some(0), "{file}: {ended:?}");
    }
    let mut command = Command::new(BINARY);
    command
        .args(["check", "--config"])
        .arg(reference_folder().join("gateway.toml"));
    for family in ["CENTRAL", "WORKSPACE"] {
        command.env(
            format!("AGENTTEAM_GATEWAY_{family}_UPSTREAM_URL"),
            "http://central:3000",
        );
    }
    let ended = run_to_end(command.env_remove("AGENTTEAM_GATEWAY_EXTENSION_UPSTREAM_URL"));
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains("AGENTTEAM_GATEWAY_EXTENSION_UPSTREAM_URL"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_variable_that_is_unset_or_blank_is_named() {
    for value in [None, Some(""), Some("   "), Some("\t"), Some("\n")] {
        let mut deployment = Deployment::new().with_url("workspace", &format!("${{{VARIABLE}}}"));
        if let Some(value) = value {
            deployment = deployment.with_variable(VARIABLE, value);
        }
        for ended in both_fail(&deployment, 1) {
            assert!(ended.stderr.contains(VARIABLE), "{value:?}: {}", ended.stderr);
        }
    }
}

#[test]
fn a_variable_with_a_bad_value_is_refused_and_its_value_never_printed() {
    for value in [
        "${WS_URL}",
        "http://",
        "http://:8080",
        "ftp://s3cret",
        "s3cret:8080",
        "http://s3cret/base/",
        "http://user:s3cret@h",
        "http://s3cret:8080\n",
        "http://s3cret:0",
        "http://s3cret:65536",
        "http://s3cret?x=1",
        "http://s3cret#x",
        "http://s3 cret",
        "http://[s3cret]",
    ] {
        let deployment = Deployment::new()
            .with_url("workspace", &format!("${{{VARIABLE}}}"))
            .with_variable(VARIABLE, value);
        for ended in both_fail(&deployment, 1) {
            let output = format!("{}{}", ended.stdout, ended.stderr);
            assert!(
                output.contains(VARIABLE),
                "{value}: the variable is not named\n{output}"
            );
            assert!(!output.contains("s3cret"), "{value}: the value is printed\n{output}");
        }
    }
}

#[test]
fn a_default_stands_in_for_a_variable() {
    let deployment = Deployment::new();
    let url = deployment.upstream("central").url();
    let deployment = deployment.with_url("central", &format!("${{{VARIABLE}:-{url}}}"));
    let gateway = deployment.start();
    assert_eq!(gateway.get(CENTRAL).status, 200);
    assert_eq!(deployment.upstream("central").requests().len(), 1);
}

#[test]
fn an_ambiguous_or_impossible_value_is_refused_with_its_place() {
    for (tables, key) in [
        ("[limits]\nhead_timeout = \"0s\"", "head_timeout"),
        ("[limits]\nhead_timeout = \"30\"", "head_timeout"),
        ("[limits]\nhead_timeout = 30", "head_timeout"),
        ("[limits]\nhead_timeout = \"-1s\"", "head_timeout"),
        ("[limits]\nbody = \"10\"", "body"),
        ("[limits]\nconnections = 0", "connections"),
        ("[limits]\nheaders = 100000", "headers"),
        ("[limits]\ntarget = \"1GiB\"", "target"),
        ("[limits]\nunknown_key = 1", "unknown_key"),
        ("[surprise]\nx = 1", "surprise"),
    ] {
        let deployment = Deployment::new().with_tables(tables);
        for ended in both_fail(&deployment, 1) {
            assert!(ended.stderr.contains(key), "{tables}: {}", ended.stderr);
        }
    }
}

#[test]
fn all_faults_of_a_file_are_reported_in_one_run() {
    let deployment = Deployment::new()
        .with_tables("[limits]\nhead_timeout = \"30\"\nbodies = 1")
        .with_url("central", "ftp://x")
        .with_url("workspace", &format!("${{{VARIABLE}}}"));
    for ended in both_fail(&deployment, 1) {
        for part in ["head_timeout", "bodies", "scheme", VARIABLE] {
            assert!(ended.stderr.contains(part), "{part} is not reported:\n{}", ended.stderr);
        }
    }
}

#[test]
fn families_and_upstream_tables_must_agree() {
    let url = Deployment::new().upstream("central").url();
    let extra = |name: &str| format!("[upstream.{name}]\nurl = '{url}'");
    for name in ["internal-only", "extention"] {
        for ended in both_fail(&Deployment::new().with_tables(&extra(name)), 1) {
            assert!(ended.stderr.contains(name), "{}", ended.stderr);
        }
    }
    let mut deployment = Deployment::new();
    deployment.forget_upstream("extension");
    for ended in both_fail(&deployment, 1) {
        assert!(ended.stderr.contains("extension"), "{}", ended.stderr);
    }
}

#[test]
fn a_public_readiness_path_must_not_be_the_contracts() {
    let deployment = Deployment::new().with_tables(&format!("[readiness]\nready = \"{CENTRAL}\""));
    for ended in both_fail(&deployment, 1) {
        assert!(ended.stderr.contains("central"), "{}", ended.stderr);
    }
}

#[test]
fn a_contract_that_claims_everything_by_mistake_is_refused() {
    for claim in ["", "api/v1/users", "/api//v1", "/api/../v1", "/api/v1/**/x"] {
        let deployment = Deployment::new().with_contract(&format!(
            "version = 1\n[[family]]\nname = \"central\"\nclaims = [\"{claim}\"]\n\
             [[family]]\nname = \"workspace\"\nclaims = [\"/w/**\"]\n\
             [[family]]\nname = \"extension\"\nclaims = [\"/e/**\"]\n"
        ));
        for subcommand in ["check", "run"] {
            let ended = run_to_end(&mut deployment.command(subcommand));
            assert!(
                matches!(ended.status.code(), Some(1 | 2)),
                "{claim:?} {subcommand}: {ended:?}"
            );
            assert!(ended.stderr.contains("contract.toml:"), "{claim:?}: {}", ended.stderr);
        }
    }
}

#[test]
fn what_cannot_be_read_exits_with_two() {
    let mut command = Command::new(BINARY);
    let ended = run_to_end(command.args(["check", "--config", "does-not-exist.toml"]));
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("does-not-exist.toml"));
    for arguments in [&["check", "--no-such-flag"][..], &["no-such-command"], &[]] {
        let ended = run_to_end(Command::new(BINARY).args(arguments));
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {ended:?}");
    }
}

#[test]
fn an_address_that_is_taken_ends_the_start_with_a_clear_text() {
    let taken = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
    let address = taken.local_addr().expect("its address");
    let deployment =
        Deployment::new().with_tables(&format!("[listen]\npublic = \"{address}\"\nadmin = \"127.0.0.1:0\""));
    let ended = run_to_end(&mut deployment.command("run"));
    assert!(matches!(ended.status.code(), Some(1 | 2)), "{ended:?}");
    assert!(ended.stderr.contains(&address.to_string()), "{}", ended.stderr);
}

#[test]
fn the_effective_configuration_shows_every_default() {
    let ended = run_to_end(&mut Deployment::new().command("config"));
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    for key in ["head_timeout", "connect_timeout", "in_flight", "trusted", "required"] {
        assert!(ended.stdout.contains(key), "{key} is not in\n{}", ended.stdout);
    }
}

#[test]
fn a_checked_file_is_reported_with_counts() {
    let ended = run_to_end(&mut Deployment::new().command("check"));
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    for word in ["central", "workspace", "extension"] {
        assert!(ended.stdout.contains(word), "{word} is not in\n{}", ended.stdout);
    }
    assert!(
        ended.stdout.bytes().any(|byte| byte.is_ascii_digit()),
        "no counts in\n{}",
        ended.stdout
    );
}

#[test]
fn an_online_check_probes_each_upstream_once_and_fails_when_one_is_not_ready() {
    let deployment = Deployment::new();
    let probe = format!("ready = \"{PROBE_TARGET}\"");
    let deployment = ["central", "extension"]
        .into_iter()
        .fold(deployment, |deployment, family| {
            deployment.with_only_upstream_keys(family, &probe)
        });
    let check = || run_to_end(deployment.command("check").arg("--online"));
    let ended = check();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    for line in [
        "online central: ready, 1 of 1 endpoint\n",
        "online extension: ready, 1 of 1 endpoint\n",
        "online workspace: not probed, 1 endpoint\n",
    ] {
        assert!(ended.stdout.contains(line), "{line} is not in\n{}", ended.stdout);
    }
    for (family, probes) in [("central", 1), ("extension", 1), ("workspace", 0)] {
        assert_eq!(deployment.upstream(family).probes(), probes, "{family}");
        assert!(deployment.upstream(family).requests().is_empty());
    }
    deployment
        .upstream("extension")
        .answer_probes(Answer::with("500 No", &[], ""));
    let ended = check();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let line = "online extension: not ready (status), 0 of 1 endpoint\n";
    assert!(ended.stdout.contains(line), "{line} is not in\n{}", ended.stdout);
    deployment.assert_names_no_upstream(ended.stdout.as_bytes());
}

#[test]
fn faults_of_form_and_of_meaning_come_in_one_run() {
    let deployment = Deployment::new()
        .with_tables("[limits]\nhead_timeout = \"30\"\nheaders = 100000\n[upstream.nobody]\nurl = 'http://h'")
        .with_upstream_keys("central", "affinity = \"param:nothing\"")
        .with_url("workspace", "ftp://x");
    for ended in both_fail(&deployment, 1) {
        for code in ["GW0105", "GW0201", "GW0203", "GW0221"] {
            assert!(ended.stderr.contains(code), "{code} is not reported:\n{}", ended.stderr);
        }
        let errors = ended.stderr.matches("error[").count();
        assert_eq!(errors, 5, "none that only the damage has made:\n{}", ended.stderr);
    }
}
