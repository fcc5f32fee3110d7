//! Paths as frameworks write them, as templates of the contract's grammar.
//!
//! Only what means the same is translated. An optional segment becomes two templates, a catch-all that leaves
//! out its own base becomes the templates of what it does match. What has no equal is an error. In every
//! syntax a path with an empty segment (`//`) is left out of account: no template matches one before its `/**`.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::pattern::Kinds;
use crate::template::{Template, is_name};

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

struct Reader<'k> {
    syntax: PathSyntax,
    kinds: &'k Kinds,
    last: bool,
}

impl Reader<'_> {
    fn segment(&self, segment: &str) -> Result<Part, String> {
        match self.syntax {
            PathSyntax::Template => self.template(segment),
            PathSyntax::Express => self.express(segment),
            PathSyntax::Gin => self.gin(segment),
            PathSyntax::Axum => self.axum(segment),
            PathSyntax::Flask => self.flask(segment),
            PathSyntax::Spring => self.spring(segment),
            PathSyntax::OpenApi => self.open_api(segment),
        }
    }

    fn template(&self, segment: &str) -> Result<Part, String> {
        let depends = || {
            Err(format!(
                "what `{segment}` matches depends on the framework; say which with `syntax`"
            ))
        };
        if segment == "**" && self.last {
            return Ok(Part::Subtree);
        }
        if segment.contains('*') {
            return depends();
        }
        if segment.contains('<') {
            return self.flask(segment);
        }
        if let Some(name) = segment.strip_prefix(':') {
            return match name.strip_suffix('?') {
                Some(name) if is_name(name) => Ok(Part::Optional(Box::new(parameter("", name, None, "")))),
                None if is_name(name) => Ok(parameter("", name, None, "")),
                _ => depends(),
            };
        }
        let Some((prefix, inside, suffix)) = braced(segment)? else {
            return Ok(Part::Literal(segment.to_owned()));
        };
        if let Some(name) = inside.strip_suffix('?') {
            return if prefix.is_empty() && suffix.is_empty() {
                Ok(Part::Optional(Box::new(parameter("", name, None, ""))))
            } else {
                depends()
            };
        }
        let Some((name, kind)) = inside.split_once(':') else {
            return Ok(parameter(prefix, inside, None, suffix));
        };
        if self.kinds.expression(kind).is_some() {
            return Ok(parameter(prefix, name, Some(kind.to_owned()), suffix));
        }
        if is_name(kind) {
            return Err(format!("there is no kind `{kind}`"));
        }
        let kind = self.kind(kind, true)?;
        Ok(parameter(prefix, name, kind, suffix))
    }

    fn express(&self, segment: &str) -> Result<Part, String> {
        if segment == "*" {
            return Ok(Part::Below);
        }
        if let Some(name) = segment.strip_prefix('*') {
            return match word(name) {
                (_, "") => Ok(Part::BelowNotEmpty),
                _ => Err(format!("`{segment}` matches a part of a path that ends in no segment")),
            };
        }
        let plain = |text: &str| match text.find(['?', '+', '(', ')', '[', ']', '!', '*', ':', '\\', '"']) {
            None => Ok(text.to_owned()),
            Some(at) => Err(format!(
                "`{}` in `{segment}` makes an expression of it",
                text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or_default()
            )),
        };
        let Some((prefix, rest)) = segment.split_once(':') else {
            return Ok(Part::Literal(plain(segment)?));
        };
        let prefix = plain(prefix)?;
        let (name, rest) = word(rest);
        if name.is_empty() {
            return Err(format!("a parameter without a name in `{segment}`"));
        }
        let whole = prefix.is_empty();
        let (kind, rest) = match rest.strip_prefix('(') {
            None => (None, rest),
            Some(group) => {
                let Some((expression, rest)) = group.rsplit_once(')') else {
                    return Err("a bracket without its partner".to_owned());
                };
                match expression {
                    ".*" if whole && rest.is_empty() => return Ok(Part::Below),
                    ".+" if whole && rest.is_empty() => return Ok(Part::BelowNotEmpty),
                    _ => (self.kind(expression, true)?, rest),
                }
            }
        };
        match rest.strip_prefix('?') {
            Some("") if whole => Ok(Part::Optional(Box::new(parameter("", name, kind, "")))),
            Some(_) => Err(format!("a part of the segment `{segment}` is optional")),
            None => Ok(parameter(&prefix, name, kind, &plain(rest)?)),
        }
    }

    fn gin(&self, segment: &str) -> Result<Part, String> {
        if segment.starts_with('*') {
            return Ok(Part::Below);
        }
        match segment.split_once(':') {
            None if segment.contains('*') => Err(format!("`*` in the middle of `{segment}`")),
            None => Ok(Part::Literal(segment.to_owned())),
            Some((_, "")) => Err(format!("a parameter without a name in `{segment}`")),
            Some((_, name)) if name.contains([':', '*']) => Err("two parameters in one segment".to_owned()),
            Some((prefix, name)) => Ok(parameter(prefix, name, None, "")),
        }
    }

    fn axum(&self, segment: &str) -> Result<Part, String> {
        if segment.starts_with([':', '*']) {
            return Err(format!("`{segment}` is the syntax of axum before 0.8"));
        }
        let Some((prefix, inside, suffix)) = braced(segment)? else {
            return Ok(Part::Literal(segment.to_owned()));
        };
        match inside.strip_prefix('*') {
            Some(_) if prefix.is_empty() && suffix.is_empty() => Ok(Part::BelowNotEmpty),
            Some(_) => Err(format!("`{segment}` matches a part of a path that ends in no segment")),
            None => Ok(parameter(prefix, inside, None, suffix)),
        }
    }

    fn flask(&self, segment: &str) -> Result<Part, String> {
        let Some((prefix, rest)) = segment.split_once('<') else {
            return Ok(Part::Literal(segment.to_owned()));
        };
        let Some((inside, suffix)) = rest.split_once('>') else {
            return Err("`<` without its `>`".to_owned());
        };
        if suffix.contains('<') {
            return Err("two parameters in one segment".to_owned());
        }
        let (converter, name) = inside.rsplit_once(':').unwrap_or(("default", inside));
        if !is_name(name) {
            return Err(format!("`{name}` is no parameter name"));
        }
        let kind = match converter {
            "default" | "string" => None,
            "int" => Some("int".to_owned()),
            "uuid" => Some("uuid".to_owned()),
            "path" if prefix.is_empty() && suffix.is_empty() => return Ok(Part::BelowNotEmpty),
            "path" => return Err("`path` beside other text in one segment".to_owned()),
            other => return Err(format!("the converter `{other}` has no equal")),
        };
        Ok(parameter(prefix, name, kind, suffix))
    }

    fn spring(&self, segment: &str) -> Result<Part, String> {
        if segment == "**" {
            return Ok(Part::Subtree);
        }
        let wildcard = |prefix: &str, suffix: &str| parameter(prefix, "wildcard", None, suffix);
        if segment == "*" {
            // At the end of a path Spring lets `*` be nothing, elsewhere it is one character or more.
            return Ok(if self.last {
                Part::EmptyOr(Box::new(wildcard("", "")))
            } else {
                wildcard("", "")
            });
        }
        if segment.contains('?') && !segment.contains('{') {
            return Err("`?` matches one character, which no template says".to_owned());
        }
        match braced(segment)? {
            Some(("", inside, "")) if inside.starts_with('*') => Ok(Part::Subtree),
            Some((prefix, inside, suffix)) => {
                if prefix.contains(['*', '?']) || suffix.contains(['*', '?']) || inside.starts_with('*') {
                    return Err(format!("`{segment}` has more than one wildcard"));
                }
                let (name, kind) = match inside.split_once(':') {
                    None => (inside, None),
                    Some((name, ".*" | ".+" | "[^/]*" | "[^/]+")) => (name, None),
                    Some((name, expression)) => (name, self.kind(expression, false)?),
                };
                Ok(parameter(prefix, name, kind, suffix))
            }
            None => match segment.split_once('*') {
                None => Ok(Part::Literal(segment.to_owned())),
                Some((_, suffix)) if suffix.contains('*') => Err(format!("`{segment}` has more than one wildcard")),
                Some((prefix, suffix)) => Ok(Part::Either(
                    format!("{prefix}{suffix}"),
                    Box::new(wildcard(prefix, suffix)),
                )),
            },
        }
    }

    fn open_api(&self, segment: &str) -> Result<Part, String> {
        let Some((prefix, inside, suffix)) = braced(segment)? else {
            return Ok(Part::Literal(segment.to_owned()));
        };
        let usual = |character: char| character.is_alphanumeric() || "_-.$@ ".contains(character);
        if inside.is_empty() || !inside.chars().all(usual) {
            return Err(format!(
                "`{{{inside}}}` may be more than a parameter of one segment: a name has letters, digits, `_`, `-`, `.` or `$`"
            ));
        }
        Ok(parameter(prefix, inside, None, suffix))
    }

    /// The kind that an expression is. With `crosses`, the framework lets an expression match a slash.
    fn kind(&self, expression: &str, crosses: bool) -> Result<Option<String>, String> {
        match expression {
            "[^/]+" | "[^\\/]+" => return Ok(None),
            "\\d+" | "[0-9]+" => return Ok(Some("int".to_owned())),
            _ => {}
        }
        let may_cross = ["/", ".", "[^", "\\W", "\\S", "\\D", "\\s"]
            .iter()
            .any(|reach| expression.contains(reach));
        if crosses && may_cross {
            return Err(format!("the expression `{expression}` may match more than one segment"));
        }
        let declared = self
            .kinds
            .names()
            .find(|name| self.kinds.expression(name) == Some(expression));
        match declared {
            Some(name) => Ok(Some(name.to_owned())),
            None => Err(format!(
                "no kind has the expression `{expression}`; declare one with just this text under `[kinds]`"
            )),
        }
    }
}

