use schemars::JsonSchema;
use serde::Deserialize;

use super::Kind;
use super::import::{self, Import, Source};
use crate::{Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification, Write};

/// Creates a record for every row whose key is not there yet. All rows are checked first; one that fails does not stop the others.
/// Called again it goes on where it ended and creates nothing twice. Columns are labels or ids of the table's fields, or title.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct BulkImportRecords {
    table_id: CheckedId,
    #[serde(flatten)]
    source: Source,
}

impl Write for BulkImportRecords {
    const OP: Op = Op::write("bulk_import_records", Domain::Bulk, Shape::Envelope)
        .touches(&[IdArg::new("table_id", IdKind::Table)]);
    type Keep = Import;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Import>, ToolError> {
        import::plan(Kind::Records, &self.table_id, self.source, call).await
    }

    async fn act(plan: &Plan<Import>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        import::act(plan, act).await
    }

    async fn verify(plan: &Plan<Import>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        import::verify(plan, call).await
    }
}
