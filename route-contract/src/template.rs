//! Path templates: the grammar in which claims and routes are written.
//!
//! A template is `/` followed by segments that are separated by `/`:
//!
//! | Segment | Matches |
//! |---|---|
//! | `orgs` | these bytes alone |
//! | `{name}` | one segment that is not empty |
//! | `{name:kind}` | one segment in the language of the kind |
//! | `img-{name}.png` | the same between a literal prefix and suffix |
//! | `**`, last | this path, its trailing-slash form and everything below |
//!
//! `/` is the root alone, `/**` is everything, and a template that ends in `/` matches the path with the
//! trailing slash alone. Literals are written in the path characters of RFC 3986 section 3.3, without
//! percent-escapes: the bytes are compared as they come.

use std::fmt;
use std::ops::Range;

/// The longest template, in bytes.
pub const MAX_BYTES: usize = 4096;
/// The most segments of a template.
pub const MAX_SEGMENTS: usize = 128;
/// The most parameters of a template; `matchit` has 26 names to give.
pub const MAX_PARAMETERS: usize = 24;

/// A path template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    text: Box<str>,
    segments: Box<[Segment]>,
    tail: bool,
}

/// One segment of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// These bytes alone; empty for the root and for a trailing slash.
    Literal(Box<str>),
    /// A parameter.
    Parameter(Parameter),
}

/// A parameter with what stands around it in its segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parameter {
    /// The name, for people.
    pub name: Box<str>,
    /// The kind that narrows it; `None` matches every byte string that is not empty.
    pub kind: Option<Box<str>>,
    /// Literal bytes before it.
    pub prefix: Box<str>,
    /// Literal bytes behind it.
    pub suffix: Box<str>,
}

/// Why a text is no template, and where in the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct TemplateError {
    /// What is wrong.
    pub kind: TemplateErrorKind,
    /// Bytes of the template's text.
    pub span: Range<usize>,
}

/// What is wrong with a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateErrorKind {
    /// Nothing.
    #[error("a template must not be empty; `/` is the root and `/**` is everything")]
    Empty,
    /// No slash in front.
    #[error("a template starts with `/`")]
    NoLeadingSlash,
    /// Over [`MAX_BYTES`].
    #[error("a template has at most {MAX_BYTES} bytes")]
    TooLong,
    /// Over [`MAX_SEGMENTS`].
    #[error("a template has at most {MAX_SEGMENTS} segments")]
    TooManySegments,
    /// Over [`MAX_PARAMETERS`].
    #[error("a template has at most {MAX_PARAMETERS} parameters")]
    TooManyParameters,
    /// `//`.
    #[error("an empty segment: no path with `//` is forwarded by a template")]
    EmptySegment,
    /// `.` or `..`.
    #[error("a dot segment: servers resolve it away before they route")]
    DotSegment,
    /// `*` that is not a final `/**`.
    #[error("`*` alone is no segment; one segment is `{{name}}`, and a final `/**` is everything below")]
    Wildcard,
    /// Outside RFC 3986's path characters.
    #[error("`{0}` cannot stand in a path (RFC 3986 section 3.3)")]
    Character(char),
    /// `%`.
    #[error("a percent-escape in a literal: bytes are compared as they come, so `%` would match one spelling of many")]
    Percent,
    /// A query or fragment.
    #[error("a template is a path: `{0}` would start a query or a fragment")]
    Query(char),
    /// A brace without its partner.
    #[error("a brace without its partner; a parameter is `{{name}}` or `{{name:kind}}`")]
    Brace,
    /// Two parameters in one segment.
    #[error("two parameters in one segment: where one ends and the other starts cannot be told")]
    TwoParameters,
    /// A name that is none.
    #[error("`{0}` is no parameter name: a letter or `_`, then letters, digits, `_` or `-`")]
    Name(Box<str>),
    /// A name used twice.
    #[error("the parameter `{0}` stands twice in one template")]
    DuplicateName(Box<str>),
}

