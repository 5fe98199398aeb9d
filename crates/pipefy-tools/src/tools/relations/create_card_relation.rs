use pipefy::{cards, relations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::tools::shared::{extra_keys, extra_object, list_at, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write,
};

/// Links a child card to a parent card.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateCardRelation {
    parent_id: CheckedId,
    child_id: CheckedId,
    /// Pipe relation id, see get_pipe_relations; with extra_input.sourceType "Field" a connector field id.
    source_id: CheckedId,
    /// Further keys of CreateCardRelationInput.
    #[serde(default)]
    extra_input: Option<Value>,
}

pub(crate) struct Keep {
    parent_id: String,
    child_id: String,
}

impl Write for CreateCardRelation {
    const OP: Op = Op::write("create_card_relation", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Manager, Persona::Operator])
        .debug()
        .touches(&[
            IdArg::new("parent_id", IdKind::Card),
            IdArg::new("child_id", IdKind::Card),
            IdArg::within("source_id", IdKind::Relation),
        ]);
    type Keep = Keep;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let extra = extra_keys(extra_object(self.extra_input)?, &["parent_id", "child_id", "source_id"]);
        let keep = Keep { parent_id: self.parent_id.to_string(), child_id: self.child_id.to_string() };
        let mut input = Map::new();
        input.insert("parentId".to_owned(), keep.parent_id.clone().into());
        input.insert("childId".to_owned(), keep.child_id.clone().into());
        input.insert("sourceId".to_owned(), self.source_id.as_str().into());
        input.insert("sourceType".to_owned(), "PipeRelation".into());
        input.extend(extra);
        Ok(Plan::new(keep).then(relations::create_card_relation(input)))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("create card relation").about("card", &plan.keep.parent_id);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Cards linked."))
    }

    async fn verify(plan: &Plan<Keep>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(match call.query(cards::get_card_relations(&plan.keep.parent_id)).await {
            Ok(data) => {
                let value = data.value();
                let mut children = list_at(&value, "card.child_relations").iter().flat_map(|r| list_at(r, "cards"));
                let there = children.any(|card| text_of(card.get("id")).as_ref() == Some(&plan.keep.child_id));
                Verification::of(there, "looked for the child among the parent's relations")
            }
            Err(error) => Verification::unknown(error.to_string()),
        })
    }
}
