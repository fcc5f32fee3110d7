//! What a reload cannot change: what was taken when the gateway started.

use route_contract::diagnostic::Diagnostic;
use serde_json::Value;

use crate::config::{Config, Loaded, codes};

/// The keys and tables that a reload takes over. All others are a restart's, so that a new key is not taken for one that
/// has an effect before somebody has made it so.
const RELOADABLE: [&[&str]; 17] = [
    &["contract"],
    &["watch"],
    &["readiness"],
    &["forwarded"],
    &["upstream"],
    &["drain"],
    &["upgrade"],
    &["limits", "in_flight"],
    &["limits", "target"],
    &["limits", "head"],
    &["limits", "headers"],
    &["limits", "body"],
    &["limits", "head_timeout"],
    &["limits", "idle_timeout"],
    &["limits", "client_timeout"],
    &["limits", "min_rate"],
    &["limits", "tunnel_timeout"],
];
/// HTTP/2's measures are agreed on with each connection.
const PER_CONNECTION: &[&str] = &["listen", "http2"];

/// Finds every key that has another value than `present` has it and that only a restart can change. The findings hold
/// keys alone, no values.
pub fn check(present: &Config, loaded: &Loaded) -> Vec<Diagnostic> {
    let trees = serde_json::to_value(present).and_then(|present| Ok((present, serde_json::to_value(&loaded.config)?)));
    // A configuration can always be serialized; were it not so, nothing could be said to be the same.
    let Ok((present, next)) = trees else {
        return vec![Diagnostic::error(
            codes::NEEDS_RESTART,
            "the configuration cannot be compared",
        )];
    };
    let mut keys = Vec::new();
    differing(&mut Vec::new(), &present, &next, &mut keys);
    keys.iter()
        .map(|key| {
            let path: Vec<&str> = key.iter().map(String::as_str).collect();
            let message = format!("`{}` has changed, and only a restart can change it", key.join("."));
            Diagnostic::error(codes::NEEDS_RESTART, message)
                .at(loaded.key_place(&path))
                .with_help("restart the gateway, or set the key back; until then nothing of this file is taken over")
        })
        .collect()
}

fn differing(path: &mut Vec<String>, present: &Value, next: &Value, found: &mut Vec<Vec<String>>) {
    if present == next || is_reloadable(path) {
        return;
    }
    // A table that is there on one side alone is named as a whole.
    let (Value::Object(present), Value::Object(next)) = (present, next) else {
        found.push(path.clone());
        return;
    };
    let mut keys: Vec<&String> = present.keys().chain(next.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let value = |table: &serde_json::Map<String, Value>| table.get(key).cloned().unwrap_or_default();
        path.push(key.clone());
        differing(path, &value(present), &value(next), found);
        path.pop();
    }
}

fn is_reloadable(path: &[String]) -> bool {
    let is = |keys: &[&str]| path.iter().map(String::as_str).eq(keys.iter().copied());
    RELOADABLE.iter().any(|keys| is(keys)) || is(PER_CONNECTION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_source;
    use route_contract::diagnostic::Source;
    use std::path::Path;

    const TEXT: &str = "contract = \"c\"\nthreads = 2\n[listen]\npublic = \"127.0.0.1:8080\"\n[limits]\nbody = \"1MiB\"\n\
                        connections = 10\n[upstream.a]\nurl = \"http://s3cret\"\n";

    fn load(text: &str) -> Loaded {
        load_source(&Source::new("g", text), Path::new(""), &|_| None).unwrap()
    }

    #[test]
    fn keys_of_a_restart_are_named_with_their_places_and_no_values() {
        let present = load(TEXT).config;
        for (from, to, found) in [
            ("threads", "threads", ""),
            ("\"1MiB\"", "\"2MiB\"", ""),
            ("http://s3cret", "http://other", ""),
            ("8080\"\n", "8080\"\n[listen.http2]\nstreams = 7\n", ""),
            ("threads = 2", "threads = 3", "g:2:1 `threads`"),
            ("connections = 10", "connections = 11", "g:7:1 `limits.connections`"),
            ("8080", "8081", "g:4:1 `listen.public`"),
            (
                "8080\"\n",
                "8080\"\n[listen.tls]\ncert = \"s3cret\"\nkey = \"s3cret\"\n",
                "g:5:9 `listen.tls`",
            ),
        ] {
            let found_now: Vec<String> = check(&present, &load(&TEXT.replace(from, to)))
                .iter()
                .map(|fault| {
                    assert!(!fault.message.contains("s3cret"));
                    let key = fault.message.split(' ').next().unwrap_or_default();
                    format!("{} {key}", fault.place.as_ref().unwrap())
                })
                .collect();
            assert_eq!(found_now.join(", "), found, "{from} to {to}");
        }
    }
}
