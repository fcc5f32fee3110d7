//! A profile's router, built with `matchit` as a server would build it: what the profile really answers.

use std::collections::{HashMap, HashSet};

use crate::contract::{Contract, Profile, Route};
use crate::diagnostic::Diagnostic;
use crate::pattern::Pattern;
use crate::template::{Parameter, Segment, Template};

/// Two routes that one router cannot hold.
pub const CONFLICT: &str = "RC0201";

/// One profile's router.
pub struct ProfileRouter {
    router: matchit::Router<usize>,
    entries: Vec<Entry>,
}

/// The routes of one path.
struct Entry {
    routes: Vec<Route>,
    /// For each parameter, in order: what it must match.
    patterns: Vec<Pattern>,
}

/// What a router answers.
#[derive(Clone, Copy, Debug)]
pub enum Routed<'r> {
    /// This route serves the request.
    Found(&'r Route),
    /// The path is served, but not with this method; the first of its routes.
    MethodNotAllowed(&'r Route),
    /// The path is not served.
    NotFound,
}

impl<'r> Routed<'r> {
    /// The route of the path, whatever the method.
    pub fn path(self) -> Option<&'r Route> {
        match self {
            Self::Found(route) | Self::MethodNotAllowed(route) => Some(route),
            Self::NotFound => None,
        }
    }
}

impl ProfileRouter {
    /// Builds the router of a profile from its routes, and the contract's common ones.
    ///
    /// # Errors
    /// Each pair of routes that one router cannot hold, with both places.
    pub fn new(contract: &Contract, profile: &Profile) -> Result<Self, Vec<Diagnostic>> {
        let mut router = Self {
            router: matchit::Router::new(),
            entries: Vec::new(),
        };
        let mut faults = Vec::new();
        let mut by_shape: HashMap<String, usize> = HashMap::new();
        let mut taken: HashSet<String> = HashSet::new();
        let mut kinds: HashMap<Option<Box<str>>, Pattern> = HashMap::new();
        // Routes that name their path come before those that end in `/**`: beside `/files`, a `/files/**`
        // stands for what is below.
        let own = contract.routes_of(profile).into_iter().chain(&contract.common);
        let (tails, named): (Vec<&Route>, Vec<&Route>) = own.partition(|route| route.template.has_tail());
        for route in named.into_iter().chain(tails) {
            let shape = route.template.shape(true);
            if let Some(index) = by_shape.get(&shape) {
                router.entries[*index].routes.push(route.clone());
                continue;
            }
            let patterns: Result<Vec<Pattern>, String> = route
                .template
                .parameters()
                .map(|parameter| kind_of(parameter, contract, &mut kinds))
                .collect();
            let index = router.entries.len();
            match patterns {
                Ok(patterns) => router.entries.push(Entry {
                    routes: vec![route.clone()],
                    patterns,
                }),
                Err(why) => {
                    faults.push(Diagnostic::error(CONFLICT, why).at(route.place.clone()));
                    continue;
                }
            }
            by_shape.insert(shape, index);
            let path = route.template.shape(false);
            let path = path.strip_suffix("/**").unwrap_or(&path);
            for (pattern, suffix) in insertions(&route.template) {
                let is_base = route.template.has_tail() && suffix != REST;
                if !taken.insert(format!("{path}{suffix}")) && is_base {
                    continue;
                }
                if let Err(error) = router.router.insert(pattern, index) {
                    faults.push(router.conflict(profile, route, &error));
                    break;
                }
            }
        }
        if faults.is_empty() { Ok(router) } else { Err(faults) }
    }

    fn conflict(&self, profile: &Profile, route: &Route, error: &matchit::InsertError) -> Diagnostic {
        let message = format!(
            "the router of profile `{}` cannot hold `{}`",
            profile.name, route.template
        );
        let fault = Diagnostic::error(CONFLICT, message).at(route.place.clone());
        let matchit::InsertError::Conflict { with } = error else {
            return fault.with_help(error.to_string());
        };
        let other = self.entries.iter().find(|entry| {
            entry
                .routes
                .iter()
                .any(|other| insertions(&other.template).any(|(pattern, _)| pattern == *with))
                && !entry.routes.iter().any(|other| other.place == route.place)
        });
        match other.and_then(|entry| entry.routes.first()) {
            Some(other) => fault.with_related(
                format!("beside `{}`, which stands here", other.template),
                other.place.clone(),
            ),
            None => fault.with_help(format!("it stands in the way of `{with}`")),
        }
    }

    /// What the profile answers to a method and a path.
    pub fn route(&self, method: &str, path: &str) -> Routed<'_> {
        let Ok(matched) = self.router.at(path) else {
            return Routed::NotFound;
        };
        let Some(entry) = self.entries.get(*matched.value) else {
            return Routed::NotFound;
        };
        // `matchit` has no kinds: a server checks them behind its router.
        let narrowed = matched
            .params
            .iter()
            .zip(&entry.patterns)
            .any(|((_, value), pattern)| !pattern.matches(value.as_bytes()));
        if narrowed {
            return Routed::NotFound;
        }
        match (
            entry.routes.iter().find(|route| route.method.accepts(method)),
            entry.routes.first(),
        ) {
            (Some(route), _) => Routed::Found(route),
            (None, Some(route)) => Routed::MethodNotAllowed(route),
            (None, None) => Routed::NotFound,
        }
    }
}

/// The pattern of a parameter alone: `matchit` has taken the prefix and the suffix off. Each kind is compiled once.
fn kind_of(
    parameter: &Parameter,
    contract: &Contract,
    known: &mut HashMap<Option<Box<str>>, Pattern>,
) -> Result<Pattern, String> {
    if let Some(pattern) = known.get(&parameter.kind) {
        return Ok(pattern.clone());
    }
    let bare = Parameter {
        prefix: Box::default(),
        suffix: Box::default(),
        ..parameter.clone()
    };
    let pattern = Pattern::new(&bare, &contract.kinds, false)?;
    known.insert(parameter.kind.clone(), pattern.clone());
    Ok(pattern)
}

/// What `matchit` calls a final `/**`.
const REST: &str = "/{*rest}";

/// The patterns that stand for a template in `matchit`, each with what it adds to the path before a final
/// `/**`: one pattern, or three, since a catch-all matches neither the path itself nor its trailing slash.
fn insertions(template: &Template) -> impl Iterator<Item = (String, &'static str)> {
    let mut base = String::new();
    for segment in template.segments() {
        base.push('/');
        match segment {
            Segment::Literal(literal) => base.push_str(literal),
            Segment::Parameter(parameter) => {
                base.push_str(&parameter.prefix);
                base.push('{');
                base.push_str(&parameter.name);
                base.push('}');
                base.push_str(&parameter.suffix);
            }
        }
    }
    let suffixes: &[&str] = match (template.has_tail(), base.is_empty()) {
        (false, _) => &[""],
        (true, true) => &["/", REST],
        (true, false) => &["", "/", REST],
    };
    suffixes.iter().map(move |suffix| (format!("{base}{suffix}"), *suffix))
}
