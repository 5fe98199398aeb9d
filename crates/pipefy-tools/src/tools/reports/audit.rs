use pipefy::reports;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::shared::{not_done, required_text, send};
use crate::{Act, Call, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Write};

/// Queues an export of a pipe's audit log. Pipefy sends the file to this account's user; there is nothing to poll.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ExportPipeAuditLogs {
    pipe_uuid: String,
    #[serde(default)]
    search_term: Option<String>,
}

impl Write for ExportPipeAuditLogs {
    const OP: Op = Op::write("export_pipe_audit_logs", Domain::Governance, Shape::EnvelopeOrResult)
        .personas(&[Persona::Admin, Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[IdArg::new("pipe_uuid", IdKind::PipeUuid)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let uuid = required_text("pipe_uuid", &self.pipe_uuid)?.to_owned();
        let mutation = reports::export_pipe_audit_logs(&uuid, self.search_term.as_deref());
        Ok(Plan::new(uuid).then(mutation))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("export the audit log of the pipe").about("pipe", &plan.keep);
        let data = send(plan, act).await.map_err(|e| not_done(act, explain, e))?;
        Ok(Outcome::new(data).message("Export queued; Pipefy sends the file to the user of this account."))
    }
}
