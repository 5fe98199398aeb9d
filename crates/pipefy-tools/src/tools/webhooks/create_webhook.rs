use pipefy::webhooks;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{EVENTS, events, receiver, without_our_credential};
use crate::readback;
use crate::tools::shared::{extra_keys, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write, dig,
};

/// Registers a webhook: Pipefy calls url when one of the actions happens in the pipe.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateWebhook {
    pipe_id: CheckedId,
    /// https only.
    url: String,
    /// Events, e.g. card.create, card.move, card.done.
    actions: Vec<String>,
    /// Further keys of CreateWebhookInput: name, headers, email, filters (with filters, one action only).
    #[serde(default)]
    extra_input: Option<Map<String, Value>>,
}

impl Write for CreateWebhook {
    const OP: Op = Op::write("create_webhook", Domain::Integration, Shape::Result)
        .personas(&[Persona::Admin])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);
    type Keep = String;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let actions = events(&self.actions)?;
        let url = receiver(call, &self.url)?;
        let name = match self.extra_input.as_ref().and_then(|extra| extra.get("name")) {
            Some(name) => name.clone(),
            None => call.toolbox.default_webhook_name.as_str().into(),
        };
        let pipe_id = self.pipe_id.to_string();
        let mut input = extra_keys(self.extra_input, &["pipe_id", "url", "actions"]);
        if let Some(headers) = input.get_mut("headers") {
            *headers = webhooks::json_text(headers.take());
        }
        input.insert("pipe_id".to_owned(), pipe_id.as_str().into());
        input.insert("url".to_owned(), url.into());
        input.insert("actions".to_owned(), actions);
        input.insert("name".to_owned(), name);
        without_our_credential(call, &input).await?;
        Ok(Plan::new(pipe_id).then(webhooks::create_webhook(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("create webhook").about("pipe", &plan.keep).hint(EVENTS);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Webhook created."))
    }

    async fn verify(plan: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = text_of(dig(&outcome.body.value(), "createWebhook.webhook.id"))?;
        let read = call.query(webhooks::get_webhooks(&plan.keep)).await;
        Some(readback::item(read, "pipe.webhooks", &["id"], &id).matches(plan, &[("pipe_id", "")]))
    }
}
