//! Messages and access records on standard output, one JSON line each.

use std::io::{self, Write};
use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::access;
use super::json_line::JsonLine;
use crate::config::{Level, Log};

/// Lines that may wait for a slow reader; what comes beyond them is dropped and counted, so that a stuck log cannot
/// stop traffic.
const WAITING_LINES: usize = 64 * 1024;

/// Libraries whose messages hold addresses, header values or both.
const NOISY: [&str; 6] = [
    "pingora",
    "pingora_core",
    "pingora_proxy",
    "pingora_pool",
    "rustls",
    "h2",
];

/// Counts the lines that were dropped; logging is set up once for a process.
static LOST: OnceLock<ErrorCounter> = OnceLock::new();

/// Writes out what waits when it is dropped.
#[must_use = "lines that wait are lost without it"]
pub struct LogGuard {
    _worker: WorkerGuard,
}

/// Lines dropped since the start.
pub fn lost_lines() -> usize {
    LOST.get().map_or(0, ErrorCounter::dropped_lines)
}

/// Sends messages of this process, also those of the `log` crate, to `output`.
///
/// # Errors
/// Logging was set up before.
pub fn start(log: &Log, output: impl Write + Send + 'static) -> Result<LogGuard, TryInitError> {
    let (writer, worker) = NonBlockingBuilder::default()
        .buffered_lines_limit(WAITING_LINES)
        .lossy(true)
        .thread_name("log")
        .finish(output);
    let lost = writer.error_counter();
    let layer = tracing_subscriber::fmt::layer()
        .event_format(JsonLine)
        .with_ansi(false)
        .with_writer(writer);
    tracing_subscriber::registry()
        .with(filter(log))
        .with(layer)
        .try_init()?;
    // Only the first to get here has set up the log.
    let _first = LOST.set(lost);
    Ok(LogGuard { _worker: worker })
}

/// The same to standard output.
///
/// # Errors
/// Logging was set up before.
pub fn start_on_stdout(log: &Log) -> Result<LogGuard, TryInitError> {
    start(log, io::stdout())
}

/// Pingora reports each failure with the upstream's address, also at level error: its messages are for developers.
fn filter(log: &Log) -> Targets {
    let level = match log.level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let noisy = if level >= LevelFilter::DEBUG {
        level
    } else {
        LevelFilter::OFF
    };
    let access = if log.access {
        LevelFilter::INFO
    } else {
        LevelFilter::OFF
    };
    Targets::new()
        .with_default(level)
        .with_targets(NOISY.map(|target| (target, noisy)))
        .with_target(access::TARGET, access)
}
