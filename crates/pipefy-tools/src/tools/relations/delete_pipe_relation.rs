use pipefy::relations;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::relation;
use crate::tools::shared::send;
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError,
    Verification, Write,
};

/// Deletes a relation between pipes for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeletePipeRelation {
    relation_id: CheckedId,
}

impl Write for DeletePipeRelation {
    const OP: Op = Op::destructive("delete_pipe_relation", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("relation_id", IdKind::Relation)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let id = self.relation_id.to_string();
        let mutation = relations::delete_pipe_relation(&id);
        let confirmation = Confirmation::delete(format!("pipe relation (ID: {id})"), json!({ "relation_id": id }));
        Ok(Plan::new(id).then(mutation).confirm(confirmation))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("delete pipe relation").about("pipe", &plan.keep);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Pipe relation deleted."))
    }

    async fn verify(plan: &Plan<String>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(relation(call, &plan.keep).await.gone("relation"))
    }
}
