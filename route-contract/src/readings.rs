//! Readings: what a path may be taken for by a server that decodes, merges, folds or cuts it.
//!
//! The gateway forwards the bytes as they come, so its own reading is not enough: a path is forwarded only
//! where every reading has the same owner. A reading is what is left after any of the steps below, in any
//! order, until nothing changes; percent-escapes are decoded at most twice.

use std::collections::HashSet;

/// The longest path, in bytes, whose readings are looked at: a longer one that is not plain is refused.
pub const MAX_SUSPICIOUS: usize = 4 * 1024;

/// The most readings of one path: a path with more is refused.
pub const MAX_READINGS: usize = 64;

/// One step that some server takes between the bytes and its routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Every percent-escape is decoded (RFC 3986 section 2.1).
    Decode,
    /// Percent-escapes of unreserved characters are decoded (RFC 3986 section 6.2.2.2).
    DecodeUnreserved,
    /// `\` is taken for `/`.
    Backslash,
    /// What follows a `;` in a segment is cut, as servlet containers do.
    Parameters,
    /// The path ends at a decoded `?`, `#` or NUL.
    Cut,
    /// `//` is taken for `/`.
    Merge,
    /// `.` and `..` are resolved (RFC 3986 section 5.2.4).
    DotSegments,
    /// A slash at the end is dropped.
    TrailingSlash,
    /// Letters outside of ASCII are taken for the ASCII letters that they are in another case: `K` (the Kelvin sign),
    /// `ſ`, `İ` and `ı`, as by Java's `equalsIgnoreCase` and by regular expressions that ignore case.
    FoldLetters,
}

impl Step {
    const ALL: [Self; 9] = [
        Self::Decode,
        Self::DecodeUnreserved,
        Self::Backslash,
        Self::Parameters,
        Self::Cut,
        Self::Merge,
        Self::DotSegments,
        Self::TrailingSlash,
        Self::FoldLetters,
    ];

    /// The words for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decode => "percent-decoded",
            Self::DecodeUnreserved => "escapes of unreserved characters decoded",
            Self::Backslash => "`\\` taken for `/`",
            Self::Parameters => "`;...` cut from segments",
            Self::Cut => "cut at a decoded `?`, `#` or NUL",
            Self::Merge => "`//` merged",
            Self::DotSegments => "dot segments resolved",
            Self::TrailingSlash => "trailing slash dropped",
            Self::FoldLetters => "letters outside of ASCII folded",
        }
    }

    /// The path behind the step; `None` where the step changes nothing.
    fn take(self, path: &[u8]) -> Option<Vec<u8>> {
        let taken = match self {
            Self::Decode => decode(path, |_| true),
            Self::DecodeUnreserved => decode(path, is_unreserved),
            Self::Backslash => path
                .iter()
                .map(|byte| if *byte == b'\\' { b'/' } else { *byte })
                .collect(),
            Self::Parameters => cut_parameters(path),
            Self::Cut => path
                .iter()
                .copied()
                .take_while(|byte| !matches!(byte, b'?' | b'#' | 0))
                .collect(),
            Self::Merge => merge_slashes(path),
            Self::DotSegments => resolve_dots(path),
            Self::TrailingSlash => match path {
                [rest @ .., b'/'] if !rest.is_empty() => rest.to_vec(),
                _ => return None,
            },
            Self::FoldLetters => fold_letters(path),
        };
        (taken != path).then_some(taken)
    }
}

/// One reading: the steps that were taken, and the path that is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// In the order in which they were taken; empty for the path as it stands.
    pub steps: Vec<Step>,
    /// The path that is left.
    pub path: Vec<u8>,
    decoded: u8,
}

/// Why a path has no readings that could be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// An escape is malformed, or decodes to a control byte or to no UTF-8: every server repairs it in its
    /// own way.
    Malformed,
    /// Longer than [`MAX_SUSPICIOUS`], or more than [`MAX_READINGS`].
    TooMany,
}

/// All readings of a path, the path itself first.
///
/// # Errors
/// See [`Unreadable`].
pub fn readings(path: &[u8]) -> Result<Vec<Reading>, Unreadable> {
    if !escapes_are_sound(path) {
        return Err(Unreadable::Malformed);
    }
    if path.len() > MAX_SUSPICIOUS {
        return Err(Unreadable::TooMany);
    }
    let mut readings = vec![Reading {
        steps: Vec::new(),
        path: path.to_vec(),
        decoded: 0,
    }];
    let mut seen: HashSet<(u8, Vec<u8>)> = HashSet::from([(0, path.to_vec())]);
    let mut at = 0;
    while at < readings.len() {
        for step in Step::ALL {
            let Reading { steps, path, decoded } = &readings[at];
            let decodes = matches!(step, Step::Decode | Step::DecodeUnreserved);
            if decodes && *decoded == 2 {
                continue;
            }
            let Some(taken) = step.take(path) else { continue };
            if decodes && !is_sound(&taken) {
                return Err(Unreadable::Malformed);
            }
            let decoded = decoded + u8::from(decodes);
            if !taken.starts_with(b"/") || !seen.insert((decoded, taken.clone())) {
                continue;
            }
            if readings.len() == MAX_READINGS {
                return Err(Unreadable::TooMany);
            }
            let steps = steps.iter().copied().chain([step]).collect();
            readings.push(Reading {
                steps,
                path: taken,
                decoded,
            });
        }
        at += 1;
    }
    Ok(readings)
}

/// Whether an escape of the path stands for a slash, or for a backslash, which some take for one, decoded once or
/// twice.
pub fn has_encoded_slash(path: &[u8]) -> bool {
    let slashes = |path: &[u8]| path.iter().filter(|byte| matches!(byte, b'/' | b'\\')).count();
    let once = decode(path, |_| true);
    slashes(&decode(&once, |_| true)) > slashes(path)
}

