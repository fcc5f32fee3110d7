//! RC0306: a claim that forwards all of its paths reaches no further than what is registered below it.

use std::collections::BTreeMap;

use crate::automaton::Mark;
use crate::contract::Serve;
use crate::diagnostic::Diagnostic;
use crate::ownership::{Owner, TemplateId};
use crate::proof::Proof;
use crate::template::{Segment, Template};

/// A claim that could be narrower without losing a route.
pub const WIDER_THAN_SERVED: &str = "RC0306";

/// Where, at and below the path of a claim, its profiles register routes.
#[derive(Default)]
struct Served<'p> {
    /// At the claim's own path.
    base: bool,
    /// Below one literal: the first that was seen.
    literal: Option<&'p str>,
    /// Below more than one segment: another literal, a parameter, or everything.
    open: bool,
}

impl<'p> Served<'p> {
    fn add(&mut self, claim: &Template, route: &'p Template) {
        match route.segments().get(claim.segments().len()) {
            None if route.has_tail() => self.open = true,
            None => self.base = true,
            Some(Segment::Literal(text)) if self.literal.is_none_or(|known| known == &**text) => {
                self.literal = Some(text);
            }
            Some(_) => self.open = true,
        }
    }
}

pub(super) fn check(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    // A family that no profile owns is RC0602, and one that lists its routes forwards these alone.
    let judged = |family: crate::contract::FamilyId| {
        proof.contract.owners_of(family).next().is_some()
            && proof
                .contract
                .families
                .get(family.index())
                .is_some_and(|family| family.serve == Serve::Forward && family.routes.is_none())
    };
    let judged: Vec<bool> = proof.contract.family_ids().map(|(id, _)| judged(id)).collect();
    let mut served: BTreeMap<Mark, Served<'_>> = BTreeMap::new();
    for class in proof.automaton.classes() {
        let Owner::Family(family) = proof.owner(class) else {
            continue;
        };
        if !judged.get(family.index()).copied().unwrap_or(false) {
            continue;
        }
        let ends = proof
            .automaton
            .states()
            .get(class as usize)
            .map_or(&[][..], |state| &state.ends);
        for mark in ends {
            let id = TemplateId(*mark);
            if let Some(claim) = proof.ownership.template(id)
                && proof.ownership.is_claim(id)
                && proof.ownership.family_of(id) == Some(family)
            {
                let served = served.entry(*mark).or_default();
                for route in proof.serving(class, family) {
                    served.add(claim, &route.template);
                }
            }
        }
    }
    for (mark, served) in served {
        let id = TemplateId(mark);
        let (Some(claim), Some(place), Some(family)) = (
            proof.ownership.template(id),
            proof.place(id),
            proof.ownership.family_of(id),
        ) else {
            continue;
        };
        let family = proof
            .contract
            .families
            .get(family.index())
            .map_or("", |family| &family.name);
        let own = claim.as_str().strip_suffix("/**").unwrap_or(claim.as_str());
        let own = if own.is_empty() { "/" } else { own };
        let (message, help) = match served {
            Served { open: true, .. } => continue,
            Served {
                base: false,
                literal: None,
                ..
            } => (
                format!("the claim `{claim}` of family `{family}` is forwarded, and nothing is registered in it"),
                "remove the claim, or register what it is for".to_owned(),
            ),
            Served {
                base: true,
                literal: None,
                ..
            } if claim.has_tail() => (
                format!("the claim `{claim}` of family `{family}` is forwarded, and only `{own}` itself is registered"),
                format!("claim `{own}`, or list the family's `routes`"),
            ),
            Served {
                base: false,
                literal: Some(literal),
                ..
            } if claim.has_tail() => {
                let narrower = format!("{}/{literal}/**", own.trim_end_matches('/'));
                (
                    format!(
                        "the claim `{claim}` of family `{family}` is forwarded, and only paths of `{narrower}` are registered"
                    ),
                    format!("claim `{narrower}`, or list the family's `routes`"),
                )
            }
            _ => continue,
        };
        findings.push(
            Diagnostic::warning(WIDER_THAN_SERVED, message)
                .at(place.clone())
                .with_help(help),
        );
    }
}
