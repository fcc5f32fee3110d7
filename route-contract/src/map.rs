//! A contract as a picture: the tree of its paths, coloured by family, with claims, routes and holes.
//!
//! [`Map::new`] lays the templates of families and profiles into one tree, a node for each segment, and asks the
//! automaton who owns each node's path. [`html`], [`svg`] and [`mermaid`] draw it.

pub mod html;
mod markup;
pub mod mermaid;
pub mod palette;
pub mod svg;

use std::collections::{BTreeSet, HashMap};

use crate::automaton::{Automaton, AutomatonError, Mark};
use crate::contract::{Contract, FamilyId, Profile, Role, Serve};
use crate::ownership::{Owner, Ownership};
use crate::template::{Segment, Template};

/// Which templates are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What the families say: claims and listed routes.
    Families,
    /// And what the plain profiles register, the common routes and the retired paths.
    Profiles,
}

/// The tree of a contract's paths.
#[derive(Clone, Debug)]
pub struct Map<'c> {
    /// What is drawn.
    pub contract: &'c Contract,
    /// The node above the first segment; it has marks only where a template is `/**`.
    pub root: Node,
}

/// One segment of the tree, or a few that only lead on.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The segments, each with its slash: `/api/v1`.
    pub label: String,
    /// The template from the first segment to this one.
    pub path: String,
    /// Who owns the node's path: more than one where a narrower template takes some of its paths.
    pub owners: Vec<Owner>,
    /// What is said about the path, each once.
    pub marks: BTreeSet<Says>,
    /// Below it.
    pub children: Vec<Node>,
}

/// Something that a template says about the path where it ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // the fields are who says it, and whether of everything below too
pub enum Says {
    /// A family claims it, or with `tail` everything below too.
    Claim { family: FamilyId, tail: bool },
    /// A family lists it.
    Route { family: FamilyId, tail: bool },
    /// A claim reaches below it, and what is none of the family's routes is refused there.
    HoleBelow { family: FamilyId },
    /// A profile registers it with a method.
    Registered {
        profile: String,
        method: String,
        tail: bool,
    },
    /// Every profile registers it.
    Common,
    /// It must stay dead.
    Retired { tail: bool },
}

impl Node {
    /// The node and all nodes below it, each after its parent.
    pub fn walk<'n>(&'n self, visit: &mut dyn FnMut(&'n Node)) {
        visit(self);
        for child in &self.children {
            child.walk(visit);
        }
    }

    /// How many nodes below it, itself included, bear a route of a profile or a family.
    pub fn routes(&self) -> usize {
        let mut count = 0;
        self.walk(&mut |node| count += usize::from(node.marks.iter().any(Says::is_route)));
        count
    }

    /// Whether the path is in a claim and refused, whatever the reason.
    pub fn is_hole(&self) -> bool {
        !self.owners.is_empty() && self.owners.iter().all(|owner| matches!(owner, Owner::Refused(_)))
    }
}

impl Says {
    fn is_route(&self) -> bool {
        matches!(self, Self::Route { .. } | Self::Registered { .. })
    }

    /// Whether a family claims something here.
    pub fn is_claim(&self) -> bool {
        matches!(self, Self::Claim { .. })
    }
}

