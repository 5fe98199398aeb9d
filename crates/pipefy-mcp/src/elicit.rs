//! Asks the person behind the client to fill in a form (`spec/mcp-server.md` section 15).

use futures_util::future::BoxFuture;
use pipefy_tools::{Answer, Ask, AskError};
use rmcp::RoleServer;
use rmcp::model::{ClientResult, CustomRequest, ErrorCode, ProtocolVersion, ServerRequest};
use rmcp::service::{Peer, RequestContext, ServiceError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Asks over the connection of one call. Must be awaited in the call's own task: the question then goes out on the stream
/// of that call.
pub(crate) struct PeerAsk {
    peer: Peer<RoleServer>,
    /// Fires when no answer can come any more.
    closed: CancellationToken,
}

impl PeerAsk {
    /// `None` when this call's client cannot be asked: it did not say that it can, or the revision has no such request.
    pub(crate) fn of(context: &RequestContext<RoleServer>, closed: &CancellationToken) -> Option<Self> {
        let old = context.protocol_version().is_none_or(|version| version < ProtocolVersion::NO_INITIALIZE);
        let offered = context.client_capabilities().is_some_and(|capabilities| capabilities.elicitation.is_some());
        (old && offered).then(|| Self { peer: context.peer.clone(), closed: closed.clone() })
    }
}

impl Ask for PeerAsk {
    fn form<'a>(&'a self, message: &'a str, schema: Value) -> BoxFuture<'a, Result<Answer, AskError>> {
        // The typed request would sort the form's properties and drop what it does not know.
        let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
        let request = ServerRequest::CustomRequest(CustomRequest::new("elicitation/create", Some(params)));
        Box::pin(async move {
            tokio::select! {
                answer = self.peer.send_request(request) => read(answer),
                () = self.closed.cancelled() => Err(AskError::Closed),
            }
        })
    }
}

fn read(answer: Result<ClientResult, ServiceError>) -> Result<Answer, AskError> {
    let answer = match answer {
        Ok(answer) => serde_json::to_value(answer).unwrap_or_default(),
        Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
            return Err(AskError::Closed);
        }
        Err(ServiceError::McpError(error)) => {
            return Err(AskError::Failed(format!("the client answered the form with error {}", error.code.0)));
        }
        Err(_) => return Err(AskError::Closed),
    };
    match (answer.get("action").and_then(Value::as_str), answer.get("content")) {
        (Some("accept"), Some(Value::Object(content))) => Ok(Answer::Accept(content.clone())),
        (Some("accept"), _) => Err(AskError::Failed("the form was accepted without content".to_owned())),
        (Some("decline"), _) => Ok(Answer::Decline),
        (Some("cancel"), _) => Ok(Answer::Cancel),
        _ => {
            Err(AskError::Failed("the client's answer to the form says neither accept, decline nor cancel".to_owned()))
        }
    }
}
