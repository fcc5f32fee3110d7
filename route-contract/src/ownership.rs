//! Who owns a path, given which of the contract's templates match it: the rule of classification, in the
//! one place where it stands.

use crate::automaton::Mark;
use crate::contract::{Contract, FamilyId, Serve};
use crate::template::Template;

/// A template of a family, claim or route, by its place in [`Ownership`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TemplateId(pub Mark);

/// Who owns a path, from the bytes of one reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Forwarded to the family's upstream.
    Family(FamilyId),
    /// Claimed by a family that is never forwarded.
    Never(FamilyId),
    /// Claimed by a family, but none of its routes.
    Refused(FamilyId),
    /// No family claims it.
    Unclaimed,
}

impl Owner {
    /// The family that the path is forwarded to.
    pub fn forwarded(self) -> Option<FamilyId> {
        match self {
            Self::Family(family) => Some(family),
            _ => None,
        }
    }
}

/// The owner and the template that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// Who owns the path.
    pub owner: Owner,
    /// The route that matched, or else the claim; `None` where no family claims the path.
    pub template: Option<TemplateId>,
}

impl Decision {
    /// What holds where nothing matches.
    pub const UNCLAIMED: Self = Self {
        owner: Owner::Unclaimed,
        template: None,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Claim,
    Route,
}

/// The templates of all families in one row: family by family, a family's claims before its routes.
#[derive(Clone, Debug)]
pub struct Ownership {
    entries: Vec<(FamilyId, Part, Template)>,
    /// For each family: whether it is forwarded, and whether it lists routes.
    families: Vec<(Serve, bool)>,
}

impl Ownership {
    /// Lays the templates of a contract's families in a row.
    pub fn new(contract: &Contract) -> Self {
        let mut entries = Vec::new();
        for (id, family) in contract.family_ids() {
            entries.extend(
                family
                    .claims
                    .iter()
                    .map(|claim| (id, Part::Claim, claim.template.clone())),
            );
            entries.extend(
                family
                    .routes
                    .iter()
                    .flatten()
                    .map(|route| (id, Part::Route, route.template.clone())),
            );
        }
        Self {
            entries,
            families: contract
                .families
                .iter()
                .map(|family| (family.serve, family.routes.is_some()))
                .collect(),
        }
    }

    /// The templates with their marks, for an automaton.
    pub fn templates(&self) -> impl Iterator<Item = (Mark, &Template)> {
        (0..).zip(self.entries.iter().map(|(_, _, template)| template))
    }

    /// How many templates there are; marks from here on are not ownership's.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no templates.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A template by its id.
    pub fn template(&self, id: TemplateId) -> Option<&Template> {
        self.entries.get(id.0 as usize).map(|(_, _, template)| template)
    }

    /// The family of a template.
    pub fn family_of(&self, id: TemplateId) -> Option<FamilyId> {
        self.entries.get(id.0 as usize).map(|(family, _, _)| *family)
    }

    /// Whether a template is a claim.
    pub fn is_claim(&self, id: TemplateId) -> bool {
        self.entries
            .get(id.0 as usize)
            .is_some_and(|(_, part, _)| *part == Part::Claim)
    }

    /// Decides, given the templates that match a path in ascending order. Marks beyond [`Self::len`] are
    /// left alone.
    pub fn decide(&self, matching: &[Mark]) -> Decision {
        let mut entries = matching
            .iter()
            .filter_map(|mark| self.entries.get(*mark as usize).map(|entry| (*mark, entry)));
        // Ascending marks: a claim comes before the routes of its family, a family before later ones. A
        // route without a claim of its family decides nothing.
        let Some((claim, (family, ..))) = entries.by_ref().find(|(_, (_, part, _))| *part == Part::Claim) else {
            return Decision::UNCLAIMED;
        };
        let decision = |owner, mark| Decision {
            owner,
            template: Some(TemplateId(mark)),
        };
        match self.families.get(family.index()) {
            Some((Serve::Never, _)) => decision(Owner::Never(*family), claim),
            Some((Serve::Forward, true)) => {
                match entries.find(|(_, (of, part, _))| of == family && *part == Part::Route) {
                    Some((route, _)) => decision(Owner::Family(*family), route),
                    None => decision(Owner::Refused(*family), claim),
                }
            }
            Some((Serve::Forward, false)) | None => decision(Owner::Family(*family), claim),
        }
    }
}
