use pipefy::comments;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::failure::{Doing, failed};
use super::{LONGEST, comment_text};
use crate::readback::{self, asked};
use crate::tools::shared::{send, text_of};
use crate::{Act, Call, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write, dig};

/// Adds a comment of up to 1000 characters to a card. Repeating it adds another.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct AddCardComment {
    card_id: pipefy::Id,
    text: String,
}

impl Write for AddCardComment {
    const OP: Op = Op::write("add_card_comment", Domain::Workflow, Shape::EnvelopeOrFlat)
        .personas(&[Persona::Manager, Persona::Operator, Persona::Requester])
        .no_output_schema()
        .touches(&[IdArg::new("card_id", IdKind::Card)]);
    type Keep = ();

    async fn plan(self, _: &Call<'_>) -> Result<Plan, ToolError> {
        let text = comment_text(&self.text).ok_or_else(|| {
            let length = self.text.chars().count();
            if length > LONGEST {
                ToolError::invalid(format!(
                    "A comment has a limit of {LONGEST} characters (1000-character limit), got {length}."
                ))
            } else {
                ToolError::invalid("A valid `card_id` and a non-empty `text` are needed.")
            }
        })?;
        Ok(Plan::of(comments::create_comment(self.card_id.as_str(), text)))
    }

    async fn act(plan: &Plan, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let data = send(plan, act).await.map_err(|e| failed(Doing::Add, e))?;
        commented(&data, "createComment")
    }

    async fn verify(plan: &Plan, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = text_of(outcome.body.value().get("comment_id"))?;
        let card = text_of(asked(plan).get("card_id"))?;
        let read = call.query(comments::get_card_comments(&card)).await;
        Some(readback::item(read, "card.comments", &["id"], &id).matches(plan, &[("card_id", "")]))
    }
}

/// The id of the comment in an answer.
///
/// # Errors
/// There is none, so nothing proves that the comment is there.
pub(crate) fn commented(data: &pipefy::Data, root: &str) -> Result<Outcome, ToolError> {
    match text_of(dig(&data.value(), &format!("{root}.comment.id"))) {
        Some(id) => Ok(Outcome::new(json!({ "comment_id": id }))),
        None => {
            let error =
                ToolError::api("Unexpected error: Pipefy gave no comment back. Read the card back, then try again.");
            Err(error.detail("may_have_been_applied", true))
        }
    }
}
