//! Templates made wider and narrower.

use crate::template::{Parameter, Segment, Template};

/// What is put below a claim to narrow it.
pub(super) const LITERAL: &str = "narrowed";

/// Without the last segment: `/a/b/**` becomes `/a/**`. `None` where none is left to cut.
pub(super) fn cut_last_segment(template: &Template) -> Option<Template> {
    let (_, kept) = template.segments().split_last()?;
    if kept.is_empty() && !template.has_tail() && template.as_str() == "/" {
        return None;
    }
    parse(kept, template.has_tail())
}

/// With everything below it: `/a` becomes `/a/**`.
pub(super) fn with_tail(template: &Template) -> Option<Template> {
    if template.has_tail() {
        return None;
    }
    // A trailing slash is an empty last segment, and `/**` takes the path with it and without it.
    let segments = match template.segments().split_last() {
        Some((Segment::Literal(last), kept)) if last.is_empty() => kept,
        _ => template.segments(),
    };
    parse(segments, true)
}

/// Without what is below it: `/a/**` becomes `/a`.
pub(super) fn without_tail(template: &Template) -> Option<Template> {
    template.has_tail().then(|| parse(template.segments(), false)).flatten()
}

/// With one literal more at its end: `/a/**` becomes `/a/narrowed/**`.
pub(super) fn with_literal(template: &Template) -> Option<Template> {
    let mut segments: Vec<Segment> = match template.segments().split_last() {
        Some((Segment::Literal(last), kept)) if last.is_empty() => kept.to_vec(),
        _ => template.segments().to_vec(),
    };
    segments.push(Segment::Literal(LITERAL.into()));
    parse(&segments, template.has_tail())
}

/// Without the kind of one of its segments.
pub(super) fn without_kind(template: &Template, at: usize) -> Option<Template> {
    let mut segments = template.segments().to_vec();
    match segments.get_mut(at)? {
        Segment::Parameter(parameter) if parameter.kind.is_some() => parameter.kind = None,
        _ => return None,
    }
    parse(&segments, template.has_tail())
}

/// The segments that have a kind, by their index.
pub(super) fn segments_with_kind(template: &Template) -> impl Iterator<Item = usize> {
    template
        .segments()
        .iter()
        .enumerate()
        .filter(|(_, segment)| matches!(segment, Segment::Parameter(Parameter { kind: Some(_), .. })))
        .map(|(index, _)| index)
}

fn parse(segments: &[Segment], tail: bool) -> Option<Template> {
    let mut text = String::new();
    for segment in segments {
        text.push('/');
        match segment {
            Segment::Literal(literal) => text.push_str(literal),
            Segment::Parameter(parameter) => {
                text.push_str(&parameter.prefix);
                text.push('{');
                text.push_str(&parameter.name);
                if let Some(kind) = &parameter.kind {
                    text.push(':');
                    text.push_str(kind);
                }
                text.push('}');
                text.push_str(&parameter.suffix);
            }
        }
    }
    if tail {
        text.push_str("/**");
    } else if text.is_empty() {
        text.push('/');
    }
    Template::parse(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_made_wider_and_narrower() {
        type Reshape = fn(&Template) -> Option<Template>;
        type Cases = &'static [(&'static str, Option<&'static str>)];
        let reshapes: [(Reshape, Cases); 4] = [
            (
                cut_last_segment,
                &[
                    ("/", None),
                    ("/**", None),
                    ("/a", Some("/")),
                    ("/a/**", Some("/**")),
                    ("/a/{x:int}.s", Some("/a")),
                    ("/a/", Some("/a")),
                ],
            ),
            (
                with_tail,
                &[("/", Some("/**")), ("/a/", Some("/a/**")), ("/a/**", None)],
            ),
            (without_tail, &[("/**", Some("/")), ("/a/**", Some("/a")), ("/a", None)]),
            (
                with_literal,
                &[
                    ("/", Some("/narrowed")),
                    ("/**", Some("/narrowed/**")),
                    ("/p-{a:int}/**", Some("/p-{a:int}/narrowed/**")),
                    ("/a/", Some("/a/narrowed")),
                ],
            ),
        ];
        for (reshape, cases) in reshapes {
            for (text, expected) in cases {
                let reshaped = reshape(&Template::parse(text).unwrap());
                assert_eq!(reshaped.as_ref().map(Template::as_str), *expected, "{text}");
            }
        }
        let template = Template::parse("/{a}/p-{b:int}.s/{c:uuid}").unwrap();
        assert_eq!(segments_with_kind(&template).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(without_kind(&template, 1).unwrap().as_str(), "/{a}/p-{b}.s/{c:uuid}");
        assert!(without_kind(&template, 0).is_none());
    }
}
