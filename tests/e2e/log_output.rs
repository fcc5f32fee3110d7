//! Where the log goes: one record for each request whatever it holds, files that others rename, and readers that do not
//! read.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::harness::client::{Client, request_bytes};
use crate::harness::deployment::Deployment;
use crate::harness::process::addresses_in_log;
use crate::harness::{CENTRAL, PATIENCE, UNKNOWN};

#[test]
fn forged_and_oversized_requests_leave_one_record_each_and_show_their_raw_path() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let long = format!("/{}", "p".repeat(15_000));
    let huge = format!("/{}", "q".repeat(60 * 1024));
    let get = |target: &str| request_bytes("GET", target, &[], b"");
    let with = |name: &str, value: &str| request_bytes("GET", CENTRAL, &[(name, value)], b"");
    let cut = |target: &str| format!("{}…", &target[..512]);
    let cases: Vec<(Vec<u8>, String)> = vec![
        (
            get("/%0d%0a%7b%22family%22%3a%22central%22%7d"),
            "/%0d%0a%7b%22family%22%3a%22central%22%7d".to_owned(),
        ),
        (get("/%1b%5b2J"), "/%1b%5b2J".to_owned()),
        (get("/%e2%80%a8"), "/%e2%80%a8".to_owned()),
        (get("/it's"), "/it's".to_owned()),
        (
            b"GET /\x80\xff\x1b[2J\x00 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            "/\\x80\\xff\\x1b[2J\\x00".to_owned(),
        ),
        (with("User-Agent", "a\" 200 \"b"), CENTRAL.to_owned()),
        (with("X-Request-Id", &"i".repeat(64 * 1024)), CENTRAL.to_owned()),
        (with("X-Request-Id", "a\tb"), CENTRAL.to_owned()),
        (
            format!("GET {CENTRAL} HTTP/1.1\r\nHost: a\"b\r\n\r\n").into_bytes(),
            CENTRAL.to_owned(),
        ),
        (get(&long), cut(&long)),
        (get(&huge), cut(&huge)),
    ];
    let count = cases.len();
    for (index, (bytes, _)) in cases.iter().enumerate() {
        let mut client = gateway.client();
        let _ = client.send_what_is_taken(bytes);
        let _ = client.try_response();
        gateway.wait_for_output("its record", |lines| {
            let records = lines.iter().filter(|line| line.contains("\"log\":\"access\"")).count();
            (records > index).then_some(())
        });
    }
    let last = gateway.get(UNKNOWN);
    gateway.access_record(last.value("x-request-id"));
    let records = gateway.access_records();
    assert_eq!(records.len(), count + 1, "one record each: {records:#?}");
    for (record, (_, shown)) in records.iter().zip(&cases) {
        assert_eq!(record["target"], shown.as_str(), "{record}");
        let id = record["requestId"].as_str().unwrap();
        assert!(
            id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{id}"
        );
    }
    for line in gateway.stdout() {
        assert!(line.len() < 2_000, "{line}");
    }
}

#[test]
fn a_record_tells_where_the_time_went_and_which_trace_it_is() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let answer = gateway.client().request("GET", CENTRAL, &[("traceparent", parent)]);
    let record = gateway.access_record(answer.value("x-request-id"));
    assert_eq!(record["traceId"], "0af7651916cd43dd8448eb211c80319c", "{record}");
    assert_eq!(record["template"], "/api/v1/users/**", "{record}");
    assert_eq!(record["attempts"], 1);
    assert_eq!(record["protocol"], "HTTP/1.1");
    let time = |name: &str| record[name].as_f64().unwrap_or_else(|| panic!("no {name} in {record}"));
    assert!(time("upstreamMs") > 0.0 && time("gatewayMs") > 0.0, "{record}");
    assert!(time("durationMs") >= time("upstreamMs"), "{record}");
    assert!(record.get("upstream").is_none(), "{record}");
    let answer = gateway.get(UNKNOWN);
    let record = gateway.access_record(answer.value("x-request-id"));
    assert_eq!(record["attempts"], 0, "{record}");
    assert!(
        record.get("upstreamMs").is_none() && record["gatewayMs"].is_number(),
        "{record}"
    );
}

