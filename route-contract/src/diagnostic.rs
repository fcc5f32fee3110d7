//! What is reported to a person or a machine: one finding, its place in a file, and the text in the
//! style of rustc (place, excerpt, witness, help).

mod text;

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub use text::Palette;

/// A file as it was read: the name that is shown, and its text.
pub struct Source {
    /// The path as the user gave it, or a name such as `<stdin>`.
    pub name: String,
    /// The whole text.
    pub text: String,
    /// Where each line starts. A file of megabytes may have thousands of findings.
    lines: OnceLock<Box<[usize]>>,
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.text == other.text
    }
}

impl Eq for Source {}

/// Without the text, which may be megabytes and stands behind every place.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("name", &self.name)
            .field("bytes", &self.text.len())
            .finish()
    }
}

impl Source {
    /// Wraps a text under the name that findings will show.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            text: text.into(),
            lines: OnceLock::new(),
        })
    }

    /// The index of the line that holds a byte, and where that line starts.
    fn line_at(&self, byte: usize) -> (usize, usize) {
        let lines = self.lines.get_or_init(|| {
            std::iter::once(0)
                .chain(memchr::memchr_iter(b'\n', self.text.as_bytes()).map(|newline| newline + 1))
                .collect()
        });
        let index = lines.partition_point(|start| *start <= byte).saturating_sub(1);
        (index, lines.get(index).copied().unwrap_or(0))
    }

    /// The nearest boundary of a character at or before a byte.
    fn boundary(&self, byte: usize) -> usize {
        let mut byte = byte.min(self.text.len());
        while !self.text.is_char_boundary(byte) {
            byte -= 1;
        }
        byte
    }
}

/// A range of bytes in a [`Source`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub source: Arc<Source>,
    /// Bytes of its text; clamped to the text when it is shown.
    pub span: Range<usize>,
}

impl Place {
    /// A place in a file.
    pub fn new(source: &Arc<Source>, span: Range<usize>) -> Self {
        Self {
            source: Arc::clone(source),
            span,
        }
    }

    /// Line and column of the start, both counted from 1; the column counts characters.
    pub fn line_column(&self) -> (usize, usize) {
        self.position(self.span.start)
    }

    /// Line and column behind the end, counted like [`Place::line_column`].
    pub fn end_line_column(&self) -> (usize, usize) {
        self.position(self.span.end.max(self.span.start))
    }

    fn position(&self, byte: usize) -> (usize, usize) {
        let byte = self.source.boundary(byte);
        let (line, start) = self.source.line_at(byte);
        let before = self.source.text.get(start..byte).unwrap_or_default();
        (line + 1, before.chars().count() + 1)
    }

    /// The line that holds the start, without its line break.
    fn excerpt(&self) -> &str {
        let start = self.source.boundary(self.span.start);
        let (_, from) = self.source.line_at(start);
        let line = self.source.text.get(from..).unwrap_or_default();
        let line = line.split('\n').next().unwrap_or_default();
        line.trim_end_matches('\r')
    }
}

/// `file:line:column`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        write!(f, "{}:{line}:{column}", self.source.name)
    }
}

/// How much a finding weighs. Errors alone make a check fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// Allowed, but likely not meant.
    Warning,
    /// A rule is broken, or a file cannot be read.
    Error,
}

impl Severity {
    /// The word that reports show.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How much it weighs.
    pub severity: Severity,
    /// A stable code such as `RC0203`.
    pub code: &'static str,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Where; `None` where no file stands behind it.
    pub place: Option<Place>,
    /// Other places that play a part, each with a few words.
    pub related: Vec<(String, Place)>,
    /// The shortest path that shows it.
    pub witness: Option<String>,
    /// How to mend it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A finding with severity error.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            place: None,
            related: Vec::new(),
            witness: None,
            help: None,
        }
    }

    /// A finding with severity warning.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(code, message)
        }
    }

    /// A finding with severity note.
    pub fn note(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Note,
            ..Self::error(code, message)
        }
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Adds another place with a few words about its part.
    #[must_use]
    pub fn with_related(mut self, words: impl Into<String>, place: Place) -> Self {
        self.related.push((words.into(), place));
        self
    }

    /// Sets the witness path.
    #[must_use]
    pub fn with_witness(mut self, witness: impl Into<String>) -> Self {
        self.witness = Some(witness.into());
        self
    }

    /// Says how to mend it.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Escapes control characters, so that no input can write to the terminal.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            // Writing to a String cannot fail.
            let _ = write!(out, "{}", character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// The name among `candidates` that `given` was probably meant to be.
pub fn did_you_mean<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(given, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len().max(given.len()) / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance over characters; long input counts as far away instead of costing time.
fn edit_distance(left: &str, right: &str) -> usize {
    const LONG: usize = 64;
    if left.len() > LONG || right.len() > LONG {
        return usize::MAX;
    }
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_shows_place_excerpt_witness_and_help() {
        let source = Source::new("contract.toml", "version = 1\nclams = []\n");
        let text = Diagnostic::error("RC0102", "unknown key `clams`")
            .at(Place::new(&source, 12..17))
            .with_witness("/a")
            .with_help("did you mean `claims`?")
            .to_string();
        assert_eq!(
            text,
            "error[RC0102]: unknown key `clams`\n  --> contract.toml:2:1\n  |\n2 | clams = []\n  | ^^^^^\n  \
             = witness: /a\n  = help: did you mean `claims`?\n"
        );
    }

    #[test]
    fn a_place_outside_the_text_is_clamped() {
        let source = Source::new("x", "é");
        for start in 0..5 {
            let _ = Diagnostic::error("RC0101", "m")
                .at(Place::new(&source, start..start + 9))
                .to_string();
        }
    }

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        assert_eq!(did_you_mean("clams", ["claims", "routes"]), Some("claims"));
        assert_eq!(did_you_mean("zebra", ["claims", "routes"]), None);
    }
}
