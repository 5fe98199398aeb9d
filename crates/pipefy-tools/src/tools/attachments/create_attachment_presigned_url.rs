use pipefy::attachments;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::upload::{failed, no_path, storage_path, upload_url};
use crate::tools::shared::required_text;
use crate::{Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Write};

/// Gives a short-lived URL to PUT a file to. Afterwards set the field to [storage_path] with update_card_field or
/// set_table_record_field_value.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateAttachmentPresignedUrl {
    organization_id: CheckedId,
    file_name: String,
    /// When given, the PUT must send the same Content-Type.
    #[serde(default)]
    content_type: Option<String>,
    /// Bytes.
    #[serde(default)]
    content_length: Option<i64>,
}

impl Write for CreateAttachmentPresignedUrl {
    const OP: Op = Op::write("create_attachment_presigned_url", Domain::Workflow, Shape::Flat)
        .personas(&[Persona::Manager, Persona::Operator, Persona::Requester])
        .touches(&[IdArg::new("organization_id", IdKind::Organization)]);
    type Keep = ();

    async fn plan(self, _: &Call<'_>) -> Result<Plan, ToolError> {
        let name = required_text("file_name", &self.file_name).map_err(|e| failed("validation", e))?;
        let length = match self.content_length.map(u64::try_from) {
            Some(Err(_)) => {
                return Err(failed("validation", ToolError::invalid("`content_length` must not be negative.")));
            }
            Some(Ok(length)) => Some(length),
            None => None,
        };
        let content_type = self.content_type.as_deref();
        Ok(Plan::of(attachments::create_presigned_url(&self.organization_id, name, content_type, length)))
    }

    async fn act(plan: &Plan, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Some(mutation) = plan.mutations().next() else {
            return Err(ToolError::internal("the plan holds no step"));
        };
        let presigned = act.send(mutation).await.map_err(|e| failed("presigned_url", e.into()))?;
        let url = upload_url(&presigned)?;
        let path = storage_path(&url).ok_or_else(|| failed("presigned_url", no_path()))?;
        Ok(Outcome::new(json!({ "upload_url": url, "storage_path": path, "expires_in_seconds": lifetime(&url) })))
    }
}

/// Seconds, when the URL says so in digits.
fn lifetime(url: &str) -> Value {
    let Ok(url) = url::Url::parse(url) else { return Value::Null };
    let seconds = url.query_pairs().find(|(name, _)| name == "X-Amz-Expires").map(|(_, value)| value.into_owned());
    seconds
        .filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|text| text.parse::<u64>().ok())
        .map_or(Value::Null, Value::from)
}
