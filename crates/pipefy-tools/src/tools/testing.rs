//! A scripted Pipefy for the tests of capabilities: answers by root field, and keeps what was sent.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use pipefy::settings::PipefySettings;
use pipefy::url_policy::UrlPolicy;
use pipefy::{
    Budget, EndpointKind, Error, GraphqlExecutor, GraphqlResponse, Operation, OperationKind, PipefyClient, Selections,
    Surface, Transfer,
};
use serde_json::{Map, Value, json};

use crate::journal::Journal;
use crate::journal::tests::Memory;
use crate::{Answer, Approval, Ask, AskError, Call, Catalogue, ConfirmationKey, Local, Options, Outcome, Policy};
use crate::{ToolError, Toolbox, render};

/// What one root field answers.
#[derive(Clone, Debug)]
enum Scripted {
    /// A whole GraphQL answer.
    Body(Value),
    /// No answer.
    Fail(Error),
}

/// One request as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// Its first root field.
    pub(crate) root: String,
    pub(crate) kind: OperationKind,
    pub(crate) endpoint: EndpointKind,
    pub(crate) document: String,
    pub(crate) variables: Value,
}

#[derive(Default)]
struct Script {
    answers: Vec<(String, VecDeque<Scripted>)>,
    sent: Vec<Sent>,
    credential: Option<String>,
}

#[derive(Clone, Default)]
struct Backend(Arc<Mutex<Script>>);

impl GraphqlExecutor for Backend {
    fn execute<'a>(&'a self, operation: &'a Operation, _: &'a Budget) -> BoxFuture<'a, Result<GraphqlResponse, Error>> {
        let document = &operation.document;
        let root = root_field(document.text());
        let mut script = self.0.lock().unwrap();
        script.sent.push(Sent {
            root: root.clone(),
            kind: document.kind(),
            endpoint: document.endpoint(),
            document: document.text().to_owned(),
            variables: operation.variables.clone().into(),
        });
        let queue = script.answers.iter_mut().find(|(name, _)| *name == root).map(|(_, queue)| queue);
        let Some(queue) = queue else { panic!("no answer scripted for `{root}`") };
        // The last answer of a root field holds for ever.
        let answer = if queue.len() > 1 { queue.pop_front() } else { queue.front().cloned() };
        Box::pin(async move {
            // Requests that run at the same time should overlap in tests too.
            tokio::task::yield_now().await;
            match answer.unwrap() {
                Scripted::Body(body) => Ok(GraphqlResponse::parse(200, &body.to_string().into()).unwrap()),
                Scripted::Fail(error) => Err(error),
            }
        })
    }

    fn credential_occurs_in<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        let found = self.0.lock().unwrap().credential.as_deref().is_some_and(|credential| text.contains(credential));
        Box::pin(async move { Ok(found) })
    }
}

/// The first root field of a document, without alias.
fn root_field(document: &str) -> String {
    let mut depth = 0;
    for (index, c) in document.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            '{' if depth == 0 => {
                let rest = document[index + 1..].trim_start();
                let end = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
                let (name, after) = rest.split_at(end(rest));
                return match after.strip_prefix(':') {
                    Some(after) => after.trim_start()[..end(after.trim_start())].to_owned(),
                    None => name.to_owned(),
                };
            }
            _ => {}
        }
    }
    panic!("no root field in {document}");
}

/// A scripted Pipefy and everything a call needs beside it.
pub(crate) struct Mock {
    backend: Backend,
    pub(crate) toolbox: Toolbox,
    pub(crate) policy: Policy,
    settings: PipefySettings,
    key: ConfirmationKey,
    person: Option<Person>,
    room: Option<usize>,
    journal: Option<Memory>,
    owner: String,
    /// The approval that was used last.
    approved: Mutex<Option<String>>,
}

impl Mock {
    /// Answers nothing yet; local profile, unified envelope, nobody to ask.
    pub(crate) fn new() -> Self {
        Self::at("https://app.pipefy.com")
    }

    /// With files kept by a storage under this base URL, loopback included.
    pub(crate) fn at(base_url: &str) -> Self {
        let policy = UrlPolicy::from_switch(base_url.starts_with("http:"));
        Self {
            backend: Backend::default(),
            toolbox: Toolbox {
                surface: Surface::Mcp,
                unified_envelope: true,
                enrichment_timeout: Duration::from_secs(5),
                base_url: base_url.to_owned(),
                default_webhook_name: "Pipefy Webhook".to_owned(),
                allow_insecure_urls: policy.is_insecure(),
                ipaas: None,
                local: Some(Local::default()),
                selections: Selections::default(),
                spent: Default::default(),
            },
            policy: Policy::default(),
            settings: PipefySettings::for_base_url(base_url, policy).unwrap(),
            key: ConfirmationKey::from_bytes(b"tests"),
            person: None,
            room: None,
            journal: None,
            owner: "tests".to_owned(),
            approved: Mutex::default(),
        }
    }

