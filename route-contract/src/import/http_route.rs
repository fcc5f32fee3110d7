//! Kubernetes Gateway API: the paths that the rules of HTTPRoutes match.
//!
//! Host names, headers and query parameters tell rules apart, not paths: they play no part here. Documents of
//! other kinds in the file are no routes and are left out.

use super::Sink;
use super::tree::{Node, Tree};
use crate::contract::{CODES, Method, codes};
use crate::diagnostic::Diagnostic;

const GROUP: &str = "gateway.networking.k8s.io/";

pub fn read(tree: &Tree<'_>, sink: &mut Sink<'_>) {
    let mut found = 0;
    let mut first = None;
    for document in tree.documents() {
        if document.is_null() {
            continue;
        }
        first.get_or_insert(document);
        object(document, 0, &mut found, sink);
    }
    if let (0, Some(first)) = (found, first) {
        let fault = Diagnostic::error(CODES.missing_key, "the file holds no HTTPRoute");
        sink.fault(fault, &first.place());
    }
    // Rules that differ in a header say the same path again.
    sink.distinct();
}

fn object(object: Node<'_>, depth: usize, found: &mut usize, sink: &mut Sink<'_>) {
    let Some(kind) = object.get("kind") else {
        sink.missing(object, "kind");
        return;
    };
    match kind.text().unwrap_or_default() {
        "List" | "HTTPRouteList" if depth == 0 => match object.get("items").map(|items| (items, items.items())) {
            Some((_, Some(items))) => items.for_each(|item| self::object(item, depth + 1, found, sink)),
            Some((items, None)) => sink.wrong(items, "a list of objects"),
            None => {}
        },
        "HTTPRoute" => {
            let version = object.get("apiVersion").and_then(Node::text).unwrap_or_default();
            if !version.starts_with(GROUP) {
                let message = format!("an HTTPRoute of `{version}` is not read");
                let help = format!("the group that is read is `{}`", GROUP.trim_end_matches('/'));
                sink.fault(
                    Diagnostic::error(CODES.invalid_value, message).with_help(help),
                    &kind.place(),
                );
                return;
            }
            *found += 1;
            route(object, sink);
        }
        "GRPCRoute" => {
            let message = "a GRPCRoute is not read: its matches are methods of a service";
            let help = "write the paths `/{service}/{method}` in a TOML manifest, and keep the object in another file";
            sink.fault(
                Diagnostic::error(codes::TEMPLATE, message).with_help(help),
                &kind.place(),
            );
        }
        _ => {}
    }
}

fn route(route: Node<'_>, sink: &mut Sink<'_>) {
    let rules = route.get("spec").and_then(|spec| spec.get("rules"));
    // Without rules, or without matches in a rule, the object matches everything.
    let Some(rules) = rules else {
        sink.add_literal(&Method::any(), "/", true, &route.place());
        return;
    };
    let Some(items) = rules.items() else {
        sink.wrong(rules, "a list of rules");
        return;
    };
    for rule in items {
        if sink.is_full() {
            return;
        }
        match rule.get("matches").map(|matches| (matches, matches.items())) {
            None => sink.add_literal(&Method::any(), "/", true, &rule.place()),
            Some((matches, None)) => sink.wrong(matches, "a list of matches"),
            Some((_, Some(matches))) => {
                let mut any = false;
                for matched in matches {
                    any = true;
                    self::matched(matched, sink);
                }
                if !any {
                    sink.add_literal(&Method::any(), "/", true, &rule.place());
                }
            }
        }
    }
}

fn matched(matched: Node<'_>, sink: &mut Sink<'_>) {
    let method = match matched.get("method") {
        None => Method::any(),
        Some(node) => match sink.method(node) {
            Some(method) => method,
            None => return,
        },
    };
    let Some(path) = matched.get("path") else {
        sink.add_literal(&method, "/", true, &matched.place());
        return;
    };
    let kind = path.get("type");
    let (value, place) = match path.get("value") {
        Some(node) => (node.text().unwrap_or_default(), node.place()),
        None => ("/", path.place()),
    };
    match kind.and_then(Node::text).unwrap_or("PathPrefix") {
        "Exact" => sink.add_literal(&method, value, false, &place),
        "PathPrefix" => sink.add_literal(&method, value, true, &place),
        "RegularExpression" => {
            if !sink.is_left_out(value) {
                sink.unsayable(value, "a regular expression over the whole path", &place);
            }
        }
        other => {
            let message = format!("`{other}` is no type of a path match");
            let help = "the types are `Exact`, `PathPrefix` and `RegularExpression`";
            sink.fault(
                Diagnostic::error(CODES.invalid_value, message).with_help(help),
                &path.place(),
            );
        }
    }
}
