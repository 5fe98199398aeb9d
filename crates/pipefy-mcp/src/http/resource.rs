//! What the server says about itself to clients that have no good bearer: the protected-resource metadata (RFC 9728) and
//! the challenges that point there (RFC 6750 section 3).

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE,
    CACHE_CONTROL,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use serde_json::json;
use url::Url;

use super::refusal::Refusal;
use super::reply;

/// Where RFC 9728 puts the document: here, and below it at the path of the resource.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// This server as an OAuth resource: its public URL, whom it trusts, what it asks for.
///
/// The URL and the issuer are published byte for byte as configured, because clients compare them with what they know.
#[derive(Clone, Debug)]
pub struct ProtectedResource {
    url: String,
    issuer: String,
    required_scopes: Vec<String>,
    /// Named in challenges. Only ever fetched from, so it is in the normalised form that fits a header.
    metadata_url: String,
    /// Path of the document.
    path: String,
    document: Bytes,
}

impl ProtectedResource {
    /// The resource at the public URL of the endpoint (`https://host/mcp`), whose bearers come from `issuer` and must carry
    /// every one of `required_scopes`. Port 0 stands for the port that the server will listen on.
    ///
    /// # Errors
    /// `url` is no absolute URL.
    pub fn new(url: &str, issuer: &str, required_scopes: &[String]) -> Result<Self, url::ParseError> {
        let parsed = Url::parse(url)?;
        let below = if parsed.path() == "/" { "" } else { parsed.path() };
        let path = format!("{WELL_KNOWN}{below}");
        let mut document = json!({ "resource": url, "authorization_servers": [issuer] });
        if let Some(object) = document.as_object_mut() {
            if !required_scopes.is_empty() {
                object.insert("scopes_supported".to_owned(), json!(required_scopes));
            }
            object.insert("bearer_methods_supported".to_owned(), json!(["header"]));
        }
        Ok(Self {
            url: url.to_owned(),
            issuer: issuer.to_owned(),
            required_scopes: required_scopes.to_vec(),
            metadata_url: format!("{}{path}", parsed.origin().ascii_serialization()),
            path,
            document: document.to_string().into(),
        })
    }

    /// The public URL, as configured.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The issuer, as configured.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Every bearer must carry these.
    pub fn required_scopes(&self) -> &[String] {
        &self.required_scopes
    }

    /// Where the document is.
    pub fn metadata_url(&self) -> &str {
        &self.metadata_url
    }

    /// With port 0 replaced by the port that was taken.
    #[must_use]
    pub(super) fn listening_on(self, port: u16) -> Self {
        let Ok(mut url) = Url::parse(&self.url) else { return self };
        if url.port() != Some(0) || url.set_port(Some(port)).is_err() {
            return self;
        }
        Self::new(url.as_str(), &self.issuer, &self.required_scopes).unwrap_or(self)
    }

    /// 401, the same for a bearer that is missing and for one that is bad: nobody learns why.
    pub(super) fn unauthenticated(&self) -> Refusal {
        self.challenge(StatusCode::UNAUTHORIZED, "invalid_token", "Authentication required", "")
    }

    /// 403: the bearer is good and lacks this scope.
    pub(super) fn lacks(&self, scope: &str) -> Refusal {
        let all = format!(", scope=\"{}\"", self.required_scopes.join(" "));
        self.challenge(StatusCode::FORBIDDEN, "insufficient_scope", &format!("Required scope: {scope}"), &all)
    }

    fn challenge(&self, status: StatusCode, error: &str, description: &str, more: &str) -> Refusal {
        let header = format!(
            "Bearer error=\"{error}\", error_description=\"{description}\", resource_metadata=\"{}\"{more}",
            self.metadata_url
        );
        Refusal::oauth(status, error, description, &header)
    }

    /// The document at its path and at the root. Public, for any `Host` and any `Origin`: it is read before signing in.
    pub(super) fn routes(&self) -> Router {
        let answer = |resource: Self| {
            axum::routing::any(move |request: Request<Body>| {
                let response = resource.answer(request.method(), request.uri().path());
                async move { response }
            })
        };
        // The path of the resource is compared in the handler: it may hold what means something else in a route.
        Router::new()
            .route(WELL_KNOWN, answer(self.clone()))
            .route(&format!("{WELL_KNOWN}/{{*path}}"), answer(self.clone()))
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Body> {
        let plain = |path: &str| path.trim_end_matches('/').to_owned();
        if path != WELL_KNOWN && plain(path) != plain(&self.path) {
            return Refusal::not_found().into_response();
        }
        let mut response = match *method {
            Method::GET | Method::HEAD => {
                let mut response = reply::json_bytes(StatusCode::OK, self.document.clone());
                response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
                response
            }
            Method::OPTIONS => {
                let mut response = Response::new(Body::empty());
                let headers = response.headers_mut();
                headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, OPTIONS"));
                headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("mcp-protocol-version"));
                headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
                response
            }
            _ => return Refusal::method_not_allowed("GET, HEAD, OPTIONS").into_response(),
        };
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        response
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    #[test]
    fn the_document_says_what_was_configured() {
        let root = "/.well-known/oauth-protected-resource";
        for (url, at) in [
            ("https://mcp.example.com/mcp", "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"),
            ("https://mcp.example.com/", "https://mcp.example.com/.well-known/oauth-protected-resource"),
            ("https://mcp.example.com", "https://mcp.example.com/.well-known/oauth-protected-resource"),
            ("https://mcp.example.com/mcp/", "https://mcp.example.com/.well-known/oauth-protected-resource/mcp/"),
            (
                "https://MCP.example.com:443/a/{b}/:c",
                "https://mcp.example.com/.well-known/oauth-protected-resource/a/%7Bb%7D/:c",
            ),
            ("http://[::1]:8000/mcp", "http://[::1]:8000/.well-known/oauth-protected-resource/mcp"),
        ] {
            let resource = ProtectedResource::new(url, "https://idp.example/realms/x/", &[]).unwrap();
            assert_eq!(resource.metadata_url(), at);
            let _no_panic = resource.routes();
            let document: serde_json::Value = serde_json::from_slice(&resource.document).unwrap();
            let expected = json!({"resource": url, "authorization_servers": ["https://idp.example/realms/x/"],
                "bearer_methods_supported": ["header"]});
            assert_eq!(document, expected);
            let path = Url::parse(at).unwrap().path().to_owned();
            for (method, path, status) in [
                (Method::GET, path.as_str(), 200),
                (Method::HEAD, root, 200),
                (Method::OPTIONS, path.as_str(), 200),
                (Method::POST, path.as_str(), 405),
                (Method::GET, "/.well-known/oauth-protected-resource/other", 404),
            ] {
                assert_eq!(resource.answer(&method, path).status(), status, "{method} {path} {url}");
            }
        }
        let scopes = ["a".to_owned(), "b".to_owned()];
        let resource = ProtectedResource::new("https://h/mcp", "https://i", &scopes).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&resource.document).unwrap();
        assert_eq!(document["scopes_supported"], json!(["a", "b"]));
    }

    #[test]
    fn port_0_becomes_the_port_that_was_taken_and_no_other_does() {
        let resource = |url: &str| ProtectedResource::new(url, "https://i", &[]).unwrap().listening_on(8123);
        assert_eq!(resource("http://127.0.0.1:0/mcp").url(), "http://127.0.0.1:8123/mcp");
        assert_eq!(resource("https://h/mcp").url(), "https://h/mcp");
        assert_eq!(resource("https://h:1/mcp").url(), "https://h:1/mcp");
    }
}
