//! The protocol's methods (`spec/mcp-server.md` section 7). One handler serves one connection or session and holds nothing
//! about who is calling: that is read from each message's own request.

use std::borrow::Cow;
use std::future::{Future, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::request::Parts;
use pipefy::Progress;
use pipefy_tools::Ask;
use rmcp::model::*;
use rmcp::service::{OriginatingRequestId, Peer, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::catalogue::{BadNarrowing, Exposure};
use crate::completion;
use crate::conversation::Conversation;
use crate::dispatch::{CallReply, Invocation, dispatch};
use crate::elicit::{InvalidState, PeerAsk, RoundAsk};
use crate::instructions::INSTRUCTIONS;
use crate::prompts;
use crate::resources;
use crate::runtime::McpRuntime;

/// How long a client may keep the list of tools; it never changes while the server runs.
pub(crate) const LIST_TTL_MS: u64 = 300_000;
/// Progress reports that wait to be sent; more are dropped.
const REPORTS: usize = 32;
/// How long the last reports may hold up the answer.
const LAST_REPORTS: Duration = Duration::from_millis(250);
/// Longest id in a log message to the client, in characters.
const LONGEST_ID: usize = 64;

/// Silence after which a client that wants to hear of progress is told that the call goes on; promised are 15 s.
const SILENCE: Duration = Duration::from_secs(10);
/// What a report rises by at least.
const STEP: f64 = 0.001;

/// Methods that exist. One of them with parameters of a wrong shape arrives as a custom request.
const METHODS: [&str; 12] = [
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
    "tools/call",
    "tools/list",
];

/// Serves the protocol on one connection. Cheap to make and to clone.
#[derive(Clone, Debug)]
pub struct Handler {
    runtime: Arc<McpRuntime>,
    /// Fires when the client can send nothing more.
    input_end: CancellationToken,
    /// The client of this connection wants to be told of calls.
    tells: Arc<AtomicBool>,
    /// What was read on this connection, where it is one without HTTP.
    conversation: Conversation,
}

impl Handler {
    /// A handler for one connection or session.
    pub fn new(runtime: Arc<McpRuntime>) -> Self {
        Self {
            runtime,
            input_end: CancellationToken::new(),
            tells: Arc::default(),
            conversation: Conversation::default(),
        }
    }

    /// Tells the handler when its client can send nothing more, so that nobody waits for an answer that cannot come.
    #[must_use]
    pub fn until(mut self, input_end: CancellationToken) -> Self {
        self.input_end = input_end;
        self
    }

    fn request(context: &RequestContext<RoleServer>) -> Option<&Parts> {
        context.extensions.get()
    }

    /// A call that asks nobody and reports to nobody, for the request of this message; the tool is still to be named.
    fn plain_call<'a>(&'a self, context: &'a RequestContext<RoleServer>, id: &'a str) -> Invocation<'a> {
        let request = Self::request(context);
        Invocation {
            id,
            name: "",
            arguments: JsonObject::new(),
            request,
            conversation: self.conversation(request),
            ask: None,
            progress: None,
            cancel: context.ct.clone(),
        }
    }

    /// The conversation that this connection is. An HTTP request brings that of its session, or none.
    fn conversation(&self, request: Option<&Parts>) -> Option<&Conversation> {
        request.is_none().then_some(&self.conversation)
    }

    /// What the request of this message sees.
    fn exposure(&self, context: &RequestContext<RoleServer>) -> Result<Arc<Exposure>, ErrorData> {
        self.runtime.exposure(Self::request(context)).map_err(bad_header)
    }
}

/// A list that stays the same while the server runs, as the revision of this message has it.
macro_rules! fixed_list {
    ($list:expr, $context:expr) => {{
        let mut list = $list;
        if is_enveloped(&$context) {
            list = list.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private);
        }
        list.meta = stamp(&$context);
        list
    }};
}

/// This server, as it introduces itself.
fn implementation() -> Implementation {
    Implementation::new("pipefy", pipefy::VERSION)
}

fn capabilities() -> ServerCapabilities {
    let mut capabilities = ServerCapabilities::default();
    capabilities.completions = Some(JsonObject::new());
    capabilities.experimental = Some(Default::default());
    capabilities.prompts.get_or_insert_default().list_changed = Some(false);
    let resources = capabilities.resources.get_or_insert_default();
    resources.list_changed = Some(false);
    resources.subscribe = Some(false);
    capabilities.tools.get_or_insert_default().list_changed = Some(false);
    capabilities
}

