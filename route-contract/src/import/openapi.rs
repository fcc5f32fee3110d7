//! OpenAPI 3.0 and 3.1: the paths of a description, below the base paths of its servers.
//!
//! `servers` of the document, of a path and of an operation replace each other in this order. Each different
//! base path counts; the host plays no part. `webhooks` are not served and are left out.

use std::collections::HashMap;

use super::Sink;
use super::path_syntax::PathSyntax;
use super::tree::{Node, Tree};
use crate::contract::{CODES, Method, codes};
use crate::diagnostic::{Diagnostic, did_you_mean};

/// The keys of a path item that are operations.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// The other keys of a path item.
const OTHER: [&str; 5] = ["$ref", "summary", "description", "servers", "parameters"];

/// The most references that lead from one path item to the next.
const MAX_REFERENCES: usize = 16;

pub fn read(tree: &Tree<'_>, sink: &mut Sink<'_>) {
    let mut documents = tree.documents();
    let Some(root) = documents.next() else { return };
    if let Some(second) = documents.next() {
        sink.wrong(second, "one document only");
        return;
    }
    if !version(root, sink) {
        return;
    }
    let Some(paths) = root.get("paths") else {
        sink.missing(root, "paths");
        return;
    };
    let Some(entries) = paths.entries() else {
        sink.wrong(paths, "a mapping of paths");
        return;
    };
    let bases = match root.get("servers") {
        Some(servers) => bases(servers, sink),
        None => vec![String::new()],
    };
    let references = References::new(root, paths);
    for (path, key, item) in entries {
        if sink.is_full() {
            return;
        }
        if !path.starts_with("x-") {
            path_item(path, key, item, &bases, &references, sink);
        }
    }
}

fn version(root: Node<'_>, sink: &mut Sink<'_>) -> bool {
    let Some(node) = root.get("openapi") else {
        match root.get("swagger") {
            Some(swagger) => {
                let fault = Diagnostic::error(CODES.invalid_value, "Swagger 2.0 is not read");
                sink.fault(fault.with_help("convert it to OpenAPI 3"), &swagger.place());
            }
            None => sink.missing(root, "openapi"),
        }
        return false;
    };
    let text = node.text().unwrap_or_default();
    let known = ["3.0", "3.1"]
        .iter()
        .any(|known| text == *known || text.starts_with(&format!("{known}.")));
    if !known {
        let fault = Diagnostic::error(CODES.invalid_value, format!("OpenAPI `{text}` is not read"));
        sink.fault(
            fault.with_help("the versions that are read are 3.0 and 3.1"),
            &node.place(),
        );
    }
    known
}

fn path_item(
    path: &str,
    key: Node<'_>,
    item: Node<'_>,
    bases: &[String],
    references: &References<'_>,
    sink: &mut Sink<'_>,
) {
    let Some(item) = references.resolve(item, sink) else {
        return;
    };
    let Some(entries) = item.entries() else {
        if item.is_null() {
            add(&any(), bases, path, key, sink);
        } else {
            sink.wrong(item, "a path item");
        }
        return;
    };
    let own = item.get("servers").map(|servers| self::bases(servers, sink));
    let bases = own.as_deref().unwrap_or(bases);
    let mut operations = 0;
    for (name, node, operation) in entries {
        if METHODS.contains(&name) {
            operations += 1;
            let Ok(method) = Method::parse(&name.to_ascii_uppercase()) else {
                continue;
            };
            if !operation.is_mapping() {
                sink.wrong(operation, "an operation");
                continue;
            }
            let own = operation.get("servers").map(|servers| self::bases(servers, sink));
            add(&method, own.as_deref().unwrap_or(bases), path, key, sink);
        } else if !OTHER.contains(&name) && !name.starts_with("x-") {
            let fault = Diagnostic::error(
                CODES.unknown_key,
                format!("`{name}` is no method and no key of a path item"),
            );
            let fault = match did_you_mean(name, METHODS.into_iter().chain(OTHER)) {
                Some(meant) => fault.with_help(format!("did you mean `{meant}`?")),
                None => fault,
            };
            sink.fault(fault, &node.place());
        }
    }
    // A path whose operations are kept back is registered all the same.
    if operations == 0 {
        add(&any(), bases, path, key, sink);
    }
}

fn any() -> Method {
    Method::any()
}

fn add(method: &Method, bases: &[String], path: &str, key: Node<'_>, sink: &mut Sink<'_>) {
    let place = key.place();
    for base in bases {
        sink.add(method, base, path, PathSyntax::OpenApi, &place);
    }
}

