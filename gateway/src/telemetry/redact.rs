//! The one redactor: a request target as it may be written down, in records and in spans.
//!
//! What is left is the raw path. A query goes, also one whose `?` is encoded, since some reader will decode it; so do
//! parameters behind a `;`, where session ids stand, credentials before a host, and whatever is no target at all:
//! the first line of bytes that are no request may be anything, a header with a secret among them.

use std::fmt;

/// The longest target that is written, in bytes.
const LONGEST: usize = 512;

/// A target without its secrets, cut where it is very long, with all but printable ASCII escaped as `\xNN`.
#[derive(Clone, Copy, Debug)]
pub struct Redacted<'a>(pub &'a [u8]);

impl fmt::Display for Redacted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = plain_path(self.0) {
            return formatter.write_str(path);
        }
        let (path, mark) = split(self.0);
        let Some(path) = without_user(path) else {
            return formatter.write_str("…");
        };
        let shown = path.get(..LONGEST).unwrap_or(path);
        write_path(formatter, shown)?;
        if path.len() > LONGEST {
            formatter.write_str("…")?;
        }
        formatter.write_str(mark)
    }
}

/// A target that is a path and nothing else, as most are: all of it may be shown. Looked at without an early end, sixteen
/// bytes at a time.
fn plain_path(target: &[u8]) -> Option<&str> {
    let is_plain = target.iter().fold(true, |plain, &byte| {
        plain & (b'!'..=b'~').contains(&byte) & !matches!(byte, b'?' | b'#' | b'%' | b';')
    });
    let is_path = is_plain && target.len() <= LONGEST && target.starts_with(b"/") && !target.starts_with(b"//");
    std::str::from_utf8(target).ok().filter(|_| is_path)
}

/// The path, and what stands for the rest of the target.
fn split(target: &[u8]) -> (&[u8], &'static str) {
    let end = target.iter().enumerate().find_map(|(at, byte)| match byte {
        b'?' | b'#' => Some((at, "?…")),
        // No target holds a space; what follows it was never meant to be one.
        b' ' | b'\t' | 0x0b | 0x0c | b'\r' | b'\n' => Some((at, "…")),
        b'%' if is_encoded_mark(target.get(at..).unwrap_or_default()) => Some((at, "%3F…")),
        _ => None,
    });
    match end {
        Some((at, mark)) => (target.get(..at).unwrap_or_default(), mark),
        None => (target, ""),
    }
}

/// Whether a `?` or `#` stands here, encoded once or twice.
fn is_encoded_mark(text: &[u8]) -> bool {
    let rest = text.strip_prefix(b"%25").or_else(|| text.strip_prefix(b"%"));
    matches!(rest, Some([b'3', b'F' | b'f', ..] | [b'2', b'3', ..]))
}

/// What may be shown of a path: all of an origin-form, the host and path of an absolute one, nothing of what is
/// neither.
fn without_user(path: &[u8]) -> Option<&[u8]> {
    if path == b"*" || (path.starts_with(b"/") && !path.starts_with(b"//")) {
        return Some(path);
    }
    // A password may hold anything, so all up to the last `@` goes.
    if let Some(at) = path.iter().rposition(|&byte| byte == b'@') {
        let is_located = path.starts_with(b"//") || has_scheme(path);
        return is_located.then(|| path.get(at..)).flatten();
    }
    (path.starts_with(b"//") || has_scheme(path)).then_some(path)
}

fn has_scheme(path: &[u8]) -> bool {
    let name = path.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    name > 0 && path.get(name..).is_some_and(|rest| rest.starts_with(b"://"))
}

/// Writes a path without the parameters of its segments.
fn write_path(formatter: &mut fmt::Formatter<'_>, path: &[u8]) -> fmt::Result {
    let mut rest = path;
    while let Some(at) = rest
        .iter()
        .position(|&byte| byte == b';' || !(b' '..=b'~').contains(&byte))
    {
        let (plain, special) = rest.split_at(at);
        formatter.write_str(std::str::from_utf8(plain).unwrap_or_default())?;
        rest = special;
        match special {
            [b';', ..] => {
                formatter.write_str(";…")?;
                let end = special.iter().position(|&byte| byte == b'/').unwrap_or(special.len());
                rest = special.get(end..).unwrap_or_default();
            }
            [byte, after @ ..] => {
                write!(formatter, "\\x{byte:02x}")?;
                rest = after;
            }
            [] => break,
        }
    }
    formatter.write_str(std::str::from_utf8(rest).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_shown_without_what_may_be_secret() {
        for (target, shown) in [
            ("/a%2Fb", "/a%2Fb"),
            ("/a'b\"c\\d", "/a'b\"c\\d"),
            ("/a?token=secret", "/a?…"),
            ("/a?", "/a?…"),
            ("/a#b", "/a?…"),
            ("/a%3Ftoken=secret", "/a%3F…"),
            ("/a%3ftoken=secret", "/a%3F…"),
            ("/a%253Ftoken=secret", "/a%3F…"),
            ("/a%23secret", "/a%3F…"),
            ("/a%2", "/a%2"),
            ("/a;jsessionid=secret/b;c", "/a;…/b;…"),
            ("/a\u{1b}[2J", "/a\\x1b[2J"),
            ("/é", "/\\xc3\\xa9"),
            ("/a Authorization: secret", "/a…"),
            ("/a\r\nCookie: secret", "/a…"),
            ("http://user:secret@gw/a", "@gw/a"),
            ("http://user:sec@ret@gw/a?b", "@gw/a?…"),
            ("http://user:sec/ret@gw/a", "@gw/a"),
            ("//user:secret@gw/a", "@gw/a"),
            ("http://gw/a", "http://gw/a"),
            ("//gw/a", "//gw/a"),
            ("/a@b", "/a@b"),
            ("*", "*"),
            ("secret", "…"),
            ("a=secret;", "…"),
            ("user:secret@gw:443", "…"),
            ("", "…"),
        ] {
            assert_eq!(Redacted(target.as_bytes()).to_string(), shown, "{target:?}");
        }
    }

    #[test]
    fn long_targets_are_cut_and_marked() {
        let shown = Redacted(&[b'/', b'a'].repeat(300)).to_string();
        assert_eq!(shown.chars().count(), LONGEST + 1);
        assert!(shown.ends_with('…'));
    }
}
