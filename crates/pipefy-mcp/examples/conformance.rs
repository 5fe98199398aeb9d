//! The product's server with the fixtures of the official MCP conformance suite added, for `.ci/conformance`: the suite calls
//! tools, prompts and resources by names of its own. Edge, sessions and service loop are the product's, and so is whatever
//! the suite does not name.
//!
//! Takes the server's flags, always serves a sandbox of its own, and ends with SIGTERM.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use pipefy::settings::{Environment, load_server};
use pipefy_mcp::argv::{self, Command, SandboxData};
use pipefy_mcp::handler::Handler;
use pipefy_mcp::http::{HttpOptions, Served, bind};
use pipefy_mcp::runtime::McpRuntime;
use pipefy_mcp::{logging, sandbox};
use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const SILENCE: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==";

#[tokio::main]
async fn main() {
    let Ok(Command::Serve(serve)) = argv::parse(std::env::args().skip(1)) else { panic!("flags of the server") };
    let started = sandbox::start(&SandboxData::Memory).await.unwrap();
    let environment = Environment::empty();
    let settings = load_server(&environment, &sandbox::overrides(serve.overrides(), Some(&started))).unwrap();
    logging::start(settings.mcp.log_level);
    let runtime = McpRuntime::for_profile(&settings, &environment).unwrap();
    let inbound = runtime.inbound().clone();
    let fixtures =
        Fixtures { runtime: Arc::new(runtime), states: Arc::new(RequestStateCodec::try_new([7; 32]).unwrap()) };
    let serving = bind(fixtures, inbound, &HttpOptions::new(&settings).unwrap()).await.unwrap();
    serving.announce();
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
    serving.run(async move { terminate.recv().await.unwrap_or_default() }).await;
    started.shutdown().await;
}

/// The product's server, and the fixtures. Makes its own handlers.
#[derive(Clone)]
struct Fixtures {
    runtime: Arc<McpRuntime>,
    states: Arc<RequestStateCodec>,
}

impl Served for Fixtures {
    type Handler = WithFixtures;

    fn handler(&self) -> WithFixtures {
        WithFixtures { product: self.runtime.handler(), states: self.states.clone() }
    }

    fn is_read(&self, tool: &str) -> bool {
        self.runtime.is_read(tool)
    }

    fn asks(&self, tool: &str) -> bool {
        tool.starts_with("test_") || self.runtime.asks(tool)
    }

    fn admits(&self, headers: &HeaderMap) -> Result<(), String> {
        self.runtime.admits(headers)
    }
}

/// Answers for the fixtures, and leaves everything else to the product's handler.
struct WithFixtures {
    product: Handler,
    states: Arc<RequestStateCodec>,
}

/// A tool that answers with this and nothing else.
fn plain_tool(name: &str) -> Option<Value> {
    let image = json!({"type": "image", "data": PIXEL, "mimeType": "image/png"});
    let resource = |uri: &str, mime: &str, text: &str| json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": text}});
    let content = match name {
        "test_simple_text" | "test_logging_tool" => {
            json!([text("This is a simple text response for testing.")])
        }
        "test_image_content" => json!([image]),
        "test_audio_content" => json!([{"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}]),
        "test_embedded_resource" => {
            json!([resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")])
        }
        "test_multiple_content_types" => json!([
            text("Multiple content types test:"),
            image,
            resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ]),
        "test_error_handling" => {
            let content = [text("This tool intentionally returns an error for testing")];
            return Some(json!({"content": content, "isError": true}));
        }
        _ => return None,
    };
    Some(json!({ "content": content }))
}

/// What a tool asks the person in the middle of a call: the message's argument, or this form.
fn form(name: &str, arguments: &JsonObject) -> Option<Value> {
    let (message, properties, required) = match name {
        "test_elicitation" => (
            arguments.get("message").and_then(Value::as_str).unwrap_or_default(),
            json!({
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            }),
            json!(["username", "email"]),
        ),
        "test_elicitation_sep1034_defaults" => (
            "Fill in the form",
            json!({
                "name": {"type": "string", "default": "John Doe"},
                "age": {"type": "integer", "default": 30},
                "score": {"type": "number", "default": 95.5},
                "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
                "verified": {"type": "boolean", "default": true},
            }),
            json!([]),
        ),
        "test_elicitation_sep1330_enums" => {
            let untitled = json!(["option1", "option2", "option3"]);
            let titled = json!([
                {"const": "value1", "title": "First"},
                {"const": "value2", "title": "Second"},
                {"const": "value3", "title": "Third"},
            ]);
            (
                "Choose",
                json!({
                    "untitledSingle": {"type": "string", "enum": untitled},
                    "titledSingle": {"type": "string", "oneOf": titled},
                    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
                    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": untitled}},
                    "titledMulti": {"type": "array", "items": {"anyOf": titled}},
                }),
                json!([]),
            )
        }
        _ => return None,
    };
    Some(json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {"type": "object", "properties": properties, "required": required},
    }))
}

/// What a tool or prompt of the 2026-07-28 revision asks for, round by round.
fn rounds(name: &str) -> Option<Vec<Value>> {
    let elicit = |message: &str, field: &str, kind: &str| {
        json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": {
            "type": "object", "properties": {field: {"type": kind}}, "required": [field],
        }}})
    };
    let sample = |prompt: &str, tokens: u32| {
        json!({"method": "sampling/createMessage", "params": {
            "messages": [{"role": "user", "content": text(prompt)}], "maxTokens": tokens,
        }})
    };
    let roots = json!({"method": "roots/list", "params": {}});
    Some(match name.strip_prefix("test_input_required_result_").unwrap_or(name) {
        "elicitation" | "test_streaming_elicitation" => {
            vec![json!({"user_name": elicit("What is your name?", "name", "string")})]
        }
        "sampling" => vec![json!({"capital_question": sample("What is the capital of France?", 100)})],
        "list_roots" => vec![json!({"client_roots": roots})],
        "request_state" | "tampered_state" => vec![json!({"confirm": elicit("Please confirm", "ok", "boolean")})],
        "multiple_inputs" | "capabilities" => vec![json!({
            "user_name": elicit("What is your name?", "name", "string"),
            "greeting": sample("Generate a greeting", 50),
            "client_roots": roots,
        })],
        "multi_round" => vec![
            json!({"step1": elicit("Step 1: What is your name?", "name", "string")}),
            json!({"step2": elicit("Step 2: What is your favorite color?", "color", "string")}),
        ],
        "prompt" => vec![json!({"user_context": elicit("What context should the prompt use?", "context", "string")})],
        _ => return None,
    })
}