fn since(context: &RequestContext<RoleServer>, version: &ProtocolVersion) -> bool {
    context.protocol_version().is_some_and(|spoken| spoken.as_str() >= version.as_str())
}

/// Whether the request belongs to the revision without handshake.
fn is_enveloped(context: &RequestContext<RoleServer>) -> bool {
    since(context, &ProtocolVersion::NO_INITIALIZE)
}

/// In the revision without handshake every result says which server gave it.
fn stamp(context: &RequestContext<RoleServer>) -> Option<MetaObject> {
    is_enveloped(context).then(server_info)
}

pub(crate) fn server_info() -> MetaObject {
    let mut meta = MetaObject::default();
    meta.0.insert(
        "io.modelcontextprotocol/serverInfo".to_owned(),
        json!({ "name": "pipefy", "version": pipefy::VERSION }),
    );
    meta
}

fn no_such_method(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "Method not found", Some(method.into()))
}

/// The HTTP edge has refused such a request already; this is for handlers that are embedded without it.
fn bad_header(error: BadNarrowing) -> ErrorData {
    ErrorData::invalid_params(error.to_string(), None)
}

fn invalid_state(_: InvalidState) -> ErrorData {
    ErrorData::invalid_params("Invalid or expired requestState", Some(json!({ "reason": "invalid_request_state" })))
}

