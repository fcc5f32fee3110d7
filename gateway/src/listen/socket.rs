//! What a listener accepts on: a TCP socket or, for operators of one machine, a Unix socket.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixSocket, UnixStream};

use super::address::ListenAddress;

/// Connections that wait to be accepted, as far as the system allows (`net.core.somaxconn`). Whoever comes when they are
/// as many tries again a second later, which a burst of clients should not have to.
const BACKLOG: u32 = 4096;

/// The peers of a Unix socket are processes of this machine and have no address: they count as this one.
pub(super) const THIS_MACHINE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A bound socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A bound socket that no runtime waits for yet, or any more. It does not block.
#[derive(Debug)]
pub enum BoundSocket {
    /// On an address and a port.
    Tcp(std::net::TcpListener),
    /// At a path.
    Unix(std::os::unix::net::UnixListener),
}

/// A client's socket.
#[derive(Debug)]
pub(super) enum ClientSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl BoundSocket {
    /// Where it listens.
    ///
    /// # Errors
    /// The operating system's; a Unix socket without a path.
    pub fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(ListenAddress::Tcp),
            Self::Unix(listener) => path_of(listener.local_addr()?.as_pathname()),
        }
    }

    /// A client that waits; none is an error.
    pub(super) fn accept_waiting(&self) -> io::Result<(ClientSocket, SocketAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (client, peer) = listener.accept()?;
                client.set_nonblocking(true)?;
                let client = TcpStream::from_std(client)?;
                Ok((ClientSocket::Tcp(without_delay(client)), peer))
            }
            Self::Unix(listener) => {
                let (client, _) = listener.accept()?;
                client.set_nonblocking(true)?;
                Ok((ClientSocket::Unix(UnixStream::from_std(client)?), THIS_MACHINE))
            }
        }
    }
}

fn path_of(path: Option<&Path>) -> io::Result<ListenAddress> {
    let path = path.ok_or_else(|| io::Error::other("a Unix socket has no path"))?;
    Ok(ListenAddress::Unix(path.to_owned()))
}

/// Small answers would wait for acknowledgements; a socket that refuses is about to fail anyway.
fn without_delay(socket: TcpStream) -> TcpStream {
    let _set = socket.set_nodelay(true);
    socket
}

impl Socket {
    /// Lets the present runtime wait for a socket.
    pub fn from_std(socket: BoundSocket) -> io::Result<Self> {
        Ok(match socket {
            BoundSocket::Tcp(socket) => Self::Tcp(TcpListener::from_std(socket)?),
            BoundSocket::Unix(socket) => Self::Unix(UnixListener::from_std(socket)?),
        })
    }

    /// Takes it out of the runtime.
    pub fn into_std(self) -> io::Result<BoundSocket> {
        Ok(match self {
            Self::Tcp(socket) => BoundSocket::Tcp(socket.into_std()?),
            Self::Unix(socket) => BoundSocket::Unix(socket.into_std()?),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(socket) => socket.local_addr().map(ListenAddress::Tcp),
            Self::Unix(socket) => path_of(socket.local_addr()?.as_pathname()),
        }
    }

    /// Waits for a client.
    pub async fn accept(&self) -> io::Result<(ClientSocket, SocketAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (socket, peer) = listener.accept().await?;
                Ok((ClientSocket::Tcp(without_delay(socket)), peer))
            }
            Self::Unix(listener) => {
                let (socket, _) = listener.accept().await?;
                Ok((ClientSocket::Unix(socket), THIS_MACHINE))
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}

impl ClientSocket {
    /// The address that the client connected to.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(socket) => socket.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    /// The number of its descriptor.
    pub fn descriptor(&self) -> i32 {
        match self {
            Self::Tcp(socket) => socket.as_raw_fd(),
            Self::Unix(socket) => socket.as_raw_fd(),
        }
    }
}

/// Binds a TCP socket; port 0 takes a free port.
pub(super) fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A port whose last connections are still closing can be taken again.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Binds a Unix socket with these permissions. Nobody can connect before they are set: the socket listens afterwards.
///
/// A socket that an ended gateway has left behind is replaced, and nothing else is: not one that is listened on, not
/// another user's, and no file that is no socket.
pub(super) fn bind_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    remove_left_behind(path)?;
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)
}

fn remove_left_behind(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let refuse = |why| Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    if !found.file_type().is_socket() {
        return refuse("something that is no socket stands there, and is left alone");
    }
    if found.uid() != nix::unistd::geteuid().as_raw() {
        return refuse("another user's socket stands there, and is left alone");
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => refuse("a process listens on that socket"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_private_and_replaces_only_what_was_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let first = bind_unix(&path, 0o600).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let taken = bind_unix(&path, 0o600).unwrap_err();
        assert!(taken.to_string().contains("listens on"), "{taken}");
        drop(first);
        assert!(path.exists(), "the next one replaces it");
        let _second = bind_unix(&path, 0o660).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);

        let file = folder.path().join("file");
        fs::write(&file, "kept").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for other in [&file, &link] {
            let error = bind_unix(other, 0o600).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    }
}
