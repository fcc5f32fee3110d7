//! `route-contract explain`: why a path is owned or not, or what a rule means.

use std::io::{self, Write};

use super::{Exit, Stop, Streams};
use crate::classify::{Classifier, Verdict};
use crate::contract::{Contract, FamilyId, LocatedTemplate, Serve};
use crate::diagnostic::{Diagnostic, did_you_mean, printable};
use crate::explanation::{other_reading, owner_name, refusal, stricter_family};
use crate::readings::Unreadable;
use crate::router::ProfileRouter;
use crate::rules::{PAGES, page};
use crate::scan::Scan;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The contract file, or the code of a rule, such as RC0202
    #[arg(value_name = "CONTRACT|CODE")]
    subject: String,
    /// The path, or a whole request target
    #[arg(value_name = "PATH")]
    path: Option<String>,
}

pub fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<Exit, Stop> {
    let Some(path) = &arguments.path else {
        return explain_rule(&arguments.subject, streams);
    };
    let contract = streams.contract(arguments.subject.as_ref())?;
    let tools = Classifier::new(&contract).and_then(|classifier| match Scan::new(&contract) {
        Ok(scan) => Ok((classifier, scan)),
        Err(why) => Err(vec![Diagnostic::error(crate::proof::TOO_LARGE, why)]),
    });
    let (classifier, scan) = streams.sound(tools)?;
    Ok(explain_path(&contract, &classifier, &scan, path, streams.out)?)
}

fn explain_rule(code: &str, streams: &mut Streams<'_>) -> Result<Exit, Stop> {
    if let Some(page) = page(code) {
        write!(streams.out, "{page}")?;
        return Ok(Exit::Clean);
    }
    let named = printable(code);
    let is_code = code.to_ascii_uppercase().starts_with("RC") && !code.contains(['/', '.']);
    if !is_code {
        return Err(streams.stop(format_args!("a path is missing: route-contract explain {named} PATH")));
    }
    let meant = did_you_mean(&code.to_ascii_uppercase(), PAGES.iter().map(|page| page.code))
        .map(|meant| format!("; did you mean {meant}?"));
    let meant = meant.unwrap_or_default();
    Err(streams.stop(format_args!("there is no rule `{named}`{meant}")))
}

fn explain_path(
    contract: &Contract,
    classifier: &Classifier,
    scan: &Scan,
    target: &str,
    out: &mut dyn Write,
) -> io::Result<Exit> {
    let path = target.split('?').next().unwrap_or(target);
    let verdict = classifier.classify(target.as_bytes()).verdict;
    writeln!(out, "{}", printable(target))?;
    let mut decided = None;
    for (number, (id, family)) in contract.family_ids().enumerate() {
        let words = family_words(contract, scan, id, path, decided);
        if decided.is_none()
            && family
                .claims
                .iter()
                .any(|claim| scan.covers(&claim.template, path.as_bytes()))
        {
            decided = Some(id);
        }
        writeln!(out, "  {}. {}: {words}", number + 1, family.name)?;
    }
    if decided.is_none() {
        writeln!(out, "  no family claims it")?;
    }
    readings(contract, classifier, path, verdict, out)?;
    let stricter = stricter_family(contract, classifier, path.as_bytes());
    if let Some(family) = stricter {
        writeln!(out, "  `{}` refuses an encoded slash", family.name)?;
    }
    if let Verdict::Family(family) = verdict {
        served(contract, family, path, out)?;
    }
    match refusal(contract, classifier, path.as_bytes(), verdict) {
        None => {
            writeln!(out, "=> forwarded to `{}`", owner_name(contract, verdict))?;
            Ok(Exit::Clean)
        }
        Some((status, why)) => {
            writeln!(out, "=> refused with {status}: {why}")?;
            Ok(Exit::Findings)
        }
    }
}

/// What one family has to say: claimed, routed, and why it decides or not.
fn family_words(contract: &Contract, scan: &Scan, id: FamilyId, path: &str, decided: Option<FamilyId>) -> String {
    let Some(family) = contract.families.get(id.index()) else {
        return String::new();
    };
    let covering = |templates: &[LocatedTemplate]| -> Option<String> {
        templates
            .iter()
            .find(|located| scan.covers(&located.template, path.as_bytes()))
            .map(|located| located.template.to_string())
    };
    let Some(claim) = covering(&family.claims) else {
        return "does not claim it".to_owned();
    };
    if let Some(first) = decided.and_then(|first| contract.families.get(first.index())) {
        return format!("would claim it by `{claim}`, but `{}` comes first", first.name);
    }
    match (family.serve, &family.routes) {
        (Serve::Never, _) => format!("claims it by `{claim}` and is never forwarded"),
        (Serve::Forward, None) => format!("claims it by `{claim}` and forwards all of its claim"),
        (Serve::Forward, Some(routes)) => match covering(routes) {
            Some(route) => format!("claims it by `{claim}` and lists it as `{route}`"),
            None => format!(
                "claims it by `{claim}`, but it is none of the {} routes it lists",
                routes.len()
            ),
        },
    }
}

fn readings(
    contract: &Contract,
    classifier: &Classifier,
    path: &str,
    verdict: Verdict,
    out: &mut dyn Write,
) -> io::Result<()> {
    match other_reading(contract, classifier, path.as_bytes()) {
        Ok(Some(reading)) => writeln!(
            out,
            "  read as `{}` ({}) it goes to {}",
            printable(&reading.path),
            reading.how,
            reading.owner
        ),
        Ok(None) if matches!(verdict, Verdict::Family(_)) => {
            writeln!(out, "  every reading of it has the same owner")
        }
        Ok(None) => Ok(()),
        Err(Unreadable::Malformed) => {
            writeln!(
                out,
                "  an escape is malformed, or decodes to a control byte or to no UTF-8"
            )
        }
        Err(Unreadable::TooMany) => writeln!(out, "  it is too long, or has too many readings, to be compared"),
    }
}

/// The routes of the family's profiles that would answer.
fn served(contract: &Contract, family: FamilyId, path: &str, out: &mut dyn Write) -> io::Result<()> {
    for profile in contract.owners_of(family) {
        let Ok(router) = ProfileRouter::new(contract, profile) else {
            continue;
        };
        match router.route("GET", path).path() {
            Some(route) => writeln!(
                out,
                "  profile `{}` serves it by `{}` ({})",
                profile.name, route.template, route.place
            )?,
            None => writeln!(out, "  profile `{}` has no route for it and answers 404", profile.name)?,
        }
    }
    Ok(())
}