fn invalid_params() -> ErrorData {
    ErrorData::new(ErrorCode::INVALID_PARAMS, "Invalid request parameters", Some("".into()))
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = capabilities();
        capabilities.logging = Some(JsonObject::new());
        ServerConfig::new(capabilities)
            .with_server_info(implementation())
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
            .with_instructions(INSTRUCTIONS)
    }

    fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<InitializeResult, ErrorData>> + Send + '_ {
        let result = self.negotiate_initialize(&request);
        if let Ok(result) = &result {
            // What was agreed on, not what was asked for, decides how later results look.
            request.protocol_version = result.protocol_version.clone();
            context.peer.set_peer_info(request);
        }
        ready(result)
    }

    fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<DiscoverResult, ErrorData>> + Send + '_ {
        let _ = context;
        let mut result = DiscoverResult::new(self.supported_protocol_versions().into_owned(), capabilities())
            .with_server_info(implementation());
        result.instructions = Some(INSTRUCTIONS.to_owned());
        ready(Ok(result))
    }

    fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<ListToolsResult, ErrorData>> + Send + '_ {
        ready(
            self.exposure(&context)
                .map(|exposure| fixed_list!(list(&exposure, since(&context, &ProtocolVersion::V_2025_06_18)), context)),
        )
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.runtime.whole_exposure().listing(name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let parts = Self::request(&context);
        let exposure = self.runtime.exposure(parts).map_err(bad_header)?;
        if self.tells.load(Ordering::Relaxed) || wants_debug(&context) {
            tell(&context, &request).await;
        }
        let now = jiff::Timestamp::now().as_second();
        let key = || self.runtime.confirmation_key(parts);
        let asks = self.runtime.may_ask(&request.name);
        let round = RoundAsk::of(&context, &request, asks, key, self.runtime.answered(), now).await;
        let round = round.map_err(invalid_state)?;
        let id = context.id.to_string();
        let peer = PeerAsk::of(&context, &self.input_end);
        let ask: Option<&dyn Ask> = match (&peer, &round) {
            (Some(peer), _) => Some(peer),
            (None, Some(round)) => Some(round),
            (None, None) => None,
        };
        let (progress, reports) = match context.meta.get_progress_token() {
            Some(token) => {
                let (sender, receiver) = mpsc::channel(REPORTS);
                (Some(Arc::new(Reports(sender)) as Arc<dyn Progress>), Some((token, receiver)))
            }
            None => (None, None),
        };
        let call = dispatch(
            &self.runtime,
            &exposure,
            Invocation {
                id: &id,
                name: &request.name,
                arguments: request.arguments.clone().unwrap_or_default(),
                request: parts,
                conversation: self.conversation(parts),
                ask,
                progress,
                cancel: context.ct.clone(),
            },
        );
        let reply = match reports {
            Some((token, reports)) => reporting(call, &context.peer, token, reports).await,
            None => call.await,
        };
        if let Some(question) = round.and_then(|round| round.input_required(&request, key, now)) {
            let question = match stamp(&context) {
                Some(meta) => question.with_meta(meta),
                None => question,
            };
            return Ok(question.into());
        }
        let structured = since(&context, &ProtocolVersion::V_2025_06_18);
        Ok(result(&reply, structured).with_meta(stamp(&context)).into())
    }

    fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<ListPromptsResult, ErrorData>> + Send + '_ {
        ready(
            self.exposure(&context)
                .map(|exposure| fixed_list!(ListPromptsResult::with_all_items(prompts::list(&exposure)), context)),
        )
    }

    fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<GetPromptResponse, ErrorData>> + Send + '_ {
        let got =
            self.exposure(&context).and_then(|exposure| prompts::get(&exposure, &request.name, request.arguments));
        ready(got.map(|mut result| {
            result.meta = stamp(&context);
            result.into()
        }))
    }

    fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<ListResourcesResult, ErrorData>> + Send + '_ {
        ready(Ok(fixed_list!(ListResourcesResult::with_all_items(resources::list()), context)))
    }

    fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<ListResourceTemplatesResult, ErrorData>> + Send + '_ {
        ready(self.exposure(&context).map(|exposure| {
            fixed_list!(ListResourceTemplatesResult::with_all_items(resources::templates(&exposure)), context)
        }))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let exposure = self.exposure(&context)?;
        let id = context.id.to_string();
        let read = resources::read(&self.runtime, &exposure, &request.uri, self.plain_call(&context, &id)).await?;
        let mut result = ReadResourceResult::new(vec![read.contents]);
        if is_enveloped(&context) {
            let fresh_for = if read.fixed { LIST_TTL_MS } else { 0 };
            result = result.with_ttl_ms(fresh_for).with_cache_scope(CacheScope::Private);
        }
        result.meta = stamp(&context);
        Ok(result.into())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        // rmcp keeps of it what the capabilities promise: nothing, since nothing here ever changes.
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        tokio::select! {
            () = context.cancelled() => {}
            () = self.input_end.cancelled() => {}
        }
        Ok(())
    }

    #[allow(deprecated, reason = "clients of older revisions set a level")]
    fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        if is_enveloped(&context) {
            return ready(Err(no_such_method("logging/setLevel")));
        }
        self.tells.store(request.level == LoggingLevel::Debug, Ordering::Relaxed);
        ready(Ok(()))
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let exposure = self.exposure(&context)?;
        let id = context.id.to_string();
        let info = completion::complete(&self.runtime, &exposure, &request, self.plain_call(&context, &id)).await?;
        let mut result = CompleteResult::new(info);
        result.meta = stamp(&context);
        Ok(result)
    }

    #[allow(deprecated, reason = "answered as a method that is not there")]
    fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        let _ = request;
        ready(Err(no_such_method("resources/subscribe")))
    }

    #[allow(deprecated, reason = "answered as a method that is not there")]
    fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        let _ = request;
        ready(Err(no_such_method("resources/unsubscribe")))
    }

    fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<CustomResult, ErrorData>> + Send + '_ {
        if request.method == "tools/call"
            && let Some(log) = self.runtime.call_log()
        {
            let member = |name: &str| request.params.as_ref().and_then(|params| params.get(name));
            let tool = member("name").and_then(Value::as_str);
            let arguments = member("arguments").and_then(Value::as_object);
            log.begin(tool, arguments, Self::request(&context), &context.id.to_string()).ended(true, None);
        }
        ready(Err(if METHODS.contains(&request.method.as_str()) {
            invalid_params()
        } else {
            no_such_method(&request.method)
        }))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)
    }

    async fn on_initialized(&self, _context: rmcp::service::NotificationContext<RoleServer>) {}
}

/// The request itself asks for debug messages, in the revision without handshake.
#[allow(deprecated, reason = "clients of today's revisions use it")]
fn wants_debug(context: &RequestContext<RoleServer>) -> bool {
    is_enveloped(context) && context.meta.log_level() == Some(LoggingLevel::Debug)
}

