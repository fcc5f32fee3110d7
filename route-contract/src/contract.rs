//! The contract: who owns which path, and which profiles there are.

pub mod codes;
mod digest;
mod load;

use std::fmt;
use std::sync::Arc;

use crate::diagnostic::{Place, Source};
use crate::pattern::Kinds;
use crate::template::Template;

pub use load::CODES;
pub use load::file::{ContractFile, ManifestFile};

/// The version of the contract language that this library reads.
pub const VERSION: u64 = 1;

/// The most families of a contract.
pub const MAX_FAMILIES: usize = 1000;

/// The most templates of a contract and its manifests.
pub const MAX_TEMPLATES: usize = 500_000;

/// A contract with its manifests, parsed and whole.
#[derive(Clone, Debug)]
pub struct Contract {
    /// The contract file.
    pub source: Arc<Source>,
    /// The kinds that parameters may have.
    pub kinds: Kinds,
    /// In the order of classification.
    pub families: Vec<Family>,
    /// By name, in the order of the names.
    pub profiles: Vec<Profile>,
    /// Routes that every profile registers and that are never forwarded.
    pub common: Vec<Route>,
    /// Paths that must stay dead: nobody registers them and no family forwards them.
    pub retired: Vec<LocatedTemplate>,
}

/// A family by its place in the order of classification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FamilyId(pub u16);

impl FamilyId {
    /// The index into [`Contract::families`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One owner of paths.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name: in findings, metrics, logs, and as the name of the gateway's upstream table.
    pub name: String,
    /// Who answers for it, for people.
    pub owner: Option<String>,
    /// Whether its paths are forwarded.
    pub serve: Serve,
    /// The paths that this family decides about; nothing falls through to a later family.
    pub claims: Vec<LocatedTemplate>,
    /// The paths that are forwarded; `None` forwards the whole claim.
    pub routes: Option<Vec<LocatedTemplate>>,
    /// Whether its paths may hold an escape that some server takes for a slash.
    pub encoded_slash: EncodedSlash,
    /// Where it is declared.
    pub place: Place,
}

/// Whether a family's paths are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Serve {
    /// To the family's upstream.
    #[default]
    Forward,
    /// To nobody: they are refused like unknown paths.
    Never,
}

/// What a family says about an encoded slash in its paths: `%2F`, `%252F`, and `%5C`, which some take for one.
/// A family can only be stricter than the rule on readings, never looser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EncodedSlash {
    /// Forwarded where every reading has the same owner.
    #[default]
    Admit,
    /// Refused as ambiguous, whoever owns the readings.
    Refuse,
}

impl EncodedSlash {
    /// As it is written in a contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Refuse => "refuse",
        }
    }
}

/// A template with its place.
#[derive(Clone, Debug)]
pub struct LocatedTemplate {
    /// The template.
    pub template: Template,
    /// Where it stands.
    pub place: Place,
}

/// A way to run the server.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The name.
    pub name: String,
    /// What it is made of.
    pub role: Role,
    /// What it registers; `None` for an aggregate whose router is the union of its parts.
    pub routes: Option<Vec<Route>>,
    /// Where it is declared.
    pub place: Place,
}

/// What a profile is made of.
#[derive(Clone, Debug)]
pub enum Role {
    /// It serves families of its own.
    Plain {
        /// The families whose paths it serves.
        owns: Vec<FamilyId>,
    },
    /// It serves what other profiles serve.
    Aggregate {
        /// Indices into [`Contract::profiles`].
        parts: Vec<usize>,
    },
}

/// One route that a profile registers.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path.
    pub template: Template,
    /// Where it is declared.
    pub place: Place,
}

/// A request method (RFC 9110 section 9), or any.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Method(Box<str>);

impl Method {
    /// What `*` in a manifest stands for.
    pub const ANY: &str = "*";

    /// Any method.
    pub fn any() -> Self {
        Self(Self::ANY.into())
    }

    /// A method: an upper-case token of at most 32 characters, or `*`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let token =
            !text.is_empty() && text.len() <= 32 && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        if token || text == Self::ANY {
            return Ok(Self(text.into()));
        }
        let upper = text.to_ascii_uppercase();
        if upper != text && Self::parse(&upper).is_ok() {
            return Err(format!("a method is written in upper case: `{upper}`"));
        }
        Err("a method is an upper-case token such as `GET`, or `*` for any".to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a request with this method is meant.
    pub fn accepts(&self, method: &str) -> bool {
        &*self.0 == Self::ANY || &*self.0 == method
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Contract {
    /// The family of this name.
    pub fn family(&self, name: &str) -> Option<FamilyId> {
        self.families
            .iter()
            .position(|family| family.name == name)
            .and_then(|index| u16::try_from(index).ok())
            .map(FamilyId)
    }

    /// All families with their ids, in the order of classification.
    pub fn family_ids(&self) -> impl Iterator<Item = (FamilyId, &Family)> {
        (0..).map(FamilyId).zip(&self.families)
    }

    /// The profile of this name.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == name)
    }

    /// The routes that a profile registers: its own list, or for an aggregate without one, those of its parts.
    pub fn routes_of<'c>(&'c self, profile: &'c Profile) -> Vec<&'c Route> {
        match (&profile.routes, &profile.role) {
            (Some(routes), _) => routes.iter().collect(),
            (None, Role::Plain { .. }) => Vec::new(),
            (None, Role::Aggregate { parts }) => parts
                .iter()
                .filter_map(|part| self.profiles.get(*part))
                .flat_map(|part| part.routes.iter().flatten())
                .collect(),
        }
    }

    /// The plain profiles that own a family.
    pub fn owners_of(&self, family: FamilyId) -> impl Iterator<Item = &Profile> {
        self.profiles.iter().filter(move |profile| match &profile.role {
            Role::Plain { owns } => owns.contains(&family),
            Role::Aggregate { .. } => false,
        })
    }

    /// Whether the route stands under `[common]`: same shape, whatever the method.
    pub fn is_common(&self, template: &Template) -> bool {
        self.common.iter().any(|route| route.template.has_shape_of(template))
    }
}
