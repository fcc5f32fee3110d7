//! `/config`: the effective configuration as `gateway config` prints it, without what a caller is not to see.

use serde_json::Value;

use super::access::Sight;
use crate::config::{Loaded, effective};

/// What stands in place of a value that is not shown.
const NOT_SHOWN: &str = "(not shown)";

/// The values and where each came from. Secrets stand in files of their own, so none is among them; of a probe's target
/// the query is cut off, as it may hold one.
///
/// # Errors
/// As [`effective::json`].
pub fn shown(loaded: &Loaded, sight: Sight) -> Result<Value, serde_json::Error> {
    let mut shown = effective::json(loaded)?;
    let tables = shown.pointer_mut("/values/upstream").and_then(Value::as_object_mut);
    for table in tables.into_iter().flatten().map(|(_, table)| table) {
        if let Some(path) = table.pointer_mut("/ready/path") {
            without_query(path);
        }
        if sight == Sight::WithoutUpstreams {
            for place in ["/url", "/urls", "/ready/path", "/tls/server_name"] {
                if let Some(value) = table.pointer_mut(place).filter(|value| !value.is_null()) {
                    *value = NOT_SHOWN.into();
                }
            }
        }
    }
    Ok(shown)
}

fn without_query(target: &mut Value) {
    if let Some((path, _)) = target.as_str().and_then(|text| text.split_once('?')) {
        *target = format!("{path}?{NOT_SHOWN}").into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_source;
    use route_contract::diagnostic::Source;
    use std::path::Path;

    #[test]
    fn a_stranger_reads_no_upstream_and_nobody_a_probes_query() {
        let text = "contract = \"c\"\n[listen]\npublic = \"127.0.0.1:0\"\n[admin]\ntoken = \"file:secret-token\"\n\
                    [upstream.a]\nurl = \"https://inner-a:8443\"\nready = \"/hz?token=abc\"\n\
                    [upstream.a.tls]\nserver_name = \"inner-name\"\n\
                    [upstream.b]\nurls = [\"http://inner-b:1\", \"http://10.1.2.3\"]\nready = false\n";
        let loaded = load_source(&Source::new("g", text), Path::new(""), &|_| None).unwrap();
        let whole = shown(&loaded, Sight::Whole).unwrap().to_string();
        assert!(
            whole.contains("https://inner-a:8443") && whole.contains("/hz?(not shown)"),
            "{whole}"
        );
        assert!(whole.contains("file:secret-token") && !whole.contains("abc"), "{whole}");
        let less = shown(&loaded, Sight::WithoutUpstreams).unwrap().to_string();
        for part in ["inner", "8443", "10.1.2.3", "/hz", "abc"] {
            assert!(!less.contains(part), "{part} in {less}");
        }
        assert!(less.contains("response_timeout"), "{less}");
    }
}
