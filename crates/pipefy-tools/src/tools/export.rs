//! Files that Pipefy makes in the background: looked at until they are there, then shown as CSV.

use std::time::{Duration, Instant};

use bytes::Bytes;
use pipefy::{Data, Query, TransferError, observability, reports};
use serde_json::{Value, json};

use super::shared::text_of;
use super::sheet::{self, Table};
use crate::{Call, Explain, Kind, Outcome, ToolError, dig};

/// One kind of export.
#[derive(Debug)]
pub(crate) struct Export {
    /// Root field of its state, and key of the export in the answer that started it.
    root: &'static str,
    /// Key of how far it is.
    state: &'static str,
    /// How far it is when its file is there.
    done: &'static str,
    /// Key of the file's address.
    file: &'static str,
    /// Asks for its state.
    look: fn(&str) -> Query,
    /// The tool that shows its state.
    tool: &'static str,
    /// What it exports, for failures.
    kind: &'static str,
}

/// Of a pipe report.
pub(crate) const PIPE_REPORT: Export = Export {
    root: "pipeReportExport",
    state: "state",
    done: "done",
    file: "fileURL",
    look: reports::get_pipe_report_export,
    tool: "get_pipe_report_export",
    kind: "pipe_report",
};

/// Of an organization report.
pub(crate) const ORGANIZATION_REPORT: Export = Export {
    root: "organizationReportExport",
    state: "state",
    done: "done",
    file: "fileURL",
    look: reports::get_organization_report_export,
    tool: "get_organization_report_export",
    kind: "organization_report",
};

/// Of automation runs.
pub(crate) const AUTOMATION_JOBS: Export = Export {
    root: "automationJobsExport",
    state: "status",
    done: "finished",
    file: "fileUrl",
    look: observability::get_automation_jobs_export,
    tool: "get_automation_jobs_export",
    kind: "automation_export",
};

/// Most bytes of a file, unless a call says otherwise.
pub(crate) const FILE_BYTES: i64 = 52_428_800;

/// Most characters of CSV, unless a call says otherwise.
pub(crate) const CSV_CHARACTERS: i64 = 400_000;

/// Longest pause between two looks.
const PAUSE: Duration = Duration::from_secs(2);

/// Time that a call keeps for fetching the file and answering.
const REST: Duration = Duration::from_secs(5);

/// How long a call waits for its file, and how much of it it shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    seconds: u64,
    characters: usize,
}

impl Wait {
    /// As asked for; `None`: only start the export.
    ///
    /// # Errors
    /// `INVALID_ARGUMENTS` with the bounds.
    pub(crate) fn of(seconds: Option<i64>, characters: Option<i64>) -> Result<Option<Self>, ToolError> {
        let characters = self::characters(characters.unwrap_or(CSV_CHARACTERS))?;
        let seconds = seconds.map(|seconds| within("wait_seconds", seconds, 1, 600)).transpose()?;
        Ok(seconds.map(|seconds| Self { seconds: seconds as u64, characters }))
    }
}

/// Checks `max_output_chars`.
pub(crate) fn characters(given: i64) -> Result<usize, ToolError> {
    within("max_output_chars", given, 256, 2_000_000)
}

/// Checks a number against its bounds.
pub(crate) fn within(name: &str, given: i64, min: i64, max: i64) -> Result<usize, ToolError> {
    match usize::try_from(given) {
        Ok(size) if (min..=max).contains(&given) => Ok(size),
        _ => Err(ToolError::invalid(format!("{name} must be between {min} and {max}."))),
    }
}

/// Where an export stands.
enum Stands {
    Waiting(String),
    File(String),
}

impl Export {
    /// Its state as Pipefy gives it.
    pub(crate) async fn data(&self, id: &str, call: &Call<'_>) -> Result<Data, ToolError> {
        let explain = Explain::doing("load the export").about(self.kind, id);
        call.query((self.look)(id)).await.map_err(|e| explain.map(call, e))
    }

    /// What the tool that shows its state gives.
    pub(crate) async fn shown(&self, id: &str, call: &Call<'_>) -> Result<Outcome, ToolError> {
        Ok(Outcome::new(self.data(id, call).await?).message("Export state loaded."))
    }

    /// What starting it gave. With `wait` the call goes on until the file is there, for a time, and gives it as `file`: one call
    /// for what else takes three, and no signed address is shown. Progress is told at every look.
    pub(crate) async fn started(
        &self,
        started: Data,
        wait: Option<Wait>,
        call: &Call<'_>,
    ) -> Result<Outcome, ToolError> {
        let later = |what: &str| format!("{what}; look at it with {} and its id.", self.tool);
        let Some(wait) = wait else { return Ok(Outcome::new(started).message(later("Export started"))) };
        let mut value = started.value();
        let export = value.as_object_mut().and_then(|roots| roots.values_mut().next()?.get_mut(self.root));
        let Some(export) = export else {
            return Err(ToolError::api("Pipefy started no export: its answer names none. Try again."));
        };
        let Some(id) = text_of(export.get("id")) else {
            return Err(ToolError::api("Pipefy started an export without an id, so it cannot be waited for."));
        };
        let named = |error: ToolError| error.detail("export_id", id.as_str());
        let Some(url) = self.ready(&id, wait.seconds, call).await.map_err(named)? else {
            return Ok(Outcome::new(value)
                .message(later(&format!("The export was not ready within {} s", wait.seconds)))
                .extra("complete", false));
        };
        if let Some(export) = export.as_object_mut() {
            export.insert(self.state.to_owned(), self.done.into());
            export.shift_remove(self.file);
        }
        let table = self::table(call, &url, FILE_BYTES as usize, wait.characters).await.map_err(named)?;
        let message = table.message();
        if let Some(value) = value.as_object_mut() {
            value.insert("file".to_owned(), table.shown());
        }
        Ok(Outcome::new(value).message(message))
    }

