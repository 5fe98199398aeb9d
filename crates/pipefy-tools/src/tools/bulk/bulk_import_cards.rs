use schemars::JsonSchema;
use serde::Deserialize;

use super::Kind;
use super::import::{self, Import, Source};
use crate::{Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification, Write};

/// Creates a card for every row whose key is not there yet. All rows are checked first; one that fails does not stop the others.
/// Called again it goes on where it ended and creates nothing twice. Columns are labels or ids of the start form's fields, or title.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct BulkImportCards {
    pipe_id: CheckedId,
    #[serde(flatten)]
    source: Source,
}

impl Write for BulkImportCards {
    const OP: Op =
        Op::write("bulk_import_cards", Domain::Bulk, Shape::Envelope).touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);
    type Keep = Import;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Import>, ToolError> {
        import::plan(Kind::Cards, &self.pipe_id, self.source, call).await
    }

    async fn act(plan: &Plan<Import>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        import::act(plan, act).await
    }

    async fn verify(plan: &Plan<Import>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        import::verify(plan, call).await
    }
}
