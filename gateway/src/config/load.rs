//! From a file to a [`Config`]: read, parse, expand variables, deserialize. All faults are found in one run.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use route_contract::diagnostic::{Diagnostic, Place, Source};
use route_contract::document;

use super::mask::{cover, masked};
use super::places::{Entry, Places};
use super::variables::{self, Environment, Expanded};
use super::{Config, codes};

/// A configuration as its file gives it, with the places of its values.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The values, each valid by itself; see [`check`](super::check()) for what they mean together.
    pub config: Config,
    /// The file as findings show it: with any credentials in it covered.
    pub source: Arc<Source>,
    places: Places,
}

impl Loaded {
    /// The contract's file: a relative path is taken from the folder of the configuration.
    pub fn contract_path(&self) -> PathBuf {
        self.resolve(&self.config.contract)
    }

    /// A file named in the configuration: a relative path is taken from its folder.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.config.resolve(path)
    }

    /// The place of the value at a path of keys, or of the nearest table around it.
    pub(super) fn place(&self, path: &[&str]) -> Place {
        let span = self.places.nearest(path).map_or(0..0, |entry| entry.value.clone());
        Place::new(&self.source, span)
    }

    /// The place of the key at the end of a path, or the value of the nearest table around it.
    pub(crate) fn key_place(&self, path: &[&str]) -> Place {
        match self.places.get(path) {
            Some(entry) => Place::new(&self.source, entry.key.clone()),
            None => self.place(path),
        }
    }

    /// The files of certificates, keys and authorities that upstreams are spoken to with. Those of the listener are
    /// followed by themselves.
    pub fn files_of_tls(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let tables = self.config.upstream.values().filter_map(|table| table.tls.as_ref());
        let files = tables.flat_map(|tls| tls.ca.iter().chain(&tls.cert).chain(&tls.key));
        files.map(|file| self.resolve(file))
    }

    /// What the file says at exactly this path.
    pub(super) fn entry(&self, path: &[&str]) -> Option<&Entry> {
        self.places.get(path)
    }
}

/// Loads a configuration file.
///
/// # Errors
/// All faults of the file: unreadable, not TOML, unknown or missing keys, invalid values, variables that are
/// not set, blank, or malformed.
pub fn load(path: &Path, environment: Environment<'_>) -> Result<Loaded, Vec<Diagnostic>> {
    let source = document::read_file(path, &codes::DOCUMENT).map_err(|fault| vec![fault])?;
    let folder = path.parent().unwrap_or(Path::new(""));
    load_source(&source, folder, environment)
}

/// Loads a configuration from a text. Relative paths in it are taken from `folder`.
///
/// # Errors
/// As [`load`].
pub fn load_source(
    source: &Arc<Source>,
    folder: &Path,
    environment: Environment<'_>,
) -> Result<Loaded, Vec<Diagnostic>> {
    let salvaged = salvage(source, folder, environment);
    match salvaged.loaded {
        Some(loaded) if salvaged.faults.is_empty() => Ok(loaded),
        _ => Err(salvaged.faults),
    }
}

/// A configuration as far as the faults of its form allow.
pub(super) struct Salvaged {
    /// What is left without the values at fault, for a look at what the others mean; none where nothing is.
    pub loaded: Option<Loaded>,
    /// All faults of its form; empty where the configuration is whole.
    pub faults: Vec<Diagnostic>,
}

/// Reads what can be read of a text, see [`load_source`].
pub(super) fn salvage(source: &Arc<Source>, folder: &Path, environment: Environment<'_>) -> Salvaged {
    let shown = masked(source);
    let (config, faults) = read(source, environment);
    let loaded = config.map(|(mut config, places)| {
        config.folder = folder.to_owned();
        Loaded {
            config,
            source: Arc::clone(&shown),
            places,
        }
    });
    Salvaged {
        loaded,
        faults: cover(faults, source, &shown),
    }
}

