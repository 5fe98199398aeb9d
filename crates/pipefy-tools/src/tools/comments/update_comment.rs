use pipefy::comments;
use schemars::JsonSchema;
use serde::Deserialize;

use super::add_card_comment::commented;
use super::comment_text;
use super::failure::{Doing, failed};
use crate::tools::shared::send;
use crate::{Act, Call, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write};

/// Replaces the text of a comment (up to 1000 characters).
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateComment {
    comment_id: pipefy::Id,
    text: String,
}

impl Write for UpdateComment {
    const OP: Op = Op::write("update_comment", Domain::Workflow, Shape::EnvelopeOrFlat)
        .personas(&[Persona::Manager, Persona::Operator])
        .no_output_schema()
        .touches(&[IdArg::new("comment_id", IdKind::Comment)]);
    type Keep = ();

    async fn plan(self, _: &Call<'_>) -> Result<Plan, ToolError> {
        let text = comment_text(&self.text).ok_or_else(|| {
            ToolError::invalid("A valid `comment_id` and a non-empty `text` of at most 1000 characters are needed.")
        })?;
        Ok(Plan::of(comments::update_comment(self.comment_id.as_str(), text)))
    }

    async fn act(plan: &Plan, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let data = send(plan, act).await.map_err(|e| failed(Doing::Update, e))?;
        commented(&data, "updateComment")
    }

    async fn verify(_: &Plan, _: &Outcome, _: &Call<'_>) -> Option<Verification> {
        Some(Verification::unknown("comments are read by card, and this call names none; get_card shows them"))
    }
}
