//! The effective configuration: every value with defaults filled in, and where each came from.

use std::fmt::{self, Write as _};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

use super::{Loaded, variables};

/// The version of the JSON form.
pub const JSON_VERSION: u32 = 1;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The key is not in the file.
    Default,
    /// The file, by its line, and the variables whose values are in it.
    File {
        /// `file:line`.
        line: String,
        /// The names of variables, in order.
        variables: Vec<String>,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { line, variables } => {
                f.write_str(line)?;
                for name in variables {
                    write!(f, ", ${{{name}}}")?;
                }
                Ok(())
            }
        }
    }
}

/// The configuration as TOML that can be loaded again, with each value's origin in a comment.
///
/// # Errors
/// Only when a value cannot be serialized, which none of the configuration's types does.
pub fn toml(loaded: &Loaded) -> Result<String, serde_json::Error> {
    let mut out = String::new();
    write_table(&mut out, loaded, &tree(loaded)?, &mut Vec::new());
    Ok(out)
}

/// The configuration as JSON: `values` as in the file, `origins` by dotted key.
///
/// # Errors
/// As [`toml()`].
pub fn json(loaded: &Loaded) -> Result<Value, serde_json::Error> {
    let mut origins = Map::new();
    collect_origins(loaded, &tree(loaded)?, &mut Vec::new(), &mut origins);
    Ok(json!({
        "version": JSON_VERSION,
        "values": serde_json::to_value(&loaded.config)?,
        "origins": origins,
    }))
}

fn origin(loaded: &Loaded, path: &[String]) -> Origin {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let shorthand = || {
        // `ready = "/readyz"` stands for `ready.path`.
        let (&last, table) = path.split_last()?;
        loaded.entry(table).filter(|entry| last == "path" && !entry.is_table)
    };
    match loaded.entry(&path).or_else(shorthand) {
        None => Origin::Default,
        Some(entry) => {
            let place = route_contract::diagnostic::Place::new(&loaded.source, entry.key.clone());
            Origin::File {
                line: format!("{}:{}", loaded.source.name, place.line_column().0),
                variables: entry.variables.clone(),
            }
        }
    }
}

/// JSON with the order of keys kept, which is the order of the structs' fields.
enum Tree {
    Leaf(Value),
    Table(Vec<(String, Tree)>),
}

fn tree(loaded: &Loaded) -> Result<Tree, serde_json::Error> {
    serde_json::from_str(&serde_json::to_string(&loaded.config)?)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Tree;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }
            fn visit_unit<E>(self) -> Result<Tree, E> {
                Ok(Tree::Leaf(Value::Null))
            }
            fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
                Ok(Tree::Leaf(value.into()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
                Ok(Tree::Leaf(value.into()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
                Ok(Tree::Leaf(value.into()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
                Ok(Tree::Leaf(value.into()))
            }
            fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
                Ok(Tree::Leaf(value.into()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
                let mut elements: Vec<Value> = Vec::new();
                while let Some(element) = access.next_element()? {
                    elements.push(element);
                }
                Ok(Tree::Leaf(elements.into()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = access.next_entry()? {
                    entries.push(entry);
                }
                Ok(Tree::Table(entries))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// A table's own values first, then the tables in it: after a header all keys are that table's.
fn write_table(out: &mut String, loaded: &Loaded, tree: &Tree, path: &mut Vec<String>) {
    let Tree::Table(entries) = tree else { return };
    let has_values = entries.iter().any(|(_, inner)| matches!(inner, Tree::Leaf(_)));
    if has_values && !path.is_empty() {
        let header: Vec<String> = path.iter().map(|key| bare_or_quoted(key)).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "\n[{}]", header.join("."));
    }
    for (key, inner) in entries {
        let Tree::Leaf(value) = inner else { continue };
        path.push(key.clone());
        let origin = origin(loaded, path);
        path.pop();
        let key = bare_or_quoted(key);
        let _ = match value {
            Value::Null => writeln!(out, "# {key} is not set  # {origin}"),
            value => writeln!(out, "{key} = {}  # {origin}", literal(value)),
        };
    }
    for (key, inner) in entries {
        path.push(key.clone());
        write_table(out, loaded, inner, path);
        path.pop();
    }
}

fn collect_origins(loaded: &Loaded, tree: &Tree, path: &mut Vec<String>, origins: &mut Map<String, Value>) {
    match tree {
        Tree::Leaf(_) => {
            let key: Vec<String> = path.iter().map(|key| bare_or_quoted(key)).collect();
            let value = match origin(loaded, path) {
                Origin::Default => json!({ "from": "default" }),
                Origin::File { line, variables } => json!({ "from": "file", "line": line, "variables": variables }),
            };
            origins.insert(key.join("."), value);
        }
        Tree::Table(entries) => {
            for (key, inner) in entries {
                path.push(key.clone());
                collect_origins(loaded, inner, path, origins);
                path.pop();
            }
        }
    }
}

fn bare_or_quoted(key: &str) -> String {
    let bare = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if bare {
        key.to_owned()
    } else {
        quoted(&Value::from(key))
    }
}

/// A value as it is written; what would be taken for a variable is not one.
fn literal(value: &Value) -> String {
    variables::escaped(&quoted(value))
}

/// A JSON scalar or array of scalars is a TOML one, but for DEL, which TOML wants escaped in strings.
fn quoted(value: &Value) -> String {
    value.to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_source;
    use route_contract::diagnostic::Source;
    use std::path::Path;

    const TEXT: &str = "contract = \"contract.toml\"\n[listen]\npublic = \"${ADDR}:8080\"\n[upstream.a]\nurl = \
                        \"${URL:-http://inner}:80/\"\nready = \"/r\"\n[upstream.\"b.c\"]\nurl = \"http://h\"\nready = false\n";

    fn load(text: &str) -> Loaded {
        let environment = |name: &str| (name == "ADDR").then(|| "127.0.0.1".into());
        load_source(&Source::new("g.toml", text), Path::new(""), &environment).unwrap()
    }

    #[test]
    fn every_value_is_shown_with_its_origin() {
        let text = toml(&load(TEXT)).unwrap();
        for line in [
            "contract = \"contract.toml\"  # g.toml:1\nwatch = false  # default\n# threads is not set  # default\n\n[listen]\n",
            "public = \"127.0.0.1:8080\"  # g.toml:3, ${ADDR}\nadmin = \"127.0.0.1:9901\"  # default\n",
            "\n[upstream.a]\nurl = \"http://inner\"  # g.toml:5, ${URL}\nurls = []  # default\n",
            "\n[upstream.a.ready]\npath = \"/r\"  # g.toml:6\ninterval = \"2s\"  # default\n",
            "\n[upstream.\"b.c\"]\nurl = \"http://h\"  # g.toml:8\n",
            "ready = false  # g.toml:9\n",
            "body = \"1GiB\"  # default\n",
        ] {
            assert!(text.contains(line), "{line:?} not in {text}");
        }
    }

    #[test]
    fn the_shown_configuration_loads_to_itself() {
        let first = load(TEXT);
        let again = load(&toml(&first).unwrap());
        let values = |loaded: &Loaded| json(loaded).unwrap()["values"].clone();
        assert_eq!(values(&first), values(&again));
    }

    #[test]
    fn json_has_values_and_origins() {
        let shown = json(&load(TEXT)).unwrap();
        assert_eq!(shown["values"]["upstream"]["a"]["ready"]["rise"], 2);
        assert_eq!(shown["origins"]["upstream.a.url"]["variables"][0], "URL");
        assert_eq!(shown["origins"]["limits.body"]["from"], "default");
    }
}
