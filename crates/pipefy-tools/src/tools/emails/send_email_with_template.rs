use pipefy::{cards, emails};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::draft::{self, Draft, Outbox};
use crate::tools::shared::{required_text, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Plan, Shape, ToolError,
    Verification, Write, dig,
};

/// Sends an e-mail from a card, written by a template. The first call shows the message; it goes out only when confirmed.
/// The API has no way to create, change or delete templates.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SendEmailWithTemplate {
    card_id: CheckedId,
    /// See get_email_templates.
    email_template_id: CheckedId,
    /// Instead of the template's recipients.
    #[serde(default)]
    to: Option<Vec<String>>,
    /// Instead of the template's sender.
    #[serde(default)]
    from_: Option<String>,
    /// As in send_inbox_email.
    #[serde(default)]
    extra_input: Option<Map<String, Value>>,
}

impl Write for SendEmailWithTemplate {
    const OP: Op = Op::by_input("send_email_with_template", Domain::Workflow, Shape::Result)
        .outsiders(Outsiders::Under(&["subject", "body"]))
        .personas(&[Persona::Admin])
        .debug()
        .touches(&[IdArg::new("card_id", IdKind::Card), IdArg::new("email_template_id", IdKind::EmailTemplate)]);
    type Keep = Outbox;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Outbox>, ToolError> {
        let (card_id, template_id) = (self.card_id.as_str(), self.email_template_id.as_str());
        let given = self.to.as_deref().map(draft::recipients).transpose()?;
        let sender = self.from_.as_deref().map(|from| required_text("from_", from)).transpose()?;
        let mut extra = draft::extra(self.extra_input)?;
        if !draft::is_number(card_id) {
            return Err(ToolError::invalid("A template needs a numeric card ID."));
        }
        let explain = Explain::doing("load the e-mail template").about("email_template", template_id);
        let card = call.query(cards::get_card(card_id, false)).await.map_err(|e| explain.map(call, e))?.value();
        let Some(uuid) = text_of(dig(&card, "card.uuid")).filter(|uuid| !uuid.trim().is_empty()) else {
            return Err(ToolError::api(format!(
                "Card {card_id} has no uuid, or it does not exist; the template needs it."
            )));
        };
        let query = emails::get_parsed_email_template(template_id, Some(&uuid));
        let data = call.query(query).await.map_err(|e| explain.map(call, e))?.value();
        let template = match data.get("parsedEmailTemplate") {
            Some(template) if !template.is_null() => template,
            _ => return Err(explain.missing()),
        };
        let text = |key: &str| text_of(template.get(key)).unwrap_or_default();
        let from_ = match sender.map(str::to_owned).unwrap_or_else(|| text("fromEmail").trim().to_owned()) {
            from if from.is_empty() => return Err(ToolError::invalid("The template has no fromEmail; give `from_`.")),
            from => from,
        };
        let to = given.unwrap_or_else(|| {
            text("toEmail").split(',').map(str::trim).filter(|to| !to.is_empty()).map(str::to_owned).collect()
        });
        if to.is_empty() {
            return Err(ToolError::invalid("The template has no toEmail; give `to`."));
        }
        if let Some(pipe) = text_of(dig(&card, "card.pipe.id")) {
            extra.entry("repoId").or_insert_with(|| pipe.into());
        }
        let remark = draft::copies_remark(template);
        let draft =
            Draft { card_id: card_id.to_owned(), to, subject: text("subject"), body: text("body"), from_, extra };
        Ok(draft.plan(Some(template_id), remark))
    }

    async fn act(plan: &Plan<Outbox>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        draft::send(plan, act).await
    }

    async fn verify(plan: &Plan<Outbox>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        draft::verify(plan, outcome, call).await
    }
}
