//! One tool call, whichever way it came in: lookup, identity, limits, the tool, the reply.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::request::Parts;
use pipefy::{Budget, Progress};
use pipefy_tools::journal::Journal;
use pipefy_tools::{Approval, Ask, Call, Kind, Options, Outcome, Outsiders, Payload, Tool, ToolError, render};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::catalogue::{Entry, Exposure, MetaTool, meta};
use crate::conversation::Conversation;
use crate::runtime::{CALL_LIMIT, McpRuntime};
use crate::watch::Watched;

/// How long a call that was cancelled, or ran out of time, may take to wind up before it is dropped.
const WIND_UP: Duration = Duration::from_millis(800);

/// One `tools/call`.
pub struct Invocation<'a> {
    /// The message's JSON-RPC id, for the log.
    pub id: &'a str,
    /// Name of the tool.
    pub name: &'a str,
    /// Its arguments as sent.
    pub arguments: Map<String, Value>,
    /// The HTTP request that carried this message; `None` on standard streams.
    pub request: Option<&'a Parts>,
    /// The conversation it belongs to, when it did not come with an HTTP request that says so.
    pub conversation: Option<&'a Conversation>,
    /// Who can be asked to fill in a form, if anybody.
    pub ask: Option<&'a dyn Ask>,
    /// Who hears how far the call has come.
    pub progress: Option<Arc<dyn Progress>>,
    /// Fires when nobody waits for the answer any more.
    pub cancel: CancellationToken,
}

/// The result of a call.
#[derive(Clone, Debug)]
pub struct CallReply {
    /// The payload object; or, with `is_error`, a plain text.
    pub payload: Payload,
    /// The call did not run, or ended in a defect. A failure that a tool reports is no error in this sense.
    pub is_error: bool,
}

impl CallReply {
    fn error(text: String) -> Self {
        Self { payload: Payload::Value(text.into()), is_error: true }
    }

    /// The text content: compact JSON, or the plain text of an error.
    pub fn text(&self) -> String {
        match &self.payload {
            Payload::Value(Value::String(text)) => text.clone(),
            payload => payload.text(),
        }
    }

    /// What the tool itself says, where it says something.
    pub(crate) fn success(&self) -> Option<bool> {
        match &self.payload {
            Payload::Value(value) => value.get("success").and_then(Value::as_bool),
            Payload::Data(_) => None,
        }
    }

    /// The structured content: the object that the text holds, if it holds one.
    pub fn structured(&self) -> Option<Value> {
        match &self.payload {
            Payload::Value(value) => value.is_object().then(|| value.clone()),
            Payload::Data(data) => Some(data.value()).filter(Value::is_object),
        }
    }
}

/// Runs one call. Never fails: what goes wrong is in the reply.
pub async fn dispatch(runtime: &McpRuntime, exposure: &Exposure, call: Invocation<'_>) -> CallReply {
    let entry = exposure.get(call.name);
    let mut watched = runtime.watchers().begin(call.name, entry, &call.arguments, call.request, call.id);
    let (name, cancel) = (call.name, call.cancel.clone());
    let work = async {
        match entry {
            None => CallReply::error(format!("Unknown tool: {}", call.name)),
            Some(Entry::Tool(tool)) => run(runtime, tool, call, &watched).await,
            Some(Entry::Meta(meta)) => discover(runtime, exposure, meta, call, &mut watched).await,
        }
    };
    // A defect in one tool must not leave its caller waiting for ever. Nothing shared is left half-changed: what a call
    // changes is its own.
    let reply = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
        CallReply::error(failed(name, "an internal defect; a change may have been applied, read the state back first"))
    });
    // Nobody gets the reply of a cancelled call.
    watched.ended(&reply, !cancel.is_cancelled());
    reply
}

