//! What the HTTP/2 library answers by itself, read off the frames that it writes (RFC 9113 section 4.1).
//!
//! A head that the library finds malformed, or one stream too many, is reset below everything that the gateway sees, and
//! without a word. But it leaves by this connection's transport, so whoever looks at frame headers on their way out
//! finds every such stream, and counts it. Payloads are skipped; nothing is copied or held up.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use h2::Reason;

/// The length of a frame's header.
const HEADER: usize = 9;
/// The part of a payload that is looked at: GOAWAY's last stream and error code.
const PAYLOAD: usize = 8;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
/// Streams that have ended and are remembered: a reset that follows an answer leaves soon after it.
const REMEMBERED: usize = 256;

/// Why a stream ended before it was a request: a closed set, for a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// The library found its head malformed.
    Malformed,
    /// The connection has as many streams as it may have.
    Refused,
    /// The library found its head too large, and answered 431.
    HeadTooLarge,
    /// Its body went beyond the length that its head has told.
    Body,
    /// Anything else.
    Other,
}

impl StreamFault {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Malformed,
        Self::Refused,
        Self::HeadTooLarge,
        Self::Body,
        Self::Other,
    ];

    /// The label of the metric.
    pub fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Refused => "refused",
            Self::HeadTooLarge => "head_too_large",
            Self::Body => "body",
            Self::Other => "other",
        }
    }

    /// What a reset of a stream that never was a request tells; none for one that the client has given up itself.
    fn of(reason: Reason) -> Option<Self> {
        match reason {
            Reason::NO_ERROR | Reason::CANCEL | Reason::STREAM_CLOSED => None,
            Reason::PROTOCOL_ERROR => Some(Self::Malformed),
            Reason::REFUSED_STREAM | Reason::ENHANCE_YOUR_CALM => Some(Self::Refused),
            _ => Some(Self::Other),
        }
    }
}

/// Why a connection was ended for its client's fault: a closed set, for a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionFault {
    /// Frames where they must not be, or that are none.
    Protocol,
    /// More bytes than the windows allow.
    FlowControl,
    /// A frame of a wrong size.
    FrameSize,
    /// Fields that cannot be decompressed.
    Compression,
    /// A flood, or too many refused streams.
    Excessive,
    /// Anything else.
    Other,
}

impl ConnectionFault {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Protocol,
        Self::FlowControl,
        Self::FrameSize,
        Self::Compression,
        Self::Excessive,
        Self::Other,
    ];

    /// The label of the metric.
    pub fn label(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::FlowControl => "flow_control",
            Self::FrameSize => "frame_size",
            Self::Compression => "compression",
            Self::Excessive => "excessive",
            Self::Other => "other",
        }
    }

    fn of(reason: Reason) -> Option<Self> {
        match reason {
            Reason::NO_ERROR => None,
            Reason::PROTOCOL_ERROR => Some(Self::Protocol),
            Reason::FLOW_CONTROL_ERROR => Some(Self::FlowControl),
            Reason::FRAME_SIZE_ERROR => Some(Self::FrameSize),
            Reason::COMPRESSION_ERROR => Some(Self::Compression),
            Reason::ENHANCE_YOUR_CALM => Some(Self::Excessive),
            _ => Some(Self::Other),
        }
    }
}

/// Something that the library has answered by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// A stream that the gateway never saw.
    Stream(StreamFault),
    /// The connection.
    Connection(ConnectionFault),
}

/// The streams of one connection that the gateway has seen, and what was answered beside them.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    open: BTreeSet<u32>,
    /// Streams that have ended, and those that were told of.
    closed: VecDeque<u32>,
    /// With the number of the stream, or 0 for the connection.
    answered: Vec<(u32, Answered)>,
}

impl Ledger {
    /// The gateway has a stream from now on; what becomes of it is recorded by its request, until the answer is dropped
    /// and a little longer. The library may have answered it in the same breath that it was read in.
    pub fn open(&self, stream: u32) -> OpenStream {
        let mut entries = self.entries();
        entries.open.insert(stream);
        entries.answered.retain(|(answered, _)| *answered != stream);
        drop(entries);
        OpenStream {
            ledger: self.clone(),
            stream,
        }
    }

    /// Whether there is something to take.
    pub fn has_answers(&self) -> bool {
        !self.entries().answered.is_empty()
    }

    /// Takes what the library has answered by itself since the last time. To be called when no stream waits to be opened.
    pub fn take(&self) -> Vec<Answered> {
        let answered = std::mem::take(&mut self.entries().answered);
        answered.into_iter().map(|(_, answered)| answered).collect()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn close(&mut self, stream: u32) {
        if self.closed.len() == REMEMBERED {
            self.closed.pop_front();
        }
        self.closed.push_back(stream);
    }

    fn stream(&mut self, stream: u32, fault: StreamFault) {
        if !self.open.contains(&stream) && !self.closed.contains(&stream) {
            self.close(stream);
            self.answered.push((stream, Answered::Stream(fault)));
        }
    }
}

/// A stream that the gateway has.
#[derive(Debug)]
pub(super) struct OpenStream {
    ledger: Ledger,
    stream: u32,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut entries = self.ledger.entries();
        entries.open.remove(&self.stream);
        entries.close(self.stream);
    }
}

/// Looks at the frames that are written, in whatever pieces they leave.
#[derive(Debug)]
pub(super) struct FrameWatch {
    ledger: Ledger,
    /// The beginning of the present frame.
    frame: [u8; HEADER + PAYLOAD],
    /// Bytes of it that are there.
    held: usize,
    /// Bytes of the present frame that are of no interest and still to come.
    skip: usize,
}