fn read(source: &Arc<Source>, environment: Environment<'_>) -> (Option<(Config, Places)>, Vec<Diagnostic>) {
    let mut table = match document::parse(source, &codes::DOCUMENT) {
        Ok(table) => table,
        Err(faults) => return (None, faults),
    };
    let (expanded, mut faults) = variables::expand(&mut table, source, environment);
    if faults.len() >= variables::MAX_FAULTS {
        return (None, faults);
    }
    let places = Places::of(&table, &expanded);
    let unexpanded: Vec<Range<usize>> = faults
        .iter()
        .filter_map(|fault| fault.place.as_ref().map(|place| place.span.clone()))
        .collect();
    let salvaged = document::salvage::<Config>(table, source, &codes::DOCUMENT);
    faults.extend(
        salvaged
            .faults
            .into_iter()
            // A value that could not be expanded has had its fault reported already.
            .filter(|fault| !unexpanded.iter().any(|span| covers(fault, span)))
            .map(|fault| name_variables(explain(fault), &expanded)),
    );
    faults.sort_by_key(|fault| fault.place.as_ref().map_or(0, |place| place.span.start));
    (salvaged.value.map(|config| (config, places)), faults)
}

/// Says how to mend what the standard library and `ipnet` refuse in a few words.
fn explain(fault: Diagnostic) -> Diagnostic {
    let help = match fault.message.as_str() {
        "invalid socket address syntax" => {
            "an IP address and a port, such as \"127.0.0.1:8080\" or \"[::]:8080\"; names are not resolved"
        }
        "invalid IP address syntax" => "an address and a prefix length, such as \"10.0.0.0/8\" or \"fd00::/8\"",
        _ => return fault,
    };
    fault.with_help(help)
}

fn covers(fault: &Diagnostic, span: &Range<usize>) -> bool {
    fault.code == codes::DOCUMENT.invalid_value
        && fault
            .place
            .as_ref()
            .is_some_and(|place| place.span.start <= span.start && span.end <= place.span.end)
}

