//! Asks the person behind the client to fill in a form (`spec/mcp-server.md` section 15).
//!
//! In the handshake era the question goes out while the call waits ([`PeerAsk`]). In the revision without handshake the call
//! ends with the question and a sealed state, and comes again with the answer ([`RoundAsk`]); nothing is kept in between, so any
//! replica with the caller's confirmation key can take the second round.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;
use pipefy_tools::{Answer, Ask, AskError, ConfirmationKey, TTL, digest_of, mint, verify};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, ClientResult, CustomRequest, ErrorCode, InputRequest, InputRequiredResult, ProtocolVersion,
    ServerRequest,
};
use rmcp::service::{Peer, RequestContext, ServiceError};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::http::SessionStore;

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

/// The name of the one question in a round.
const FORM: &str = "form";
/// Answered states that are remembered at most.
const REMEMBERED: usize = 10_000;

/// Why a state is not taken; the caller learns no more than that it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidState;

/// States that were answered, so that an answer counts once: in this process, and over all replicas that share a store. Holds
/// random marks and times only.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    marks: Mutex<HashMap<String, i64>>,
    store: Option<SessionStore>,
}

impl Answered {
    /// Asks this store as well.
    pub(crate) fn shared(&mut self, store: Option<SessionStore>) {
        self.store = store;
    }

    /// Notes a state; `false` when it was noted before. While the store does not answer, this process goes by its own notes.
    async fn first(&self, mark: &str, now: i64) -> bool {
        if !self.first_here(mark, now) {
            return false;
        }
        match &self.store {
            Some(store) => store.first(mark, TTL).await.unwrap_or(true),
            None => true,
        }
    }

    fn first_here(&self, mark: &str, now: i64) -> bool {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if marks.len() >= REMEMBERED {
            marks.retain(|_, end| *end > now);
        }
        if marks.len() >= REMEMBERED
            && let Some(oldest) = marks.iter().min_by_key(|(_, end)| **end).map(|(mark, _)| mark.clone())
        {
            marks.remove(&oldest);
        }
        marks.insert(mark.to_owned(), now + TTL).is_none()
    }
}

/// Asks by ending the call with the question. One call, made again with the answer, is one round.
pub(crate) struct RoundAsk {
    /// What this round has: the form that was answered, and the answer.
    answered: Option<(String, Value)>,
    question: Mutex<Option<(String, String, Value)>>,
}

impl RoundAsk {
    /// The asker of a call. `None` when the client cannot be asked this way, or the tool asks nobody.
    ///
    /// # Errors
    /// The state is not one that this server gave this caller for this call, is too old, or was answered before.
    pub(crate) async fn of(
        context: &RequestContext<RoleServer>,
        request: &CallToolRequestParams,
        asks: bool,
        key: impl FnOnce() -> ConfirmationKey + Send,
        answered: &Answered,
        now: i64,
    ) -> Result<Option<Self>, InvalidState> {
        let new = context.protocol_version().is_some_and(|version| version >= ProtocolVersion::NO_INITIALIZE);
        let offered = context.client_capabilities().is_some_and(|capabilities| capabilities.elicitation.is_some());
        if !(new && offered && asks) {
            return if request.request_state.is_some() { Err(InvalidState) } else { Ok(None) };
        }
        let Some(state) = &request.request_state else { return Ok(Some(Self::asking())) };
        let (form, mark) = open(&key(), request, state, now).ok_or(InvalidState)?;
        let answer = request.input_responses.as_ref().and_then(|responses| responses.get(FORM)).cloned();
        let Some(answer) = answer else { return Ok(Some(Self::asking())) };
        if !answered.first(&mark, now).await {
            return Err(InvalidState);
        }
        Ok(Some(Self { answered: Some((form, answer)), question: Mutex::default() }))
    }

    fn asking() -> Self {
        Self { answered: None, question: Mutex::default() }
    }

    /// The result that asks, when the call asked something that was not answered.
    pub(crate) fn input_required(
        self,
        request: &CallToolRequestParams,
        key: impl FnOnce() -> ConfirmationKey,
        now: i64,
    ) -> Option<InputRequiredResult> {
        let (form, message, schema) = self.question.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        let state = seal(&key(), request, &form, now)?;
        let question = json!({
            "method": "elicitation/create",
            "params": { "mode": "form", "message": message, "requestedSchema": schema },
        });
        let question: InputRequest = serde_json::from_value(question).ok()?;
        Some(InputRequiredResult::new(Some([(FORM.to_owned(), question)].into()), Some(state)))
    }
}

impl Ask for RoundAsk {
    fn form<'a>(&'a self, message: &'a str, schema: Value) -> BoxFuture<'a, Result<Answer, AskError>> {
        let form = digest_of(&schema);
        // Another form than the one that was answered (a field was added meanwhile) is asked anew.
        let answer = self.answered.as_ref().filter(|(answered, _)| *answered == form).map(|(_, answer)| judge(answer));
        let answer = answer.unwrap_or_else(|| {
            let mut question = self.question.lock().unwrap_or_else(PoisonError::into_inner);
            *question = Some((form, message.to_owned(), schema));
            Err(AskError::Later)
        });
        Box::pin(std::future::ready(answer))
    }
}