impl Template {
    /// Parses a template. Whether its kinds exist is checked where they are declared.
    ///
    /// # Errors
    /// The first fault, with its place in `text`.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        use TemplateErrorKind as Kind;
        let whole = 0..text.len();
        let fault = |kind, span| Err(TemplateError { kind, span });
        if text.is_empty() {
            return fault(Kind::Empty, whole);
        }
        if text.len() > MAX_BYTES {
            return fault(Kind::TooLong, whole);
        }
        if !text.starts_with('/') {
            return fault(Kind::NoLeadingSlash, 0..text.chars().next().map_or(0, char::len_utf8));
        }
        let (body, tail) = match text.strip_suffix("/**") {
            Some(body) => (body, true),
            None => (text, false),
        };
        let mut segments = Vec::new();
        if !body.is_empty() {
            let mut at = 1;
            let count = body[1..].split('/').count();
            for (index, part) in body[1..].split('/').enumerate() {
                let span = at..at + part.len();
                at = span.end + 1;
                let last = index + 1 == count && !tail;
                if part.is_empty() && !last {
                    return fault(Kind::EmptySegment, span.start.saturating_sub(1)..span.end + 1);
                }
                segments.push(parse_segment(part, &span)?);
                if segments.len() > MAX_SEGMENTS {
                    return fault(Kind::TooManySegments, span);
                }
            }
        }
        let template = Self {
            text: text.into(),
            segments: segments.into(),
            tail,
        };
        let mut names: Vec<&str> = Vec::new();
        for parameter in template.parameters() {
            if names.contains(&&*parameter.name) {
                return fault(Kind::DuplicateName(parameter.name.clone()), whole);
            }
            names.push(&parameter.name);
        }
        if names.len() > MAX_PARAMETERS {
            return fault(Kind::TooManyParameters, whole);
        }
        Ok(template)
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The segments, without a final `/**`.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether it ends in `/**`.
    pub fn has_tail(&self) -> bool {
        self.tail
    }

    /// The parameters, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Parameter(parameter) => Some(parameter),
            Segment::Literal(_) => None,
        })
    }

    /// Whether both have one [`shape`](Self::shape), kinds and all.
    pub fn has_shape_of(&self, other: &Self) -> bool {
        self.tail == other.tail
            && self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(|pair| match pair {
                (Segment::Literal(left), Segment::Literal(right)) => left == right,
                (Segment::Parameter(left), Segment::Parameter(right)) => {
                    (&left.prefix, &left.kind, &left.suffix) == (&right.prefix, &right.kind, &right.suffix)
                }
                _ => false,
            })
    }

    /// The template without the names of its parameters: two templates with one shape match the same
    /// paths. With `kinds` false, what the kinds narrow is left out too.
    pub fn shape(&self, kinds: bool) -> String {
        let mut shape = String::with_capacity(self.text.len());
        for segment in &self.segments {
            shape.push('/');
            match segment {
                Segment::Literal(literal) => shape.push_str(literal),
                Segment::Parameter(parameter) => {
                    shape.push_str(&parameter.prefix);
                    shape.push('{');
                    if kinds && let Some(kind) = &parameter.kind {
                        shape.push(':');
                        shape.push_str(kind);
                    }
                    shape.push('}');
                    shape.push_str(&parameter.suffix);
                }
            }
        }
        if self.tail {
            shape.push_str("/**");
        }
        shape
    }
}

fn parse_segment(part: &str, span: &Range<usize>) -> Result<Segment, TemplateError> {
    use TemplateErrorKind as Kind;
    let fault = |kind, span| Err(TemplateError { kind, span });
    if part == "." || part == ".." {
        return fault(Kind::DotSegment, span.clone());
    }
    if part == "*" || part.contains("**") {
        return fault(Kind::Wildcard, span.clone());
    }
    let Some(open) = part.find('{') else {
        check_literal(part, span.start)?;
        return Ok(Segment::Literal(part.into()));
    };
    let (prefix, rest) = part.split_at(open);
    check_literal(prefix, span.start)?;
    let Some(close) = rest.find('}') else {
        return fault(Kind::Brace, span.start + open..span.end);
    };
    let inside = &rest[1..close];
    let inside_at = span.start + open + 1;
    if let Some(brace) = inside.find('{') {
        return fault(Kind::Brace, inside_at + brace..inside_at + brace + 1);
    }
    let suffix = &rest[close + 1..];
    let suffix_at = span.start + open + close + 1;
    if suffix.contains('{') {
        return fault(Kind::TwoParameters, span.clone());
    }
    check_literal(suffix, suffix_at)?;
    let (name, kind) = match inside.split_once(':') {
        Some((name, kind)) => (name, Some(kind)),
        None => (inside, None),
    };
    for word in std::iter::once(name).chain(kind) {
        if !is_name(word) {
            return fault(Kind::Name(word.into()), inside_at..inside_at + inside.len());
        }
    }
    Ok(Segment::Parameter(Parameter {
        name: name.into(),
        kind: kind.map(Into::into),
        prefix: prefix.into(),
        suffix: suffix.into(),
    }))
}

