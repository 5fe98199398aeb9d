//! The place where samples are played: one Pipefy on a socket for all plays, each with its own bearer, answers and fault.
//!
//! A play's bearer names it in GraphQL requests; requests beside GraphQL name it by the path in front of theirs.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use futures_util::FutureExt as _;
use pipefy::settings::{Environment, Overrides, ServerSettings, load_server};
use pipefy::{Budget, Credential, PipefyEngine, Selections, Surface};
use pipefy_tools::{Approval, Call, Catalogue, ConfirmationKey, IpaasGateway, Local, Options, Policy, Toolbox, render};
use serde_json::{Map, Value, json};

use crate::backend::{self, Log};
use crate::document::Operation;
use crate::mock::{self, Mock, Reply, Seen};
use crate::samples::{CANARY, Sample, User};

/// How long one play may take, unless it says otherwise.
const PLAY: Duration = Duration::from_secs(20);

/// Which requests of a play go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// The mutation of this number, from 0.
    Mutation(usize),
    /// Every query.
    Queries,
    /// The queries after this many mutations.
    After(usize),
}

/// What happens to them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// No answer.
    Silence,
    /// The connection is reset.
    Reset,
    /// This status and text; JSON where it starts with a brace.
    Text(u16, &'static str),
    /// Each root field of the operation holds this JSON.
    Root(&'static str),
    /// The usual answer with other values in it.
    Altered,
}

/// One GraphQL request as it came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sent {
    pub(crate) endpoint: &'static str,
    pub(crate) is_mutation: bool,
    pub(crate) roots: Vec<String>,
    pub(crate) document: String,
    pub(crate) variables: Value,
}

impl Sent {
    /// `public query card`.
    pub(crate) fn place(&self) -> String {
        let kind = if self.is_mutation { "mutation" } else { "query" };
        format!("{} {kind} {}", self.endpoint, self.roots.join("+"))
    }
}

/// What is known of a play while it runs.
struct Scene {
    log: Log,
    sent: Vec<Sent>,
    fault: Option<(At, Fault)>,
}

/// How a sample is to be played.
#[derive(Clone)]
pub(crate) struct Play<'a> {
    pub(crate) sample: &'a Sample,
    pub(crate) user: User,
    /// Arguments beside the sample's.
    pub(crate) more: &'a [(&'a str, Value)],
    pub(crate) fault: Option<(At, Fault)>,
    pub(crate) limit: Duration,
    /// With the text of outsiders marked.
    pub(crate) marks: bool,
}

impl<'a> Play<'a> {
    /// As recorded, for the first user.
    pub(crate) fn of(sample: &'a Sample) -> Self {
        Self { sample, user: User::Ana, more: &[], fault: None, limit: PLAY, marks: false }
    }

    pub(crate) fn by(mut self, user: User) -> Self {
        self.user = user;
        self
    }