/// Tells the client of a call before it starts, on the stream of its answer. A client that does not listen loses the message
/// and nothing else.
#[allow(deprecated, reason = "clients of today's revisions use it")]
async fn tell(context: &RequestContext<RoleServer>, request: &CallToolRequestParams) {
    let line = told(&request.name, request.arguments.as_ref());
    let mut message =
        LoggingMessageNotification::new(LoggingMessageNotificationParam::new(LoggingLevel::Debug, line.into()));
    message.extensions.insert(OriginatingRequestId(context.id.clone()));
    let sending = context.peer.send_notification(message.into());
    let _late = tokio::time::timeout(LAST_REPORTS, sending).await;
}

/// `tool: id=value, ..`: the ids that a call names. Other arguments may be anybody's data.
fn told(tool: &str, arguments: Option<&JsonObject>) -> String {
    let touches = crate::catalogue::catalogue().get(tool).map(|tool| tool.op().touches).unwrap_or_default();
    let id = |name: &str| match arguments?.get(name)? {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    };
    let ids: Vec<String> = touches
        .iter()
        .filter_map(|touched| {
            let id: String = id(touched.arg)?.chars().filter(|c| !c.is_control()).take(LONGEST_ID).collect();
            Some(format!("{}={id}", touched.arg))
        })
        .collect();
    let tool: String = tool.chars().filter(|c| !c.is_control()).take(LONGEST_ID).collect();
    format!("{tool}: {}", ids.join(", "))
}

/// The list of tools. `newer`: the revision knows output schemas and a tool's `_meta`.
pub(crate) fn list(exposure: &Exposure, newer: bool) -> ListToolsResult {
    let mut tools = exposure.listed().to_vec();
    if !newer {
        for tool in &mut tools {
            tool.output_schema = None;
            tool.meta = None;
        }
    }
    ListToolsResult::with_all_items(tools)
}

/// A reply in the protocol's form. `structured`: the revision knows structured content.
fn result(reply: &CallReply, structured: bool) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(reply.text())]);
    result.is_error = Some(reply.is_error);
    if structured {
        result.structured_content = reply.structured();
    }
    result
}

/// Takes reports from a call without ever holding it up.
struct Reports(mpsc::Sender<(u64, Option<u64>, String)>);

impl Progress for Reports {
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        // When the client does not keep up, later reports replace these.
        let _dropped = self.0.try_send((done, total, message.to_owned()));
    }
}

/// Runs a call and sends its reports, in order and before its answer, under the caller's own token. A call that is silent is
/// said to go on, so that nobody takes it for dead.
async fn reporting(
    call: impl Future<Output = CallReply>,
    peer: &Peer<RoleServer>,
    token: ProgressToken,
    reports: mpsc::Receiver<(u64, Option<u64>, String)>,
) -> CallReply {
    let forward = forward(token, reports, SILENCE, |report| {
        let peer = peer.clone();
        async move { peer.notify_progress(report).await.is_ok() }
    });
    let mut forward = std::pin::pin!(forward);
    let mut call = std::pin::pin!(call);
    let reply = tokio::select! {
        reply = &mut call => reply,
        () = &mut forward => return call.await,
    };
    // The call has dropped its end, so this ends with the last report.
    let _late = tokio::time::timeout(LAST_REPORTS, forward).await;
    reply
}

