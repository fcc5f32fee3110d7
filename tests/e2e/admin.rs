//! The admin listener: who may ask it, what it tells, and that nothing but reading is possible.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::client::Response;
use crate::harness::deployment::Deployment;
use crate::harness::process::{BINARY, Gateway, run_to_end};
use crate::harness::{CENTRAL, EXTENSION, INTERNAL, PATIENCE, UNKNOWN};

const TOKEN: &str = "kJ8vQ2mX5tR7wZ1yB4nC6dF9";

/// Everything beside liveness and readiness.
const PAGES: [&str; 8] = [
    "/",
    "/status.css",
    "/status.js",
    "/status.json",
    "/metrics",
    "/contract",
    "/config",
    "/explain?path=/x",
];

fn guarded() -> (Deployment, Gateway) {
    let deployment = Deployment::new().with_tables("[admin]\ntoken = \"file:admin-token\"\n");
    fs::write(deployment.folder().join("admin-token"), format!("{TOKEN}\n")).expect("a token");
    let gateway = deployment.start();
    (deployment, gateway)
}

fn with(gateway: &Gateway, target: &str, authorization: &str) -> Response {
    let host = gateway.admin().to_string();
    gateway.admin_ask("GET", target, &host, &[("Authorization", authorization)])
}

#[test]
fn every_page_is_served_and_none_can_be_written_to() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let host = gateway.admin().to_string();
    for target in PAGES {
        let response = gateway.admin_get(target);
        assert_eq!(response.status, 200, "{target}");
        assert_eq!(response.value("cache-control"), "no-store", "{target}");
        assert_eq!(response.value("x-content-type-options"), "nosniff", "{target}");
        assert!(
            response
                .value("content-security-policy")
                .starts_with("default-src 'none';"),
            "{target}"
        );
        assert!(response.values("set-cookie").is_empty(), "{target}");
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let response = gateway.admin_ask(method, target, &host, &[("Content-Length", "0")]);
            response.assert_refusal(405, "method_not_allowed");
            assert_eq!(response.value("allow"), "GET, HEAD");
        }
    }
    gateway.admin_get("/nothing").assert_refusal(404, "not_found");
    assert_eq!(deployment.traffic().requests, 0, "no page asks an upstream");
}

#[test]
fn a_page_that_had_its_name_resolved_to_this_machine_reads_nothing() {
    let deployment = Deployment::new().with_tables("[admin]\nhosts = [\"gateway.internal\"]\n");
    let gateway = deployment.start();
    let port = gateway.admin().port();
    for target in PAGES {
        for host in [
            "evil.example",
            &format!("evil.example:{port}"),
            "127.0.0.1.evil.example",
        ] {
            let response = gateway.admin_ask("GET", target, host, &[]);
            response.assert_refusal(421, "misdirected_request");
            assert!(!response.text().contains("central"), "{}", response.text());
        }
    }
    // Three names each, and nothing that is told to everybody.
    let refused = (PAGES.len() * 3) as f64;
    assert_eq!(refusals(&gateway.admin_get("/metrics").text()), [refused, 0.0]);
    for host in [&format!("localhost:{port}"), "127.0.0.1", "gateway.internal", "[::1]:1"] {
        assert_eq!(
            gateway.admin_ask("GET", "/status.json", host, &[]).status,
            200,
            "{host}"
        );
    }
    // A probe may use whatever name it likes: it is told closed words alone.
    for target in ["/livez", "/readyz", "/readyz/central"] {
        assert_eq!(
            gateway.admin_ask("GET", target, "evil.example", &[]).status,
            200,
            "{target}"
        );
    }
}