    pub(crate) fn with(mut self, more: &'a [(&'a str, Value)]) -> Self {
        self.more = more;
        self
    }

    pub(crate) fn marking(mut self) -> Self {
        self.marks = true;
        self
    }

    pub(crate) fn failing(mut self, at: At, fault: Fault) -> Self {
        self.fault = Some((at, fault));
        if matches!(fault, Fault::Silence) {
            self.limit = Duration::from_secs(4);
        }
        self
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Played {
    /// What MCP shows.
    pub(crate) reply: Value,
    /// GraphQL requests in the order they came.
    pub(crate) sent: Vec<Sent>,
    /// Whatever must not be, whichever play it is: secrets, texts that are no JSON, requests nobody recorded.
    pub(crate) problems: Vec<String>,
}

impl Played {
    /// Whether it did what it should.
    pub(crate) fn succeeded(&self) -> bool {
        self.reply.get("success").is_none_or(|success| *success == true) && self.reply.get("error").is_none()
    }

    pub(crate) fn mutations(&self) -> Vec<&Sent> {
        self.sent.iter().filter(|sent| sent.is_mutation).collect()
    }

    pub(crate) fn queries(&self) -> Vec<&Sent> {
        self.sent.iter().filter(|sent| !sent.is_mutation).collect()
    }
}

/// One Pipefy, one engine, one catalogue.
pub(crate) struct Stage {
    mock: Mock,
    engine: PipefyEngine,
    settings: ServerSettings,
    pub(crate) catalogue: Catalogue,
    scenes: Arc<Mutex<HashMap<usize, Scene>>>,
    next: AtomicUsize,
}

impl Drop for Stage {
    fn drop(&mut self) {
        crate::outputs::write();
    }
}

impl Stage {
    pub(crate) async fn open() -> Self {
        let scenes: Arc<Mutex<HashMap<usize, Scene>>> = Arc::default();
        let mock = Mock::start({
            let scenes = scenes.clone();
            move |_, seen| answer(&mut scenes.lock().unwrap(), seen)
        })
        .await;
        let settings = settings(&mock.url(""), &mock.url(""));
        let engine = PipefyEngine::build(&settings.pipefy, Surface::Mcp, None).unwrap();
        Self { mock, engine, settings, catalogue: Catalogue::new(), scenes, next: AtomicUsize::new(1) }
    }

    /// What plays of one process share. A play with an iPaaS needs one of its own.
    pub(crate) fn toolbox(&self) -> Toolbox {
        self.toolbox_of(&self.settings)
    }

    fn toolbox_of(&self, settings: &ServerSettings) -> Toolbox {
        let env =
            [("PIPEFY_IPAAS_CONNECTION_TEST_KEY", "canary-env-90bc"), ("PIPEFY_IPAAS_CONNECTION_KEY", "canary-env-91")];
        Toolbox {
            surface: Surface::Mcp,
            unified_envelope: true,
            enrichment_timeout: Duration::from_secs(2),
            base_url: self.mock.url(""),
            default_webhook_name: "Pipefy Webhook".to_owned(),
            allow_insecure_urls: true,
            ipaas: IpaasGateway::new(&settings.ipaas),
            local: Some(Local {
                env: env.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect(),
                out: None,
                place: None,
            }),
            selections: Selections::default(),
            spent: Default::default(),
        }
    }

    /// Plays with everything of its own. Where Pipefy is silent a play has little time; on a slow machine it gets more, until it
    /// comes to the silence.
    pub(crate) async fn play(&self, mut play: Play<'_>) -> Played {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let toolbox = self.toolbox_of(&settings(&self.mock.url(""), &self.mock.url(&format!("/play-{number}"))));
            let played = self.numbered(number, play.clone(), &toolbox).await;
            let silent = match play.fault {
                Some((At::Mutation(at), Fault::Silence)) => at,
                _ => return played,
            };
            if played.mutations().len() > silent || play.limit > PLAY {
                return played;
            }
            play.limit *= 3;
        }
    }

    /// Plays in a process that others use too.
    pub(crate) async fn play_in(&self, toolbox: &Toolbox, play: Play<'_>) -> Played {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.numbered(number, play, toolbox).await
    }

    async fn numbered(&self, number: usize, play: Play<'_>, toolbox: &Toolbox) -> Played {
        let bearer = format!("{CANARY}-bearer-{number}-");
        let base = self.mock.url(&format!("/play-{number}"));
        let log = Log::of(play.sample.exchanges(&base, play.user), &bearer);
        let scene = Scene { log, sent: Vec::new(), fault: play.fault };
        self.scenes.lock().unwrap().insert(number, scene);

        let tool = self.catalogue.get(&play.sample.tool).unwrap_or_else(|| panic!("no tool {}", play.sample.tool));
        let session = self.engine.session(Credential::static_token(&bearer.as_str().into()).unwrap());
        // As on a hosted server: what one caller approves is nothing to another.
        let key = ConfirmationKey::from_bearer(&bearer);
        let policy = Policy { mark_untrusted: play.marks, ..Policy::default() };
        let end = Instant::now() + play.limit;
        let mut args = play.sample.args(&base);
        args.extend(play.more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));

        let mut problems = Vec::new();
        let mut reply = Value::Null;
        for _ in 0..2 {
            let call = Call {
                toolbox,
                session: &session,
                policy: &policy,
                approval: Approval::Token { key: &key, now: 1_000 },
                ask: None,
                budget: Budget::unlimited().with_deadline(end),
                journal: None,
                room: None,
                options: Options::default(),
                op: None,
                unanswered: Default::default(),
            };
            let result = tool.call(args.clone(), call).await;
            let shown = format!("{result:?}");
            let rendered = render(tool.op(), toolbox, result, &args, 0);
            let text = rendered.payload.text();
            reply = rendered.payload.value();
            if serde_json::from_str::<Value>(&text).ok().as_ref() != Some(&reply) {
                problems.push(format!("the text is not the structured content: {text}"));
            }
            if !reply.is_object() {
                problems.push(format!("the result is no object: {text}"));
            }
            for (place, text) in [("the result", &text), ("Debug", &shown)] {
                if let Some(at) = text.find(CANARY) {
                    let around: String =
                        text.chars().skip(text[..at].chars().count().saturating_sub(60)).take(140).collect();
                    problems.push(format!("a secret is in {place}: {around}"));
                }
            }
            match reply.get("confirmation_token") {
                Some(token) if reply["requires_confirmation"] == true => {
                    args.insert("confirmation_token".to_owned(), token.clone());
                    args.insert("confirm".to_owned(), true.into());
                }
                _ => break,
            }
        }
        let misfit = crate::outputs::misfit(tool, &reply, play.more.is_empty() && !play.marks);
        problems.extend(misfit.map(|what| format!("the result has another schema: {what}")));
        let scene = self.scenes.lock().unwrap().remove(&number).unwrap();
        if play.fault.is_none() {
            problems.extend(scene.log.problems);
        }
        Played { reply, sent: scene.sent, problems }
    }
}

