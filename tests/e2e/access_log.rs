//! The access log: one record for each request, one line for each record, and no secret in it.

use serde_json::Value;

use crate::harness::client::request_bytes;
use crate::harness::deployment::Deployment;
use crate::harness::{CENTRAL, EXTENSION, INTERNAL, UNKNOWN, WORKSPACE};

#[test]
fn every_request_leaves_one_record() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let mut expected = Vec::new();
    for (target, family, status) in [
        (CENTRAL, Some("central"), 200),
        (WORKSPACE, Some("workspace"), 200),
        (EXTENSION, Some("extension"), 200),
        (UNKNOWN, None, 404),
        (INTERNAL, None, 404),
    ] {
        let response = gateway.get(target);
        let id = response.value("x-request-id").to_owned();
        let record = gateway.access_record(&id);
        assert_eq!(record["status"], status, "{record}");
        assert_eq!(record["method"], "GET", "{record}");
        if let Some(family) = family {
            assert_eq!(record["family"], family, "{record}");
        }
        if status == 404 {
            assert_eq!(record["refusal"], "not_found", "{record}");
        }
        assert!(
            record.to_string().contains(target),
            "the raw path is missing in {record}"
        );
        expected.push(id);
    }
    let ids: Vec<Value> = gateway
        .access_records()
        .iter()
        .map(|record| record["requestId"].clone())
        .collect();
    assert_eq!(ids, expected);
}

#[test]
fn every_line_on_standard_output_is_one_json_record() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let hostile: Vec<Vec<u8>> = vec![
        request_bytes("GET", "/%0d%0a%7b%22family%22%3a%22central%22%7d", &[], b""),
        request_bytes("GET", "/%1b%5b2J", &[], b""),
        request_bytes("GET", "/%e2%80%a8", &[], b""),
        b"GET /\x80\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        request_bytes(
            "GET",
            CENTRAL,
            &[("User-Agent", "a\" 200 \"b"), ("Referer", "\\\"}{")],
            b"",
        ),
        request_bytes("GET", CENTRAL, &[("X-Request-Id", &"i".repeat(40_000))], b""),
        request_bytes("GET", CENTRAL, &[("X-Request-Id", "a\tb")], b""),
        format!("GET {CENTRAL} HTTP/1.1\r\nHost: a\"b\r\n\r\n").into_bytes(),
        request_bytes("GET", &format!("/{}", "p".repeat(15_000)), &[], b""),
        request_bytes("M\u{1}THOD", CENTRAL, &[], b""),
        request_bytes(&"M".repeat(3_000), CENTRAL, &[], b""),
    ];
    for bytes in hostile {
        let mut client = gateway.client();
        client.send(bytes);
        let _ = client.try_response();
    }
    let last = gateway.get(CENTRAL);
    gateway.access_record(last.value("x-request-id"));
    for line in gateway.stdout() {
        let record: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line}"));
        assert!(record.is_object(), "{line}");
        assert!(line.len() < 10_000, "a record of {} bytes", line.len());
        assert!(
            !line.chars().any(|c| c.is_control() || c == '\u{2028}'),
            "a control character in {line:?}"
        );
    }
}

#[test]
fn secrets_of_a_request_are_not_logged() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let headers = [
        ("Authorization", "Bearer s3cret-bearer"),
        ("Cookie", "session=s3cret-cookie"),
        ("X-Api-Key", "s3cret-key"),
        ("Proxy-Authorization", "Basic s3cret-proxy"),
    ];
    for target in [CENTRAL, UNKNOWN, INTERNAL, EXTENSION] {
        let response = gateway
            .client()
            .request("GET", &format!("{target}?token=s3cret-query&x=1"), &headers);
        let record = gateway.access_record(response.value("x-request-id"));
        assert_eq!(record["target"], format!("{target}?…"), "{record}");
    }
    let output = gateway.all_output();
    assert!(!output.contains("s3cret"), "{output}");
    // Upstream and client are the only ones that see them.
    assert_eq!(
        deployment.upstream("central").only_request().value("authorization"),
        "Bearer s3cret-bearer"
    );
}

#[test]
fn a_failure_at_the_upstream_is_recorded_with_its_code() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    deployment
        .upstream("central")
        .answer(crate::harness::recorder::Answer::Close);
    let response = gateway.client().request("POST", CENTRAL, &[("Content-Length", "0")]);
    let id = response.assert_refusal(502, "upstream_failure");
    let record = gateway.access_record(&id);
    assert_eq!(record["status"], 502, "{record}");
    assert_eq!(record["refusal"], "upstream_failure", "{record}");
    assert_eq!(record["family"], "central", "{record}");
}

#[test]
fn the_log_can_be_switched_off() {
    let deployment = Deployment::new().with_tables("[log]\naccess = false");
    let gateway = deployment.start();
    for target in [CENTRAL, UNKNOWN] {
        gateway.get(target);
    }
    let ended = gateway.terminate();
    assert!(!ended.stdout.contains("requestId"), "{}", ended.stdout);
}
