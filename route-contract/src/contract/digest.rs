//! The digest: one value for one meaning.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::{Contract, EncodedSlash, Role, Serve};

impl Contract {
    /// `sha256:` and 64 hexadecimal digits over the canonical contract and what its profiles register.
    /// Formatting, comments, the order of keys and the order inside sets change nothing; the order of the
    /// families does.
    pub fn digest(&self) -> String {
        let mut text = format!("route-contract {}\n", super::VERSION);
        let mut line = |words: &[&str]| {
            // Lengths in front keep two different lists from looking alike.
            for word in words {
                let _ = write!(text, "{}:{word} ", word.len());
            }
            text.push('\n');
        };
        for (name, expression) in self.kinds.declared() {
            line(&["kind", name, expression]);
        }
        for family in &self.families {
            let serve = match family.serve {
                Serve::Forward => "forward",
                Serve::Never => "never",
            };
            let lists = if family.routes.is_some() { "listed" } else { "all" };
            line(&[
                "family",
                &family.name,
                family.owner.as_deref().unwrap_or_default(),
                serve,
                lists,
            ]);
            if family.encoded_slash == EncodedSlash::Refuse {
                line(&["encoded_slash", "refuse"]);
            }
            for claim in sorted(family.claims.iter().map(|claim| claim.template.as_str())) {
                line(&["claim", claim]);
            }
            for route in sorted(family.routes.iter().flatten().map(|route| route.template.as_str())) {
                line(&["route", route]);
            }
        }
        for profile in &self.profiles {
            match &profile.role {
                Role::Plain { owns } => {
                    line(&["profile", &profile.name, "plain"]);
                    for name in sorted(
                        owns.iter()
                            .filter_map(|id| self.families.get(id.index()))
                            .map(|family| family.name.as_str()),
                    ) {
                        line(&["owns", name]);
                    }
                }
                Role::Aggregate { parts } => {
                    line(&["profile", &profile.name, "aggregate"]);
                    for name in sorted(
                        parts
                            .iter()
                            .filter_map(|part| self.profiles.get(*part))
                            .map(|part| part.name.as_str()),
                    ) {
                        line(&["part", name]);
                    }
                }
            }
            let mut routes: Vec<(&str, &str)> = profile
                .routes
                .iter()
                .flatten()
                .map(|route| (route.template.as_str(), route.method.as_str()))
                .collect();
            routes.sort_unstable();
            for (path, method) in routes {
                line(&["registers", method, path]);
            }
        }
        for path in sorted(self.common.iter().map(|route| route.template.as_str())) {
            line(&["common", path]);
        }
        for path in sorted(self.retired.iter().map(|retired| retired.template.as_str())) {
            line(&["retired", path]);
        }
        let mut digest = "sha256:".to_owned();
        for byte in Sha256::digest(text.as_bytes()) {
            let _ = write!(digest, "{byte:02x}");
        }
        digest
    }
}

fn sorted<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let mut texts: Vec<&str> = texts.collect();
    texts.sort_unstable();
    texts
}
