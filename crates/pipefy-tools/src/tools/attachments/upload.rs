//! The way of a file: a place in storage is asked for, the bytes are put there, a field is pointed at them
//! (`spec/tools-pipes-cards.md`, "Attachment pipeline"). Every failure says at which step it happened.

use pipefy::{Data, GraphqlError, Mutation, TransferError, attachments};
use serde_json::{Map, Value, json};

use super::source::{Opened, Source, decoded};
use crate::plan::unknown;
use crate::tools::shared::text_of;
use crate::{Act, Kind, Outcome, Plan, ToolError, dig};

/// What an upload needs beside its mutations.
pub(crate) struct Upload {
    pub(crate) source: Source,
    pub(crate) field_id: String,
    /// Name and id of the thing that gets the file, as shown in the result.
    pub(crate) target: (&'static str, String),
}

/// The plan: two mutations with the transfer between them. `point` makes the last one, given the value for the field.
pub(crate) fn plan(organization_id: &str, upload: Upload, point: impl FnOnce(Value) -> Mutation) -> Plan<Upload> {
    let source = &upload.source;
    let mut presign =
        attachments::create_presigned_url(organization_id, &source.name, Some(&source.content_type), source.size());
    if source.size().is_none() {
        presign.variables_mut().insert("contentLength".to_owned(), unknown("size of the downloaded file in bytes"));
    }
    let what = match source.size() {
        Some(size) => format!("PUT {size} bytes of {} to storage", source.name),
        None => format!("download file_url, then PUT it as {} to storage", source.name),
    };
    let point = point(json!([unknown("storage path, from the upload URL")]));
    Plan::new(upload).then(presign).transfer(what).then(point)
}

/// Carries the plan out.
///
/// # Errors
/// With `step`; after the bytes are in storage also with their `storage_path`, so that the field can be set without a new
/// upload.
pub(crate) async fn act(plan: &Plan<Upload>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
    let mut mutations = plan.mutations().cloned();
    let (Some(mut presign), Some(mut point)) = (mutations.next(), mutations.next()) else {
        return Err(ToolError::internal("the plan holds no step"));
    };
    let Upload { source, field_id, target } = &plan.keep;
    let opened = source.open(act).await?;
    let size = opened.size();
    presign.variables_mut().insert("contentLength".to_owned(), size.into());
    let presigned = act.send(&presign).await.map_err(|e| failed("presigned_url", e.into()))?;
    let url = upload_url(&presigned)?;
    let path = storage_path(&url).ok_or_else(|| failed("s3_upload", no_path()))?;
    put(act, &url, &source.content_type, opened).await?;
    fill_in(point.variables_mut(), &path);
    act.send(&point).await.map_err(|e| failed("field_update", e.into()).extra("storage_path", path.clone()))?;
    let (target_name, target_id) = target;
    let mut shown = Map::new();
    shown.insert("download_url".to_owned(), dig(&presigned.value(), "createPresignedUrl.downloadUrl").cloned().into());
    shown.insert("file_name".to_owned(), source.name.clone().into());
    shown.insert("content_type".to_owned(), source.content_type.clone().into());
    shown.insert("file_size".to_owned(), size.into());
    shown.insert("field_id".to_owned(), field_id.clone().into());
    shown.insert((*target_name).to_owned(), target_id.clone().into());
    Ok(Outcome::new(shown))
}

/// The upload URL of a presign answer.
///
/// # Errors
/// Step `presigned_url`, when there is none.
pub(crate) fn upload_url(presigned: &Data) -> Result<String, ToolError> {
    text_of(dig(&presigned.value(), "createPresignedUrl.url"))
        .map(|url| url.trim().to_owned())
        .filter(|url| !url.is_empty())
        .ok_or_else(|| {
            let message = "Pipefy gave no upload URL; check the organization id and the file name.";
            failed("presigned_url", ToolError::api(message))
        })
}

/// The key that a field takes: the decoded path of the upload URL.
pub(crate) fn storage_path(url: &str) -> Option<String> {
    let url = url::Url::parse(url).ok()?;
    Some(decoded(url.path().trim_start_matches('/'))).filter(|path| !path.trim().is_empty())
}

pub(crate) fn no_path() -> ToolError {
    ToolError::api("The upload URL that Pipefy gave has no path, so the file would have no name in storage.")
}

/// Marks a failure with the step at which it happened.
pub(crate) fn failed(step: &str, error: ToolError) -> ToolError {
    let mut error = error;
    if let Some(pipefy::Error::Graphql { endpoint, errors, status, applied_in_part }) = error.source.as_deref() {
        // Each reason once; what is known of the change stays.
        let mut distinct: Vec<GraphqlError> = Vec::new();
        for one in errors {
            if !distinct.iter().any(|other| other.message == one.message) {
                distinct.push(one.clone());
            }
        }
        let (endpoint, status, applied_in_part) = (*endpoint, *status, *applied_in_part);
        error.message = pipefy::Error::Graphql { endpoint, errors: distinct, status, applied_in_part }.to_string();
    }
    error.extra("step", step)
}

async fn put(act: &Act<'_, '_>, url: &str, content_type: &str, opened: Opened) -> Result<(), ToolError> {
    let transfer = act.session.transfer();
    let size = opened.size();
    let sent = match opened {
        Opened::File(file, _) => transfer.upload(url, Some(content_type), size, file, &act.budget).await,
        Opened::Memory(bytes) => transfer.upload(url, Some(content_type), size, bytes, &act.budget).await,
    };
    sent.map_err(|error| failed("s3_upload", ToolError::new(Kind::Transport, explained(&error))))
}

/// What storage said, shortened, and what to do about it.
fn explained(error: &TransferError) -> String {
    let mut text = error.to_string();
    if let Some(snippet) = error.snippet() {
        let short: String = snippet.chars().take(300).collect();
        text = text.replace(snippet, &short);
        let lower = snippet.to_lowercase();
        if snippet.contains("ExpiredToken") || lower.contains("request has expired") {
            text.push_str(" The upload URL had expired: call again for a new one.");
        } else if snippet.contains("SignatureDoesNotMatch") {
            text.push_str(" Body or headers do not match what was signed (content type, length).");
        }
    }
    text
}

/// Puts the storage path where the plan said it was unknown.
fn fill_in(variables: &mut Map<String, Value>, path: &str) {
    fn visit(value: &mut Value, path: &str) {
        match value {
            Value::Object(map) if map.contains_key("$unknown") => *value = path.into(),
            Value::Object(map) => map.values_mut().for_each(|value| visit(value, path)),
            Value::Array(list) => list.iter_mut().for_each(|value| visit(value, path)),
            _ => {}
        }
    }
    variables.values_mut().for_each(|value| visit(value, path));
}
