//! A contract as a table for programs: families in the order of classification, profiles, common and retired paths.
//! `route-contract list --format json` prints it, and the gateway serves it on its admin listener.

use serde::Serialize;

use crate::contract::{Contract, FamilyId, Profile, Role, Serve};

/// The version of all JSON that the commands print.
pub const JSON_VERSION: u32 = 1;

/// The whole table.
#[derive(Clone, Debug, Serialize)]
pub struct Listing<'c> {
    /// [`JSON_VERSION`].
    pub version: u32,
    /// In the order of classification.
    pub families: Vec<FamilyListing<'c>>,
    /// In the order of their names.
    pub profiles: Vec<ProfileListing<'c>>,
    /// Routes that every profile registers and that are never forwarded.
    pub common: Vec<&'c str>,
    /// Paths that must stay dead.
    pub retired: Vec<&'c str>,
}

/// One family.
#[derive(Clone, Debug, Serialize)]
pub struct FamilyListing<'c> {
    /// The name.
    pub name: &'c str,
    /// Who answers for it, for people.
    pub owner: Option<&'c str>,
    /// `forward` or `never`.
    pub serve: &'static str,
    /// The templates that it decides about.
    pub claims: Vec<&'c str>,
    /// The templates that are forwarded; none where the whole claim is.
    pub routes: Option<Vec<&'c str>>,
    /// `admit` or `refuse`.
    pub encoded_slash: &'static str,
    /// The plain profiles that serve it.
    pub profiles: Vec<&'c str>,
}

/// One profile.
#[derive(Clone, Debug, Serialize)]
pub struct ProfileListing<'c> {
    /// The name.
    pub name: &'c str,
    /// The families that it serves; none for an aggregate.
    pub owns: Option<Vec<&'c str>>,
    /// The profiles that it is made of; none for a plain one.
    pub aggregate: Option<Vec<&'c str>>,
    /// What it registers.
    pub routes: Vec<RouteListing<'c>>,
}

/// One route of a profile.
#[derive(Clone, Debug, Serialize)]
pub struct RouteListing<'c> {
    /// The method, `*` for any.
    pub method: &'c str,
    /// The template.
    pub path: &'c str,
}

impl<'c> Listing<'c> {
    /// The table of a contract.
    pub fn of(contract: &'c Contract) -> Self {
        Self {
            version: JSON_VERSION,
            families: contract
                .family_ids()
                .map(|(id, _)| id)
                .filter_map(|id| FamilyListing::of(contract, id))
                .collect(),
            profiles: contract
                .profiles
                .iter()
                .map(|profile| ProfileListing::of(contract, profile))
                .collect(),
            common: contract.common.iter().map(|route| route.template.as_str()).collect(),
            retired: contract
                .retired
                .iter()
                .map(|retired| retired.template.as_str())
                .collect(),
        }
    }
}

impl<'c> FamilyListing<'c> {
    fn of(contract: &'c Contract, id: FamilyId) -> Option<Self> {
        let family = contract.families.get(id.index())?;
        Some(Self {
            name: &family.name,
            owner: family.owner.as_deref(),
            serve: match family.serve {
                Serve::Forward => "forward",
                Serve::Never => "never",
            },
            claims: family.claims.iter().map(|claim| claim.template.as_str()).collect(),
            routes: family
                .routes
                .as_ref()
                .map(|routes| routes.iter().map(|route| route.template.as_str()).collect()),
            encoded_slash: family.encoded_slash.as_str(),
            profiles: contract.owners_of(id).map(|profile| profile.name.as_str()).collect(),
        })
    }
}

impl<'c> ProfileListing<'c> {
    fn of(contract: &'c Contract, profile: &'c Profile) -> Self {
        let (owns, aggregate) = match &profile.role {
            Role::Plain { owns } => {
                let families = owns.iter().filter_map(|id| contract.families.get(id.index()));
                (Some(families.map(|family| family.name.as_str()).collect()), None)
            }
            Role::Aggregate { parts } => {
                let parts = parts.iter().filter_map(|part| contract.profiles.get(*part));
                (None, Some(parts.map(|part| part.name.as_str()).collect()))
            }
        };
        Self {
            name: &profile.name,
            owns,
            aggregate,
            routes: contract
                .routes_of(profile)
                .into_iter()
                .map(|route| RouteListing {
                    method: route.method.as_str(),
                    path: route.template.as_str(),
                })
                .collect(),
        }
    }
}
