//! The names of upstreams, resolved in the background for as long as somebody uses the upstream.
//!
//! The system's resolver does not tell how long an answer holds, so it is asked again every `resolve_interval`: an
//! address is in use at most that much longer than the system gives it. Caches that know the time to live are between
//! here and the name server. While a name cannot be resolved, the addresses known so far stay in use: their health
//! says whether they are still good.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::Upstream;
use crate::config::Host;

/// The pause after a failure, where the interval is not shorter.
const AGAIN_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// After that an answer is given up.
const DEADLINE: Duration = Duration::from_secs(5);

/// Adds one task for each URL with a name, to run on `runtime`. A task ends with the set, or when its upstream is
/// dropped.
pub fn start(upstream: &Arc<Upstream>, tasks: &mut JoinSet<()>, runtime: &Handle) {
    for (index, url) in upstream.urls().iter().enumerate() {
        if let Host::Name(name) = url.host() {
            let upstream = Arc::downgrade(upstream);
            tasks.spawn_on(keep_resolved(upstream, index, name.clone(), url.port()), runtime);
        }
    }
}

async fn keep_resolved(upstream: Weak<Upstream>, url: usize, name: String, port: u16) {
    let mut failing = false;
    // The system's resolver cannot be interrupted: a look-up that hangs holds a thread until it ends. So one that
    // outlives its deadline is waited for and no other one is started.
    let mut pending = None;
    loop {
        let answer = lookup(&mut pending, &name, port).await;
        let Some(upstream) = upstream.upgrade() else { return };
        let interval = upstream.resolve_interval();
        let wait = match answer {
            Ok(addresses) => {
                if upstream.set_addresses(url, &addresses) || failing {
                    tracing::debug!(family = upstream.name(), "the upstream's addresses are known");
                }
                failing = false;
                // Replicas that started together drift apart.
                interval.mul_f64(0.9 + 0.1 * fastrand::f64())
            }
            Err(error) => {
                if !failing {
                    // The name stays out of it: it is the upstream's.
                    tracing::warn!(family = upstream.name(), kind = ?error.kind(), "the upstream's name cannot be resolved");
                }
                upstream.unresolved(url);
                failing = true;
                AGAIN_AFTER_FAILURE.min(interval)
            }
        };
        drop(upstream);
        tokio::time::sleep(wait).await;
    }
}

type Pending = Option<tokio::task::JoinHandle<io::Result<Vec<SocketAddr>>>>;

/// All addresses of a name, asked for on a thread that may block.
async fn lookup(pending: &mut Pending, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let running = pending.get_or_insert_with(|| {
        let name = name.to_owned();
        tokio::spawn(async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) })
    });
    let answer = tokio::time::timeout(DEADLINE, running)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
    *pending = None;
    let addresses = answer.map_err(io::Error::other)??;
    if addresses.is_empty() {
        Err(io::ErrorKind::NotFound.into())
    } else {
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::tests::upstream;

    #[tokio::test]
    async fn a_name_is_resolved_while_its_upstream_is_in_use() {
        let upstream = upstream("url = \"http://localhost:81\"\n");
        assert!(upstream.endpoints().list().is_empty());
        let task = tokio::spawn(keep_resolved(Arc::downgrade(&upstream), 0, "localhost".to_owned(), 81));
        let known = async {
            while upstream.endpoints().list().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), known)
            .await
            .expect("localhost is known everywhere");
        assert!(
            upstream
                .endpoints()
                .list()
                .iter()
                .all(|endpoint| endpoint.id().address.port() == 81)
        );
        drop(upstream);
        tokio::time::pause();
        tokio::time::timeout(Duration::from_secs(60), task)
            .await
            .expect("the task ends with its upstream")
            .unwrap();
    }

    #[tokio::test]
    async fn a_name_that_does_not_exist_is_an_error_and_a_reason() {
        assert!(lookup(&mut None, "name.invalid", 80).await.is_err());
        let upstream = upstream("url = \"http://name.invalid\"\n");
        let task = tokio::spawn(keep_resolved(
            Arc::downgrade(&upstream),
            0,
            "name.invalid".to_owned(),
            80,
        ));
        let known = async {
            while upstream.readiness() != Err(crate::upstream::Reason::Dns) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), known)
            .await
            .expect("the failure shows");
        task.abort();
    }
}
