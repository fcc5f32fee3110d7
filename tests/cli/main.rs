//! The command line as people and scripts see it: exit code, standard output, standard error.
//!
//! Each test runs the real binary in a folder of its own with an empty environment, so that the outputs, which
//! are kept in `snapshots/`, hold no path of a machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

mod refused_values;

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

const CONTRACT: &str = r#"version = 1

[[family]]
name = "internal-only"
serve = "never"
claims = ["/api/internal/**"]

[[family]]
name = "extension"
claims = ["/ext/**"]

[[family]]
name = "workspace"
claims = ["/ws/**"]

[profile.server]
owns = ["extension", "workspace"]
routes = ["server.toml"]
"#;

const MANIFEST: &str = r#"[[route]]
method = "GET"
path = "/ext/{name}"

[[route]]
method = "GET"
path = "/ws/{name}"
"#;

const SOUND: &str = r#"contract = "contract.toml"

[listen]
public = "127.0.0.1:0"
admin = "127.0.0.1:0"

[upstream.extension]
url = "${EXTENSION_URL}"

[upstream.workspace]
url = "http://workspace:3001"
required = false
ready = { path = "/healthz", interval = "10s" }
"#;

/// A folder with a contract and this `gateway.toml`.
fn folder(configuration: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in [
        ("contract.toml", CONTRACT),
        ("server.toml", MANIFEST),
        ("gateway.toml", configuration),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn gateway(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gateway"))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// What a snapshot holds.
fn shown(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let (code, stdout, stderr) = gateway(folder, arguments, environment);
    let code = code.map_or("none".to_owned(), |code| code.to_string());
    let stdout = without_digest(&stdout);
    format!("exit code: {code}\n----- stdout -----\n{stdout}----- stderr -----\n{stderr}")
}

/// The digest is the library's to define, and its tests pin it.
fn without_digest(output: &str) -> String {
    output
        .split_inclusive('\n')
        .map(|line| match line.split_once("sha256:") {
            Some((before, _)) => format!("{before}sha256:...\n"),
            None => line.to_owned(),
        })
        .collect()
}

const URL: (&str, &str) = ("EXTENSION_URL", "http://extension:3002");

#[test]
fn a_sound_configuration_is_reported_with_counts() {
    insta::assert_snapshot!(shown(folder(SOUND).path(), &["check"], &[URL]));
}

#[test]
fn the_configuration_file_is_named_by_flag_or_variable() {
    let folder = folder(SOUND);
    fs::rename(folder.path().join("gateway.toml"), folder.path().join("other.toml")).unwrap();
    let by_flag = gateway(folder.path(), &["check", "--config", "other.toml"], &[URL]);
    let by_variable = gateway(folder.path(), &["check"], &[URL, ("GATEWAY_CONFIG", "other.toml")]);
    assert_eq!(by_flag, by_variable);
    assert_eq!(by_flag.0, Some(0), "{by_flag:?}");
}

#[test]
fn all_faults_come_in_one_run() {
    let faulty = r#"contract = "contract.toml"
thread = 2

[listen]
public = "localhost:8080"
admin = "127.0.0.1:9901"

[limits]
head_timeout = 30
body = "10MB"

[upstream.extension]
url = "${EXTENSION_URL}"
ready = { pth = "/readyz" }

[upstream.workspace]
url = "http://user:s3cret@workspace:3001"
idle_timeout = "0s"
ready = true
"#;
    insta::assert_snapshot!(shown(folder(faulty).path(), &["check"], &[]));
}

#[test]
fn a_configuration_that_does_not_fit_its_contract_is_refused() {
    let misfit = r#"contract = "contract.toml"

[listen]
public = "0.0.0.0:8080"
admin = "0.0.0.0:8080"

[readiness]
ready = "/ws/readyz"

[limits]
headers = 1000

[upstream.extention]
url = "http://extension:3002"

[upstream.internal-only]
url = "http://nobody:1"

[upstream.workspace]
url = "http://workspace:3001"
ready = "healthz"
"#;
    insta::assert_snapshot!(shown(folder(misfit).path(), &["check"], &[]));
}

#[test]
fn a_warning_leaves_the_exit_code_alone() {
    let doubtful = format!(
        "{SOUND}total_timeout = \"3s\"\nconnect_timeout = \"4s\"\nresponse_timeout = \"2s\"\nbody_timeout = \"2s\"\n"
    );
    insta::assert_snapshot!(shown(folder(&doubtful).path(), &["check"], &[URL]));
}

#[test]
fn a_file_that_cannot_be_read_leaves_nothing_decided() {
    let folder = folder(SOUND);
    fs::remove_file(folder.path().join("contract.toml")).unwrap();
    insta::assert_snapshot!("no_contract", shown(folder.path(), &["check"], &[URL]));
    fs::remove_file(folder.path().join("gateway.toml")).unwrap();
    insta::assert_snapshot!("no_configuration", shown(folder.path(), &["check"], &[URL]));
}

#[test]
fn certificates_that_cannot_be_loaded_are_a_finding_and_no_panic() {
    let folder = folder(SOUND);
    fs::write(
        folder.path().join("broken.pem"),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    let environment = [URL, ("SSL_CERT_FILE", "broken.pem")];
    insta::assert_snapshot!(shown(folder.path(), &["run"], &environment));
    fs::write(folder.path().join("empty.pem"), "").unwrap();
    let tls = [
        ("EXTENSION_URL", "https://extension:3002"),
        ("SSL_CERT_FILE", "empty.pem"),
    ];
    let (code, _, stderr) = gateway(folder.path(), &["check"], &tls);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("the system trusts no authority"), "{stderr}");
}

#[test]
fn the_effective_configuration_names_every_origin() {
    let folder = folder(SOUND);
    insta::assert_snapshot!("config_as_toml", shown(folder.path(), &["config"], &[URL]));
    insta::assert_snapshot!(
        "config_as_json",
        shown(folder.path(), &["config", "--format", "json"], &[URL])
    );
}

#[test]
fn the_printed_configuration_is_accepted_again() {
    let first = folder(SOUND);
    let (_, printed, _) = gateway(first.path(), &["config"], &[URL]);
    let again = folder(&printed);
    let (code, _, stderr) = gateway(again.path(), &["check"], &[]);
    assert_eq!(code, Some(0), "{stderr}");
}

#[test]
fn a_flag_that_does_not_exist_is_an_error_and_help_is_not() {
    let folder = folder(SOUND);
    insta::assert_snapshot!("bad_flag", shown(folder.path(), &["check", "--confg", "x"], &[]));
    insta::assert_snapshot!("help", shown(folder.path(), &["--help"], &[]));
    insta::assert_snapshot!("help_of_check", shown(folder.path(), &["check", "--help"], &[]));
    let (code, stdout, _) = gateway(folder.path(), &["--version"], &[]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(0), concat!("gateway ", env!("CARGO_PKG_VERSION"), "\n"))
    );
    assert_eq!(gateway(folder.path(), &[], &[]).0, Some(2));
}

#[test]
fn a_gateway_that_does_not_answer_is_not_ready() {
    let folder = folder(SOUND);
    // Port 1 of loopback: reserved, and nothing listens there.
    let url = "http://127.0.0.1:1";
    insta::assert_snapshot!("ready_refused", shown(folder.path(), &["ready", "--url", url], &[]));
    insta::assert_snapshot!(
        "ready_bad_url",
        shown(folder.path(), &["ready", "--url", "127.0.0.1:1"], &[])
    );
}

#[test]
fn completions_and_manual_pages_name_every_command() {
    let folder = folder(SOUND);
    let (_, help, _) = gateway(folder.path(), &["--help"], &[]);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.contains(&"run") && commands.len() > 6, "{commands:?}");
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, _) = gateway(folder.path(), &["completions", shell], &[]);
        assert_eq!(code, Some(0));
        for command in &commands {
            assert!(script.contains(command), "{shell} lacks {command}");
        }
    }
    let (code, page, _) = gateway(folder.path(), &["man"], &[]);
    assert_eq!(code, Some(0));
    assert!(page.contains(".TH gateway 1"), "{page}");
    let (code, ..) = gateway(folder.path(), &["man", "--folder", "."], &[]);
    assert_eq!(code, Some(0));
    for command in commands.iter().filter(|command| **command != "help") {
        let name = format!("gateway-{command}.1");
        assert!(folder.path().join(&name).exists(), "{name}");
    }
}
