//! Drives the sandbox over real sockets, as clients do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod agents;
mod automations;
mod board;
mod cards;
mod documents;
mod edge;
mod events;
mod exports;
mod faults;
mod identities;
mod ipaas;
mod oidc;
mod paging;
mod people;
mod persistence;
mod portals;
mod providers;
mod reports;
mod runs;
mod storage;
mod structure;
mod tables;

use pipefy_sandbox::{DEFAULT_TOKEN, Sandbox, SandboxOptions};
use serde_json::{Value, json};

pub(crate) const MEMBER: &str = "sandbox-token-member";
pub(crate) const GUEST: &str = "sandbox-token-guest";

/// A sandbox with a client in front of it.
pub(crate) struct Rig {
    pub(crate) sandbox: Sandbox,
    pub(crate) http: reqwest::Client,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::with(SandboxOptions::default()).await
    }

    pub(crate) async fn with(options: SandboxOptions) -> Self {
        Self { sandbox: Sandbox::start(options).await.unwrap(), http: client() }
    }

    /// The whole body of an answer.
    pub(crate) async fn raw(&self, path: &str, token: &str, query: &str, variables: Value) -> Value {
        ask(&self.http, self.sandbox.url(), path, token, query, variables).await
    }

    /// The administrator's answer, which must have no errors.
    pub(crate) async fn ok(&self, query: &str, variables: Value) -> Value {
        let body = self.raw("/graphql", DEFAULT_TOKEN, query, variables).await;
        assert!(body.get("errors").is_none(), "{query}\n{body:#}");
        body["data"].clone()
    }

    /// The first error of the administrator's answer.
    pub(crate) async fn error(&self, query: &str, variables: Value) -> Value {
        self.error_as(DEFAULT_TOKEN, query, variables).await
    }

    pub(crate) async fn error_as(&self, token: &str, query: &str, variables: Value) -> Value {
        let body = self.raw("/graphql", token, query, variables).await;
        let error = body["errors"][0].clone();
        assert!(error.is_object(), "expected an error: {query}\n{body:#}");
        error
    }

    /// A pipe by its name: phases, fields, labels, members.
    pub(crate) async fn pipe(&self, name: &str) -> Value {
        let data = self.ok(PIPES, json!({})).await;
        let mut pipes = data["organizations"].as_array().unwrap().iter().flat_map(|o| o["pipes"].as_array().unwrap());
        pipes.rfind(|p| p["name"] == name).unwrap_or_else(|| panic!("no pipe {name}")).clone()
    }

    /// The id of a phase of a pipe by its name.
    pub(crate) async fn phase(&self, pipe: &str, phase: &str) -> String {
        let pipe = self.pipe(pipe).await;
        let phases = pipe["phases"].as_array().unwrap();
        phases.iter().find(|p| p["name"] == phase).unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// A purchase request with its required values, in the first phase.
    pub(crate) async fn card(&self) -> String {
        let pipe = self.pipe("Purchase Requests").await;
        let input = json!({ "pipe_id": pipe["id"], "fields_attributes": purchase() });
        let data = self.ok(CREATE_CARD, json!({ "input": input })).await;
        data["createCard"]["card"]["id"].as_str().unwrap().to_owned()
    }
}

pub(crate) const CREATE_CARD: &str =
    "mutation($input: CreateCardInput!) { createCard(input: $input) { card { id title } } }";

const PIPES: &str = "{ organizations { id uuid name pipes {
    id uuid name startFormPhaseId members { role_name user { id uuid name email } } labels { id name }
    start_form_fields { id internal_id uuid label type required }
    phases { id name done cards_count fields { id internal_id uuid label type required } } } } }";

/// The required start form values of a purchase request.
pub(crate) fn purchase() -> Value {
    json!([
        { "field_id": "what_do_you_need", "field_value": "Teclado \"sem fio\" \\ {x} ✓" },
        { "field_id": "quantity", "field_value": 2 },
        { "field_id": "estimated_cost", "field_value": "310.50" },
        { "field_id": "urgency", "field_value": "High" },
    ])
}

pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().timeout(std::time::Duration::from_secs(30)).build().unwrap()
}

pub(crate) async fn ask(
    http: &reqwest::Client,
    url: &str,
    path: &str,
    token: &str,
    query: &str,
    variables: Value,
) -> Value {
    let body = json!({ "query": query, "variables": variables });
    let response = http.post(format!("{url}{path}")).bearer_auth(token).json(&body).send().await.unwrap();
    response.json().await.unwrap()
}
