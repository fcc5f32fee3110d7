use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::contract::Contract;

/// A contract whose one profile `p` names one file.
fn load(entry: &str, file: &str, text: &str) -> Result<Contract, Vec<Diagnostic>> {
    let contract = format!(
        "version = 1\n[kinds]\ncode = '[a-z]{{2}}'\n[[family]]\nname = 'f'\nclaims = ['/**']\n\
         [profile.p]\nowns = ['f']\nroutes = [{entry}]\n[profile.q]\nowns = ['f']\nroutes = []\n"
    );
    let files: BTreeMap<&str, &str> = BTreeMap::from([("c.toml", contract.as_str()), (file, text)]);
    Contract::load_with(Path::new("c.toml"), &|path| {
        let name = path.display().to_string();
        match files.get(name.as_str()) {
            Some(text) => Ok(Source::new(name, *text)),
            None => Err(Diagnostic::error("RC0101", format!("no {name}"))),
        }
    })
}

/// The routes of the profile, each with its line.
fn routes(entry: &str, file: &str, text: &str) -> Vec<String> {
    let contract = load(entry, file, text).unwrap_or_else(|faults| panic!("{faults:#?}"));
    contract
        .profile("p")
        .unwrap()
        .routes
        .iter()
        .flatten()
        .map(|route| format!("{} {} @{}", route.method, route.template, route.place.line_column().0))
        .collect()
}

/// The faults: code, place, message.
fn faults(entry: &str, file: &str, text: &str) -> Vec<String> {
    match load(entry, file, text) {
        Ok(_) => Vec::new(),
        Err(faults) => faults
            .iter()
            .map(|fault| {
                let place = fault.place.as_ref().map(ToString::to_string).unwrap_or_default();
                format!("{} {place} {}", fault.code, fault.message)
            })
            .collect(),
    }
}

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/import").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

const OPENAPI: &str = r##"openapi: 3.1.0
servers:
  - url: https://{host}.example.com:8443/{base}/
    variables:
      host: {default: api}
      base: {default: v1}
  - url: /v2
