//! Hostile requests by the ten thousand: whatever they hold, the number of series and the memory stay what they were.

use std::collections::BTreeSet;

use crate::harness::client::request_bytes;
use crate::harness::deployment::Deployment;
use crate::harness::process::Gateway;
use crate::observed;

/// The names of all series with their labels.
fn series(gateway: &Gateway) -> BTreeSet<String> {
    let text = gateway.admin_get("/metrics").text();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()))
        .collect()
}

/// The next request: paths of every family and of none, hosts, methods, upgrades and heads that are none.
fn request(n: usize) -> Vec<u8> {
    let random = fastrand::u64(..);
    let get = |target: &str| request_bytes("GET", target, &[], b"");
    match n % 10 {
        0 => get(&format!("/{random:x}/{n}")),
        1 => get(&format!("/api/internal/{random:x}")),
        2 => get(&format!("/api/v1/workspaces/{random:x}/files/{n}")),
        3 => get(&format!(
            "/api/v1/workspaces/w/agents/{random:x}/runtime/ext/d{n}/actions/a{n}"
        )),
        4 => get(&format!("/api/v1/workspaces/w/agents/a/runtime%2Fext/{random:x}")),
        5 => format!("GET /api/v1/users/me HTTP/1.1\r\nHost: H{random:x}.example.:80\r\n\r\n").into_bytes(),
        6 => format!("M{random:x} /api/v1/users/me HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes(),
        7 => request_bytes(
            "GET",
            "/api/v1/users/me",
            &[("Connection", "Upgrade"), ("Upgrade", &format!("p{random:x}"))],
            b"",
        ),
        8 => format!("GET /{random:x} HTTP/1.1\r\n\r\n").into_bytes(),
        _ => format!("{random:x} nonsense\r\n\r\n").into_bytes(),
    }
}

#[test]
#[ignore = "50,000 requests: make hostile"]
fn hostile_requests_leave_series_and_memory_as_they_were() {
    let _alone = crate::alone();
    let count = std::env::var("HOSTILE_REQUESTS").map_or(50_000, |text| text.parse().expect("a number"));
    let deployment = Deployment::new();
    let gateway = deployment.start();
    let send = |range: std::ops::Range<usize>| {
        for n in range {
            let mut client = gateway.client();
            let _ = client.send_what_is_taken(request(n));
            let _ = client.try_response();
        }
    };
    send(0..count / 10);
    let (before, resident) = (series(&gateway), observed::resident(&gateway));
    send(0..count);
    let (after, later) = (series(&gateway), observed::resident(&gateway));
    println!(
        "{count} requests: {} series, from {resident} KiB to {later} KiB",
        after.len()
    );
    let added: Vec<_> = after.difference(&before).collect();
    assert!(added.is_empty(), "new series: {added:#?}");
    assert!(later * 100 <= resident * 105, "from {resident} KiB to {later} KiB");
}