/// Sends reports until there are no more, each with a higher value than the one before (a rule of the protocol); after
/// `silence` without one, a report that the call goes on.
async fn forward<Sent: Future<Output = bool> + Send>(
    token: ProgressToken,
    mut reports: mpsc::Receiver<(u64, Option<u64>, String)>,
    silence: Duration,
    mut send: impl FnMut(ProgressNotificationParam) -> Sent + Send,
) {
    let mut last: Option<f64> = None;
    loop {
        let next = tokio::time::timeout(silence, reports.recv()).await;
        let (done, total, message) = match next {
            Ok(Some((done, total, message))) => (done as f64, total, message),
            Ok(None) => return,
            Err(_) => (last.unwrap_or(0.0), None, "still running".to_owned()),
        };
        let done = last.map_or(done, |last| done.max(last + STEP));
        last = Some(done);
        let mut report = ProgressNotificationParam::new(token.clone(), done).with_message(message);
        report.total = total.map(|total| total as f64);
        if !send(report).await {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn capabilities_are_those_of_the_contract() {
        assert_eq!(
            serde_json::to_value(capabilities()).unwrap(),
            json!({
                "completions": {},
                "experimental": {},
                "prompts": {"listChanged": false},
                "resources": {"listChanged": false, "subscribe": false},
                "tools": {"listChanged": false},
            })
        );
    }

    #[test]
    fn instructions_explain_every_shared_option_within_their_budget() {
        for option in [
            "fields",
            "format",
            "compact",
            "csv",
            "complete",
            "returned",
            "total",
            "next_cursor",
            "truncated",
            "all",
            "max_items",
            "max_seconds",
            "dry_run",
            "verify",
            "idempotency_key",
            "confirm",
            "confirmation_token",
            "debug",
        ] {
            assert!(INSTRUCTIONS.contains(option), "{option}");
        }
        assert!(INSTRUCTIONS.is_ascii() && INSTRUCTIONS.len() < 1_700, "{}", INSTRUCTIONS.len());
        // What many tools have and none describes is explained here, but for ids and names.
        let mut undescribed: std::collections::BTreeMap<String, usize> = Default::default();
        for tool in crate::catalogue::catalogue().tools() {
            for (name, schema) in tool.input_schema()["properties"].as_object().unwrap() {
                *undescribed.entry(name.clone()).or_default() += usize::from(schema.get("description").is_none());
            }
        }
        for (name, tools) in undescribed.into_iter().filter(|(_, tools)| *tools > 12) {
            let plain = name == "name" || name.ends_with("_id") || name.ends_with("_uuid");
            assert!(plain || INSTRUCTIONS.contains(&name), "{tools} tools have {name}, and nothing explains it");
        }
        assert!(SILENCE < Duration::from_secs(15));
    }

    #[test]
    fn a_client_is_told_of_ids_alone() {
        let arguments = json!({"card_id": 7, "text": "private", "debug": true});
        assert_eq!(told("add_card_comment", arguments.as_object()), "add_card_comment: card_id=7");
        let long = json!({"card_id": format!("a\n{}", "b".repeat(100))});
        assert_eq!(told("get_card", long.as_object()).len(), "get_card: card_id=".len() + LONGEST_ID);
        assert_eq!(told("no_such_tool", None), "no_such_tool: ");
    }

    #[test]
    fn errors_are_plain_text_and_objects_come_twice() {
        let error = CallReply { payload: pipefy_tools::Payload::Value("Unknown tool: x".into()), is_error: true };
        let shown = serde_json::to_value(result(&error, true)).unwrap();
        assert_eq!(shown["content"][0]["text"], "Unknown tool: x");
        assert_eq!(shown["isError"], true);
        assert!(shown.get("structuredContent").is_none());
        let object: Value = json!({"success": false, "error": {"message": "m"}});
        let failure = CallReply { payload: pipefy_tools::Payload::Value(object.clone()), is_error: false };
        let shown = serde_json::to_value(result(&failure, true)).unwrap();
        assert_eq!(shown["structuredContent"], object);
        assert_eq!(serde_json::from_str::<Value>(shown["content"][0]["text"].as_str().unwrap()).unwrap(), object);
        assert!(serde_json::to_value(result(&failure, false)).unwrap().get("structuredContent").is_none());
    }

    #[tokio::test]
    async fn reports_rise_and_silence_is_broken() {
        let (sender, receiver) = mpsc::channel(8);
        for done in [3, 3, 1, 7] {
            sender.try_send((done, Some(9), format!("{done}"))).unwrap();
        }
        let mut sent: Vec<(f64, String)> = Vec::new();
        let mut sender = Some(sender);
        let token = ProgressToken(NumberOrString::Number(1));
        forward(token, receiver, Duration::from_millis(10), |report| {
            sent.push((report.progress, report.message.clone().unwrap_or_default()));
            // Three more come of silence alone.
            if sent.len() == 7 {
                sender = None;
            }
            ready(true)
        })
        .await;
        assert!(sent.len() >= 7, "{sent:?}");
        assert!(sent.windows(2).all(|pair| pair[0].0 < pair[1].0), "{sent:?}");
        assert_eq!((sent[0].0, sent[3].0), (3.0, 7.0));
        assert!(sent[4..7].iter().all(|(done, message)| *done < 8.0 && message == "still running"), "{sent:?}");
    }
}
