//! Exports of the history of automation runs.

use pipefy::{Id, observability};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::organization::period;
use crate::tools::export::{self, AUTOMATION_JOBS, CSV_CHARACTERS, FILE_BYTES, Wait};
use crate::tools::shared::send;
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Plan, Read, Shape,
    ToolError, Write,
};

/// Starts an export of the history of automation runs; poll get_automation_jobs_export, or give wait_seconds.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ExportAutomationJobs {
    organization_id: CheckedId,
    /// current_month, last_month or last_3_months.
    period: String,
    /// 1..600: wait so long and give the file as CSV in `file`.
    #[serde(default)]
    wait_seconds: Option<i64>,
    /// Of CSV, 256..2000000.
    #[serde(default)]
    max_output_chars: Option<i64>,
}

/// Shows how far an export is: created, processing, finished (with fileUrl) or failed.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAutomationJobsExport {
    export_id: Id,
}

/// Downloads a finished export and gives its first sheet as CSV.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAutomationJobsExportCsv {
    export_id: Id,
    /// 256..2000000 characters; longer output is cut.
    #[serde(default = "output")]
    max_output_chars: i64,
    /// 4096..83886080.
    #[serde(default = "download")]
    max_download_bytes: i64,
}

fn output() -> i64 {
    CSV_CHARACTERS
}

fn download() -> i64 {
    FILE_BYTES
}

impl Write for ExportAutomationJobs {
    const OP: Op = Op::write("export_automation_jobs", Domain::Automation, Shape::Result)
        .outsiders(Outsiders::ROWS)
        .personas(&[Persona::Manager])
        .debug()
        .touches(&[IdArg::new("organization_id", IdKind::Organization)]);
    type Keep = (String, Option<Wait>);

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Self::Keep>, ToolError> {
        let period = period(&self.period)?;
        let wait = Wait::of(self.wait_seconds, self.max_output_chars)?;
        let id = self.organization_id.to_string();
        let mutation = observability::export_automation_jobs(&id, period);
        Ok(Plan::new((id, wait)).then(mutation))
    }

    async fn act(plan: &Plan<Self::Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let (organization_id, wait) = &plan.keep;
        let explain = Explain::doing("start the export").about("organization", organization_id);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        AUTOMATION_JOBS.started(data, *wait, act).await
    }
}

impl Read for GetAutomationJobsExport {
    const OP: Op = Op::read("get_automation_jobs_export", Domain::Automation, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[IdArg::new("export_id", IdKind::Other)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        AUTOMATION_JOBS.shown(self.export_id.as_str(), call).await
    }
}

impl Read for GetAutomationJobsExportCsv {
    const OP: Op = Op::read("get_automation_jobs_export_csv", Domain::Automation, Shape::Envelope)
        .outsiders(Outsiders::ROWS)
        .personas(&[Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[IdArg::new("export_id", IdKind::Other)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let characters = export::characters(self.max_output_chars)?;
        let bytes = export::within("max_download_bytes", self.max_download_bytes, 4_096, 83_886_080)?;
        let id = self.export_id.as_str();
        let url = AUTOMATION_JOBS.file_of(id, call).await?;
        let table = export::table(call, &url, bytes, characters).await?;
        let message = table.message();
        Ok(Outcome::new(json!({
            "export_id": id,
            "status": "finished",
            "sheet_name": table.name,
            "row_count": table.rows,
            "csv_truncated": table.truncated,
            "max_output_chars": characters,
            "csv": table.csv,
        }))
        .message(message))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use serde_json::Value;

    use super::*;
    use crate::tools::testing::{Mock, WriteRules};

    #[tokio::test]
    async fn an_export_is_started_once() {
        let sent = WriteRules::new("export_automation_jobs", json!({"organization_id": 1, "period": "last_month"}))
            .write(
                "createAutomationJobsExport",
                json!({"automationJobsExport": {"id": "5", "status": "created", "fileUrl": null}}),
            )
            .check()
            .await;
        assert_eq!(sent[0].variables["input"], json!({"organizationId": "1", "filter": "last_month"}));
    }

    #[tokio::test]
    async fn only_a_finished_export_at_a_trusted_place_is_fetched() {
        let run = async |export: Value| {
            let mock = Mock::new().on("automationJobsExport", export);
            let reply = mock.reply("get_automation_jobs_export_csv", json!({"export_id": 5})).await;
            reply["error"]["message"].as_str().unwrap().to_owned()
        };
        assert!(run(json!(null)).await.contains("not found"));
        assert!(run(json!({"status": "processing"})).await.contains("processing"));
        assert!(run(json!({"status": "finished", "fileUrl": null})).await.contains("fileUrl"));
        for url in [
            "https://evil.example.com/a?sig=secret",
            "http://files.pipefy.com/a?sig=secret",
            "https://files.pipefy.com.evil.example/a?sig=secret",
        ] {
            let message = run(json!({"status": "finished", "fileUrl": url})).await;
            assert!(message.contains("not an allowed Pipefy https URL") && !message.contains("secret"), "{message}");
        }
        let mock = Mock::new();
        for (name, value) in [("max_output_chars", 255), ("max_output_chars", 2_000_001), ("max_download_bytes", -1)] {
            let reply = mock.reply("get_automation_jobs_export_csv", json!({"export_id": 5, name: value})).await;
            assert!(reply["error"]["message"].as_str().unwrap().contains(name));
        }
        assert!(mock.sent().is_empty());
    }
}