    /// `root` answers this payload; several answers are given in turn, the last one for ever.
    pub(crate) fn on(self, root: &str, payload: Value) -> Self {
        self.body(root, json!({ "data": { root: payload } }))
    }

    /// `root` answers this whole GraphQL body.
    pub(crate) fn body(self, root: &str, body: Value) -> Self {
        self.add(root, Scripted::Body(body))
    }

    /// `root` answers an error; a blank code is left out.
    pub(crate) fn error(self, root: &str, message: &str, code: &str) -> Self {
        let mut error = json!({ "message": message });
        if !code.is_empty() {
            error["extensions"] = json!({ "code": code, "correlation_id": "corr-1" });
        }
        self.body(root, json!({ "data": { root: null }, "errors": [error] }))
    }

    /// `root` fails like this.
    pub(crate) fn failing(self, root: &str, error: Error) -> Self {
        self.add(root, Scripted::Fail(error))
    }

    /// `root` gives no answer in time.
    pub(crate) fn timeout(self, root: &str, kind: OperationKind) -> Self {
        let error = Error::Timeout { endpoint: EndpointKind::Public, limit: Duration::from_secs(30), kind };
        self.add(root, Scripted::Fail(error))
    }

    fn add(self, root: &str, answer: Scripted) -> Self {
        let mut script = self.backend.0.lock().unwrap();
        match script.answers.iter_mut().find(|(name, _)| name == root) {
            Some((_, queue)) => queue.push_back(answer),
            None => script.answers.push((root.to_owned(), VecDeque::from([answer]))),
        }
        drop(script);
        self
    }

    /// Requests would carry this credential.
    pub(crate) fn credential(self, credential: &str) -> Self {
        self.backend.0.lock().unwrap().credential = Some(credential.to_owned());
        self
    }

    pub(crate) fn legacy(mut self) -> Self {
        self.toolbox.unified_envelope = false;
        self
    }

    /// Results have this many bytes at most.
    pub(crate) fn room(mut self, bytes: usize) -> Self {
        self.room = Some(bytes);
        self
    }

    pub(crate) fn read_only(mut self) -> Self {
        self.policy.read_only = true;
        self
    }

    pub(crate) fn hosted(mut self) -> Self {
        self.toolbox.local = None;
        self
    }

    /// A variable of this machine.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.toolbox.local.get_or_insert_default().env.insert(name.to_owned(), value.into());
        self
    }

    /// Somebody answers forms like this.
    pub(crate) fn person(mut self, answer: Result<Answer, AskError>) -> Self {
        self.person = Some(Person { answer, shown: Mutex::default() });
        self
    }

    /// Writes with an idempotency key are put down, in memory.
    pub(crate) fn journal(mut self) -> Self {
        self.journal = Some(Memory::default());
        self
    }

    /// Somebody else calls from now on.
    pub(crate) fn owned_by(mut self, owner: &str) -> Self {
        owner.clone_into(&mut self.owner);
        self
    }

    pub(crate) fn memory(&self) -> &Memory {
        self.journal.as_ref().expect("a journal")
    }

    /// Calls a tool.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<Outcome, ToolError> {
        self.call_through(Arc::new(self.backend.clone()), tool, arguments).await
    }

    /// Calls a tool with another backend.
    pub(crate) async fn call_through(
        &self,
        executor: Arc<dyn GraphqlExecutor>,
        tool: &str,
        arguments: Value,
    ) -> Result<Outcome, ToolError> {
        let catalogue = Catalogue::new();
        let tool = catalogue.get(tool).unwrap_or_else(|| panic!("{tool} is not in the catalogue"));
        let session = PipefyClient::from_executors(
            executor.clone(),
            executor.clone(),
            executor,
            Transfer::new(&self.settings).unwrap(),
        );
        let call = Call {
            toolbox: &self.toolbox,
            session: &session,
            policy: &self.policy,
            approval: Approval::Token { key: &self.key, now: 1_000 },
            ask: self.person.as_ref().map(|person| person as &dyn Ask),
            budget: Budget::unlimited(),
            journal: self.journal.as_ref().map(|entries| Journal { entries, owner: &self.owner }),
            room: self.room,
            options: Options::default(),
            op: None,
            unanswered: Default::default(),
        };
        tool.call(object(arguments), call).await
    }

    /// Calls a tool and gives what MCP shows.
    pub(crate) async fn reply(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments.clone()).await;
        let catalogue = Catalogue::new();
        let op = catalogue.get(tool).unwrap().op();
        render(op, &self.toolbox, result, &object(arguments), self.room.unwrap_or(0)).payload.value()
    }

    /// Calls a destructive tool twice: for the token, and with it.
    pub(crate) async fn confirmed(&self, tool: &str, arguments: Value) -> Value {
        let preview = self.reply(tool, arguments.clone()).await;
        let token = preview["confirmation_token"].as_str().unwrap_or_else(|| panic!("no token in {preview}"));
        let mut arguments = object(arguments);
        arguments.insert("confirm".to_owned(), true.into());
        arguments.insert("confirmation_token".to_owned(), token.into());
        *self.approved.lock().unwrap() = Some(token.to_owned());
        self.reply(tool, arguments.into()).await
    }

    /// Everything that was sent, in order.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.backend.0.lock().unwrap().sent.clone()
    }

    /// The mutations that were sent, in order.
    pub(crate) fn writes(&self) -> Vec<Sent> {
        self.sent().into_iter().filter(|sent| sent.kind == OperationKind::Mutation).collect()
    }

    /// The root fields that were asked for, in order.
    pub(crate) fn roots(&self) -> Vec<String> {
        self.sent().into_iter().map(|sent| sent.root).collect()
    }

    /// The forms that were shown: message and schema.
    pub(crate) fn forms(&self) -> Vec<(String, Value)> {
        self.person.as_ref().map(|person| person.shown.lock().unwrap().clone()).unwrap_or_default()
    }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("not an object: {value}")).clone()
}

