//! Name resolution for probes, bounded in time and in number.

use std::io;
use std::net::SocketAddr;

use tokio::task::JoinHandle;

use crate::config::{Host, UpstreamUrl};

/// Resolves one upstream's name.
///
/// The system's resolver cannot be interrupted: a look-up that hangs holds a thread until it ends. So one that
/// outlives a probe is kept, and the next probe waits for it instead of starting another.
#[derive(Debug)]
pub(super) struct Resolution {
    host: Host,
    port: u16,
    pending: Option<JoinHandle<io::Result<Vec<SocketAddr>>>>,
}

impl Resolution {
    pub fn new(url: &UpstreamUrl) -> Self {
        Self {
            host: url.host().clone(),
            port: url.port(),
            pending: None,
        }
    }

    /// All addresses, at least one; `None` when the name does not resolve. May be dropped at any time.
    pub async fn addresses(&mut self) -> Option<Vec<SocketAddr>> {
        let name = match &self.host {
            Host::Address(address) => return Some(vec![SocketAddr::new(*address, self.port)]),
            Host::Name(name) => name,
        };
        let pending = self.pending.get_or_insert_with(|| {
            let (name, port) = (name.clone(), self.port);
            tokio::spawn(async move {
                // Resolved on tokio's threads for blocking work.
                tokio::net::lookup_host((name, port))
                    .await
                    .map(|addresses| addresses.collect())
            })
        });
        let resolved = pending.await;
        self.pending = None;
        match resolved {
            Ok(Ok(addresses)) if !addresses.is_empty() => Some(addresses),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_and_addresses_resolve_and_nonsense_does_not() {
        let resolve = async |url: &str| Resolution::new(&url.parse().unwrap()).addresses().await;
        assert_eq!(
            resolve("http://127.0.0.9:81").await,
            Some(vec!["127.0.0.9:81".parse().unwrap()])
        );
        assert_eq!(
            resolve("http://[::1]:81").await,
            Some(vec!["[::1]:81".parse().unwrap()])
        );
        assert!(
            resolve("http://localhost:81")
                .await
                .is_some_and(|found| found.iter().all(|found| found.port() == 81))
        );
        // RFC 6761, section 6.4: this domain never resolves.
        assert_eq!(resolve("http://nowhere.invalid:81").await, None);
    }
}
