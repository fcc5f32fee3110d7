//! The map, as text and in a real browser. Where there is no browser, that part is passed over with a note.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use route_contract::contract::Contract;
use route_contract::diagnostic::Source;
use route_contract::map::{Detail, Map, html, mermaid, svg};

fn load(files: &[(&str, &str)]) -> Contract {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    Contract::load_with(Path::new("contract.toml"), &|path| {
        let name = path.display().to_string();
        Ok(Source::new(name.clone(), files[name.as_str()]))
    })
    .unwrap()
}

fn reference() -> Contract {
    Contract::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/agentteam/contract.toml")).unwrap()
}

/// About 300 routes, in the shape of a real deployment.
fn large() -> Contract {
    let mut contract = "version = 1\n[[family]]\nname = \"central\"\nclaims = [\n".to_owned();
    let mut manifest = String::new();
    for service in 0..20 {
        contract.push_str(&format!("  \"/api/v1/service-{service}/**\",\n"));
        for resource in 0..15 {
            manifest.push_str(&format!(
                "[[route]]\nmethod = \"GET\"\npath = \"/api/v1/service-{service}/resource-{resource}/{{id}}\"\n"
            ));
        }
    }
    contract.push_str("]\n[profile.central]\nowns = [\"central\"]\nroutes = [\"central.toml\"]\n");
    load(&[("contract.toml", &contract), ("central.toml", &manifest)])
}

fn hostile() -> Contract {
    load(&[(
        "contract.toml",
        "version = 1\n[[family]]\nname = \"f\"\nowner = \"</style></script><script>document.title='broken'</script>\"\n\
         claims = [\"/a&b'c/**\", \"/**\"]\n",
    )])
}

fn page(contract: &Contract) -> String {
    let mut page = String::new();
    html::draw(&Map::new(contract, Detail::Profiles).unwrap(), &mut page).unwrap();
    page
}

#[test]
fn a_page_is_self_contained_and_escaped() {
    for contract in [reference(), large(), hostile()] {
        let page = page(&contract);
        for external in ["http:", "https:", "\"//", "<link", "<img", "src=", "@import", "url("] {
            assert!(!page.contains(external), "{external} in the page");
        }
        assert_eq!(page.matches("<script").count(), 1);
        assert_eq!(page.matches("</style>").count(), 1);
    }
}

#[test]
fn every_family_and_every_route_is_drawn() {
    let contract = reference();
    let map = Map::new(&contract, Detail::Profiles).unwrap();
    let (mut page, mut drawing) = (String::new(), String::new());
    html::draw(&map, &mut page).unwrap();
    svg::draw(&map, &mut drawing).unwrap();
    for profile in &contract.profiles {
        for route in profile.routes.iter().flatten() {
            let path = route
                .template
                .as_str()
                .strip_suffix("/**")
                .unwrap_or(route.template.as_str());
            assert!(page.contains(&format!("data-path=\"{path}\"")), "{path}");
        }
    }
    for family in &contract.families {
        assert!(page.contains(&format!("{} claims", family.name)), "{}", family.name);
        assert!(drawing.contains(&format!("{} claims", family.name)), "{}", family.name);
    }
    assert!(page.contains("refused: none of extension&#39;s routes"));
    assert!(drawing.contains("refused: none of extension&#39;s routes"));
}

#[test]
fn a_flowchart_holds_the_families_alone() {
    let contract = reference();
    let mut chart = String::new();
    mermaid::draw(&Map::new(&contract, Detail::Families).unwrap(), &mut chart).unwrap();
    assert!(chart.starts_with("flowchart LR\n"));
    assert!(chart.contains("central claims"));
    assert!(!chart.contains("GET"));
    let mut chart = String::new();
    mermaid::draw(&Map::new(&hostile(), Detail::Families).unwrap(), &mut chart).unwrap();
    assert!(!chart.contains("a&b"), "{chart}");
}

/// The page as a browser has it once its script has run; `None` where there is no browser.
fn in_browser(page: &str, query: &str) -> Option<String> {
    let browser = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| {
            Command::new(name)
                .arg("--version")
                .output()
                .is_ok_and(|output| output.status.success())
        });
    let Some(browser) = browser else {
        let _ = writeln!(std::io::stderr(), "passed over: no chromium to look at the map with");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("map.html");
    std::fs::write(&file, page).unwrap();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}#{query}", file.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The opening tag of a path's row.
fn item<'d>(document: &'d str, path: &str) -> &'d str {
    let at = document
        .find(&format!("data-path=\"{path}\""))
        .unwrap_or_else(|| panic!("no {path}"));
    let start = document[..at].rfind('<').unwrap();
    let end = start + document[start..].find('>').unwrap();
    &document[start..end]
}

#[test]
fn a_browser_shows_the_tree_and_its_search_finds_paths() {
    let Some(document) = in_browser(&page(&reference()), "") else {
        return;
    };
    // The script ran, so the policy lets it; the search is there, and nothing is hidden.
    assert!(document.contains("<form role=\"search\" id=\"search\">"), "{document}");
    assert!(!item(&document, "/login").contains("hidden"));
    assert!(document.matches("<details open=\"\">").count() > 10);

    let Some(document) = in_browser(&page(&reference()), "runtime/ext%20post") else {
        return;
    };
    let ext = "/api/v1/workspaces/{workspace}/agents/{agent}/runtime/ext";
    assert!(!item(&document, &format!("{ext}/{{domain:kebab}}/actions/{{action:kebab}}")).contains("hidden"));
    assert!(
        !item(&document, ext).contains("hidden"),
        "what leads to a path that was found is shown"
    );
    assert!(item(&document, "/login").contains("hidden"));
    assert!(document.contains(">1 path</output>"), "{document}");
}

#[test]
fn a_browser_copes_with_300_routes_and_with_hostile_text() {
    let Some(document) = in_browser(&page(&large()), "service-7%20resource-11") else {
        return;
    };
    assert!(document.contains(">1 path</output>"));
    assert!(!item(&document, "/api/v1/service-7/resource-11/{id}").contains("hidden"));
    let Some(document) = in_browser(&page(&large()), "") else {
        return;
    };
    // Below its claims a large tree starts folded.
    assert!(document.contains("<details>"));

    let Some(document) = in_browser(&page(&hostile()), "") else {
        return;
    };
    assert!(
        document.contains("<title>Routes of contract.toml</title>"),
        "{document}"
    );
}
