//! RC05: the rule on readings refuses no route in its plain form.

use std::collections::HashSet;

use crate::automaton::StateId;
use crate::classify::Verdict;
use crate::contract::{EncodedSlash, FamilyId, Serve};
use crate::diagnostic::Diagnostic;
use crate::ownership::{Owner, TemplateId};
use crate::proof::Proof;
use crate::template::{Segment, Template};

/// A route that is refused as ambiguous in its plain form.
pub const AMBIGUOUS: &str = "RC0501";
/// Paths of a family that are refused as ambiguous in their plain form.
pub const AMBIGUOUS_CLASS: &str = "RC0503";
/// Parameters that admit an encoded slash.
pub const ENCODED_SLASH: &str = "RC0502";

pub(super) fn check(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    let mut told: HashSet<StateId> = HashSet::new();
    for reach in proof.plain_routes() {
        for (owner, class) in reach.owners {
            let Owner::Family(_) = owner else { continue };
            let witness = proof.witness(*class);
            if proof.classifier.classify(witness.as_bytes()).verdict != Verdict::Ambiguous {
                continue;
            }
            let message = format!(
                "`{} {}` of profile `{}` is refused as ambiguous: another reading of its path has another owner",
                reach.route.method, reach.route.template, reach.profile.name
            );
            let mut finding = Diagnostic::error(AMBIGUOUS, message)
                .at(reach.route.place.clone())
                .with_witness(&witness);
            if let Ok(Some(disagreement)) = proof.classifier.disagreement(witness.as_bytes()) {
                finding = finding.with_help(format!(
                    "read as `{}` ({}) it goes to {}",
                    disagreement.path(),
                    disagreement.how(),
                    proof.describe(disagreement.owner)
                ));
            }
            findings.push(finding);
            told.insert(*class);
            break;
        }
    }
    ambiguous_classes(proof, &told, findings);
    for (id, family) in proof.contract.family_ids() {
        if family.serve == Serve::Never || family.encoded_slash == EncodedSlash::Refuse {
            continue;
        }
        let templates = family.routes.as_ref().unwrap_or(&family.claims);
        let mut admitting: Vec<String> = Vec::new();
        let mut tails = 0;
        for located in templates {
            let template = &located.template;
            admitting.extend(
                (0..template.segments().len())
                    .filter(|index| admits_slash(proof, id, template, *index))
                    .filter_map(|index| match &template.segments()[index] {
                        Segment::Parameter(parameter) => Some(format!("{{{}}}", parameter.name)),
                        Segment::Literal(_) => None,
                    }),
            );
            tails += usize::from(template.has_tail());
        }
        admitting.sort();
        admitting.dedup();
        if admitting.is_empty() && tails == 0 {
            continue;
        }
        if tails > 0 {
            admitting.push("everything below a final `/**`".to_owned());
        }
        let message = format!(
            "family `{}` admits an encoded slash (`%2F`) in {}",
            family.name,
            admitting.join(", ")
        );
        findings.push(Diagnostic::note(ENCODED_SLASH, message).at(family.place.clone()));
    }
}

/// Paths that a family owns and never gets: one finding for each template that decides about such paths.
fn ambiguous_classes(proof: &Proof<'_>, told: &HashSet<StateId>, findings: &mut Vec<Diagnostic>) {
    let mut seen: HashSet<TemplateId> = HashSet::new();
    for class in proof.automaton.classes().filter(|class| !told.contains(class)) {
        let decision = proof.decision(class);
        let (Owner::Family(family), Some(template)) = (decision.owner, decision.template) else {
            continue;
        };
        if seen.contains(&template) {
            continue;
        }
        let witness = proof.witness(class);
        if proof.classifier.classify(witness.as_bytes()).verdict != Verdict::Ambiguous {
            continue;
        }
        seen.insert(template);
        let message = format!(
            "some paths of `{}` of family `{}` are refused as ambiguous: another reading of them has another owner",
            proof.classifier.template(template),
            proof
                .contract
                .families
                .get(family.index())
                .map_or("", |family| &family.name)
        );
        let mut finding = Diagnostic::warning(AMBIGUOUS_CLASS, message).with_witness(&witness);
        if let Some(place) = proof.place(template) {
            finding = finding.at(place.clone());
        }
        if let Ok(Some(disagreement)) = proof.classifier.disagreement(witness.as_bytes()) {
            finding = finding.with_help(format!(
                "read as `{}` ({}) it goes to {}",
                disagreement.path(),
                disagreement.how(),
                proof.describe(disagreement.owner)
            ));
        }
        findings.push(finding);
    }
}

/// Whether a path of the template with `%2F` inside one parameter is forwarded to the family.
fn admits_slash(proof: &Proof<'_>, family: FamilyId, template: &Template, at: usize) -> bool {
    let mut path = String::new();
    for (index, segment) in template.segments().iter().enumerate() {
        path.push('/');
        match segment {
            Segment::Literal(literal) if index == at && !literal.is_empty() => return false,
            Segment::Literal(literal) => path.push_str(literal),
            Segment::Parameter(parameter) => {
                path.push_str(&parameter.prefix);
                path.push_str(if index == at { "a%2Fb" } else { "a1" });
                path.push_str(&parameter.suffix);
            }
        }
    }
    proof.classifier.classify(path.as_bytes()).verdict == Verdict::Family(family)
}
