use pipefy::webhooks;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{EVENTS, events, masked, receiver, without_our_credential};
use crate::outcome::dig_mut;
use crate::tools::shared::{required_text, send};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write,
};

/// Changes a webhook. Pipefy replaces the stored headers: an update without headers deletes them all.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateWebhook {
    webhook_id: CheckedId,
    #[serde(default)]
    name: Option<String>,
    /// https only.
    #[serde(default)]
    url: Option<String>,
    /// As in create_webhook; replaces them.
    #[serde(default)]
    actions: Option<Vec<String>>,
    /// All headers to keep, with their values; {} removes them.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<Map<String, Value>>")]
    headers: Headers,
}

/// Left out, an explicit null, or a set.
#[derive(Default, Serialize)]
#[serde(untagged)]
enum Headers {
    #[default]
    Absent,
    Null,
    Set(Map<String, Value>),
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Headers, D::Error> {
    Ok(Option::<Map<String, Value>>::deserialize(deserializer)?.map_or(Headers::Null, Headers::Set))
}

pub(crate) struct Keep {
    webhook_id: String,
    drops_headers: bool,
}

impl Write for UpdateWebhook {
    const OP: Op = Op::write("update_webhook", Domain::Integration, Shape::Result)
        .personas(&[Persona::Admin])
        .debug()
        .touches(&[IdArg::new("webhook_id", IdKind::Webhook)]);
    type Keep = Keep;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let mut input = Map::new();
        if let Some(name) = &self.name {
            input.insert("name".to_owned(), required_text("name", name)?.into());
        }
        if let Some(actions) = &self.actions {
            input.insert("actions".to_owned(), events(actions)?);
        }
        if let Some(url) = &self.url {
            input.insert("url".to_owned(), receiver(call, url)?.into());
        }
        let mut drops_headers = true;
        if let Headers::Set(headers) = self.headers {
            drops_headers = false;
            input.insert("headers".to_owned(), webhooks::json_text(Value::Object(headers)));
        } else if input.is_empty() {
            return Err(ToolError::invalid("Give at least one of `name`, `url`, `actions`, `headers`."));
        } else if matches!(self.headers, Headers::Null) {
            // Said as it was asked for, so that the removal does not rest on how Pipefy reads a missing key.
            input.insert("headers".to_owned(), Value::Null);
        }
        let webhook_id = self.webhook_id.to_string();
        input.insert("id".to_owned(), webhook_id.as_str().into());
        without_our_credential(call, &input).await?;
        Ok(Plan::new(Keep { webhook_id, drops_headers }).then(webhooks::update_webhook(input)))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("update webhook").about("webhook", &plan.keep.webhook_id).hint(EVENTS);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        let message = if plan.keep.drops_headers {
            "Webhook updated. No headers were given, so Pipefy removed those it had, and its filters; send `headers` to set them \
             again."
        } else {
            "Webhook updated."
        };
        let mut value = data.value();
        if let Some(headers) = dig_mut(&mut value, "updateWebhook.webhook.headers") {
            *headers = masked(headers.take());
        }
        Ok(Outcome::new(value).message(message))
    }

    async fn verify(_: &Plan<Keep>, _: &Outcome, _: &Call<'_>) -> Option<Verification> {
        Some(Verification::unknown(
            "webhooks are read by pipe, and this call names none; read get_webhooks of its pipe",
        ))
    }
}
