//! Request targets that are not a plain path, RFC 9112 section 3.2.

use crate::harness::deployment::Deployment;
use crate::harness::received::show;
use crate::harness::{CENTRAL, INTERNAL};

fn request(line: &str) -> String {
    format!("{line}\r\nHost: gateway.test\r\n\r\n")
}

#[test]
fn absolute_form_goes_out_in_origin_form_when_its_authority_is_the_host() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let response = gateway.exchange(request(&format!("GET http://gateway.test{CENTRAL}?a=1 HTTP/1.1")));
    assert_eq!(response.status, 200);
    let received = deployment.upstream("central").only_request();
    assert_eq!(
        show(&received.target()),
        format!("{CENTRAL}?a=1"),
        "never the whole URL"
    );
    assert_eq!(received.value("host"), "gateway.test");
}

#[test]
fn absolute_form_of_an_internal_path_is_refused_like_its_origin_form() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    deployment
        .refused(
            &gateway,
            request(&format!("GET http://gateway.test{INTERNAL} HTTP/1.1")),
        )
        .assert_refusal(404, "not_found");
}

#[test]
fn absolute_form_for_another_authority_is_refused() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for url in [
        format!("http://other.example{CENTRAL}"),
        format!("http://gateway.test:81{CENTRAL}"),
        format!("http://user@gateway.test{CENTRAL}"),
        format!("ftp://gateway.test{CENTRAL}"),
        "http://gateway.test?x=1".to_owned(),
        "http://".to_owned(),
        "http:///api/v1/users/me".to_owned(),
    ] {
        let response = deployment.refused(&gateway, request(&format!("GET {url} HTTP/1.1")));
        assert_eq!(response.status, 400, "{url}");
    }
}

#[test]
fn fragments_are_refused_and_never_cut() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for target in [
        format!("{INTERNAL}#{CENTRAL}"),
        format!("{CENTRAL}#x"),
        format!("{CENTRAL}#"),
        format!("{CENTRAL}?a#b"),
    ] {
        let response = deployment.refused(&gateway, request(&format!("GET {target} HTTP/1.1")));
        response.assert_refusal(400, "invalid_target");
    }
}

#[test]
fn connect_and_trace_are_refused_without_a_dial() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let upstream = deployment.upstream("central").address();
    for line in [
        format!("CONNECT {upstream} HTTP/1.1"),
        "CONNECT gateway.test:443 HTTP/1.1".to_owned(),
        format!("TRACE {CENTRAL} HTTP/1.1"),
    ] {
        let before = deployment.traffic();
        let mut client = gateway.client();
        client.send(request(&line));
        let response = client.response();
        assert!(
            matches!(response.status, 400 | 405),
            "{line} was answered {}",
            response.status
        );
        assert_eq!(deployment.traffic(), before);
    }
}

#[test]
fn the_asterisk_form_is_answered_here_for_options_and_refused_otherwise() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let response = deployment.refused(&gateway, request("OPTIONS * HTTP/1.1"));
    assert!(matches!(response.status, 200 | 204 | 405), "{}", response.status);
    let response = deployment.refused(&gateway, request("GET * HTTP/1.1"));
    assert_eq!(response.status, 400);
}

#[test]
fn a_target_that_is_no_path_is_refused() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for target in [
        "api/v1/users/me",
        "?x=1",
        "gateway.test/api/v1/users/me",
        ".",
        "..",
        "*x",
    ] {
        let response = deployment.refused(&gateway, request(&format!("GET {target} HTTP/1.1")));
        assert_eq!(response.status, 400, "{target}");
    }
}

#[test]
fn an_encoded_question_mark_never_moves_the_end_of_the_path() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    // Raw, nobody owns this; read by a server that decodes before it looks for the query, central would.
    deployment
        .refused(&gateway, request("GET /api/v1/orgs%3fx HTTP/1.1"))
        .assert_refusal(404, "not_found");
}

#[test]
fn a_request_line_with_anything_else_is_refused() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for line in [
        format!("GET {CENTRAL} x HTTP/1.1"),
        format!("GET  {CENTRAL} HTTP/1.1"),
        format!("GET {CENTRAL}"),
        format!("G\u{e9}T {CENTRAL} HTTP/1.1"),
        format!("GET {CENTRAL} HTTP/2.0"),
        format!("GET {CENTRAL} HTTQ/1.1"),
    ] {
        let before = deployment.traffic();
        let mut client = gateway.client();
        client.send(request(&line));
        if let Ok(response) = client.try_response() {
            assert!(
                matches!(response.status, 400 | 505),
                "{line:?} was answered {}",
                response.status
            );
        }
        assert_eq!(deployment.traffic(), before, "{line:?}");
    }
}
