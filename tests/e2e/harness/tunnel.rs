//! WebSockets as clients ask for them, and upstreams that accept them.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use super::recorder::{Answer, Then};

/// The fields of a request for one.
pub const UPGRADE: [(&str, &str); 4] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("Sec-WebSocket-Version", "13"),
];

/// The head that accepts it.
pub const SWITCHED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Accepts an upgrade and then sends back every byte that comes.
pub fn echoing_tunnel() -> Answer {
    Answer::script(|_, stream| {
        stream.write_all(SWITCHED)?;
        echo(stream)
    })
}

/// Sends back every byte that comes, to the end.
pub fn echo(stream: &mut TcpStream) -> io::Result<Then> {
    let mut part = [0; 4096];
    loop {
        let read = stream.read(&mut part)?;
        if read == 0 {
            return Ok(Then::Close);
        }
        stream.write_all(&part[..read])?;
    }
}
