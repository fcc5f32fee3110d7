//! How findings are shown, and which exit code they make.

use std::io::{self, Write};

use route_contract::contract;
use route_contract::diagnostic::{Diagnostic, Severity};

use super::{CLEAN, FOUND, UNDECIDED};
use crate::config;

/// Writes each finding in full.
///
/// # Errors
/// The writer's.
pub(super) fn write(out: &mut impl Write, findings: &[Diagnostic]) -> io::Result<()> {
    for finding in findings {
        writeln!(out, "{finding}")?;
    }
    Ok(())
}

/// Writes findings to standard error and answers their exit code. When standard error is gone, the code alone
/// must do.
pub(super) fn report(findings: &[Diagnostic]) -> u8 {
    let _ = write(&mut io::stderr().lock(), findings);
    exit_code(findings)
}

/// How many of the findings have this severity.
pub(super) fn count(findings: &[Diagnostic], severity: Severity) -> usize {
    findings.iter().filter(|finding| finding.severity == severity).count()
}

/// 2 when a file could not be read, as its faults are then unknown; 1 for errors; 0 for warnings and notes.
fn exit_code(findings: &[Diagnostic]) -> u8 {
    let unreadable = [config::DOCUMENT.unreadable, contract::CODES.unreadable];
    if findings.iter().any(|finding| unreadable.contains(&finding.code)) {
        UNDECIDED
    } else if count(findings, Severity::Error) > 0 {
        FOUND
    } else {
        CLEAN
    }
}
