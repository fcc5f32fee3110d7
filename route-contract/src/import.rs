//! Routes as other tools write them down: what a profile may name beside TOML manifests.
//!
//! 1. [`Format::of`] tells the format, from the file's name and what it holds.
//! 2. `tree` reads JSON and YAML with places.
//! 3. One module a format finds methods and paths: `openapi`, `json_lines`, `spring`, `http_route`.
//! 4. [`path_syntax`] translates each path into the template grammar; what has no equal is an error.

mod http_route;
mod json_lines;
mod openapi;
pub mod path_syntax;
mod spring;
mod tree;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::contract::{CODES, Method, Route, codes};
use crate::diagnostic::{Diagnostic, Place, Source, printable};
use crate::pattern::Kinds;
use crate::template::Template;
use path_syntax::PathSyntax;
use tree::{Node, Tree};

/// A format of a file that lists routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A TOML manifest of this program.
    Toml,
    /// OpenAPI 3.0 or 3.1, in JSON or YAML.
    #[serde(rename = "openapi")]
    OpenApi,
    /// One JSON object a line.
    JsonLines,
    /// What Spring Boot answers at `/actuator/mappings`.
    Spring,
    /// Kubernetes Gateway API HTTPRoute, in YAML or JSON.
    HttpRoute,
}

impl Format {
    /// The format by the extension of the file's name; for JSON and YAML by what stands in it.
    ///
    /// # Errors
    /// A JSON or YAML file that is none of the formats, with the keys that would tell.
    pub fn of(source: &Source) -> Result<Self, String> {
        let extension = Path::new(&source.name)
            .extension()
            .and_then(|extension| extension.to_str())
            .map(str::to_ascii_lowercase);
        match extension.as_deref() {
            Some("jsonl" | "ndjson") => Ok(Self::JsonLines),
            Some("json" | "yaml" | "yml") => Self::of_content(&source.text).ok_or_else(|| {
                "its format cannot be told: it has none of the keys `openapi`, `contexts` and `kind` at the top"
                    .to_owned()
            }),
            _ => Ok(Self::Toml),
        }
    }

    /// Looks at the keys that may stand at the top, without reading the whole: the reader of the format does.
    fn of_content(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}');
        if text.trim_start().starts_with('{') {
            let mut keys = TopKeys::new(text);
            return keys.find_map(|key| match key {
                "openapi" | "swagger" => Some(Self::OpenApi),
                "contexts" => Some(Self::Spring),
                "apiVersion" | "kind" => Some(Self::HttpRoute),
                _ => None,
            });
        }
        text.lines().find_map(|line| {
            let key = line.trim_start_matches(['"', '\'']);
            match key.split([':', '"', '\'']).next().unwrap_or_default().trim_end() {
                "openapi" | "swagger" => Some(Self::OpenApi),
                "contexts" => Some(Self::Spring),
                "apiVersion" | "kind" => Some(Self::HttpRoute),
                _ => None,
            }
        })
    }
}

/// The keys of the outermost object of a JSON text, without its escapes.
struct TopKeys<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> TopKeys<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, at: 0, depth: 0 }
    }
}

impl<'t> Iterator for TopKeys<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b'"' => {
                    let start = self.at;
                    while let Some(byte) = bytes.get(self.at) {
                        match byte {
                            b'"' => break,
                            b'\\' => self.at += 2,
                            _ => self.at += 1,
                        }
                    }
                    let string = self.text.get(start..self.at);
                    self.at += 1;
                    let behind = self.text.get(self.at..).unwrap_or_default().trim_start();
                    if self.depth == 1 && behind.starts_with(':') {
                        return string;
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// How a file is imported.
pub struct Import<'i> {
    /// The file.
    pub source: &'i Arc<Source>,
    /// Its format.
    pub format: Format,
    /// How JSON Lines write their paths.
    pub syntax: PathSyntax,
    /// What stands in front of each path: where the server is mounted.
    pub prefix: &'i str,
    /// Paths, as the file writes them, that are left out.
    pub except: &'i [&'i str],
    /// The profile that the routes are for.
    pub profile: &'i str,
    /// All profiles of the contract.
    pub profiles: &'i [&'i str],
    /// The kinds of the contract.
    pub kinds: &'i Kinds,
    /// The most routes that are taken.
    pub limit: usize,
}

/// What was found in a file.
#[derive(Default)]
pub struct Imported {
    /// The routes, each with its place in the file.
    pub routes: Vec<Route>,
    /// All faults.
    pub faults: Vec<Diagnostic>,
    /// For each exception of [`Import::except`], whether something was left out by it.
    pub left_out: Vec<bool>,
}

