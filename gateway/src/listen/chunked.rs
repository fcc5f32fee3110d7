//! The chunked transfer coding of a request, followed byte by byte to find where the message ends
//! (RFC 9112 section 7.1).
//!
//! Nothing is decoded here: the bytes go on as they are. Knowing the end keeps a pipelined request out of the hands of
//! whoever reads this one's body, and a coding that two readers could take differently (a bare line feed, an odd size)
//! is a fault.

/// The coding is not RFC 9112's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkFault;

/// The place in a chunked body.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    place: Place,
    /// Bytes of chunk extensions and trailer lines so far.
    overhead: usize,
}

/// Chunk extensions and trailers of one body, in bytes: they are dropped, so nobody has a use for many.
const OVERHEAD_LIMIT: usize = 16 * 1024;

#[derive(Clone, Copy, Debug)]
enum Place {
    /// In a chunk's size, of which so many digits have come.
    Size { size: u64, digits: u8 },
    /// After the size, in an extension.
    Extension { size: u64 },
    /// After the carriage return of a size line.
    SizeEnd { size: u64 },
    /// In a chunk of which so many bytes are left.
    Data { left: u64 },
    /// After a chunk's data, before its carriage return.
    DataReturn,
    /// After a chunk's carriage return.
    DataEnd,
    /// At the start of a trailer line.
    TrailerStart,
    /// Inside a trailer line.
    Trailer,
    /// After the carriage return of a trailer line.
    TrailerEnd,
    /// After the carriage return of the last, empty line.
    LastEnd,
    /// Behind the last byte.
    Done,
}

impl Chunks {
    /// The start of a chunked body.
    pub fn start() -> Self {
        Self {
            place: Place::Size { size: 0, digits: 0 },
            overhead: 0,
        }
    }

    /// Whether the body's last byte has passed.
    pub fn is_done(&self) -> bool {
        matches!(self.place, Place::Done)
    }

    /// Follows `bytes` and answers how many of them belong to the body.
    pub fn follow(&mut self, bytes: &[u8]) -> Result<usize, ChunkFault> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if let Place::Data { left } = self.place {
                let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - at);
                at += here;
                let left = left - here as u64;
                self.place = if left == 0 {
                    Place::DataReturn
                } else {
                    Place::Data { left }
                };
                continue;
            }
            if self.is_done() {
                break;
            }
            self.place = self.step(byte)?;
            at += 1;
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Result<Place, ChunkFault> {
        Ok(match (self.place, byte) {
            (Place::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                // Fifteen digits are an exabyte; more would only serve to overflow somebody's counter.
                if digits == 15 {
                    return Err(ChunkFault);
                }
                let digit = char::from(byte).to_digit(16).ok_or(ChunkFault)?;
                Place::Size {
                    size: size * 16 + u64::from(digit),
                    digits: digits + 1,
                }
            }
            (Place::Size { digits: 0, .. }, _) => return Err(ChunkFault),
            (Place::Size { size, .. } | Place::Extension { size }, b'\r') => Place::SizeEnd { size },
            (Place::Size { size, .. }, b';' | b' ' | b'\t') => self.overhead_byte(Place::Extension { size })?,
            (Place::Extension { size }, b'\t' | b' '..=0x7e | 0x80..) => {
                self.overhead_byte(Place::Extension { size })?
            }
            (Place::SizeEnd { size: 0 }, b'\n') => Place::TrailerStart,
            (Place::SizeEnd { size }, b'\n') => Place::Data { left: size },
            (Place::DataReturn, b'\r') => Place::DataEnd,
            (Place::DataEnd, b'\n') => Place::Size { size: 0, digits: 0 },
            (Place::TrailerStart, b'\r') => Place::LastEnd,
            (Place::Trailer, b'\r') => Place::TrailerEnd,
            (Place::TrailerStart | Place::Trailer, b'\t' | b' '..=0x7e | 0x80..) => {
                self.overhead_byte(Place::Trailer)?
            }
            (Place::TrailerEnd, b'\n') => Place::TrailerStart,
            (Place::LastEnd, b'\n') => Place::Done,
            _ => return Err(ChunkFault),
        })
    }

    fn overhead_byte(&mut self, next: Place) -> Result<Place, ChunkFault> {
        self.overhead += 1;
        if self.overhead > OVERHEAD_LIMIT {
            Err(ChunkFault)
        } else {
            Ok(next)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_found_in_pieces_of_any_size() {
        let body =
            b"4\r\nWiki\r\n6;x=\"y\"\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\n";
        let end = body.len() - b"GET / HTTP/1.1\r\n".len();
        for piece in 1..=body.len() {
            let mut chunks = Chunks::start();
            let mut taken = 0;
            for part in body.chunks(piece) {
                taken += chunks.follow(part).unwrap();
            }
            assert!(chunks.is_done());
            assert_eq!(taken, end, "in pieces of {piece}");
        }
    }

    #[test]
    fn what_readers_take_differently_is_a_fault() {
        for body in [
            &b"4\nWiki\r\n"[..],
            b"4\r\nWikiX",
            b"4\r\nWiki\n0\r\n\r\n",
            b"\r\n",
            b"+4\r\n",
            b"0x4\r\n",
            b"-1\r\n",
            b" 4\r\n",
            b"4;a\nb\r\n",
            b"1000000000000000\r\n",
            b"0\r\n\n",
            b"0\r\nX: y\n\r\n",
            b"0\r\nX: \0\r\n\r\n",
        ] {
            assert_eq!(
                Chunks::start().follow(body),
                Err(ChunkFault),
                "{:?}",
                body.escape_ascii().to_string()
            );
        }
    }

    #[test]
    fn endless_extensions_and_trailers_are_a_fault() {
        let mut chunks = Chunks::start();
        chunks.follow(b"0\r\n").unwrap();
        let trailer = b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(400);
        assert_eq!(chunks.follow(&trailer), Err(ChunkFault));
    }
}
