use schemars::JsonSchema;
use serde::Deserialize;

use super::Kind;
use super::export::{self, Ways};
use crate::{Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Read, Shape, ToolError};

/// Gives all records of a table as rows: id, title and every field. Into a file, or as {columns, rows} as far as they
/// fit. An import takes them back.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct BulkExportRecords {
    table_id: CheckedId,
    #[serde(flatten)]
    ways: Ways,
}

impl Read for BulkExportRecords {
    const OP: Op = Op::read("bulk_export_records", Domain::Bulk, Shape::Envelope)
        .saves()
        .touches(&[IdArg::new("table_id", IdKind::Table)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        export::read(Kind::Records, &self.table_id, self.ways, call).await
    }
}
