use pipefy::webhooks;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::tools::shared::{not_done, send};
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError,
    Verification, Write,
};

/// Deletes a webhook for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteWebhook {
    webhook_id: CheckedId,
}

impl Write for DeleteWebhook {
    const OP: Op = Op::destructive("delete_webhook", Domain::Integration, Shape::Result)
        .personas(&[Persona::Admin])
        .debug()
        .touches(&[IdArg::new("webhook_id", IdKind::Webhook)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let id = self.webhook_id.to_string();
        let confirmation = Confirmation::delete(format!("webhook (ID: {id})"), json!({ "webhook_id": id }));
        let mutation = webhooks::delete_webhook(&id);
        Ok(Plan::new(id).then(mutation).confirm(confirmation))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("delete webhook").about("webhook", &plan.keep);
        let data = send(plan, act).await.map_err(|e| not_done(act, explain, e))?;
        Ok(Outcome::new(data).message("Webhook deleted."))
    }

    async fn verify(_: &Plan<String>, _: &Outcome, _: &Call<'_>) -> Option<Verification> {
        Some(Verification::unknown(
            "webhooks are read by pipe, and this call names none; read get_webhooks of its pipe",
        ))
    }
}
