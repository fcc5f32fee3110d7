use super::*;

fn templates(path: &str, syntax: PathSyntax) -> Result<String, String> {
    let mut kinds = Kinds::default();
    kinds.declare("code", "[a-z]{2}").unwrap();
    translate(path, syntax, &kinds).map(|found| found.iter().map(Template::as_str).collect::<Vec<_>>().join(" "))
}

#[test]
fn what_means_the_same_is_translated() {
    use PathSyntax as S;
    for (syntax, path, expected) in [
        (S::Template, "/", "/"),
        (S::Template, "/a/{b}/c-{d:int}.png", "/a/{b}/c-{d:int}.png"),
        (S::Template, "/a/**", "/a/**"),
        (S::Template, "/**", "/**"),
        (S::Template, "/a/", "/a/"),
        (S::Template, "/a/:id", "/a/{id}"),
        (S::Template, "/a/:id?", "/a /a/{id}"),
        (S::Template, "/a/{id?}/b", "/a/b /a/{id}/b"),
        (S::Template, "/a/<int:id>/<name>", "/a/{id:int}/{name}"),
        (S::Template, "/a/{id:[0-9]+}", "/a/{id:int}"),
        (S::Template, "/a/{id:[a-z]{2}}", "/a/{id:code}"),
        (S::Template, "/v1/{id}:test", "/v1/{id}:test"),
        (S::Express, "/users/:id/:user_id", "/users/{id}/{user_id}"),
        (S::Express, "/users/:id(\\d+)", "/users/{id:int}"),
        (S::Express, "/v:version/x", "/v{version}/x"),
        (S::Express, "/:file.json", "/{file}.json"),
        (S::Express, "/a/:id?", "/a /a/{id}"),
        (S::Express, "/:id?", "/ /{id}"),
        (S::Express, "*", ""),
        (S::Express, "/*", "/**"),
        (S::Express, "/a/*", "/a/ /a/{rest}/**"),
        (S::Express, "/a/*splat", "/a/{rest}/**"),
        (S::Express, "/a{/*splat}", "/a /a/{rest}/**"),
        (S::Express, "/a{/:id}/b", "/a/b /a/{id}/b"),
        (S::Express, "/a/:rest/*", "/a/{rest}/ /a/{rest}/{rest2}/**"),
        (S::Express, "/a/:path(.*)", "/a/ /a/{rest}/**"),
        (S::Gin, "/user/:name/*action", "/user/{name}/ /user/{name}/{rest}/**"),
        (S::Gin, "/*any", "/**"),
        (S::Gin, "/a/v_:id", "/a/v_{id}"),
        (S::Axum, "/a/{id}/{*rest}", "/a/{id}/{rest}/**"),
        (S::Axum, "/{*rest}", "/{rest}/**"),
        (S::Flask, "/a/<uuid:id>/<path:rest>", "/a/{id:uuid}/{rest}/**"),
        (S::Spring, "/a/{id:.+}", "/a/{id}"),
        (S::Spring, "/a/{id:\\d+}/**", "/a/{id:int}/**"),
        (S::Spring, "/a/{*path}", "/a/**"),
        (S::Spring, "/a/*", "/a/ /a/{wildcard}"),
        (S::Spring, "/a/*/b/*/c", "/a/{wildcard}/b/{wildcard2}/c"),
        (S::Spring, "/*.html", "/.html /{wildcard}.html"),
        (S::OpenApi, "/pets/{pet.id}/{pet id}", "/pets/{pet_id}/{pet_id2}"),
        (S::OpenApi, "/a/{id}:cancel", "/a/{id}:cancel"),
        (S::OpenApi, "/a/:id", "/a/:id"),
    ] {
        let found = templates(path, syntax);
        if expected.is_empty() {
            assert!(found.is_err(), "{syntax:?} {path}: {found:?}");
        } else {
            assert_eq!(found.as_deref(), Ok(expected), "{syntax:?} {path}");
        }
    }
}

