use pipefy::tables;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::field;
use crate::tools::fields::with_types;
use crate::tools::shared::{FIELD_TYPES, extra_keys, extra_object, required_text, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification, Write, dig,
};

/// Adds a field to a database table.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateTableField {
    table_id: CheckedId,
    label: String,
    /// Pipefy's name of the type, e.g. short_text, select.
    field_type: String,
    /// Further keys of CreateTableFieldInput, e.g. options, required, description.
    #[serde(default)]
    extra_input: Option<Value>,
}

impl Write for CreateTableField {
    const OP: Op = Op::write("create_table_field", Domain::Database, Shape::Result)
        .debug()
        .touches(&[IdArg::new("table_id", IdKind::Table)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let label = required_text("label", &self.label)?;
        let field_type = required_text("field_type", &self.field_type)?;
        let mut input = extra_keys(extra_object(self.extra_input)?, &["table_id", "label", "type"]);
        let table_id = self.table_id.to_string();
        input.insert("table_id".to_owned(), table_id.as_str().into());
        input.insert("label".to_owned(), label.into());
        input.insert("type".to_owned(), field_type.into());
        Ok(Plan::new(table_id).then(tables::create_table_field(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("create table field").about("table", &plan.keep).hint(FIELD_TYPES);
        let data = send(plan, act).await.map_err(|e| with_types(explain.map(act, e)))?;
        Ok(Outcome::new(data).message("Table field created."))
    }

    async fn verify(plan: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = text_of(dig(&outcome.body.value(), "createTableField.table_field.id"))?;
        let renamed = [("table_id", ""), ("connectedRepoId", "connectedRepo.id")];
        Some(field(call, &plan.keep, &id).await.matches(plan, &renamed))
    }
}
