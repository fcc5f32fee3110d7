//! Listening sockets that the process was started with: by systemd (`sd_listen_fds(3)`), or by the gateway that it is to
//! replace, which passes its own in the same way.

use std::fmt;
use std::io;

use listenfd::ListenFd;

use crate::listen::{BoundSocket, ListenAddress};

/// The name of the public socket, as in `FileDescriptorName=` of a socket unit.
pub(super) const PUBLIC: &str = "public";
/// The name of the admin socket.
pub(super) const ADMIN: &str = "admin";

/// Sockets that wait for the listener whose address they have.
#[derive(Debug, Default)]
pub struct Inherited(Vec<Socket>);

#[derive(Debug)]
struct Socket {
    name: String,
    address: ListenAddress,
    listener: BoundSocket,
}

impl Inherited {
    /// Takes the sockets that the environment tells of. To be called before any other thread runs, and once: the
    /// variables are removed.
    ///
    /// # Errors
    /// A descriptor that is no listening socket, of TCP or at a path.
    pub fn from_environment() -> io::Result<Self> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut descriptors = ListenFd::from_env();
        let mut sockets = Vec::new();
        for index in 0..descriptors.len() {
            let name = names.next().unwrap_or_default().to_owned();
            if let Some(listener) = take(&mut descriptors, index)? {
                let address = listener.address()?;
                sockets.push(Socket {
                    name,
                    address,
                    listener,
                });
            }
        }
        Ok(Self(sockets))
    }

    /// The socket for the listener of this name at `address`; one with the other listener's name is not for it. Port 0
    /// stands for any.
    pub(super) fn take(&mut self, name: &str, address: &ListenAddress) -> Option<BoundSocket> {
        let index = self.0.iter().position(|socket| {
            let is_for_another = socket.name != name && [PUBLIC, ADMIN].contains(&socket.name.as_str());
            !is_for_another && fits(address, &socket.address)
        })?;
        Some(self.0.swap_remove(index).listener)
    }
}

/// Whether a socket at `bound` is what `configured` asks for.
fn fits(configured: &ListenAddress, bound: &ListenAddress) -> bool {
    match (configured, bound) {
        (ListenAddress::Tcp(configured), ListenAddress::Tcp(bound)) => {
            configured.ip() == bound.ip() && [0, bound.port()].contains(&configured.port())
        }
        (configured, bound) => configured == bound,
    }
}

/// The socket of one descriptor, of whichever kind it is.
fn take(descriptors: &mut ListenFd, index: usize) -> io::Result<Option<BoundSocket>> {
    // A descriptor of another kind stays where it is.
    if let Ok(unix) = descriptors.take_unix_listener(index) {
        let Some(socket) = unix else { return Ok(None) };
        socket.set_nonblocking(true)?;
        return Ok(Some(BoundSocket::Unix(socket)));
    }
    let Some(socket) = descriptors.take_tcp_listener(index)? else {
        return Ok(None);
    };
    socket.set_nonblocking(true)?;
    Ok(Some(BoundSocket::Tcp(socket)))
}

impl fmt::Display for Inherited {
    /// The addresses of those that were not taken.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, socket) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(formatter, "{separator}{}", socket.address)?;
        }
        Ok(())
    }
}

impl Inherited {
    /// Whether there are none, or all were taken.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn inherited(names: &[&str]) -> Inherited {
        let sockets = names.iter().map(|name| {
            let listener = BoundSocket::Tcp(TcpListener::bind("127.0.0.1:0").unwrap());
            Socket {
                name: (*name).to_owned(),
                address: listener.address().unwrap(),
                listener,
            }
        });
        Inherited(sockets.collect())
    }

    #[test]
    fn a_socket_is_for_the_listener_with_its_address_and_not_with_anothers_name() {
        let any = "127.0.0.1:0".parse().unwrap();
        let mut sockets = inherited(&["admin", "public", "gateway.socket"]);
        let addresses: Vec<ListenAddress> = sockets.0.iter().map(|socket| socket.address.clone()).collect();
        assert!(sockets.take(PUBLIC, &addresses[0]).is_none(), "it is the admin's");
        assert!(sockets.take(PUBLIC, &"127.0.0.2:0".parse().unwrap()).is_none());
        let taken = sockets.take(PUBLIC, &any).unwrap();
        assert_eq!(taken.address().unwrap(), addresses[1]);
        let taken = sockets.take(PUBLIC, &addresses[2]).unwrap();
        assert_eq!(taken.address().unwrap(), addresses[2], "a socket unit without names");
        assert_eq!(sockets.to_string(), addresses[0].to_string());
        assert!(sockets.take(ADMIN, &any).is_some() && sockets.is_empty());
    }
}
