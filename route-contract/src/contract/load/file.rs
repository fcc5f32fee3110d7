//! The tables of a contract file and of a TOML manifest, as they are written. Their JSON Schemas, for editors,
//! are made of the same structs.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::import::Format;
use crate::import::path_syntax::PathSyntax;

/// Who owns which path, and which profiles of the server there are.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Contract")]
pub struct ContractFile {
    /// The version of the contract language: 1.
    #[schemars(with = "u64", range(min = 1, max = 1))]
    pub(super) version: Spanned<u64>,
    /// Kinds of parameters beside `kebab`, `uuid` and `int`: a regular expression over one whole segment.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub(super) kinds: BTreeMap<Spanned<String>, Spanned<String>>,
    /// The families, in the order of classification.
    #[schemars(with = "Vec<FamilyTable>", length(min = 1))]
    pub(super) family: Vec<Spanned<FamilyTable>>,
    /// The ways to run the server, by name.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ProfileTable>")]
    pub(super) profile: BTreeMap<Spanned<String>, Spanned<ProfileTable>>,
    /// What every profile registers and no family forwards.
    #[serde(default)]
    pub(super) common: CommonTable,
    /// Paths that must stay dead.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub(super) retired: Vec<Spanned<String>>,
}

/// One owner of paths.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FamilyTable {
    /// The name: in findings, metrics and logs, and of the gateway's upstream table.
    #[schemars(with = "String")]
    pub(super) name: Spanned<String>,
    /// Who answers for it, for people.
    pub(super) owner: Option<String>,
    /// Whether its paths are forwarded.
    #[serde(default)]
    pub(super) serve: ServeValue,
    /// The templates of the paths that this family decides about; nothing falls through to a later family.
    #[schemars(with = "Vec<String>", length(min = 1))]
    pub(super) claims: Spanned<Vec<Spanned<String>>>,
    /// The templates of the paths that are forwarded; left out, the whole claim is.
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) routes: Option<Spanned<Vec<Spanned<String>>>>,
    /// Whether an encoded slash (`%2F`) may stand in a path of this family where every reading agrees.
    #[schemars(with = "Option<EncodedSlashValue>")]
    pub(super) encoded_slash: Option<Spanned<EncodedSlashValue>>,
}

/// What becomes of an encoded slash.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum EncodedSlashValue {
    /// It passes where every reading has the same owner.
    Admit,
    /// It is refused.
    Refuse,
}

/// Whether a family's paths are forwarded.
#[derive(Clone, Copy, Deserialize, Default, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ServeValue {
    /// To the family's upstream.
    #[default]
    Forward,
    /// To nobody.
    Never,
}

/// A way to run the server.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileTable {
    /// The families that it serves. Not beside `aggregate`.
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) owns: Option<Vec<Spanned<String>>>,
    /// The profiles that it serves together. Not beside `owns`.
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) aggregate: Option<Spanned<Vec<Spanned<String>>>>,
    /// The files that list what it registers; an aggregate that leaves them out registers what its parts do.
    #[schemars(with = "Option<Vec<RoutesEntry>>")]
    pub(super) routes: Option<Vec<Spanned<RoutesEntry>>>,
}

/// A file that lists routes: its path from the contract's folder, or a table that says how it is read.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum RoutesEntry {
    /// The format is told from the file.
    File(String),
    /// The format is given, or something more.
    Table(RoutesTable),
}

/// A file that lists routes, and how it is read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RoutesTable {
    /// The file's path from the contract's folder.
    #[schemars(with = "String")]
    pub(super) file: Spanned<String>,
    /// The format; left out, it is told from the file's name and what it holds.
    pub(super) format: Option<Format>,
    /// How JSON Lines write their paths.
    #[schemars(with = "Option<PathSyntax>")]
    pub(super) syntax: Option<Spanned<PathSyntax>>,
    /// What stands in front of each path: where the server is mounted, such as `/api`.
    #[schemars(with = "Option<String>")]
    pub(super) prefix: Option<Spanned<String>>,
    /// Paths that are left out, just as the file writes them.
    #[serde(default)]
    #[schemars(with = "Vec<ExceptTable>")]
    pub(super) except: Vec<Spanned<ExceptTable>>,
}

/// A path that is not imported, and why.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExceptTable {
    /// The path, just as the file writes it.
    #[schemars(with = "String")]
    pub(super) path: Spanned<String>,
    /// Why it plays no part, for the next reader.
    #[schemars(with = "String", length(min = 1))]
    pub(super) reason: Spanned<String>,
}

impl<'de> Deserialize<'de> for RoutesEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = RoutesEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the path of a file, or a table with the key `file`")
            }

            fn visit_str<E: serde::de::Error>(self, file: &str) -> Result<RoutesEntry, E> {
                Ok(RoutesEntry::File(file.to_owned()))
            }

            // An untagged enum would lose the places of the keys, and say of a misspelt one only that nothing fits.
            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<RoutesEntry, A::Error> {
                RoutesTable::deserialize(MapAccessDeserializer::new(table)).map(RoutesEntry::Table)
            }
        }
        deserializer.deserialize_any(Entry)
    }
}

/// What every profile registers.
#[derive(Deserialize, Default, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CommonTable {
    /// The templates of the paths.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub(super) routes: Vec<Spanned<String>>,
}

/// What one profile's server registers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Manifest")]
pub struct ManifestFile {
    /// The routes.
    #[serde(default)]
    pub(super) route: Vec<RouteTable>,
}

/// One route.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteTable {
    /// The method in upper case, or `*` for any.
    #[schemars(with = "String")]
    pub(super) method: Spanned<String>,
    /// The template of its paths.
    #[schemars(with = "String")]
    pub(super) path: Spanned<String>,
}
