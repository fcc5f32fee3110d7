//! The slow, obvious way to classify: every family in order, every template of it, segment by segment. It
//! is the oracle of the compiled matcher and shares none of its code but the pattern of a segment.

use std::collections::HashMap;

use crate::contract::{Contract, FamilyId, Serve};
use crate::ownership::Owner;
use crate::pattern::{Kinds, Pattern, PatternKey};
use crate::template::{Segment, Template};

/// The ordered scan.
pub struct Scan {
    families: Vec<ScannedFamily>,
    patterns: HashMap<PatternKey, Pattern>,
}

struct ScannedFamily {
    serve: Serve,
    claims: Vec<Template>,
    routes: Option<Vec<Template>>,
}

impl Scan {
    /// Takes the templates as they stand.
    ///
    /// # Errors
    /// A kind that does not exist or cannot be compiled.
    pub fn new(contract: &Contract) -> Result<Self, String> {
        let mut patterns = HashMap::new();
        let mut families = Vec::new();
        for family in &contract.families {
            let claims: Vec<Template> = family.claims.iter().map(|located| located.template.clone()).collect();
            let routes: Option<Vec<Template>> = family
                .routes
                .as_ref()
                .map(|routes| routes.iter().map(|located| located.template.clone()).collect());
            for template in claims.iter().chain(routes.iter().flatten()) {
                collect_patterns(template, &contract.kinds, &mut patterns)?;
            }
            families.push(ScannedFamily {
                serve: family.serve,
                claims,
                routes,
            });
        }
        Ok(Self { families, patterns })
    }

    /// The owner of a path.
    pub fn owner(&self, path: &[u8]) -> Owner {
        for (id, family) in (0..).map(FamilyId).zip(&self.families) {
            if !family.claims.iter().any(|claim| self.matches(claim, path)) {
                continue;
            }
            return match (&family.serve, &family.routes) {
                (Serve::Never, _) => Owner::Never(id),
                (Serve::Forward, None) => Owner::Family(id),
                (Serve::Forward, Some(routes)) if routes.iter().any(|route| self.matches(route, path)) => {
                    Owner::Family(id)
                }
                (Serve::Forward, Some(_)) => Owner::Refused(id),
            };
        }
        Owner::Unclaimed
    }

    /// Whether one of the contract's templates matches a path.
    pub fn covers(&self, template: &Template, path: &[u8]) -> bool {
        self.matches(template, path)
    }

    fn matches(&self, template: &Template, path: &[u8]) -> bool {
        let Some(path) = path.strip_prefix(b"/") else {
            return false;
        };
        let mut segments = path.split(|byte| *byte == b'/');
        for expected in template.segments() {
            let Some(segment) = segments.next() else { return false };
            let fits = match expected {
                Segment::Literal(literal) => literal.as_bytes() == segment,
                Segment::Parameter(parameter) => self
                    .patterns
                    .get(&Pattern::key(parameter))
                    .is_some_and(|pattern| pattern.matches(segment)),
            };
            if !fits {
                return false;
            }
        }
        template.has_tail() || segments.next().is_none()
    }
}

fn collect_patterns(
    template: &Template,
    kinds: &Kinds,
    patterns: &mut HashMap<PatternKey, Pattern>,
) -> Result<(), String> {
    for parameter in template.parameters() {
        if let std::collections::hash_map::Entry::Vacant(free) = patterns.entry(Pattern::key(parameter)) {
            free.insert(Pattern::new(parameter, kinds, false)?);
        }
    }
    Ok(())
}
