//! `${VAR}` and `${VAR:-default}` in the string values of a configuration; `$${` is the text `${`.
//!
//! Values are expanded after the file is parsed, so no value can add a key, a table or a comment. A value is
//! taken as it is: a `${` inside it is not expanded again. Nothing reported here holds a value, as a
//! variable may bear a secret.

use std::collections::HashSet;
use std::ffi::OsString;
use std::ops::Range;
use std::sync::Arc;

use route_contract::diagnostic::{Diagnostic, Place, Source};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::codes;

/// Answers a variable's value; the process's own is `&|name| std::env::var_os(name)`.
pub type Environment<'e> = &'e dyn Fn(&str) -> Option<OsString>;

/// A string value of the file that held at least one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expanded {
    /// Where the value stands in the file.
    pub span: Range<usize>,
    /// The names in it, in order, each once.
    pub names: Vec<String>,
    /// The value after expansion; never shown.
    pub value: String,
}

/// What begins a reference; with another `$` before it, it is nothing but these two characters.
const OPENING: &str = "${";

/// A text that is read as it is: every `${` in it is written with another `$` before it.
pub(super) fn escaped(text: &str) -> String {
    text.replace(OPENING, "$${")
}

/// The most faults that are reported.
pub(super) const MAX_FAULTS: usize = 50;

/// Expands every string value in the table.
///
/// Returns what was expanded, and all faults, up to 50.
pub(super) fn expand(
    table: &mut Spanned<DeTable<'_>>,
    source: &Arc<Source>,
    environment: Environment<'_>,
) -> (Vec<Expanded>, Vec<Diagnostic>) {
    let mut expansion = Expansion {
        source,
        environment,
        expanded: Vec::new(),
        faults: Vec::new(),
    };
    expansion.table(table.get_mut());
    expansion
        .faults
        .sort_by_key(|fault| fault.place.as_ref().map_or(0, |place| place.span.start));
    (expansion.expanded, expansion.faults)
}

struct Expansion<'a> {
    source: &'a Arc<Source>,
    environment: Environment<'a>,
    expanded: Vec<Expanded>,
    faults: Vec<Diagnostic>,
}

/// What stands in a string, in order.
enum Piece<'t> {
    Literal(&'t str),
    Variable {
        /// The whole reference, `${` and `}` included.
        text: &'t str,
        name: &'t str,
        default: Option<&'t str>,
    },
}

/// A reference that cannot be read: its text from `${` on, and why.
struct Malformed<'t> {
    text: &'t str,
    why: &'static str,
    help: &'static str,
}

impl Expansion<'_> {
    fn table(&mut self, table: &mut DeTable<'_>) {
        for (_, value) in table.iter_mut() {
            self.value(value);
        }
    }

    fn value(&mut self, value: &mut Spanned<DeValue<'_>>) {
        let span = value.span();
        match value.get_mut() {
            DeValue::Table(table) => self.table(table),
            DeValue::Array(array) => {
                for element in array.iter_mut() {
                    self.value(element);
                }
            }
            DeValue::String(text) if text.contains(OPENING) && self.faults.len() < MAX_FAULTS => {
                if let Some(expanded) = self.text(text, span) {
                    *text = expanded.into();
                }
            }
            _ => {}
        }
    }

    /// The expanded text, or `None` after a fault was noted.
    fn text(&mut self, text: &str, span: Range<usize>) -> Option<String> {
        let pieces = match pieces(text) {
            Ok(pieces) => pieces,
            Err(malformed) => {
                let place = self.place(malformed.text, &span);
                self.faults.push(
                    Diagnostic::error(codes::VARIABLE_FORM, malformed.why)
                        .at(place)
                        .with_help(malformed.help),
                );
                return None;
            }
        };
        let mut value = String::with_capacity(text.len());
        let mut names: Vec<String> = Vec::new();
        let mut known = HashSet::new();
        let mut sound = true;
        for piece in pieces {
            match piece {
                Piece::Literal(literal) => value.push_str(literal),
                Piece::Variable { text, name, default } => {
                    if known.insert(name) {
                        names.push(name.to_owned());
                    }
                    match self.look_up(name, default) {
                        Ok(found) => value.push_str(&found),
                        Err(_) if self.faults.len() >= MAX_FAULTS => sound = false,
                        Err(fault) => {
                            sound = false;
                            let place = self.place(text, &span);
                            self.faults.push(fault.at(place));
                        }
                    }
                }
            }
        }
        if !sound {
            return None;
        }
        self.expanded.push(Expanded {
            span,
            names,
            value: value.clone(),
        });
        Some(value)
    }

    fn look_up(&self, name: &str, default: Option<&str>) -> Result<String, Box<Diagnostic>> {
        let Some(value) = (self.environment)(name) else {
            return default.map(str::to_owned).ok_or_else(|| {
                Box::new(
                    Diagnostic::error(codes::VARIABLE_UNSET, format!("the variable `{name}` is not set"))
                        .with_help(format!("set `{name}`, or give a default: `${{{name}:-...}}`")),
                )
            });
        };
        let value = value.into_string().map_err(|_| {
            Box::new(Diagnostic::error(
                codes::VARIABLE_BLANK,
                format!("the value of the variable `{name}` is not UTF-8"),
            ))
        })?;
        match default {
            // As in a shell, `:-` stands in for an empty value as for a missing one.
            Some(default) if value.is_empty() => Ok(default.to_owned()),
            _ if value.trim().is_empty() => Err(Box::new(
                Diagnostic::error(
                    codes::VARIABLE_BLANK,
                    format!("the variable `{name}` is set, but its value is empty or blank"),
                )
                .with_help(format!("give `{name}` a value, or unset it and take the reference out")),
            )),
            _ => Ok(value),
        }
    }

    /// The place of a reference inside its string where it stands there as it is (escapes may hide it), else
    /// the whole string.
    fn place(&self, reference: &str, span: &Range<usize>) -> Place {
        let within = self
            .source
            .text
            .get(span.clone())
            .and_then(|raw| raw.find(reference))
            .map(|at| span.start + at..span.start + at + reference.len());
        Place::new(self.source, within.unwrap_or_else(|| span.clone()))
    }
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, Malformed<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(OPENING) {
        let (literal, reference) = rest.split_at(start);
        if let Some(before) = literal.strip_suffix('$') {
            pieces.push(Piece::Literal(before));
            pieces.push(Piece::Literal(OPENING));
            rest = reference.get(OPENING.len()..).unwrap_or_default();
            continue;
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        let inner = reference.get(OPENING.len()..).unwrap_or_default();
        let malformed = |text, why, help| Malformed { text, why, help };
        let Some(close) = inner.find('}') else {
            return Err(malformed(
                reference,
                "`${` is not closed",
                "write `${NAME}` or `${NAME:-default}`, or `$${` for the text `${`",
            ));
        };
        let (body, after) = inner.split_at(close);
        let whole = reference.get(..close + 3).unwrap_or(reference);
        if body.contains(OPENING) {
            return Err(malformed(
                whole,
                "a `${...}` stands inside another",
                "a default is plain text; it is not expanded",
            ));
        }
        let (name, default) = match body.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (body, None),
        };
        if !is_name(name) {
            return Err(malformed(
                whole,
                "the name in `${...}` is not that of a variable",
                "a name is letters, digits and underscores, and starts with no digit; only `${NAME}` and \
                 `${NAME:-default}` are known",
            ));
        }
        pieces.push(Piece::Variable {
            text: whole,
            name,
            default,
        });
        rest = after.get(1..).unwrap_or_default();
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    Ok(pieces)
}

