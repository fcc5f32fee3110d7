//! One segment of a path, as each framework writes it.

use super::{Part, PathSyntax};
use crate::pattern::Kinds;
use crate::template::is_name;

/// Reads one segment.
pub(super) struct Reader<'k> {
    /// How it is written.
    pub(super) syntax: PathSyntax,
    /// The kinds of the contract.
    pub(super) kinds: &'k Kinds,
    /// Whether it is the last one of its path.
    pub(super) last: bool,
}

impl Reader<'_> {
    /// What the segment matches.
    ///
    /// # Errors
    /// What the grammar cannot say.
    pub(super) fn segment(&self, segment: &str) -> Result<Part, String> {
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
