//! Annotations of GitHub Actions: workflow commands on standard output. A step shows ten of each level, so the
//! worst come first, and what has no place among them stands in the log as plain text.

use std::io::{self, Write};

use super::{Report, text};
use crate::diagnostic::{Severity, printable};
use crate::rules::page;

/// The most annotations of one level that GitHub shows of a step.
const LIMIT: usize = 10;

/// Writes the report.
///
/// # Errors
/// The stream cannot be written.
pub fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let levels = [
        (Severity::Error, "error"),
        (Severity::Warning, "warning"),
        (Severity::Note, "notice"),
    ];
    for (severity, level) in levels {
        let findings = report.findings().iter().filter(|finding| finding.severity == severity);
        for (index, finding) in findings.enumerate() {
            if index >= LIMIT {
                let place = finding
                    .place
                    .as_ref()
                    .map(|place| format!(" ({place})"))
                    .unwrap_or_default();
                let message = printable(&finding.message);
                writeln!(
                    out,
                    "{}[{}]: {message}{}",
                    severity.as_str(),
                    finding.code,
                    printable(&place)
                )?;
                continue;
            }
            let name = page(finding.code).map_or("", |page| page.name);
            let mut properties = Vec::new();
            if let Some(place) = &finding.place {
                let (line, column) = place.line_column();
                let (end_line, end_column) = place.end_line_column();
                properties.push(format!("file={}", property(&place.source.name)));
                properties.push(format!("line={line}"));
                properties.push(format!("endLine={end_line}"));
                // GitHub takes columns of one line only.
                if line == end_line {
                    properties.push(format!("col={column}"));
                    properties.push(format!("endColumn={end_column}"));
                }
            }
            properties.push(format!("title={}", property(&format!("{} {name}", finding.code))));
            let mut message = finding.message.clone();
            if let Some(witness) = &finding.witness {
                message.push_str("\nwitness: ");
                message.push_str(witness);
            }
            if let Some(help) = &finding.help {
                message.push_str("\nhelp: ");
                message.push_str(help);
            }
            writeln!(out, "::{level} {}::{}", properties.join(","), data(&message))?;
        }
    }
    text::summary(report, out)
}

/// The message of a command, escaped as GitHub's own toolkit does.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