/// The names of POSIX, Base Definitions 3.216.
fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<OsString> {
        match name {
            "HOST" => Some("h".into()),
            "EMPTY" => Some("".into()),
            "BLANK" => Some(" \n".into()),
            "RAW" => Some("${HOST}".into()),
            _ => None,
        }
    }

    /// The value of `v` after expansion, or the code, column and message of each fault.
    fn expanded(value: &str) -> Result<String, Vec<(String, usize, String)>> {
        let source = Source::new("t.toml", format!("v = '{value}'\n"));
        let mut table = route_contract::document::parse(&source, &codes::DOCUMENT).unwrap();
        let (_, faults) = expand(&mut table, &source, &environment);
        if faults.is_empty() {
            let value = table.get_ref().get("v").unwrap().get_ref().as_str().unwrap().to_owned();
            return Ok(value);
        }
        Err(faults
            .into_iter()
            .map(|fault| {
                let (_, column) = fault.place.unwrap().line_column();
                (fault.code.to_owned(), column, fault.message)
            })
            .collect())
    }

    #[test]
    fn references_are_replaced_and_other_dollars_kept() {
        for (text, expected) in [
            ("http://${HOST}:80", "http://h:80"),
            ("${HOST}${HOST}", "hh"),
            ("${NONE:-d}", "d"),
            ("${EMPTY:-d}", "d"),
            ("${HOST:-d}", "h"),
            ("${NONE:-}", ""),
            ("$HOST $$ $ {HOST}", "$HOST $$ $ {HOST}"),
            ("${RAW}", "${HOST}"),
            ("${NONE:-a:-b $ c}", "a:-b $ c"),
            ("é${HOST}é", "éhé"),
            ("$${HOST}", "${HOST}"),
            ("$${", "${"),
            ("a$${b${HOST}$$${c", "a${bh$${c"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn faults_have_code_place_and_name() {
        for (text, code, column, words) in [
            ("a${NONE}", "GW0106", 7, "`NONE` is not set"),
            ("${EMPTY}", "GW0107", 6, "`EMPTY` is set, but"),
            ("${BLANK}", "GW0107", 6, "`BLANK` is set, but"),
            ("${BLANK:-d}", "GW0107", 6, "`BLANK` is set, but"),
            ("a ${HOST", "GW0108", 8, "not closed"),
            ("${", "GW0108", 6, "not closed"),
            ("${}", "GW0108", 6, "not that of a variable"),
            ("${1A}", "GW0108", 6, "not that of a variable"),
            ("${A-B}", "GW0108", 6, "not that of a variable"),
            ("${A:?x}", "GW0108", 6, "not that of a variable"),
            ("${A:-${B}}", "GW0108", 6, "inside another"),
        ] {
            let faults = expanded(text).unwrap_err();
            let [(found, at, message)] = faults.as_slice() else {
                panic!("{text}: {faults:?}");
            };
            assert_eq!((found.as_str(), *at), (code, column), "{text}");
            assert!(message.contains(words), "{text}: {message}");
        }
    }

    #[test]
    fn an_escaped_text_is_read_as_it_was() {
        for text in ["${HOST}", "$${", "$$", "${", "a ${ b } $", "plain"] {
            assert_eq!(expanded(&escaped(text)).as_deref(), Ok(text));
        }
    }

    #[test]
    fn all_missing_variables_are_reported_in_one_run() {
        let faults = expanded("${ONE}/${TWO}").unwrap_err();
        assert_eq!(faults.len(), 2, "{faults:?}");
    }
}