/// The power profile's own tools.
async fn discover(
    runtime: &McpRuntime,
    exposure: &Exposure,
    tool: MetaTool,
    mut call: Invocation<'_>,
    watched: &mut Watched,
) -> CallReply {
    let text = |arguments: &Map<String, Value>, key: &str| {
        arguments.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let result: Result<Outcome, ToolError> = match tool.check(std::mem::take(&mut call.arguments)) {
        Err(error) => Err(error),
        Ok(arguments) => match tool {
            MetaTool::GetToolCategories => Ok(meta::categories(exposure)),
            MetaTool::SearchTools => Ok(meta::search(exposure, &text(&arguments, "keyword"))),
            MetaTool::DescribeTool => {
                meta::describe(exposure, &text(&arguments, "name"), runtime.toolbox().unified_envelope)
            }
            MetaTool::ExecuteTool => match meta::find(exposure, &text(&arguments, "name")) {
                Err(error) => Err(error),
                Ok(hidden) => {
                    call.arguments = match arguments.get("arguments") {
                        Some(Value::Object(inner)) => inner.clone(),
                        _ => Map::new(),
                    };
                    watched.dispatched(hidden.op(), &call.arguments);
                    let mut reply = run(runtime, hidden, call, watched).await;
                    if reply.is_error {
                        reply = CallReply::error(failed(tool.name(), &reply.text()));
                    }
                    return reply;
                }
            },
        },
    };
    finish(runtime, tool.op(), result, &Map::new())
}

/// One capability.
async fn run(runtime: &McpRuntime, tool: &'static Tool, call: Invocation<'_>, watched: &Watched) -> CallReply {
    let op = tool.op();
    let Invocation { arguments, request, conversation, ask, progress, cancel, .. } = call;
    let end = Instant::now() + CALL_LIMIT;
    let permit = tokio::select! {
        biased;
        permit = runtime.running().acquire() => permit,
        () = cancel.cancelled() => return finish(runtime, op, Err(cancelled()), &arguments),
    };
    if let Err(error) = watched.admit() {
        return finish(runtime, op, Err(error), &arguments);
    }
    let session = match runtime.session_for_request(request).await {
        Ok(session) => session,
        Err(error) => return CallReply::error(failed(op.name, &error.to_string())),
    };
    let key;
    let key = if op.confirms {
        key = runtime.confirmation_key(request);
        &key
    } else {
        // Never asked for: deriving the caller's own would be work for nothing.
        runtime.process_key()
    };
    let mut policy = runtime.policy(request);
    if runtime.confirms_after_untrusted() {
        let conversation =
            conversation.or_else(|| request.and_then(|request| request.extensions.get::<Conversation>()));
        policy.person_confirms = conversation.is_none_or(Conversation::has_read);
        if let (Some(conversation), true) = (conversation, op.outsiders != Outsiders::Nowhere) {
            conversation.reads();
        }
    }
    let journal = arguments.contains_key("idempotency_key").then(|| runtime.journal(request)).flatten();
    let mut budget = Budget::unlimited().with_deadline(end).with_cancel(cancel.clone());
    if let Some(progress) = progress {
        budget = budget.with_progress(progress);
    }
    if let Some(requests) = watched.requests() {
        budget = budget.with_requests(requests);
    }
    let work: BoxFuture<'_, _> = Box::pin(tool.call(
        arguments.clone(),
        Call {
            toolbox: runtime.toolbox(),
            session: &session,
            policy: &policy,
            approval: Approval::Token { key, now: jiff::Timestamp::now().as_second() },
            ask,
            budget,
            journal: journal.as_ref().map(|(entries, owner)| Journal { entries: *entries, owner }),
            room: Some(runtime.result_budget()).filter(|bytes| *bytes > 0),
            options: Options::default(),
            op: None,
            unanswered: Default::default(),
        },
    ));
    // The tool watches its budget itself; this is for the stretches where it does not.
    let result = tokio::select! {
        biased;
        result = work => result,
        () = late(&cancel, end) => Err(if cancel.is_cancelled() { cancelled() } else { out_of_time(op.name) }),
    };
    drop(permit);
    finish(runtime, op, result, &arguments)
}

async fn late(cancel: &CancellationToken, end: Instant) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = tokio::time::sleep_until(end.into()) => {}
    }
    tokio::time::sleep(WIND_UP).await;
}

fn finish(
    runtime: &McpRuntime,
    op: &pipefy_tools::Op,
    result: Result<Outcome, ToolError>,
    arguments: &Map<String, Value>,
) -> CallReply {
    match result {
        Err(ToolError { kind: Kind::Internal, message, .. }) => CallReply::error(failed(op.name, &message)),
        result => {
            let reply = render(op, runtime.toolbox(), result, arguments, runtime.result_budget());
            CallReply { payload: reply.payload, is_error: false }
        }
    }
}

fn failed(tool: &str, reason: &str) -> String {
    format!("Error executing tool {tool}: {reason}")
}

fn cancelled() -> ToolError {
    ToolError::new(Kind::Cancelled, "The call was cancelled.").code("CANCELLED")
}

fn out_of_time(tool: &str) -> ToolError {
    ToolError::new(
        Kind::Transport,
        format!(
            "{tool} was stopped after {} seconds. A change may have been applied; read the state back before repeating it.",
            CALL_LIMIT.as_secs()
        ),
    )
    .code("TIMEOUT")
}