paths:
  /pets/{petId}:
    parameters: []
    get: {}
    post:
      servers: [{url: //other.example.com}]
  /files/{file-name}.{ext:
    x-nothing: 1
  x-extension: ignored
components:
  pathItems:
    shared: {put: {}}
"##;

#[test]
fn openapi_paths_stand_below_the_base_paths_of_their_servers() {
    let text = OPENAPI.replace(
        "  /files/{file-name}.{ext:\n    x-nothing: 1\n",
        "  /files/{file-name}.json: {}\n  /shared: {$ref: '#/components/pathItems/shared'}\n",
    );
    assert_eq!(
        routes("'o.yaml'", "o.yaml", &text),
        [
            "GET /v1/pets/{petId} @9",
            "GET /v2/pets/{petId} @9",
            "POST /pets/{petId} @9",
            "* /v1/files/{file-name}.json @14",
            "* /v2/files/{file-name}.json @14",
            "PUT /v1/shared @15",
            "PUT /v2/shared @15",
        ]
    );
}

#[test]
fn openapi_that_cannot_be_said_is_an_error_with_its_place() {
    let paths = |path: &str, item: &str| format!("openapi: 3.0.3\npaths:\n  {path}: {item}\n");
    for (text, expected) in [
        (
            paths("/a/{b}{c}", "{get: {}}"),
            "RC0107 o.yaml:3:3 `/a/{b}{c}` cannot be said",
        ),
        (paths("'/a#x'", "{get: {}}"), "RC0107 o.yaml:3:3 `/a#x` cannot be said"),
        (paths("a", "{get: {}}"), "RC0107 o.yaml:3:3 `a` cannot be said"),
        (paths("/a", "{gett: {}}"), "RC0103 o.yaml:3:8 `gett` is no method"),
        (
            paths("/a", "{get: 1}"),
            "RC0105 o.yaml:3:13 an operation should stand here",
        ),
        (paths("/a", "[]"), "RC0105 o.yaml:3:7 a path item should stand here"),
        (
            paths("/a", "{$ref: 'other.yaml'}"),
            "RC0108 o.yaml:3:14 the reference leads",
        ),
        (
            paths("/a", "{$ref: '#/paths/~1a'}"),
            "RC0105 o.yaml:3:7 more than 16 references",
        ),
        (
            paths("/a", "{$ref: '#/paths/~1a', get: {}}"),
            "RC0105 o.yaml:3:29 an operation beside",
        ),
        (
            "openapi: 3.0.3\n".to_owned(),
            "RC0104 o.yaml:1:1 the key `paths` is missing",
        ),
        (
            "openapi: 4.0.0\npaths: {}\n".to_owned(),
            "RC0105 o.yaml:1:10 OpenAPI `4.0.0` is not read",
        ),
        (
            "swagger: '2.0'\npaths: {}\n".to_owned(),
            "RC0105 o.yaml:1:10 Swagger 2.0",
        ),
        (
            "openapi: 3.0.0\npaths: {}\npaths: {}\n".to_owned(),
            "RC0102 o.yaml:3:1 duplicate key",
        ),
        (
            "openapi: 3.0.0\nservers: [{url: v1}]\npaths: {/a: {get: {}}}\n".to_owned(),
            "RC0105 o.yaml:2:17 the base path of the server `v1` cannot be told",
        ),
        (
            "openapi: 3.0.0\nservers: [{url: '/{x}'}]\npaths: {/a: {get: {}}}\n".to_owned(),
            "RC0105 o.yaml:2:17 the base path of the server `/{x}` cannot be told: the variable `x` has no default",
        ),
        (
            "hello: 1\n".to_owned(),
            "RC0105 c.toml:9:11 `o.yaml` is not read: its format cannot be told",
        ),
    ] {
        let found = faults("'o.yaml'", "o.yaml", &text);
        assert!(
            found.iter().any(|found| found.starts_with(expected)),
            "{expected}\nnot in {found:#?} of\n{text}"
        );
    }
}

#[test]
fn json_lines_name_method_path_profile_and_source() {
    let text = "\u{feff}{\"method\":\"GET\",\"path\":\"/a/:id\",\"source\":\"app.js:3\"}\n\n\
                {\"method\":\"PUT\",\"path\":\"\\/b\",\"profile\":\"p\"}\r\n\
                {\"method\":\"PUT\",\"path\":\"/c\",\"profile\":\"q\"}\n";
    assert_eq!(routes("'r.jsonl'", "r.jsonl", text), ["GET /a/{id} @1", "PUT /b @3"]);
    let entry = "{ file = 'r.txt', format = 'json-lines', syntax = 'gin', prefix = '/api' }";
    let text = "{\"method\":\"*\",\"path\":\"/f/*p\"}\n";
    assert_eq!(routes(entry, "r.txt", text), ["* /api/f/ @1", "* /api/f/{rest}/** @1"]);
}

#[test]
fn every_faulty_line_is_reported() {
    let text = "{\"method\":\"get\",\"path\":\"/a\"}\n{\"method\":\"GET\",\"path\":\"/b/*\"}\nGET /c\n\
                {\"method\":\"GET\",\"path\":\"/d\",\"profile\":\"r\"}\n{\"method\":\"GET\",\"pth\":\"/e\"}\n{\"method\":\"GET\"}\n\
                {\"method\":\"GET\",\"path\":\"/f\"\n{\"method\":\"GET\",\"path\":7}\n";
    let found = faults("'r.ndjson'", "r.ndjson", text);
    for expected in [
        "RC0105 r.ndjson:1:11 a method is written in upper case: `GET`",
        "RC0107 r.ndjson:2:24 `/b/*` cannot be said",
        "RC0102 r.ndjson:3:1 each line is one JSON object",
        "RC0108 r.ndjson:4:39 there is no profile `r`",
        "RC0103 r.ndjson:5:17 unknown key `pth`",
        "RC0104 r.ndjson:6:1 the key `path` is missing",
        "RC0102 r.ndjson:7:",
    ] {
        assert!(
            found.iter().any(|found| found.starts_with(expected)),
            "{expected}\nnot in {found:#?}"
        );
    }
}

#[test]
fn an_entry_of_routes_is_strict_and_its_exceptions_are_not_stale() {
    let text = "{\"method\":\"GET\",\"path\":\"/a\"}\n{\"method\":\"GET\",\"path\":\"/b/*\"}\n";
    let entry = "{ file = 'r.jsonl', except = [{ path = '/b/*', reason = 'static files' }] }";
    assert_eq!(routes(entry, "r.jsonl", text), ["GET /a @1"]);
    for (entry, expected) in [
        ("{ fil = 'r.jsonl' }", "RC0103 c.toml:9:13 unknown key `fil`"),
        ("{ file = 'r.jsonl', format = 'yaml' }", "RC0105 c.toml:9:40"),
        (
            "{ file = 'r.jsonl', prefix = 'x' }",
            "RC0105 c.toml:9:40 `x` is no prefix",
        ),
        (
            "{ file = 'r.jsonl', prefix = '/x/' }",
            "RC0105 c.toml:9:40 a prefix does not end",
        ),
        (
            "{ file = 'r.jsonl', except = [{ path = '/b/*', reason = ' ' }] }",
            "RC0105 c.toml:9:67 an exception says why",
        ),
        (
            "{ file = 'r.jsonl', except = [{ path = '/b/*', reason = 'x' }, { path = '/z', reason = 'x' }] }",
            "RC0108 c.toml:9:83 the file lists no `/z`: the exception is stale",
        ),
        (
            "{ file = 'r.jsonl', format = 'openapi', syntax = 'gin' }",
            "RC0105 c.toml:9:60 `syntax` is for JSON Lines",
        ),
        ("7", "RC0105 c.toml:9:11"),
    ] {
        let found = faults(entry, "r.jsonl", text);
        assert!(
            found.iter().any(|found| found.starts_with(expected)),
            "{expected}\nnot in {found:#?}"
        );
    }
    let manifest = "[[route]]\nmethod = 'GET'\npath = '/a'\n";
    assert_eq!(
        faults("{ file = 'm.toml', prefix = '/x' }", "m.toml", manifest),
        ["RC0105 c.toml:9:39 this is for imported files; a TOML manifest is written as it is meant"]
    );
    assert_eq!(routes("{ file = 'm', format = 'toml' }", "m", manifest), ["GET /a @3"]);
}

#[test]
fn http_routes_are_exact_or_prefixes() {
    let route = |matches: &str| {
        format!(
            "kind: HTTPRoute\napiVersion: gateway.networking.k8s.io/v1\nspec:\n  rules:\n  - matches:\n    - {matches}\n"
        )
    };
    for (matches, expected) in [
        ("path: {type: Exact, value: /a}", "* /a"),
        ("path: {type: PathPrefix, value: /a/}", "* /a/**"),
        ("path: {value: /a}", "* /a/**"),
        ("path: {type: PathPrefix, value: /}", "* /**"),
        ("method: GET", "GET /**"),
    ] {
        let found = routes("'h.yaml'", "h.yaml", &route(matches));
        assert_eq!(found.len(), 1, "{matches}");
        assert!(found[0].starts_with(&format!("{expected} @")), "{matches}: {found:?}");
    }
    for (matches, expected) in [
        (
            "path: {type: RegularExpression, value: '/a.*'}",
            "RC0107 h.yaml:6:46 `/a.*` cannot be said",
        ),
        (
            "path: {type: Exact, value: '/a/{b}'}",
            "RC0107 h.yaml:6:34 `/a/{b}` cannot be said",
        ),
        ("path: {type: Exact, value: '/a/**'}", "RC0107 h.yaml:6:34"),
        (
            "path: {type: Prefix, value: /a}",
            "RC0105 h.yaml:6:13 `Prefix` is no type",
        ),
        ("method: get", "RC0105 h.yaml:6:15 a method is written in upper case"),
    ] {
        let found = faults("'h.yaml'", "h.yaml", &route(matches));
        assert!(found[0].starts_with(expected), "{expected}\nnot in {found:#?}");
    }
    let service = "kind: Service\napiVersion: v1\n";
    assert_eq!(
        faults("'h.yaml'", "h.yaml", service),
        ["RC0104 h.yaml:1:1 the file holds no HTTPRoute"]
    );
    let list = format!(
        "kind: List\napiVersion: v1\nitems:\n- {}",
        route("path: {value: /x}").replace('\n', "\n  ")
    );
    assert_eq!(routes("'h.yaml'", "h.yaml", &list).len(), 1);
}

#[test]
fn a_context_of_spring_may_mount_its_dispatcher() {
    let text = r#"{"contexts": {"app": {"mappings": {
        "dispatcherServlets": {"d": [
            {"predicate": "{GET [/x/{id}]}", "details": {"requestMappingConditions": {"methods": ["GET", "PUT"], "patterns": ["/x/{id}"]}}},
            {"predicate": "/static/**"}]},
        "servletFilters": [{"urlPatternMappings": ["/*"]}],
        "servlets": [{"name": "d", "mappings": ["/app/*"]}, {"name": "console", "mappings": ["/h2/*", "/exact"]}]}}}}"#;
    let found = routes("'s.json'", "s.json", text);
    let found: Vec<&str> = found.iter().map(|route| route.split(" @").next().unwrap()).collect();
    assert_eq!(
        found,
        [
            "GET /app/x/{id}",
            "PUT /app/x/{id}",
            "* /app/static/**",
            "* /h2/**",
            "* /exact"
        ]
    );
    let functional = r#"{"contexts": {"app": {"mappings": {"dispatcherHandlers": {"w": [
        {"predicate": "(GET && /a)", "details": {"handlerFunction": {"className": "x"}}}]}}}}}"#;
    let found = faults("'s.json'", "s.json", functional);
    assert!(
        found[0].starts_with("RC0107 s.json:2:23 `(GET && /a)` cannot be said"),
        "{found:?}"
    );
    let entry = "{ file = 's.json', except = [{ path = '(GET && /a)', reason = 'x' }] }";
    assert_eq!(routes(entry, "s.json", functional), Vec::<String>::new());
}

