//! The slow, obvious way to classify: every family in order, every template of it, segment by segment. It
//! is the oracle of the compiled matcher and shares none of its code but the pattern of a segment.

use std::collections::HashMap;

use crate::contract::{Contract, FamilyId, LocatedTemplate, Serve};
use crate::ownership::Owner;
use crate::pattern::{Kinds, Pattern, PatternKey};
use crate::template::{Segment, Template};

/// The ordered scan.
pub struct Scan {
    families: Vec<ScannedFamily>,
    kinds: Kinds,
}

struct ScannedFamily {
    serve: Serve,
    claims: Vec<ScannedTemplate>,
    routes: Option<Vec<ScannedTemplate>>,
}

struct ScannedTemplate {
    segments: Vec<Expected>,
    tail: bool,
}

/// What a segment must be.
enum Expected {
    Literal(Box<str>),
    Parameter(Pattern),
}

impl Scan {
    /// Takes the templates as they stand.
    ///
    /// # Errors
    /// A kind that does not exist or cannot be compiled.
    pub fn new(contract: &Contract) -> Result<Self, String> {
        // Each pattern is compiled once, not once for each template that has it.
        let mut patterns = HashMap::new();
        let mut scanned = |located: &[LocatedTemplate]| -> Result<Vec<ScannedTemplate>, String> {
            let templates = located.iter().map(|located| &located.template);
            templates
                .map(|template| ScannedTemplate::new(template, &contract.kinds, &mut patterns))
                .collect()
        };
        let mut families = Vec::new();
        for family in &contract.families {
            families.push(ScannedFamily {
                serve: family.serve,
                claims: scanned(&family.claims)?,
                routes: family.routes.as_deref().map(&mut scanned).transpose()?,
            });
        }
        Ok(Self {
            families,
            kinds: contract.kinds.clone(),
        })
    }

    /// The owner of a path.
    pub fn owner(&self, path: &[u8]) -> Owner {
        for (id, family) in (0..).map(FamilyId).zip(&self.families) {
            if !family.claims.iter().any(|claim| claim.matches(path)) {
                continue;
            }
            return match (&family.serve, &family.routes) {
                (Serve::Never, _) => Owner::Never(id),
                (Serve::Forward, None) => Owner::Family(id),
                (Serve::Forward, Some(routes)) if routes.iter().any(|route| route.matches(path)) => Owner::Family(id),
                (Serve::Forward, Some(_)) => Owner::Refused(id),
            };
        }
        Owner::Unclaimed
    }

    /// Whether a template of the contract matches a path.
    pub fn covers(&self, template: &Template, path: &[u8]) -> bool {
        ScannedTemplate::new(template, &self.kinds, &mut HashMap::new()).is_ok_and(|scanned| scanned.matches(path))
    }
}

impl ScannedTemplate {
    fn new(template: &Template, kinds: &Kinds, patterns: &mut HashMap<PatternKey, Pattern>) -> Result<Self, String> {
        let mut segments = Vec::with_capacity(template.segments().len());
        for segment in template.segments() {
            segments.push(match segment {
                Segment::Literal(literal) => Expected::Literal(literal.clone()),
                Segment::Parameter(parameter) => {
                    let key = Pattern::key(parameter);
                    let pattern = match patterns.get(&key) {
                        Some(known) => known.clone(),
                        None => Pattern::new(parameter, kinds, false)?,
                    };
                    patterns.entry(key).or_insert_with(|| pattern.clone());
                    Expected::Parameter(pattern)
                }
            });
        }
        Ok(Self {
            segments,
            tail: template.has_tail(),
        })
    }

    fn matches(&self, path: &[u8]) -> bool {
        let Some(path) = path.strip_prefix(b"/") else {
            return false;
        };
        let mut segments = path.split(|byte| *byte == b'/');
        for expected in &self.segments {
            let Some(segment) = segments.next() else { return false };
            let fits = match expected {
                Expected::Literal(literal) => literal.as_bytes() == segment,
                Expected::Parameter(pattern) => pattern.matches(segment),
            };
            if !fits {
                return false;
            }
        }
        self.tail || segments.next().is_none()
    }
}
