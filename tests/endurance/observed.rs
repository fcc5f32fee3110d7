//! What a running gateway holds: descriptors, memory, and what its metrics say.

use std::fs;

use crate::harness::process::Gateway;

/// Open descriptors.
pub fn descriptors(gateway: &Gateway) -> usize {
    let entries = fs::read_dir(format!("/proc/{}/fd", gateway.pid())).expect("the process's descriptors");
    entries.count()
}

/// Resident memory in KiB.
pub fn resident(gateway: &Gateway) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.pid())).expect("the process's status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .expect("the resident memory")
}

/// The sum of all series with this start.
pub fn metric(gateway: &Gateway, start: &str) -> f64 {
    let text = gateway.admin_get("/metrics").text();
    let values = text.lines().filter(|line| line.starts_with(start));
    values
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}
