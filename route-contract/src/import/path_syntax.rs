//! Paths as frameworks write them, as templates of the contract's grammar.
//!
//! Only what means the same is translated. An optional segment becomes two templates, a catch-all that leaves
//! out its own base becomes the templates of what it does match. What has no equal is an error. In every
//! syntax a path with an empty segment (`//`) is left out of account: no template matches one before its `/**`.

mod segment;

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::pattern::Kinds;
use crate::template::{Template, is_name};
use segment::Reader;

/// The most templates that one path becomes.
const MAX_ALTERNATIVES: usize = 16;

/// How a path is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathSyntax {
    /// The contract's grammar, with `:name`, `<name>` and `<int:name>` beside it. What frameworks take
    /// differently, such as `*` and `{name:.+}`, is an error.
    #[default]
    Template,
    /// Express 4 and 5: `:name`, `:name?`, `:name(\\d+)`, `*`, `*name`, `{/:optional}`.
    Express,
    /// gin and httprouter: `:name`, `*name`.
    Gin,
    /// axum 0.8 and matchit: `{name}`, `{*name}`.
    Axum,
    /// Flask and werkzeug: `<name>`, `<int:name>`, `<uuid:name>`, `<path:name>`.
    Flask,
    /// Spring's `PathPattern`: `{name}`, `{name:regex}`, `*`, `**`, `{*name}`.
    Spring,
    /// OpenAPI's path templating: `{name}`, which is one segment or a part of one.
    #[serde(skip)]
    OpenApi,
}

/// One segment, as far as it can be said.
#[derive(Clone, Debug)]
enum Part {
    Literal(String),
    Parameter {
        prefix: String,
        name: String,
        kind: Option<String>,
        suffix: String,
    },
    /// The path up to here and everything below it.
    Subtree,
    /// The path with a slash behind it, and everything below.
    Below,
    /// Everything below the path that has at least one character.
    BelowNotEmpty,
    /// With this segment and without it.
    Optional(Box<Part>),
    /// Nothing, or one segment: `/x/` and `/x/y`.
    EmptyOr(Box<Part>),
    /// This literal, or that parameter.
    Either(String, Box<Part>),
}

/// Translates a path.
///
/// # Errors
/// What the grammar cannot say.
pub fn translate(path: &str, syntax: PathSyntax, kinds: &Kinds) -> Result<Vec<Template>, String> {
    let written = if syntax == PathSyntax::Express {
        optional_groups(path)?
    } else {
        vec![path.to_owned()]
    };
    let mut templates = Vec::new();
    let mut seen = HashSet::new();
    for path in &written {
        let Some(body) = path.strip_prefix('/') else {
            return Err("a path starts with `/`".to_owned());
        };
        let segments: Vec<&str> = body.split('/').collect();
        let mut parts = Vec::with_capacity(segments.len());
        for (index, segment) in segments.iter().enumerate() {
            let last = index + 1 == segments.len();
            let part = Reader { syntax, kinds, last }.segment(segment)?;
            if !last && matches!(part, Part::Subtree | Part::Below | Part::BelowNotEmpty) {
                return Err(format!(
                    "`{segment}` stands before the end of the path, and only a final `/**` matches any number of segments"
                ));
            }
            parts.push(part);
        }
        for text in expand(&parts)? {
            let template = Template::parse(&text).map_err(|error| {
                if text == *path {
                    error.to_string()
                } else {
                    format!("{error} (in `{text}`)")
                }
            })?;
            if seen.insert(template.shape(true)) {
                templates.push(template);
            }
        }
    }
    Ok(templates)
}

/// A path without parameters as a template; with `subtree`, everything below it too.
///
/// # Errors
/// What the grammar cannot say, or would take for something else.
pub fn literal(path: &str, subtree: bool) -> Result<Template, String> {
    if path.contains(['{', '}']) || path.split('/').any(|segment| segment == "**") {
        return Err("it has another meaning in a template".to_owned());
    }
    let template = if subtree {
        Template::parse(&format!("{}/**", path.strip_suffix('/').unwrap_or(path)))
    } else {
        Template::parse(path)
    };
    template.map_err(|error| error.to_string())
}

