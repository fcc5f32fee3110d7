//! RC06: the check compared something.

use crate::contract::{Role, Serve};
use crate::diagnostic::{Diagnostic, Place};
use crate::proof::Proof;

/// A profile that registers nothing.
pub const EMPTY_PROFILE: &str = "RC0601";
/// A family that no profile serves.
pub const EMPTY_FAMILY: &str = "RC0602";
/// A contract without profiles.
pub const NOTHING: &str = "RC0603";

pub(super) fn check(proof: &Proof<'_>, findings: &mut Vec<Diagnostic>) {
    let contract = proof.contract;
    if !contract
        .profiles
        .iter()
        .any(|profile| matches!(profile.role, Role::Plain { .. }))
    {
        findings.push(
            Diagnostic::error(NOTHING, "the contract has no profile: nothing was compared")
                .at(Place::new(&contract.source, 0..0))
                .with_help("declare what each profile registers under `[profile.NAME]`"),
        );
    }
    for profile in &contract.profiles {
        let own = contract.routes_of(profile);
        if own.iter().all(|route| contract.is_common(&route.template)) {
            findings.push(
                Diagnostic::error(EMPTY_PROFILE, format!("profile `{}` registers no route", profile.name))
                    .at(profile.place.clone())
                    .with_help("a manifest that is empty is usually one that was not written"),
            );
        }
    }
    for (id, family) in contract.family_ids() {
        if family.serve == Serve::Forward && contract.owners_of(id).next().is_none() {
            findings.push(
                Diagnostic::error(
                    EMPTY_FAMILY,
                    format!("family `{}` is forwarded, but no profile owns it", family.name),
                )
                .at(family.place.clone())
                .with_help("name it under `owns` of the profile that serves it, or set `serve = \"never\"`"),
            );
        }
    }
}