impl Import<'_> {
    /// Reads the file. Not for [`Format::Toml`], which needs no translation.
    pub fn read(&self) -> Imported {
        let mut sink = Sink {
            import: self,
            seen: HashSet::new(),
            out: Imported {
                left_out: vec![false; self.except.len()],
                ..Imported::default()
            },
        };
        if self.format == Format::JsonLines {
            json_lines::read(self, &mut sink);
            return sink.out;
        }
        let tree = match Tree::parse(self.source) {
            Ok(tree) => tree,
            Err(faults) => {
                sink.out.faults = faults;
                return sink.out;
            }
        };
        match self.format {
            Format::OpenApi => openapi::read(&tree, &mut sink),
            Format::Spring => spring::read(&tree, &mut sink),
            Format::HttpRoute => http_route::read(&tree, &mut sink),
            Format::Toml | Format::JsonLines => {}
        }
        sink.out
    }
}

/// Takes what a format's reader finds.
struct Sink<'s> {
    import: &'s Import<'s>,
    seen: HashSet<(Method, String)>,
    out: Imported,
}

impl Sink<'_> {
    /// Adds the routes of a path. `base` is literal text in front of it, without a slash at its end.
    fn add(&mut self, method: &Method, base: &str, path: &str, syntax: PathSyntax, place: &Place) {
        if self.is_left_out(path) || self.is_full() {
            return;
        }
        let whole = format!("{}{base}{path}", self.import.prefix);
        match path_syntax::translate(&whole, syntax, self.import.kinds) {
            Ok(templates) => {
                for template in templates {
                    self.route(method, template, place);
                }
            }
            Err(why) => self.unsayable(path, &why, place),
        }
    }

    /// Adds a path without parameters; with `subtree`, everything below it too.
    fn add_literal(&mut self, method: &Method, path: &str, subtree: bool, place: &Place) {
        if self.is_left_out(path) || self.is_full() {
            return;
        }
        match path_syntax::literal(&format!("{}{path}", self.import.prefix), subtree) {
            Ok(template) => self.route(method, template, place),
            Err(why) => self.unsayable(path, &why, place),
        }
    }

    fn route(&mut self, method: &Method, template: Template, place: &Place) {
        self.out.routes.push(Route {
            method: method.clone(),
            template,
            place: place.clone(),
        });
    }

    /// Drops what the file has said before: formats that tell one path by headers say it often.
    fn distinct(&mut self) {
        let seen = &mut self.seen;
        self.out
            .routes
            .retain(|route| seen.insert((route.method.clone(), route.template.shape(true))));
        self.seen.clear();
    }

    fn unsayable(&mut self, path: &str, why: &str, place: &Place) {
        let message = format!("`{}` cannot be said in the template grammar: {why}", printable(path));
        self.fault(
            Diagnostic::error(codes::TEMPLATE, message)
                .with_help("change the route, or leave it out with `except` and say it in a TOML manifest"),
            place,
        );
    }

    fn is_left_out(&mut self, path: &str) -> bool {
        let mut found = false;
        for (except, left_out) in self.import.except.iter().zip(&mut self.out.left_out) {
            if *except == path {
                *left_out = true;
                found = true;
            }
        }
        found
    }

    /// Whether nothing more is taken; the loader reports the limit.
    fn is_full(&self) -> bool {
        self.out.routes.len() > self.import.limit || self.out.faults.len() >= tree::MAX_FAULTS
    }

    fn fault(&mut self, fault: Diagnostic, place: &Place) {
        if self.out.faults.len() < tree::MAX_FAULTS {
            self.out.faults.push(fault.at(place.clone()));
        }
    }

    /// A value of the wrong kind.
    fn wrong(&mut self, node: Node<'_>, wanted: &str) {
        let message = format!("{wanted} should stand here, not {}", node.what());
        self.fault(Diagnostic::error(CODES.invalid_value, message), &node.place());
    }

    fn missing(&mut self, node: Node<'_>, key: &str) {
        let message = format!("the key `{key}` is missing");
        self.fault(Diagnostic::error(CODES.missing_key, message), &node.place());
    }

    /// The method that stands here; `None` after a fault.
    fn method(&mut self, node: Node<'_>) -> Option<Method> {
        let Some(text) = node.text() else {
            self.wrong(node, "a method");
            return None;
        };
        match Method::parse(text) {
            Ok(method) => Some(method),
            Err(why) => {
                self.fault(Diagnostic::error(CODES.invalid_value, why), &node.place());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
