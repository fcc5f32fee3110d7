//! Strict TOML: a file is read into the one struct that describes its table, and every fault in it is
//! reported in one run, each with its place.
//!
//! `serde` stops at the first fault. Here the entry that holds the fault is taken out and the file is
//! read again, until nothing is left to complain about; so the structs stay plain `serde` structs with
//! `deny_unknown_fields`, and no key is written twice.

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::diagnostic::{Diagnostic, Place, Source, did_you_mean};

/// The largest file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// The most values of one file, keys and elements of lists together: a parsed value takes some two hundred bytes. What
/// parts values is counted before anything is parsed, so that what stands in strings and comments counts, too.
pub const MAX_VALUES: usize = 2_000_000;

/// The most faults of one file that are reported.
const MAX_FAULTS: usize = 50;

/// The most bytes that are read again and again for the sake of further faults: of a file of megabytes, fewer are told.
const MAX_REREAD: usize = 256 << 20;

/// The longest text of a fault, in characters; names and values of a file may have any length.
const MAX_TEXT: usize = 400;

/// The codes under which the faults of one kind of file are reported.
#[derive(Clone, Copy, Debug)]
pub struct Codes {
    /// The file cannot be read, is too large, or is not UTF-8.
    pub unreadable: &'static str,
    /// Not TOML.
    pub syntax: &'static str,
    /// A key that the table does not have.
    pub unknown_key: &'static str,
    /// A key that the table needs is missing.
    pub missing_key: &'static str,
    /// A value of the wrong type or out of range.
    pub invalid_value: &'static str,
}

/// Reads a file.
///
/// # Errors
/// One diagnostic when it cannot be opened, is over [`MAX_FILE_BYTES`], or is not UTF-8.
pub fn read_file(path: &Path, codes: &Codes) -> Result<Arc<Source>, Diagnostic> {
    let name = path.display().to_string();
    let file = std::fs::File::open(path).map_err(|error| unreadable(&name, codes, &error.to_string()))?;
    read_stream(&name, &mut &file, codes)
}

/// Reads a stream to its end; findings show it under `name`.
///
/// # Errors
/// One diagnostic when it cannot be read, is over [`MAX_FILE_BYTES`], or is not UTF-8.
pub fn read_stream(name: &str, stream: &mut dyn Read, codes: &Codes) -> Result<Arc<Source>, Diagnostic> {
    let mut bytes = Vec::new();
    stream
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(name, codes, &error.to_string()))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let why = format!("larger than {} MiB", MAX_FILE_BYTES >> 20);
        return Err(unreadable(name, codes, &why));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source::new(name, text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            Err(unreadable(name, codes, &format!("not UTF-8 at byte {at}")))
        }
    }
}

fn unreadable(name: &str, codes: &Codes, why: &str) -> Diagnostic {
    Diagnostic::error(codes.unreadable, format!("cannot read `{name}`: {why}"))
}

/// Parses TOML, reporting every syntax fault.
///
/// # Errors
/// All syntax faults, duplicate keys among them; one when there are more than [`MAX_VALUES`].
pub fn parse<'s>(source: &'s Arc<Source>, codes: &Codes) -> Result<Spanned<DeTable<'s>>, Vec<Diagnostic>> {
    if let Some(beyond) = memchr::memchr3_iter(b'=', b',', b'[', source.text.as_bytes()).nth(MAX_VALUES) {
        let fault = Diagnostic::error(codes.syntax, format!("the file has more than {MAX_VALUES} values"));
        return Err(vec![fault.at(Place::new(source, beyond..beyond + 1))]);
    }
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    if errors.is_empty() {
        return Ok(table);
    }
    Err(errors
        .iter()
        .take(MAX_FAULTS)
        .map(|error| {
            let mut diagnostic = Diagnostic::error(codes.syntax, sentence(error.message()));
            if let Some(span) = error.span() {
                diagnostic = diagnostic.at(Place::new(source, span));
            }
            diagnostic
        })
        .collect())
}

/// A table that was read as far as its faults allow.
#[derive(Debug)]
pub struct Salvaged<T> {
    /// What is left without the entries at fault; `None` where nothing is.
    pub value: Option<T>,
    /// All faults; empty where the value is whole.
    pub faults: Vec<Diagnostic>,
    /// Whether a table went as a whole, with everything that others may refer to.
    pub lost_a_table: bool,
}

