use schemars::JsonSchema;
use serde::Deserialize;

use super::Kind;
use super::export::{self, Ways};
use crate::{Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Read, Shape, ToolError};

/// Gives all cards of a pipe as rows: id, title, phase and every field. Into a file, or as {columns, rows} as far as they
/// fit. An import takes them back.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct BulkExportCards {
    pipe_id: CheckedId,
    #[serde(flatten)]
    ways: Ways,
}

impl Read for BulkExportCards {
    const OP: Op = Op::read("bulk_export_cards", Domain::Bulk, Shape::Envelope)
        .saves()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        export::read(Kind::Cards, &self.pipe_id, self.ways, call).await
    }
}
