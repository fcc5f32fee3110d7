//! One message, one line of JSON; the escaping is that of access records too.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The longest value that is written, in bytes; what is longer is cut and marked.
const LONGEST: usize = 2048;

/// Writes `{"time":…,"log":…,…}`: `log` is the level of a message, as it is `access` in a record. Values are escaped
/// so that no client can end a line or forge a field.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        writer.write_str("{\"time\":\"")?;
        SystemTime.format_time(&mut writer)?;
        writer.write_str("\",\"log\":\"")?;
        writer.write_str(match *metadata.level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        })?;
        writer.write_char('"')?;
        let mut fields = Fields { writer, result: Ok(()) };
        event.record(&mut fields);
        fields.result?;
        fields.writer.write_str("}\n")
    }
}

/// This moment as log lines tell it (RFC 3339, in UTC).
pub fn now() -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

struct Fields<'w> {
    writer: Writer<'w>,
    result: fmt::Result,
}

impl Fields<'_> {
    fn write(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        // Events that come through the `log` crate bear their origin in fields of this name.
        if self.result.is_err() || field.name().starts_with("log.") {
            return;
        }
        self.result = (|| {
            self.writer.write_str(",\"")?;
            write_escaped(&mut self.writer, field.name())?;
            self.writer.write_str("\":")?;
            value(&mut self.writer)
        })();
    }

    fn write_text(&mut self, field: &Field, text: fmt::Arguments<'_>) {
        self.write(field, |writer| {
            writer.write_char('"')?;
            Value::new(writer).write_fmt(text)?;
            writer.write_char('"')
        });
    }
}

/// A text that is being written: escaped, and cut where it is too long.
pub(super) struct Value<'v, W> {
    writer: &'v mut W,
    /// Bytes that may still be written; none once the text was cut.
    left: Option<usize>,
}

impl<'v, W> Value<'v, W> {
    /// A text that begins here, between quotation marks.
    pub fn new(writer: &'v mut W) -> Self {
        let left = Some(LONGEST);
        Self { writer, left }
    }
}

impl<W: fmt::Write> fmt::Write for Value<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let Some(left) = self.left else { return Ok(()) };
        if text.len() <= left {
            self.left = Some(left - text.len());
            return write_escaped(self.writer, text);
        }
        self.left = None;
        let cut = text.floor_char_boundary(left);
        write_escaped(self.writer, text.get(..cut).unwrap_or_default())?;
        self.writer.write_char('…')
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.write_text(field, format_args!("{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, |writer| write!(writer, "{value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, |writer| write!(writer, "{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write(field, |writer| write!(writer, "{value}"));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.write(field, |writer| {
            if value.is_finite() {
                write!(writer, "{value}")
            } else {
                writer.write_str("null")
            }
        });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.write_text(field, format_args!("{value:?}"));
    }
}

/// Whether a text stands in JSON as it is, and is printable ASCII. Without an early end, as so it is looked at sixteen
/// bytes at a time, and nearly every text is plain.
fn is_plain(text: &[u8]) -> bool {
    text.iter().fold(true, |plain, &byte| {
        plain & (b' '..=b'~').contains(&byte) & !matches!(byte, b'"' | b'\\')
    })
}

/// RFC 8259 section 7; also the line separators that some readers break lines at.
fn write_escaped(writer: &mut impl fmt::Write, text: &str) -> fmt::Result {
    if is_plain(text.as_bytes()) {
        return writer.write_str(text);
    }
    let mut plain = 0;
    for (at, letter) in text.char_indices() {
        let harmless = !letter.is_control() && !matches!(letter, '"' | '\\' | '\u{2028}' | '\u{2029}');
        if harmless {
            continue;
        }
        writer.write_str(text.get(plain..at).unwrap_or_default())?;
        plain = at + letter.len_utf8();
        match letter {
            '"' => writer.write_str("\\\"")?,
            '\\' => writer.write_str("\\\\")?,
            _ => write!(writer, "\\u{:04x}", u32::from(letter))?,
        }
    }
    writer.write_str(text.get(plain..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::layer::SubscriberExt;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_one_object_whatever_it_holds() {
        let lines = Lines::default();
        let sink = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .event_format(JsonLine)
            .with_writer(move || sink.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let hostile = "a\" \\ \r\n\u{1b}[2J \u{2028} \u{7f}é";
            tracing::info!(target = hostile, status = 200, none = None::<&str>);
            tracing::warn!(long = "x".repeat(5000), half = 0.5, "mes\nsage");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let records: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(records.len(), 2, "{text}");
        assert_eq!(records[0]["log"], "info");
        assert_eq!(records[0]["target"], "a\" \\ \r\n\u{1b}[2J \u{2028} \u{7f}é");
        assert_eq!(records[0]["status"], 200);
        assert!(records[0].get("none").is_none());
        assert_eq!(records[1]["log"], "warn");
        assert_eq!(records[1]["message"], "mes\nsage");
        assert_eq!(records[1]["long"].as_str().unwrap().chars().count(), LONGEST + 1);
    }
}