const TOOLS: [&str; 21] = [
    "test_simple_text",
    "test_logging_tool",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_progress",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];

const PROMPTS: [&str; 5] = [
    "test_simple_prompt",
    "test_prompt_with_arguments",
    "test_prompt_with_embedded_resource",
    "test_prompt_with_image",
    "test_input_required_result_prompt",
];

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A complete result of the protocol, from the rest of its JSON.
fn result<T: serde::de::DeserializeOwned>(mut value: Value) -> T {
    value["resultType"] = "complete".into();
    typed(value)
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn schema(name: &str) -> JsonObject {
    let properties = if name == "test_elicitation" { json!({"message": {"type": "string"}}) } else { json!({}) };
    typed(json!({"type": "object", "properties": properties}))
}

fn prompt(name: &str, arguments: &JsonObject) -> Option<Value> {
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let contents = match name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            vec![text(&format!("Prompt with arguments: arg1='{}', arg2='{}'", argument("arg1"), argument("arg2")))]
        }
        "test_prompt_with_embedded_resource" => vec![
            json!({"type": "resource", "resource": {
                "uri": argument("resourceUri"), "mimeType": "text/plain", "text": "Embedded resource content for testing.",
            }}),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![
            json!({"type": "image", "data": PIXEL, "mimeType": "image/png"}),
            text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => vec![text("Use the given context.")],
        _ => return None,
    };
    let messages: Vec<Value> =
        contents.into_iter().map(|content| json!({"role": "user", "content": content})).collect();
    Some(json!({ "messages": messages }))
}

fn resource(uri: &str) -> Option<Value> {
    let mut content = match uri {
        "test://static-text" => {
            json!({"mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        "test://static-binary" => json!({"mimeType": "image/png", "blob": PIXEL}),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let text = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")}).to_string();
            json!({"mimeType": "application/json", "text": text})
        }
    };
    content["uri"] = uri.into();
    Some(json!({"contents": [content], "ttlMs": 0, "cacheScope": "private"}))
}

/// The answers so far, or what to ask next.
enum Round {
    Answered(Value),
    Ask(InputRequiredResult),
}

impl WithFixtures {
    /// The state carries the number of the round it was given in; without one it is the first.
    fn round(
        &self,
        name: &str,
        rounds: &[Value],
        responses: Option<InputResponses>,
        state: Option<&str>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Round, ErrorData> {
        let opened = state.map(|state| self.states.open_json::<usize>(state)).transpose();
        let asked = opened.map_err(|_| ErrorData::invalid_params("requestState is not ours", None))?.unwrap_or(0);
        let responses = responses.unwrap_or_default();
        let answered =
            rounds[asked].as_object().unwrap().keys().all(|key| responses.get(key).is_some_and(Value::is_object));
        let next = if answered { asked + 1 } else { asked };
        let Some(requests) = rounds.get(next) else { return Ok(Round::Answered(json!(responses))) };
        let mut requests: InputRequests = typed(requests.clone());
        let can = context.client_capabilities();
        requests.retain(|_, request| match request {
            InputRequest::Elicitation(_) => can.as_ref().is_some_and(|can| can.elicitation.is_some()),
            #[allow(deprecated, reason = "the suite asks for it")]
            InputRequest::CreateMessage(_) => can.as_ref().is_some_and(|can| can.sampling.is_some()),
            #[allow(deprecated, reason = "the suite asks for it")]
            InputRequest::ListRoots(_) => can.as_ref().is_some_and(|can| can.roots.is_some()),
            _ => false,
        });
        let stateful = ["state", "multi"].iter().any(|part| name.contains(part));
        let state = stateful.then(|| self.states.seal_json(&next).unwrap());
        Ok(Round::Ask(InputRequiredResult::new(Some(requests), state)))
    }
}

/// Half, and all of the work, a moment apart.
async fn progress(context: &RequestContext<RoleServer>) {
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let report = ProgressNotificationParam::new(token, done).with_total(100.0);
            context.peer.notify_progress(report).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn ask(params: Value, context: &RequestContext<RoleServer>) -> Result<String, ErrorData> {
    if context.client_capabilities().is_none_or(|can| can.elicitation.is_none()) {
        return Err(ErrorData::invalid_request("The client takes no questions", None));
    }
    let request = ServerRequest::CustomRequest(CustomRequest::new("elicitation/create", Some(params)));
    let answer = context.peer.send_request(request).await;
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(format!("User response: {}", serde_json::to_string(&answer).unwrap()))
}

impl ServerHandler for WithFixtures {
    fn get_info(&self) -> ServerConfig {
        self.product.get_info()
    }

    fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<InitializeResult, ErrorData>> + Send + '_ {
        self.product.initialize(request, context)
    }

    fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<DiscoverResult, ErrorData>> + Send + '_ {
        self.product.discover(context)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut result = self.product.list_tools(request, context).await?;
        result.tools.extend(TOOLS.map(|name| Tool::new(name, "A fixture of the suite.", Arc::new(schema(name)))));
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.product.get_tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        if let Some(fixture) = plain_tool(&name) {
            return Ok(result::<CallToolResult>(fixture).into());
        }
        let done = if name == "test_tool_with_progress" {
            progress(&context).await;
            "Done".to_owned()
        } else if name == "test_missing_capability" {
            return Err(ErrorData::new(
                ErrorCode(-32021),
                "The client must be able to sample",
                Some(json!({"requiredCapabilities": {"sampling": {}}})),
            ));
        } else if let Some(form) = form(&name, &request.arguments.clone().unwrap_or_default()) {
            ask(form, &context).await?
        } else if let Some(rounds) = rounds(&name) {
            let (responses, state) = (request.input_responses, request.request_state);
            match self.round(&name, &rounds, responses, state.as_deref(), &context)? {
                Round::Ask(question) => return Ok(question.into()),
                Round::Answered(answers) => format!("state-ok {answers}"),
            }
        } else {
            return self.product.call_tool(request, context).await;
        };
        Ok(result::<CallToolResult>(json!({"content": [text(&done)]})).into())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut result = self.product.list_prompts(request, context).await?;
        result.prompts.extend(PROMPTS.map(|name| Prompt::new(name, Some("A fixture of the suite."), None)));
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let Some(fixture) = prompt(&request.name, &request.arguments.clone().unwrap_or_default()) else {
            return self.product.get_prompt(request, context).await;
        };
        if let Some(rounds) = rounds(&request.name)
            && let (responses, state) = (request.input_responses, request.request_state)
            && let Round::Ask(question) = self.round(&request.name, &rounds, responses, state.as_deref(), &context)?
        {
            return Ok(question.into());
        }
        Ok(result::<GetPromptResult>(fixture).into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut result = self.product.list_resources(request, context).await?;
        result.resources.extend(
            ["test://static-text", "test://static-binary"].map(|uri| {
                typed::<Resource>(json!({"uri": uri, "name": uri, "description": "A fixture of the suite."}))
            }),
        );
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut result = self.product.list_resource_templates(request, context).await?;
        result.resource_templates.push(typed(json!({
            "uriTemplate": "test://template/{id}/data", "name": "template", "description": "A fixture of the suite.",
        })));
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match resource(&request.uri) {
            Some(fixture) => Ok(result::<ReadResourceResult>(fixture).into()),
            None => self.product.read_resource(request, context).await,
        }
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.product.accepted_subscription_filter(requested)
    }

    fn listen(&self, context: SubscriptionContext) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        self.product.listen(context)
    }

    #[allow(deprecated, reason = "clients of older revisions set a level")]
    fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        self.product.set_level(request, context)
    }

    fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<CompleteResult, ErrorData>> + Send + '_ {
        self.product.complete(request, context)
    }

    #[allow(deprecated, reason = "answered as the product does")]
    fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        self.product.subscribe(request, context)
    }

    #[allow(deprecated, reason = "answered as the product does")]
    fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        self.product.unsubscribe(request, context)
    }

    fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<CustomResult, ErrorData>> + Send + '_ {
        self.product.on_custom_request(request, context)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.product.supported_protocol_versions()
    }

    fn on_initialized(&self, context: NotificationContext<RoleServer>) -> impl Future<Output = ()> + Send + '_ {
        self.product.on_initialized(context)
    }
}