/// Reads a parsed table into `T`, reporting every fault: unknown and missing keys, wrong types, values that
/// `T` refuses. What is left without them can be looked at for faults of other kinds in the same run.
pub fn salvage<T: DeserializeOwned>(table: Spanned<DeTable<'_>>, source: &Arc<Source>, codes: &Codes) -> Salvaged<T> {
    let mut table = table;
    let mut salvaged = Salvaged {
        value: None,
        faults: Vec::new(),
        lost_a_table: false,
    };
    // Keys that were taken out because of a fault: that they are missing now is no fault of the file's.
    let mut removed: Vec<Removed> = Vec::new();
    let mut read = 0;
    loop {
        let error = match T::deserialize(toml::de::Deserializer::from(table.clone())) {
            Ok(value) => {
                salvaged.value = Some(value);
                return salvaged;
            }
            Err(error) => error,
        };
        let fault = Fault::from(&error, codes);
        let span = error.span().unwrap_or(table.span());
        let follows = fault
            .missing
            .as_ref()
            .is_some_and(|key| removed.iter().any(|gone| gone.key == *key && gone.table == span));
        if !follows {
            salvaged
                .faults
                .push(fault.diagnostic.at(Place::new(source, span.clone())));
        }
        read += source.text.len();
        if salvaged.faults.len() >= MAX_FAULTS || read >= MAX_REREAD {
            return salvaged;
        }
        let keep_table = fault.missing.is_none();
        salvaged.lost_a_table |= !keep_table;
        let own = table.span();
        match remove_entry(table.get_mut(), own, &span, keep_table) {
            Some(entry) => removed.push(entry),
            None => return salvaged,
        }
    }
}

/// Reads a parsed table into `T`, whole or not at all.
///
/// # Errors
/// All faults, see [`salvage`].
pub fn deserialize<T: DeserializeOwned>(
    table: Spanned<DeTable<'_>>,
    source: &Arc<Source>,
    codes: &Codes,
) -> Result<T, Vec<Diagnostic>> {
    let salvaged = salvage(table, source, codes);
    match salvaged.value {
        Some(value) if salvaged.faults.is_empty() => Ok(value),
        _ => Err(salvaged.faults),
    }
}

/// Parses a source and reads it into `T`, reporting every fault.
///
/// # Errors
/// See [`parse`] and [`deserialize`].
pub fn load<T: DeserializeOwned>(source: &Arc<Source>, codes: &Codes) -> Result<T, Vec<Diagnostic>> {
    deserialize(parse(source, codes)?, source, codes)
}

struct Fault {
    diagnostic: Diagnostic,
    missing: Option<String>,
}

impl Fault {
    /// `serde` has no error kinds, only texts; these forms are its derive's own and are pinned by tests.
    fn from(error: &toml::de::Error, codes: &Codes) -> Self {
        let message = error.message();
        if let Some(rest) = message.strip_prefix("unknown field `") {
            let (key, rest) = rest.split_once('`').unwrap_or((rest, ""));
            let expected: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
            let mut diagnostic = Diagnostic::error(codes.unknown_key, shortened(format!("unknown key `{key}`")));
            diagnostic = match did_you_mean(key, expected.iter().copied()) {
                Some(meant) => diagnostic.with_help(format!("did you mean `{meant}`?")),
                None if expected.is_empty() => diagnostic,
                None => diagnostic.with_help(format!("the keys here are {}", listed(&expected))),
            };
            return Self {
                diagnostic,
                missing: None,
            };
        }
        if let Some(key) = message
            .strip_prefix("missing field `")
            .and_then(|rest| rest.strip_suffix('`'))
        {
            return Self {
                diagnostic: Diagnostic::error(codes.missing_key, format!("the key `{key}` is missing")),
                missing: Some(key.to_owned()),
            };
        }
        Self {
            diagnostic: Diagnostic::error(codes.invalid_value, sentence(message)),
            missing: None,
        }
    }
}

/// An entry that was taken out: its key, and the span of the table it stood in.
struct Removed {
    table: Range<usize>,
    key: String,
}

/// Takes out the innermost entry that holds `span`. `keep_table` is false when the table itself is at
/// fault (a key is missing in it): then the table goes.
fn remove_entry(table: &mut DeTable<'_>, own: Range<usize>, span: &Range<usize>, keep_table: bool) -> Option<Removed> {
    let key = table
        .iter()
        .find(|(key, value)| holds(&key.span(), span) || reaches(value, span))
        .map(|(key, _)| key.clone())?;
    if let Some(value) = table.get_mut(&key)
        && !holds(&key.span(), span)
        && let Some(inner) = remove_inside(value, span, keep_table)
    {
        return Some(inner);
    }
    table.remove(&key);
    Some(Removed {
        table: own,
        key: key.into_inner().into_owned(),
    })
}

