//! Heads as they come, sound and not.

use super::*;

const LIMITS: HeadLimits = HeadLimits {
    target: 64,
    head: 512,
    headers: 6,
};

fn judge(text: &str) -> Result<Head, HeadFault> {
    judge_bytes(text.as_bytes())
}

fn judge_bytes(input: &[u8]) -> Result<Head, HeadFault> {
    let mut scan = HeadScan::default();
    let len = scan.advance(input, &LIMITS)?.expect("the head is complete");
    parse(input, len, &LIMITS)
}

#[test]
fn a_sound_head_is_taken_apart_in_place() {
    let text = "POST /a?b=c HTTP/1.1\r\nHost:  gw:80 \r\nContent-Length: 5\r\n\r\nhello";
    let head = judge(text).unwrap();
    assert_eq!(&text[head.method.clone()], "POST");
    assert_eq!(&text[head.target.clone()], "/a?b=c");
    assert_eq!(&text[head.host.clone()], "gw:80");
    assert_eq!(head.body, BodyLength::Exactly(5));
    assert_eq!(head.len, text.len() - 5);
    assert!(head.http11);
}

#[test]
fn target_forms() {
    let form = |method: &str, target: &str| {
        let text = format!("{method} {target} HTTP/1.1\r\nHost: gw\r\n\r\n");
        judge(&text).map(|head| match head.form {
            TargetForm::Origin => "origin".to_owned(),
            TargetForm::Asterisk => "asterisk".to_owned(),
            TargetForm::Absolute(path) => text[path].to_owned(),
        })
    };
    for (method, target, expected) in [
        ("GET", "/a?b", Some("origin")),
        ("GET", "//evil.example/a", Some("origin")),
        ("GET", "http://gw/a?b", Some("/a?b")),
        ("GET", "HTTPS://gw//a", Some("//a")),
        ("OPTIONS", "*", Some("asterisk")),
        ("GET", "*", None),
        ("OPTIONS", "*/a", None),
        ("GET", "http://GW/a", None),
        ("GET", "http://other/a", None),
        ("GET", "http://gw.evil/a", None),
        ("GET", "http://gw:80/a", None),
        ("GET", "http://u@gw/a", None),
        ("GET", "http://gw?x=1", None),
        ("GET", "http://gw", None),
        ("GET", "http:///a", None),
        ("GET", "ftp://gw/a", None),
        ("GET", "a/b", None),
        ("GET", "?q", None),
        ("GET", "gw:80", None),
    ] {
        let expected = expected.map(str::to_owned).ok_or(HeadFault::Target);
        assert_eq!(form(method, target), expected, "{method} {target}");
    }
}

#[test]
fn every_byte_of_a_sound_target_survives_pingora() {
    for byte in 0..=u8::MAX {
        for start in ["/a", "/a?b="] {
            let mut target = start.as_bytes().to_vec();
            target.push(byte);
            let text = [b"GET ", &target[..], b" HTTP/1.1\r\nHost: gw\r\n\r\n"].concat();
            let request = pingora::http::RequestHeader::build("GET", &target, None);
            if judge_bytes(&text).is_ok() {
                let survives = request.is_ok_and(|request| request.raw_path() == target);
                assert!(survives, "{start} and {:?}", char::from(byte));
            }
        }
    }
}

#[test]
fn the_head_may_come_byte_by_byte() {
    let text = b"GET / HTTP/1.0\r\nHost: a\r\n\r\n";
    let mut scan = HeadScan::default();
    for end in 1..text.len() {
        assert_eq!(scan.advance(&text[..end], &LIMITS), Ok(None), "{end}");
    }
    assert_eq!(scan.advance(text, &LIMITS), Ok(Some(text.len())));
}

