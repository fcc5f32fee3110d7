//! Where each value of a configuration stands in its file, by the path of its keys.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::variables::Expanded;

/// The places of all keys of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    entries: BTreeMap<Vec<String>, Entry>,
}

/// One key of the file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The key itself.
    pub key: Range<usize>,
    /// Its value; for a table with a header, the header.
    pub value: Range<usize>,
    /// The variables in the value, when it is a string with references.
    pub variables: Vec<String>,
    /// Whether the value is a table.
    pub is_table: bool,
}

impl Places {
    /// Notes the places of all keys in a parsed file.
    pub fn of(table: &Spanned<DeTable<'_>>, expanded: &[Expanded]) -> Self {
        // In the order of the file, so that the strings within a value are found by halving.
        let mut expanded: Vec<&Expanded> = expanded.iter().collect();
        expanded.sort_by_key(|string| string.span.start);
        let mut places = Self::default();
        places.walk(table.get_ref(), &mut Vec::new(), &expanded);
        places
    }

    fn walk(&mut self, table: &DeTable<'_>, path: &mut Vec<String>, expanded: &[&Expanded]) {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            let span = value.span();
            let first = expanded.partition_point(|string| string.span.start < span.start);
            let variables = expanded
                .iter()
                .skip(first)
                .take_while(|string| string.span.end <= span.end)
                .flat_map(|string| string.names.iter().cloned())
                .collect();
            self.entries.insert(
                path.clone(),
                Entry {
                    key: key.span(),
                    value: span,
                    variables,
                    is_table: matches!(value.get_ref(), DeValue::Table(_)),
                },
            );
            if let DeValue::Table(inner) = value.get_ref() {
                self.walk(inner, path, expanded);
            }
            path.pop();
        }
    }

    /// The entry at exactly this path.
    pub fn get(&self, path: &[&str]) -> Option<&Entry> {
        // The map's keys are owned; a file has few of them, and this runs once for each finding.
        self.entries
            .get(&path.iter().map(|&key| key.to_owned()).collect::<Vec<_>>())
    }

    /// The entry at this path, or at the longest part of it that the file has.
    pub fn nearest(&self, path: &[&str]) -> Option<&Entry> {
        (1..=path.len())
            .rev()
            .find_map(|length| self.get(path.get(..length).unwrap_or_default()))
    }
}
