//! Signs that a watched file is not what somebody wanted to write. A file that is cut off between two lines is valid
//! TOML: what stood behind the cut is then gone without a word, and with it a limit, the `routes` of a family, or a family
//! that was never to be forwarded. So a reload that nobody has asked for takes none of these over; SIGHUP does.

use route_contract::contract::{Contract, Serve};
use route_contract::diagnostic::{Diagnostic, Place, Source};

use crate::config::codes;

/// How to say that it is meant.
const SIGHUP: &str = "if that is meant, say so with SIGHUP; a reload by `watch` does not take it over";

/// Finds the signs in one file, against what it held when it was last taken over.
pub fn file(present: &Source, next: &std::sync::Arc<Source>) -> Option<Diagnostic> {
    let (before, now) = (&present.text, &next.text);
    let end = Place::new(next, now.len()..now.len());
    let message = if now.len() < before.len() && before.starts_with(now.as_str()) {
        format!(
            "the file is cut off: it is the first {} of the {} bytes that are served",
            now.len(),
            before.len()
        )
    } else if before.ends_with('\n') && !now.ends_with('\n') {
        "the last line of the file has no end, which it had".to_owned()
    } else {
        return None;
    };
    let fault = Diagnostic::error(codes::FILE_UNFINISHED, message).at(end);
    Some(fault.with_help(SIGHUP))
}

/// Finds the signs in a contract, against the one that is served.
///
/// A family that is forwarded cannot get lost unnoticed: its `[upstream]` table would be left without a family. So the
/// signs are those that no table of the configuration would show.
pub fn contract(present: &Contract, next: &Contract) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for family in &present.families {
        let name = &family.name;
        let successor = next.families.iter().find(|other| other.name == *name);
        match successor {
            None if family.serve == Serve::Never => {
                let message = format!("the contract has lost the family `{name}`, which is never forwarded");
                let start = Place::new(&next.source, 0..0);
                found.push(Diagnostic::error(codes::FAMILY_LOST, message).at(start));
            }
            Some(successor) if family.routes.is_some() && successor.routes.is_none() => {
                let message = format!("the family `{name}` has lost its `routes`: all of its claim would be forwarded");
                found.push(Diagnostic::error(codes::FAMILY_LOST, message).at(successor.place.clone()));
            }
            _ => {}
        }
    }
    found.into_iter().map(|fault| fault.with_help(SIGHUP)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const HIDDEN: &str = "[[family]]\nname = \"hidden\"\nserve = \"never\"\nclaims = [\"/h/**\"]\n";
    const LISTED: &str = "[[family]]\nname = \"a\"\nclaims = [\"/a/**\"]\nroutes = [\"/a/b\"]\n";
    const WHOLE: &str = "[[family]]\nname = \"b\"\nclaims = [\"/b/**\"]\n";

    fn load(parts: &[&str]) -> Contract {
        let text = format!("version = 1\n{}", parts.concat());
        Contract::load_with(Path::new("c"), &|_| Ok(Source::new("c", text.clone()))).unwrap()
    }

    #[test]
    fn a_lost_family_and_lost_routes_are_signs() {
        let present = load(&[HIDDEN, LISTED, WHOLE]);
        for (parts, sign) in [
            (&[HIDDEN, LISTED, WHOLE][..], ""),
            (&[LISTED, HIDDEN, WHOLE], ""),
            // Its table would be left over.
            (&[HIDDEN, LISTED], ""),
            (&[LISTED, WHOLE], "has lost the family `hidden`"),
            (
                &[HIDDEN, "[[family]]\nname = \"a\"\nclaims = [\"/a/**\"]\n", WHOLE],
                "`a` has lost its `routes`",
            ),
        ] {
            let found = contract(&present, &load(parts));
            assert_eq!(found.len(), usize::from(!sign.is_empty()), "{parts:?}");
            assert!(found.iter().all(|fault| fault.message.contains(sign)), "{found:?}");
        }
    }

    #[test]
    fn a_beginning_is_a_sign_and_another_file_is_none() {
        let whole = Source::new("f", "a = 1\nb = 2\n");
        for (text, is_sign) in [
            ("a = 1\nb = 2\n", false),
            ("a = 1\n", true),
            ("a = 1\nb = 3", true),
            ("a = 2\n", false),
            ("a = 1\nb = 2\nc = 3\n", false),
            ("", true),
        ] {
            assert_eq!(file(&whole, &Source::new("f", text)).is_some(), is_sign, "{text:?}");
        }
    }
}
