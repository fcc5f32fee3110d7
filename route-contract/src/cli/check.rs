//! `route-contract check`.

use std::path::PathBuf;

use super::{ContractPath, Exit, Stop, Streams, streams};
use crate::contract::Contract;
use crate::diagnostic::{Diagnostic, Palette, Place};
use crate::proof::Proof;
use crate::report::{Format, Report};
use crate::rules::{self, Outcome};

/// The code of a contract that is not the expected one.
const OTHER_DIGEST: &str = "RC0701";

/// The name of standard output among paths.
const STANDARD_OUTPUT: &str = "-";

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    contract: ContractPath,
    /// How findings are printed on standard output, `text` by default; the exit code is the same for all
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write a report to a file as well, such as sarif=report.sarif; may be repeated; `-` is standard output
    #[arg(long, value_name = "FORMAT=PATH", value_parser = output)]
    output: Vec<Output>,
    /// Take warnings for findings: with one, the exit code is 1
    #[arg(long)]
    deny_warnings: bool,
    /// Demand that the contract has this digest, as `route-contract digest` prints it
    #[arg(long, value_name = "sha256:...", value_parser = digest)]
    expect_digest: Option<String>,
}

/// One report: its format, and where it goes.
#[derive(Clone, Debug)]
struct Output {
    format: Format,
    path: PathBuf,
}

impl Output {
    fn is_standard(&self) -> bool {
        self.path.as_os_str() == STANDARD_OUTPUT
    }
}

fn output(text: &str) -> Result<Output, String> {
    let Some((format, path)) = text.split_once('=') else {
        return Err("a format and a path with `=` between them".to_owned());
    };
    if path.is_empty() {
        return Err("the path is missing".to_owned());
    }
    Ok(Output {
        format: clap::ValueEnum::from_str(format, false)
            .map_err(|_| format!("`{format}` is no format; there are text, json, junit, sarif and github"))?,
        path: path.into(),
    })
}

fn digest(text: &str) -> Result<String, String> {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("a digest is `sha256:` and 64 hexadecimal digits".to_owned())
    }
}

pub fn run(arguments: &Arguments, palette: &Palette, streams: &mut Streams<'_>) -> Result<Exit, Stop> {
    let mut outputs = arguments.output.clone();
    let standard =
        outputs.iter().filter(|output| output.is_standard()).count() + usize::from(arguments.format.is_some());
    if standard > 1 {
        return Err(streams.stop("only one report can go to standard output"));
    }
    if standard == 0 || arguments.format.is_some() {
        outputs.push(Output {
            format: arguments.format.unwrap_or(Format::Text),
            path: STANDARD_OUTPUT.into(),
        });
    }
    for (index, output) in outputs.iter().enumerate() {
        if outputs.iter().take(index).any(|other| other.path == output.path) {
            let path = output.path.display();
            return Err(streams.stop(format_args!("two reports cannot go to `{path}`")));
        }
    }
    let path = &arguments.contract.contract;
    let contract = streams::read(path, streams.input);
    let digest = contract.as_ref().ok().map(Contract::digest);
    let decided =
        contract.and_then(|contract| decide(&contract, digest.as_deref(), arguments.expect_digest.as_deref()));
    let report = Report {
        contract: &path.display().to_string(),
        digest: digest.as_deref(),
        decided: &decided,
        deny_warnings: arguments.deny_warnings,
    };
    let mut exit = match &decided {
        Ok(_) if report.is_clean() => Exit::Clean,
        Ok(_) => Exit::Findings,
        Err(_) => Exit::Undecided,
    };
    for output in &outputs {
        if output.is_standard() {
            report.write(output.format, palette, streams.out)?;
            continue;
        }
        let mut text = Vec::new();
        report.write(output.format, &Palette::PLAIN, &mut text)?;
        // A pipeline that reads the report of an earlier run would take it for this one's.
        if let Err(error) = std::fs::write(&output.path, text) {
            writeln!(streams.err, "cannot write `{}`: {error}", output.path.display())?;
            exit = Exit::Undecided;
        }
    }
    Ok(exit)
}

fn decide(contract: &Contract, digest: Option<&str>, expected: Option<&str>) -> Result<Outcome, Vec<Diagnostic>> {
    let mut outcome = rules::check(&Proof::new(contract)?);
    if let (Some(digest), Some(expected)) = (digest, expected)
        && digest != expected
    {
        let message = format!("the digest of the contract is {digest}, not {expected}");
        let finding = Diagnostic::error(OTHER_DIGEST, message)
            .at(Place::new(&contract.source, 0..0))
            .with_help("review what changed with `route-contract diff`, then expect the new digest");
        let after = outcome
            .findings
            .partition_point(|other| other.severity >= finding.severity);
        outcome.findings.insert(after, finding);
    }
    Ok(outcome)
}
