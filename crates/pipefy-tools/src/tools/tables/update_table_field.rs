use pipefy::tables;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::field;
use crate::readback::Found;
use crate::tools::shared::{extra_keys, extra_object, non_blank, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification, Write,
};

/// Changes a field of a database table. Pipefy needs table_id as well.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateTableField {
    /// See get_table.
    field_id: CheckedId,
    #[serde(default)]
    table_id: Option<CheckedId>,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    required: Option<bool>,
    /// The whole new list.
    #[serde(default)]
    #[schemars(schema_with = "options")]
    options: Option<Value>,
    /// Further keys of UpdateTableFieldInput; the arguments above win.
    #[serde(default)]
    extra_input: Option<Value>,
}

fn options(_: &mut SchemaGenerator) -> Schema {
    let item = json!({ "type": ["string", "number", "boolean", "object", "null"] });
    json_schema!({ "anyOf": [{ "type": "array", "items": item }, { "type": "object" }, { "type": "null" }] })
}

pub(crate) struct Keep {
    field_id: String,
    table_id: String,
}

impl Write for UpdateTableField {
    const OP: Op = Op::write("update_table_field", Domain::Database, Shape::Result)
        .debug()
        .touches(&[IdArg::within("field_id", IdKind::TableField), IdArg::new("table_id", IdKind::Table)]);
    type Keep = Keep;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let mut input = extra_keys(extra_object(self.extra_input)?, &["id"]);
        let inner = input.remove("table_id").or_else(|| input.remove("tableId"));
        let explicit = [
            ("label", self.label.map(Value::from)),
            ("description", self.description.map(Value::from)),
            ("required", self.required.map(Value::from)),
            ("options", self.options),
        ];
        for (key, value) in explicit {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                input.insert(key.to_owned(), value);
            }
        }
        let given = self.table_id.map(|id| id.to_string()).or_else(|| text_of(inner.as_ref()));
        let Some(table_id) = non_blank(given.as_deref()).map(str::to_owned) else {
            return Err(ToolError::invalid(if input.is_empty() {
                "Give `table_id` and at least one attribute to change."
            } else {
                "table_id is required, as an argument or in `extra_input`."
            }));
        };
        let field_id = self.field_id.to_string();
        input.insert("id".to_owned(), field_id.as_str().into());
        input.insert("table_id".to_owned(), table_id.as_str().into());
        let before = match call.options.dry_run {
            true => Some(field(call, &table_id, &field_id).await),
            false => None,
        };
        let keep = Keep { field_id, table_id };
        let mut plan = Plan::new(keep).then(tables::update_table_field(input));
        if let Some(Found::Thing(field)) = before {
            plan.before = Some(json!({ "table_field": field }));
        }
        Ok(plan)
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("update table field").about("table_field", &plan.keep.field_id);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Table field updated."))
    }

    async fn verify(plan: &Plan<Keep>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(field(call, &plan.keep.table_id, &plan.keep.field_id).await.matches(plan, &[("table_id", "")]))
    }
}
