//! What to try, found out from the proof of a contract: a path of each family, and one of each kind that is refused.

use route_contract::automaton::StateId;
use route_contract::classify::Verdict;
use route_contract::contract::{Contract, FamilyId};
use route_contract::diagnostic::Diagnostic;
use route_contract::ownership::Owner;
use route_contract::proof::{Proof, Reach};

/// The most families that are shown; a contract may have a thousand.
const MAX_FAMILIES: usize = 8;

/// A request, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The method.
    pub method: String,
    /// The request target.
    pub target: String,
    /// Who answers it, or why nobody does.
    pub answer: String,
}

impl Example {
    fn get(target: impl Into<String>, answer: impl Into<String>) -> Self {
        Self {
            method: "GET".to_owned(),
            target: target.into(),
            answer: answer.into(),
        }
    }
}

/// What shows a contract best. All of it is decided by the proof and by the classifier that the gateway runs.
///
/// # Errors
/// The contract cannot be proved.
pub fn examples(contract: &Contract) -> Result<Vec<Example>, Vec<Diagnostic>> {
    let proof = Proof::new(contract)?;
    let served = served(&proof);
    let mut examples: Vec<Example> = served.iter().map(|(_, example)| example.clone()).collect();
    examples.extend(admitted_escape(&proof));
    examples.extend(hole(&proof));
    examples.extend(internal(&proof));
    examples.extend(ambiguous(&proof, &served));
    Ok(examples)
}

/// For each forwarded family its most particular route.
fn served(proof: &Proof<'_>) -> Vec<(FamilyId, Example)> {
    let routes: Vec<Reach<'_>> = proof.plain_routes().collect();
    let of_family = |(id, _): (FamilyId, _)| {
        let reached = routes.iter().filter_map(|reach| {
            let (_, class) = reach.owners.iter().find(|(owner, _)| *owner == Owner::Family(id))?;
            let target = proof.witness(*class);
            (verdict(proof, &target) == Verdict::Family(id)).then_some((reach, target))
        });
        let (reach, target) = reached.max_by_key(|(reach, _)| reach.route.template.segments().len())?;
        let example = Example {
            method: method(reach),
            target,
            answer: answered_by(reach),
        };
        Some((id, example))
    };
    proof
        .contract
        .family_ids()
        .filter_map(of_family)
        .take(MAX_FAMILIES)
        .collect()
}

/// A path whose escape changes no owner, and so passes as it came.
fn admitted_escape(proof: &Proof<'_>) -> Option<Example> {
    proof
        .plain_routes()
        .filter(|reach| reach.route.template.has_tail())
        .find_map(|reach| {
            let (owner, class) = reach.owners.iter().find(|(owner, _)| owner.forwarded().is_some())?;
            let target = format!("{}/a%2Fb", proof.witness(*class).trim_end_matches('/'));
            let same = verdict(proof, &target) == Verdict::Family(owner.forwarded()?);
            same.then(|| Example {
                method: method(&reach),
                target,
                answer: format!(
                    "{}: the escape changes no owner and passes untouched",
                    answered_by(&reach)
                ),
            })
        })
}

/// A path in a claim that is none of its routes.
fn hole(proof: &Proof<'_>) -> Option<Example> {
    classes(proof).find_map(|(owner, class)| match owner {
        Owner::Refused(id) => Some(Example::get(
            proof.witness(class),
            format!(
                "refused: `{}` claims it, and it is none of its routes",
                name(proof.contract, id)
            ),
        )),
        _ => None,
    })
}

/// A path that is served inside alone.
fn internal(proof: &Proof<'_>) -> Option<Example> {
    classes(proof).find_map(|(owner, class)| match owner {
        Owner::Never(id) => Some(Example::get(
            proof.witness(class),
            format!(
                "refused like a path that nobody knows: `{}` is never forwarded",
                name(proof.contract, id)
            ),
        )),
        _ => None,
    })
}

/// A path of a family that a server which decodes it would take for another's.
fn ambiguous(proof: &Proof<'_>, served: &[(FamilyId, Example)]) -> Option<Example> {
    served.iter().find_map(|(_, example)| {
        let target = &example.target;
        // Behind the first slash, which every path begins with.
        let slashes = target.match_indices('/').skip(1).map(|(at, _)| at);
        let spelled = slashes.map(|at| format!("{}%2F{}", &target[..at], &target[at + 1..]));
        spelled
            .filter(|spelled| verdict(proof, spelled) == Verdict::Ambiguous)
            .last()
            .map(|spelled| Example::get(spelled, "refused: decoded, it is another family's path"))
    })
}

fn classes<'p>(proof: &'p Proof<'_>) -> impl Iterator<Item = (Owner, StateId)> + 'p {
    let classes = proof.automaton.classes().map(|class| (proof.owner(class), class));
    // A witness may hold what a person does not type; the shown paths are plain.
    classes.filter(|(_, class)| proof.witness(*class).is_ascii())
}

fn verdict(proof: &Proof<'_>, target: &str) -> Verdict {
    proof.classifier.classify(target.as_bytes()).verdict
}

fn answered_by(reach: &Reach<'_>) -> String {
    format!("answered by {}", reach.profile.name)
}

fn method(reach: &Reach<'_>) -> String {
    match reach.route.method.as_str() {
        "*" => "GET".to_owned(),
        method => method.to_owned(),
    }
}

fn name(contract: &Contract, id: FamilyId) -> &str {
    contract.families.get(id.index()).map_or("", |family| &family.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::embedded;

    fn of(deployment: &str) -> Vec<Example> {
        examples(&embedded::contract(deployment).unwrap()).unwrap()
    }

    #[test]
    fn the_reference_contract_has_an_example_of_each_kind() {
        let examples = of("agentteam");
        let answers: Vec<&str> = examples.iter().map(|example| example.answer.as_str()).collect();
        assert_eq!(
            answers,
            [
                "answered by extension",
                "answered by central",
                "answered by workspace",
                "answered by central: the escape changes no owner and passes untouched",
                "refused: `extension` claims it, and it is none of its routes",
                "refused like a path that nobody knows: `internal-only` is never forwarded",
                "refused: decoded, it is another family's path",
            ]
        );
        assert_eq!(examples[0].method, "POST");
    }

    #[test]
    fn every_forwarded_family_of_another_contract_is_shown() {
        let examples = of("open-conduit");
        for profile in ["github", "slack", "linear", "jira", "bitbucket", "schedule", "web-view"] {
            let answer = format!("answered by {profile}");
            assert!(
                examples.iter().any(|example| example.answer == answer),
                "{answer} in {examples:#?}"
            );
        }
    }
}
