use pipefy::comments;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::failure::{Doing, failed};
use crate::tools::shared::send;
use crate::{
    Act, Call, Confirmation, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write,
};

/// Deletes a comment for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteComment {
    comment_id: pipefy::Id,
}

impl Write for DeleteComment {
    const OP: Op = Op::destructive("delete_comment", Domain::Workflow, Shape::Envelope)
        .personas(&[Persona::Manager, Persona::Operator])
        .no_output_schema()
        .touches(&[IdArg::new("comment_id", IdKind::Comment)]);
    type Keep = ();

    async fn plan(self, _: &Call<'_>) -> Result<Plan, ToolError> {
        let id = self.comment_id.as_str();
        let confirmation = Confirmation::delete(format!("comment (ID: {id})"), json!({ "comment_id": id }));
        Ok(Plan::of(comments::delete_comment(id)).confirm(confirmation))
    }

    async fn act(plan: &Plan, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        send(plan, act).await.map_err(|e| failed(Doing::Delete, e))?;
        Ok(Outcome::new(Value::Null))
    }

    async fn verify(_: &Plan, _: &Outcome, _: &Call<'_>) -> Option<Verification> {
        Some(Verification::unknown("comments are read by card, and this call names none; get_card shows them"))
    }
}
