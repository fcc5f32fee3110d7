//! Spring Boot: what `/actuator/mappings` answers, for servlets and for WebFlux.
//!
//! Filters serve nothing and are left out. A functional route is an error: the answer does not say in which
//! path it is nested.

use super::Sink;
use super::path_syntax::PathSyntax;
use super::tree::{Node, Tree};
use crate::contract::{CODES, Method};
use crate::diagnostic::Diagnostic;

pub fn read(tree: &Tree<'_>, sink: &mut Sink<'_>) {
    let Some(root) = tree.documents().next() else { return };
    let Some(contexts) = root.get("contexts") else {
        sink.missing(root, "contexts");
        return;
    };
    let Some(entries) = contexts.entries() else {
        sink.wrong(contexts, "a mapping of contexts");
        return;
    };
    for (_, _, context) in entries {
        let Some(mappings) = context.get("mappings") else {
            sink.missing(context, "mappings");
            continue;
        };
        let Some(parts) = mappings.entries() else {
            sink.wrong(mappings, "a mapping");
            continue;
        };
        let servlets = Servlets::new(mappings);
        for (name, key, part) in parts {
            match name {
                "dispatcherServlets" | "dispatcherHandlers" => dispatchers(part, &servlets, sink),
                "servlets" => servlets.others(sink),
                "servletFilters" => {}
                other => {
                    let fault = Diagnostic::error(
                        CODES.unknown_key,
                        format!("mappings of the kind `{other}` are not read"),
                    );
                    sink.fault(fault, &key.place());
                }
            }
        }
    }
    // Mappings that differ in a header or in what they produce say the same path again.
    sink.distinct();
}

fn dispatchers(dispatchers: Node<'_>, servlets: &Servlets<'_>, sink: &mut Sink<'_>) {
    let Some(entries) = dispatchers.entries() else {
        sink.wrong(dispatchers, "a mapping of dispatchers");
        return;
    };
    for (name, _, list) in entries {
        let Some(items) = list.items() else {
            sink.wrong(list, "a list of mappings");
            continue;
        };
        let bases = servlets.bases(name, sink);
        for item in items {
            if sink.is_full() {
                return;
            }
            mapping(item, &bases, sink);
        }
    }
}

fn mapping(mapping: Node<'_>, bases: &[String], sink: &mut Sink<'_>) {
    let conditions = mapping
        .get("details")
        .and_then(|details| details.get("requestMappingConditions"));
    let Some(conditions) = conditions else {
        return without_conditions(mapping, bases, sink);
    };
    let methods = match conditions.get("methods").and_then(Node::items) {
        None => vec![Method::any()],
        Some(items) => {
            let mut methods: Vec<Method> = items.filter_map(|node| sink.method(node)).collect();
            if methods.is_empty() {
                methods.push(Method::any());
            }
            methods
        }
    };
    let mut any = false;
    for pattern in conditions.get("patterns").and_then(Node::items).into_iter().flatten() {
        any = true;
        let Some(text) = pattern.text() else {
            sink.wrong(pattern, "a pattern");
            continue;
        };
        for method in &methods {
            for base in bases {
                sink.add(method, base, text, PathSyntax::Spring, &pattern.place());
            }
        }
    }
    if !any {
        let place = mapping.get("predicate").unwrap_or(mapping).place();
        let fault = Diagnostic::error(CODES.missing_key, "the mapping has no pattern");
        sink.fault(fault, &place);
    }
}

/// Resource handlers have a pattern for their predicate; functional routes have an expression.
fn without_conditions(mapping: Node<'_>, bases: &[String], sink: &mut Sink<'_>) {
    let Some(predicate) = mapping.get("predicate") else {
        sink.missing(mapping, "predicate");
        return;
    };
    let text = predicate.text().unwrap_or_default();
    let place = predicate.place();
    let functional = mapping
        .get("details")
        .is_some_and(|details| details.get("handlerFunction").is_some());
    if text.starts_with('/') && !functional {
        for base in bases {
            sink.add(&Method::any(), base, text, PathSyntax::Spring, &place);
        }
    } else if !sink.is_left_out(text) {
        sink.unsayable(
            text,
            "a functional route is listed without the path that it is nested in",
            &place,
        );
    }
}

/// The servlets of a context, and which of them dispatch to the mappings.
struct Servlets<'t> {
    servlets: Vec<Servlet<'t>>,
}

struct Servlet<'t> {
    name: &'t str,
    dispatches: bool,
    mappings: Vec<Node<'t>>,
}

impl<'t> Servlets<'t> {
    fn new(context: Node<'t>) -> Self {
        let dispatchers: Vec<&str> = context
            .get("dispatcherServlets")
            .and_then(Node::entries)
            .into_iter()
            .flatten()
            .map(|(name, _, _)| name)
            .collect();
        let listed = context.get("servlets").and_then(Node::items);
        let servlets = listed
            .into_iter()
            .flatten()
            .map(|servlet| {
                let name = servlet.get("name").and_then(Node::text).unwrap_or_default();
                Servlet {
                    name,
                    dispatches: dispatchers.contains(&name),
                    mappings: servlet
                        .get("mappings")
                        .and_then(Node::items)
                        .into_iter()
                        .flatten()
                        .collect(),
                }
            })
            .collect();
        Self { servlets }
    }

    /// Where a dispatcher is mounted: its patterns are relative to it.
    fn bases(&self, dispatcher: &str, sink: &mut Sink<'_>) -> Vec<String> {
        let mappings = self
            .servlets
            .iter()
            .filter(|servlet| servlet.name == dispatcher)
            .flat_map(|servlet| &servlet.mappings);
        let mut bases: Vec<String> = Vec::new();
        for node in mappings {
            match node.text().unwrap_or_default() {
                "/" | "/*" => bases.push(String::new()),
                other => match other.strip_suffix("/*") {
                    Some(base) => bases.push(base.to_owned()),
                    None => sink.unsayable(other, "a dispatcher is mounted at `/` or at `/.../*`", &node.place()),
                },
            }
        }
        if bases.is_empty() {
            bases.push(String::new());
        }
        bases
    }

    /// The servlets that serve paths themselves (Jakarta Servlet 6.0, section 12.2).
    fn others(&self, sink: &mut Sink<'_>) {
        for servlet in self.servlets.iter().filter(|servlet| !servlet.dispatches) {
            for node in &servlet.mappings {
                let text = node.text().unwrap_or_default();
                let place = node.place();
                match text.strip_suffix("/*") {
                    Some(base) => {
                        sink.add_literal(&Method::any(), if base.is_empty() { "/" } else { base }, true, &place)
                    }
                    None if text == "/" => sink.add_literal(&Method::any(), "/", true, &place),
                    None if text.is_empty() => sink.add_literal(&Method::any(), "/", false, &place),
                    None if text.starts_with('/') => sink.add_literal(&Method::any(), text, false, &place),
                    None => {
                        if !sink.is_left_out(text) {
                            sink.unsayable(text, "a servlet for all paths with one ending", &place);
                        }
                    }
                }
            }
        }
    }
}
