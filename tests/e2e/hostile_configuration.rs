//! Files that are doubled, huge, blank or half made, each at the start and at a reload: a clear refusal, in bounded time
//! and memory, and never a panic. What is in force stays in force.

use std::fs::{self, File};
use std::path::PathBuf;

use nix::sys::resource::{UsageWho, getrusage};

use crate::harness::deployment::Deployment;
use crate::harness::process::{Gateway, run_to_end};
use crate::harness::{CENTRAL, WORKSPACE};

/// A deployment that runs, and another one with the same upstreams to start from.
struct Scene {
    deployment: Deployment,
    gateway: Gateway,
    configuration: String,
    contract: String,
}

impl Scene {
    fn start() -> Self {
        let deployment = Deployment::new();
        let gateway = deployment.start();
        let read = |name: &str| fs::read_to_string(deployment.folder().join(name)).unwrap();
        Self {
            configuration: read("gateway.toml"),
            contract: read("contract.toml"),
            gateway,
            deployment,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.deployment.folder().join(name)
    }

    /// How many reloads were refused.
    fn refusals(&self) -> u64 {
        let metrics = self.gateway.admin_get("/metrics").text();
        let series = "gateway_reloads_total{result=\"refused\"} ";
        let counted = metrics.lines().find_map(|line| line.strip_prefix(series));
        counted.expect("the counter").parse().expect("a number")
    }

    /// Puts these files in place, and asserts that neither a start nor a reload takes them, each with all these words.
    #[track_caller]
    fn refuses(&self, configuration: &str, contract: &str, words: &[&str]) {
        fs::write(self.path("gateway.toml"), configuration).unwrap();
        fs::write(self.path("contract.toml"), contract).unwrap();
        self.is_refused(words);
    }

    #[track_caller]
    fn is_refused(&self, words: &[&str]) {
        let path = self.path("gateway.toml");
        let mut command = std::process::Command::new(crate::harness::process::BINARY);
        let ended = run_to_end(command.args(["run", "--config"]).arg(path));
        assert!(matches!(ended.status.code(), Some(1 | 2)), "{words:?}: {ended:?}");
        assert!(ended.stdout.is_empty(), "it did not listen: {}", ended.stdout);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        let before = self.refusals();
        assert_eq!(self.gateway.reload(), "refused", "{words:?}");
        let told = self.gateway.admin_get("/reload").text();
        for word in words {
            assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
            assert!(told.contains(word), "{word}: {told}");
        }
        assert_eq!(self.gateway.get(CENTRAL).status, 200);
        assert_eq!(self.gateway.get(WORKSPACE).status, 200);
        assert_eq!(self.refusals(), before + 1, "{words:?}");
        assert!(!self.gateway.all_output().contains("panicked"));
    }
}

#[test]
fn doubled_entries_are_refused_with_both_places_and_nothing_wins_silently() {
    let scene = Scene::start();
    let (configuration, contract) = (&scene.configuration, &scene.contract);
    // A family twice, and the same claim twice in one.
    let family = "[[family]]\nname = \"central\"\nclaims = [\"/elsewhere/**\"]\n";
    scene.refuses(
        configuration,
        &format!("{contract}\n{family}"),
        &["declared twice", "contract.toml:"],
    );
    let twice = contract.replace(
        "claims = [\"/api/internal/**\"",
        "claims = [\"/api/internal/**\", \"/api/internal/**\"",
    );
    assert_ne!(&twice, contract);
    scene.refuses(configuration, &twice, &["claimed twice", "contract.toml:"]);
    // A table and a key twice.
    let table = "[upstream.central]\nurl = 'http://127.0.0.1:1'\n";
    scene.refuses(
        &format!("{configuration}\n{table}"),
        contract,
        &["duplicate", "gateway.toml:"],
    );
    let key = configuration.replacen("url = ", "url = 'http://127.0.0.1:1'\nurl = ", 1);
    scene.refuses(&key, contract, &["duplicate", "gateway.toml:"]);
    // Every line twice.
    let twice = |text: &str| {
        text.lines()
            .flat_map(|line| [line, "\n", line, "\n"])
            .collect::<String>()
    };
    scene.refuses(&twice(configuration), &twice(contract), &["duplicate"]);
}

#[test]
fn a_path_that_is_anothers_but_for_its_trailing_slash_reaches_nobody() {
    let scene = Scene::start();
    let families: String = [("central", "/a"), ("workspace", "/a/"), ("extension", "/b/**")]
        .iter()
        .map(|(name, claim)| format!("[[family]]\nname = \"{name}\"\nclaims = [\"{claim}\"]\n"))
        .collect();
    fs::write(scene.path("contract.toml"), format!("version = 1\n{families}")).unwrap();
    assert_eq!(scene.gateway.reload(), "applied");
    assert_eq!(scene.gateway.get("/a").status, 200);
    // Many a server takes it for the other one's.
    scene.gateway.get("/a/").assert_refusal(400, "ambiguous_path");
    assert_eq!(scene.gateway.get("/b").status, 200);
}

#[test]
fn many_entries_are_taken_and_too_much_of_anything_is_refused_in_bounded_memory() {
    let scene = Scene::start();
    let (configuration, contract) = (&scene.configuration, &scene.contract);
    let claims: Vec<String> = (0..10_000).map(|n| format!("\"/many/{n}/{{x}}/**\"")).collect();
    let many = contract.replace(
        "claims = [\"/api/internal/**\"",
        &format!("claims = [{}, \"/api/internal/**\"", claims.join(",\n")),
    );
    fs::write(scene.path("contract.toml"), many).unwrap();
    assert_eq!(scene.gateway.reload(), "applied");
    scene.gateway.get("/many/9999/y").assert_refusal(404, "not_found");
    assert_eq!(scene.gateway.get(CENTRAL).status, 200);

    let mebibyte = "x".repeat(1 << 20);
    let long = contract.replace("\"/internal/**\"", &format!("\"/{mebibyte}\""));
    assert_ne!(&long, contract);
    scene.refuses(configuration, &long, &["at most 4096 bytes"]);
    let long = format!("{mebibyte} = 1\n{configuration}");
    scene.refuses(&long, contract, &["unknown key"]);
    let long = configuration.replacen("url = '", &format!("url = '{mebibyte}"), 1);
    scene.refuses(&long, contract, &["URL"]);
    for nested in ["[".repeat(100_000), "{a=".repeat(100_000)] {
        scene.refuses(
            &format!("x = {nested}\n{configuration}"),
            contract,
            &["gateway.toml:1:"],
        );
        scene.refuses(
            configuration,
            &format!("x = {nested}\n{contract}"),
            &["contract.toml:1:"],
        );
    }
    let values = format!("x = [{}]\n", "1,".repeat(2_100_000));
    scene.refuses(&format!("{values}{configuration}"), contract, &["values"]);
    // A file of a gibibyte, which takes no room on the disk.
    for name in ["gateway.toml", "contract.toml"] {
        fs::write(scene.path("gateway.toml"), configuration).unwrap();
        fs::write(scene.path("contract.toml"), contract).unwrap();
        File::create(scene.path(name)).unwrap().set_len(1 << 30).unwrap();
        scene.is_refused(&["larger than 64 MiB"]);
    }
    // The most that one of the processes took, the tests' own gateway apart.
    let most = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss() / 1024;
    assert!(most < 600, "{most} MiB");
}

#[test]
fn blank_unset_and_impossible_values_are_refused_and_never_printed() {
    let scene = Scene::start();
    let (configuration, contract) = (&scene.configuration, &scene.contract);
    let here = format!("'{}'", scene.deployment.upstream("workspace").url());
    for (value, word) in [
        ("'${E2E_NOT_SET}'", "E2E_NOT_SET"),
        ("'${E2E_NOT_SET:-}'", "E2E_NOT_SET"),
        ("''", "empty"),
        ("'  '", "empty"),
        ("'http://'", "no host"),
        ("'http://:8080'", "no host"),
        ("'ftp://s3cret'", "http"),
        ("'s3cret:8080'", "scheme"),
        ("'http://s3cret/base/'", "path"),
        ("'http://u:s3cret@h'", "credentials"),
        ("\"http://s3cret:80\\n\"", "line break"),
    ] {
        let text = configuration.replace(&here, value);
        assert_ne!(&text, configuration);
        scene.refuses(&text, contract, &[word]);
        let told = scene.gateway.admin_get("/reload").text();
        assert!(
            !told.contains("s3cret") && !scene.gateway.all_output().contains("s3cret"),
            "{told}"
        );
    }
    for (line, word) in [
        ("connect_timeout = \"0s\"", "at least 1ms"),
        ("connect_timeout = \"30\"", "no unit"),
        ("connect_timeout = 30", "no unit"),
        ("connect_timeout = \"-1s\"", "no sign"),
    ] {
        let text = configuration.replacen("ready = false", &format!("ready = false\n{line}"), 1);
        scene.refuses(&text, contract, &[word]);
    }
    for (claim, word) in [("", "empty"), ("api/v1/users", "`/`"), ("/a//b", "contract.toml:")] {
        let text = contract.replace("\"/internal/**\"", &format!("\"{claim}\""));
        scene.refuses(configuration, &text, &[word]);
    }
}
