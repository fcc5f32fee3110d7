//! Reading a contract and its manifests: all faults of all files in one run.

pub mod file;
mod profiles;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;

use super::codes::{DUPLICATE, LIMIT, TEMPLATE, UNKNOWN_NAME};
use super::{
    Contract, EncodedSlash, Family, LocatedTemplate, MAX_FAMILIES, MAX_TEMPLATES, Method, Route, Serve, VERSION,
};
use crate::diagnostic::{Diagnostic, Place, Source, did_you_mean};
use crate::document::{self, Codes};
use crate::pattern::Kinds;
use crate::template::{Template, is_name};
use file::{ContractFile, EncodedSlashValue, FamilyTable, ServeValue};

/// The codes of faults in a contract or a manifest.
pub const CODES: Codes = Codes {
    unreadable: "RC0101",
    syntax: "RC0102",
    unknown_key: "RC0103",
    missing_key: "RC0104",
    invalid_value: "RC0105",
};

/// Answers the text of a file that the contract names.
pub type Reader<'r> = dyn Fn(&Path) -> Result<Arc<Source>, Diagnostic> + 'r;

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
        let salvaged = document::salvage::<ContractFile>(document::parse(&source, &CODES)?, &source, &CODES);
        let Some(file) = salvaged.value else {
            return Err(salvaged.faults);
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut loader = Loader {
            source: Arc::clone(&source),
            kinds: Kinds::default(),
            faults: Vec::new(),
            templates: 0,
        };
        let contract = loader.contract(file, folder, read);
        if salvaged.faults.is_empty() && loader.faults.is_empty() {
            return Ok(contract);
        }
        let mut faults = salvaged.faults;
        let damaged = !faults.is_empty();
        faults.extend(loader.faults.into_iter().filter(|fault| {
            // What is left of a damaged file shows its own faults, and a few that only the damage made: a name
            // that stood in a lost table, a list that lost its last entry.
            let elsewhere = fault.place.as_ref().is_some_and(|place| place.source != source);
            !damaged
                || elsewhere
                || matches!(fault.code, TEMPLATE | DUPLICATE)
                || fault.code == CODES.unreadable
                || (fault.code == UNKNOWN_NAME && !salvaged.lost_a_table)
        }));
        Err(faults)
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