/// The different base paths of a list of servers; `/` alone where the list is empty.
fn bases(servers: Node<'_>, sink: &mut Sink<'_>) -> Vec<String> {
    let Some(items) = servers.items() else {
        sink.wrong(servers, "a list of servers");
        return Vec::new();
    };
    let mut bases: Vec<String> = Vec::new();
    let mut any = false;
    for server in items {
        any = true;
        let Some(url) = server.get("url") else {
            sink.missing(server, "url");
            continue;
        };
        let written = url.text().unwrap_or_default();
        match substituted(written, server).and_then(|url| base_path(&url)) {
            Ok(base) if bases.contains(&base) => {}
            Ok(base) => bases.push(base),
            Err(why) => {
                let message = format!("the base path of the server `{written}` cannot be told: {why}");
                sink.fault(Diagnostic::error(CODES.invalid_value, message), &url.place());
            }
        }
        if sink.is_full() {
            break;
        }
    }
    if !any {
        bases.push(String::new());
    }
    bases
}

/// Puts the defaults of its variables into a server's URL.
fn substituted(url: &str, server: Node<'_>) -> Result<String, String> {
    let mut whole = String::with_capacity(url.len());
    let mut rest = url;
    while let Some((before, variable)) = rest.split_once('{') {
        let Some((name, after)) = variable.split_once('}') else {
            return Err("a brace without its partner".to_owned());
        };
        let default = server
            .get("variables")
            .and_then(|variables| variables.get(name))
            .and_then(|variable| variable.get("default"))
            .and_then(Node::text)
            .ok_or_else(|| format!("the variable `{name}` has no default"))?;
        whole.push_str(before);
        whole.push_str(default);
        rest = after;
    }
    whole.push_str(rest);
    Ok(whole)
}

/// The path of a URL, without a slash at its end.
fn base_path(url: &str) -> Result<String, String> {
    if url.contains(['?', '#']) {
        return Err("it has a query or a fragment".to_owned());
    }
    if url.contains(['{', '}']) {
        return Err("a brace stands in a variable's default".to_owned());
    }
    let authority = url
        .split_once("://")
        .filter(|(scheme, _)| {
            scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme
                    .chars()
                    .all(|next| next.is_ascii_alphanumeric() || "+-.".contains(next))
        })
        .map(|(_, rest)| rest)
        .or_else(|| url.strip_prefix("//"));
    let path = match authority {
        Some(rest) => rest.find('/').and_then(|slash| rest.get(slash..)).unwrap_or_default(),
        None if url.starts_with('/') => url,
        None => return Err("it is relative to where the description is served".to_owned()),
    };
    Ok(path.strip_suffix('/').unwrap_or(path).to_owned())
}

/// The path items that another may refer to.
struct References<'t> {
    components: HashMap<&'t str, Node<'t>>,
    paths: HashMap<&'t str, Node<'t>>,
}

impl<'t> References<'t> {
    fn new(root: Node<'t>, paths: Node<'t>) -> Self {
        let index = |mapping: Node<'t>| -> HashMap<&'t str, Node<'t>> {
            mapping
                .entries()
                .into_iter()
                .flatten()
                .map(|(key, _, value)| (key, value))
                .collect()
        };
        let components = root
            .get("components")
            .and_then(|components| components.get("pathItems"));
        Self {
            components: components.map(index).unwrap_or_default(),
            paths: index(paths),
        }
    }

    /// Follows `$ref`; `None` after a fault.
    fn resolve(&self, item: Node<'t>, sink: &mut Sink<'_>) -> Option<Node<'t>> {
        let mut item = item;
        for _ in 0..MAX_REFERENCES {
            let Some(reference) = item.get("$ref") else {
                return Some(item);
            };
            let beside = item
                .entries()
                .into_iter()
                .flatten()
                .find(|(key, _, _)| METHODS.contains(key));
            if let Some((_, key, _)) = beside {
                let message = "an operation beside `$ref`, which OpenAPI leaves undefined";
                sink.fault(Diagnostic::error(CODES.invalid_value, message), &key.place());
                return None;
            }
            match self.find(reference.text().unwrap_or_default()) {
                Some(next) => item = next,
                None => {
                    let fault =
                        Diagnostic::error(codes::UNKNOWN_NAME, "the reference leads to no path item of this file");
                    let help = "write the path item here, or under `components.pathItems`";
                    sink.fault(fault.with_help(help), &reference.place());
                    return None;
                }
            }
        }
        let fault = Diagnostic::error(
            CODES.invalid_value,
            format!("more than {MAX_REFERENCES} references in a row"),
        );
        sink.fault(fault, &item.place());
        None
    }

    /// A JSON pointer (RFC 6901) to a path item.
    fn find(&self, reference: &str) -> Option<Node<'t>> {
        let unescape = |token: &str| token.replace("~1", "/").replace("~0", "~");
        if let Some(token) = reference.strip_prefix("#/components/pathItems/") {
            return self.components.get(unescape(token).as_str()).copied();
        }
        let token = reference.strip_prefix("#/paths/")?;
        // In a URI fragment the braces of a path may be written as escapes.
        let token = token
            .replace("%7B", "{")
            .replace("%7D", "}")
            .replace("%7b", "{")
            .replace("%7d", "}");
        self.paths.get(unescape(&token).as_str()).copied()
    }
}
