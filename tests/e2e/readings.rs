//! A path is forwarded only when every plausible reading of it has the same owner, and then byte for byte.

use crate::harness::client::request_bytes;
use crate::harness::deployment::Deployment;
use crate::harness::process::Gateway;
use crate::harness::{CENTRAL, WORKSPACE};

#[track_caller]
fn refused_with(deployment: &Deployment, gateway: &Gateway, target: &str, status: u16, code: &str) {
    let response = deployment.refused(gateway, request_bytes("GET", target, &[], b""));
    assert_eq!(response.status, status, "GET {target} must be refused with {status}");
    response.assert_refusal(status, code);
}

#[test]
fn spelling_variants_of_another_familys_path_are_refused() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for target in [
        "/api/v1/workspaces/w1/agents/a1/runtime%2Fext/d1/actions/run",
        "/api/v1/workspaces/w1/agents/a1/runtime%2fext",
        "/api/v1/workspaces/w1%2fagents%2fa1%2fruntime%2fext",
        "/api/v1/workspaces/w1/agents/a1/runtime%252Fext",
        "/api/v1/workspaces/w1/agents/a1/runtime/e%78t/d1",
        "/api/v1/workspaces/w1/agents/a1/runtime/e%2578t/d1",
        "/api/v1/workspaces/w1/agents/a1/%72untime/ext",
        "/api/v1/workspaces/w1/agents/a1/Runtime/ext/d1",
        "/api/v1/workspaces/w1/agents/a1/runtime/EXT",
        "/api/v1/workspaces/w1/agents/a1/runtime/ext;v=1/d1",
        "/api/v1/workspaces/w1/agents/a1/runtime;x/ext",
        "/api/v1/workspaces/w1/agents/a1/runtime%5Cext",
        "/api/v1/workspaces/w1/agents/a1/runtime/ext%3Fx",
        "/api/v1/workspaces/w1/agents/a1/runtime/ext%23x",
        "/api/v1/workspaces/w1/agents/a1/runt%C4%B1me/ext",
        "/api/v1/workspaces/w1/agent%C5%BF/a1/runtime/ext",
    ] {
        refused_with(&deployment, &gateway, target, 400, "ambiguous_path");
    }
}

#[test]
fn spelling_variants_of_internal_paths_are_unknown() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for target in [
        "/%61pi/internal/jobs",
        "/api/%69nternal/jobs",
        "/API/INTERNAL/jobs",
        "/api/internal%2Fjobs",
        "/api%2Finternal/jobs",
        "/api/Internal/jobs",
        "/api/internal;x/jobs",
        "/%2561pi/internal/jobs",
    ] {
        refused_with(&deployment, &gateway, target, 404, "not_found");
    }
}

#[test]
fn an_escape_that_changes_no_owner_passes_untouched() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for target in [
        "/api/v1/workspaces/w1/files/a%2Fb.txt",
        "/api/v1/workspaces/w1/files/a%2fb.txt",
        "/api/v1/workspaces/w1/files/100%25.txt",
        "/api/v1/workspaces/w1/files/%C3%A9t%C3%A9",
        "/api/v1/workspaces/w1/files/with%20space",
        "/api/v1/workspaces/w1/files/a..b/v1.2/.hidden",
        "/api/v1/workspaces/w1/files/a:b@c!$&'()*+,=~",
    ] {
        deployment.passes(&gateway, "workspace", target);
    }
}

#[test]
fn dot_segments_and_doubled_slashes_are_refused() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for target in [
        "/api/v1/workspaces/w1/../../../../internal/jobs",
        "/api/v1/workspaces/w1/../../../internal/jobs",
        "/api/v1/workspaces/w1/%2e%2e/%2e%2e/%2e%2e/internal/jobs",
        "/api/v1/workspaces/w1/.%2E/.%2E/.%2E/internal/jobs",
        "/api/v1/workspaces/w1/..%2f..%2f..%2finternal/jobs",
        "/api/v1/workspaces/w1/%252e%252e/%252e%252e/%252e%252e/internal/jobs",
        "/api/v1/workspaces/w1/..;/..;/..;/internal/jobs",
        "/api/v1/workspaces/w1/agents/a1/runtime/./ext",
        "/api/v1/workspaces/w1/agents/a1//runtime/ext",
        "/api/v1/workspaces/w1/agents/a1/runtime//ext",
        "/api/v1/workspaces/w1/x/../agents/a1/runtime/ext",
    ] {
        refused_with(&deployment, &gateway, target, 400, "ambiguous_path");
    }
    // The raw path of these is nobody's, so nothing is told about other readings.
    for target in [
        "//api/internal/jobs",
        "//api/v1/users/me",
        "//evil.example/api/v1/users/me",
        "/x/../api/v1/users/me",
    ] {
        refused_with(&deployment, &gateway, target, 404, "not_found");
    }
}

