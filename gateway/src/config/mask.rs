//! Credentials that somebody wrote into a configuration file are refused, and are not to be printed in the
//! excerpt that says so.

use std::sync::Arc;

use route_contract::diagnostic::{Diagnostic, Source};

/// The file as findings may show it: what stands between `://` and an `@` is covered, byte for byte, so that
/// every place stays where it is.
pub(super) fn masked(source: &Arc<Source>) -> Arc<Source> {
    if !source.text.contains("://") {
        return Arc::clone(source);
    }
    let mut text = String::with_capacity(source.text.len());
    for word in source
        .text
        .split_inclusive(|end: char| end.is_whitespace() || end == '"' || end == '\'')
    {
        // A password may hold anything, so all up to the last `@` of the word is covered.
        let secret = word.find("://").and_then(|scheme| {
            let start = scheme + "://".len();
            let end = word.rfind('@')?;
            Some((word.get(..start)?, end.checked_sub(start)?, word.get(end..)?))
        });
        match secret {
            Some((before, covered, after)) => {
                text.push_str(before);
                text.extend(std::iter::repeat_n('*', covered));
                text.push_str(after);
            }
            None => text.push_str(word),
        }
    }
    Source::new(source.name.clone(), text)
}

/// A text in which no URL says where it leads: for those who may know what is wrong, and not where upstreams are.
pub(crate) fn without_authorities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://***");
        let ends = |character: char| character.is_whitespace() || "\"'`,;)>".contains(character);
        rest = after.find(ends).and_then(|end| after.get(end..)).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Makes findings show `masked` where they show `source`.
pub(super) fn cover(mut findings: Vec<Diagnostic>, source: &Arc<Source>, masked: &Arc<Source>) -> Vec<Diagnostic> {
    for finding in &mut findings {
        let related = finding.related.iter_mut().map(|(_, place)| place);
        for place in finding.place.iter_mut().chain(related) {
            if Arc::ptr_eq(&place.source, source) {
                place.source = Arc::clone(masked);
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_taken_out_of_a_text() {
        for (text, expected) in [
            ("nothing here", "nothing here"),
            (
                "`http://h:80`, or https://u:p@[::1]/x?y",
                "`http://***`, or https://***",
            ),
            ("\"://\" alone", "\"://***\" alone"),
        ] {
            assert_eq!(without_authorities(text), expected);
        }
    }

    #[test]
    fn user_information_is_covered_and_nothing_else_moves() {
        for (text, expected) in [
            ("a = 1 # me@home", "a = 1 # me@home"),
            ("url = \"http://h:80\"", "url = \"http://h:80\""),
            ("url = \"http://u:p@h:80\" # x@y", "url = \"http://***@h:80\" # x@y"),
            (
                "['http://u:p/@é@h', \"ftp://q@\"]",
                "['http://*******@h', \"ftp://*@\"]",
            ),
            ("http://http://p@h", "http://********@h"),
        ] {
            let source = Source::new("g", text);
            assert_eq!(masked(&source).text, expected, "{text}");
            assert_eq!(masked(&source).text.len(), text.len(), "{text}");
        }
    }
}
