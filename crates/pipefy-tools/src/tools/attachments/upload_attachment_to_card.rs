use pipefy::cards;
use schemars::JsonSchema;
use serde::Deserialize;

use super::field::{Target, takes_files};
use super::source::Source;
use super::upload::{self, Upload};
use crate::readback;
use crate::{
    Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification, Write,
};

/// Uploads one file (at most 100 MiB) and makes it the value of a card's attachment field, replacing what was there.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UploadAttachmentToCard {
    organization_id: CheckedId,
    card_id: CheckedId,
    /// Slug.
    field_id: CheckedId,
    /// A file on the server's machine; or give file_url.
    #[serde(default)]
    file_path: Option<String>,
    /// A public https URL to fetch.
    #[serde(default)]
    file_url: Option<String>,
    #[serde(default)]
    file_name: Option<String>,
    #[serde(default)]
    content_type: Option<String>,
}

impl Write for UploadAttachmentToCard {
    const OP: Op = Op::write("upload_attachment_to_card", Domain::Workflow, Shape::Flat)
        .personas(&[Persona::Manager, Persona::Operator, Persona::Requester])
        .touches(&[
            IdArg::new("organization_id", IdKind::Organization),
            IdArg::new("card_id", IdKind::Card),
            IdArg::within("field_id", IdKind::PhaseField),
        ]);
    type Keep = Upload;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Upload>, ToolError> {
        let (path, url) = (self.file_path.as_deref(), self.file_url.as_deref());
        let source = Source::find(call, path, url, self.file_name.as_deref(), self.content_type.as_deref()).await?;
        let (card_id, field_id) = (self.card_id.to_string(), self.field_id.to_string());
        takes_files(call, Target::Card(&card_id), &field_id).await?;
        let upload = Upload { source, field_id: field_id.clone(), target: ("card_id", card_id.clone()) };
        Ok(upload::plan(&self.organization_id, upload, |value| cards::update_card_field(&card_id, &field_id, value)))
    }

    async fn act(plan: &Plan<Upload>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        upload::act(plan, act).await
    }

    async fn verify(plan: &Plan<Upload>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let Upload { source, field_id, target: (_, id) } = &plan.keep;
        let read = call.query(cards::get_card_values(id)).await;
        Some(readback::holds_file(read, "card.fields", field_id, &source.name))
    }
}