fn parameter(prefix: &str, name: &str, kind: Option<String>, suffix: &str) -> Part {
    Part::Parameter {
        prefix: prefix.to_owned(),
        name: name.to_owned(),
        kind,
        suffix: suffix.to_owned(),
    }
}

/// The letters, digits and underscores in front, and the rest.
fn word(text: &str) -> (&str, &str) {
    let end = text
        .find(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        .unwrap_or(text.len());
    text.split_at(end)
}

/// What stands before, in and behind the braces of a segment; `None` where it has none.
fn braced(segment: &str) -> Result<Option<(&str, &str, &str)>, String> {
    let Some((prefix, rest)) = segment.split_once('{') else {
        return if segment.contains('}') {
            Err("a brace without its partner".to_owned())
        } else {
            Ok(None)
        };
    };
    // An expression may have braces of its own, as in `{id:[a-z]{2}}`.
    let mut depth = 1usize;
    for (at, character) in rest.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let (inside, suffix) = (&rest[..at], &rest[at + 1..]);
            // Braces belong to an expression alone; in a name they would be an escape, or a mistake.
            if inside.split(':').next().unwrap_or_default().contains(['{', '}']) {
                return Err("a brace in the name of a parameter".to_owned());
            }
            if suffix.contains(['{', '}']) {
                return Err(
                    "two parameters in one segment: where one ends and the other starts cannot be told".to_owned(),
                );
            }
            return Ok(Some((prefix, inside, suffix)));
        }
    }
    Err("a brace without its partner".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn templates(path: &str, syntax: PathSyntax) -> Result<String, String> {
        let mut kinds = Kinds::default();
        kinds.declare("code", "[a-z]{2}").unwrap();
        translate(path, syntax, &kinds).map(|found| found.iter().map(Template::as_str).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn what_means_the_same_is_translated() {
        use PathSyntax as S;
        for (syntax, path, expected) in [
            (S::Template, "/", "/"),
            (S::Template, "/a/{b}/c-{d:int}.png", "/a/{b}/c-{d:int}.png"),
            (S::Template, "/a/**", "/a/**"),
            (S::Template, "/**", "/**"),
            (S::Template, "/a/", "/a/"),
            (S::Template, "/a/:id", "/a/{id}"),
            (S::Template, "/a/:id?", "/a /a/{id}"),
            (S::Template, "/a/{id?}/b", "/a/b /a/{id}/b"),
            (S::Template, "/a/<int:id>/<name>", "/a/{id:int}/{name}"),
            (S::Template, "/a/{id:[0-9]+}", "/a/{id:int}"),
            (S::Template, "/a/{id:[a-z]{2}}", "/a/{id:code}"),
            (S::Template, "/v1/{id}:test", "/v1/{id}:test"),
            (S::Express, "/users/:id/:user_id", "/users/{id}/{user_id}"),
            (S::Express, "/users/:id(\\d+)", "/users/{id:int}"),
            (S::Express, "/v:version/x", "/v{version}/x"),
            (S::Express, "/:file.json", "/{file}.json"),
            (S::Express, "/a/:id?", "/a /a/{id}"),
            (S::Express, "/:id?", "/ /{id}"),
            (S::Express, "*", ""),
            (S::Express, "/*", "/**"),
            (S::Express, "/a/*", "/a/ /a/{rest}/**"),
            (S::Express, "/a/*splat", "/a/{rest}/**"),
            (S::Express, "/a{/*splat}", "/a /a/{rest}/**"),
            (S::Express, "/a{/:id}/b", "/a/b /a/{id}/b"),
            (S::Express, "/a/:rest/*", "/a/{rest}/ /a/{rest}/{rest2}/**"),
            (S::Express, "/a/:path(.*)", "/a/ /a/{rest}/**"),
            (S::Gin, "/user/:name/*action", "/user/{name}/ /user/{name}/{rest}/**"),
            (S::Gin, "/*any", "/**"),
            (S::Gin, "/a/v_:id", "/a/v_{id}"),
            (S::Axum, "/a/{id}/{*rest}", "/a/{id}/{rest}/**"),
            (S::Axum, "/{*rest}", "/{rest}/**"),
            (S::Flask, "/a/<uuid:id>/<path:rest>", "/a/{id:uuid}/{rest}/**"),
            (S::Spring, "/a/{id:.+}", "/a/{id}"),
            (S::Spring, "/a/{id:\\d+}/**", "/a/{id:int}/**"),
            (S::Spring, "/a/{*path}", "/a/**"),
            (S::Spring, "/a/*", "/a/ /a/{wildcard}"),
            (S::Spring, "/a/*/b/*/c", "/a/{wildcard}/b/{wildcard2}/c"),
            (S::Spring, "/*.html", "/.html /{wildcard}.html"),
            (S::OpenApi, "/pets/{pet.id}/{pet id}", "/pets/{pet_id}/{pet_id2}"),
            (S::OpenApi, "/a/{id}:cancel", "/a/{id}:cancel"),
            (S::OpenApi, "/a/:id", "/a/:id"),
        ] {
            let found = templates(path, syntax);
            if expected.is_empty() {
                assert!(found.is_err(), "{syntax:?} {path}: {found:?}");
            } else {
                assert_eq!(found.as_deref(), Ok(expected), "{syntax:?} {path}");
            }
        }
    }

    #[test]
    fn what_has_no_equal_is_refused() {
        use PathSyntax as S;
        for (syntax, path, words) in [
            (S::Template, "/a/*", "say which with `syntax`"),
            (S::Template, "/a/*rest", "say which with `syntax`"),
            (S::Template, "/a/{*rest}", "say which with `syntax`"),
            (S::Template, "/a/{id:.+}", "more than one segment"),
            (S::Template, "/a/{id:nope}", "no kind"),
            (S::Template, "/**/a", "depends"),
            (S::Template, "a", "starts with"),
            (S::Template, "/a//b", "empty segment"),
            (S::Template, "/a?x=1", "query"),
            (S::Template, "/a/%20", "percent-escape"),
            (S::Express, "/a/:from-:to", "expression"),
            (S::Express, "/ab?cd", "expression"),
            (S::Express, "/a*", "expression"),
            (S::Express, "/a/*x/b", "before the end"),
            (S::Express, "/a/:id([a-z]+)", "[kinds]"),
            (S::Gin, "/a/x*y", "middle"),
            (S::Axum, "/a/:id", "before 0.8"),
            (S::Axum, "/a/{{x}}", "brace"),
            (S::Flask, "/a/<float:x>", "no equal"),
            (S::Flask, "/a/<string(length=2):x>", "no equal"),
            (S::Flask, "/a/<path:x>/b", "before the end"),
            (S::Spring, "/**/favicon.ico", "before the end"),
            (S::Spring, "/a?c", "one character"),
            (S::Spring, "/{a}.{b}", "two parameters"),
            (S::Spring, "", "starts with"),
            (S::OpenApi, "/a/{+path}", "more than a parameter"),
            (S::OpenApi, "/a/{path*}", "more than a parameter"),
            (S::OpenApi, "/a/{id:[0-9]+}", "more than a parameter"),
            (S::OpenApi, "/a/**", "another meaning"),
            (S::OpenApi, "/a/*", "`*` alone"),
            (S::OpenApi, "/a/{id}/{id}", "twice"),
            (S::OpenApi, "/a/{b}...{c}", "two parameters"),
        ] {
            let found = templates(path, syntax);
            assert!(
                found.as_ref().is_err_and(|why| why.contains(words)),
                "{syntax:?} {path}: {found:?}"
            );
        }
    }

    /// What a translation matches is what the framework matches, on paths without an empty segment.
    #[test]
    fn catch_alls_match_what_their_framework_matches() {
        use crate::contract::Contract;
        use crate::diagnostic::{Diagnostic, Source};
        use crate::scan::Scan;
        for (syntax, path, matched, missed) in [
            (
                PathSyntax::Gin,
                "/f/*p",
                &["/f/", "/f/a", "/f/a/b", "/f/a/"][..],
                &["/f", "/fx"][..],
            ),
            (
                PathSyntax::Axum,
                "/f/{*p}",
                &["/f/a", "/f/a/b", "/f/a/"],
                &["/f", "/f/", "/fx/a"],
            ),
            (PathSyntax::Express, "/f/*p", &["/f/a", "/f/a/b"], &["/f", "/f/"]),
            (PathSyntax::Spring, "/f/**", &["/f", "/f/", "/f/a/b"], &["/fx", "/"]),
            (PathSyntax::Spring, "/f/*", &["/f/", "/f/a"], &["/f", "/f/a/b"]),
            (PathSyntax::Flask, "/f/<path:p>", &["/f/a", "/f/a/b/"], &["/f", "/f/"]),
        ] {
            let listed = translate(path, syntax, &Kinds::default()).unwrap();
            let claims: Vec<String> = listed.iter().map(|template| format!("'{template}'")).collect();
            let text = format!(
                "version = 1\n[[family]]\nname = 'f'\nclaims = [{}]\n",
                claims.join(", ")
            );
            let contract = Contract::load_with(std::path::Path::new("c.toml"), &|file| match file.to_str() {
                Some("c.toml") => Ok(Source::new("c.toml", text.clone())),
                _ => Err(Diagnostic::error("RC0101", "none")),
            })
            .unwrap();
            let scan = Scan::new(&contract).unwrap();
            let covered = |path: &str| listed.iter().any(|template| scan.covers(template, path.as_bytes()));
            for path in matched {
                assert!(covered(path), "{syntax:?} {path}");
            }
            for path in missed {
                assert!(!covered(path), "{syntax:?} {path}");
            }
        }
    }
}
