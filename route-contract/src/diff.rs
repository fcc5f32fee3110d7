//! What changes between two contracts, by meaning: not which lines differ, but which paths get another owner.
//!
//! The families' templates of both contracts stand in one automaton, so that each of its classes of paths
//! has one owner in the old contract and one in the new. Classes that change in the same way below the same
//! claims are one [`Change`]; a subtree that moves is one line. What a contract says beside paths, such as
//! what its profiles register, is compared as sets ([`Statement`]).

pub mod replay;
mod statements;

use std::collections::HashMap;
use std::fmt;

use crate::automaton::{Automaton, AutomatonError, Mark};
use crate::contract::{Contract, FamilyId};
use crate::ownership::{Owner, Ownership, TemplateId};

pub use statements::{About, Sign, Statement};

/// Who has a class of paths: an [`Owner`] by the family's name, which is the same in two contracts while its
/// place in the order may not be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Holder {
    /// Forwarded to this family's upstream.
    Forwarded(String),
    /// Refused: claimed by this family, which is never forwarded.
    Never(String),
    /// Refused: claimed by this family, and none of its routes.
    Refused(String),
    /// Refused: claimed by no family.
    Unclaimed,
}

impl Holder {
    fn new(contract: &Contract, owner: Owner) -> Self {
        let name = |id: FamilyId| {
            contract
                .families
                .get(id.index())
                .map_or_else(String::new, |family| family.name.clone())
        };
        match owner {
            Owner::Family(id) => Self::Forwarded(name(id)),
            Owner::Never(id) => Self::Never(name(id)),
            Owner::Refused(id) => Self::Refused(name(id)),
            Owner::Unclaimed => Self::Unclaimed,
        }
    }

    /// The family whose upstream gets the requests.
    pub fn forwarded(&self) -> Option<&str> {
        match self {
            Self::Forwarded(family) => Some(family),
            _ => None,
        }
    }

    /// The family that decides, whether it forwards or refuses.
    pub fn family(&self) -> Option<&str> {
        match self {
            Self::Forwarded(family) | Self::Never(family) | Self::Refused(family) => Some(family),
            Self::Unclaimed => None,
        }
    }

    /// The word for it in JSON.
    pub fn verdict(&self) -> &'static str {
        match self {
            Self::Forwarded(_) => "forwarded",
            Self::Never(_) => "never",
            Self::Refused(_) => "refused",
            Self::Unclaimed => "unclaimed",
        }
    }
}

/// As in a plan: the family's name, or `never` and `unknown` with the family that says so.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forwarded(family) => f.write_str(family),
            Self::Never(family) => write!(f, "never ({family})"),
            Self::Refused(family) => write!(f, "unknown (in {family})"),
            Self::Unclaimed => f.write_str("unknown"),
        }
    }
}

/// Classes of paths that change owner in the same way, below the same claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Who has them in the old contract.
    pub from: Holder,
    /// Who has them in the new one.
    pub to: Holder,
    /// The shortest path among them.
    pub witness: String,
    /// How many classes there are.
    pub classes: usize,
    /// The claim that decides in the old contract.
    pub old_claim: Option<String>,
    /// The claim that decides in the new one.
    pub new_claim: Option<String>,
}

/// How many classes change, by what it means for requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All classes of paths that either contract tells apart.
    pub classes: usize,
    /// Refused before, forwarded now.
    pub opened: usize,
    /// Forwarded before, refused now.
    pub closed: usize,
    /// Forwarded to one family before, to another now.
    pub moved: usize,
    /// Refused before and now, for another reason: a client sees no difference.
    pub refused: usize,
}

impl Counts {
    /// All classes that change.
    pub fn changed(&self) -> usize {
        self.opened + self.closed + self.moved + self.refused
    }
}

/// What changes between two contracts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Paths that change owner; those with the shortest witnesses first.
    pub changes: Vec<Change>,
    /// How many.
    pub counts: Counts,
    /// What else changes.
    pub statements: Vec<Statement>,
}

impl Difference {
    /// Compares two contracts.
    ///
    /// # Errors
    /// The templates of both together overlap in too many ways to be decided.
    pub fn between(old: &Contract, new: &Contract) -> Result<Self, AutomatonError> {
        let (changes, counts) = paths(old, new)?;
        Ok(Self {
            changes,
            counts,
            statements: statements::compare(old, new),
        })
    }

