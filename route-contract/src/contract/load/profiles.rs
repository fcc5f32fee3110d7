//! Profiles, and the routes that their files list.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;

use super::file::{ManifestFile, ProfileTable, RoutesEntry, RoutesTable};
use super::{CODES, Loader, Reader};
use crate::contract::codes::{LIMIT, UNKNOWN_NAME};
use crate::contract::{Family, FamilyId, MAX_TEMPLATES, Method, Profile, Role, Route};
use crate::diagnostic::{Diagnostic, Place, Source};
use crate::document;
use crate::import::path_syntax::{self, PathSyntax};
use crate::import::{Format, Import};
use crate::template::is_name;

impl Loader {
    pub(super) fn profiles(
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
                for entry in manifests {
                    self.entry(entry, name, &names, folder, read, &mut routes);
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

    /// Reads one entry of a profile's `routes`.
    fn entry(
        &mut self,
        entry: &Spanned<RoutesEntry>,
        profile: &str,
        profiles: &[&str],
        folder: &Path,
        read: &Reader<'_>,
        routes: &mut Vec<Route>,
    ) {
        let (file, span, table) = match entry.get_ref() {
            RoutesEntry::File(file) => (file, entry.span(), None),
            RoutesEntry::Table(table) => (table.file.get_ref(), table.file.span(), Some(table)),
        };
        let named = Place::new(&self.source, span);
        let source = match read(&folder.join(file)) {
            Ok(source) => source,
            Err(fault) => {
                self.faults
                    .push(if fault.place.is_none() { fault.at(named) } else { fault });
                return;
            }
        };
        let format = match table
            .and_then(|table| table.format)
            .map_or_else(|| Format::of(&source), Ok)
        {
            Ok(format) => format,
            Err(why) => {
                let fault = Diagnostic::error(CODES.invalid_value, format!("`{file}` is not read: {why}"))
                    .with_help("name the format: `{ file = \"...\", format = \"openapi\" }`");
                self.faults.push(fault.at(named));
                return;
            }
        };
        if format == Format::Toml {
            if let Some(table) = table {
                self.only_for_imports(table);
            }
            self.manifest(&source, routes);
        } else {
            self.import(&source, format, table, profile, profiles, routes);
        }
    }

    fn manifest(&mut self, source: &Arc<Source>, routes: &mut Vec<Route>) {
        let file: ManifestFile = match document::load(source, &CODES) {
            Ok(file) => file,
            Err(faults) => {
                self.faults.extend(faults);
                return;
            }
        };
        for route in file.route {
            let method = Method::parse(route.method.get_ref());
            if let Err(why) = &method {
                let place = Place::new(source, route.method.span());
                self.faults
                    .push(Diagnostic::error(CODES.invalid_value, why.clone()).at(place));
            }
            let located = self.template(&route.path, source);
            if let (Ok(method), Some(located)) = (method, located) {
                routes.push(Route {
                    method,
                    template: located.template,
                    place: located.place,
                });
            }
        }
    }

    fn import(
        &mut self,
        source: &Arc<Source>,
        format: Format,
        table: Option<&RoutesTable>,
        profile: &str,
        profiles: &[&str],
        routes: &mut Vec<Route>,
    ) {
        let mut except = Vec::new();
        let mut prefix = "";
        let mut syntax = PathSyntax::default();
        if let Some(table) = table {
            for entry in &table.except {
                let entry = entry.get_ref();
                if entry.reason.get_ref().trim().is_empty() {
                    self.invalid(&entry.reason, "an exception says why");
                }
                except.push(entry.path.get_ref().as_str());
            }
            if let Some(given) = &table.prefix {
                // A slash at its end would double with the one that each path begins with.
                match path_syntax::literal(given.get_ref(), false) {
                    Ok(_) if !given.get_ref().ends_with('/') => prefix = given.get_ref(),
                    Ok(_) => self.invalid(given, "a prefix does not end in `/`: each path begins with one"),
                    Err(why) => self.invalid(given, format!("`{}` is no prefix: {why}", given.get_ref())),
                }
            }
            if let Some(given) = &table.syntax {
                syntax = *given.get_ref();
                if format != Format::JsonLines {
                    self.invalid(
                        given,
                        "`syntax` is for JSON Lines; the other formats have one of their own",
                    );
                }
            }
        }
        let imported = Import {
            source,
            format,
            syntax,
            prefix,
            except: &except,
            profile,
            profiles,
            kinds: &self.kinds,
            limit: MAX_TEMPLATES.saturating_sub(self.templates),
        }
        .read();
        let faulty = !imported.faults.is_empty();
        self.faults.extend(imported.faults);
        self.templates += imported.routes.len();
        if self.templates > MAX_TEMPLATES {
            let fault = Diagnostic::error(LIMIT, format!("more than {MAX_TEMPLATES} templates"));
            self.faults.push(fault.at(Place::new(source, 0..0)));
            return;
        }
        routes.extend(imported.routes);
        // What a faulty file lacks says nothing about the exceptions.
        if faulty {
            return;
        }
        let exceptions = table.map(|table| table.except.as_slice()).unwrap_or_default();
        for (entry, left_out) in exceptions.iter().zip(imported.left_out) {
            if !left_out {
                let path = &entry.get_ref().path;
                let message = format!("the file lists no `{}`: the exception is stale", path.get_ref());
                self.fault_at(Diagnostic::error(UNKNOWN_NAME, message), path);
            }
        }
    }

    /// What translates paths has no part in a TOML manifest, which is written in the grammar.
    fn only_for_imports(&mut self, table: &RoutesTable) {
        const WHY: &str = "this is for imported files; a TOML manifest is written as it is meant";
        if let Some(syntax) = &table.syntax {
            self.invalid(syntax, WHY);
        }
        if let Some(prefix) = &table.prefix {
            self.invalid(prefix, WHY);
        }
        for except in &table.except {
            self.invalid(except, WHY);
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
}
