//! Messages and access records on standard output or in a file, one JSON line each.

use std::io::{self, Write};
use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::json_line::JsonLine;
use super::log_file::LogFile;
use super::sink::{Sink, SinkGuard};
use crate::config::{Config, Level, Log};

/// Bytes of lines that may wait for a slow reader; what comes beyond them is dropped and counted.
const WAITING: usize = 4 * 1024 * 1024;

/// The crates whose messages are written. Those of libraries hold addresses, header values and whole heads, and are not,
/// but for the level of those who want all there is.
const OWN: [&str; 2] = ["gateway", "route_contract"];

/// Knows the lines that were dropped; logging is set up once for a process.
static SINK: OnceLock<Sink> = OnceLock::new();

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file of `log.file`.
    #[error("cannot open the file of `log.file`: {0}")]
    File(io::Error),
    /// The thread that writes.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// It was set up before.
    #[error(transparent)]
    Twice(#[from] TryInitError),
}

/// Where records go too, once the log has started.
pub fn sink() -> Option<Sink> {
    SINK.get().cloned()
}

/// Lines dropped since the start.
pub fn dropped_lines() -> u64 {
    SINK.get().map_or(0, Sink::dropped)
}

/// Sends messages of this process, also those of the `log` crate, to `output`. They are written out when the guard is
/// dropped.
///
/// # Errors
/// Logging was set up before, or a thread cannot be started.
pub fn start(log: &Log, output: impl Write + Send + 'static) -> Result<SinkGuard, LogError> {
    let (sink, guard) = Sink::start(output, WAITING).map_err(LogError::Thread)?;
    let layer = tracing_subscriber::fmt::layer()
        .event_format(JsonLine)
        .with_ansi(false)
        .with_writer(sink.clone());
    tracing_subscriber::registry()
        .with(filter(log))
        .with(layer)
        .try_init()?;
    // Only the first to get here has set up the log.
    let _first = SINK.set(sink);
    Ok(guard)
}

/// The same to standard output, or to the file that the configuration names.
///
/// # Errors
/// As [`start`]; or the file cannot be opened.
pub fn start_as_configured(config: &Config) -> Result<SinkGuard, LogError> {
    match &config.log.file {
        None => start(&config.log, io::stdout()),
        Some(path) => {
            let file = LogFile::open(config.resolve(path)).map_err(LogError::File)?;
            start(&config.log, file)
        }
    }
}

fn filter(log: &Log) -> Targets {
    let level = match log.level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let libraries = match log.level {
        Level::Trace => LevelFilter::TRACE,
        _ => LevelFilter::OFF,
    };
    Targets::new()
        .with_default(libraries)
        .with_targets(OWN.map(|target| (target, level)))
}