    /// Whether the two contracts mean the same.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.statements.is_empty()
    }

    /// What profiles register otherwise than before.
    pub fn registrations(&self) -> impl Iterator<Item = &Statement> {
        self.statements
            .iter()
            .filter(|statement| statement.about == About::Registration)
    }
}

/// One contract's side of the joint automaton.
struct Side<'c> {
    contract: &'c Contract,
    ownership: Ownership,
}

impl<'c> Side<'c> {
    fn new(contract: &'c Contract) -> Self {
        Self {
            contract,
            ownership: Ownership::new(contract),
        }
    }

    /// The claim that decides, and the owner, given this side's marks.
    fn decide(&self, marks: &[Mark]) -> (Option<Mark>, Owner) {
        // The first claim is the one of the family that decides: see `Ownership::decide`.
        let claim = marks
            .iter()
            .copied()
            .find(|mark| self.ownership.is_claim(TemplateId(*mark)));
        (claim, self.ownership.decide(marks).owner)
    }

    fn text(&self, claim: Option<Mark>) -> Option<String> {
        claim
            .and_then(|mark| self.ownership.template(TemplateId(mark)))
            .map(ToString::to_string)
    }
}

fn paths(old: &Contract, new: &Contract) -> Result<(Vec<Change>, Counts), AutomatonError> {
    let (old, new) = (Side::new(old), Side::new(new));
    let shift = old.ownership.len() as Mark;
    let before = old
        .ownership
        .templates()
        .map(|(mark, template)| (mark, template, &old.contract.kinds));
    let after = new
        .ownership
        .templates()
        .map(|(mark, template)| (mark + shift, template, &new.contract.kinds));
    let automaton = Automaton::joined(before.chain(after), false)?;

    let mut counts = Counts::default();
    let mut found: HashMap<(Option<Mark>, Owner, Option<Mark>, Owner), usize> = HashMap::new();
    let mut changes: Vec<(u32, Change)> = Vec::new();
    for class in automaton.classes() {
        counts.classes += 1;
        let Some(state) = automaton.states().get(class as usize) else {
            continue;
        };
        let (before, after) = state.ends.split_at(state.ends.partition_point(|mark| *mark < shift));
        let after: Vec<Mark> = after.iter().map(|mark| mark - shift).collect();
        let (old_claim, old_owner) = old.decide(before);
        let (new_claim, new_owner) = new.decide(&after);
        if same_name(&old, old_owner, &new, new_owner) {
            continue;
        }
        let count = match (old_owner.forwarded(), new_owner.forwarded()) {
            (None, Some(_)) => &mut counts.opened,
            (Some(_), None) => &mut counts.closed,
            (Some(_), Some(_)) => &mut counts.moved,
            (None, None) => &mut counts.refused,
        };
        *count += 1;
        let depth = automaton.depth(class);
        match found.get(&(old_claim, old_owner, new_claim, new_owner)) {
            Some(index) => {
                let (shortest, change) = &mut changes[*index];
                change.classes += 1;
                if depth < *shortest {
                    *shortest = depth;
                    change.witness = automaton.witness(class);
                }
            }
            None => {
                found.insert((old_claim, old_owner, new_claim, new_owner), changes.len());
                changes.push((
                    depth,
                    Change {
                        from: Holder::new(old.contract, old_owner),
                        to: Holder::new(new.contract, new_owner),
                        witness: automaton.witness(class),
                        classes: 1,
                        old_claim: old.text(old_claim),
                        new_claim: new.text(new_claim),
                    },
                ));
            }
        }
    }
    changes.sort_by(|(left_depth, left), (right_depth, right)| {
        (&left.from, &left.to, left_depth, &left.witness).cmp(&(&right.from, &right.to, right_depth, &right.witness))
    });
    Ok((changes.into_iter().map(|(_, change)| change).collect(), counts))
}

/// Whether both owners are the same by name, without making the names.
fn same_name(old: &Side<'_>, before: Owner, new: &Side<'_>, after: Owner) -> bool {
    let (left, right) = match (before, after) {
        (Owner::Family(left), Owner::Family(right))
        | (Owner::Never(left), Owner::Never(right))
        | (Owner::Refused(left), Owner::Refused(right)) => (left, right),
        (Owner::Unclaimed, Owner::Unclaimed) => return true,
        _ => return false,
    };
    let left = old.contract.families.get(left.index()).map(|family| &family.name);
    left == new.contract.families.get(right.index()).map(|family| &family.name)
}
