//! The 2026-07-28 revision: no handshake, no sessions; every POST says itself what it is, in headers and in `_meta`.

use std::sync::Arc;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Method, Response, StatusCode};
use rmcp::model::{ProtocolVersion, RequestId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::endpoint::{Checked, Endpoint, handshake_version, read, unreadable};
use super::message::{self, Message};
use super::refusal::{Refusal, code};
use super::reply::{Era, Format};
use super::{PROTOCOL_VERSION, Served};

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// Methods of the handshake era that this one does not have.
const GONE: [&str; 3] = ["initialize", "ping", "logging/setLevel"];

/// A version header that is none of the handshake's puts the request here; the ladder then says whether it is served.
pub(super) fn chosen(headers: &HeaderMap) -> bool {
    headers.get(PROTOCOL_VERSION).is_some_and(|value| value.to_str().ok().and_then(handshake_version).is_none())
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(rename = "_meta", borrow, default)]
    meta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    uri: Option<&'a RawValue>,
}

impl<S: Served> Endpoint<S> {
    pub(super) async fn exchange(self: &Arc<Self>, mut request: Checked) -> Result<Response<Body>, Refusal> {
        if request.parts.method != Method::POST {
            return Err(Refusal::method_not_allowed("POST"));
        }
        self.admit_message(&request.parts, None).await?;
        let format = self.post_format(&request.parts.headers)?;
        let message = read(&request.body, code::INVALID_REQUEST)?;
        let Message::Request { id, method, params } = &message else {
            return Err(Refusal::not_one_message(code::INVALID_REQUEST));
        };
        ladder(&request.parts.headers, method, *params).map_err(|refusal| refusal.for_request(id))?;
        if GONE.contains(&method.as_ref()) {
            return Err(no_such_method(method).for_request(id));
        }
        self.admit_request(&mut request.parts, method, id)?;
        let version = ProtocolVersion::V_2026_07_28;
        // An answer that comes at once is plain JSON.
        if let Some(response) = self.ready(id, method, *params, &version, &request.parts, Format::Json) {
            return Ok(response);
        }
        if method == "tools/call"
            && let Some(params) = self.lone(*params, Era::Exchange)
            && !self.served.asks(params.name())
        {
            return Ok(self.call(id, params, &version, request.parts, format, Era::Exchange).await);
        }
        let typed =
            message::build(&request.body, &message).map_err(|error| unreadable(error, code::INVALID_REQUEST))?;
        let id: RequestId = id.clone();
        let exchange = self.serve_alone(typed, &id, version, request.parts);
        Ok(exchange.respond(format, Era::Exchange).await)
    }
}

fn no_such_method(method: &str) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, code::METHOD_NOT_FOUND, "Method not found").data(method.into())
}

/// The checks of this revision, in its order; the first that fails is the answer.
fn ladder(headers: &HeaderMap, method: &str, params: Option<&RawValue>) -> Result<(), Refusal> {
    let mismatch = |message: String| Refusal::new(StatusCode::BAD_REQUEST, code::HEADER_MISMATCH, message);
    for name in [PROTOCOL_VERSION, METHOD, NAME] {
        if headers.get_all(name).iter().nth(1).is_some() {
            return Err(mismatch(format!("Header mismatch: {name} is repeated")));
        }
    }

    let invalid = |message: String| Refusal::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, message);
    let params: Option<Params<'_>> = params.and_then(|params| serde_json::from_str(params.get()).ok());
    let meta: Option<Map<String, Value>> =
        params.as_ref().and_then(|params| serde_json::from_str(params.meta?.get()).ok());
    let meta = meta.unwrap_or_default();
    let missing: Vec<&str> =
        [VERSION_KEY, CAPABILITIES_KEY].into_iter().filter(|key| !meta.contains_key(*key)).collect();
    if !missing.is_empty() {
        return Err(invalid(format!("Invalid request parameters: _meta lacks {}", missing.join(", "))));
    }
    let Some(version) = meta.get(VERSION_KEY).and_then(Value::as_str) else {
        return Err(invalid(format!("Invalid request parameters: _meta {VERSION_KEY} must be a text")));
    };
    if !meta.get(CAPABILITIES_KEY).is_some_and(Value::is_object) {
        return Err(invalid(format!("Invalid request parameters: _meta {CAPABILITIES_KEY} must be an object")));
    }

    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if header(PROTOCOL_VERSION) != Some(version) {
        return Err(mismatch(format!("Header mismatch: {PROTOCOL_VERSION} differs from _meta {VERSION_KEY}")));
    }
    if header(METHOD) != Some(method) {
        return Err(mismatch(format!("Header mismatch: {METHOD} differs from the method")));
    }
    let named = match method {
        "tools/call" | "prompts/get" => params.as_ref().and_then(|params| params.name),
        "resources/read" => params.as_ref().and_then(|params| params.uri),
        _ => None,
    };
    // A value that is no text is a parameter error; the handler says so.
    if let Some(named) = named.and_then(|named| serde_json::from_str::<String>(named.get()).ok())
        && header(NAME).and_then(plain) != Some(named)
    {
        return Err(mismatch(format!("Header mismatch: {NAME} differs from the parameters")));
    }

    let served = ProtocolVersion::V_2026_07_28;
    if version != served.as_str() {
        let data = json!({"supported": [served.as_str()], "requested": version});
        return Err(
            Refusal::new(StatusCode::BAD_REQUEST, code::UNSUPPORTED_VERSION, "Unsupported protocol version").data(data)
        );
    }
    Ok(())
}

/// A header value, unwrapped where it was wrapped to carry other characters than a header may.
fn plain(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|value| value.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}
