//! Exports of the history of automation runs.

use pipefy::{Error, Id, TransferError, observability};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::organization::period;
use super::sheet;
use crate::tools::shared::text_of;
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Kind, Op, Outcome, Persona, Plan, Read, Shape, ToolError,
    Write, dig,
};

/// Starts an export of the history of automation runs. Wait for it with get_automation_jobs_export.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ExportAutomationJobs {
    organization_id: CheckedId,
    /// current_month, last_month or last_3_months.
    period: String,
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
    400_000
}

fn download() -> i64 {
    52_428_800
}

impl Write for ExportAutomationJobs {
    const OP: Op = Op::write("export_automation_jobs", Domain::Automation, Shape::Result)
        .personas(&[Persona::Manager])
        .debug()
        .touches(&[IdArg::new("organization_id", IdKind::Organization)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let period = period(&self.period)?;
        let id = self.organization_id.to_string();
        let mutation = observability::export_automation_jobs(&id, period);
        Ok(Plan::new(id).then(mutation))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Some(mutation) = plan.mutations().next() else {
            return Err(ToolError::internal("the plan holds no step"));
        };
        let explain = Explain::doing("start the export").about("organization", &plan.keep);
        let data = act.send(mutation).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Export started; look at it with get_automation_jobs_export."))
    }
}

impl Read for GetAutomationJobsExport {
    const OP: Op = Op::read("get_automation_jobs_export", Domain::Automation, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[IdArg::new("export_id", IdKind::Other)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let id = self.export_id.as_str();
        let data = call.query(observability::get_automation_jobs_export(id)).await.map_err(|e| explain(call, e, id))?;
        Ok(Outcome::new(data).message("Export state loaded."))
    }
}

fn explain(call: &Call<'_>, error: Error, id: &str) -> ToolError {
    Explain::doing("load the export").about("automation_export", id).map(call, error)
}

impl Read for GetAutomationJobsExportCsv {
    const OP: Op = Op::read("get_automation_jobs_export_csv", Domain::Automation, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[IdArg::new("export_id", IdKind::Other)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let characters = within("max_output_chars", self.max_output_chars, 256, 2_000_000)?;
        let bytes = within("max_download_bytes", self.max_download_bytes, 4_096, 83_886_080)?;
        let id = self.export_id.as_str();
        let data = call.query(observability::get_automation_jobs_export(id)).await.map_err(|e| explain(call, e, id))?;
        let value = data.value();
        let Some(export) = value.get("automationJobsExport").filter(|e| e.is_object()) else {
            return Err(ToolError::not_found(format!(
                "Export {id} was not found. Start one with export_automation_jobs."
            )));
        };
        let status = text_of(export.get("status")).unwrap_or_default();
        if status != "finished" {
            return Err(ToolError::refused_value(format!(
                "Export {id} is not finished (status '{status}'). Poll get_automation_jobs_export until it is."
            )));
        }
        let Some(url) = text_of(dig(export, "fileUrl")).filter(|url| !url.trim().is_empty()) else {
            return Err(ToolError::api(format!("Export {id} is finished but has no fileUrl; start a new one.")));
        };
        let file = fetch(call, &url, bytes).await?;
        let table = tokio::task::spawn_blocking(move || sheet::to_csv(file, characters))
            .await
            .map_err(|_| ToolError::internal("reading the file ended unexpectedly"))?
            .map_err(|reason| ToolError::api(format!("The export's file could not be read: {reason}")))?;
        let message = if table.truncated {
            format!("{} rows; the rest did not fit into max_output_chars.", table.rows)
        } else {
            format!("{} rows, header included.", table.rows)
        };
        Ok(Outcome::new(json!({
            "export_id": id,
            "status": status,
            "sheet_name": table.name,
            "row_count": table.rows,
            "csv_truncated": table.truncated,
            "max_output_chars": characters,
            "csv": table.csv,
        }))
        .message(message))
    }
}

fn within(name: &str, given: i64, min: i64, max: i64) -> Result<usize, ToolError> {
    match usize::try_from(given) {
        Ok(size) if (min..=max).contains(&given) => Ok(size),
        _ => Err(ToolError::invalid(format!("{name} must be between {min} and {max}."))),
    }
}

/// The file of an export. The signed URL never gets into a message.
async fn fetch(call: &Call<'_>, url: &str, limit: usize) -> Result<bytes::Bytes, ToolError> {
    let download = call.session.transfer().download_export(url, limit as u64, &call.budget).await;
    let file = match download {
        Ok(download) => download.bytes().await,
        Err(error) => Err(error),
    };
    file.map_err(|error| match error {
        TransferError::Refused(reason) => ToolError::new(
            Kind::Refused,
            format!("The export's file was not fetched: its address is not an allowed Pipefy https URL ({reason})."),
        ),
        TransferError::TooLarge { .. } => {
            ToolError::refused_value(format!("The export's file exceeds max_download_bytes ({limit})."))
        }
        error => ToolError::new(Kind::Transport, format!("Failed to download the export's file: {error}.")),
    })
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