/// What a state is bound to beside its key, which is the caller's own: tool, arguments, form, and a mark of its own.
fn bound(request: &CallToolRequestParams, form: &str, mark: &str) -> (String, Map<String, Value>) {
    let arguments = digest_of(&json!(request.arguments.clone().unwrap_or_default()));
    let identity = [("arguments", arguments.as_str()), ("form", form), ("mark", mark)];
    (
        format!("{}#{FORM}", request.name),
        identity.map(|(key, value)| (key.to_owned(), Value::from(value))).into_iter().collect(),
    )
}

fn seal(key: &ConfirmationKey, request: &CallToolRequestParams, form: &str, now: i64) -> Option<String> {
    let mut mark = [0u8; 16];
    getrandom::fill(&mut mark).ok()?;
    let mark: String = mark.iter().map(|byte| format!("{byte:02x}")).collect();
    let (tool, identity) = bound(request, form, &mark);
    Some(format!("{mark}.{form}.{}", mint(key, &tool, &identity, now)))
}

/// The form and the mark of a state, when it is for this call and caller.
fn open(key: &ConfirmationKey, request: &CallToolRequestParams, state: &str, now: i64) -> Option<(String, String)> {
    let mut parts = state.splitn(3, '.');
    let (mark, form, token) = (parts.next()?, parts.next()?, parts.next()?);
    let (tool, identity) = bound(request, form, mark);
    verify(key, &tool, &identity, Some(token), now).ok()?;
    Some((form.to_owned(), mark.to_owned()))
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
    judge(&answer)
}

fn judge(answer: &Value) -> Result<Answer, AskError> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn request(tool: &'static str, arguments: Value) -> CallToolRequestParams {
        CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone())
    }

    #[test]
    fn a_state_is_for_its_caller_tool_arguments_and_time_alone() {
        let ana = ConfirmationKey::from_bearer("ana");
        let call = request("create_card", json!({"pipe_id": 1, "title": "A"}));
        let state = seal(&ana, &call, "f0", NOW).unwrap();
        let (form, mark) = open(&ana, &call, &state, NOW + TTL - 1).unwrap();
        assert_eq!((form.as_str(), mark.len()), ("f0", 32));
        // The order of keys is no other argument.
        let same = request("create_card", json!({"title": "A", "pipe_id": 1}));
        assert!(open(&ana, &same, &state, NOW).is_some());
        assert!(open(&ana, &call, &state, NOW + TTL).is_none(), "expiry");
        assert!(open(&ConfirmationKey::from_bearer("ben"), &call, &state, NOW).is_none(), "another caller");
        let other = request("create_card", json!({"pipe_id": 1, "title": "B"}));
        assert!(open(&ana, &other, &state, NOW).is_none(), "other arguments");
        let other = request("fill_card_phase_fields", json!({"pipe_id": 1, "title": "A"}));
        assert!(open(&ana, &other, &state, NOW).is_none(), "another tool");
        // A confirmation token, even of the same caller, is no state.
        let token = mint(&ana, "create_card", &Map::new(), NOW);
        for forged in [token, format!("{mark}.f0.x"), state.replacen("f0", "f1", 1), "x".to_owned(), String::new()] {
            assert!(open(&ana, &call, &forged, NOW).is_none(), "{forged}");
        }
        for at in 0..state.len() {
            let mut tampered = state.clone().into_bytes();
            tampered[at] = if tampered[at] == b'A' { b'B' } else { b'A' };
            assert!(open(&ana, &call, &String::from_utf8(tampered).unwrap(), NOW).is_none(), "byte {at}");
        }
        assert_ne!(state, seal(&ana, &call, "f0", NOW).unwrap());
    }

    #[tokio::test]
    async fn an_answer_counts_once() {
        let answered = Answered::default();
        assert!(answered.first("a", NOW).await && answered.first("b", NOW).await);
        assert!(!answered.first("a", NOW + 10).await);
        for number in 0..2 * REMEMBERED {
            answered.first_here(&format!("{number}"), NOW);
        }
        assert!(answered.marks.lock().unwrap().len() <= REMEMBERED);
    }

    #[tokio::test]
    async fn another_form_than_the_answered_one_is_asked_anew() {
        let (one, two) =
            (json!({"type": "object", "properties": {}}), json!({"type": "object", "title": "x", "properties": {}}));
        let answer = json!({"action": "accept", "content": {"a": 1}});
        let round = RoundAsk { answered: Some((digest_of(&one), answer)), question: Mutex::default() };
        assert!(matches!(round.form("?", one).await, Ok(Answer::Accept(content)) if content["a"] == 1));
        assert_eq!(round.form("?", two).await, Err(AskError::Later));
        let call = request("create_card", json!({}));
        let result = round.input_required(&call, || ConfirmationKey::from_bearer("ana"), NOW).unwrap();
        assert_eq!(result.input_requests.unwrap().len(), 1);
    }
}
