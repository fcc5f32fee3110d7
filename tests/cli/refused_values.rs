//! Every value of `gateway.toml` that could be taken for another one, or for none, is refused: with the name of
//! its variable and the reason, and without the value.

use crate::{folder, gateway};

/// A file whose workspace upstream is in a variable.
const FILE: &str = r#"contract = "contract.toml"

[listen]
public = "127.0.0.1:0"

[upstream.extension]
url = "http://extension:3002"

[upstream.workspace]
url = "${WORKSPACE_URL}"
"#;

/// Runs a subcommand that must find something, and returns what it wrote to standard error.
#[track_caller]
fn refused(configuration: &str, environment: &[(&str, &str)]) -> String {
    let (code, stdout, stderr) = gateway(folder(configuration).path(), &["check"], environment);
    assert_eq!(code, Some(1), "{configuration}\n{stderr}");
    assert!(!format!("{stdout}{stderr}").contains("s3cret"), "{stderr}");
    stderr
}

#[test]
fn an_upstream_variable_is_whole_or_the_start_fails() {
    let unset = refused(FILE, &[]);
    assert!(unset.contains("the variable `WORKSPACE_URL` is not set"), "{unset}");
    assert!(unset.contains("gateway.toml:10:8"), "{unset}");
    for (value, reason) in [
        ("", "empty or blank"),
        ("   ", "empty or blank"),
        ("\n", "empty or blank"),
        ("${WS_URL}", "unexpanded"),
        ("http://", "no host"),
        ("http://:8080", "no host"),
        ("ftp://s3cret", "none of `http`"),
        ("s3cret:8080", "no scheme"),
        ("http://s3cret/base/", "has a path"),
        ("http://u:s3cret@h", "holds credentials"),
        ("http://s3cret:8080\n", "line break"),
        ("http://s3cret:0", "1 to 65535"),
        ("http://s3cret:65536", "1 to 65535"),
        ("http://h?s3cret=1", "has a query"),
        ("http://h#s3cret", "has a fragment"),
    ] {
        let stderr = refused(FILE, &[("WORKSPACE_URL", value)]);
        assert!(stderr.contains(reason), "{value:?}: {stderr}");
        assert!(stderr.contains("`WORKSPACE_URL`"), "{value:?}: {stderr}");
        assert!(stderr.contains("gateway.toml:10:"), "{value:?}: {stderr}");
    }
}

#[test]
fn durations_and_sizes_have_units_and_are_not_zero_where_zero_means_nothing() {
    let sound = FILE.replace("${WORKSPACE_URL}", "http://workspace:3001");
    for (key, value, reason) in [
        ("connect_timeout", "0", "at least 1ms"),
        ("connect_timeout", "\"0s\"", "at least 1ms"),
        ("connect_timeout", "30", "no unit"),
        ("connect_timeout", "\"30\"", "no unit"),
        ("connect_timeout", "-1", "never negative"),
        ("connect_timeout", "\"-1s\"", "never negative"),
        ("connect_timeout", "\"1.5s\"", "is whole"),
        ("connect_timeout", "\"48h\"", "at most 24h"),
        ("connect_timeout", "\"\"", "is empty"),
        ("in_flight", "0", "outside its range"),
        ("in_flight", "-1", "expected usize"),
        ("in_flight", "\"10\"", "expected usize"),
        ("ready", "true", "does not say what to probe"),
        ("ready", "\"\"", "does not start with `/`"),
        ("ready", "\"readyz\"", "does not start with `/`"),
        ("ready", "{ path = \"/readyz\", rise = 0 }", "outside its range"),
        (
            "ready",
            "{ path = \"/readyz\", intervall = \"1s\" }",
            "did you mean `interval`?",
        ),
    ] {
        let stderr = refused(&format!("{sound}{key} = {value}\n"), &[]);
        assert!(stderr.contains(reason), "{key} = {value}: {stderr}");
        assert!(stderr.contains("gateway.toml:11:"), "{key} = {value}: {stderr}");
    }
}

#[test]
fn credentials_in_the_file_itself_are_not_printed_either() {
    for url in ["http://u:s3cret@h", "ftp://s3cret@h", "http://u:s3cret/@h"] {
        let literal = FILE.replace("${WORKSPACE_URL}", url);
        refused(&literal, &[]);
        // A fault elsewhere on the line, and one that keeps the file from being parsed.
        refused(
            &literal
                .replace(
                    "[upstream.workspace]\nurl = \"",
                    "[upstream]\nworkspace = { ulr = 1, url = \"",
                )
                .replace("h\"\n", "h\" }\n"),
            &[],
        );
        refused(&format!("{literal}= 1\n"), &[]);
        refused(&literal.replace("@h\"", "@h\" x"), &[]);
    }
}

#[test]
fn a_key_or_table_that_stands_twice_is_refused() {
    let sound = FILE.replace("${WORKSPACE_URL}", "http://workspace:3001");
    for twice in [
        "url = \"http://other:1\"\n",
        "[upstream.extension]\nurl = \"http://other:1\"\n",
    ] {
        let stderr = refused(&format!("{sound}{twice}"), &[]);
        assert!(stderr.contains("duplicate key"), "{stderr}");
        assert!(stderr.contains("GW0102"), "{stderr}");
    }
}
