//! JUnit XML: each rule is a test. A rule that is broken is one failing test for each finding, since readers
//! show one failure of a test; warnings and notes stand in the output of the rule's test.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::Report;
use crate::diagnostic::Diagnostic;
use crate::rules::{PAGES, Page};

/// Writes the report.
///
/// # Errors
/// The stream cannot be written.
pub fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut cases = String::new();
    let mut tests = 0;
    for page in PAGES {
        let (broken, others): (Vec<&Diagnostic>, Vec<&Diagnostic>) = report
            .findings()
            .iter()
            .filter(|finding| finding.code == page.code)
            .partition(|finding| report.breaks(finding));
        for finding in &broken {
            tests += 1;
            case(&mut cases, page, finding, report.decided.is_err());
        }
        // Of a contract that could not be read, nothing is known to hold.
        if broken.is_empty() && report.decided.is_ok() {
            tests += 1;
            let name = format!("{} {}", page.code, page.name);
            let _ = write!(
                cases,
                "    <testcase classname=\"{}\" name=\"{}\"",
                group(page),
                escape(&name)
            );
            if others.is_empty() {
                cases.push_str("/>\n");
            } else {
                let text: String = others.iter().map(|finding| finding.to_string() + "\n").collect();
                let _ = writeln!(
                    cases,
                    ">\n      <system-out>{}</system-out>\n    </testcase>",
                    escape(&text)
                );
            }
        }
    }
    let broken = report
        .findings()
        .iter()
        .filter(|finding| report.breaks(finding))
        .count();
    let (failures, errors) = if report.decided.is_ok() {
        (broken, 0)
    } else {
        (0, broken)
    };
    let totals = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\"");
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites name=\"route-contract\" {totals}>")?;
    writeln!(
        out,
        "  <testsuite name=\"route-contract check {}\" {totals}>",
        escape(report.contract)
    )?;
    out.write_all(cases.as_bytes())?;
    writeln!(out, "  </testsuite>\n</testsuites>")
}

fn case(cases: &mut String, page: &Page, finding: &Diagnostic, undecided: bool) {
    let name = format!("{} {}: {}", page.code, page.name, finding.message);
    let _ = write!(
        cases,
        "    <testcase classname=\"{}\" name=\"{}\"",
        group(page),
        escape(&name)
    );
    if let Some(place) = &finding.place {
        let file = escape(&place.source.name);
        let _ = write!(cases, " file=\"{file}\" line=\"{}\"", place.line_column().0);
    }
    let element = if undecided { "error" } else { "failure" };
    let _ = writeln!(
        cases,
        ">\n      <{element} type=\"{}\" message=\"{}\">{}</{element}>\n    </testcase>",
        finding.code,
        escape(&finding.message),
        escape(&finding.to_string())
    );
}

/// The group of a rule, as a class name: `route-contract.RC02`.
fn group(page: &Page) -> String {
    format!("route-contract.{}", page.code.get(..4).unwrap_or(page.code))
}

/// Escapes text and attributes (XML 1.0, section 2.4); what XML cannot hold (section 2.2) is replaced.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            control if control < ' ' => escaped.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
