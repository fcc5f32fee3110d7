//! Whether a configuration and its contract fit together: one upstream for each forwarded family, and no
//! public readiness path that a family claims.

use route_contract::classify::Classifier;
use route_contract::contract::{Contract, Serve};
use route_contract::diagnostic::{Diagnostic, did_you_mean};
use route_contract::ownership::Owner;

use super::{Loaded, codes};
use crate::upstream::Keys;

/// Finds where a configuration and its contract disagree.
pub fn agree(loaded: &Loaded, contract: &Contract, classifier: &Classifier) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    upstream_for_each_family(loaded, contract, &mut found);
    no_upstream_beside(loaded, contract, &mut found);
    affinities_can_be_found(loaded, contract, classifier, &mut found);
    public_readiness_is_unclaimed(loaded, contract, classifier, &mut found);
    found
}

fn upstream_for_each_family(loaded: &Loaded, contract: &Contract, found: &mut Vec<Diagnostic>) {
    let mut forwarded = 0_usize;
    for family in contract.families.iter().filter(|family| family.serve == Serve::Forward) {
        forwarded += 1;
        let name = &family.name;
        // One that is there and could not be read has had its faults reported.
        if loaded.config.upstream.contains_key(name) || loaded.entry(&["upstream", name]).is_some() {
            continue;
        }
        found.push(
            Diagnostic::error(
                codes::UPSTREAM_MISSING,
                format!("the contract forwards `{name}`, but there is no table `[upstream.{name}]`"),
            )
            .at(loaded.place(&["upstream"]))
            .with_related("the family", family.place.clone())
            .with_help(format!(
                "add `[upstream.{name}]` with its `url`; with `enabled = false` too, the family's requests are answered 503"
            )),
        );
    }
    if forwarded == 0 {
        found.push(
            Diagnostic::error(codes::NOTHING_FORWARDED, "the contract forwards no family")
                .at(loaded.place(&["contract"]))
                .with_help("a gateway that refuses every request is no deployment: see the contract's `serve` keys"),
        );
    }
}

fn no_upstream_beside(loaded: &Loaded, contract: &Contract, found: &mut Vec<Diagnostic>) {
    for name in loaded.config.upstream.keys() {
        let place = loaded.key_place(&["upstream", name]);
        match contract.families.iter().find(|family| family.name == *name) {
            Some(family) if family.serve == Serve::Never => found.push(
                Diagnostic::error(
                    codes::UPSTREAM_NEVER,
                    format!("the contract never forwards `{name}`, so it has no upstream"),
                )
                .at(place)
                .with_related("the family", family.place.clone())
                .with_help(format!("take `[upstream.{name}]` out")),
            ),
            Some(_) => {}
            None => {
                let fault = Diagnostic::error(codes::UPSTREAM_UNKNOWN, format!("the contract has no family `{name}`"))
                    .at(place);
                let forwarded = contract.families.iter().filter(|family| family.serve == Serve::Forward);
                let names: Vec<&str> = forwarded.map(|family| family.name.as_str()).collect();
                found.push(match did_you_mean(name, names.iter().copied()) {
                    Some(meant) => fault.with_help(format!("did you mean `{meant}`?")),
                    None => fault.with_help(format!("the contract forwards {}", names.join(", "))),
                });
            }
        }
    }
}

fn affinities_can_be_found(loaded: &Loaded, contract: &Contract, classifier: &Classifier, found: &mut Vec<Diagnostic>) {
    for (id, family) in contract.family_ids() {
        let name = &family.name;
        let affinity = loaded
            .config
            .upstream
            .get(name)
            .and_then(|table| table.affinity.as_ref());
        if Keys::new(affinity, id, classifier).are_impossible() {
            found.push(
                Diagnostic::error(
                    codes::AFFINITY_PARAMETER,
                    format!("no claim and no route of `{name}` has the parameter of its affinity"),
                )
                .at(loaded.place(&["upstream", name, "affinity"]))
                .with_related("the family", family.place.clone())
                .with_help("name a parameter as it stands in the contract, without its braces and kind"),
            );
        }
    }
}

