//! Reading a contract and its manifests: all faults of all files in one run.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use super::{
    Contract, EncodedSlash, Family, FamilyId, LocatedTemplate, MAX_FAMILIES, MAX_TEMPLATES, Method, Profile, Role,
    Route, Serve, VERSION,
};
use crate::diagnostic::{Diagnostic, Place, Source, did_you_mean};
use crate::document::{self, Codes};
use crate::pattern::Kinds;
use crate::template::{Template, is_name};

/// The codes of faults in a contract or a manifest.
pub const CODES: Codes = Codes {
    unreadable: "RC0101",
    syntax: "RC0102",
    unknown_key: "RC0103",
    missing_key: "RC0104",
    invalid_value: "RC0105",
};

/// Two things where one is meant.
const DUPLICATE: &str = "RC0106";
/// A template that the grammar cannot say.
const TEMPLATE: &str = "RC0107";
/// A name that nothing bears.
const UNKNOWN_NAME: &str = "RC0108";
/// Too much of something.
const LIMIT: &str = "RC0109";

/// Answers the text of a file that the contract names.
pub type Reader<'r> = dyn Fn(&Path) -> Result<Arc<Source>, Diagnostic> + 'r;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContractFile {
    version: Spanned<u64>,
    #[serde(default)]
    kinds: BTreeMap<Spanned<String>, Spanned<String>>,
    family: Vec<Spanned<FamilyTable>>,
    #[serde(default)]
    profile: BTreeMap<Spanned<String>, Spanned<ProfileTable>>,
    #[serde(default)]
    common: CommonTable,
    #[serde(default)]
    retired: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyTable {
    name: Spanned<String>,
    owner: Option<String>,
    #[serde(default)]
    serve: ServeValue,
    claims: Spanned<Vec<Spanned<String>>>,
    routes: Option<Spanned<Vec<Spanned<String>>>>,
    encoded_slash: Option<Spanned<EncodedSlashValue>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EncodedSlashValue {
    Admit,
    Refuse,
}

#[derive(Clone, Copy, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum ServeValue {
    #[default]
    Forward,
    Never,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileTable {
    owns: Option<Vec<Spanned<String>>>,
    aggregate: Option<Spanned<Vec<Spanned<String>>>>,
    routes: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct CommonTable {
    #[serde(default)]
    routes: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestFile {
    #[serde(default)]
    route: Vec<RouteTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteTable {
    method: Spanned<String>,
    path: Spanned<String>,
}

impl Contract {
    /// Reads a contract file and the manifests it names, which stand relative to it.
    ///
    /// # Errors
    /// All faults of all files.
    pub fn load(path: &Path) -> Result<Self, Vec<Diagnostic>> {
        Self::load_with(path, &|file| document::read_file(file, &CODES))
    }

    /// Reads a contract through `read`, which is asked for the contract itself and then for each manifest by
    /// its path joined to the contract's folder.
    ///
    /// # Errors
    /// All faults of all files.
    pub fn load_with(path: &Path, read: &Reader<'_>) -> Result<Self, Vec<Diagnostic>> {
        let source = read(path).map_err(|fault| vec![fault])?;
        let file: ContractFile = document::load(&source, &CODES)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut loader = Loader {
            source: Arc::clone(&source),
            kinds: Kinds::default(),
            faults: Vec::new(),
            templates: 0,
        };
        let contract = loader.contract(file, folder, read);
        if loader.faults.is_empty() {
            Ok(contract)
        } else {
            Err(loader.faults)
        }
    }
}

struct Loader {
    source: Arc<Source>,
    kinds: Kinds,
    faults: Vec<Diagnostic>,
    templates: usize,
}

impl Loader {
    fn contract(&mut self, file: ContractFile, folder: &Path, read: &Reader<'_>) -> Contract {
        if *file.version.get_ref() != VERSION {
            let fault = Diagnostic::error(
                CODES.invalid_value,
                format!(
                    "version {} of the contract language is not known",
                    file.version.get_ref()
                ),
            );
            let fault = fault.with_help(format!("this program reads version {VERSION}"));
            self.fault_at(fault, &file.version);
        }
        for (name, expression) in &file.kinds {
            if !is_name(name.get_ref()) {
                self.invalid(name, format!("`{}` cannot name a kind", name.get_ref()));
            } else if let Err(why) = self.kinds.declare(name.get_ref(), expression.get_ref()) {
                self.invalid(
                    expression,
                    format!("the kind `{}` cannot be used: {why}", name.get_ref()),
                );
            }
        }
        let families = self.families(&file.family);
        let profiles = self.profiles(&file.profile, &families, folder, read);
        let source = Arc::clone(&self.source);
        let common = self
            .templates(&file.common.routes, &source)
            .into_iter()
            .filter_map(|located| {
                let method = Method::parse("GET").ok()?;
                Some(Route {
                    method,
                    template: located.template,
                    place: located.place,
                })
            })
            .collect();
        let retired = self.templates(&file.retired, &source);
        Contract {
            source,
            kinds: self.kinds.clone(),
            families,
            profiles,
            common,
            retired,
        }
    }

    fn families(&mut self, tables: &[Spanned<FamilyTable>]) -> Vec<Family> {
        let source = Arc::clone(&self.source);
        let mut families: Vec<Family> = Vec::with_capacity(tables.len());
        if tables.is_empty() {
            self.faults
                .push(Diagnostic::error(CODES.missing_key, "the contract has no family").at(Place::new(&source, 0..0)));
        }
        if tables.len() > MAX_FAMILIES {
            let fault = Diagnostic::error(LIMIT, format!("more than {MAX_FAMILIES} families"));
            self.faults
                .push(fault.at(Place::new(&source, tables[MAX_FAMILIES].span())));
            return families;
        }
        for table in tables {
            let table = table.get_ref();
            let name = table.name.get_ref();
            let place = Place::new(&source, table.name.span());
            const RESERVED: [&str; 4] = ["unknown", "never", "ambiguous", "invalid"];
            if !is_name(name) || name.len() > 64 {
                self.invalid(
                    &table.name,
                    format!(
                        "`{name}` cannot name a family: a letter or `_`, then up to 63 letters, digits, `_` or `-`"
                    ),
                );
            } else if RESERVED.contains(&name.as_str()) {
                self.invalid(
                    &table.name,
                    format!("`{name}` cannot name a family: it is the name of a verdict"),
                );
            } else if let Some(first) = families.iter().find(|family| family.name == *name) {
                let first = first.place.clone();
                self.duplicate(format!("the family `{name}` is declared twice"), place.clone(), first);
            }
            if table.claims.get_ref().is_empty() {
                self.invalid(&table.claims, format!("the family `{name}` claims nothing"));
            }
            if let Some(routes) = &table.routes
                && routes.get_ref().is_empty()
            {
                let fault = Diagnostic::error(CODES.invalid_value, format!("the family `{name}` lists no routes"))
                    .with_help("leave `routes` out to forward the whole claim");
                self.fault_at(fault, routes);
            }
            let claims = self.templates(table.claims.get_ref(), &source);
            self.distinct(&claims, |template| {
                format!("`{template}` is claimed twice by one family")
            });
            let routes = table
                .routes
                .as_ref()
                .map(|routes| self.templates(routes.get_ref(), &source));
            if let Some(routes) = &routes {
                self.distinct(routes, |template| format!("`{template}` is listed twice in one family"));
            }
            if let (ServeValue::Never, Some(encoded_slash)) = (table.serve, &table.encoded_slash) {
                let message = format!("the family `{name}` is never forwarded, so it has no encoded slash to judge");
                self.invalid(encoded_slash, message);
            }
            families.push(Family {
                name: name.clone(),
                owner: table.owner.clone(),
                serve: match table.serve {
                    ServeValue::Forward => Serve::Forward,
                    ServeValue::Never => Serve::Never,
                },
                claims,
                routes,
                encoded_slash: match table.encoded_slash.as_ref().map(|value| value.get_ref()) {
                    Some(EncodedSlashValue::Refuse) => EncodedSlash::Refuse,
                    Some(EncodedSlashValue::Admit) | None => EncodedSlash::Admit,
                },
                place,
            });
        }
        families
    }

    fn profiles(
        &mut self,
        tables: &BTreeMap<Spanned<String>, Spanned<ProfileTable>>,
        families: &[Family],
        folder: &Path,
        read: &Reader<'_>,
    ) -> Vec<Profile> {
        let source = Arc::clone(&self.source);
        let names: Vec<&str> = tables.keys().map(|name| name.get_ref().as_str()).collect();
        let mut profiles = Vec::with_capacity(tables.len());
        for (name, table) in tables {
            let table = table.get_ref();
            let place = Place::new(&source, name.span());
            let name = name.get_ref();
            if !is_name(name) {
                self.faults.push(
                    Diagnostic::error(CODES.invalid_value, format!("`{name}` cannot name a profile")).at(place.clone()),
                );
            }
            let role = match (&table.owns, &table.aggregate) {
                (Some(_), Some(aggregate)) => {
                    self.invalid(
                        aggregate,
                        format!(
                            "the profile `{name}` has both `owns` and `aggregate`; an aggregate owns what its parts own"
                        ),
                    );
                    continue;
                }
                (None, None) => {
                    let fault = Diagnostic::error(
                        CODES.missing_key,
                        format!("the profile `{name}` has neither `owns` nor `aggregate`"),
                    );
                    self.faults.push(fault.at(place));
                    continue;
                }
                (Some(owns), None) => Role::Plain {
                    owns: self.resolve(
                        owns,
                        "family",
                        |wanted| {
                            let index = families.iter().position(|family| family.name == wanted)?;
                            u16::try_from(index).ok().map(FamilyId)
                        },
                        &families.iter().map(|family| family.name.as_str()).collect::<Vec<_>>(),
                    ),
                },
                (None, Some(parts)) => {
                    let resolved = self.resolve(
                        parts.get_ref(),
                        "profile",
                        |wanted| names.iter().position(|name| *name == wanted),
                        &names,
                    );
                    for (part, index) in parts.get_ref().iter().zip(&resolved) {
                        let is_aggregate = tables
                            .values()
                            .nth(*index)
                            .is_some_and(|table| table.get_ref().aggregate.is_some());
                        if is_aggregate {
                            self.invalid(
                                part,
                                format!("`{}` is an aggregate itself; list its parts", part.get_ref()),
                            );
                        }
                    }
                    Role::Aggregate { parts: resolved }
                }
            };
            if matches!(role, Role::Plain { .. }) && table.routes.is_none() {
                let fault = Diagnostic::error(
                    CODES.missing_key,
                    format!("the profile `{name}` names no manifest in `routes`"),
                );
                self.faults.push(fault.at(place.clone()));
            }
            let routes = table.routes.as_ref().map(|manifests| {
                let mut routes = Vec::new();
                for manifest in manifests {
                    self.manifest(manifest, folder, read, &mut routes);
                }
                self.distinct_routes(&routes);
                routes
            });
            profiles.push(Profile {
                name: name.clone(),
                role,
                routes,
                place,
            });
        }
        profiles
    }

    fn manifest(&mut self, name: &Spanned<String>, folder: &Path, read: &Reader<'_>, routes: &mut Vec<Route>) {
        let source = match read(&folder.join(name.get_ref())) {
            Ok(source) => source,
            Err(fault) => {
                let named = Place::new(&self.source, name.span());
                self.faults
                    .push(if fault.place.is_none() { fault.at(named) } else { fault });
                return;
            }
        };
        let file: ManifestFile = match document::load(&source, &CODES) {
            Ok(file) => file,
            Err(faults) => {
                self.faults.extend(faults);
                return;
            }
        };
        for route in file.route {
            let method = Method::parse(route.method.get_ref());
            if let Err(why) = &method {
                let place = Place::new(&source, route.method.span());
                self.faults
                    .push(Diagnostic::error(CODES.invalid_value, why.clone()).at(place));
            }
            let located = self.template(&route.path, &source);
            if let (Ok(method), Some(located)) = (method, located) {
                routes.push(Route {
                    method,
                    template: located.template,
                    place: located.place,
                });
            }
        }
    }

    fn templates(&mut self, texts: &[Spanned<String>], source: &Arc<Source>) -> Vec<LocatedTemplate> {
        texts.iter().filter_map(|text| self.template(text, source)).collect()
    }

    fn template(&mut self, text: &Spanned<String>, source: &Arc<Source>) -> Option<LocatedTemplate> {
        self.templates += 1;
        if self.templates > MAX_TEMPLATES {
            if self.templates == MAX_TEMPLATES + 1 {
                let fault = Diagnostic::error(LIMIT, format!("more than {MAX_TEMPLATES} templates"));
                self.faults.push(fault.at(Place::new(source, text.span())));
            }
            return None;
        }
        let place = Place::new(source, text.span());
        let template = match Template::parse(text.get_ref()) {
            Ok(template) => template,
            Err(error) => {
                let place = Place::new(source, inside(text, source, &error.span));
                self.faults
                    .push(Diagnostic::error(TEMPLATE, error.to_string()).at(place));
                return None;
            }
        };
        for parameter in template.parameters() {
            if let Some(kind) = &parameter.kind
                && self.kinds.expression(kind).is_none()
            {
                let fault = Diagnostic::error(UNKNOWN_NAME, format!("there is no kind `{kind}`")).at(place.clone());
                let fault = match did_you_mean(kind, self.kinds.names()) {
                    Some(meant) => fault.with_help(format!("did you mean `{meant}`?")),
                    None => fault.with_help("declare it under `[kinds]` with a regular expression"),
                };
                self.faults.push(fault);
                return None;
            }
        }
        Some(LocatedTemplate { template, place })
    }

    /// Finds each name; an unknown one is a fault, as is one that stands twice.
    fn resolve<T: Copy + PartialEq>(
        &mut self,
        names: &[Spanned<String>],
        what: &str,
        find: impl Fn(&str) -> Option<T>,
        candidates: &[&str],
    ) -> Vec<T> {
        let mut found: Vec<T> = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            match find(name.get_ref()) {
                None => {
                    let fault = Diagnostic::error(UNKNOWN_NAME, format!("there is no {what} `{}`", name.get_ref()));
                    let fault = match did_you_mean(name.get_ref(), candidates.iter().copied()) {
                        Some(meant) => fault.with_help(format!("did you mean `{meant}`?")),
                        None => fault,
                    };
                    self.fault_at(fault, name);
                }
                Some(value) if found.contains(&value) => {
                    let first = names[..index]
                        .iter()
                        .find(|other| other.get_ref() == name.get_ref())
                        .unwrap_or(name);
                    let first = Place::new(&self.source, first.span());
                    let place = Place::new(&self.source, name.span());
                    self.duplicate(format!("the {what} `{}` stands twice", name.get_ref()), place, first);
                }
                Some(value) => found.push(value),
            }
        }
        found
    }

    fn distinct(&mut self, templates: &[LocatedTemplate], message: impl Fn(&Template) -> String) {
        let mut seen: HashMap<String, &LocatedTemplate> = HashMap::new();
        for located in templates {
            match seen.entry(located.template.shape(true)) {
                std::collections::hash_map::Entry::Occupied(first) => {
                    let first = first.get().place.clone();
                    self.duplicate(message(&located.template), located.place.clone(), first);
                }
                std::collections::hash_map::Entry::Vacant(free) => {
                    free.insert(located);
                }
            }
        }
    }

    fn distinct_routes(&mut self, routes: &[Route]) {
        let mut seen: HashMap<(&Method, String), &Route> = HashMap::new();
        for route in routes {
            match seen.entry((&route.method, route.template.shape(true))) {
                std::collections::hash_map::Entry::Occupied(first) => {
                    let first = first.get().place.clone();
                    let message = format!(
                        "`{} {}` is registered twice by one profile",
                        route.method, route.template
                    );
                    self.duplicate(message, route.place.clone(), first);
                }
                std::collections::hash_map::Entry::Vacant(free) => {
                    free.insert(route);
                }
            }
        }
    }

    fn duplicate(&mut self, message: String, place: Place, first: Place) {
        self.faults.push(
            Diagnostic::error(DUPLICATE, message)
                .at(place)
                .with_related("first here", first),
        );
    }

    fn invalid<T>(&mut self, value: &Spanned<T>, message: impl Into<String>) {
        self.fault_at(Diagnostic::error(CODES.invalid_value, message), value);
    }

    fn fault_at<T>(&mut self, fault: Diagnostic, value: &Spanned<T>) {
        self.faults.push(fault.at(Place::new(&self.source, value.span())));
    }
}

/// The bytes of a string's part in the file. Where the string is written with escapes, the whole string.
fn inside(text: &Spanned<String>, source: &Source, part: &std::ops::Range<usize>) -> std::ops::Range<usize> {
    let span = text.span();
    let start = span.start + 1;
    let written = source.text.get(start..start + text.get_ref().len());
    if written == Some(text.get_ref()) && !part.is_empty() {
        start + part.start..start + part.end
    } else {
        span
    }
}
