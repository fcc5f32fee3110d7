//! JSON and YAML as a tree whose nodes know their place.
//!
//! JSON is read as the YAML 1.2 that it is. An alias is another way to the node that it names and is never
//! copied, so that no file is larger in memory than it is written; depth and number of nodes are bounded.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, Span};

use crate::contract::{CODES, codes};
use crate::diagnostic::{Diagnostic, Place, Source};

/// The most collections inside each other.
const MAX_DEPTH: usize = 128;

/// The most nodes of one file: about 500 MiB of memory.
const MAX_NODES: usize = 4_000_000;

/// The most faults of one file that are reported.
pub const MAX_FAULTS: usize = 50;

/// The key that merges another mapping in YAML 1.1.
const MERGE: &str = "<<";

/// All documents of a file.
pub struct Tree<'s> {
    source: &'s Arc<Source>,
    nodes: Vec<Entry<'s>>,
    roots: Vec<usize>,
}

struct Entry<'s> {
    span: Range<usize>,
    value: Value<'s>,
}

enum Value<'s> {
    Scalar(Cow<'s, str>, bool),
    Sequence(Vec<usize>),
    Mapping(Vec<(usize, usize)>),
}

/// One value of a document.
#[derive(Clone, Copy)]
pub struct Node<'t> {
    tree: &'t Tree<'t>,
    at: usize,
}

impl<'s> Tree<'s> {
    /// Reads all documents of a file.
    ///
    /// # Errors
    /// The first fault of its syntax, or all keys that stand twice.
    pub fn parse(source: &'s Arc<Source>) -> Result<Self, Vec<Diagnostic>> {
        Self::parse_part(source, 0..source.text.len())
    }

    /// Reads a part of a file, such as one line.
    ///
    /// # Errors
    /// See [`Tree::parse`].
    pub fn parse_part(source: &'s Arc<Source>, part: Range<usize>) -> Result<Self, Vec<Diagnostic>> {
        let options = granit_parser::options! {
            emit_comments: false,
            // YAML ends a key at 1,024 characters; JSON does not.
            simple_key_max_lookahead: 1 << 16,
            flow_nesting_limit: MAX_DEPTH,
            block_nesting_limit: MAX_DEPTH,
        };
        let text = source.text.get(part.clone()).unwrap_or_default();
        let mut builder = Builder {
            tree: Self {
                source,
                nodes: Vec::new(),
                roots: Vec::new(),
            },
            offset: part.start,
            open: Vec::new(),
            anchors: HashMap::new(),
            faults: Vec::new(),
        };
        for event in Parser::new_from_str_with_options(text, options) {
            match event {
                Ok((event, span)) => builder.take(event, &span)?,
                Err(error) => {
                    let at = part.start + error.marker().byte_offset().unwrap_or(0);
                    let message = format!("not JSON or YAML: {}", error.info().replace('\n', " "));
                    builder
                        .faults
                        .push(Diagnostic::error(CODES.syntax, message).at(Place::new(source, at..at)));
                    return Err(builder.faults);
                }
            }
        }
        if builder.faults.is_empty() {
            Ok(builder.tree)
        } else {
            Err(builder.faults)
        }
    }

    /// The documents, in order.
    pub fn documents(&self) -> impl Iterator<Item = Node<'_>> {
        self.roots.iter().map(|at| Node { tree: self, at: *at })
    }
}

/// A collection that is not closed yet: its node, and a key that waits for its value.
struct Open {
    at: usize,
    key: Option<usize>,
}

struct Builder<'s> {
    tree: Tree<'s>,
    offset: usize,
    open: Vec<Open>,
    anchors: HashMap<usize, usize>,
    faults: Vec<Diagnostic>,
}

