//! axum with its default settings: every route answers which one it is.

use std::error::Error;
use std::io::Write as _;

use axum::Router;
use axum::http::{HeaderName, HeaderValue};
use axum::routing::any;
use serde::Deserialize;

#[derive(Deserialize)]
struct Route {
    name: String,
    segments: Vec<Segment>,
    tail: bool,
}

#[derive(Deserialize)]
struct Segment {
    prefix: String,
    parameter: Option<String>,
    suffix: String,
}

impl Route {
    /// What is registered for it: one path, or three for a tail.
    fn paths(&self) -> Vec<String> {
        let brace = |text: &str| text.replace('{', "{{").replace('}', "}}");
        let path: String = self
            .segments
            .iter()
            .map(|segment| {
                let capture = segment.parameter.as_ref().map(|name| format!("{{{name}}}"));
                let capture = capture.unwrap_or_default();
                format!("/{}{capture}{}", brace(&segment.prefix), brace(&segment.suffix))
            })
            .collect();
        match (path.as_str(), self.tail) {
            ("", false) => vec!["/".to_owned()],
            ("", true) => vec!["/".to_owned(), "/{*rest}".to_owned()],
            (path, false) => vec![path.to_owned()],
            (path, true) => vec![path.to_owned(), format!("{path}/"), format!("{path}/{{*rest}}")],
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("the file of routes is missing")?;
    let port: u16 = arguments.next().ok_or("the port is missing")?.parse()?;
    let routes: Vec<Route> = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let mut router = Router::new();
    for route in &routes {
        let name = HeaderValue::from_str(&route.name)?;
        for path in route.paths() {
            let name = name.clone();
            router = router.route(&path, any(async move || [(HeaderName::from_static("x-route"), name)]));
        }
    }
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    writeln!(std::io::stdout(), "ready axum {}", env!("AXUM_VERSION"))?;
    axum::serve(listener, router).await?;
    Ok(())
}
