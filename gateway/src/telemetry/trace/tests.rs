use super::*;
use http::HeaderValue;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn tracer(sample: u8, parent: Parent, queue: usize) -> (Tracer, mpsc::Receiver<SpanData>) {
    let (queue, waiting) = mpsc::channel(queue);
    let tracer = Tracer {
        queue,
        wake: std::sync::Arc::default(),
        dropped: IntCounter::new("dropped_total", "for this test").unwrap(),
        threshold: threshold(Share::percent(sample)),
        parent,
    };
    (tracer, waiting)
}

fn headers(parent: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(context::TRACEPARENT, HeaderValue::from_str(parent).unwrap());
    headers
}

#[test]
fn a_clients_trace_is_continued_with_its_decision() {
    let (tracer, _waiting) = tracer(0, Parent::Any, 1);
    for (flags, is_sampled) in [("01", true), ("03", true), ("00", false)] {
        let parent = format!("{}{flags}", &PARENT[..PARENT.len() - 2]);
        let trace = tracer.begin(&headers(&parent), false);
        let own = trace.own.unwrap();
        assert_eq!(own.is_sampled(), is_sampled);
        assert!(own.is_continued());
        let sent = trace.traceparent().unwrap().to_string();
        assert_eq!(sent[..36], parent[..36], "the trace stays");
        assert_ne!(sent[36..52], parent[36..52], "the span is the gateway's own");
        assert_eq!(sent[52..], parent[52..], "the flags stay");
    }
}

#[test]
fn a_stranger_is_not_heard_where_only_trusted_proxies_are() {
    let (tracer, _waiting) = tracer(0, Parent::Trusted, 1);
    let id = |is_trusted| tracer.begin(&headers(PARENT), is_trusted).id;
    assert_eq!(id(true).as_str(), "0af7651916cd43dd8448eb211c80319c");
    assert_ne!(id(false).as_str(), "0af7651916cd43dd8448eb211c80319c");
    assert!(!tracer.begin(&headers(PARENT), false).own.unwrap().is_continued());
}

#[test]
fn a_share_of_new_traces_is_sampled() {
    for (percent, least, most) in [(0, 0, 0), (10, 700, 1_300), (50, 4_500, 5_500), (100, 10_000, 10_000)] {
        let (tracer, _waiting) = tracer(percent, Parent::Any, 1);
        let sampled = (0..10_000)
            .filter(|_| tracer.begin(&HeaderMap::new(), false).own.unwrap().is_sampled())
            .count();
        assert!((least..=most).contains(&sampled), "{sampled} at {percent}%");
    }
}

#[test]
fn without_a_collector_the_clients_trace_is_named_and_left_alone() {
    let trace = Trace::passing(&headers(PARENT)).unwrap();
    assert_eq!(trace.id.as_str(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(trace.traceparent(), None);
    assert!(Trace::passing(&headers("00-nonsense")).is_none());
}

#[test]
fn spans_beyond_the_queue_are_dropped_and_counted() {
    let (tracer, mut waiting) = tracer(100, Parent::Any, 3);
    let trace = tracer.begin(&HeaderMap::new(), false);
    let record = crate::telemetry::access::Record {
        request_id: "id",
        trace_id: None,
        family: Some("a"),
        template: Some("/a/{b}"),
        method: b"FOO",
        target: b"/a/b?token=secret",
        status: Some(502),
        refusal: Some("upstream_failure"),
        bytes_in: 1,
        bytes_out: 2,
        duration: std::time::Duration::from_millis(5),
        upstream_latency: None,
        own: std::time::Duration::from_millis(1),
        attempts: 2,
        protocol: "HTTP/2",
        client: "192.0.2.1:1".parse().unwrap(),
        upstream: None,
    };
    let part = span::UpstreamPart {
        began: std::time::Duration::from_millis(1),
        ended: std::time::Duration::from_millis(5),
        is_answered: false,
    };
    for _ in 0..5 {
        tracer.send(span::of(&trace, &record, "https", Some(part)));
    }
    assert_eq!(tracer.dropped.get(), 7);
    let span = waiting.try_recv().unwrap();
    assert_eq!(span.name, "_OTHER /a/{b}");
    let text = format!("{span:?}");
    assert!(text.contains("/a/b?…") && !text.contains("secret"), "{text}");
}
