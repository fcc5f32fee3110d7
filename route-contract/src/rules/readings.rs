//! RC05: the rule on readings refuses no route in its plain form.

use crate::classify::Verdict;
use crate::contract::{EncodedSlash, FamilyId, Serve};
use crate::diagnostic::Diagnostic;
use crate::ownership::Owner;
use crate::proof::Proof;
use crate::template::{Segment, Template};

/// A route that is refused as ambiguous in its plain form.
pub const AMBIGUOUS: &str = "RC0501";
/// Parameters that admit an encoded slash.
pub const ENCODED_SLASH: &str = "RC0502";

pub(super) fn check(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
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
            break;
        }
    }
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