impl FrameWatch {
    /// A watch from the first byte on.
    pub fn new(ledger: Ledger) -> Self {
        Self {
            ledger,
            frame: [0; HEADER + PAYLOAD],
            held: 0,
            skip: 0,
        }
    }

    /// Looks at the next bytes.
    pub fn written(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = bytes.get(skipped..).unwrap_or_default();
                continue;
            }
            let wanted = self.wanted();
            let taken = (wanted - self.held).min(bytes.len());
            let (head, rest) = bytes.split_at(taken);
            if let Some(room) = self.frame.get_mut(self.held..self.held + taken) {
                room.copy_from_slice(head);
            }
            self.held += taken;
            bytes = rest;
            if self.held == self.wanted() {
                self.judge();
                self.skip = (HEADER + self.length()).saturating_sub(self.held);
                self.held = 0;
            }
        }
    }

    /// How much of the present frame is looked at; its header first.
    fn wanted(&self) -> usize {
        if self.held < HEADER {
            return HEADER;
        }
        match self.kind() {
            RST_STREAM | GOAWAY => HEADER + self.length().min(PAYLOAD),
            _ => HEADER,
        }
    }

    fn length(&self) -> usize {
        let [high, middle, low, ..] = self.frame;
        usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low)
    }

    fn kind(&self) -> u8 {
        let [_, _, _, kind, ..] = self.frame;
        kind
    }

    fn judge(&self) {
        let [_, _, _, kind, _, a, b, c, d, payload @ ..] = self.frame;
        let stream = u32::from_be_bytes([a & 0x7f, b, c, d]);
        let [p0, p1, p2, p3, p4, p5, p6, p7] = payload;
        match kind {
            HEADERS => self.ledger.entries().stream(stream, StreamFault::HeadTooLarge),
            RST_STREAM => {
                let reason = Reason::from(u32::from_be_bytes([p0, p1, p2, p3]));
                if let Some(fault) = StreamFault::of(reason) {
                    self.ledger.entries().stream(stream, fault);
                }
            }
            GOAWAY => {
                let reason = Reason::from(u32::from_be_bytes([p4, p5, p6, p7]));
                if let Some(fault) = ConnectionFault::of(reason) {
                    self.ledger.entries().answered.push((0, Answered::Connection(fault)));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, 0], &stream.to_be_bytes(), payload].concat()
    }

    #[test]
    fn what_the_library_answers_is_found_in_pieces_of_any_size() {
        let reset = |stream, reason: Reason| frame(RST_STREAM, stream, &u32::from(reason).to_be_bytes());
        let goaway = |reason: Reason| {
            let payload = [&7u32.to_be_bytes()[..], &u32::from(reason).to_be_bytes(), b"debug data"].concat();
            frame(GOAWAY, 0, &payload)
        };
        let written = [
            frame(4, 0, &[0; 12]),
            // The answer to a stream that the gateway has, and its end.
            frame(HEADERS, 1, b"\x88"),
            frame(0, 1, &[RST_STREAM; 300]),
            reset(1, Reason::PROTOCOL_ERROR),
            // Streams that it never saw.
            reset(3, Reason::PROTOCOL_ERROR),
            reset(5, Reason::REFUSED_STREAM),
            frame(HEADERS, 7, b"\x08\x03431"),
            reset(7, Reason::PROTOCOL_ERROR),
            reset(9, Reason::CANCEL),
            reset(11, Reason::INTERNAL_ERROR),
            goaway(Reason::NO_ERROR),
            goaway(Reason::ENHANCE_YOUR_CALM),
        ]
        .concat();
        for piece in [1, 2, 7, 13, written.len()] {
            let ledger = Ledger::default();
            drop(ledger.open(1));
            let mut watch = FrameWatch::new(ledger.clone());
            for bytes in written.chunks(piece) {
                watch.written(bytes);
            }
            assert_eq!(
                ledger.take(),
                [
                    Answered::Stream(StreamFault::Malformed),
                    Answered::Stream(StreamFault::Refused),
                    Answered::Stream(StreamFault::HeadTooLarge),
                    Answered::Stream(StreamFault::Other),
                    Answered::Connection(ConnectionFault::Excessive),
                ],
                "in pieces of {piece}"
            );
            assert_eq!(ledger.take(), []);
        }
    }

    #[test]
    fn a_stream_that_is_reset_as_it_is_read_is_its_requests_too() {
        let ledger = Ledger::default();
        let mut watch = FrameWatch::new(ledger.clone());
        watch.written(&frame(RST_STREAM, 1, &u32::from(Reason::PROTOCOL_ERROR).to_be_bytes()));
        let _open = ledger.open(1);
        assert_eq!(ledger.take(), []);
    }

    #[test]
    fn a_stream_that_is_open_is_its_requests_however_many_have_ended_since() {
        let ledger = Ledger::default();
        let _open = ledger.open(1);
        for stream in 1..=1_000 {
            drop(ledger.open(2 * stream + 1));
        }
        let mut watch = FrameWatch::new(ledger.clone());
        watch.written(&frame(RST_STREAM, 1, &u32::from(Reason::PROTOCOL_ERROR).to_be_bytes()));
        assert_eq!(ledger.take(), []);
        assert!(ledger.entries().closed.len() <= REMEMBERED);
    }
}