fn public_readiness_is_unclaimed(
    loaded: &Loaded,
    contract: &Contract,
    classifier: &Classifier,
    found: &mut Vec<Diagnostic>,
) {
    let readiness = &loaded.config.readiness;
    let forwarded = contract.families.iter().filter(|family| family.serve == Serve::Forward);
    let live = readiness.live.iter().cloned().collect();
    let ready = readiness
        .ready
        .iter()
        .flat_map(|ready| {
            let below = forwarded.clone().map(move |family| format!("{ready}/{}", family.name));
            std::iter::once(ready.clone()).chain(below)
        })
        .collect();
    // The claims count, not the routes alone: a path that a claim refuses today may be a route tomorrow.
    let claiming = |path: &String| match classifier.decide(path.as_bytes()).owner {
        Owner::Family(id) | Owner::Never(id) | Owner::Refused(id) => contract.families.get(id.index()),
        Owner::Unclaimed => None,
    };
    let both: [(&str, Vec<String>); 2] = [("live", live), ("ready", ready)];
    for (key, paths) in both {
        let claimed = paths
            .into_iter()
            .find_map(|path| claiming(&path).map(|family| (path, family)));
        let Some((path, family)) = claimed else { continue };
        found.push(
            Diagnostic::error(
                codes::READINESS_CLAIMED,
                format!(
                    "`readiness.{key}` would hide a path that the family `{}` claims",
                    family.name
                ),
            )
            .at(loaded.place(&["readiness", key]))
            .with_related("the family", family.place.clone())
            .with_witness(path)
            .with_help("choose a path outside all claims, or answer readiness on the admin listener alone"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_source;
    use route_contract::diagnostic::Source;
    use std::path::Path;

    const CONTRACT: &str = "version = 1\n\
        [[family]]\nname = \"internal-only\"\nserve = \"never\"\nclaims = [\"/api/internal/**\"]\n\
        [[family]]\nname = \"extension\"\nclaims = [\"/ext/**\"]\nroutes = [\"/ext/{domain:kebab}\"]\n\
        [[family]]\nname = \"workspace\"\nclaims = [\"/ws/**\"]\n";

    fn findings(tables: &str) -> Vec<String> {
        let contract = Contract::load_with(Path::new("contract.toml"), &|path| {
            Ok(Source::new(path.display().to_string(), CONTRACT))
        })
        .unwrap();
        let text = format!("contract = \"contract.toml\"\n[listen]\npublic = \"127.0.0.1:0\"\n{tables}");
        let loaded = load_source(&Source::new("g.toml", text), Path::new(""), &|_| None).unwrap();
        agree(&loaded, &contract, &Classifier::new(&contract).unwrap())
            .into_iter()
            .map(|found| {
                let witness = found.witness.map_or(String::new(), |path| format!(" {path}"));
                format!("{} {}: {}{witness}", found.code, found.place.unwrap(), found.message)
            })
            .collect()
    }

    const BOTH: &str = "[upstream.extension]\nurl = \"http://h\"\n[upstream.workspace]\nurl = \"http://h\"\n";

    #[test]
    fn one_table_for_each_forwarded_family_is_right() {
        assert_eq!(findings(BOTH), [""; 0]);
    }

    #[test]
    fn missing_unknown_and_needless_tables_come_in_one_run() {
        let found = findings(
            "[upstream.extension]\nurl = \"http://h\"\n[upstream.internal-only]\nurl = \"http://h\"\n\
             [upstream.workspaces]\nurl = \"http://h\"\n",
        );
        assert_eq!(
            found,
            [
                "GW0202 g.toml:4:2: the contract forwards `workspace`, but there is no table `[upstream.workspace]`",
                "GW0204 g.toml:6:11: the contract never forwards `internal-only`, so it has no upstream",
                "GW0203 g.toml:8:11: the contract has no family `workspaces`",
            ]
        );
    }

    #[test]
    fn an_affinity_is_a_parameter_that_the_familys_paths_have() {
        for (affinity, code) in [
            ("param:domain", ""),
            ("header:x-domain", ""),
            (
                "param:workspace",
                "GW0221 g.toml:6:12: no claim and no route of `extension`",
            ),
        ] {
            let found = findings(&format!(
                "[upstream.extension]\nurl = \"http://h\"\naffinity = \"{affinity}\"\n[upstream.workspace]\nurl = \
                 \"http://h\"\n"
            ));
            assert_eq!(found.len(), usize::from(!code.is_empty()), "{affinity}: {found:?}");
            assert!(found.iter().all(|found| found.starts_with(code)), "{found:?}");
        }
    }

    #[test]
    fn public_readiness_may_not_hide_a_claimed_path() {
        for (paths, witness) in [
            ("ready = \"/readyz\"\nlive = \"/livez\"\n", ""),
            ("ready = \"/ws/readyz\"\n", "/ws/readyz"),
            ("live = \"/api/internal/live\"\n", "/api/internal/live"),
            // A claim that refuses the path owns it all the same.
            ("live = \"/ext/a/b\"\n", "/ext/a/b"),
        ] {
            let found = findings(&format!("[readiness]\n{paths}{BOTH}"));
            assert!(found.iter().all(|text| text.starts_with("GW0207")), "{found:?}");
            if witness.is_empty() {
                assert_eq!(found, [""; 0]);
            } else {
                assert!(found[0].ends_with(witness), "{found:?}");
            }
        }
    }
}
