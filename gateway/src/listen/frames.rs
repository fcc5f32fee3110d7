//! Where the frames of a WebSocket end (RFC 6455 section 5.2), as far as it takes to say farewell between two of them.
//!
//! Lengths are read and nothing else: what a frame holds is between the client and the upstream.

/// Closes a WebSocket: a frame without a mask, as a server sends it, with the code 1001, "going away"
/// (RFC 6455 section 7.4.1).
pub(super) const GOING_AWAY: &[u8] = &[0x88, 0x02, 0x03, 0xe9];

/// The end of a head.
const HEAD_END: &[u8; 4] = b"\r\n\r\n";
const OPCODE: u8 = 0x0f;
const CLOSE: u8 = 0x08;
const MASKED: u8 = 0x80;

/// A place in what an upstream sends: the head of its answer, and then frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frames {
    at: At,
    has_closed: bool,
}

#[derive(Clone, Copy, Debug)]
enum At {
    /// In the answer's head, with so many bytes of its end behind.
    Answer(usize),
    /// At a frame's beginning.
    Begin,
    /// Behind its first byte.
    Length,
    /// In a length of several bytes, with so many to come, and whether a mask follows.
    LongLength { left: u8, length: u64, is_masked: bool },
    /// In a mask or a payload, with so many bytes to come.
    Skip(u64),
}

impl Frames {
    /// At the first byte of the answer.
    pub fn new() -> Self {
        Self {
            at: At::Answer(0),
            has_closed: false,
        }
    }

    /// Whether a frame of one's own may come next: the one before it is whole, and did not close the WebSocket.
    pub fn may_end(&self) -> bool {
        matches!(self.at, At::Begin) && !self.has_closed
    }

    /// Goes on behind these bytes.
    pub fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            bytes = rest;
            self.at = match self.at {
                At::Answer(matched) => match matched {
                    _ if HEAD_END.get(matched) != Some(&byte) => At::Answer(usize::from(byte == b'\r')),
                    3 => At::Begin,
                    _ => At::Answer(matched + 1),
                },
                At::Begin => {
                    self.has_closed |= byte & OPCODE == CLOSE;
                    At::Length
                }
                At::Length => {
                    let is_masked = byte & MASKED != 0;
                    match byte & !MASKED {
                        126 => long_length(2, is_masked),
                        127 => long_length(8, is_masked),
                        length => skip(u64::from(length), is_masked),
                    }
                }
                At::LongLength {
                    left,
                    length,
                    is_masked,
                } => {
                    let length = length << 8 | u64::from(byte);
                    match left {
                        1 => skip(length, is_masked),
                        _ => At::LongLength {
                            left: left - 1,
                            length,
                            is_masked,
                        },
                    }
                }
                At::Skip(left) => {
                    // This byte is the first of them.
                    let more = usize::try_from(left - 1).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = bytes.get(more..).unwrap_or_default();
                    match left - 1 - more as u64 {
                        0 => At::Begin,
                        left => At::Skip(left),
                    }
                }
            };
        }
    }
}

fn long_length(left: u8, is_masked: bool) -> At {
    At::LongLength {
        left,
        length: 0,
        is_masked,
    }
}

fn skip(length: u64, is_masked: bool) -> At {
    match length.saturating_add(if is_masked { 4 } else { 0 }) {
        0 => At::Begin,
        left => At::Skip(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nX: \r\r\n\r\n";

    fn frame(opcode: u8, payload: usize, is_masked: bool) -> Vec<u8> {
        let mask = if is_masked { MASKED } else { 0 };
        let mut bytes = vec![0x80 | opcode];
        match payload {
            0..=125 => bytes.push(mask | payload as u8),
            126..=65_535 => {
                bytes.push(mask | 126);
                bytes.extend((payload as u16).to_be_bytes());
            }
            _ => {
                bytes.push(mask | 127);
                bytes.extend((payload as u64).to_be_bytes());
            }
        }
        bytes.extend(vec![0x88; payload + if is_masked { 4 } else { 0 }]);
        bytes
    }

    proptest! {
        #[test]
        fn the_end_of_each_frame_is_found_however_the_bytes_come(
            sizes in proptest::collection::vec((prop_oneof![0usize..300, 65_530usize..65_540], any::<bool>()), 0..6),
            part in 1usize..5_000,
        ) {
            let mut ends = vec![HEAD.len()];
            let mut bytes = HEAD.to_vec();
            for (payload, is_masked) in sizes {
                bytes.extend(frame(2, payload, is_masked));
                ends.push(bytes.len());
            }
            let mut frames = Frames::new();
            let mut at = 0;
            for piece in bytes.chunks(part) {
                frames.follow(piece);
                at += piece.len();
                prop_assert_eq!(frames.may_end(), ends.contains(&at), "at {}", at);
            }
        }
    }

    #[test]
    fn nothing_is_sent_behind_a_close_or_inside_a_frame_without_end() {
        let mut frames = Frames::new();
        frames.follow(HEAD);
        frames.follow(&frame(8, 2, false));
        assert!(!frames.may_end());
        let mut frames = Frames::new();
        frames.follow(HEAD);
        frames.follow(&[0x82, MASKED | 127, 255, 255, 255, 255, 255, 255, 255, 255]);
        frames.follow(&[0; 100_000]);
        assert!(!frames.may_end());
        assert!(!Frames::new().may_end(), "the answer has not begun");
    }
}