impl<'c> Map<'c> {
    /// Lays out the tree.
    ///
    /// # Errors
    /// The templates overlap in too many ways.
    pub fn new(contract: &'c Contract, detail: Detail) -> Result<Self, AutomatonError> {
        let mut tree = Tree::new();
        for (id, family) in contract.family_ids() {
            let listed = family.serve == Serve::Forward && family.routes.is_some();
            for claim in &family.claims {
                let tail = claim.template.has_tail();
                let node = tree.add(&claim.template, Says::Claim { family: id, tail });
                if tail && listed {
                    tree.say(node, Says::HoleBelow { family: id });
                }
            }
            for route in family.routes.iter().flatten() {
                let tail = route.template.has_tail();
                tree.add(&route.template, Says::Route { family: id, tail });
            }
        }
        if detail == Detail::Profiles {
            let plain = |profile: &&Profile| matches!(profile.role, Role::Plain { .. });
            for profile in contract.profiles.iter().filter(plain) {
                for route in profile.routes.iter().flatten() {
                    let says = Says::Registered {
                        profile: profile.name.clone(),
                        method: route.method.to_string(),
                        tail: route.template.has_tail(),
                    };
                    tree.add(&route.template, says);
                }
            }
            for route in &contract.common {
                tree.add(&route.template, Says::Common);
            }
            for retired in &contract.retired {
                let tail = retired.template.has_tail();
                tree.add(&retired.template, Says::Retired { tail });
            }
        }
        let owners = tree.owners(contract)?;
        Ok(Self {
            contract,
            root: tree.finish(0, &owners),
        })
    }

    /// A family's name.
    pub fn family(&self, id: FamilyId) -> &'c str {
        self.contract.families.get(id.index()).map_or("", |family| &family.name)
    }
}

/// What tells two children of a node apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Literal(Box<str>),
    Parameter(Box<str>, Option<Box<str>>, Box<str>),
}

#[derive(Default)]
struct Branch {
    label: String,
    path: String,
    marks: BTreeSet<Says>,
    children: Vec<(Key, usize)>,
}

/// The tree while it grows.
struct Tree {
    branches: Vec<Branch>,
    known: HashMap<(usize, Key), usize>,
}

impl Tree {
    fn new() -> Self {
        Self {
            branches: vec![Branch::default()],
            known: HashMap::new(),
        }
    }

    /// The node of a template, which says this.
    fn add(&mut self, template: &Template, says: Says) -> usize {
        let mut at = 0;
        for segment in template.segments() {
            at = self.child(at, segment);
        }
        self.say(at, says);
        at
    }

    fn say(&mut self, node: usize, says: Says) {
        if let Some(branch) = self.branches.get_mut(node) {
            branch.marks.insert(says);
        }
    }

    fn child(&mut self, parent: usize, segment: &Segment) -> usize {
        let (key, text) = match segment {
            Segment::Literal(literal) => (Key::Literal(literal.clone()), literal.to_string()),
            Segment::Parameter(parameter) => {
                let kind = parameter
                    .kind
                    .as_ref()
                    .map_or_else(String::new, |kind| format!(":{kind}"));
                (
                    Key::Parameter(
                        parameter.prefix.clone(),
                        parameter.kind.clone(),
                        parameter.suffix.clone(),
                    ),
                    format!("{}{{{}{kind}}}{}", parameter.prefix, parameter.name, parameter.suffix),
                )
            }
        };
        let fresh = self.branches.len();
        let child = *self.known.entry((parent, key.clone())).or_insert(fresh);
        if child == fresh {
            let above = self.branches.get(parent).map_or("", |branch| &branch.path);
            let label = format!("/{text}");
            let path = format!("{above}{label}");
            self.branches.push(Branch {
                label,
                path,
                ..Branch::default()
            });
            if let Some(branch) = self.branches.get_mut(parent) {
                branch.children.push((key, child));
            }
        }
        child
    }

    /// For each node, the owners of its path.
    fn owners(&self, contract: &Contract) -> Result<Vec<Vec<Owner>>, AutomatonError> {
        let ownership = Ownership::new(contract);
        let own = ownership.len() as Mark;
        // A parameter may have another name in every template, and two of one name may meet in a node's path: the
        // names are of no account here.
        let paths: Vec<(usize, Template)> = self
            .branches
            .iter()
            .enumerate()
            .filter_map(|(index, branch)| Some((index, unnamed(&branch.path)?)))
            .collect();
        let nodes = (own..).zip(paths.iter().map(|(_, template)| template));
        let automaton = Automaton::new(ownership.templates().chain(nodes), &contract.kinds, false)?;
        let mut owners: Vec<Vec<Owner>> = vec![Vec::new(); self.branches.len()];
        for class in automaton.classes() {
            let Some(state) = automaton.states().get(class as usize) else {
                continue;
            };
            let owner = ownership.decide(&state.ends).owner;
            let nodes = state.ends.iter().filter_map(|mark| mark.checked_sub(own));
            for (index, _) in nodes.filter_map(|node| paths.get(node as usize)) {
                if let Some(owners) = owners.get_mut(*index)
                    && !owners.contains(&owner)
                {
                    owners.push(owner);
                }
            }
        }
        Ok(owners)
    }

