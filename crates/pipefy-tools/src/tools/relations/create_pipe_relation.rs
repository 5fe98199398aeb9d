use pipefy::relations;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::flags;
use crate::readback;
use crate::tools::shared::{extra_keys, extra_object, required_text, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write, dig,
};

/// Links two pipes as parent and child.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreatePipeRelation {
    parent_id: CheckedId,
    child_id: CheckedId,
    name: String,
    /// Rules in camelCase, such as canCreateNewItems: true.
    #[serde(default)]
    extra_input: Option<Value>,
}

impl Write for CreatePipeRelation {
    const OP: Op = Op::write("create_pipe_relation", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("parent_id", IdKind::Repo), IdArg::new("child_id", IdKind::Repo)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let name = required_text("name", &self.name)?;
        let extra = extra_keys(extra_object(self.extra_input)?, &["parent_id", "child_id", "name"]);
        let parent_id = self.parent_id.to_string();
        let mut input = Map::new();
        input.insert("parentId".to_owned(), parent_id.clone().into());
        input.insert("childId".to_owned(), self.child_id.as_str().into());
        input.insert("name".to_owned(), name.into());
        input.extend(flags(extra));
        Ok(Plan::new(parent_id).then(relations::create_pipe_relation(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("create pipe relation").about("pipe", &plan.keep);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Pipe relation created."))
    }

    async fn verify(plan: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = text_of(dig(&outcome.body.value(), "createPipeRelation.pipeRelation.id"))?;
        let read = call.query(relations::get_pipe_relations(&plan.keep)).await;
        let renamed = [("parentId", "parent.id"), ("childId", "child.id")];
        Some(readback::item(read, "pipe.childrenRelations", &["id"], &id).matches(plan, &renamed))
    }
}