impl<'s> Builder<'s> {
    fn take(&mut self, event: Event<'s>, span: &Span) -> Result<(), Vec<Diagnostic>> {
        let range = span.byte_range().unwrap_or(0..0);
        let range = self.offset + range.start..self.offset + range.end;
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let plain = style == ScalarStyle::Plain;
                let at = self.node(range, Value::Scalar(text, plain), anchor)?;
                self.place(at);
            }
            Event::SequenceStart(_, anchor, _) => {
                let at = self.node(range, Value::Sequence(Vec::new()), anchor)?;
                self.place(at);
                self.open.push(Open { at, key: None });
            }
            Event::MappingStart(_, anchor, _) => {
                let at = self.node(range, Value::Mapping(Vec::new()), anchor)?;
                self.place(at);
                self.open.push(Open { at, key: None });
            }
            Event::SequenceEnd => {
                self.open.pop();
            }
            Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    self.distinct_keys(open.at);
                }
            }
            // The parser refuses an alias that names nothing.
            Event::Alias(anchor) => {
                if let Some(at) = self.anchors.get(&anchor).copied() {
                    self.place(at);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn node(&mut self, span: Range<usize>, value: Value<'s>, anchor: usize) -> Result<usize, Vec<Diagnostic>> {
        let at = self.tree.nodes.len();
        if at >= MAX_NODES {
            let message = format!("the file holds more than {MAX_NODES} values");
            let fault = Diagnostic::error(codes::LIMIT, message).at(Place::new(self.tree.source, span));
            return Err(vec![fault]);
        }
        self.tree.nodes.push(Entry { span, value });
        if anchor != 0 {
            self.anchors.insert(anchor, at);
        }
        Ok(at)
    }

    /// Puts a node where the document is just now.
    fn place(&mut self, at: usize) {
        let Some(open) = self.open.last_mut() else {
            self.tree.roots.push(at);
            return;
        };
        match self.tree.nodes.get_mut(open.at).map(|entry| &mut entry.value) {
            Some(Value::Sequence(items)) => items.push(at),
            Some(Value::Mapping(entries)) => match open.key.take() {
                None => open.key = Some(at),
                Some(key) => entries.push((key, at)),
            },
            Some(Value::Scalar(..)) | None => {}
        }
    }

    /// A key that stands twice, is no text, or merges is a fault: readers differ in what they make of it.
    fn distinct_keys(&mut self, mapping: usize) {
        let Some(Value::Mapping(entries)) = self.tree.nodes.get(mapping).map(|entry| &entry.value) else {
            return;
        };
        let mut first: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
        for (key, _) in entries {
            let Some(entry) = self.tree.nodes.get(*key) else {
                continue;
            };
            let place = Place::new(self.tree.source, entry.span.clone());
            if self.faults.len() >= MAX_FAULTS {
                return;
            }
            match &entry.value {
                Value::Scalar(text, plain) => {
                    if text == MERGE && *plain {
                        let fault = Diagnostic::error(CODES.syntax, "a merge key, which YAML 1.2 does not have");
                        self.faults.push(
                            fault
                                .at(place)
                                .with_help("write the entries out, or as an alias of the whole mapping"),
                        );
                    } else if let Some(other) = first.insert(text, *key)
                        && let Some(other) = self.tree.nodes.get(other)
                    {
                        let fault = Diagnostic::error(CODES.syntax, format!("duplicate key `{text}`")).at(place);
                        let other = Place::new(self.tree.source, other.span.clone());
                        self.faults.push(fault.with_related("first here", other));
                    }
                }
                Value::Sequence(_) | Value::Mapping(_) => {
                    self.faults
                        .push(Diagnostic::error(CODES.syntax, "a key that is no text").at(place));
                }
            }
        }
    }
}

impl<'t> Node<'t> {
    fn value(self) -> Option<&'t Value<'t>> {
        self.tree.nodes.get(self.at).map(|entry| &entry.value)
    }

    fn node(self, at: usize) -> Self {
        Self { tree: self.tree, at }
    }

    /// Where it stands. A mapping or a sequence stands where it begins.
    pub fn place(self) -> Place {
        let span = self.tree.nodes.get(self.at).map_or(0..0, |entry| entry.span.clone());
        Place::new(self.tree.source, span)
    }

    /// The text of a scalar. YAML's plain `null` and `~` are no text.
    pub fn text(self) -> Option<&'t str> {
        match self.value()? {
            Value::Scalar(_, _) if self.is_null() => None,
            Value::Scalar(text, _) => Some(text),
            Value::Sequence(_) | Value::Mapping(_) => None,
        }
    }

    /// Whether nothing stands here.
    pub fn is_null(self) -> bool {
        matches!(self.value(), Some(Value::Scalar(text, true)) if matches!(&**text, "" | "~" | "null" | "Null" | "NULL"))
    }

    /// Whether it is a mapping.
    pub fn is_mapping(self) -> bool {
        matches!(self.value(), Some(Value::Mapping(_)))
    }

    /// The items of a sequence.
    pub fn items(self) -> Option<impl Iterator<Item = Node<'t>>> {
        match self.value()? {
            Value::Sequence(items) => Some(items.iter().map(move |at| self.node(*at))),
            Value::Scalar(..) | Value::Mapping(_) => None,
        }
    }

    /// The entries of a mapping: each key as text with its node, and its value.
    pub fn entries(self) -> Option<impl Iterator<Item = (&'t str, Node<'t>, Node<'t>)>> {
        match self.value()? {
            Value::Mapping(entries) => Some(entries.iter().map(move |(key, value)| {
                let key = self.node(*key);
                let text = match key.value() {
                    Some(Value::Scalar(text, _)) => &**text,
                    _ => "",
                };
                (text, key, self.node(*value))
            })),
            Value::Scalar(..) | Value::Sequence(_) => None,
        }
    }

    /// The value of a key; `None` where this is no mapping, has no such key, or has nothing under it.
    pub fn get(self, key: &str) -> Option<Node<'t>> {
        self.entries()?
            .find(|(text, _, _)| *text == key)
            .map(|(_, _, value)| value)
            .filter(|value| !value.is_null())
    }

    /// What it is, for a message.
    pub fn what(self) -> &'static str {
        match self.value() {
            Some(Value::Mapping(_)) => "a mapping",
            Some(Value::Sequence(_)) => "a list",
            Some(Value::Scalar(..)) if self.is_null() => "nothing",
            Some(Value::Scalar(..)) | None => "a single value",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let source = Source::new("t", text);
        match Tree::parse(&source) {
            Ok(_) => Vec::new(),
            Err(faults) => faults
                .iter()
                .map(|fault| {
                    let place = fault.place.as_ref().map(ToString::to_string).unwrap_or_default();
                    format!("{} {place} {}", fault.code, fault.message)
                })
                .collect(),
        }
    }

    #[test]
    fn json_is_read_as_it_is_written() {
        for (text, expected) in [
            (r#"{"a": "\/x"}"#, "/x"),
            (r#"{"a": "\u00e9\ud83d\ude00"}"#, "é😀"),
            (r#"{"a": "null"}"#, "null"),
            (r#"{"a":"x"}"#, "x"),
            ("{\n\t\"a\":\t\"x\"\n}", "x"),
            ("{\r\n\"a\"\r\n:\r\n\"x\"\r\n}\r\n", "x"),
            (r##"{"a":"# no comment: {}"}"##, "# no comment: {}"),
            ("\u{feff}{\"a\":\"x\"}", "x"),
        ] {
            let source = Source::new("t", text);
            let tree = Tree::parse(&source)
                .map_err(|faults| format!("{text}: {faults:?}"))
                .unwrap();
            let value = tree.documents().next().unwrap().get("a").unwrap();
            assert_eq!(value.text(), Some(expected), "{text}");
        }
        let long = format!("{{\"{}\": \"x\"}}", "k".repeat(5000));
        assert_eq!(faults(&long), Vec::<String>::new());
    }

    #[test]
    fn places_are_bytes_of_the_file() {
        let source = Source::new("t", "é: 1\npaths:\n  /a: {get: x}\n");
        let tree = Tree::parse(&source).unwrap_or_else(|_| panic!());
        let paths = tree.documents().next().unwrap().get("paths").unwrap();
        let (_, key, value) = paths.entries().unwrap().next().unwrap();
        assert_eq!(key.place().to_string(), "t:3:3");
        assert_eq!(&source.text[value.get("get").unwrap().place().span], "x");
    }

    #[test]
    fn what_readers_take_differently_is_refused() {
        assert_eq!(faults("{\"a\": 1, \"a\": 2}"), ["RC0102 t:1:10 duplicate key `a`"]);
        assert_eq!(
            faults("a: &x {b: 1}\nc:\n  <<: *x\n"),
            ["RC0102 t:3:3 a merge key, which YAML 1.2 does not have"]
        );
        assert_eq!(faults("? [a]\n: 1\n"), ["RC0102 t:1:3 a key that is no text"]);
        assert!(
            faults("{\"a\": ")[0].starts_with("RC0102 t:1:"),
            "{:?}",
            faults("{\"a\": ")
        );
    }

    #[test]
    fn depth_and_aliases_are_bounded() {
        let deep = "[".repeat(MAX_DEPTH + 2);
        assert!(faults(&deep)[0].starts_with("RC0102"), "{:?}", faults(&deep));
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..60 {
            let below = format!("*a{}", level - 1);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", [below.as_str(); 9].join(", ")));
        }
        let source = Source::new("t", bomb);
        let tree = Tree::parse(&source).unwrap_or_else(|_| panic!());
        assert!(tree.nodes.len() < 1000);
    }
}
