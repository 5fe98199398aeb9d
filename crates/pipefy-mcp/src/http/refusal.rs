//! Refusals of the edge: one type, JSON bodies, fixed texts. A body never repeats what the client sent.

use std::borrow::Cow;

use axum::body::Body;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use rmcp::model::RequestId;
use serde_json::{Value, json};

/// JSON-RPC codes the edge answers with.
pub(crate) mod code {
    /// The body is not JSON.
    pub(crate) const PARSE: i64 = -32700;
    /// The request cannot be served as it is.
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    /// No such method.
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    /// The body is JSON, but not one message; or parameters have the wrong shape.
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    /// The server failed.
    pub(crate) const INTERNAL: i64 = -32603;
    /// 2026-07-28: a header is repeated or differs from the body.
    pub(crate) const HEADER_MISMATCH: i64 = -32020;
    /// 2026-07-28: the version is not served.
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
    /// The request was cancelled.
    pub(crate) const CANCELLED: i64 = -32800;
    /// Too much at once; try later.
    pub(crate) const BUSY: i64 = -32000;
}

/// Why a request gets no answer of the server behind the edge.
#[derive(Debug)]
pub(crate) struct Refusal(Box<Content>);

#[derive(Debug)]
struct Content {
    status: StatusCode,
    body: Value,
    header: Option<(HeaderName, HeaderValue)>,
    reason: &'static str,
}

/// Why a response is a refusal, in one word of a small set; for metrics, in the response's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) &'static str);

/// The word for a status that has only one meaning here.
fn reason(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "bearer",
        StatusCode::FORBIDDEN => "scope",
        StatusCode::NOT_FOUND => "path",
        StatusCode::METHOD_NOT_ALLOWED => "method",
        StatusCode::NOT_ACCEPTABLE => "accept",
        StatusCode::REQUEST_TIMEOUT => "slow_body",
        StatusCode::CONFLICT => "second_stream",
        StatusCode::PAYLOAD_TOO_LARGE => "too_large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "content_type",
        StatusCode::MISDIRECTED_REQUEST => "host",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        StatusCode::INTERNAL_SERVER_ERROR => "internal",
        _ => "message",
    }
}

impl Refusal {
    /// A JSON-RPC error without id.
    pub(crate) fn new(status: StatusCode, code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
        Self(Box::new(Content { status, body, header: None, reason: reason(status) }))
    }

    /// An OAuth error (RFC 6750 section 3.1).
    pub(crate) fn oauth(status: StatusCode, error: &str, description: &str, challenge: &str) -> Self {
        let body = json!({"error": error, "error_description": description});
        let header = HeaderValue::from_str(challenge).ok().map(|value| (WWW_AUTHENTICATE, value));
        Self(Box::new(Content { status, body, header, reason: reason(status) }))
    }

    /// The error belongs to this request.
    pub(crate) fn for_request(mut self, id: &RequestId) -> Self {
        if let Some(slot) = self.0.body.get_mut("id") {
            *slot = id.clone().into_json_value();
        }
        self
    }

    /// Adds `error.data`.
    pub(crate) fn data(mut self, data: Value) -> Self {
        if let Some(error) = self.0.body.get_mut("error").and_then(Value::as_object_mut) {
            error.insert("data".to_owned(), data);
        }
        self
    }

    fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.header = Some((name, value));
        self
    }

    /// Counted under this word.
    fn because(mut self, reason: &'static str) -> Self {
        self.0.reason = reason;
        self
    }

    /// 404 for a session that is unknown here or belongs to somebody else: the same bytes for both.
    pub(crate) fn unknown_session() -> Self {
        Self::new(StatusCode::NOT_FOUND, code::INVALID_REQUEST, "Session not found").because("session")
    }

    /// 404 for a session that this caller had and that has ended.
    pub(crate) fn ended_session() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            code::INVALID_REQUEST,
            "Session not found: it was terminated or expired; send initialize for a new one",
        )
        .because("session")
    }

    /// 400: no session id, and the message is no `initialize`.
    pub(crate) fn missing_session() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            code::INVALID_REQUEST,
            "Missing session id: send initialize first, then its Mcp-Session-Id header with every request",
        )
        .because("session")
    }

    /// 404 for any path that is not served.
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, code::INVALID_REQUEST, "Not found: the MCP endpoint is /mcp")
    }

    /// 405 with what is allowed.
    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, code::INVALID_REQUEST, format!("Method not allowed: use {allow}"))
            .header(ALLOW, HeaderValue::from_static(allow))
    }

    /// 413.
    pub(crate) fn body_too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            code::INVALID_REQUEST,
            format!("Request body too large: at most {limit} bytes"),
        )
    }

    /// 421: the `Host` is not one of this server's.
    pub(crate) fn host() -> Self {
        Self::new(
            StatusCode::MISDIRECTED_REQUEST,
            code::INVALID_REQUEST,
            "Invalid Host header: add the public host to PIPEFY_MCP_ALLOWED_HOSTS",
        )
    }

    /// 403: the `Origin` may not use this server.
    pub(crate) fn origin() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            code::INVALID_REQUEST,
            "Invalid Origin header: add the origin to PIPEFY_MCP_ALLOWED_ORIGINS",
        )
        .because("origin")
    }

    /// 406.
    pub(crate) fn not_acceptable(needed: &'static str) -> Self {
        Self::new(
            StatusCode::NOT_ACCEPTABLE,
            code::INVALID_REQUEST,
            format!("Not acceptable: the client must accept {needed}"),
        )
    }

    /// 400 when the content type is something else altogether, 415 when it only begins like JSON's.
    pub(crate) fn content_type(status: StatusCode) -> Self {
        Self::new(status, code::INVALID_REQUEST, "Invalid Content-Type header: it must be application/json")
            .because("content_type")
    }

    /// 400: not JSON.
    pub(crate) fn not_json() -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::PARSE, "Parse error: the body is not JSON")
    }

    /// 400: JSON, but not one message. 2026-07-28 has another code for it than the handshake era.
    pub(crate) fn not_one_message(code: i64) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, "Invalid message: the body must be one JSON-RPC message, not a batch")
    }

    /// 409: the session has its stream already.
    pub(crate) fn second_stream() -> Self {
        Self::new(
            StatusCode::CONFLICT,
            code::INVALID_REQUEST,
            "Conflict: this session has its GET stream already; only one is allowed",
        )
    }

    /// 400: an earlier request with this id has not been answered yet.
    pub(crate) fn duplicate_id(id: &RequestId) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            code::INVALID_REQUEST,
            "Invalid request: another request with this id is still running in the session",
        )
        .for_request(id)
    }

    /// 408: the body did not come in time.
    pub(crate) fn slow_body() -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            code::INVALID_REQUEST,
            "Request timeout: the body did not arrive in time; send it again",
        )
    }

    /// 429 or 503 with `Retry-After`.
    pub(crate) fn later(status: StatusCode, seconds: u32, message: &'static str) -> Self {
        Self::new(status, code::BUSY, message).header(RETRY_AFTER, HeaderValue::from(seconds))
    }

    /// 503: whether there is such a session is known to a store that does not answer.
    pub(crate) fn store_down() -> Self {
        Self::later(
            StatusCode::SERVICE_UNAVAILABLE,
            2,
            "The store of sessions does not answer; the session may still be there, so try again",
        )
        .because("store")
    }

    /// 429: a limit on one caller, counted under this word.
    pub(crate) fn too_many(seconds: u32, reason: &'static str, message: &'static str) -> Self {
        Self::later(StatusCode::TOO_MANY_REQUESTS, seconds, message).because(reason)
    }

    /// 500.
    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL, "Internal error")
    }

    /// The response.
    pub(crate) fn into_response(self) -> Response<Body> {
        let Content { status, body, header, reason } = *self.0;
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response.extensions_mut().insert(Refused(reason));
        response
    }
}
