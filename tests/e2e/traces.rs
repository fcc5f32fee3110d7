//! Traces: continued or begun, sent to a receiver that reads OTLP, and never in a request's way.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;

use crate::harness::deployment::Deployment;
use crate::harness::process::Gateway;
use crate::harness::recorder::{Answer, Recorder};
use crate::harness::{CENTRAL, EXTENSION, PATIENCE, UNKNOWN};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector: whatever it is sent is kept, and answered as OTLP has it.
fn collector() -> Recorder {
    let collector = Recorder::start();
    collector.answer(Answer::with(
        "200 OK",
        &[("Content-Type", "application/x-protobuf")],
        "",
    ));
    collector
}

fn with_traces(collector: &Recorder, lines: &str) -> Deployment {
    Deployment::new().with_tables(&format!("[traces]\nendpoint = \"{}\"\n{lines}", collector.url()))
}

/// A span with its attributes as texts.
#[derive(Debug)]
struct Read {
    span: Span,
    attributes: BTreeMap<String, String>,
}

impl Read {
    fn trace(&self) -> String {
        hex(&self.span.trace_id)
    }

    #[track_caller]
    fn attribute(&self, name: &str) -> &str {
        self.attributes
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {self:#?}"))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What was received so far.
fn spans(collector: &Recorder) -> Vec<Read> {
    let mut spans = Vec::new();
    for request in collector.requests() {
        assert_eq!(request.method(), "POST");
        assert_eq!(request.target(), b"/v1/traces");
        assert_eq!(request.value("content-type"), "application/x-protobuf");
        let export = ExportTraceServiceRequest::decode(&request.body[..]).expect("OTLP");
        for resource in export.resource_spans {
            let service = resource.resource.expect("a resource").attributes;
            assert!(
                service.iter().any(|attribute| attribute.key == "service.name"),
                "{service:?}"
            );
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    let read = |span: Span| {
        let text = |value| match value {
            Value::StringValue(text) => text,
            Value::IntValue(number) => number.to_string(),
            other => format!("{other:?}"),
        };
        let attributes = span.attributes.iter().cloned();
        let attributes = attributes.filter_map(|attribute| Some((attribute.key, text(attribute.value?.value?))));
        Read {
            attributes: attributes.collect(),
            span,
        }
    };
    spans.into_iter().map(read).collect()
}

/// The spans, once there are so many.
#[track_caller]
fn wait_for_spans(collector: &Recorder, count: usize) -> Vec<Read> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let spans = spans(collector);
        if spans.len() >= count {
            return spans;
        }
        assert!(
            Instant::now() < deadline,
            "{} of {count} spans: {spans:#?}",
            spans.len()
        );
        thread::park_timeout(Duration::from_millis(5));
    }
}

#[track_caller]
fn dropped(gateway: &Gateway, least: f64) {
    let series = "gateway_telemetry_dropped_total{signal=\"trace\"} ";
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = gateway.admin_get("/metrics").text();
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.parse::<f64>().ok());
        if value.unwrap_or_else(|| panic!("{text}")) >= least {
            return;
        }
        assert!(Instant::now() < deadline, "{value:?} spans dropped");
        thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn a_clients_trace_is_continued_to_the_upstream_and_to_the_collector() {
    let collector = collector();
    let deployment = with_traces(&collector, "sample = \"0%\"\nservice = \"edge\"\n");
    let gateway = deployment.start();
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [
        ("traceparent", parent.as_str()),
        ("tracestate", "vendor=1,other=2"),
        ("Cookie", "a=s3cret"),
        ("Authorization", "Bearer s3cret"),
    ];
    let target = format!("{EXTENSION}/github/actions/create-issue");
    let answer = gateway
        .client()
        .request("GET", &format!("{target}?token=s3cret"), &headers);
    assert_eq!(answer.status, 200);
    let id = answer.value("x-request-id").to_owned();
    assert_eq!(gateway.access_record(&id)["traceId"], TRACE);
    let spans = wait_for_spans(&collector, 2);
    assert_eq!(spans.len(), 2, "{spans:#?}");
    let of = |kind| {
        spans
            .iter()
            .find(|read| read.span.kind == kind as i32)
            .expect("a span of each kind")
    };
    let (server, client) = (of(SpanKind::Server), of(SpanKind::Client));
    assert_eq!(
        (server.trace(), hex(&server.span.parent_span_id)),
        (TRACE.to_owned(), PARENT.to_owned())
    );
    assert_eq!(
        (client.trace(), &client.span.parent_span_id),
        (TRACE.to_owned(), &server.span.span_id)
    );
    // The upstream's spans stand below the gateway's.
    let received = deployment.upstream("extension").only_request();
    assert_eq!(
        received.value("traceparent"),
        format!("00-{TRACE}-{}-01", hex(&client.span.span_id))
    );
    assert_eq!(received.value("tracestate"), "vendor=1,other=2");
    let route = "/api/v1/workspaces/{workspace}/agents/{agent}/runtime/ext/{domain:kebab}/actions/{action:kebab}";
    assert_eq!(server.span.name, format!("GET {route}"));
    for (name, value) in [
        ("http.request.method", "GET"),
        ("http.route", route),
        ("http.response.status_code", "200"),
        ("url.scheme", "http"),
        ("url.path", format!("{target}?…").as_str()),
        ("network.protocol.version", "1.1"),
        ("client.address", "127.0.0.1"),
        ("gateway.family", "extension"),
        ("gateway.request_id", &id),
    ] {
        assert_eq!(server.attribute(name), value, "{name}");
    }
    assert_eq!(client.attribute("peer.service"), "extension");
    assert!(!client.attributes.contains_key("server.address"), "{client:#?}");
    assert!(server.span.start_time_unix_nano <= client.span.start_time_unix_nano);
    assert!(client.span.end_time_unix_nano <= server.span.end_time_unix_nano);
    for request in collector.requests() {
        assert!(!String::from_utf8_lossy(&request.body).contains("s3cret"));
    }
}

#[test]
fn a_trace_begins_here_where_the_client_has_none_or_a_malformed_one() {
    let collector = collector();
    let deployment = with_traces(&collector, "sample = \"100%\"\n");
    let gateway = deployment.start();
    let malformed = [("traceparent", "00-nonsense"), ("tracestate", "vendor=1")];
    for headers in [&[][..], &malformed] {
        assert_eq!(gateway.client().request("GET", CENTRAL, headers).status, 200);
    }
    gateway.get(UNKNOWN).assert_refusal(404, "not_found");
    let spans = wait_for_spans(&collector, 5);
    let received = deployment.upstream("central").requests();
    for request in &received {
        let value = request.value("traceparent");
        let sent = spans.iter().find(|read| {
            read.span.kind == SpanKind::Client as i32
                && value == format!("00-{}-{}-03", read.trace(), hex(&read.span.span_id))
        });
        assert!(sent.is_some(), "{value} in {spans:#?}");
        assert_eq!(request.values("tracestate"), [""; 0]);
    }
    let refused = spans.iter().find(|read| {
        read.attributes
            .get("error.type")
            .is_some_and(|kind| kind == "not_found")
    });
    let refused = refused.unwrap_or_else(|| panic!("no span of the refusal in {spans:#?}"));
    assert_eq!(refused.span.name, "GET");
    assert_eq!(refused.attribute("http.response.status_code"), "404");
    assert!(!refused.attributes.contains_key("http.route"));
}

#[test]
fn what_is_not_sampled_goes_on_and_is_not_sent() {
    let collector = collector();
    let deployment = with_traces(&collector, "sample = \"100%\"\n");
    let gateway = deployment.start();
    let parent = format!("00-{TRACE}-{PARENT}-00");
    gateway.client().request("GET", CENTRAL, &[("traceparent", &parent)]);
    let value = deployment.upstream("central").only_request().value("traceparent");
    assert!(
        value.starts_with(&format!("00-{TRACE}-")) && value.ends_with("-00"),
        "{value}"
    );
    // One that is, so that what comes late is not missed; the end of the gateway sends what waits.
    gateway.get(CENTRAL);
    assert!(gateway.terminate().status.success());
    let spans = spans(&collector);
    assert_eq!(spans.len(), 2, "{spans:#?}");
    assert!(spans.iter().all(|read| read.trace() != TRACE), "{spans:#?}");
}

#[test]
fn only_trusted_proxies_are_heard_where_that_is_said() {
    let collector = collector();
    let deployment = with_traces(&collector, "sample = \"0%\"\nparent = \"trusted\"\n");
    let gateway = deployment.start();
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [("traceparent", parent.as_str()), ("tracestate", "vendor=1")];
    gateway.client().request("GET", CENTRAL, &headers);
    let received = deployment.upstream("central").only_request();
    assert!(!received.value("traceparent").contains(TRACE));
    assert_eq!(received.values("tracestate"), [""; 0]);
    assert!(gateway.terminate().status.success());
    assert_eq!(spans(&collector).len(), 0);
}

#[test]
fn without_a_collector_a_trace_passes_as_it_came() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [("traceparent", parent.as_str()), ("tracestate", "vendor=1")];
    gateway.client().request("GET", CENTRAL, &headers);
    let received = deployment.upstream("central").only_request();
    assert_eq!(received.value("traceparent"), parent);
    assert_eq!(received.value("tracestate"), "vendor=1");
    gateway.get(CENTRAL);
    assert_eq!(
        deployment.upstream("central").requests()[1].values("traceparent"),
        [""; 0]
    );
}

#[test]
fn a_collector_that_is_gone_changes_no_answer_and_its_spans_are_counted() {
    let gone = collector();
    let deployment = with_traces(&gone, "sample = \"100%\"\nqueue = 16\n");
    drop(gone);
    let gateway = deployment.start();
    let mut client = gateway.client();
    for _ in 0..50 {
        assert_eq!(client.request("GET", CENTRAL, &[]).status, 200);
        client.request("GET", UNKNOWN, &[]).assert_refusal(404, "not_found");
    }
    // Two spans for each answer of an upstream, and one for each refusal: all of them are dropped.
    dropped(&gateway, 150.0);
    let told = gateway.all_output().matches("the collector takes no spans").count();
    assert!(told <= 1, "said {told} times");
    assert!(gateway.terminate().status.success());
}

#[test]
fn a_collector_that_does_not_answer_changes_no_answer_and_its_spans_are_counted() {
    let silent = collector();
    silent.answer(Answer::Silence);
    let deployment = with_traces(&silent, "sample = \"100%\"\nqueue = 16\ntimeout = \"100ms\"\n");
    let gateway = deployment.start();
    let mut client = gateway.client();
    for _ in 0..50 {
        assert_eq!(client.request("GET", CENTRAL, &[]).status, 200);
    }
    dropped(&gateway, 100.0);
    assert!(gateway.terminate().status.success());
}
