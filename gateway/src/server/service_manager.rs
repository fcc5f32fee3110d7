//! What systemd is told, by the protocol of `sd_notify(3)`. Started by anybody else, the gateway tells nobody.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::task::JoinHandle;

/// Messages that may wait; more are left out. Only a service manager that is stuck does not take them.
const WAITING: usize = 16;
/// How long such a one is waited for where it has to know before this process goes on.
const PATIENCE: Duration = Duration::from_secs(2);

/// Lines for the service manager, and who wants to know that it has them.
type Message = (String, Option<SyncSender<()>>);

/// The service manager, where there is one. Telling it blocks nobody: a thread of its own does that.
#[derive(Debug, Default)]
pub(super) struct ServiceManager {
    messages: Option<SyncSender<Message>>,
    watchdog: Option<JoinHandle<()>>,
}

impl ServiceManager {
    /// The one that has started this process.
    pub fn of_this_process() -> Self {
        let is_there = std::env::var_os("NOTIFY_SOCKET").is_some();
        let messages = is_there.then(|| {
            let (sender, messages) = sync_channel(WAITING);
            let spawned = std::thread::Builder::new()
                .name("service-manager".to_owned())
                .spawn(move || tell_all(&messages));
            if let Err(error) = spawned {
                tracing::warn!(%error, "the service manager cannot be told anything");
            }
            sender
        });
        Self {
            messages,
            watchdog: None,
        }
    }

    /// This process is the service, and serves. From now on the watchdog, if there is one, hears from the present
    /// runtime, which is to be the one that serves traffic: when its threads hang, the watchdog hears nothing.
    pub fn serving(&mut self, status: &str) {
        // It hears of a new main process before the old one ends, or it would take that for the end of the service. What is
        // sent before is read before: it looks at messages first, and then at processes that have ended.
        let (sent, is_sent) = sync_channel(1);
        if let Some(messages) = &self.messages {
            let states = [
                NotifyState::MainPid(std::process::id()),
                NotifyState::Ready,
                NotifyState::Status(status),
            ];
            send(messages, &states, Some(sent));
            let _in_time = is_sent.recv_timeout(PATIENCE);
        }
        let limit = sd_notify::watchdog_enabled();
        self.watchdog = self.messages.clone().zip(limit).map(|(messages, limit)| {
            tokio::spawn(async move {
                // Half of the limit, as sd_watchdog_enabled(3) wants it.
                let mut beats = tokio::time::interval(limit / 2);
                loop {
                    beats.tick().await;
                    send(&messages, &[NotifyState::Watchdog], None);
                }
            })
        });
    }

    /// The configuration is read again; [`Self::reloaded`] ends that.
    pub fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.tell(&[NotifyState::Reloading, now]),
            // A reload without its time fails from systemd 253 on, and one that is not told of does not.
            Err(error) => tracing::warn!(%error, "the service manager is not told of a reload"),
        }
    }

    /// A reload has ended, whatever came of it.
    pub fn reloaded(&self, status: &str) {
        self.tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// The service is stopping, and may take this long.
    pub fn stopping(&self, limit: Duration) {
        let limit = u32::try_from(limit.as_micros()).unwrap_or(u32::MAX);
        self.tell(&[
            NotifyState::Stopping,
            NotifyState::Status("draining"),
            NotifyState::ExtendTimeoutUsec(limit),
        ]);
    }

    /// What `systemctl status` shows.
    pub fn status(&self, text: &str) {
        self.tell(&[NotifyState::Status(text)]);
    }

    /// Another process is the service now.
    pub fn fall_silent(&mut self) {
        self.stop_watchdog();
        self.messages = None;
    }

    fn tell(&self, states: &[NotifyState<'_>]) {
        if let Some(messages) = &self.messages {
            send(messages, states, None);
        }
    }

    fn stop_watchdog(&mut self) {
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.abort();
        }
    }
}

impl Drop for ServiceManager {
    fn drop(&mut self) {
        self.stop_watchdog();
    }
}

fn send(messages: &SyncSender<Message>, states: &[NotifyState<'_>], sent: Option<SyncSender<()>>) {
    let lines: Vec<String> = states.iter().map(ToString::to_string).collect();
    // The only one who could wait is the traffic, and it does not.
    if messages.try_send((lines.join("\n"), sent)).is_err() {
        tracing::warn!("the service manager takes no messages");
    }
}

fn tell_all(messages: &Receiver<Message>) {
    while let Ok((message, sent)) = messages.recv() {
        if let Err(error) = sd_notify::notify(&[NotifyState::Custom(&message)]) {
            tracing::warn!(%error, "the service manager cannot be told");
        }
        if let Some(sent) = sent {
            // Whoever has waited too long has gone on.
            let _known = sent.try_send(());
        }
    }
}
