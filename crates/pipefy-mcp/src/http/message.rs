//! One POST body: is it one JSON-RPC message, and of which kind.
//!
//! The kind is read first, without building anything (`params` stays text); the typed message that the service loop wants is
//! built after every check has passed. Ids follow the reference: an integer or a text makes a request, anything else in its
//! place makes the message a notification.

use std::borrow::Cow;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientJsonRpcMessage, ClientRequest, GetExtensions as _, JsonRpcMessage,
    RequestId,
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What is wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Not JSON.
    NotJson,
    /// JSON, but not one message.
    NotOneMessage,
}

/// One message, not yet built.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    /// Wants an answer.
    Request { id: RequestId, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// Wants none.
    Notification,
    /// Answers a request of the server.
    Answer,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Reads the kind of a body.
pub(crate) fn read(body: &[u8]) -> Result<Message<'_>, Unreadable> {
    // What is skipped over is not looked into, so this is for all of it.
    let body = std::str::from_utf8(body).map_err(|_| Unreadable::NotJson)?;
    // A derived struct would also take an array, member by member.
    let object = body.trim_ascii_start().starts_with('{');
    let envelope = match object.then(|| serde_json::from_str::<Envelope<'_>>(body)) {
        Some(Ok(envelope)) => envelope,
        Some(Err(error)) if error.is_syntax() || error.is_eof() => return Err(Unreadable::NotJson),
        // Members of wrong types, or no object: still JSON?
        _ => return Err(if is_json(body) { Unreadable::NotOneMessage } else { Unreadable::NotJson }),
    };
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return Err(Unreadable::NotOneMessage);
    }
    let params = envelope.params;
    if params.is_some_and(|params| !params.get().starts_with('{')) {
        return Err(Unreadable::NotOneMessage);
    }
    let id = envelope.id.map(request_id).transpose()?.flatten();
    match (envelope.method, id) {
        (Some(method), Some(id)) => Ok(Message::Request { id, method, params }),
        (Some(_), None) => Ok(Message::Notification),
        (None, Some(_)) if envelope.result.is_some() || envelope.error.is_some() => Ok(Message::Answer),
        _ => Err(Unreadable::NotOneMessage),
    }
}

fn is_json(body: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(body).is_ok()
}

/// The id of a request; `None` for what cannot be one (a fraction, `true`, an object).
fn request_id(id: &RawValue) -> Result<Option<RequestId>, Unreadable> {
    let text = id.get();
    if text.starts_with('"') {
        let text: Cow<'_, str> = serde_json::from_str(text).map_err(|_| Unreadable::NotOneMessage)?;
        return Ok(Some(RequestId::String(text.as_ref().into())));
    }
    match text.parse::<i64>() {
        Ok(number) => Ok(Some(RequestId::Number(number))),
        // An integer that cannot be echoed must not become a call that is never answered.
        Err(_) if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => Err(Unreadable::NotOneMessage),
        Err(_) => Ok(None),
    }
}

/// Builds the message for the service loop. A known method whose parameters do not fit becomes a custom request, for the
/// handler to refuse.
pub(crate) fn build(body: &[u8], message: &Message<'_>) -> Result<ClientJsonRpcMessage, Unreadable> {
    if let Message::Request { id, method, params: Some(params) } = message
        && method == "tools/call"
        // The way through the generic union tries every request type in turn; calls are nearly all there is.
        && let Ok(mut params) = serde_json::from_str::<CallToolRequestParams>(params.get())
    {
        let meta = params.meta.take();
        let mut call = CallToolRequest::new(params);
        if let Some(meta) = meta {
            call.extensions.insert(meta);
        }
        return Ok(JsonRpcMessage::request(ClientRequest::CallToolRequest(call), id.clone()));
    }
    serde_json::from_slice(body).map_err(|_| Unreadable::NotOneMessage)
}

/// Puts the HTTP request's parts beside the message they carried, where the handler finds them.
pub(crate) fn attach(message: &mut ClientJsonRpcMessage, parts: http::request::Parts) {
    match message {
        JsonRpcMessage::Request(request) => {
            request.request.extensions_mut().insert(parts);
        }
        JsonRpcMessage::Notification(notification) => {
            notification.notification.extensions_mut().insert(parts);
        }
        JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    fn kind(body: &str) -> &'static str {
        match read(body.as_bytes()) {
            Ok(Message::Request { .. }) => "request",
            Ok(Message::Notification) => "notification",
            Ok(Message::Answer) => "answer",
            Err(Unreadable::NotJson) => "not json",
            Err(Unreadable::NotOneMessage) => "not one message",
        }
    }

    #[test]
    fn kinds() {
        for (body, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request"),
            (r#" {"jsonrpc":"2.0","id":"a","method":"ping","params":null,"extra":[1]}"#, "request"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "notification"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "notification"),
            (r#"{"jsonrpc":"2.0","method":"notifications/x","params":{}}"#, "notification"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "answer"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#, "answer"),
            (r#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}"#, "not one message"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "not one message"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, "not one message"),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "not one message"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "not one message"),
            (r#"{"id":1,"method":"ping"}"#, "not one message"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "not one message"),
            (r#"["2.0",1,"ping"]"#, "not one message"),
            ("[]", "not one message"),
            ("7", "not one message"),
            ("{}", "not one message"),
            ("", "not json"),
            ("{\"jsonrpc\":", "not json"),
            ("{} x", "not json"),
            ("nonsense", "not json"),
        ] {
            assert_eq!(kind(body), expected, "{body}");
        }
        assert!(matches!(read(b"{\"a\":\"\xff\"}"), Err(Unreadable::NotJson)));
    }

    #[test]
    fn a_deep_body_is_refused_without_harm() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","arguments":{{"a":{}1{}}}}}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        if let Ok(message) = read(deep.as_bytes()) {
            assert!(build(deep.as_bytes(), &message).is_err());
        }
    }

    #[test]
    fn a_call_is_built_as_the_generic_way_builds_it() {
        let body = br#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"_meta":{"progressToken":7},"name":"get_card","arguments":{"card_id":1}}}"#;
        let ours = build(body, &read(body).unwrap()).unwrap();
        let generic: ClientJsonRpcMessage = serde_json::from_slice(body).unwrap();
        let (JsonRpcMessage::Request(ours), JsonRpcMessage::Request(generic)) = (ours, generic) else { panic!() };
        let (ClientRequest::CallToolRequest(a), ClientRequest::CallToolRequest(b)) = (&ours.request, &generic.request)
        else {
            panic!()
        };
        assert_eq!(ours.id, generic.id);
        assert_eq!(a.params, b.params);
        use rmcp::model::GetMeta as _;
        assert_eq!(ours.request.get_meta(), generic.request.get_meta());
    }
}