#[test]
fn what_has_no_equal_is_refused() {
    use PathSyntax as S;
    for (syntax, path, words) in [
        (S::Template, "/a/*", "say which with `syntax`"),
        (S::Template, "/a/*rest", "say which with `syntax`"),
        (S::Template, "/a/{*rest}", "say which with `syntax`"),
        (S::Template, "/a/{id:.+}", "more than one segment"),
        (S::Template, "/a/{id:nope}", "no kind"),
        (S::Template, "/**/a", "depends"),
        (S::Template, "a", "starts with"),
        (S::Template, "/a//b", "empty segment"),
        (S::Template, "/a?x=1", "query"),
        (S::Template, "/a/%20", "percent-escape"),
        (S::Express, "/a/:from-:to", "expression"),
        (S::Express, "/ab?cd", "expression"),
        (S::Express, "/a*", "expression"),
        (S::Express, "/a/*x/b", "before the end"),
        (S::Express, "/a/:id([a-z]+)", "[kinds]"),
        (S::Gin, "/a/x*y", "middle"),
        (S::Axum, "/a/:id", "before 0.8"),
        (S::Axum, "/a/{{x}}", "brace"),
        (S::Flask, "/a/<float:x>", "no equal"),
        (S::Flask, "/a/<string(length=2):x>", "no equal"),
        (S::Flask, "/a/<path:x>/b", "before the end"),
        (S::Spring, "/**/favicon.ico", "before the end"),
        (S::Spring, "/a?c", "one character"),
        (S::Spring, "/{a}.{b}", "two parameters"),
        (S::Spring, "", "starts with"),
        (S::OpenApi, "/a/{+path}", "more than a parameter"),
        (S::OpenApi, "/a/{path*}", "more than a parameter"),
        (S::OpenApi, "/a/{id:[0-9]+}", "more than a parameter"),
        (S::OpenApi, "/a/**", "another meaning"),
        (S::OpenApi, "/a/*", "`*` alone"),
        (S::OpenApi, "/a/{id}/{id}", "twice"),
        (S::OpenApi, "/a/{b}...{c}", "two parameters"),
    ] {
        let found = templates(path, syntax);
        assert!(
            found.as_ref().is_err_and(|why| why.contains(words)),
            "{syntax:?} {path}: {found:?}"
        );
    }
}

/// What a translation matches is what the framework matches, on paths without an empty segment.
#[test]
fn catch_alls_match_what_their_framework_matches() {
    use crate::contract::Contract;
    use crate::diagnostic::{Diagnostic, Source};
    use crate::scan::Scan;
    for (syntax, path, matched, missed) in [
        (
            PathSyntax::Gin,
            "/f/*p",
            &["/f/", "/f/a", "/f/a/b", "/f/a/"][..],
            &["/f", "/fx"][..],
        ),
        (
            PathSyntax::Axum,
            "/f/{*p}",
            &["/f/a", "/f/a/b", "/f/a/"],
            &["/f", "/f/", "/fx/a"],
        ),
        (PathSyntax::Express, "/f/*p", &["/f/a", "/f/a/b"], &["/f", "/f/"]),
        (PathSyntax::Spring, "/f/**", &["/f", "/f/", "/f/a/b"], &["/fx", "/"]),
        (PathSyntax::Spring, "/f/*", &["/f/", "/f/a"], &["/f", "/f/a/b"]),
        (PathSyntax::Flask, "/f/<path:p>", &["/f/a", "/f/a/b/"], &["/f", "/f/"]),
    ] {
        let listed = translate(path, syntax, &Kinds::default()).unwrap();
        let claims: Vec<String> = listed.iter().map(|template| format!("'{template}'")).collect();
        let text = format!(
            "version = 1\n[[family]]\nname = 'f'\nclaims = [{}]\n",
            claims.join(", ")
        );
        let contract = Contract::load_with(std::path::Path::new("c.toml"), &|file| match file.to_str() {
            Some("c.toml") => Ok(Source::new("c.toml", text.clone())),
            _ => Err(Diagnostic::error("RC0101", "none")),
        })
        .unwrap();
        let scan = Scan::new(&contract).unwrap();
        let covered = |path: &str| listed.iter().any(|template| scan.covers(template, path.as_bytes()));
        for path in matched {
            assert!(covered(path), "{syntax:?} {path}");
        }
        for path in missed {
            assert!(!covered(path), "{syntax:?} {path}");
        }
    }
}