#[test]
fn each_fault_has_its_name() {
    let with = |line: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
    let cases = [
        ("GET / HTTP/1.1\n\n".to_owned(), HeadFault::Syntax),
        ("GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n".to_owned(), HeadFault::Syntax),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Target),
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Target),
        ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Target),
        ("GET /\u{7f} HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Target),
        ("GET /é HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Target),
        ("GET /\r HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Target),
        ("GE(T / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Syntax),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Version),
        ("PRI * HTTP/2.0\r\n\r\n".to_owned(), HeadFault::Version),
        ("GET /\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Syntax),
        (
            "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n".to_owned(),
            HeadFault::Method,
        ),
        ("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadFault::Method),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), HeadFault::Host),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n".to_owned(), HeadFault::Host),
        ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n".to_owned(), HeadFault::Host),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nhOst: a\r\n\r\n".to_owned(),
            HeadFault::Host,
        ),
        ("GET / HTTP/1.1\r\nHost: a\"\r\n\r\n".to_owned(), HeadFault::Host),
        (
            with("Content-Length: 1\r\nTransfer-Encoding: chunked"),
            HeadFault::Framing,
        ),
        (with("Content-Length: 1\r\nContent-Length: 1"), HeadFault::Framing),
        (with("Content-Length: 5, 5"), HeadFault::Framing),
        (with("Content-Length: +5"), HeadFault::Framing),
        (with("Content-Length: -1"), HeadFault::Framing),
        (with("Content-Length:"), HeadFault::Framing),
        (with("Content-Length: 9999999999999999999"), HeadFault::Framing),
        (with("Transfer-Encoding: gzip, chunked"), HeadFault::Framing),
        (with("Transfer-Encoding: xchunked"), HeadFault::Framing),
        (
            with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
            HeadFault::Framing,
        ),
        (
            "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
            HeadFault::Framing,
        ),
        (with("X : y"), HeadFault::Syntax),
        (with(" folded: y"), HeadFault::Syntax),
        (with("X: y\r\n folded"), HeadFault::Syntax),
        (with("no colon"), HeadFault::Syntax),
        (with("X: a\u{0}b"), HeadFault::Syntax),
        (with("X: a\rb"), HeadFault::Syntax),
        (
            with("A: 1\r\nB: 1\r\nC: 1\r\nD: 1\r\nE: 1\r\nF: 1\r\nG: 1"),
            HeadFault::HeadTooLarge,
        ),
        (with(&format!("A: {}", "x".repeat(600))), HeadFault::HeadTooLarge),
        (
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(64)),
            HeadFault::TargetTooLong,
        ),
    ];
    for (text, fault) in cases {
        assert_eq!(judge(&text), Err(fault), "{text:?}");
    }
}

#[test]
fn a_target_without_end_is_refused_before_its_end() {
    let mut scan = HeadScan::default();
    let input = format!("GET /{}", "x".repeat(200));
    assert_eq!(scan.advance(input.as_bytes(), &LIMITS), Err(HeadFault::TargetTooLong));
}

/// Heads made from sound ones by changing, adding, doubling and dropping pieces. Whatever passes here must be read by
/// Pingora without mending: the same target, the same framing, nothing refused.
#[tokio::test]
async fn what_is_sound_here_is_sound_to_pingora() {
    const SEEDS: [&str; 4] = [
        "GET /a/b%2Fc?x={y}&z=1 HTTP/1.1\r\nHost: gw:8080\r\nAccept: */*\r\n\r\n",
        "POST http://gw/a HTTP/1.1\r\nHost: gw\r\nContent-Length: 5\r\nConnection: close\r\n\r\n",
        "PUT /a HTTP/1.1\r\nHost: [::1]:80\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n",
        "OPTIONS * HTTP/1.0\r\nHost: a.example\r\nUser-Agent: x\r\n\r\n",
    ];
    const PIECES: [&str; 16] = [
        "\r\n",
        " ",
        "\t",
        ":",
        "/",
        "?",
        "#",
        "%",
        "@",
        "\"",
        "0",
        "+",
        ",",
        "Content-Length: 5\r\n",
        "Host: b\r\n",
        "\0",
    ];
    const LIMITS: HeadLimits = HeadLimits {
        target: 200,
        head: 4096,
        headers: 20,
    };
    let mut random = fastrand::Rng::with_seed(7);
    let mut sound = 0;
    for _ in 0..20_000 {
        let mut text = random.choice(SEEDS).unwrap().as_bytes().to_vec();
        for _ in 0..random.usize(0..3) {
            let at = random.usize(0..text.len());
            match random.u8(0..4) {
                0 => text[at] = random.u8(..),
                1 => drop(text.remove(at)),
                2 => drop(text.splice(at..at, random.choice(PIECES).unwrap().bytes())),
                _ => {
                    let end = text.len().min(at + random.usize(0..12));
                    let piece = text[at..end].to_vec();
                    drop(text.splice(at..at, piece));
                }
            }
        }
        let mut scan = HeadScan::default();
        let Ok(Some(len)) = scan.advance(&text, &LIMITS) else {
            continue;
        };
        let Ok(head) = parse(&text, len, &LIMITS) else { continue };
        sound += 1;
        let shown = text.escape_ascii().to_string();
        let (near, mut far) = tokio::io::duplex(8192);
        tokio::io::AsyncWriteExt::write_all(&mut far, &text[..len])
            .await
            .unwrap();
        let mut session = pingora::protocols::http::v1::server::HttpSession::new(Box::new(near));
        assert_eq!(
            session
                .read_request()
                .await
                .unwrap_or_else(|error| panic!("{error}: {shown}")),
            Some(len),
            "{shown}"
        );
        let request = session.req_header();
        assert_eq!(request.raw_path(), &text[head.target], "{shown}");
        assert_eq!(request.method.as_str().as_bytes(), &text[head.method], "{shown}");
        assert_eq!(request.headers["host"].as_bytes(), &text[head.host], "{shown}");
        assert_eq!(session.is_body_empty(), head.body == BodyLength::None, "{shown}");
    }
    assert!(sound > 2_000, "{sound}");
}