#[test]
fn documents_that_others_wrote() {
    let petstore = document("openapi/swagger-petstore.yaml");
    let found = routes("'o.yaml'", "o.yaml", &petstore);
    assert_eq!(found.len(), 19, "{found:#?}");
    assert!(
        found.contains(&"POST /api/v3/pet/{petId}/uploadImage @310".to_owned()),
        "{found:#?}"
    );

    let bigger = document("openapi/fastapi-bigger-applications.json");
    let found = routes("'o.json'", "o.json", &bigger);
    let found: Vec<&str> = found.iter().map(|route| route.split(" @").next().unwrap()).collect();
    assert_eq!(
        found,
        [
            "GET /users/",
            "GET /users/me",
            "GET /users/{username}",
            "GET /items/",
            "GET /items/{item_id}",
            "PUT /items/{item_id}",
            "POST /admin/",
            "GET /",
        ]
    );
    let proxied = routes("'o.json'", "o.json", &document("openapi/fastapi-behind-a-proxy.json"));
    let proxied: Vec<&str> = proxied.iter().map(|route| route.split(" @").next().unwrap()).collect();
    assert_eq!(proxied, ["GET /api/v1/app", "GET /app"]);

    let sample = document("spring/spring-boot-admin-sample.json");
    let found = routes("'s.json'", "s.json", &sample);
    for expected in [
        "GET /actuator/health/**",
        "DELETE /instances/{id}",
        "* /webjars/**",
        "* /**",
        "* /error",
    ] {
        let expected = format!("{expected} @");
        assert!(
            found.iter().any(|route| route.starts_with(&expected)),
            "{expected} {found:#?}"
        );
    }
    let converted = document("spring/spring-boot-admin-converted.json");
    let found = faults("'s.json'", "s.json", &converted);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].starts_with("RC0107 s.json:15:21 `/**/favicon.ico` cannot be said"),
        "{found:?}"
    );
    let entry = "{ file = 's.json', except = [{ path = '/**/favicon.ico', reason = 'icons' }] }";
    assert_eq!(
        routes(entry, "s.json", &converted),
        ["* /error @35", "POST /actuator/loggers/{name} @65"]
    );

    for (name, expected) in [
        ("basic-http", &["* /bar/** @", "GET /some/thing/** @"][..]),
        ("default-match-http", &["* /** @", "* /example/exact @"]),
        (
            "httproute-method",
            &["POST /** @", "PUT /** @", "DELETE /** @", "* /** @"],
        ),
        ("httproute-exact-path-matching", &["* /one @", "* /two @"]),
    ] {
        let found = routes("'h.yaml'", "h.yaml", &document(&format!("http_route/{name}.yaml")));
        assert_eq!(found.len(), expected.len(), "{name}: {found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{name}: {found}");
        }
    }
}

