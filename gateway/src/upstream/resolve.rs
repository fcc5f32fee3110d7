//! The names of upstreams, resolved in the background for as long as somebody uses the upstream.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{Upstream, Upstreams};
use crate::config::Host;

/// The system's resolver does not tell how long an answer holds, so it is asked again soon; it has a cache of its own.
const AGAIN: Duration = Duration::from_secs(5);
const AGAIN_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// After that an answer is given up; the addresses known so far stay in use.
const DEADLINE: Duration = Duration::from_secs(5);

/// Starts one task for each upstream that is a name. A task ends when its upstream is dropped.
pub fn start(upstreams: &Upstreams) {
    for upstream in upstreams.all() {
        if let Host::Name(name) = upstream.url().host() {
            tokio::spawn(keep_resolved(
                Arc::downgrade(upstream),
                name.clone(),
                upstream.url().port(),
            ));
        }
    }
}

async fn keep_resolved(upstream: Weak<Upstream>, name: String, port: u16) {
    let mut failing = false;
    loop {
        let answer = lookup(&name, port).await;
        let Some(upstream) = upstream.upgrade() else { return };
        let wait = match answer {
            Ok(addresses) => {
                if upstream.set_addresses(addresses) || failing {
                    tracing::debug!(family = upstream.name(), "the upstream's addresses are known");
                }
                failing = false;
                AGAIN
            }
            Err(error) => {
                if !failing {
                    // The name stays out of it: it is the upstream's.
                    tracing::warn!(family = upstream.name(), kind = ?error.kind(), "the upstream's name cannot be resolved");
                }
                failing = true;
                AGAIN_AFTER_FAILURE
            }
        };
        drop(upstream);
        tokio::time::sleep(wait).await;
    }
}

/// All addresses of a name, asked for on a thread that may block.
async fn lookup(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let answer = tokio::time::timeout(DEADLINE, tokio::net::lookup_host((name, port))).await;
    let addresses: Vec<SocketAddr> = answer.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??.collect();
    if addresses.is_empty() {
        Err(io::ErrorKind::NotFound.into())
    } else {
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use route_contract::contract::FamilyId;

    #[tokio::test]
    async fn a_name_is_resolved_while_its_upstream_is_in_use() {
        let text =
            "contract = \"c\"\n[listen]\npublic = \"127.0.0.1:0\"\n[upstream.a]\nurl = \"http://localhost:81\"\n";
        let config: Config = toml::from_str(text).unwrap();
        let upstream = Arc::new(Upstream::new(FamilyId(0), "a", &config.upstream["a"], &config));
        assert_eq!(upstream.attempts(), 0);
        let task = tokio::spawn(keep_resolved(Arc::downgrade(&upstream), "localhost".to_owned(), 81));
        let known = async {
            while upstream.attempts() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), known)
            .await
            .expect("localhost is known everywhere");
        assert!(
            upstream
                .endpoints()
                .addresses()
                .iter()
                .all(|address| address.port() == 81)
        );
        drop(upstream);
        tokio::time::pause();
        tokio::time::timeout(AGAIN * 2, task)
            .await
            .expect("the task ends with its upstream")
            .unwrap();
    }

    #[tokio::test]
    async fn a_name_that_does_not_exist_is_an_error() {
        assert!(lookup("name.invalid", 80).await.is_err());
    }
}
