//! The end of a gateway: traffic is sent elsewhere before anybody is turned away.
//!
//! 1. Readiness says `draining` at once, on both listeners. Traffic is still accepted, and every answer asks its client
//!    to leave, for the delay that balancers need to notice.
//! 2. The public listener closes. Idle connections close; requests in flight, streams and tunnels go on.
//! 3. What is left when the time is up is broken off, and the admin listener closes last.
//!
//! Each step is over as soon as there is nothing left to wait for. A gateway whose sockets another process has taken over
//! goes the same way without accepting in it, and its admin listener goes along with the public one.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Server;
use crate::listen::Phase;

/// How long requests that are broken off may take to end.
const FAREWELL: Duration = Duration::from_secs(1);
/// The same for the admin listener's: a scrape that is under way may end, nobody waits for an idle connection.
const ADMIN_FAREWELL: Duration = Duration::from_millis(500);

/// How a gateway stops.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How long traffic is still accepted, while readiness says that it should go elsewhere.
    pub delay: Duration,
    /// From the start to the moment when what is in flight is broken off.
    pub timeout: Duration,
    /// Whether another process serves the sockets, so that this one no longer accepts.
    pub is_replaced: bool,
}

impl Plan {
    /// Without a delay.
    pub fn at_once(timeout: Duration) -> Self {
        Self {
            delay: Duration::ZERO,
            timeout,
            is_replaced: false,
        }
    }
}

impl Server {
    /// Stops as planned, and answers whether everything in flight has ended by itself.
    pub async fn stop(self, plan: Plan) -> bool {
        self.stop_unless(plan, std::future::pending()).await
    }

    /// Stops as planned, or breaks off at once when `hurry` is ready before. Answers whether everything in flight has
    /// ended by itself.
    pub(super) async fn stop_unless(mut self, plan: Plan, hurry: impl Future<Output = ()>) -> bool {
        let over = Instant::now() + plan.timeout;
        self.state.draining.begin();
        if plan.is_replaced {
            // The other process's is heeded now; this one's would hide that it hangs.
            self.service_manager.fall_silent();
            self.admin_phase.advance(Phase::Leaving);
            self.public_phase.advance(Phase::Leaving);
        } else {
            self.service_manager.stopping(plan.timeout + FAREWELL);
            self.public_phase.advance(Phase::Draining);
        }
        let in_time = tokio::select! {
            in_time = self.end_requests(plan, over) => in_time,
            () = hurry => {
                tracing::warn!("a second signal: stopping at once");
                false
            }
        };
        if !in_time {
            tracing::warn!(
                requests = self.requests_in_flight(),
                "the time for what is in flight is over: it is broken off"
            );
            self.close_sockets();
            self.public_phase.advance(Phase::Cutting);
            let _ended = tokio::time::timeout(FAREWELL, self.all_served()).await;
        }
        if let Some(exporter) = self.exporter.take() {
            exporter.finish().await;
        }
        self.admin_phase.advance(Phase::Closing);
        if let Some(serving) = self.admin_serving.take() {
            let _in_time = tokio::time::timeout(ADMIN_FAREWELL, serving).await;
        }
        in_time
    }

    /// Whether all requests have ended before the time was over.
    async fn end_requests(&mut self, plan: Plan, over: Instant) -> bool {
        if !plan.delay.is_zero() {
            tracing::info!(
                delayMs = millis(plan.delay),
                timeoutMs = millis(plan.timeout),
                accepts = !plan.is_replaced,
                "draining: clients and balancers are asked to go elsewhere"
            );
            let delay = tokio::time::sleep(plan.delay);
            if plan.is_replaced {
                // Nobody comes any more, so there may be nobody to wait for.
                tokio::select! {
                    () = delay => {}
                    () = self.all_served() => {}
                }
            } else {
                delay.await;
            }
        }
        tracing::info!(
            requests = self.requests_in_flight(),
            "closing: no connections are accepted, requests in flight end"
        );
        self.close_sockets();
        self.public_phase.advance(Phase::Closing);
        timeout_at(over, self.all_served()).await.is_ok()
    }

    /// A socket is closed once nobody has it any more.
    fn close_sockets(&mut self) {
        self.sockets = None;
    }

    async fn all_served(&mut self) {
        while self.serving.join_next().await.is_some() {}
    }

    fn requests_in_flight(&self) -> usize {
        let generation = self.state.generation.load();
        generation.upstreams.all().map(|upstream| upstream.in_flight()).sum()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