#[test]
fn what_the_exporter_of_express_writes() {
    let entry = "{ file = 'r.jsonl', syntax = 'express' }";
    let listed = |name: &str| -> Vec<String> {
        routes(entry, "r.jsonl", &document(&format!("json_lines/express-{name}.jsonl")))
            .iter()
            .map(|route| route.split(" @").next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        listed("multi-router"),
        [
            "GET /api/v1/",
            "GET /api/v1/users",
            "GET /api/v2/",
            "GET /api/v2/users",
            "GET /"
        ]
    );
    let separated = listed("route-separation");
    for expected in ["* /**", "* /user/{id}", "* /user/{id}/{op}", "PUT /user/{id}/edit"] {
        assert!(
            separated.iter().any(|route| route == expected),
            "{expected} {separated:?}"
        );
    }
    let found = faults(entry, "r.jsonl", &document("json_lines/express-params.jsonl"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("RC0107 r.jsonl:3:24 `/users/:from-:to` cannot be said"),
        "{found:?}"
    );
}

mod damaged {
    use proptest::prelude::*;

    use super::*;

    const DOCUMENTS: [(&str, &str); 6] = [
        ("openapi/swagger-petstore.yaml", "o.yaml"),
        ("openapi/fastapi-behind-a-proxy.json", "o.json"),
        ("spring/spring-boot-admin-converted.json", "s.json"),
        ("http_route/basic-http.yaml", "h.yaml"),
        ("json_lines/express-route-separation.jsonl", "r.jsonl"),
        ("json_lines/express-params.jsonl", "r.jsonl"),
    ];

    /// What turns up in paths and in the formats' own syntax.
    const SCRAPS: [&str; 24] = [
        "{", "}", "[", "]", "\"", "'", ":", ",", "/", "//", "**", "*", "<int:", ">", "{*", "?", "%", "#", "\\", "\n",
        "&a ", "*a", "é", "\u{0}",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// No damage makes an importer panic, and what it reports can be shown.
        #[test]
        fn no_file_panics_an_importer(
            document in 0..DOCUMENTS.len(),
            edits in prop::collection::vec((any::<prop::sample::Index>(), 0..12usize, 0..SCRAPS.len()), 0..8),
            syntax in prop::sample::select(vec!["template", "express", "gin", "axum", "flask", "spring"]),
        ) {
            let (name, file) = DOCUMENTS[document];
            let mut text = super::document(name);
            for (at, removed, scrap) in edits {
                let start = (0..=at.index(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                let end = (start + removed..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
                text.replace_range(start..end, SCRAPS[scrap]);
            }
            let entry = if file == "r.jsonl" {
                format!("{{ file = '{file}', syntax = '{syntax}' }}")
            } else {
                format!("'{file}'")
            };
            if let Err(faults) = load(&entry, file, &text) {
                for fault in faults {
                    let _ = fault.to_string();
                }
            }
        }
    }
}

/// The only path of GitHub's that no template says.
const COMPARE: &str = "/repos/{owner}/{repo}/compare/{base}...{head}";

/// `make import-corpus` installs it.
#[test]
fn the_description_of_github_is_read_whole() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/import-corpus/node_modules/@octokit/openapi/generated/api.github.com.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!(
            "skipped: {} is not there; `make import-corpus` installs it",
            path.display()
        );
        return;
    };
    // An exception that leaves nothing out is a fault, so this also shows that the path is found, and is the only one.
    let entry = format!("{{ file = 'o.json', except = [{{ path = '{COMPARE}', reason = 'two in one' }}] }}");
    let contract = load(&entry, "o.json", &text).unwrap_or_else(|faults| panic!("{faults:#?}"));
    let found = contract.profile("p").unwrap().routes.as_ref().unwrap();
    assert!(found.len() >= 1000, "{}", found.len());
    for expected in ["/", "/repos/{owner}/{repo}/contents/{path}"] {
        let route = found.iter().find(|route| route.template.as_str() == expected).unwrap();
        let line = text.lines().nth(route.place.line_column().0 - 1).unwrap();
        assert_eq!(line.trim(), format!("\"{expected}\": {{"));
    }
}
