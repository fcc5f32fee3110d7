//! What a contract says beside who owns a path: compared as sets, each statement by its meaning.

use std::collections::{BTreeMap, BTreeSet};

use crate::contract::{Contract, Family, Profile, Role};
use crate::pattern::Kinds;
use crate::template::{Segment, Template};

/// Whether something is new, gone, or otherwise than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// In the new contract alone.
    Added,
    /// In the old contract alone.
    Dropped,
    /// In both, but not the same.
    Changed,
}

impl Sign {
    /// `+`, `-` or `~`, as in a plan.
    pub fn as_char(self) -> char {
        match self {
            Self::Added => '+',
            Self::Dropped => '-',
            Self::Changed => '~',
        }
    }

    /// The word for it in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Dropped => "dropped",
            Self::Changed => "changed",
        }
    }
}

/// What a statement is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// A family as such: that there is one, and who answers for it.
    Family,
    /// A profile as such: that there is one.
    Profile,
    /// The families that a profile serves.
    Owns,
    /// The profiles that an aggregate is made of.
    Parts,
    /// A route that a profile registers.
    Registration,
    /// A route that every profile registers.
    Common,
    /// A path that must stay dead.
    Retired,
}

impl About {
    /// The word for it in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Family => "family",
            Self::Profile => "profile",
            Self::Owns => "owns",
            Self::Parts => "aggregate",
            Self::Registration => "registration",
            Self::Common => "common",
            Self::Retired => "retired",
        }
    }
}

/// One thing that one of the contracts says and the other does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Statement {
    /// What it is about.
    pub about: About,
    /// Of which family or profile; empty where it is about the contract.
    pub name: String,
    /// What it says.
    pub text: String,
    /// Whether it came or went.
    pub sign: Sign,
}

type Said = BTreeMap<(About, String, String), String>;

pub(super) fn compare(old: &Contract, new: &Contract) -> Vec<Statement> {
    let (before, after) = (said(old), said(new));
    let mut statements: Vec<Statement> = Vec::new();
    let mut add = |key: &(About, String, String), text: &String, sign| {
        statements.push(Statement {
            about: key.0,
            name: key.1.clone(),
            text: text.clone(),
            sign,
        });
    };
    for (key, text) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
        add(key, text, Sign::Dropped);
    }
    for (key, text) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
        add(key, text, Sign::Added);
    }
    for family in &new.families {
        let Some(known) = old.families.iter().find(|known| known.name == family.name) else {
            continue;
        };
        let mut changed = |what: &str, before: &str, after: &str| {
            if before != after {
                statements.push(Statement {
                    about: About::Family,
                    name: family.name.clone(),
                    text: format!("{what} {before} → {after}"),
                    sign: Sign::Changed,
                });
            }
        };
        let owner = |family: &Family| family.owner.clone().unwrap_or_else(|| "nobody".to_owned());
        changed("owner", &owner(known), &owner(family));
        changed(
            "encoded_slash",
            known.encoded_slash.as_str(),
            family.encoded_slash.as_str(),
        );
    }
    statements.sort();
    statements
}

/// Everything that a contract says, by its meaning, each with its text.
fn said(contract: &Contract) -> Said {
    let mut said = Said::new();
    let mut say = |about, name: &str, meaning: String, text: String| {
        said.insert((about, name.to_owned(), meaning), text);
    };
    for family in &contract.families {
        say(About::Family, &family.name, String::new(), String::new());
    }
    for profile in &contract.profiles {
        say(About::Profile, &profile.name, String::new(), String::new());
        let (about, names) = members(contract, profile);
        for name in names {
            say(about, &profile.name, name.to_owned(), name.to_owned());
        }
        for route in contract.routes_of(profile) {
            let meaning = format!("{} {}", route.method, meaning(&route.template, &contract.kinds));
            let text = format!("{} {}", route.method, route.template);
            say(About::Registration, &profile.name, meaning, text);
        }
    }
    for route in &contract.common {
        say(
            About::Common,
            "",
            meaning(&route.template, &contract.kinds),
            route.template.to_string(),
        );
    }
    for retired in &contract.retired {
        say(
            About::Retired,
            "",
            meaning(&retired.template, &contract.kinds),
            retired.template.to_string(),
        );
    }
    said
}

fn members<'c>(contract: &'c Contract, profile: &Profile) -> (About, BTreeSet<&'c str>) {
    match &profile.role {
        Role::Plain { owns } => (
            About::Owns,
            owns.iter()
                .filter_map(|id| contract.families.get(id.index()))
                .map(|family| family.name.as_str())
                .collect(),
        ),
        Role::Aggregate { parts } => (
            About::Parts,
            parts
                .iter()
                .filter_map(|part| contract.profiles.get(*part))
                .map(|part| part.name.as_str())
                .collect(),
        ),
    }
}

/// A template by what it matches: without the names of its parameters, each kind by its expression.
fn meaning(template: &Template, kinds: &Kinds) -> String {
    let mut meaning = String::new();
    for segment in template.segments() {
        meaning.push('/');
        match segment {
            Segment::Literal(literal) => meaning.push_str(literal),
            Segment::Parameter(parameter) => {
                meaning.push_str(&parameter.prefix);
                meaning.push('{');
                if let Some(kind) = &parameter.kind {
                    meaning.push(':');
                    meaning.push_str(kinds.expression(kind).unwrap_or(kind));
                }
                meaning.push('}');
                meaning.push_str(&parameter.suffix);
            }
        }
    }
    if template.has_tail() {
        meaning.push_str("/**");
    }
    meaning
}
