//! The command line as people and scripts see it: exit code, standard output, standard error. Each test runs
//! the real binary in a folder of its own with an empty environment; the outputs are kept in `snapshots/`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use jsonschema::Draft;
use quick_xml::events::Event;
use serde_json::Value;
use tempfile::TempDir;

const CONTRACT: &str = r#"version = 1

[common]
routes = ["/healthz"]

[[family]]
name = "internal"
serve = "never"
claims = ["/internal/**"]

[[family]]
name = "extension"
owner = "extensions-team"
claims = ["/api/{workspace}/ext/**"]
routes = ["/api/{workspace}/ext/{domain:kebab}"]

[[family]]
name = "workspace"
claims = ["/api/{workspace}/**"]

[profile.extension]
owns = ["extension"]
routes = ["extension.toml"]

[profile.workspace]
owns = ["workspace"]
routes = [{ file = "workspace.yaml", format = "openapi" }]
"#;

const EXTENSION: &str = "[[route]]\nmethod = \"GET\"\npath = \"/api/{workspace}/ext/{domain}\"\n";

const WORKSPACE: &str = "openapi: 3.1.0\nservers: [{url: /api}]\npaths:\n  /{workspace}/files/{file}:\n    get: {}\n";

/// What breaks RC0202, and warns with RC0203.
const BROKEN: &str = "openapi: 3.1.0\nservers: [{url: /api}]\npaths:\n  /{workspace}/{part}/{file}:\n    get: {}\n  \
                      /{workspace}/ext/a,b%: {}\n";

const MISPLACED: &str = "openapi: 3.1.0\nservers: [{url: /api}]\npaths:\n  /{workspace}/{part}/{file}:\n    get: {}\n  \
                         /{workspace}/ext/a,b: {put: {}}\n";