    /// The node with what is below it; what only leads on is joined with what it leads to.
    fn finish(&self, at: usize, owners: &[Vec<Owner>]) -> Node {
        let Some(branch) = self.branches.get(at) else {
            return Node::default();
        };
        let mut order: Vec<&(Key, usize)> = branch.children.iter().collect();
        order.sort();
        let mut node = Node {
            label: branch.label.clone(),
            path: branch.path.clone(),
            owners: owners.get(at).cloned().unwrap_or_default(),
            marks: branch.marks.clone(),
            children: order
                .into_iter()
                .map(|(_, child)| self.finish(*child, owners))
                .collect(),
        };
        if at != 0
            && node.marks.is_empty()
            && !node.is_hole()
            && let [only] = node.children.as_mut_slice()
            && only.label != "/"
        {
            let below = std::mem::take(only);
            node = Node {
                label: format!("{}{}", node.label, below.label),
                ..below
            };
        }
        node
    }
}

/// The template of a path with its parameters numbered.
fn unnamed(path: &str) -> Option<Template> {
    let mut text = String::with_capacity(path.len());
    let mut rest = path;
    let mut number = 0;
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, behind) = after.split_once('}')?;
        let kind = inside.split_once(':').map_or("", |(_, kind)| kind);
        let colon = if kind.is_empty() { "" } else { ":" };
        text.push_str(&format!("{before}{{p{number}{colon}{kind}}}"));
        number += 1;
        rest = behind;
    }
    text.push_str(rest);
    Template::parse(&text).ok()
}

/// An owner in a few words.
pub(crate) fn owner_words(map: &Map<'_>, owner: Owner) -> String {
    match owner {
        Owner::Family(id) => map.family(id).to_owned(),
        Owner::Never(id) => format!("{}: never forwarded", map.family(id)),
        Owner::Refused(id) => format!("refused: none of {}'s routes", map.family(id)),
        Owner::Unclaimed => "unknown".to_owned(),
    }
}

/// What is said about a node, in a few words each: claims and holes first, methods by profile.
pub(crate) fn words(map: &Map<'_>, node: &Node) -> Vec<(&'static str, String)> {
    let below = |tail: bool| if tail { " /**" } else { "" };
    let mut words = Vec::new();
    let mut methods: Vec<(&str, bool, Vec<&str>)> = Vec::new();
    for says in &node.marks {
        match says {
            Says::Claim { family, tail } => {
                words.push(("claim", format!("{} claims{}", map.family(*family), below(*tail))));
            }
            Says::Route { family, tail } => {
                words.push(("route", format!("route of {}{}", map.family(*family), below(*tail))));
            }
            Says::HoleBelow { family } => {
                let family = map.family(*family);
                words.push(("hole", format!("below it, all but {family}'s routes is refused")));
            }
            Says::Registered { profile, method, tail } => {
                let known = methods.iter_mut().find(|(of, with, _)| of == profile && with == tail);
                match known {
                    Some((_, _, methods)) => methods.push(method),
                    None => methods.push((profile, *tail, vec![method])),
                }
            }
            Says::Common => words.push(("common", "common: every profile, never forwarded".to_owned())),
            Says::Retired { tail } => words.push(("retired", format!("retired{}", below(*tail)))),
        }
    }
    for (profile, tail, methods) in methods {
        let verbs: Vec<&str> = methods
            .into_iter()
            .map(|method| if method == "*" { "any method" } else { method })
            .collect();
        words.push(("registered", format!("{}{} in {profile}", verbs.join(" "), below(tail))));
    }
    words
}
