use pipefy::tables;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::table;
use crate::tools::shared::{extra_keys, extra_object, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification, Write,
};

/// Changes name, description or other attributes of a database table.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdateTable {
    table_id: CheckedId,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    /// Further keys of UpdateTableInput; name and description above win.
    #[serde(default)]
    extra_input: Option<Value>,
}

pub(crate) struct Keep {
    table_id: String,
    name: Option<String>,
}

impl Write for UpdateTable {
    const OP: Op = Op::write("update_table", Domain::Database, Shape::Result)
        .debug()
        .touches(&[IdArg::new("table_id", IdKind::Table)]);
    type Keep = Keep;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let mut input = extra_keys(extra_object(self.extra_input)?, &["id"]);
        if let Some(name) = &self.name {
            input.insert("name".to_owned(), name.as_str().into());
        }
        if let Some(description) = self.description {
            input.insert("description".to_owned(), description.into());
        }
        if input.is_empty() {
            return Err(ToolError::invalid("Give at least one of `name`, `description` or a key in `extra_input`."));
        }
        let table_id = self.table_id.to_string();
        input.insert("id".to_owned(), table_id.as_str().into());
        let before = if call.options.dry_run { table(call, &table_id).await } else { None };
        let mut plan = Plan::new(Keep { table_id, name: self.name }).then(tables::update_table(input));
        plan.before = before.map(|table| json!({ "table": table }));
        Ok(plan)
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("update table").about("table", &plan.keep.table_id);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Table updated."))
    }

    async fn verify(plan: &Plan<Keep>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let asked = plan.keep.name.as_deref()?;
        let table = table(call, &plan.keep.table_id).await;
        Some(match table.as_ref().and_then(|table| text_of(table.get("name"))) {
            Some(name) => Verification::of_input(name.trim() == asked.trim(), plan, &["name"]),
            None => Verification::unknown("the table could not be read back"),
        })
    }
}