/// Those that were counted for their Host, and for want of a token.
fn refusals(metrics: &str) -> [f64; 2] {
    ["misdirected_request", "unauthorized"].map(|reason| {
        let series = format!("gateway_admin_refusals_total{{reason=\"{reason}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&series));
        line.expect("a counter").parse().expect("a number")
    })
}

#[test]
fn a_token_is_asked_of_everybody_and_probes_need_none() {
    let (deployment, gateway) = guarded();
    for target in PAGES.into_iter().chain(["/nothing"]) {
        let wrong = format!("Bearer {TOKEN}x");
        for response in [
            gateway.admin_get(target),
            with(&gateway, target, &wrong),
            with(&gateway, target, "Bearer"),
        ] {
            response.assert_refusal(401, "unauthorized");
            let challenges = response.values("www-authenticate");
            assert!(
                challenges.iter().any(|one| one.starts_with("Bearer ")),
                "{challenges:?}"
            );
        }
    }
    let metrics = with(&gateway, "/metrics", &format!("Bearer {TOKEN}")).text();
    let asked = (PAGES.len() + 1) * 3;
    assert_eq!(refusals(&metrics), [0.0, asked as f64]);
    for target in PAGES {
        assert_eq!(
            with(&gateway, target, &format!("Bearer {TOKEN}")).status,
            200,
            "{target}"
        );
    }
    for target in ["/livez", "/readyz", "/readyz?verbose", "/readyz/extension"] {
        assert_eq!(gateway.admin_get(target).status, 200, "{target}");
    }
    let url = format!("http://{}", gateway.admin());
    let ended = run_to_end(Command::new(BINARY).args(["ready", "--url", &url]));
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let shown = with(&gateway, "/config", &format!("Bearer {TOKEN}")).text();
    assert!(shown.contains("file:admin-token"), "{shown}");
    for output in [shown, gateway.all_output()] {
        assert!(!output.contains(TOKEN), "the token in\n{output}");
    }
    drop(deployment);
}

#[test]
fn a_new_token_needs_no_restart() {
    let (deployment, gateway) = guarded();
    let new = "another-token-of-24-bytes";
    assert_eq!(with(&gateway, "/config", &format!("Bearer {TOKEN}")).status, 200);
    fs::write(deployment.folder().join("admin-token"), new).expect("a token");
    let end = Instant::now() + PATIENCE;
    while with(&gateway, "/config", &format!("Bearer {new}")).status != 200 {
        assert!(Instant::now() < end, "the new token is not taken");
        std::thread::sleep(Duration::from_millis(50));
    }
    with(&gateway, "/config", &format!("Bearer {TOKEN}")).assert_refusal(401, "unauthorized");
}

/// Waits for the line that announces a Unix socket. The admin address is of no use then.
fn announced(lines: &[String]) -> Option<(SocketAddr, SocketAddr)> {
    let records = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut public = records.filter_map(|record| {
        record["admin"].as_str()?.strip_prefix("unix:")?;
        record["public"].as_str()?.parse().ok()
    });
    public.next().map(|address| (address, address))
}

fn ask_socket(path: &Path, target: &str) -> String {
    let mut socket = UnixStream::connect(path).expect("a socket that listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    write!(
        socket,
        "GET {target} HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n"
    )
    .expect("it is taken");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_unix_socket_serves_its_owner_and_outlives_no_gateway() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("admin.sock");
    let deployment = Deployment::new().with_tables(&format!(
        "[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"unix:{}\"\n",
        path.display()
    ));
    let gateway = Gateway::start(deployment.command("run"), announced);
    let mode = fs::metadata(&path).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for target in PAGES.into_iter().chain(["/readyz"]) {
        let answer = ask_socket(&path, target);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{target}: {answer}");
    }
    assert!(ask_socket(&path, "/status.json").contains("\"endpoints\":["));
    let url = format!("unix:{}", path.display());
    let ready = |url: &str| run_to_end(Command::new(BINARY).args(["ready", "--url", url]));
    assert_eq!(ready(&url).status.code(), Some(0));

    // Another gateway does not take it away from one that runs, and replaces what one that is gone has left.
    let second = run_to_end(&mut deployment.command("run"));
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    assert!(
        second.stderr.contains("a process listens on that socket"),
        "{}",
        second.stderr
    );
    drop(gateway);
    assert_eq!(ready(&url).status.code(), Some(1));
    let third = Gateway::start(deployment.command("run"), announced);
    assert!(ask_socket(&path, "/livez").starts_with("HTTP/1.1 200 "));
    drop(third);

    fs::remove_file(&path).expect("the socket is removed");
    fs::write(&path, "precious").expect("a file");
    let fourth = run_to_end(&mut deployment.command("run"));
    assert_eq!(fourth.status.code(), Some(1), "{fourth:?}");
    assert_eq!(fs::read_to_string(&path).expect("the file"), "precious");
}

#[test]
fn a_unix_socket_is_handed_to_the_successor_and_stays_where_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("admin.sock");
    let deployment = Deployment::new().with_tables(&format!(
        "[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"unix:{}\"\n[drain]\ndelay = \"100ms\"\n",
        path.display()
    ));
    let mut gateway = Gateway::start(deployment.command("run"), announced);
    let socket = || fs::metadata(&path).map(|file| (file.ino(), file.mode() & 0o777));
    let first = socket().expect("the socket");
    for _ in 0..2 {
        // The process before has ended by then, and nobody else could answer.
        gateway.upgrade();
        assert!(ask_socket(&path, "/readyz").starts_with("HTTP/1.1 200 "));
        assert_eq!(socket().expect("the socket"), first);
    }
}

#[test]
fn an_admin_listener_open_to_others_needs_a_token_or_a_word() {
    let listen = "[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"0.0.0.0:0\"\n";
    for (tables, code, words) in [
        (listen.to_owned(), 1, "GW0210"),
        (format!("{listen}expose_admin = true\n"), 0, "0 errors"),
        (
            format!("{listen}[admin]\ntoken = \"file:admin-token\"\n"),
            0,
            "0 errors",
        ),
        (format!("{listen}[admin]\ntoken = \"file:none\"\n"), 1, "GW0224"),
        (format!("{listen}[admin]\ntoken = \"file:short\"\n"), 1, "GW0224"),
        (format!("{listen}[admin]\ntoken = \"{TOKEN}\"\n"), 1, "GW0105"),
        (format!("{listen}[admin]\nsocket_mode = \"9999\"\n"), 1, "GW0105"),
    ] {
        let deployment = Deployment::new().with_tables(&tables);
        fs::write(deployment.folder().join("admin-token"), TOKEN).expect("a token");
        fs::write(deployment.folder().join("short"), "short").expect("a token");
        let ended = run_to_end(&mut deployment.command("check"));
        let output = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{tables}\n{output}");
        assert!(output.contains(words), "{words} not in\n{output}");
        if words == "GW0210" {
            assert!(
                output.contains("admin.token") && output.contains("gateway.toml:"),
                "{output}"
            );
        }
    }
}

