use pipefy::emails;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::shared::non_blank;
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Read, Shape, ToolError};

/// Lists the e-mails that a card sent and received.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetCardInboxEmails {
    card_id: CheckedId,
    /// sent or received; both when left out.
    #[serde(default)]
    email_type: Option<String>,
}

impl Read for GetCardInboxEmails {
    const OP: Op = Op::read("get_card_inbox_emails", Domain::Workflow, Shape::Result)
        .outsiders(Outsiders::Under(&["subject", "body", "from", "fromName"]))
        .personas(&[Persona::Auditor, Persona::Manager, Persona::Operator, Persona::Requester])
        .debug()
        .touches(&[IdArg::new("card_id", IdKind::Card)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let wanted = non_blank(self.email_type.as_deref()).map(str::to_ascii_lowercase);
        if wanted.as_deref().is_some_and(|kind| kind != "sent" && kind != "received") {
            return Err(ToolError::invalid("`email_type` must be sent or received."));
        }
        let data = call
            .query(emails::get_card_inbox_emails(&self.card_id))
            .await
            .map_err(|e| Explain::doing("list the card's e-mails").about("card", &self.card_id).map(call, e))?;
        let mut card =
            data.value().get_mut("card").map(Value::take).filter(Value::is_object).unwrap_or_else(|| json!({}));
        if let (Some(wanted), Value::Object(card)) = (wanted, &mut card)
            && !card.is_empty()
        {
            let all = match card.get_mut("inbox_emails").map(Value::take) {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            };
            let is_wanted = |email: &Value| {
                email.get("type").and_then(Value::as_str).is_some_and(|kind| kind.eq_ignore_ascii_case(&wanted))
            };
            card.insert("inbox_emails".to_owned(), all.into_iter().filter(is_wanted).collect());
        }
        Ok(Outcome::new(json!({ "card": card })).message("E-mails of the card loaded."))
    }
}