#[test]
fn nothing_is_ever_answered_with_a_redirect() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let variants = [
        format!("/{CENTRAL}"),
        format!("{CENTRAL}/"),
        "/api/v1//workspaces/w1/files/x".to_owned(),
        "/api/v1/./workspaces/w1/files/x".to_owned(),
        "/API/V1/USERS/ME".to_owned(),
        "/api/v1/workspaces//agents/a1/runtime/ext".to_owned(),
    ];
    for target in variants {
        let bytes = request_bytes("POST", &target, &[("Content-Length", "3")], b"abc");
        let response = gateway.exchange(bytes);
        assert!(
            !(300..400).contains(&response.status),
            "POST {target} was answered {}",
            response.status
        );
        assert!(response.values("location").is_empty());
    }
    // What did pass, passed with its bytes.
    for request in ["central", "workspace", "extension"]
        .iter()
        .flat_map(|f| deployment.upstream(f).requests())
    {
        assert_eq!(request.method(), "POST");
        assert_eq!(request.body, b"abc");
    }
}

#[test]
fn malformed_paths_are_refused_whoever_owns_them() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for suffix in [
        "%zz",
        "%",
        "%4",
        "%00",
        "%0a",
        "%0D%0A",
        "%7f",
        "%ff",
        "%c0%af",
        "%e0%80%af",
        "%ed%a0%80",
    ] {
        let target = format!("{WORKSPACE}{suffix}");
        refused_with(&deployment, &gateway, &target, 400, "invalid_target");
    }
    for suffix in [
        &b"\\"[..],
        b"\"",
        b"<",
        b">",
        b"[",
        b"]",
        b"^",
        b"`",
        b"{",
        b"|",
        b"}",
        b"\xc3\xa9",
        b"\x80",
        b"\x01",
        b"\x7f",
    ] {
        let mut bytes = format!("GET {WORKSPACE}").into_bytes();
        bytes.extend_from_slice(suffix);
        bytes.extend_from_slice(b" HTTP/1.1\r\nHost: gateway.test\r\n\r\n");
        let response = deployment.refused(&gateway, bytes);
        assert_eq!(response.status, 400, "{suffix:?}");
    }
}

#[test]
fn the_query_is_opaque() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for query in [
        "?next=/api/internal/jobs",
        "?path=../../runtime/ext",
        "?a=%zz&b=%00&c=%2e%2e%2f",
        "?",
        "??",
        "?x=//;..\\",
        "?x={a:[1]}|^`'",
    ] {
        deployment.passes(&gateway, "workspace", &format!("{WORKSPACE}{query}"));
        deployment.passes(&gateway, "central", &format!("{CENTRAL}{query}"));
    }
    // The last three are no part of any URI (RFC 3986), and the URI type under the proxy cannot carry them.
    for query in [
        &b"?a#b"[..],
        b"?a b",
        b"?a\x01",
        b"?\xc3\xa9",
        b"?\x7f",
        b"?\"",
        b"?<",
        b"?>",
    ] {
        let mut bytes = format!("GET {WORKSPACE}").into_bytes();
        bytes.extend_from_slice(query);
        bytes.extend_from_slice(b" HTTP/1.1\r\nHost: gateway.test\r\n\r\n");
        let response = deployment.refused(&gateway, bytes);
        assert_eq!(response.status, 400, "{query:?}");
    }
}

