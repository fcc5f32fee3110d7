//! What one segment may be: the kinds of parameters, and the languages that templates make of them.
//!
//! A pattern is compiled to a DFA over bytes, so that it can be run on a segment without backtracking and
//! so that the proof can ask which combinations of patterns some segment can satisfy.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex_automata::dfa::{Automaton as _, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use crate::segments::{MAX_WITNESS, Segments};
use crate::template::Parameter;

/// The largest DFA of one kind, in bytes.
const MAX_DFA_BYTES: usize = 1 << 20;

/// Kinds that need no declaration: name, regular expression, what it is.
pub const BUILT_IN: [(&str, &str, &str); 3] = [
    (
        "kebab",
        "[a-z0-9]+(?:-[a-z0-9]+)*",
        "lowercase letters and digits in words joined by single hyphens",
    ),
    (
        "uuid",
        "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}",
        "a UUID in its textual form (RFC 9562 section 4), in either case",
    ),
    ("int", "[0-9]+", "decimal digits"),
];

/// The kinds of a contract by name: the built-in ones and those under `[kinds]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kinds {
    expressions: BTreeMap<Box<str>, Box<str>>,
}

impl Default for Kinds {
    fn default() -> Self {
        Self {
            expressions: BUILT_IN
                .iter()
                .map(|(name, expression, _)| ((*name).into(), (*expression).into()))
                .collect(),
        }
    }
}

impl Kinds {
    /// Declares a kind: the whole segment must match the expression.
    ///
    /// # Errors
    /// What is wrong with the expression, or that the name is a built-in one's.
    pub fn declare(&mut self, name: &str, expression: &str) -> Result<(), String> {
        if BUILT_IN.iter().any(|(built_in, _, _)| *built_in == name) {
            return Err(format!("`{name}` is a built-in kind and cannot be declared again"));
        }
        let dfa = compile(&format!("(?:{expression})"), false)?;
        let segments = [&dfa];
        let segments = Segments::new(&segments).ok_or("its automaton is too large")?;
        match segments.find(&[true], |_| true) {
            Ok(Some(_)) => {}
            Ok(None) => return Err("no segment matches it: a segment is not empty and has no `/`".to_owned()),
            Err(_) => {
                return Err(format!(
                    "the shortest segment that matches it has over {MAX_WITNESS} bytes"
                ));
            }
        }
        self.expressions.insert(name.into(), expression.into());
        Ok(())
    }

    /// The expression of a kind.
    pub fn expression(&self, name: &str) -> Option<&str> {
        self.expressions.get(name).map(|expression| &**expression)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.expressions.keys().map(|name| &**name)
    }

    /// The declared kinds, without the built-in ones.
    pub fn declared(&self) -> impl Iterator<Item = (&str, &str)> {
        self.expressions
            .iter()
            .map(|(name, expression)| (&**name, &**expression))
            .filter(|(name, _)| BUILT_IN.iter().all(|(built_in, _, _)| built_in != name))
    }
}

/// The language of one parameter segment.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Every segment that is not empty.
    Any,
    /// The segments that a DFA accepts.
    Dfa(Arc<SegmentDfa>),
}

/// A DFA that is run from the first byte of a segment to its last.
#[derive(Clone, Debug)]
pub struct SegmentDfa {
    dfa: dense::DFA<Vec<u32>>,
    start: StateID,
}

/// What tells two patterns apart: the prefix, the kind's name and the suffix.
pub type PatternKey = (Box<str>, Option<Box<str>>, Box<str>);

impl Pattern {
    /// Compiles a parameter. With `fold`, the segment's letters match in either case.
    ///
    /// # Errors
    /// The kind does not exist, or its DFA would be too large.
    pub fn new(parameter: &Parameter, kinds: &Kinds, fold: bool) -> Result<Self, String> {
        if parameter.kind.is_none() && parameter.prefix.is_empty() && parameter.suffix.is_empty() {
            return Ok(Self::Any);
        }
        let kind = match &parameter.kind {
            None => "(?s-u:.)+",
            Some(name) => kinds
                .expression(name)
                .ok_or_else(|| format!("there is no kind `{name}`"))?,
        };
        let prefix = escape(&parameter.prefix);
        let suffix = escape(&parameter.suffix);
        compile(&format!("{prefix}(?:{kind}){suffix}"), fold).map(|dfa| Self::Dfa(Arc::new(dfa)))
    }

    /// What tells it apart from other patterns.
    pub fn key(parameter: &Parameter) -> PatternKey {
        (
            parameter.prefix.clone(),
            parameter.kind.clone(),
            parameter.suffix.clone(),
        )
    }

    /// Whether a segment is in the language.
    pub fn matches(&self, segment: &[u8]) -> bool {
        self.matches_as::<false>(segment)
    }

    /// Whether a segment is in the language; `FOLD` reads its letters as lower case.
    pub fn matches_as<const FOLD: bool>(&self, segment: &[u8]) -> bool {
        match self {
            Self::Any => !segment.is_empty(),
            Self::Dfa(dfa) => !segment.is_empty() && dfa.accepts::<FOLD>(segment),
        }
    }
}