/// Writes all alternatives of a path as templates.
fn expand(parts: &[Part]) -> Result<Vec<String>, String> {
    let mut texts = vec![Text::default()];
    for part in parts {
        let mut next = Vec::new();
        for text in texts {
            text.with(part, &mut next)?;
        }
        if next.len() > MAX_ALTERNATIVES {
            return Err(format!("it stands for more than {MAX_ALTERNATIVES} templates"));
        }
        texts = next;
    }
    Ok(texts
        .into_iter()
        .map(|text| {
            if text.path.is_empty() {
                "/".to_owned()
            } else {
                text.path
            }
        })
        .collect())
}

/// A template as far as it is written, with the names that it uses.
#[derive(Clone, Default)]
struct Text {
    path: String,
    names: Vec<String>,
}

impl Text {
    fn with(mut self, part: &Part, out: &mut Vec<Self>) -> Result<(), String> {
        match part {
            Part::Literal(literal) => {
                if literal.contains(['{', '}', '*']) && (literal.contains(['{', '}']) || literal.contains("**")) {
                    return Err(format!("`{literal}` has another meaning in a template"));
                }
                self.path.push('/');
                self.path.push_str(literal);
                out.push(self);
            }
            Part::Parameter {
                prefix,
                name,
                kind,
                suffix,
            } => {
                self.parameter(prefix, name, kind.as_deref(), suffix);
                out.push(self);
            }
            Part::Subtree => {
                self.path.push_str("/**");
                out.push(self);
            }
            Part::Below if self.path.is_empty() => {
                self.path.push_str("/**");
                out.push(self);
            }
            Part::Below => {
                let mut slash = self.clone();
                slash.path.push('/');
                out.push(slash);
                return self.with(&Part::BelowNotEmpty, out);
            }
            Part::BelowNotEmpty => {
                self.parameter("", "rest", None, "");
                self.path.push_str("/**");
                out.push(self);
            }
            Part::Optional(part) => {
                out.push(self.clone());
                return self.with(part, out);
            }
            Part::EmptyOr(part) => {
                let mut slash = self.clone();
                slash.path.push('/');
                out.push(slash);
                return self.with(part, out);
            }
            Part::Either(literal, part) => {
                self.clone().with(&Part::Literal(literal.clone()), out)?;
                return self.with(part, out);
            }
        }
        Ok(())
    }

    /// A name that was rewritten must not meet another; one that stands twice in the source stays twice.
    fn parameter(&mut self, prefix: &str, name: &str, kind: Option<&str>, suffix: &str) {
        let clean = clean_name(name);
        let mut unique = clean.clone();
        let rewritten = clean != name || name == "rest" || name == "wildcard";
        let mut number = 2;
        while rewritten && self.names.contains(&unique) {
            unique = format!("{clean}{number}");
            number += 1;
        }
        self.path.push('/');
        self.path.push_str(prefix);
        self.path.push('{');
        self.path.push_str(&unique);
        if let Some(kind) = kind {
            self.path.push(':');
            self.path.push_str(kind);
        }
        self.path.push('}');
        self.path.push_str(suffix);
        self.names.push(unique);
    }
}

/// A name of the grammar for any name: names are for people and play no part in what a template matches.
fn clean_name(name: &str) -> String {
    let mut clean: String = name
        .chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() || character == '-' {
                character
            } else {
                '_'
            }
        })
        .collect();
    if !is_name(&clean) {
        clean.insert(0, '_');
    }
    clean
}

/// Express 5: `{...}` is there or not. Each group doubles the paths.
fn optional_groups(path: &str) -> Result<Vec<String>, String> {
    let mut paths = vec![String::new()];
    let mut rest = path;
    while let Some((before, group)) = rest.split_once('{') {
        let Some((inside, after)) = group.split_once('}') else {
            return Err("a brace without its partner".to_owned());
        };
        if inside.contains('{') {
            return Err("an optional part inside an optional part".to_owned());
        }
        let mut next = Vec::with_capacity(paths.len() * 2);
        for path in paths {
            next.push(format!("{path}{before}"));
            next.push(format!("{path}{before}{inside}"));
        }
        if next.len() > MAX_ALTERNATIVES {
            return Err(format!("it stands for more than {MAX_ALTERNATIVES} templates"));
        }
        paths = next;
        rest = after;
    }
    for path in &mut paths {
        path.push_str(rest);
        if path.is_empty() {
            path.push('/');
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests;