#[test]
fn an_endpoints_address_is_recorded_where_that_is_asked_for() {
    let deployment = Deployment::new().with_tables("[log]\nupstream = true");
    let gateway = deployment.start();
    let answer = gateway.get(CENTRAL);
    let record = gateway.access_record(answer.value("x-request-id"));
    assert_eq!(record["upstream"], deployment.upstream("central").address().to_string());
}

#[test]
fn a_file_that_was_renamed_is_begun_anew_and_no_record_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.log");
    let deployment = Deployment::new().with_tables(&format!("[log]\nfile = {path:?}"));
    let mut child = deployment
        .command("run")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let lines = |path: &std::path::Path| -> Vec<String> {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    let wait = |what: &str, found: &dyn Fn() -> bool| {
        let deadline = Instant::now() + PATIENCE;
        while !found() {
            assert!(Instant::now() < deadline, "waited for {what}: {:?}", lines(&path));
            thread::park_timeout(Duration::from_millis(5));
        }
    };
    wait("the addresses", &|| addresses_in_log(&lines(&path)).is_some());
    let (public, _) = addresses_in_log(&lines(&path)).unwrap();
    let mut ids = Vec::new();
    let mut client = Client::connect(public);
    let mut ask = |count| {
        for _ in 0..count {
            ids.push(client.request("GET", UNKNOWN, &[]).value("x-request-id").to_owned());
        }
        ids.last().unwrap().clone()
    };
    let first = ask(20);
    wait("the first records", &|| {
        fs::read_to_string(&path).unwrap().contains(&first)
    });
    let rotated = folder.path().join("gateway.log.1");
    fs::rename(&path, &rotated).unwrap();
    let second = ask(20);
    wait("records in the new file", &|| {
        fs::read_to_string(&path).is_ok_and(|text| text.contains(&second))
    });
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
    let all = fs::read_to_string(&rotated).unwrap() + &fs::read_to_string(&path).unwrap();
    for id in &ids {
        assert_eq!(all.matches(id.as_str()).count(), 1, "{id}");
    }
}

#[test]
fn a_log_that_cannot_be_opened_is_said_before_anything_is_served() {
    let deployment = Deployment::new().with_tables("[log]\nfile = \"/nonexistent/gateway.log\"");
    let ended = crate::harness::process::run_to_end(&mut deployment.command("run"));
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        ended.stderr.contains("cannot open the file of `log.file`"),
        "{}",
        ended.stderr
    );
}

/// A reader that stops reading holds up no request and no stop; what it does not take is counted.
#[test]
fn a_reader_that_does_not_read_holds_nothing_up() {
    let deployment = Deployment::new();
    let mut child = deployment
        .command("run")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    let (public, admin) = loop {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "{lines:?}");
        lines.push(line);
        if let Some(found) = addresses_in_log(&lines) {
            break found;
        }
    };
    // From here on nobody reads: the pipe fills, then what the gateway lets wait, then lines are dropped.
    let target = format!("/{}", "x".repeat(600));
    let mut dropped = 0.0;
    let deadline = Instant::now() + 3 * PATIENCE;
    let mut client = Client::connect(public);
    while dropped < 100.0 {
        assert!(Instant::now() < deadline, "{dropped} lines dropped");
        for _ in 0..500 {
            client.request("GET", &target, &[]).assert_refusal(404, "not_found");
        }
        let mut scraper = Client::connect(admin);
        scraper.send(format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n\r\n"));
        let text = scraper.response().text();
        let series = "gateway_telemetry_dropped_total{signal=\"log\"} ";
        let value = text.lines().find_map(|line| line.strip_prefix(series));
        dropped = value
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("{text}"));
    }
    assert_eq!(client.request("GET", CENTRAL, &[]).status, 200);
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "the gateway does not end");
        thread::park_timeout(Duration::from_millis(5));
    }
    // What was written is whole.
    let whole: Vec<String> = output.lines().map_while(Result::ok).collect();
    for line in whole.iter().take(whole.len().saturating_sub(1)) {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
}