/// Somebody who answers every form the same way.
struct Person {
    answer: Result<Answer, AskError>,
    shown: Mutex<Vec<(String, Value)>>,
}

impl Ask for Person {
    fn form<'a>(&'a self, message: &'a str, schema: Value) -> BoxFuture<'a, Result<Answer, AskError>> {
        self.shown.lock().unwrap().push((message.to_owned(), schema));
        Box::pin(async { self.answer.clone() })
    }
}

/// What every write must hold to, whatever it does.
pub(crate) struct WriteRules {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
    /// Root field and payload of the reads it makes.
    pub(crate) reads: Vec<(&'static str, Value)>,
    /// Root field and payload of the mutations it sends, in order.
    pub(crate) writes: Vec<(&'static str, Value)>,
    /// The payload of a mutation is shown even when it says `success: false`.
    pub(crate) judged_by_reader: bool,
}

impl WriteRules {
    pub(crate) fn new(tool: &'static str, arguments: Value) -> Self {
        Self { tool, arguments, reads: Vec::new(), writes: Vec::new(), judged_by_reader: false }
    }

    pub(crate) fn read(mut self, root: &'static str, payload: Value) -> Self {
        self.reads.push((root, payload));
        self
    }

    pub(crate) fn write(mut self, root: &'static str, payload: Value) -> Self {
        self.writes.push((root, payload));
        self
    }

    pub(crate) fn judged_by_reader(mut self) -> Self {
        self.judged_by_reader = true;
        self
    }

    /// A backend on which everything succeeds, but for the mutation `at`, which answers `instead`.
    fn mock(&self, at: usize, instead: Option<Scripted>) -> Mock {
        let mut mock = Mock::new();
        for (root, payload) in &self.reads {
            mock = mock.on(root, payload.clone());
        }
        for (index, (root, payload)) in self.writes.iter().enumerate() {
            mock = match &instead {
                Some(instead) if index == at => mock.add(root, instead.clone()),
                _ => mock.on(root, payload.clone()),
            };
        }
        mock
    }

    async fn run(&self, mock: &Mock) -> Value {
        let catalogue = Catalogue::new();
        let confirms = catalogue.get(self.tool).unwrap_or_else(|| panic!("no {}", self.tool)).op().confirms;
        if confirms {
            let reply = mock.confirmed(self.tool, self.arguments.clone()).await;
            assert!(mock.writes().len() <= self.writes.len(), "{}: the preview wrote", self.tool);
            reply
        } else {
            mock.reply(self.tool, self.arguments.clone()).await
        }
    }

    /// The approval that was used does not approve the same call again.
    async fn approves_once(&self, mock: &Mock, reply: &Value) {
        let Some(token) = mock.approved.lock().unwrap().clone() else { return };
        assert!(reply.get("requires_confirmation").is_none(), "{}: {reply}", self.tool);
        let mut again = object(self.arguments.clone());
        again.insert("confirm".to_owned(), true.into());
        again.insert("confirmation_token".to_owned(), token.clone().into());
        let reply = mock.reply(self.tool, again.into()).await;
        assert_eq!(reply["requires_confirmation"], true, "{}: {reply}", self.tool);
        assert!(reply["message"].as_str().is_some_and(|text| text.contains("used already")), "{}: {reply}", self.tool);
        assert_ne!(reply["confirmation_token"], token.as_str(), "{}", self.tool);
        assert_eq!(mock.writes().len(), self.writes.len(), "{}: one approval wrote twice", self.tool);
    }

    /// Sends exactly its mutations, once each, whatever happens; dry runs, previews and read-only servers send none.
    pub(crate) async fn check(self) -> Vec<Sent> {
        let tool = self.tool;
        let mock = self.mock(usize::MAX, None);
        let reply = self.run(&mock).await;
        assert_ne!(reply.get("success"), Some(&json!(false)), "{tool}: {reply}");
        assert!(reply.get("error").is_none(), "{tool}: {reply}");
        let sent = mock.writes();
        let roots: Vec<&str> = sent.iter().map(|sent| sent.root.as_str()).collect();
        let expected: Vec<&str> = self.writes.iter().map(|(root, _)| *root).collect();
        assert_eq!(roots, expected, "{tool}");
        self.approves_once(&mock, &reply).await;

        let mut dry = object(self.arguments.clone());
        dry.insert("dry_run".to_owned(), true.into());
        dry.insert("confirm".to_owned(), true.into());
        let mock = self.mock(usize::MAX, None);
        let reply = mock.reply(tool, dry.into()).await;
        assert_eq!(reply["dry_run"], true, "{tool}: {reply}");
        assert!(mock.writes().is_empty(), "{tool}: a dry run wrote");
        let steps: Vec<&Value> =
            reply["steps"].as_array().unwrap().iter().filter(|s| s.get("document").is_some()).collect();
        assert_eq!(steps.len(), sent.len(), "{tool}: {reply}");
        for (step, sent) in steps.iter().zip(&sent) {
            assert_eq!(step["document"], sent.document, "{tool}");
            assert!(
                same_but_unknown(&step["variables"], &sent.variables),
                "{tool}: {} / {}",
                step["variables"],
                sent.variables
            );
        }

        let mock = self.mock(usize::MAX, None).read_only();
        let reply = mock.reply(tool, self.arguments.clone()).await;
        assert_eq!(reply["error"]["code"], "READ_ONLY", "{tool}: {reply}");
        assert!(mock.sent().is_empty(), "{tool}: a read-only server sent something");

        for (at, (root, payload)) in self.writes.iter().enumerate() {
            let denied = json!({ "message": "Permission denied", "extensions": { "code": "PERMISSION_DENIED" } });
            let timeout = Error::Timeout {
                endpoint: EndpointKind::Public,
                limit: Duration::from_secs(30),
                kind: OperationKind::Mutation,
            };
            let mut failures = vec![
                Scripted::Body(json!({ "data": { *root: null }, "errors": [denied] })),
                Scripted::Body(json!({ "data": { *root: null } })),
                Scripted::Fail(timeout),
            ];
            if payload.get("success").is_some() && !self.judged_by_reader {
                failures.push(Scripted::Body(json!({ "data": { *root: { "success": false } } })));
            }
            for failure in failures {
                let mock = self.mock(at, Some(failure.clone()));
                let reply = self.run(&mock).await;
                assert_eq!(reply["success"], false, "{tool}: {failure:?} gave {reply}");
                assert!(
                    reply["error"]["message"].as_str().is_some_and(|m| !m.trim().is_empty() && m.is_ascii()),
                    "{tool}: {reply}"
                );
                assert_eq!(mock.writes().len(), at + 1, "{tool}: {failure:?}: {:?}", mock.roots());
                if matches!(failure, Scripted::Fail(_)) {
                    let text = reply.to_string();
                    assert!(text.contains("read it back") && text.contains("30 s"), "{tool}: {text}");
                }
            }
        }
        sent
    }
}

fn same_but_unknown(planned: &Value, sent: &Value) -> bool {
    match (planned, sent) {
        (Value::Object(planned), _) if planned.contains_key("$unknown") => true,
        (Value::Object(planned), Value::Object(sent)) => {
            planned.len() == sent.len()
                && planned.iter().all(|(key, value)| sent.get(key).is_some_and(|sent| same_but_unknown(value, sent)))
        }
        (Value::Array(planned), Value::Array(sent)) => {
            planned.len() == sent.len()
                && planned.iter().zip(sent).all(|(planned, sent)| same_but_unknown(planned, sent))
        }
        _ => planned == sent,
    }
}