#[test]
fn explain_answers_as_the_gateway_does() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let explain = |target: &str| {
        let encoded: String = target
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
                other => format!("%{other:02X}"),
            })
            .collect();
        gateway.admin_get(&format!("/explain?path={encoded}")).json()
    };
    for (target, owner, family) in [
        (CENTRAL, "central", Value::from("central")),
        (EXTENSION, "extension", "extension".into()),
        (INTERNAL, "never", "internal-only".into()),
        (UNKNOWN, "unknown", Value::Null),
        (
            "/api/v1/workspaces/w1/agents/a1/runtime%2Fext",
            "ambiguous",
            "workspace".into(),
        ),
        ("/api/v1/users/%zz", "invalid", Value::Null),
        ("/api/v1/users/a?b=%2F", "central", "central".into()),
    ] {
        let told = explain(target);
        assert_eq!(
            (&told["owner"], &told["family"]),
            (&Value::from(owner), &family),
            "{told}"
        );
        assert_eq!(told["target"], target);
        let response = gateway.get(target);
        match told["code"].as_str() {
            Some(code) => {
                response.assert_refusal(
                    u16::try_from(told["status"].as_u64().expect("a status")).expect("a status"),
                    code,
                );
                assert_eq!(told["forwarded"], false);
            }
            None => assert_eq!(
                (response.status, &told["forwarded"]),
                (200, &Value::Bool(true)),
                "{told}"
            ),
        }
    }
    let told = explain("/api/v1/workspaces/w1/agents/a1/runtime%2Fext");
    assert_eq!(told["reading"]["path"], EXTENSION, "{told}");
    gateway.admin_get("/explain").assert_refusal(400, "invalid_target");
}

#[test]
fn the_status_tells_families_endpoints_and_rates() {
    let mut deployment = Deployment::probed();
    let gateway = deployment.start();
    deployment.stop_upstream("workspace");
    let end = Instant::now() + PATIENCE;
    let family = |status: &Value, name: &str| {
        let families = status["families"].as_array().expect("families").clone();
        families
            .into_iter()
            .find(|family| family["family"] == name)
            .expect("a family")
    };
    let status = loop {
        let status = gateway.admin_get("/status.json").json();
        let [central, workspace] = ["central", "workspace"].map(|name| family(&status, name));
        if central["status"] == "ready" && workspace["reason"] == "refused" {
            break status;
        }
        assert!(Instant::now() < end, "{status:#}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status["status"], "not_ready");
    assert_eq!(status["showsEndpoints"], true);
    let names: Vec<&str> = status["families"]
        .as_array()
        .expect("families")
        .iter()
        .filter_map(|f| f["family"].as_str())
        .collect();
    assert_eq!(names, ["internal-only", "extension", "central", "workspace"]);
    assert_eq!(family(&status, "internal-only")["status"], "never");
    let central = family(&status, "central");
    assert_eq!(
        (&central["endpointsReady"], &central["required"]),
        (&1.into(), &true.into()),
        "{central}"
    );
    let address = deployment.upstream("central").url();
    assert_eq!(
        format!(
            "http://{}",
            central["endpoints"][0]["address"].as_str().expect("an address")
        ),
        address
    );
    let workspace = family(&status, "workspace");
    assert_eq!(workspace["endpoints"][0]["reason"], "refused", "{workspace}");

    // A sample is taken every five seconds: requests that come now are in one of the next.
    for _ in 0..20 {
        assert_eq!(gateway.get(CENTRAL).status, 200);
    }
    let end = Instant::now() + PATIENCE;
    loop {
        let status = gateway.admin_get("/status.json").json();
        let central = family(&status, "central");
        let rates = central["requestsPerSecond"].as_array().expect("rates");
        if rates.iter().filter_map(Value::as_f64).sum::<f64>() > 0.0 {
            assert!(rates.len() <= status["steps"].as_u64().expect("a bound") as usize);
            break;
        }
        assert!(Instant::now() < end, "no request in {status:#}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn the_page_needs_nothing_but_the_listener() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let page = gateway.admin_get("/").text();
    let all = format!(
        "{page}{}{}",
        gateway.admin_get("/status.css").text(),
        gateway.admin_get("/status.js").text()
    );
    for foreign in [
        "https:",
        "//cdn",
        "@import",
        "url(",
        "innerHTML",
        "eval(",
        "document.write",
        "onclick=",
        "style=\"",
    ] {
        assert!(!all.contains(foreign), "{foreign} in the page");
    }
    let elsewhere: Vec<&str> = all
        .split("http:")
        .skip(1)
        .filter(|rest| !rest.starts_with("//www.w3.org/"))
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}