/// Names as people give them; no server reads one of them as anything else.
const NAMES: [&str; 10] = [
    "7e57ab1e-0000-4000-8000-00000000c0de",
    "01HV5QX9ZK3J8W2M4N6P7R8S9T",
    "2026-11-30T12:34:56.789Z",
    "v1.2.3",
    "Read.Me..TXT",
    "Quarterly%20Report%20(final).pdf",
    "%C3%A9t%C3%A9",
    "%e6%97%a5%e6%9c%ac",
    "100%25",
    "someone+tag@example.com",
];

/// The routes of the reference contract, each parameter as `{}`. The extension's last ones are kebab-case, which is the
/// contract's own word on what a name may be.
const ROUTES: [(&str, &str); 16] = [
    ("central", "/assets/{}"),
    ("central", "/api/v1/oauth/{}/callback"),
    ("central", "/api/v1/users/{}"),
    ("central", "/api/v1/orgs/{}"),
    ("central", "/api/v1/apps/{}"),
    ("central", "/api/v1/webhooks/{}"),
    ("workspace", "/api/v1/workspaces/{}"),
    ("workspace", "/api/v1/workspaces/{}/agents/{}"),
    ("workspace", "/api/v1/workspaces/{}/agents/{}/runtime/status"),
    ("workspace", "/api/v1/workspaces/{}/agents/{}/runtime/logs/{}"),
    ("workspace", "/api/v1/workspaces/{}/files/{}/{}"),
    ("workspace", "/api/v1/workspaces/{}/threads/{}/messages"),
    ("workspace", "/api/v1/workspaces/{}/threads/{}/events"),
    ("extension", "/api/v1/workspaces/{}/agents/{}/runtime/ext"),
    ("extension", "/api/v1/workspaces/{}/agents/{}/runtime/ext/github"),
    (
        "extension",
        "/api/v1/workspaces/{}/agents/{}/runtime/ext/github/actions/sync-all",
    ),
];

#[test]
fn no_name_in_a_free_parameter_is_refused_or_changed() {
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for (family, route) in ROUTES {
        for name in NAMES {
            deployment.passes(&gateway, family, &route.replace("{}", name));
        }
    }
}

#[test]
fn an_encoded_slash_in_a_name_passes_unchanged_unless_its_family_refuses_them() {
    let names = [
        ("central", "/api/v1/users/a%2Fb"),
        ("workspace", "/api/v1/workspaces/w1/agents/a%2fb"),
        ("workspace", "/api/v1/workspaces/w1/files/a%252Fb%2Fc"),
    ];
    let deployment = Deployment::new();
    let gateway = deployment.start();
    for (family, target) in names {
        deployment.passes(&gateway, family, target);
    }
    let contract = include_str!("../../config/agentteam/contract.toml");
    let claims = "claims = [\"/api/v1/workspaces/{workspace}/**\"]";
    let stricter = contract.replace(claims, &format!("{claims}\nencoded_slash = \"refuse\""));
    assert_ne!(contract, stricter);
    let deployment = Deployment::new().with_contract(&stricter);
    let gateway = deployment.start();
    for (family, target) in names {
        if family == "workspace" {
            refused_with(&deployment, &gateway, target, 400, "ambiguous_path");
        } else {
            deployment.passes(&gateway, family, target);
        }
    }
    deployment.passes(&gateway, "workspace", "/api/v1/workspaces/w1/files/a%20b");
}

#[test]
fn a_header_that_names_another_path_reaches_only_an_upstream_that_asks_for_it() {
    let misleading = [
        ("X-Original-URL", "/api/internal/jobs"),
        ("X-Rewrite-URL", "/api/internal/jobs"),
        ("X_Original_URL", "/api/internal/jobs"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-Forwarded-Prefix", "/api/internal"),
    ];
    let deployment = Deployment::new().with_upstream_keys("workspace", "pass_headers = [\"X-Original-URL\"]");
    let gateway = deployment.start();
    for target in [CENTRAL, WORKSPACE] {
        assert_eq!(gateway.client().request("GET", target, &misleading).status, 200);
    }
    let received = deployment.upstream("workspace").only_request();
    assert_eq!(received.value("x-original-url"), "/api/internal/jobs");
    for (name, _) in misleading.iter().skip(1) {
        assert!(received.values(name).is_empty(), "{name}");
    }
    let received = deployment.upstream("central").only_request();
    for (name, _) in misleading {
        assert!(received.values(name).is_empty(), "{name}");
    }
}
