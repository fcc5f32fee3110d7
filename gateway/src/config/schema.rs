//! The JSON Schema of `gateway.toml`, for editors: made of the structs that the file is read into.
//!
//! It says a little less than `gateway check` does: it knows nothing of the contract, and takes any text that holds a
//! variable.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};
use serde_json::{Map, Value, json};

use super::{
    AdminHost, Affinity, Config, Duration, Probe, Ready, SecretFile, Share, Size, SocketMode, Statuses, UpstreamUrl,
    WithheldHeader,
};

/// The schema (JSON Schema 2020-12).
pub fn schema() -> Schema {
    let mut schema = schema_for!(Config);
    if let Some(root) = schema.as_object_mut() {
        root.values_mut().for_each(admit_variables);
    }
    schema
}

/// Wherever a text has a form, one with a variable is right, too.
fn admit_variables(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(admit_variables),
        Value::Object(keys) => {
            keys.values_mut().for_each(admit_variables);
            if has_form(keys) {
                let form = std::mem::take(keys);
                let (about, form): (Map<_, _>, Map<_, _>) = form
                    .into_iter()
                    .partition(|(key, _)| matches!(key.as_str(), "description" | "default" | "title"));
                *keys = about;
                keys.insert(
                    "anyOf".to_owned(),
                    json!([form, {"type": "string", "pattern": "\\$\\{"}]),
                );
            }
        }
        _ => {}
    }
}

/// Whether it stands for texts of some form.
fn has_form(keys: &Map<String, Value>) -> bool {
    let is_text = keys.get("type").is_some_and(|is| is == "string");
    let is_word = |word: &Value| word.get("const").is_some_and(Value::is_string);
    let are_words = keys
        .get("oneOf")
        .and_then(Value::as_array)
        .is_some_and(|words| words.iter().all(is_word));
    are_words || is_text && (keys.contains_key("pattern") || keys.contains_key("enum"))
}

/// Types that are written as texts of a form.
macro_rules! texts {
    ($($type:ty, $name:literal, $pattern:literal;)*) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    )*};
}

texts! {
    AdminHost, "AdminHost", "^[A-Za-z0-9._-]+$";
    Affinity, "Affinity", "^(param|header):.+$";
    Duration, "Duration", "^[0-9]+(ms|s|m|h)$";
    SecretFile, "SecretFile", "^file:.+$";
    Share, "Share", "^(100|[0-9]{1,2})%$";
    Size, "Size", "^[0-9]+(B|KiB|MiB|GiB)$";
    SocketMode, "SocketMode", "^0[67][0-7]{2}$";
    Statuses, "Statuses", "^([2-5]xx|[2-5][0-9]{2}(-[2-5][0-9]{2})?)$";
    UpstreamUrl, "Url", "^(https?|h2c)://[^/?#@]+/?$";
    WithheldHeader, "WithheldHeader", "^[A-Za-z0-9-]+$";
}

impl JsonSchema for Ready {
    fn schema_name() -> Cow<'static, str> {
        "Ready".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<Probe>();
        json_schema!({ "anyOf": [{ "const": false }, { "type": "string", "pattern": "^/" }, table] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the schema takes a file.
    fn takes(text: &str) -> Result<(), String> {
        let schema = serde_json::to_value(schema()).unwrap();
        let file: Value = toml::from_str(text).unwrap();
        let found = jsonschema::validate(&schema, &file);
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn it_takes_what_is_right_and_finds_what_is_not() {
        const SOUND: &str = "contract = \"c\"\nwatch = true\n[listen]\npublic = \"127.0.0.1:80\"\n[upstream.a]\nurl = \
                             \"http://h:80\"\n";
        assert_eq!(takes(SOUND), Ok(()));
        for (line, is_right) in [
            ("ready = false", true),
            ("ready = true", false),
            ("ready = \"/r\"", true),
            ("ready = { path = \"/r\", rise = 1, status = \"200-399\" }", true),
            ("ready = { pth = \"/r\" }", false),
            ("idle_timeout = \"${TIME}\"", true),
            ("idle_timeout = \"3s\"", true),
            ("idle_timeout = \"3\"", false),
            ("idle_timeout = 3", false),
            ("balance = \"least-in-flight\"", true),
            ("balance = \"${BALANCE:-round-robin}\"", true),
            ("balance = \"random\"", false),
            ("in_flight = -1", false),
            ("protocol = \"h2\"", true),
            ("retry_budget = \"20%\"", true),
            ("surprise = 1", false),
        ] {
            let found = takes(&format!("{SOUND}{line}\n"));
            assert_eq!(found.is_ok(), is_right, "{line}: {found:?}");
        }
    }

    #[test]
    fn the_published_schema_is_this_one_and_takes_the_shipped_files() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let published = std::fs::read_to_string(root.join("docs/schemas/gateway.schema.json")).unwrap();
        let printed = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
        assert!(
            published == printed,
            "write it anew: gateway schema > docs/schemas/gateway.schema.json"
        );
        let mut files = 0;
        for folder in std::fs::read_dir(root.join("config")).unwrap() {
            for entry in std::fs::read_dir(folder.unwrap().path()).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                if name.starts_with("gateway") && name.ends_with(".toml") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    assert_eq!(takes(&text), Ok(()), "{}", path.display());
                    assert!(text.starts_with("#:schema "), "{} names no schema", path.display());
                    files += 1;
                }
            }
        }
        assert!(files >= 3, "only {files} files");
    }
}
