//! Plain paths: those that every server reads alike but for the case of letters and a trailing slash. Nearly
//! every path is plain, so this is decided with vector instructions over the whole path, and a path of
//! letters, digits, `-`, `.` and `_` needs no second look.

/// How far a path can be trusted to be read alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plainness {
    /// Plain, without capitals.
    Lower,
    /// Plain, with capitals.
    Mixed,
    /// With a `%`, a `;`, a dot segment or an empty segment: its readings must be compared.
    Suspicious,
    /// With a byte that no path may hold (RFC 3986 section 3.3).
    Invalid,
}

/// Bytes that are looked at together.
const BLOCK: usize = 16;

/// A capital letter.
const UPPER: u8 = 1;
/// Something that not every server reads alike.
const ODD: u8 = 2;
/// A byte that no path may hold.
const INVALID: u8 = 4;
/// Anything but letters, digits, `-`, `.`, `_`, `/`, or a slash before a dot or a slash: look closer.
const CLOSER: u8 = 8;

impl Plainness {
    /// Judges a path.
    #[inline]
    pub fn of(path: &[u8]) -> Self {
        match Self::glance(path) {
            Self::Suspicious => Self::look_closer(path),
            plain => plain,
        }
    }

    /// Judges a path, or a whole target, at a glance: what is not `Lower` or `Mixed` beyond doubt is
    /// `Suspicious`, a query among it.
    #[inline]
    pub fn glance(target: &[u8]) -> Self {
        match glance(target) {
            Some(0) => Self::Lower,
            Some(UPPER) => Self::Mixed,
            _ => Self::Suspicious,
        }
    }

    fn look_closer(path: &[u8]) -> Self {
        let mut flags = 0;
        for segment in path.split(|byte| *byte == b'/').skip(1) {
            flags = segment
                .iter()
                .fold(flags, |flags, byte| flags | CLASS[usize::from(*byte)]);
            flags |= match segment {
                b"." | b".." => ODD,
                _ => 0,
            };
        }
        if path.windows(2).any(|pair| pair == b"//") {
            flags |= ODD;
        }
        if flags & INVALID != 0 {
            Self::Invalid
        } else if flags & ODD != 0 {
            Self::Suspicious
        } else if flags & UPPER != 0 {
            Self::Mixed
        } else {
            Self::Lower
        }
    }
}

/// `UPPER` and `CLOSER` for a path; `None` for one that is shorter than a block.
#[inline]
fn glance(path: &[u8]) -> Option<u8> {
    let (last, before_last) = path.split_last()?;
    let mut seen = Seen {
        known: [u8::MAX; BLOCK],
        letters: [0; BLOCK],
    };
    // Each byte is seen beside its successor; the last block is aligned to the end instead of being a short
    // one.
    let (blocks, _) = before_last.as_chunks();
    let (successors, _) = path.get(1..)?.as_chunks();
    for (block, successors) in blocks.iter().zip(successors) {
        seen.look_at(block, successors);
    }
    seen.look_at(before_last.last_chunk()?, path.last_chunk()?);
    let letters = u128::from_ne_bytes(seen.letters) & u128::from_ne_bytes([SMALL; BLOCK]);
    let upper = if letters == 0 { 0 } else { UPPER };
    let closer = if seen.known == [u8::MAX; BLOCK] { 0 } else { CLOSER };
    Some(CLASS_OF_LAST[usize::from(*last)] | upper | closer)
}

/// The bit that small letters have and capitals lack.
const SMALL: u8 = b'a' ^ b'A';

/// What was seen in sixteen lanes.
struct Seen {
    /// All ones where every byte is known to be harmless beside its successor.
    known: [u8; BLOCK],
    /// All bits that some letter lacks.
    letters: [u8; BLOCK],
}

impl Seen {
    /// Looks at sixteen bytes and their successors. Written without branches, so that the compiler makes
    /// vector instructions of it.
    #[inline]
    fn look_at(&mut self, block: &[u8; BLOCK], successors: &[u8; BLOCK]) {
        let lanes = self.known.iter_mut().zip(self.letters.iter_mut());
        for (((known, letters), &byte), &next) in lanes.zip(block).zip(successors) {
            let within = |byte: u8, low: u8, high: u8| byte.wrapping_sub(low) <= high - low;
            let letter = within(byte | SMALL, b'a', b'z');
            let harmless = letter | within(byte, b'-', b'9') | (byte == b'_');
            let odd = (byte == b'/') & within(next, b'.', b'/');
            *known &= if harmless & !odd { u8::MAX } else { 0 };
            *letters |= if letter { !byte } else { 0 };
        }
    }
}

const CLASS: [u8; 256] = {
    let mut class = [INVALID; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = match byte as u8 {
            b'A'..=b'Z' => UPPER,
            b'a'..=b'z' | b'0'..=b'9' => 0,
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b'=' | b':'
            | b'@' => 0,
            b'%' | b';' => ODD,
            _ => INVALID,
        };
        byte += 1;
    }
    class
};

/// What [`glance`] says of the last byte, which has no successor.
const CLASS_OF_LAST: [u8; 256] = {
    let mut class = [CLOSER; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = match byte as u8 {
            b'A'..=b'Z' => UPPER,
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' => 0,
            _ => CLOSER,
        };
        byte += 1;
    }
    class
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_glance_and_the_closer_look_agree_on_every_byte_in_every_place() {
        for length in [1, 2, 15, 16, 17, 18, 33, 34, 40] {
            for place in 1..length {
                for byte in 0..=u8::MAX {
                    let mut path = vec![b'a'; length];
                    path[0] = b'/';
                    path[place] = byte;
                    assert_eq!(
                        Plainness::of(&path),
                        Plainness::look_closer(&path),
                        "{}",
                        path.escape_ascii()
                    );
                    for pair in [b"//", b"/.", b"..", b"./"] {
                        if place + 1 < length {
                            let mut path = path.clone();
                            path[place..place + 2].copy_from_slice(pair);
                            assert_eq!(
                                Plainness::of(&path),
                                Plainness::look_closer(&path),
                                "{}",
                                path.escape_ascii()
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_servers_read_in_different_ways_is_suspicious() {
        for (path, expected) in [
            ("/", Plainness::Lower),
            ("/a/b.c/d-e_f~/g:h@i,j=k", Plainness::Lower),
            ("/a/B", Plainness::Mixed),
            ("/a/", Plainness::Lower),
            ("/a/.hidden/v1..2/...", Plainness::Lower),
            ("//", Plainness::Suspicious),
            ("/a//b", Plainness::Suspicious),
            ("/a/./b", Plainness::Suspicious),
            ("/a/..", Plainness::Suspicious),
            ("/a;b", Plainness::Suspicious),
            ("/a%20b", Plainness::Suspicious),
            ("/a b", Plainness::Invalid),
            ("/a\\b", Plainness::Invalid),
            ("/a/\"/%20", Plainness::Invalid),
            ("/\u{e9}", Plainness::Invalid),
        ] {
            assert_eq!(Plainness::of(path.as_bytes()), expected, "{path}");
        }
    }
}
