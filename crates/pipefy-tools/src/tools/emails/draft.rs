//! An e-mail before it is sent: what the preview shows, what the approval is bound to, what goes out
//! (`spec/tools-data-portals.md`, "Email draft model").

use pipefy::{Data, Error, Mutation, cards, emails};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::readback;
use crate::tools::shared::{required_text, text_of};
use crate::{Act, Call, Confirmation, Explain, Outcome, Plan, ToolError, Verification, dig, digest_of, unknown};

/// Keys of `extra_input` that arguments, or what is made of them, stand for.
const TAKEN: [&str; 9] = ["card_id", "cardid", "to", "subject", "body", "text", "from_", "from", "email_template_id"];

/// The message; its fields in this order are shown and digested.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Draft {
    pub(crate) card_id: String,
    pub(crate) to: Vec<String>,
    pub(crate) subject: String,
    pub(crate) body: String,
    pub(crate) from_: String,
    pub(crate) extra: Map<String, Value>,
}

/// What the act needs.
pub(crate) struct Outbox {
    card_id: String,
    /// The pipe of the card is still to be read.
    needs_pipe: bool,
}

/// Recipients, trimmed; none blank, at least one.
pub(crate) fn recipients(to: &[String]) -> Result<Vec<String>, ToolError> {
    if to.is_empty() {
        return Err(ToolError::invalid("`to` needs at least one recipient."));
    }
    to.iter().map(|recipient| required_text("to", recipient).map(str::to_owned)).collect()
}

/// `extra_input`, as long as it repeats no argument: the preview must show what is sent.
pub(crate) fn extra(extra: Option<Map<String, Value>>) -> Result<Map<String, Value>, ToolError> {
    let extra = extra.unwrap_or_default();
    match extra.keys().find(|key| TAKEN.contains(&key.to_lowercase().as_str())) {
        Some(key) => Err(ToolError::invalid(format!(
            "`extra_input` must not hold '{}': an argument of its own stands for it.",
            key.to_lowercase()
        ))),
        None => Ok(extra),
    }
}

/// Whether a text is a number as card ids are.
pub(crate) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

impl Draft {
    /// The plan of sending it: one step, after an approval bound to every letter of it.
    pub(crate) fn plan(self, template: Option<&str>, remark: &str) -> Plan<Outbox> {
        let shown = serde_json::to_value(&self).unwrap_or_default();
        let mut identity = json!({ "card_id": self.card_id, "email": digest_of(&shown) });
        if let (Some(template), Value::Object(identity)) = (template, &mut identity) {
            identity.insert("email_template_id".to_owned(), template.into());
        }
        let resource = format!("email from card {} to {}", self.card_id, self.to.join(", "));
        let mut confirmation = Confirmation::delete(resource, identity).verb("send").sentence(format!(
            "\u{26a0}\u{fe0f} Sending cannot be undone: a sent e-mail cannot be recalled. The message is under `email`.{remark}"
        ));
        if let Some(template) = template {
            confirmation = confirmation.extra("email_template_id", template);
        }
        let outbox = Outbox {
            needs_pipe: !self.extra.contains_key("repoId") && is_number(&self.card_id),
            card_id: self.card_id.clone(),
        };
        let mutation = self.mutation(outbox.needs_pipe);
        Plan::new(outbox).then(mutation).confirm(confirmation.extra("email", shown))
    }

    fn mutation(self, needs_pipe: bool) -> Mutation {
        let mut input = Map::new();
        input.insert("cardId".to_owned(), self.card_id.into());
        input.insert("from".to_owned(), self.from_.into());
        input.insert("subject".to_owned(), self.subject.into());
        input.insert("to".to_owned(), self.to.into());
        input.insert("text".to_owned(), self.body.into());
        input.extend(self.extra.into_iter().filter(|(_, value)| !value.is_null()));
        if needs_pipe {
            input.insert("repoId".to_owned(), unknown("the pipe of the card"));
        }
        emails::send_inbox_email(input)
    }
}

/// Sends the draft, once.
pub(crate) async fn send(plan: &Plan<Outbox>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
    let Outbox { card_id, needs_pipe } = &plan.keep;
    let explain = Explain::doing("send the e-mail").about("card", card_id);
    let Some(planned) = plan.mutations().next() else {
        return Err(ToolError::internal("the plan holds no step"));
    };
    let mut mutation = planned.clone();
    if *needs_pipe {
        let pipe = match act.query(cards::get_card(card_id, false)).await {
            Ok(data) => text_of(dig(&data.value(), "card.pipe.id")),
            // Pipefy can often do without it.
            Err(Error::Graphql { .. }) => None,
            Err(error) => return Err(explain.map(act, error)),
        };
        if let Some(Value::Object(input)) = mutation.variables_mut().get_mut("input") {
            match pipe {
                Some(pipe) => input.insert("repoId".to_owned(), pipe.into()),
                None => input.remove("repoId"),
            };
        }
    }
    let data = act.send(&mutation).await.map_err(|e| explain.map(act, e))?;
    let message = if was_refused(&data) {
        "Sending was requested, but Pipefy says that nothing went out (`emailSent` is false); see `errors`."
    } else {
        "Sending was requested; `emailSent` tells whether the e-mail went out."
    };
    Ok(Outcome::new(data).message(message))
}

/// Whether the e-mail is among those of the card.
pub(crate) async fn verify(plan: &Plan<Outbox>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
    let sent = outcome.body.value();
    let Some(id) = text_of(dig(&sent, "createAndSendInboxEmail.inboxEmail.id")) else {
        return Some(Verification::unknown("Pipefy gave the e-mail no id to look for"));
    };
    let read = call.query(emails::get_card_inbox_emails(&plan.keep.card_id)).await;
    Some(readback::item(read, "card.inbox_emails", &["id"], &id).there("e-mail among those of its card"))
}

fn was_refused(data: &Data) -> bool {
    dig(&data.value(), "createAndSendInboxEmail.emailSent") == Some(&Value::Bool(false))
}

/// What to say when a template names further recipients: they are not sent to.
pub(crate) fn copies_remark(template: &Value) -> &'static str {
    let copies = ["ccEmail", "bccEmail"]
        .iter()
        .any(|key| template.get(key).and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty()));
    if copies { " The template's cc and bcc are not used; give `cc` or `bcc` in extra_input." } else { "" }
}