    /// The address of the file, once it is there; `None` when the time is over.
    async fn ready(&self, id: &str, seconds: u64, call: &Call<'_>) -> Result<Option<String>, ToolError> {
        let until = Instant::now() + Duration::from_secs(seconds);
        let until = call.budget.deadline().and_then(|end| end.checked_sub(REST)).map_or(until, |end| end.min(until));
        let mut pause = PAUSE / 4;
        loop {
            match self.stands(id, &self.data(id, call).await?.value())? {
                Stands::File(url) => return Ok(Some(url)),
                Stands::Waiting(state) => call.budget.advance(1, None, &format!("The export is {state}.")),
            }
            if Instant::now() + pause > until {
                return Ok(None);
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = call.budget.cancel().cancelled() => return Ok(None),
            }
            pause = (pause * 2).min(PAUSE);
        }
    }

    fn stands(&self, id: &str, answer: &Value) -> Result<Stands, ToolError> {
        let Some(export) = answer.get(self.root).filter(|export| export.is_object()) else {
            return Err(ToolError::not_found(format!("Export {id} was not found. Start a new one.")));
        };
        let state = text_of(export.get(self.state)).unwrap_or_default();
        if state == self.done {
            let url = text_of(dig(export, self.file)).map(|url| url.trim().to_owned()).filter(|url| !url.is_empty());
            return url.map(Stands::File).ok_or_else(|| {
                ToolError::api(format!("Export {id} is {state} but has no {}; start a new one.", self.file))
            });
        }
        match state.as_str() {
            "failed" | "error" => Err(ToolError::api(format!("Export {id} ended as {state}. Start a new one."))),
            _ => Ok(Stands::Waiting(state)),
        }
    }

    /// The address of the file of an export that must be there already.
    pub(crate) async fn file_of(&self, id: &str, call: &Call<'_>) -> Result<String, ToolError> {
        match self.stands(id, &self.data(id, call).await?.value())? {
            Stands::File(url) => Ok(url),
            Stands::Waiting(state) => Err(ToolError::refused_value(format!(
                "Export {id} is not {} (status '{state}'). Poll {} until it is.",
                self.done, self.tool
            ))),
        }
    }
}

impl Table {
    /// How much there is, in a sentence.
    pub(crate) fn message(&self) -> String {
        if self.truncated {
            format!("{} rows; the rest did not fit into max_output_chars.", self.rows)
        } else {
            format!("{} rows, header included.", self.rows)
        }
    }

    fn shown(self) -> Value {
        json!({"sheet_name": self.name, "row_count": self.rows, "csv_truncated": self.truncated, "csv": self.csv})
    }
}

/// Fetches a file of at most `bytes` and gives at most `characters` of it. Its signed address never gets into a message.
pub(crate) async fn table(call: &Call<'_>, url: &str, bytes: usize, characters: usize) -> Result<Table, ToolError> {
    let file = fetch(call, url, bytes).await?;
    tokio::task::spawn_blocking(move || sheet::read(file, characters))
        .await
        .map_err(|_| ToolError::internal("reading the file ended unexpectedly"))?
        .map_err(|reason| ToolError::api(format!("The export's file could not be read: {reason}")))
}

async fn fetch(call: &Call<'_>, url: &str, limit: usize) -> Result<Bytes, ToolError> {
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
    use serde_json::json;

    use crate::tools::testing::Mock;

    #[tokio::test]
    async fn one_call_starts_waits_and_tells_what_came_of_it() {
        let ask = json!({"pipe_id": 1, "pipe_report_id": 5, "wait_seconds": 2});
        let started = json!({"pipeReportExport": {"id": "3", "state": "processing"}});
        let run = async |states: Vec<serde_json::Value>| {
            let mut mock = Mock::new().on("exportPipeReport", started.clone());
            for state in states {
                mock = mock.on("pipeReportExport", state);
            }
            let reply = mock.reply("export_pipe_report", ask.clone()).await;
            (reply, mock.sent().len())
        };
        let (slow, asked) = run(vec![json!({"id": "3", "state": "processing"})]).await;
        assert_eq!((&slow["success"], &slow["complete"]), (&json!(true), &json!(false)), "{slow}");
        assert!(slow["message"].as_str().unwrap().contains("get_pipe_report_export"));
        assert!((3..5).contains(&asked), "{asked} requests");
        let (failed, _) =
            run(vec![json!({"id": "3", "state": "processing"}), json!({"id": "3", "state": "failed"})]).await;
        assert_eq!((&failed["success"], &failed["error"]["details"]["export_id"]), (&json!(false), &json!("3")));
        let elsewhere = json!({"id": "3", "state": "done", "fileURL": "https://evil.example.com/a?sig=secret"});
        let (refused, _) = run(vec![elsewhere]).await;
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("not an allowed") && !refused.to_string().contains("secret"), "{refused}");
        for (name, value) in [("wait_seconds", 0), ("wait_seconds", 601), ("max_output_chars", 1)] {
            let mut ask = ask.clone();
            ask[name] = json!(value);
            let mock = Mock::new();
            let reply = mock.reply("export_pipe_report", ask).await;
            assert!(reply["error"]["message"].as_str().unwrap().contains(name), "{reply}");
            assert!(mock.sent().is_empty());
        }
    }
}