/// Whether a word may name a parameter, a kind, a family or a profile.
pub fn is_name(word: &str) -> bool {
    let mut characters = word.chars();
    characters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|next| next.is_ascii_alphanumeric() || next == '_' || next == '-')
}

fn check_literal(literal: &str, at: usize) -> Result<(), TemplateError> {
    use TemplateErrorKind as Kind;
    for (offset, character) in literal.char_indices() {
        let kind = match character {
            '{' | '}' => Kind::Brace,
            '%' => Kind::Percent,
            '?' | '#' => Kind::Query(character),
            'A'..='Z' | 'a'..='z' | '0'..='9' => continue,
            _ if "-._~!$&'()*+,;=:@".contains(character) => continue,
            other => Kind::Character(other),
        };
        let start = at + offset;
        return Err(TemplateError {
            kind,
            span: start..start + character.len_utf8(),
        });
    }
    Ok(())
}

/// The text as it was written.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_grammar_parses() {
        for (text, segments, tail) in [
            ("/", 1, false),
            ("/**", 0, true),
            ("/a", 1, false),
            ("/a/", 2, false),
            ("/a/**", 1, true),
            ("/a/{b}/c", 3, false),
            ("/a/{b:kebab}", 2, false),
            ("/a/img-{b:int}.png/**", 2, true),
            ("/v1/{id}:test", 2, false),
            ("/a;b=1/(c)/*x", 3, false),
        ] {
            let template = Template::parse(text).unwrap();
            assert_eq!(
                (template.segments().len(), template.has_tail()),
                (segments, tail),
                "{text}"
            );
            assert_eq!(template.to_string(), text);
        }
    }

    #[test]
    fn what_the_grammar_cannot_say_is_an_error_with_its_place() {
        use TemplateErrorKind as Kind;
        for (text, kind, span) in [
            ("", Kind::Empty, 0..0),
            ("a", Kind::NoLeadingSlash, 0..1),
            ("é", Kind::NoLeadingSlash, 0..2),
            ("/a//b", Kind::EmptySegment, 2..4),
            ("//", Kind::EmptySegment, 0..2),
            ("/a/**/b", Kind::Wildcard, 3..5),
            ("/a/*", Kind::Wildcard, 3..4),
            ("/a/x**", Kind::Wildcard, 3..6),
            ("/a/..", Kind::DotSegment, 3..5),
            ("/./a", Kind::DotSegment, 1..2),
            ("/a b", Kind::Character(' '), 2..3),
            ("/é", Kind::Character('é'), 1..3),
            ("/a\\b", Kind::Character('\\'), 2..3),
            ("/a%20b", Kind::Percent, 2..3),
            ("/a?b", Kind::Query('?'), 2..3),
            ("/{a", Kind::Brace, 1..3),
            ("/a}", Kind::Brace, 2..3),
            ("/{a{b}", Kind::Brace, 3..4),
            ("/{a}{b}", Kind::TwoParameters, 1..7),
            ("/{}", Kind::Name("".into()), 2..2),
            ("/{*rest}", Kind::Name("*rest".into()), 2..7),
            ("/{a:}", Kind::Name("".into()), 2..4),
            ("/{a}/{a}", Kind::DuplicateName("a".into()), 0..8),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert_eq!((error.kind, error.span), (kind, span), "{text}");
        }
        assert_eq!(
            Template::parse(&format!("/{}", "a".repeat(MAX_BYTES)))
                .unwrap_err()
                .kind,
            Kind::TooLong
        );
        assert_eq!(
            Template::parse(&"/a".repeat(MAX_SEGMENTS + 1)).unwrap_err().kind,
            Kind::TooManySegments
        );
        let many: String = (0..=MAX_PARAMETERS).map(|n| format!("/{{p{n}}}")).collect();
        assert_eq!(Template::parse(&many).unwrap_err().kind, Kind::TooManyParameters);
    }

    #[test]
    fn a_shape_leaves_the_names_out() {
        let left = Template::parse("/a/{x:int}/b-{y}/**").unwrap();
        assert_eq!(left.shape(true), "/a/{:int}/b-{}/**");
        assert_eq!(left.shape(false), "/a/{}/b-{}/**");
    }
}
