//! A profile's server: it answers exactly what its profile file registers, and says what it received.

use async_trait::async_trait;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode};
use pingora::apps::http_app::ServeHttp;
use pingora::protocols::http::ServerSession;
use route_contract::contract::{Contract, Profile};
use route_contract::diagnostic::Diagnostic;
use route_contract::router::{ProfileRouter, Routed};
use serde::Serialize;

/// A server that runs in one profile.
pub struct ProfileServer {
    profile: String,
    router: ProfileRouter,
    /// Methods and templates of all routes, for the `Allow` header.
    registered: Vec<(String, String)>,
}

/// What the server answers to every request.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    profile: &'a str,
    method: &'a str,
    /// The template of the route that serves the request; absent where none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<&'a str>,
    /// The request target as it arrived, byte for byte.
    target: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

impl ProfileServer {
    /// Builds the router of a profile: its own routes and the contract's common ones.
    ///
    /// # Errors
    /// Each pair of routes that one router cannot hold.
    pub fn new(contract: &Contract, profile: &Profile) -> Result<Self, Vec<Diagnostic>> {
        let registered = contract
            .routes_of(profile)
            .into_iter()
            .chain(&contract.common)
            .map(|route| (route.method.as_str().to_owned(), route.template.to_string()))
            .collect();
        Ok(Self {
            profile: profile.name.clone(),
            router: ProfileRouter::new(contract, profile)?,
            registered,
        })
    }

    fn answer(&self, method: &Method, target: &[u8]) -> Response<Vec<u8>> {
        // The gateway forwards ASCII alone; whoever comes past it gets to see what the bytes look like.
        let target = String::from_utf8_lossy(target);
        let path = target.split('?').next().unwrap_or_default();
        // RFC 9110 section 9.3.2: what has GET has HEAD.
        let routed_as = if method == Method::HEAD { "GET" } else { method.as_str() };
        let routed = self.router.route(routed_as, path);
        let template = routed.path().map(|route| route.template.to_string());
        let (status, error) = match routed {
            Routed::Found(_) => (StatusCode::OK, None),
            Routed::MethodNotAllowed(_) => (StatusCode::METHOD_NOT_ALLOWED, Some("method not allowed")),
            Routed::NotFound => (StatusCode::NOT_FOUND, Some("no such route")),
        };
        let answer = Answer {
            profile: &self.profile,
            method: method.as_str(),
            route: template.as_deref(),
            target: &target,
            error,
        };
        let allow = (status == StatusCode::METHOD_NOT_ALLOWED).then(|| self.allowed(template.as_deref()));
        json(status, &answer, allow, method == Method::HEAD)
    }

    /// The methods of a path, as RFC 9110 section 15.5.6 wants them beside a 405.
    fn allowed(&self, template: Option<&str>) -> String {
        let mut methods: Vec<&str> = Vec::new();
        for (method, of) in &self.registered {
            if Some(of.as_str()) == template && !methods.contains(&method.as_str()) {
                methods.push(method);
            }
        }
        methods.join(", ")
    }
}

fn json(status: StatusCode, answer: &Answer<'_>, allow: Option<String>, head_only: bool) -> Response<Vec<u8>> {
    // Texts and options of texts always become JSON.
    let mut body = serde_json::to_vec(answer).unwrap_or_default();
    body.push(b'\n');
    let length = body.len();
    let mut response = Response::new(if head_only { Vec::new() } else { body });
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(allow) = allow.and_then(|methods| HeaderValue::try_from(methods).ok()) {
        headers.insert(ALLOW, allow);
    }
    response
}

#[async_trait]
impl ServeHttp for ProfileServer {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let request = session.req_header();
        self.answer(&request.method, request.raw_path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::embedded;

    fn server(profile: &str) -> ProfileServer {
        let contract = embedded::contract("agentteam").unwrap();
        ProfileServer::new(&contract, contract.profile(profile).unwrap()).unwrap()
    }

    fn told(response: &Response<Vec<u8>>) -> serde_json::Value {
        serde_json::from_slice(response.body()).unwrap()
    }

    #[test]
    fn a_registered_route_is_answered_with_what_was_received() {
        let response = server("extension").answer(
            &Method::POST,
            b"/api/v1/workspaces/w1/agents/a1/runtime/ext/github/actions/create-issue?x=%2F",
        );
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(
            told(&response),
            serde_json::json!({
                "profile": "extension",
                "method": "POST",
                "route": "/api/v1/workspaces/{workspace}/agents/{agent}/runtime/ext/{domain:kebab}/actions/{action:kebab}",
                "target": "/api/v1/workspaces/w1/agents/a1/runtime/ext/github/actions/create-issue?x=%2F",
            })
        );
    }

    #[test]
    fn other_methods_and_paths_are_refused() {
        let central = server("central");
        let response = central.answer(&Method::DELETE, b"/api/v1/workspaces");
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(response.headers()[ALLOW], "GET, POST");
        let extension = b"/api/v1/workspaces/w1/agents/a1/runtime/ext";
        assert_eq!(central.answer(&Method::GET, extension).status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn every_profile_answers_its_health_routes() {
        for profile in ["central", "workspace", "extension", "all"] {
            let response = server(profile).answer(&Method::GET, b"/readyz");
            assert_eq!(response.status(), StatusCode::OK, "{profile}");
        }
    }

    #[test]
    fn an_answer_to_head_is_a_head() {
        let response = server("central").answer(&Method::HEAD, b"/login");
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.body().is_empty());
        assert_ne!(response.headers()[CONTENT_LENGTH], "0");
    }
}
