use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::draft::{self, Draft, Outbox};
use crate::tools::shared::required_text;
use crate::{
    Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write,
};

/// Sends an e-mail from a card. The first call shows the message; it goes out only when confirmed.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SendInboxEmail {
    card_id: CheckedId,
    to: Vec<String>,
    subject: String,
    /// Plain text.
    body: String,
    /// Sender address.
    from_: String,
    /// Further keys of CreateAndSendInboxEmailInput: cc, bcc, html, fromName, emailAttachments, repoId.
    #[serde(default)]
    extra_input: Option<Map<String, Value>>,
}

impl Write for SendInboxEmail {
    const OP: Op = Op::by_input("send_inbox_email", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Manager, Persona::Operator, Persona::Requester])
        .debug()
        .touches(&[IdArg::new("card_id", IdKind::Card)]);
    type Keep = Outbox;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Outbox>, ToolError> {
        let draft = Draft {
            card_id: self.card_id.to_string(),
            to: draft::recipients(&self.to)?,
            subject: required_text("subject", &self.subject)?.to_owned(),
            body: self.body,
            from_: required_text("from_", &self.from_)?.to_owned(),
            extra: draft::extra(self.extra_input)?,
        };
        Ok(draft.plan(None, ""))
    }

    async fn act(plan: &Plan<Outbox>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        draft::send(plan, act).await
    }

    async fn verify(plan: &Plan<Outbox>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        draft::verify(plan, outcome, call).await
    }
}