fn remove_inside(value: &mut Spanned<DeValue<'_>>, span: &Range<usize>, keep_table: bool) -> Option<Removed> {
    let own = value.span();
    match value.get_mut() {
        DeValue::Table(table) => {
            if !keep_table && own == *span {
                return None;
            }
            remove_entry(table, own, span, keep_table)
        }
        DeValue::Array(array) => {
            let index = array.iter().position(|element| reaches(element, span))?;
            let element = array.get_mut(index)?;
            if let Some(inner) = remove_inside(element, span, keep_table) {
                return Some(inner);
            }
            *array = std::mem::replace(array, DeArray::new())
                .into_iter()
                .enumerate()
                .filter_map(|(at, element)| (at != index).then_some(element))
                .collect();
            Some(Removed {
                table: own,
                key: String::new(),
            })
        }
        _ => None,
    }
}

fn holds(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Whether the span lies in the value or in anything below it: the span of a table that has headers
/// covers its header alone.
fn reaches(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> bool {
    if holds(&value.span(), span) {
        return true;
    }
    match value.get_ref() {
        DeValue::Table(table) => table
            .iter()
            .any(|(key, value)| holds(&key.span(), span) || reaches(value, span)),
        DeValue::Array(array) => array.iter().any(|element| reaches(element, span)),
        _ => false,
    }
}

fn listed(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// One line, no full stop.
fn sentence(message: &str) -> String {
    shortened(message.trim().trim_end_matches('.').replace('\n', "; "))
}

fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    const CODES: Codes = Codes {
        unreadable: "T0",
        syntax: "T1",
        unknown_key: "T2",
        missing_key: "T3",
        invalid_value: "T4",
    };

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Outer {
        version: u32,
        #[serde(default)]
        item: Vec<Item>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Item {
        name: String,
        #[serde(default)]
        tags: Vec<String>,
    }

    fn faults(text: &str) -> Vec<(String, String)> {
        let source = Source::new("t.toml", text);
        load::<Outer>(&source, &CODES)
            .unwrap_err()
            .iter()
            .map(|d| {
                let place = d.place.as_ref().map(ToString::to_string).unwrap_or_default();
                (format!("{} {place}", d.code), d.message.clone())
            })
            .collect()
    }

    #[test]
    fn all_faults_of_a_file_are_reported_in_one_run() {
        let found = faults(
            "version = \"one\"\nextra = 1\n[[item]]\nname = 3\n[[item]]\nnam = \"x\"\n[[item]]\nname = \"y\"\ntags = [1, \"a\", 2]\n",
        );
        let codes: Vec<&str> = found.iter().map(|(code, _)| code.as_str()).collect();
        for expected in [
            "T2 t.toml:2:1",
            "T4 t.toml:1:11",
            "T4 t.toml:4:8",
            "T2 t.toml:6:1",
            "T3 t.toml:5:1",
            "T4 t.toml:9:9",
            "T4 t.toml:9:17",
        ] {
            assert!(codes.contains(&expected), "{expected} not in {found:#?}");
        }
        assert_eq!(codes.len(), 7, "{found:#?}");
    }

    #[test]
    fn syntax_faults_and_duplicate_keys_have_places() {
        let found = faults("version = 1\nversion = 2\nitem = [\n");
        assert!(
            found
                .iter()
                .any(|(place, message)| place == "T1 t.toml:2:1" && message.contains("duplicate")),
            "{found:?}"
        );
    }

    #[test]
    fn hostile_files_are_refused_in_bounded_time_and_words() {
        let long = "k".repeat(1 << 20);
        let found = faults(&format!("version = 1\n{long} = 1\n"));
        assert!(found[0].1.len() < 2 * MAX_TEXT, "{}", found[0].1.len());
        let found = faults(&format!("version = [{}]\n", "1,".repeat(MAX_VALUES + 1)));
        assert!(found[0].1.contains("more than"), "{found:?}");
        for nested in [
            "[".repeat(100_000),
            "{a=".repeat(100_000),
            format!("{}1", "a.".repeat(100_000)),
        ] {
            assert!(!faults(&format!("version = {nested}\n")).is_empty());
            assert!(!faults(&format!("{nested} = 1\n")).is_empty());
        }
        // Of a large file with many faults, some are told.
        let many: String = (0..200_000).map(|n| format!("[[item]]\nname = {n}\n")).collect();
        let found = faults(&format!("version = 1\n{many}"));
        assert!((1..=MAX_FAULTS).contains(&found.len()), "{}", found.len());
    }

    #[test]
    fn a_missing_key_names_itself() {
        assert_eq!(
            faults(""),
            [("T3 t.toml:1:1".to_owned(), "the key `version` is missing".to_owned())]
        );
    }
}