/// Where a refused value came from variables, says which, and takes the value out of the text.
///
/// The texts of this crate's own types never hold the value; `serde`'s general ones do.
fn name_variables(mut fault: Diagnostic, expanded: &[Expanded]) -> Diagnostic {
    /// Shorter values are found in harmless words.
    const TELLING: usize = 8;
    /// The forms of `serde::de::Error` that hold the value.
    const HOLDING: [&str; 4] = [
        "invalid type: ",
        "invalid value: ",
        "invalid length ",
        "unknown variant ",
    ];

    let Some(string) = expanded.iter().find(|string| covers(&fault, &string.span)) else {
        return fault;
    };
    let holds = HOLDING.iter().any(|form| fault.message.starts_with(form))
        || (string.value.len() >= TELLING && fault.message.contains(&string.value));
    if holds {
        // What was expected stands last in all these forms, so nothing of the value can follow it.
        fault.message = match fault.message.rsplit_once(", expected ") {
            Some((_, expected)) => format!("the value does not fit here, expected {expected}"),
            None => "the value does not fit here".to_owned(),
        };
    }
    let names: Vec<String> = string.names.iter().map(|name| format!("`{name}`")).collect();
    let (noun, verb) = if names.len() == 1 {
        ("variable", "gives")
    } else {
        ("variables", "give")
    };
    let origin = format!("the {noun} {} {verb} this value", names.join(", "));
    fault.help = Some(match fault.help.take() {
        Some(help) => format!("{origin}; {help}"),
        None => origin,
    });
    fault
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    const SOUND: &str = "contract = \"contract.toml\"\n[listen]\npublic = \"127.0.0.1:0\"\n";

    fn environment(name: &str) -> Option<OsString> {
        match name {
            "URL" => Some("http://user:s3cretpass@inner:1".into()),
            "LEVEL" => Some("s3cretpass, expected one".into()),
            "GOOD" => Some("http://inner:1".into()),
            "EMPTY" => Some("".into()),
            _ => None,
        }
    }

    fn faults(text: &str) -> Vec<String> {
        let source = Source::new("gateway.toml", text);
        load_source(&source, Path::new(""), &environment)
            .unwrap_err()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_sound_file_has_all_defaults() {
        let source = Source::new("gateway.toml", SOUND);
        let loaded = load_source(&source, Path::new("/etc/gateway"), &environment).unwrap();
        assert_eq!(loaded.contract_path(), Path::new("/etc/gateway/contract.toml"));
        assert_eq!(loaded.config.listen.admin.to_string(), "127.0.0.1:9901");
        assert_eq!(loaded.config.limits.headers, 100);
    }

    #[test]
    fn faults_of_variables_and_of_values_come_in_one_run_and_in_order() {
        let found = faults(
            "contract = \"c\"\nthread = 2\n[listen]\npublic = \"${NONE}\"\nadmin = \"x\"\n[upstream.a]\nurl = \
             \"${EMPTY}\"\n[upstream.b]\nurl = \"${GOOD}\"\nidle_timeout = \"30\"\n",
        );
        let codes: Vec<String> = found.iter().map(|text| text.chars().take(13).collect()).collect();
        let expected = ["GW0103", "GW0106", "GW0105", "GW0107", "GW0105"].map(|code| format!("error[{code}]"));
        assert_eq!(codes, expected, "{found:#?}");
        assert!(found[0].contains("did you mean `threads`?"), "{}", found[0]);
        assert!(found[1].contains("gateway.toml:4:11"), "{}", found[1]);
    }

    #[test]
    fn a_variable_is_named_and_its_value_is_not_shown() {
        for (line, name, words) in [
            ("[upstream.a]\nurl = \"${URL}\"", "URL", "credentials"),
            ("[log]\nlevel = \"${LEVEL}\"", "LEVEL", "expected one of"),
            ("[limits]\nheaders = \"${LEVEL}\"", "LEVEL", "expected usize"),
            ("[limits]\nbody = \"${URL}\"", "URL", "whole number and a unit"),
            ("[forwarded]\ntrusted = [\"${URL}\"]", "URL", "IP address"),
        ] {
            let found = faults(&format!("{SOUND}{line}\n")).concat();
            assert!(found.contains(&format!("`{name}`")), "{found}");
            assert!(found.contains(words), "{found}");
            assert!(!found.contains("s3cret"), "{found}");
        }
    }

    #[test]
    fn a_large_file_is_loaded_in_bounded_time() {
        let mut text = SOUND.to_owned();
        for index in 0..10_000 {
            text.push_str(&format!("[upstream.f{index}]\nurl = \"${{GOOD}}\"\n"));
        }
        let source = Source::new("gateway.toml", text.clone());
        let loaded = load_source(&source, Path::new(""), &environment).unwrap();
        assert_eq!(loaded.config.upstream.len(), 10_000);
        let source = Source::new("gateway.toml", text.replace("GOOD", "NONE"));
        assert_eq!(load_source(&source, Path::new(""), &environment).unwrap_err().len(), 50);
        // One word without an end, and one string with many references.
        let source = Source::new("gateway.toml", format!("{SOUND}x = \"{}\"", "://".repeat(300_000)));
        load_source(&source, Path::new(""), &environment).unwrap_err();
        let source = Source::new("gateway.toml", format!("{SOUND}x = \"{}\"", "${GOOD}".repeat(100_000)));
        load_source(&source, Path::new(""), &environment).unwrap_err();
    }

    proptest::proptest! {
        /// No bytes of a file make the loader or the check panic, and a place is always within the file.
        #[test]
        fn no_file_makes_the_loader_panic(
            at in 0..1_000_usize,
            cut in 0..40_usize,
            put in "[ -~é\n]{0,12}|\\$\\{[A-Z]{0,5}(:-)?\\}?|\\[[a-z.]{0,9}\\]\n|://[a-z@:]{0,8}",
        ) {
            let whole = format!(
                "{SOUND}admin = \"${{NONE:-[::1]:1}}\"\n[limits]\nhead_timeout = \"2s\"\nbody = \"1MiB\"\n\
                 [readiness]\nready = \"/r\"\n[forwarded]\ntrusted = [\"10.0.0.0/8\"]\n[upstream.a]\nurl = \
                 \"${{GOOD}}\"\nready = {{ path = \"/r\", rise = 2 }}\n"
            );
            let characters: Vec<char> = whole.chars().collect();
            let at = at.min(characters.len());
            let end = (at + cut).min(characters.len());
            let text: String = characters[..at].iter().copied().chain(put.chars()).chain(characters[end..].iter().copied()).collect();
            let source = Source::new("gateway.toml", text);
            match load_source(&source, Path::new(""), &environment) {
                Ok(loaded) => drop(crate::config::check(&loaded)),
                Err(faults) => {
                    assert!(!faults.is_empty());
                    for fault in faults {
                        assert!(fault.place.as_ref().is_none_or(|place| place.span.end <= source.text.len() + 1));
                        assert!(!fault.to_string().is_empty());
                    }
                }
            }
        }
    }
}