/// Whether every `%` starts an escape, and none is of a control byte; and what the escapes decode to is
/// UTF-8.
fn escapes_are_sound(path: &[u8]) -> bool {
    let mut rest = path;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        if escape_at(rest, at).is_none() {
            return false;
        }
        rest = &rest[at + 3..];
    }
    is_sound(&decode(path, |_| true))
}

/// Whether a decoded path is text without control characters.
fn is_sound(path: &[u8]) -> bool {
    std::str::from_utf8(path).is_ok_and(|text| !text.chars().any(char::is_control))
}

/// The byte that the escape at an index stands for.
fn escape_at(path: &[u8], at: usize) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    match path.get(at..at + 3)? {
        [b'%', high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

/// Decodes the escapes of the bytes that are wanted; what is no escape stays as it is.
fn decode(path: &[u8], wanted: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut at = 0;
    while let Some(&byte) = path.get(at) {
        match escape_at(path, at) {
            Some(escaped) if wanted(escaped) => {
                decoded.push(escaped);
                at += 3;
            }
            _ => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    decoded
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn cut_parameters(path: &[u8]) -> Vec<u8> {
    let mut cut = Vec::with_capacity(path.len());
    let mut inside = false;
    for &byte in path {
        match byte {
            b'/' => inside = false,
            b';' => inside = true,
            _ => {}
        }
        if !inside {
            cut.push(byte);
        }
    }
    cut
}

fn merge_slashes(path: &[u8]) -> Vec<u8> {
    let mut merged: Vec<u8> = Vec::with_capacity(path.len());
    for &byte in path {
        if byte != b'/' || merged.last() != Some(&b'/') {
            merged.push(byte);
        }
    }
    merged
}

/// Whether a letter is a capital or a small one is asked by the matcher, so all of them become small ones here.
fn fold_letters(path: &[u8]) -> Vec<u8> {
    let mut folded = Vec::with_capacity(path.len());
    let mut rest = path;
    loop {
        rest = match rest {
            [0xc5, 0xbf, behind @ ..] => {
                folded.push(b's');
                behind
            }
            [0xe2, 0x84, 0xaa, behind @ ..] => {
                folded.push(b'k');
                behind
            }
            [0xc4, 0xb0 | 0xb1, behind @ ..] => {
                folded.push(b'i');
                behind
            }
            [byte, behind @ ..] => {
                folded.push(*byte);
                behind
            }
            [] => return folded,
        };
    }
}

fn resolve_dots(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut directory = false;
    for segment in path.split(|byte| *byte == b'/').skip(1) {
        directory = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => {
                kept.pop();
            }
            other => kept.push(other),
        }
    }
    let mut resolved = Vec::with_capacity(path.len());
    for segment in &kept {
        resolved.push(b'/');
        resolved.extend_from_slice(segment);
    }
    if directory || resolved.is_empty() {
        resolved.push(b'/');
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(path: &str) -> Vec<String> {
        readings(path.as_bytes())
            .unwrap()
            .into_iter()
            .map(|reading| String::from_utf8(reading.path).unwrap())
            .collect()
    }

    #[test]
    fn each_step_and_their_combinations_are_readings() {
        for (path, reading) in [
            ("/a%2Fb", "/a/b"),
            ("/a%252Fb", "/a/b"),
            ("/%61", "/a"),
            ("/a//b", "/a/b"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/%2e%2e/b", "/b"),
            ("/a/..%2fb", "/b"),
            ("/a/..;x/b", "/b"),
            ("/a/.%3Bx./b", "/a/b"),
            ("/a;b/c", "/a/c"),
            ("/a%5Cb", "/a/b"),
            ("/a%5C..%5Cb", "/b"),
            ("/a%3Fb", "/a"),
            ("/a%23b/c", "/a"),
            ("/a/", "/a"),
            ("/a/..", "/"),
            ("/a/%2e%2e/b%2fc", "/b%2fc"),
            ("/a/%252e%252e/b", "/b"),
            ("/%E2%84%AA/%c5%bf/%C4%B0/%C4%B1", "/k/s/i/i"),
        ] {
            assert!(
                paths(path).iter().any(|found| found == reading),
                "{path}: {:?}",
                paths(path)
            );
        }
        assert_eq!(paths("/a/b"), ["/a/b"]);
        assert!(
            !paths("/%252561").contains(&"/a".to_owned()),
            "three decodings are one too many"
        );
    }

    #[test]
    fn a_malformed_escape_has_no_readings() {
        for path in [
            "/%",
            "/%2",
            "/%zz",
            "/%00",
            "/%0a",
            "/%7F",
            "/%c0%ae",
            "/%ff",
            "/%c3",
            "/%2500",
            "/%25c0%25ae",
            "/%c2%85",
        ] {
            assert_eq!(readings(path.as_bytes()), Err(Unreadable::Malformed), "{path}");
        }
        assert!(readings(b"/100%25.txt").is_ok());
        assert!(readings("/%C3%A9".as_bytes()).is_ok());
    }

    #[test]
    fn the_work_on_a_hostile_path_is_bounded() {
        for unit in ["%2525", "/./", ";", "/../", "%2F%5c", "//%2e", "%3b%3f%252e/"] {
            let path = format!("/{}", unit.repeat(MAX_SUSPICIOUS / unit.len()));
            if let Ok(readings) = readings(&path.as_bytes()[..MAX_SUSPICIOUS.min(path.len())]) {
                assert!(readings.len() <= MAX_READINGS);
            }
        }
        assert_eq!(readings(&b"/".repeat(MAX_SUSPICIOUS + 1)), Err(Unreadable::TooMany));
    }
}
