//! SARIF 2.1.0 (OASIS standard, errata 01): the rules with their pages, and the findings as results.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Report;
use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::rules::{PAGES, Page};

/// Writes the report.
///
/// # Errors
/// The stream cannot be written.
pub fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut run = json!({
        "tool": { "driver": {
            "name": env!("CARGO_PKG_NAME"),
            "semanticVersion": env!("CARGO_PKG_VERSION"),
            "rules": PAGES.iter().map(rule).collect::<Vec<_>>(),
        }},
        "columnKind": "unicodeCodePoints",
        "invocations": [{ "executionSuccessful": report.decided.is_ok() }],
        "results": report.findings().iter().map(result).collect::<Vec<_>>(),
    });
    if let (Some(digest), Some(run)) = (report.digest, run.as_object_mut()) {
        run.insert("properties".to_owned(), json!({ "contractDigest": digest }));
    }
    let log = json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    });
    serde_json::to_writer_pretty(&mut *out, &log)?;
    writeln!(out)
}

fn rule(page: &Page) -> Value {
    let help = format!(
        "{}\n\nExample: {}\n\nHow to mend it: {}",
        page.why, page.example, page.mend
    );
    let markdown = format!(
        "{}\n\n**Example.** {}\n\n**How to mend it.** {}",
        page.why, page.example, page.mend
    );
    json!({
        "id": page.code,
        "name": page.name,
        "shortDescription": { "text": page.what },
        "fullDescription": { "text": page.what },
        "help": { "text": help, "markdown": markdown },
        "defaultConfiguration": { "level": page.severity },
    })
}

fn result(finding: &Diagnostic) -> Value {
    let mut message = finding.message.clone();
    if let Some(witness) = &finding.witness {
        let _ = write!(message, "\nwitness: {witness}");
    }
    if let Some(help) = &finding.help {
        let _ = write!(message, "\nhelp: {help}");
    }
    let mut result = json!({
        "ruleId": finding.code,
        "level": match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        },
        "message": { "text": message },
        "locations": finding.place.iter().map(|place| location(place, None)).collect::<Vec<_>>(),
        "relatedLocations": finding
            .related
            .iter()
            .map(|(words, place)| location(place, Some(words)))
            .collect::<Vec<_>>(),
        "partialFingerprints": { "routeContract/v1": fingerprint(finding) },
    });
    let index = PAGES.iter().position(|page| page.code == finding.code);
    if let (Some(index), Some(result)) = (index, result.as_object_mut()) {
        result.insert("ruleIndex".to_owned(), json!(index));
    }
    result
}

fn location(place: &Place, words: Option<&str>) -> Value {
    let (line, column) = place.line_column();
    let (end_line, end_column) = place.end_line_column();
    let mut location = json!({
        "physicalLocation": {
            "artifactLocation": artifact(&place.source.name),
            "region": {
                "startLine": line,
                "startColumn": column,
                "endLine": end_line,
                "endColumn": end_column,
            },
        },
    });
    if let (Some(words), Some(location)) = (words, location.as_object_mut()) {
        location.insert("message".to_owned(), json!({ "text": words }));
    }
    location
}

/// A file as a URI reference (RFC 3986 section 4.1).
fn artifact(file: &str) -> Value {
    let mut uri = String::with_capacity(file.len());
    for byte in file.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    if file.starts_with('/') {
        json!({ "uri": format!("file://{uri}") })
    } else {
        json!({ "uri": uri, "uriBaseId": "%SRCROOT%" })
    }
}

/// The same for a finding that only moved to another line.
fn fingerprint(finding: &Diagnostic) -> String {
    let file = finding.place.as_ref().map_or("", |place| &place.source.name);
    let mut hash = Sha256::new();
    for part in [finding.code, file, &finding.message] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let mut text = String::with_capacity(64);
    for byte in hash.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
