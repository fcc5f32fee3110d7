//! What one request costs outside its sockets: reading its head, writing the upstream's and the client's, its access
//! record, and its metrics. The routing of its path is in `matcher.rs`; the whole way is counted by
//! `make bench-instructions`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a bench fails by panicking

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use gateway::listen::HeadLimits;
use gateway::listen::head;
use gateway::proxy::forward::{self, Origin};
use gateway::proxy::request_id::RequestId;
use gateway::proxy::respond;
use gateway::telemetry::access::{AccessLog, Record};
use gateway::telemetry::metrics::{Ended, Metrics};
use gateway::telemetry::redact::Redacted;
use gateway::telemetry::sink::Sink;
use gateway::upstream::Endpoints;
use http::{HeaderValue, Version};
use pingora::http::{RequestHeader, ResponseHeader};

const TARGET: &str = "/api/v1/workspaces/3fa85f64-5717-4562-b3fc-2c963f66afa6/files/notes.txt";
const REQUEST_FIELDS: [(&str, &str); 6] = [
    ("Host", "gateway.example"),
    ("User-Agent", "bench-client/1.0"),
    ("Accept", "application/json"),
    ("Accept-Encoding", "gzip, br"),
    ("Authorization", "Bearer 0123456789abcdef0123456789abcdef"),
    ("Connection", "keep-alive"),
];
const RESPONSE_FIELDS: [(&str, &str); 6] = [
    ("Server", "nginx"),
    ("Date", "Tue, 01 Dec 2026 12:00:00 GMT"),
    ("Content-Type", "application/json"),
    ("Content-Length", "512"),
    ("Connection", "keep-alive"),
    ("Cache-Control", "no-store"),
];

fn heads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("heads");
    let mut bytes = format!("GET {TARGET}?page=2 HTTP/1.1\r\n");
    for (name, value) in REQUEST_FIELDS {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    bytes.push_str("\r\n");
    let limits = HeadLimits {
        target: 8 * 1024,
        head: 64 * 1024,
        headers: 128,
    };
    group.bench_function("read", |bencher| {
        bencher.iter(|| head::parse(black_box(bytes.as_bytes()), bytes.len(), &limits).expect("a sound head"));
    });

    let mut request = RequestHeader::build("GET", TARGET.as_bytes(), Some(8)).expect("a target");
    for (name, value) in REQUEST_FIELDS {
        request.append_header(name, value).expect("a field");
    }
    let origin = Origin {
        address: HeaderValue::from_static("192.0.2.1"),
        scheme: HeaderValue::from_static("https"),
        trusted: false,
    };
    let id = RequestId::generate();
    group.bench_function("forward", |bencher| {
        bencher.iter_batched_ref(
            || request.clone(),
            |request| forward::rewrite(request, None, &origin, &id, false, &[]).expect("sound values"),
            BatchSize::SmallInput,
        );
    });

    let mut response = ResponseHeader::build(200, Some(8)).expect("a status");
    for (name, value) in RESPONSE_FIELDS {
        response.append_header(name, value).expect("a field");
    }
    let known = ["central.internal:3000", "workspace.internal:3001", "10.0.0.7:3002"]
        .map(|name| Arc::new(Endpoints::named([name.to_owned()])));
    group.bench_function("respond", |bencher| {
        bencher.iter_batched_ref(
            || response.clone(),
            |response| respond::rewrite(response, &known, &id, Version::HTTP_11).expect("sound values"),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn record(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("record");
    // What is written is dropped by the other thread: its time is the disk's.
    let (sink, _guard) = Sink::start(io::sink(), 64 * 1024 * 1024).expect("a thread");
    let log = AccessLog::new(sink);
    let id = RequestId::generate();
    let record = Record {
        request_id: id.as_str(),
        trace_id: None,
        family: Some("workspace"),
        template: Some("/api/v1/workspaces/{workspace}/**"),
        method: b"GET",
        target: TARGET.as_bytes(),
        status: Some(200),
        refusal: None,
        bytes_in: 0,
        bytes_out: 512,
        duration: Duration::from_micros(2_345),
        upstream_latency: Some(Duration::from_micros(2_045)),
        own: Duration::from_micros(45),
        attempts: 1,
        protocol: "HTTP/1.1",
        client: "192.0.2.1:50000".parse().expect("an address"),
        upstream: None,
    };
    group.bench_function("access", |bencher| bencher.iter(|| log.write(black_box(&record))));
    for (name, target) in [
        ("plain", TARGET.to_owned()),
        ("with a query", format!("{TARGET}?token=secret")),
        ("with an escape", format!("{TARGET}%20\u{1b}")),
    ] {
        group.bench_function(format!("redacted target, {name}"), |bencher| {
            bencher.iter(|| Redacted(black_box(target.as_bytes())).to_string());
        });
    }

    let metrics = Metrics::new().expect("sound names");
    let family = metrics.family("workspace");
    let ended = Ended {
        total: Duration::from_micros(2_345),
        upstream: Some(Duration::from_micros(2_045)),
        own: Duration::from_micros(45),
        bytes_in: 0,
        bytes_out: 512,
    };
    group.bench_function("metrics", |bencher| {
        bencher.iter(|| {
            family.count(black_box(Some(200)), None);
            family.measure(black_box(&ended));
        });
    });
    group.finish();
}

criterion_group!(benches, heads, record);
criterion_main!(benches);
