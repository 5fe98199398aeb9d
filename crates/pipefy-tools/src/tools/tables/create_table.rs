use pipefy::tables;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::readback;
use crate::tools::shared::{extra_keys, extra_object, required_text, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Plan, Reach, Shape, ToolError, Verification,
    Write, dig,
};

/// Creates a database table.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateTable {
    name: String,
    organization_id: CheckedId,
    /// Further keys of CreateTableInput, e.g. description, authorization.
    #[serde(default)]
    extra_input: Option<Value>,
}

impl Write for CreateTable {
    const OP: Op = Op::write("create_table", Domain::Database, Shape::Result)
        .debug()
        .touches(&[IdArg::new("organization_id", IdKind::Organization)])
        .reaches(Reach::Organization);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let name = required_text("name", &self.name)?;
        let mut input = extra_keys(extra_object(self.extra_input)?, &["name", "organization_id"]);
        let organization_id = self.organization_id.to_string();
        input.insert("name".to_owned(), name.into());
        input.insert("organization_id".to_owned(), organization_id.as_str().into());
        Ok(Plan::new(organization_id).then(tables::create_table(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let hint = super::hint();
        let explain = Explain::doing("create table").about("organization", &plan.keep).hint(&hint);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Table created."))
    }

    async fn verify(plan: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = text_of(dig(&outcome.body.value(), "createTable.table.id"))?;
        let read = call.query(tables::get_table(&id)).await;
        Some(readback::thing(read, "table").matches(plan, &[("organization_id", "")]))
    }
}