/// Settings of a process against `base`, with its iPaaS at `ipaas`.
pub(crate) fn settings(base: &str, ipaas: &str) -> ServerSettings {
    let mut environment = Environment::empty();
    for (name, value) in [
        ("PIPEFY_BASE_URL", base),
        ("PIPEFY_IPAAS_URL", ipaas),
        ("PIPEFY_ALLOW_INSECURE_URLS", "true"),
        ("PIPEFY_DISABLE_STORED_SESSION", "true"),
        ("PIPEFY_TOKEN", "unused"),
    ] {
        environment = environment.with_variable(name, value);
    }
    load_server(&environment, &Overrides::new()).unwrap()
}

/// The number between `mark` and the next character that is no digit.
fn number_after(text: &str, mark: &str) -> Option<usize> {
    let rest = &text[text.find(mark)? + mark.len()..];
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn answer(scenes: &mut HashMap<usize, Scene>, seen: &Seen) -> Reply {
    let path = seen.target.split('?').next().unwrap_or_default();
    let endpoint = backend::endpoint(path);
    let named = match endpoint {
        Some(_) => seen.header("authorization").and_then(|bearer| number_after(bearer, "-bearer-")),
        None => number_after(path, "/play-"),
    };
    let Some((number, scene)) = named.and_then(|number| Some((number, scenes.get_mut(&number)?))) else {
        return mock::json(404, json!({"errors": [{"message": "whose request is this?"}]}));
    };
    let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
    let mut altered = false;
    if let Some(endpoint) = endpoint
        && let Ok(operation) = Operation::read(&body)
    {
        let roots: Vec<String> = operation.fields.iter().map(|field| field.name.clone()).collect();
        let earlier = scene.sent.iter().filter(|sent| sent.is_mutation).count();
        scene.sent.push(Sent {
            endpoint,
            is_mutation: operation.is_mutation,
            roots,
            document: body["query"].as_str().unwrap_or_default().to_owned(),
            variables: body.get("variables").cloned().unwrap_or_else(|| json!({})),
        });
        match scene.fault {
            Some((At::Mutation(wanted), fault)) if operation.is_mutation && wanted == earlier => {
                return failing(fault, &operation);
            }
            Some((At::After(mutations), Fault::Altered)) if !operation.is_mutation && earlier >= mutations => {
                altered = true;
            }
            Some((At::Queries, fault)) if !operation.is_mutation => return failing(fault, &operation),
            Some((At::After(mutations), fault)) if !operation.is_mutation && earlier >= mutations => {
                return failing(fault, &operation);
            }
            _ => {}
        }
    }
    let target = seen.target.replacen(&format!("/play-{number}"), "", 1);
    let mut request = axum::http::Request::builder().method(seen.method.as_str()).uri(target);
    for (name, value) in &seen.headers {
        request = request.header(name, value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let response = backend::answer_one(&mut scene.log, &parts, &Bytes::from(seen.body.clone()));
    let (head, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).now_or_never().unwrap().unwrap();
    let headers: BTreeMap<String, String> = head
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
        .collect();
    let mut body = body.to_vec();
    if altered && let Ok(mut answer) = serde_json::from_slice(&body) {
        alter(&mut answer);
        body = answer.to_string().into_bytes();
    }
    Reply::Answer(head.status.as_u16(), headers.into_iter().collect(), body)
}

/// Every value becomes another of its type.
fn alter(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(alter),
        Value::Array(list) => list.iter_mut().for_each(alter),
        Value::String(text) => text.push('9'),
        Value::Bool(flag) => *flag = !*flag,
        Value::Number(number) => *value = json!(number.as_f64().unwrap_or_default() + 1.0),
        Value::Null => {}
    }
}

fn failing(fault: Fault, operation: &Operation) -> Reply {
    match fault {
        // Only the usual answer can be altered.
        Fault::Silence | Fault::Altered => Reply::Silence,
        Fault::Reset => Reply::Reset,
        Fault::Text(status, text) if text.starts_with('{') => mock::json(status, text),
        Fault::Text(status, text) => mock::with(status, &[("content-type", "text/html")], text),
        Fault::Root(payload) => {
            let payload: Value = serde_json::from_str(payload).unwrap();
            let data: Map<String, Value> =
                operation.fields.iter().map(|field| (field.key.clone(), payload.clone())).collect();
            mock::json(200, json!({ "data": data }))
        }
    }
}
