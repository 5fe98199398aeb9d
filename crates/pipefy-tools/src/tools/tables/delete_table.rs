use pipefy::tables;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::container::{Container, Named};
use crate::{Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification, Write};

/// Deletes a database table with its records for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteTable {
    table_id: CheckedId,
}

const TABLE: Container =
    Container { noun: "table", argument: "table_id", get: tables::get_table, delete: tables::delete_table };

impl Write for DeleteTable {
    const OP: Op = Op::destructive("delete_table", Domain::Database, Shape::Flat)
        .debug()
        .touches(&[IdArg::new("table_id", IdKind::Table)]);
    type Keep = Named;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Named>, ToolError> {
        TABLE.plan(&self.table_id, call).await
    }

    async fn act(plan: &Plan<Named>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        TABLE.act(plan, act).await
    }

    async fn verify(plan: &Plan<Named>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(TABLE.verify(plan, call).await)
    }
}