impl SegmentDfa {
    /// The state before the first byte.
    pub(crate) fn start(&self) -> StateID {
        self.start
    }

    /// The state behind a byte.
    pub(crate) fn next(&self, state: StateID, byte: u8) -> StateID {
        self.dfa.next_state(state, byte)
    }

    /// Whether a segment that ends in this state is accepted.
    pub(crate) fn is_accepting(&self, state: StateID) -> bool {
        self.dfa.is_match_state(self.dfa.next_eoi_state(state))
    }

    /// The class of a byte: bytes of one class lead to the same states.
    pub(crate) fn class(&self, byte: u8) -> u8 {
        self.dfa.byte_classes().get(byte)
    }

    fn accepts<const FOLD: bool>(&self, segment: &[u8]) -> bool {
        let mut state = self.start;
        for byte in segment {
            state = self
                .dfa
                .next_state(state, if FOLD { byte.to_ascii_lowercase() } else { *byte });
            if self.dfa.is_dead_state(state) {
                return false;
            }
        }
        self.is_accepting(state)
    }
}

fn compile(expression: &str, fold: bool) -> Result<SegmentDfa, String> {
    let dfa = dense::Builder::new()
        .syntax(syntax::Config::new().unicode(false).utf8(false).case_insensitive(fold))
        .thompson(
            regex_automata::nfa::thompson::Config::new()
                .utf8(false)
                .nfa_size_limit(Some(MAX_DFA_BYTES)),
        )
        .configure(
            dense::Config::new()
                .start_kind(regex_automata::dfa::StartKind::Anchored)
                .minimize(false)
                .dfa_size_limit(Some(MAX_DFA_BYTES))
                .determinize_size_limit(Some(4 * MAX_DFA_BYTES)),
        )
        // `\z`, not `$`: the end of the segment and nothing else.
        .build(&format!(r"(?:{expression})\z"))
        .map_err(|error| describe(&error))?;
    let start = dfa
        .start_state_forward(&Input::new(b"").anchored(Anchored::Yes))
        .map_err(|error| format!("the expression looks around itself: {error}"))?;
    Ok(SegmentDfa { dfa, start })
}

/// The innermost reason, in one line: the outer ones speak of the builder.
fn describe(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    text.lines()
        .rev()
        .find_map(|line| line.strip_prefix("error: "))
        .map_or_else(|| text.replace('\n', "; "), str::to_owned)
}

/// Escapes what has a meaning in a regular expression.
fn escape(literal: &str) -> String {
    let mut escaped = String::with_capacity(literal.len());
    for character in literal.chars() {
        if !character.is_ascii_alphanumeric() && character != '_' {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::{Segment, Template};

    fn pattern(text: &str, fold: bool) -> Pattern {
        let template = Template::parse(text).unwrap();
        let Segment::Parameter(parameter) = &template.segments()[0] else {
            panic!("{text}")
        };
        Pattern::new(parameter, &Kinds::default(), fold).unwrap()
    }

    #[test]
    fn kinds_prefixes_and_suffixes_narrow_a_segment() {
        for (text, segment, expected) in [
            ("/{a}", "", false),
            ("/{a}", "x", true),
            ("/{a:kebab}", "create-issue", true),
            ("/{a:kebab}", "create--issue", false),
            ("/{a:kebab}", "-x", false),
            ("/{a:kebab}", "X", false),
            ("/{a:kebab}", "x\n", false),
            ("/{a:int}", "0123", true),
            ("/{a:int}", "12a", false),
            ("/{a:uuid}", "123e4567-e89b-12d3-a456-426614174000", true),
            ("/{a:uuid}", "123e4567-e89b-12d3-a456-42661417400", false),
            ("/{a}:test", "x:test", true),
            ("/{a}:test", ":test", false),
            ("/img-{a:int}.png", "img-7.png", true),
            ("/img-{a:int}.png", "img-7xpng", false),
        ] {
            assert_eq!(
                pattern(text, false).matches(segment.as_bytes()),
                expected,
                "{text} {segment}"
            );
        }
        assert!(pattern("/Img-{a:kebab}", true).matches(b"iMG-ABC"));
        assert!(pattern("/a-{a}", false).matches(b"a-\xff\n"));
    }

    #[test]
    fn a_kind_that_cannot_be_is_refused_with_the_reason() {
        let mut kinds = Kinds::default();
        assert!(kinds.declare("int", "x").unwrap_err().contains("built-in"));
        assert!(kinds.declare("a", "(").unwrap_err().contains("unclosed"));
        assert!(kinds.declare("b", "").unwrap_err().contains("no segment"));
        assert!(kinds.declare("c", "a/b").unwrap_err().contains("no segment"));
        assert!(kinds.declare("d", "[a-z]{1,50}{1,50}{1,50}").is_err());
        assert!(kinds.declare("e", r"\bfoo\b").is_ok());
        kinds.declare("slug", "[a-z]+_[0-9]+").unwrap();
        assert_eq!(kinds.expression("slug"), Some("[a-z]+_[0-9]+"));
    }
}
