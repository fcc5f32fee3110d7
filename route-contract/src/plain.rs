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
    let end = path.last_chunk()?;
    let mut flags = [0; BLOCK];
    // Blocks overlap by one byte, so that each byte is seen beside its successor; the last block is
    // aligned to the end instead of being a short one.
    let mut rest = path;
    while let Some(block) = rest.first_chunk() {
        judge(block, &mut flags);
        rest = rest.get(BLOCK..)?;
    }
    judge(end, &mut flags);
    let last = CLASS_OF_LAST[usize::from(end[BLOCK])];
    Some(flags.iter().fold(last, |all, flag| all | flag))
}

/// Adds the flags of sixteen bytes, of which the one behind them is the last one's successor. Written
/// without branches, so that the compiler makes vector instructions of it.
#[inline]
fn judge(block: &[u8; BLOCK + 1], flags: &mut [u8; BLOCK]) {
    let next = block.get(1..).unwrap_or_default();
    for ((flag, &byte), &next) in flags.iter_mut().zip(block).zip(next) {
        let within = |byte: u8, low: u8, high: u8| byte.wrapping_sub(low) <= high - low;
        let upper = within(byte, b'A', b'Z');
        let known = upper | within(byte, b'a', b'z') | within(byte, b'-', b'9') | (byte == b'_');
        let odd = (byte == b'/') & within(next, b'.', b'/');
        *flag |= (u8::from(upper) * UPPER) | (u8::from(!known | odd) * CLOSER);
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
