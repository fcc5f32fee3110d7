//! JSON Lines: one route a line, `{"method", "path", "profile"?, "source"?}`; what exporters write.

use super::tree::{Node, Tree};
use super::{Import, Sink};
use crate::contract::{CODES, codes};
use crate::diagnostic::{Diagnostic, Place, did_you_mean};

const KEYS: [&str; 4] = ["method", "path", "profile", "source"];

pub fn read(import: &Import<'_>, sink: &mut Sink<'_>) {
    let mut start = 0;
    for line in import.source.text.split_inclusive('\n') {
        let span = start..start + line.trim_end().len();
        start += line.len();
        let text = import.source.text.get(span.clone()).unwrap_or_default();
        let text = text.trim_start_matches(['\u{feff}', ' ', '\t']);
        if text.is_empty() {
            continue;
        }
        if sink.is_full() {
            return;
        }
        if !text.starts_with('{') {
            let fault = Diagnostic::error(CODES.syntax, "each line is one JSON object");
            sink.fault(fault, &Place::new(import.source, span));
            continue;
        }
        match Tree::parse_part(import.source, span.end - text.len()..span.end) {
            Ok(tree) => tree.documents().for_each(|document| route(document, import, sink)),
            Err(faults) => sink.out.faults.extend(faults),
        }
    }
}

fn route(line: Node<'_>, import: &Import<'_>, sink: &mut Sink<'_>) {
    for (key, node, _) in line.entries().into_iter().flatten() {
        if !KEYS.contains(&key) {
            let fault = Diagnostic::error(CODES.unknown_key, format!("unknown key `{key}`"));
            let fault = match did_you_mean(key, KEYS) {
                Some(meant) => fault.with_help(format!("did you mean `{meant}`?")),
                None => fault.with_help("the keys here are `method`, `path`, `profile` and `source`"),
            };
            sink.fault(fault, &node.place());
            return;
        }
    }
    for key in ["profile", "source"] {
        if let Some(value) = line.get(key)
            && value.text().is_none()
        {
            sink.wrong(value, "a text");
            return;
        }
    }
    // A name that no profile bears would leave the route out of every profile.
    if let Some(node) = line.get("profile")
        && let Some(profile) = node.text()
    {
        if !import.profiles.contains(&profile) {
            let fault = Diagnostic::error(codes::UNKNOWN_NAME, format!("there is no profile `{profile}`"));
            let fault = match did_you_mean(profile, import.profiles.iter().copied()) {
                Some(meant) => fault.with_help(format!("did you mean `{meant}`?")),
                None => fault,
            };
            sink.fault(fault, &node.place());
            return;
        }
        if profile != import.profile {
            return;
        }
    }
    let (Some(method), Some(path)) = (line.get("method"), line.get("path")) else {
        for key in ["method", "path"] {
            if line.get(key).is_none() {
                sink.missing(line, key);
            }
        }
        return;
    };
    let Some(text) = path.text() else {
        sink.wrong(path, "a path");
        return;
    };
    if let Some(method) = sink.method(method) {
        sink.add(&method, "", text, import.syntax, &path.place());
    }
}