fn folder(workspace: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in [
        ("contract.toml", CONTRACT),
        ("extension.toml", EXTENSION),
        ("workspace.yaml", workspace),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn run(folder: &Path, arguments: &[&str], input: &str, environment: &[(&str, &str)]) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_route-contract"))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads no input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// What a snapshot holds.
fn shown(folder: &Path, arguments: &[&str], input: &str) -> String {
    let (code, stdout, stderr) = run(folder, arguments, input, &[]);
    format!("exit code: {code}\n----- stdout -----\n{stdout}----- stderr -----\n{stderr}")
}

#[test]
fn check_in_text() {
    insta::assert_snapshot!(
        "check_clean",
        shown(folder(WORKSPACE).path(), &["check", "contract.toml"], "")
    );
    insta::assert_snapshot!(
        "check_findings",
        shown(folder(MISPLACED).path(), &["check", "contract.toml"], "")
    );
    insta::assert_snapshot!(
        "check_undecided",
        shown(folder(BROKEN).path(), &["check", "contract.toml"], "")
    );
    insta::assert_snapshot!(
        "check_no_file",
        shown(folder(WORKSPACE).path(), &["check", "none.toml"], "")
    );
}

/// A route of which a part belongs to another family is only warned of.
const PARTLY_ELSEWHERE: &str =
    "openapi: 3.1.0\nservers: [{url: /api}]\npaths:\n  /{workspace}/{part}/{file}:\n    get: {}\n";

#[test]
fn a_denied_warning_is_a_finding() {
    let folder = folder(PARTLY_ELSEWHERE);
    let (allowed, ..) = run(folder.path(), &["check", "contract.toml"], "", &[]);
    assert_eq!(allowed, 0);
    let arguments = ["check", "contract.toml", "--deny-warnings"];
    insta::assert_snapshot!("check_denied_warning", shown(folder.path(), &arguments, ""));
    let arguments = ["check", "contract.toml", "--deny-warnings", "--format", "junit"];
    let (code, junit, _) = run(folder.path(), &arguments, "", &[]);
    assert_eq!(code, 1);
    assert!(junit.contains("failures=\"1\""), "{junit}");
}

#[test]
fn check_in_every_format() {
    for format in ["json", "junit", "github"] {
        for (name, workspace) in [("findings", MISPLACED), ("undecided", BROKEN)] {
            let folder = folder(workspace);
            let arguments = ["check", "contract.toml", "--format", format];
            insta::assert_snapshot!(format!("check_{name}_{format}"), shown(folder.path(), &arguments, ""));
        }
    }
    // The rules of a SARIF report are the pages, which have a snapshot of their own in docs/rules.md.
    let (code, stdout, _) = run(
        folder(MISPLACED).path(),
        &["check", "contract.toml", "--format", "sarif"],
        "",
        &[],
    );
    let log: Value = serde_json::from_str(&stdout).unwrap();
    let results = serde_json::to_string_pretty(&log["runs"][0]["results"]).unwrap();
    insta::assert_snapshot!("check_findings_sarif", format!("exit code: {code}\n{results}\n"));
}

#[test]
fn the_exit_code_is_the_same_in_every_format() {
    for (workspace, expected) in [(WORKSPACE, 0), (MISPLACED, 1), (BROKEN, 2)] {
        let folder = folder(workspace);
        for format in ["text", "json", "junit", "sarif", "github"] {
            let (code, ..) = run(folder.path(), &["check", "contract.toml", "--format", format], "", &[]);
            assert_eq!(code, expected, "{format}");
        }
    }
}

#[test]
fn one_run_writes_all_reports() {
    let folder = folder(MISPLACED);
    let arguments = [
        "check",
        "contract.toml",
        "--output",
        "json=r.json",
        "--output",
        "junit=r.xml",
        "--output",
        "sarif=r.sarif",
        "--output",
        "github=-",
        "--output",
        "text=r.txt",
    ];
    let (code, stdout, stderr) = run(folder.path(), &arguments, "", &[]);
    assert_eq!((code, stderr.as_str()), (1, ""));
    assert!(stdout.starts_with("::error file=workspace.yaml,line=6,"), "{stdout}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    for (format, name) in [
        ("json", "r.json"),
        ("junit", "r.xml"),
        ("sarif", "r.sarif"),
        ("text", "r.txt"),
    ] {
        let (_, alone, _) = run(folder.path(), &["check", "contract.toml", "--format", format], "", &[]);
        assert_eq!(read(name), alone, "{format}");
    }
}

#[test]
fn reports_that_cannot_be_written() {
    for arguments in [
        &["--output", "json=-", "--format", "text"][..],
        &["--output", "json=a", "--output", "sarif=a"],
        &["--output", "json=no/such/folder"],
        &["--output", "yaml=x"],
        &["--output", "json"],
        &["--expect-digest", "sha256:12"],
    ] {
        let folder = folder(WORKSPACE);
        let all = [&["check", "contract.toml"], arguments].concat();
        let (code, _, stderr) = run(folder.path(), &all, "", &[]);
        assert_eq!(code, 2, "{arguments:?}");
        assert!(!stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn sarif_is_valid_by_its_schema() {
    let schema: Value = serde_json::from_str(include_str!("schemas/sarif-2.1.0.json")).unwrap();
    let validator = jsonschema::options().with_draft(Draft::Draft7).build(&schema).unwrap();
    for workspace in [WORKSPACE, MISPLACED, BROKEN] {
        let (_, stdout, _) = run(
            folder(workspace).path(),
            &["check", "contract.toml", "--format", "sarif"],
            "",
            &[],
        );
        let log: Value = serde_json::from_str(&stdout).unwrap();
        let errors: Vec<String> = validator.iter_errors(&log).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
}

#[test]
fn json_is_valid_by_its_schema_and_the_published_schemas_are_these() {
    for subject in ["report", "contract", "manifest"] {
        let (code, printed, _) = run(Path::new("."), &["schema", subject], "", &[]);
        assert_eq!(code, 0);
        let name = if subject == "report" { "check-report" } else { subject };
        let published = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/schemas/{name}.schema.json"));
        same_or_write(&published, &printed);
    }
    let (_, schema, _) = run(Path::new("."), &["schema", "report"], "", &[]);
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    for workspace in [WORKSPACE, MISPLACED, BROKEN] {
        let (_, stdout, _) = run(
            folder(workspace).path(),
            &["check", "contract.toml", "--format", "json"],
            "",
            &[],
        );
        let report: Value = serde_json::from_str(&stdout).unwrap();
        assert!(validator.is_valid(&report), "{stdout}");
        assert_eq!(report["version"], 1);
    }
}

#[test]
fn contracts_are_valid_by_their_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let validator = |subject: &str| {
        let (_, schema, _) = run(Path::new("."), &["schema", subject], "", &[]);
        jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap()
    };
    let read = |text: &str| -> Value { toml::from_str(text).unwrap() };
    let reference = fs::read_to_string(root.join("config/agentteam/contract.toml")).unwrap();
    let contract = validator("contract");
    for text in [&reference, CONTRACT] {
        let errors: Vec<String> = contract
            .iter_errors(&read(text))
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
    assert!(!contract.is_valid(&read(&CONTRACT.replace("claims", "clams"))));
    assert!(!contract.is_valid(&read(&CONTRACT.replace("file =", "fil ="))));
    assert!(validator("manifest").is_valid(&read(EXTENSION)));
}

/// Each block of TOML of a page.
fn toml_blocks(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    let blocks = text.split("```toml\n").skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_examples_of_the_pages_are_clean() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("profiles")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let blocks = toml_blocks("contract.md");
    let extension = &blocks[1];
    let workspace = "[[route]]\nmethod = \"GET\"\npath = \"/api/v1/workspaces/{workspace}/**\"\n";
    write("contract.toml", &blocks[0]);
    write("profiles/extension.toml", extension);
    write("profiles/workspace.toml", workspace);
    write("profiles/all.toml", &format!("{extension}{workspace}"));
    let (code, stdout, _) = run(folder.path(), &["check", "contract.toml"], "", &[]);
    assert_eq!(code, 0, "{stdout}");

    let imports = &toml_blocks("import.md")[0];
    let contract =
        format!("version = 1\n[[family]]\nname = \"workspace\"\nclaims = [\"/api/**\", \"/v/**\"]\n{imports}");
    write("contract.toml", &contract);
    write(
        "profiles/workspace.toml",
        "[[route]]\nmethod = \"GET\"\npath = \"/v/{a}\"\n",
    );
    write(
        "workspace-openapi.yaml",
        "openapi: 3.0.0\npaths: {'/v/{a}/b': {get: {}}}\n",
    );
    write("routes.jsonl", "{\"method\": \"PUT\", \"path\": \"/v/:a/c\"}\n");
    write(
        "mappings.json",
        "{\"contexts\": {\"a\": {\"mappings\": {\"dispatcherServlets\": {\"d\": [\n{\"predicate\": \"/**\"},\n\
         {\"predicate\": \"/x/**\"}]}}}}}\n",
    );
    let (code, stdout, _) = run(folder.path(), &["check", "contract.toml"], "", &[]);
    assert_eq!(code, 0, "{stdout}");
    assert!(stdout.contains("workspace 4 routes"), "{stdout}");
}

/// The pages under `docs/` that are made of the program: `UPDATE_DOCS=1 cargo test` writes them.
fn same_or_write(path: &Path, made: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, made).unwrap();
    }
    let published = fs::read_to_string(path).unwrap_or_default();
    assert!(
        published == made,
        "{} is not what the program makes; UPDATE_DOCS=1 cargo test -p route-contract --test cli writes it",
        path.display()
    );
}

#[test]
fn the_page_of_all_rules_is_what_the_program_prints() {
    let (code, printed, _) = run(Path::new("."), &["rules", "--markdown"], "", &[]);
    assert_eq!(code, 0);
    same_or_write(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/rules.md"),
        &printed,
    );
    let (_, listed, _) = run(Path::new("."), &["rules"], "", &[]);
    for line in listed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(
            printed.contains(&format!("\n### {} {} ({})\n", words[0], words[1], words[2])),
            "{line}"
        );
    }
}

/// Each element with its attributes, in order.
fn elements(xml: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut reader = quick_xml::Reader::from_str(xml);
    let mut elements = Vec::new();
    loop {
        match reader.read_event().unwrap() {
            Event::Eof => return elements,
            Event::Start(element) | Event::Empty(element) => {
                let attributes = element
                    .attributes()
                    .map(|attribute| {
                        let attribute = attribute.unwrap();
                        let value = quick_xml::escape::unescape(&attribute.value).unwrap().into_owned();
                        (attribute.key.as_ref().to_owned(), value)
                    })
                    .collect();
                elements.push((element.name().as_ref().to_owned(), attributes));
            }
            _ => {}
        }
    }
}

#[test]
fn junit_is_read_by_a_parser() {
    for (workspace, failing, element) in [
        (WORKSPACE, 0, "failure"),
        (MISPLACED, 1, "failure"),
        (BROKEN, 1, "error"),
    ] {
        let (_, xml, _) = run(
            folder(workspace).path(),
            &["check", "contract.toml", "--format", "junit"],
            "",
            &[],
        );
        let elements = elements(&xml);
        let of = |name: &str| {
            elements
                .iter()
                .filter(|(element, _)| element == name)
                .collect::<Vec<_>>()
        };
        let suite = of("testsuite")[0];
        let attribute = |name: &str| suite.1.iter().find(|(key, _)| key == name).unwrap().1.clone();
        assert_eq!(attribute("tests"), of("testcase").len().to_string());
        assert_eq!(
            attribute(if element == "error" { "errors" } else { "failures" }),
            failing.to_string()
        );
        assert_eq!(of(element).len(), failing);
        for (_, attributes) in of(element) {
            let message = &attributes.iter().find(|(key, _)| key == "message").unwrap().1;
            assert!(message.contains('`'), "{message}");
        }
    }
}

#[test]
fn github_is_told_the_worst_first_and_no_more_than_it_shows() {
    let mut workspace = "openapi: 3.0.0\npaths:\n".to_owned();
    for number in 0..12 {
        workspace.push_str(&format!("  /elsewhere/{number}: {{get: {{}}}}\n"));
    }
    workspace.push_str("  /api/{workspace}/{part}/{file}: {get: {}}\n");
    let (code, stdout, _) = run(
        folder(&workspace).path(),
        &["check", "contract.toml", "--format", "github"],
        "",
        &[],
    );
    assert_eq!(code, 1);
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(lines[..10].iter().all(|line| line.starts_with("::error ")), "{stdout}");
    assert!(
        lines[10..12].iter().all(|line| line.starts_with("error[RC0202]: ")),
        "{stdout}"
    );
    assert!(lines[12].starts_with("::warning "), "{stdout}");
    let name = folder(WORKSPACE);
    fs::write(name.path().join("a,b: 100%.toml"), "x").unwrap();
    let (_, stdout, _) = run(name.path(), &["check", "a,b: 100%.toml", "--format", "github"], "", &[]);
    assert!(
        stdout.starts_with("::error file=a%2Cb%3A 100%25.toml,line=1,"),
        "{stdout}"
    );
}

#[test]
fn the_expected_digest_is_a_finding() {
    let folder = folder(WORKSPACE);
    let (_, digest, _) = run(folder.path(), &["digest", "contract.toml"], "", &[]);
    let (code, ..) = run(
        folder.path(),
        &["check", "contract.toml", "--expect-digest", digest.trim()],
        "",
        &[],
    );
    assert_eq!(code, 0);
    let other = format!("sha256:{}", "0".repeat(64));
    let (code, stdout, _) = run(
        folder.path(),
        &["check", "contract.toml", "--expect-digest", &other],
        "",
        &[],
    );
    assert_eq!(code, 1);
    assert!(
        stdout.starts_with("error[RC0701]: the digest of the contract is sha256:"),
        "{stdout}"
    );
}

#[test]
fn the_contract_may_come_from_standard_input() {
    let folder = folder(WORKSPACE);
    for arguments in [
        &["check", "-"][..],
        &["list", "-"],
        &["digest", "-"],
        &["explain", "-", "/api/w/files/x"],
    ] {
        let file: Vec<&str> = arguments
            .iter()
            .map(|word| if *word == "-" { "contract.toml" } else { word })
            .collect();
        let mut from_file = run(folder.path(), &file, "", &[]);
        from_file.1 = from_file.1.replace("contract.toml:", "<stdin>:");
        assert_eq!(run(folder.path(), arguments, CONTRACT, &[]), from_file, "{arguments:?}");
        assert_eq!(from_file.0, 0, "{arguments:?}: {}", from_file.1);
    }
    let (code, stdout, _) = run(folder.path(), &["check", "-"], "version = 2\n", &[]);
    assert_eq!(code, 2);
    assert!(stdout.contains("--> <stdin>:1:"), "{stdout}");
}

#[test]
fn colours_are_for_terminals() {
    let folder = folder(MISPLACED);
    let arguments = ["check", "contract.toml"];
    let (_, plain, _) = run(folder.path(), &arguments, "", &[("TERM", "xterm-256color")]);
    assert!(!plain.contains('\u{1b}'));
    let (_, forced, _) = run(folder.path(), &arguments, "", &[("CLICOLOR_FORCE", "1")]);
    assert!(forced.starts_with("\u{1b}["), "{forced}");
    let stripped = anstream::adapter::strip_str(&forced).to_string();
    assert_eq!(stripped, plain);
    let (_, refused, _) = run(
        folder.path(),
        &arguments,
        "",
        &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")],
    );
    assert_eq!(refused, plain);
    let report = folder.path().join("r.txt");
    let arguments = ["check", "contract.toml", "--output", "text=r.txt"];
    run(folder.path(), &arguments, "", &[("CLICOLOR_FORCE", "1")]);
    assert_eq!(fs::read_to_string(report).unwrap(), plain);
}

#[test]
fn the_other_commands() {
    let folder = folder(WORKSPACE);
    let targets = "/api/w/ext/github?x=1\n/api/w/ext/a_b\n/internal/x\n/nowhere\n/api/w/files/%2e%2e\n/%zz\n";
    for (name, arguments, input) in [
        ("list", &["list", "contract.toml"][..], ""),
        ("list_json", &["list", "contract.toml", "--format", "json"], ""),
        ("explain_owned", &["explain", "contract.toml", "/api/w/files/x"], ""),
        ("explain_refused", &["explain", "contract.toml", "/api/w/ext/a/b"], ""),
        ("explain_rule", &["explain", "rc0202"], ""),
        ("explain_no_rule", &["explain", "RC0922"], ""),
        ("classify", &["classify", "contract.toml"], targets),
        (
            "classify_json",
            &["classify", "contract.toml", "--format", "json"],
            targets,
        ),
        ("classify_undecided", &["classify", "none.toml"], targets),
        ("digest_undecided", &["digest", "none.toml"], ""),
        ("diff_same", &["diff", "contract.toml", "contract.toml"], ""),
        ("diff_from_input", &["diff", "-", "contract.toml"], CONTRACT),
        ("diff_with_input_twice", &["diff", "-", "-"], CONTRACT),
        ("map_from_input", &["map", "-", "--format", "mermaid"], CONTRACT),
        ("schema_unknown", &["schema", "reprot"], ""),
        ("check_help", &["check", "--help"], ""),
        (
            "check_unknown_format",
            &["check", "contract.toml", "--format", "xml"],
            "",
        ),
        ("unknown_command", &["chekc"], ""),
    ] {
        insta::assert_snapshot!(name, shown(folder.path(), arguments, input));
    }
}

#[test]
fn completions_and_manual_pages_name_every_command() {
    let (_, help, _) = run(Path::new("."), &["--help"], "", &[]);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.contains(&"check") && commands.len() > 8, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, script, _) = run(Path::new("."), &["completions", shell], "", &[]);
        assert_eq!(code, 0);
        for command in &commands {
            assert!(script.contains(command), "{shell} lacks {command}");
        }
    }
    let (code, page, _) = run(Path::new("."), &["man"], "", &[]);
    assert_eq!(code, 0);
    assert!(page.contains(".TH route-contract 1"), "{page}");
    let folder = TempDir::new().unwrap();
    let (code, ..) = run(folder.path(), &["man", "--folder", "."], "", &[]);
    assert_eq!(code, 0);
    for command in commands.iter().filter(|command| **command != "help") {
        let name = format!("route-contract-{command}.1");
        assert!(folder.path().join(&name).exists(), "{name}");
    }
}
