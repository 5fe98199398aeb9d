use pipefy::relations;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{FLAGS, flags, relation};
use crate::readback::Found;
use crate::tools::shared::{extra_keys, extra_object, list_at, required_text, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write, dig,
};

/// Renames a pipe relation and sets its rules. Pipefy wants all rules: those not given are kept as they are. Where they cannot
/// be read, they are reset to their defaults and the message says so.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdatePipeRelation {
    relation_id: CheckedId,
    name: String,
    /// Rules in camelCase, such as canCreateNewItems: true.
    #[serde(default)]
    extra_input: Option<Value>,
    /// Its parent or child pipe, to read the present rules from.
    #[serde(default)]
    pipe_id: Option<CheckedId>,
}

pub(crate) struct Keep {
    relation_id: String,
    /// Rules that fall back to their defaults.
    reset: Vec<&'static str>,
}

impl Write for UpdatePipeRelation {
    const OP: Op = Op::write("update_pipe_relation", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("relation_id", IdKind::Relation), IdArg::new("pipe_id", IdKind::Pipe)]);
    type Keep = Keep;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let name = required_text("name", &self.name)?;
        let relation_id = self.relation_id.to_string();
        let extra = extra_keys(extra_object(self.extra_input)?, &["id", "relation_id", "name"]);
        let present = match &self.pipe_id {
            Some(pipe_id) => present(call, pipe_id, &relation_id).await?,
            None => match relation(call, &relation_id).await {
                Found::Thing(relation) => rules(&relation),
                Found::Nothing | Found::Unread(_) => Map::new(),
            },
        };
        let known = |name: &str| extra.contains_key(name) || present.contains_key(name);
        let reset = FLAGS.iter().map(|(name, _)| *name).filter(|name| !known(name)).collect();
        let before = (!present.is_empty()).then(|| Value::Object(present.clone()));
        let mut given = present;
        given.extend(extra);
        let mut input = Map::new();
        input.insert("id".to_owned(), relation_id.clone().into());
        input.insert("name".to_owned(), name.into());
        input.extend(flags(given));
        let mut plan = Plan::new(Keep { relation_id, reset }).then(relations::update_pipe_relation(input));
        plan.before = before;
        Ok(plan)
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("update pipe relation").about("pipe", &plan.keep.relation_id);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        let message = if plan.keep.reset.is_empty() {
            "Pipe relation updated.".to_owned()
        } else {
            format!(
                "Pipe relation updated. Rules that were not given were reset to their defaults: {}. Pass pipe_id to keep them.",
                plan.keep.reset.join(", ")
            )
        };
        Ok(Outcome::new(data).message(message))
    }

    async fn verify(plan: &Plan<Keep>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(relation(call, &plan.keep.relation_id).await.matches(plan, &[]))
    }
}

/// The rules a relation has now.
///
/// # Errors
/// The pipe cannot be read, or does not have the relation.
async fn present(call: &Call<'_>, pipe_id: &str, relation_id: &str) -> Result<Map<String, Value>, ToolError> {
    let explain = Explain::doing("load pipe relations").about("pipe", pipe_id);
    let data = call.query(relations::get_pipe_relations(pipe_id)).await.map_err(|e| explain.map(call, e))?;
    let value = data.value();
    let relation = ["pipe.parentsRelations", "pipe.childrenRelations"]
        .iter()
        .flat_map(|path| list_at(&value, path))
        .find(|relation| text_of(dig(relation, "id")).as_deref() == Some(relation_id))
        .ok_or_else(|| {
            ToolError::not_found(format!(
                "Pipe {pipe_id} has no relation {relation_id}; `get_pipe_relations` lists its relations."
            ))
        })?;
    Ok(rules(relation))
}

fn rules(relation: &Value) -> Map<String, Value> {
    FLAGS.iter().filter_map(|(name, _)| Some(((*name).to_owned(), json!(relation.get(*name)?.as_bool()?)))).collect()
}
