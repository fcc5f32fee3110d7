//! What an HTTP/2 library refuses by itself is counted and recorded like everything else.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::deployment::Deployment;
use crate::harness::process::Gateway;
use crate::harness::{CENTRAL, PATIENCE};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A field as HPACK writes it without compressing: for indexed names 1 (`:authority`) to 14, or by its name.
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

fn head(method: Option<&str>, more: &[(&str, &str)]) -> Vec<u8> {
    let fields = method.into_iter().map(|method| (":method", method));
    let fields = fields.chain([(":path", CENTRAL), (":scheme", "http"), (":authority", "gateway.test")]);
    fields
        .chain(more.iter().copied())
        .flat_map(|(name, value)| field(name, value))
        .collect()
}

/// A connection on which the settings are exchanged; what is sent back is thrown away.
fn connect(gateway: &Gateway) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.public()).unwrap();
    stream
        .write_all(&[PREFACE, &frame(SETTINGS, 0, 0, b"")].concat())
        .unwrap();
    let mut reader = stream.try_clone().unwrap();
    thread::spawn(move || while matches!(reader.read(&mut [0; 1024]), Ok(read) if read > 0) {});
    stream
}

fn start(tables: &str) -> (Deployment, Gateway) {
    let deployment = Deployment::new().with_tables(&format!(
        "[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nh2c = true\n{tables}"
    ));
    let gateway = deployment.start();
    (deployment, gateway)
}

#[track_caller]
fn counted(gateway: &Gateway, series: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !gateway.admin_get("/metrics").text().contains(series) {
        assert!(
            Instant::now() < deadline,
            "no {series} in\n{}",
            gateway.admin_get("/metrics").text()
        );
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// The records, once there are so many.
#[track_caller]
fn records(gateway: &Gateway, count: usize) -> Vec<Value> {
    gateway.wait_for_output(&format!("{count} records"), |lines| {
        let records = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let records: Vec<Value> = records.filter(|record| record["log"] == "access").collect();
        (records.len() >= count).then_some(records)
    })
}

#[test]
fn a_malformed_head_is_counted_and_has_one_record() {
    let (_deployment, gateway) = start("");
    let mut stream = connect(&gateway);
    for (turn, payload) in [head(None, &[]), head(Some("GET"), &[(":status", "200")])]
        .iter()
        .enumerate()
    {
        let id = 2 * u32::try_from(turn).unwrap() + 1;
        stream
            .write_all(&frame(HEADERS, END_HEADERS | END_STREAM, id, payload))
            .unwrap();
    }
    counted(&gateway, "gateway_http2_stream_errors_total{reason=\"malformed\"} 2");
    counted(
        &gateway,
        "gateway_refusals_total{family=\"none\",reason=\"invalid_request\"} 2",
    );
    // One that is sound, so that what comes late is not missed.
    stream
        .write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 5, &head(Some("GET"), &[])))
        .unwrap();
    let records = records(&gateway, 3);
    assert_eq!(records.len(), 3, "{records:?}");
    for record in &records[..2] {
        assert_eq!(record["refusal"], "invalid_request", "{record}");
        assert_eq!(record["protocol"], "HTTP/2", "{record}");
        assert!(record.get("status").is_none(), "{record}");
    }
    assert_eq!(records[2]["status"], 200);
}

#[test]
fn a_stream_too_many_is_counted_and_has_one_record() {
    let (deployment, gateway) = start("[listen.http2]\nstreams = 1\n");
    let mut stream = connect(&gateway);
    let open = frame(HEADERS, END_HEADERS, 1, &head(Some("POST"), &[("content-length", "5")]));
    let second = frame(HEADERS, END_HEADERS | END_STREAM, 3, &head(Some("GET"), &[]));
    stream.write_all(&[open, second].concat()).unwrap();
    counted(&gateway, "gateway_http2_stream_errors_total{reason=\"refused\"} 1");
    stream.write_all(&frame(DATA, END_STREAM, 1, b"hello")).unwrap();
    let records = records(&gateway, 2);
    assert_eq!(records[0]["refusal"], "overloaded", "{records:?}");
    assert_eq!(records[1]["status"], 200, "{records:?}");
    assert_eq!(deployment.upstream("central").only_request().body, b"hello");
}

#[test]
fn a_body_beyond_its_length_is_counted_and_has_one_record() {
    let (deployment, gateway) = start("");
    let mut stream = connect(&gateway);
    let open = frame(HEADERS, END_HEADERS, 1, &head(Some("POST"), &[("content-length", "0")]));
    stream
        .write_all(&[open, frame(DATA, END_STREAM, 1, b"hello")].concat())
        .unwrap();
    counted(&gateway, "gateway_http2_stream_errors_total{reason=\"body\"} 1");
    stream
        .write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &head(Some("GET"), &[])))
        .unwrap();
    let records = records(&gateway, 2);
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!(records[0]["refusal"], "invalid_request");
    assert_eq!(records[0]["method"], "POST");
    assert_eq!(records[0]["target"], CENTRAL);
    assert_eq!(deployment.upstream("central").only_request().method(), "GET");
}

#[test]
fn a_head_too_large_for_the_library_is_counted_and_has_one_record() {
    let (_deployment, gateway) = start("[limits]\nhead = \"1KiB\"\ntarget = \"1KiB\"\n");
    let mut stream = connect(&gateway);
    let large = "x".repeat(100);
    let many: Vec<(&str, &str)> = std::iter::repeat_n(("x-large", large.as_str()), 40).collect();
    stream
        .write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head(Some("GET"), &many)))
        .unwrap();
    counted(
        &gateway,
        "gateway_http2_stream_errors_total{reason=\"head_too_large\"} 1",
    );
    let records = records(&gateway, 1);
    assert_eq!(records[0]["status"], 431, "{records:?}");
    assert_eq!(records[0]["refusal"], "head_too_large");
}

#[test]
fn a_connection_that_breaks_the_protocol_is_counted() {
    let (_deployment, gateway) = start("");
    let mut stream = connect(&gateway);
    stream
        .write_all(&frame(DATA, 0, 0, b"no stream has this number"))
        .unwrap();
    counted(&gateway, "gateway_http2_connection_errors_total{reason=\"protocol\"} 1");
}
