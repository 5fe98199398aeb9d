use pipefy::{fields, pipes};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::resolve::{self, Place};
use crate::readback;
use crate::tools::shared::{extra_keys, non_blank, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write, dig,
};

/// Changes a field. Slugs are not unique across pipes: give `uuid`, or `phase_id` or `pipe_id` to look it up there.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdatePhaseField {
    /// Slug or uuid, not internal_id.
    field_id: CheckedId,
    /// Pipefy wants it with every change.
    label: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    required: Option<bool>,
    /// The whole new list.
    #[serde(default)]
    #[schemars(schema_with = "options")]
    options: Option<Value>,
    #[serde(default)]
    uuid: Option<String>,
    #[serde(default)]
    phase_id: Option<CheckedId>,
    #[serde(default)]
    pipe_id: Option<CheckedId>,
    /// Further attributes of Pipefy's UpdatePhaseFieldInput.
    #[serde(default)]
    extra_input: Option<Map<String, Value>>,
}

fn options(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "array", "items": { "type": ["string", "number", "boolean", "object", "null"] } },
            { "type": "object", "additionalProperties": true },
            { "type": "null" },
        ],
        "default": null,
    })
}

pub(crate) struct Keep {
    field_id: String,
    phase_id: Option<String>,
}

impl Write for UpdatePhaseField {
    const OP: Op = Op::write("update_phase_field", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[
            IdArg::new("field_id", IdKind::PhaseField),
            IdArg::new("uuid", IdKind::PhaseField),
            IdArg::new("phase_id", IdKind::Phase),
            IdArg::new("pipe_id", IdKind::Pipe),
        ]);
    type Keep = Keep;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let label = non_blank(Some(&self.label))
            .ok_or_else(|| ToolError::invalid("`label` is required on every update and must not be blank."))?;
        let field_id = self.field_id.to_string();
        let hint = |key: &str| {
            let extra = self.extra_input.as_ref()?;
            text_of(extra.get(key)).map(|id| id.trim().to_owned()).filter(|id| !id.is_empty())
        };
        let phase_id = self.phase_id.as_ref().map(ToString::to_string).or_else(|| hint("phase_id"));
        let pipe_id = self.pipe_id.as_ref().map(ToString::to_string).or_else(|| hint("pipe_id"));
        let mut uuid = self.uuid.clone();
        let place = match (&phase_id, &pipe_id) {
            (Some(id), _) => Some(Place::Phase(id)),
            (None, Some(id)) => Some(Place::Pipe(id)),
            (None, None) => None,
        };
        if let (None, true, Some(place)) = (&uuid, resolve::is_slug(&field_id), place) {
            uuid = resolve::uuid_of(call, &field_id, place).await?;
        }
        let mut input = Map::new();
        input.insert("id".to_owned(), field_id.clone().into());
        input.extend(extra_keys(self.extra_input.clone(), &["id", "uuid", "field_id", "label", "phase_id", "pipe_id"]));
        input.insert("label".to_owned(), label.into());
        input.extend(self.description.map(|text| ("description".to_owned(), text.into())));
        input.extend(self.required.map(|required| ("required".to_owned(), required.into())));
        input.extend(self.options.filter(|options| !options.is_null()).map(|options| ("options".to_owned(), options)));
        input.extend(uuid.map(|uuid| ("uuid".to_owned(), uuid.into())));
        Ok(Plan::new(Keep { field_id, phase_id }).then(fields::update_phase_field(input)))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("update phase field")
            .about("phase_field", &plan.keep.field_id)
            .hint("`get_phase_fields` lists slugs (id) and uuids; pass `uuid` when the slug is not unique.");
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Field updated."))
    }

    async fn verify(plan: &Plan<Keep>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let Some(phase_id) = &plan.keep.phase_id else {
            return Some(Verification::unknown("fields are read by phase, and this call names none; give phase_id"));
        };
        // Another label means another slug: the answer has the new one.
        let slug = text_of(dig(&outcome.body.value(), "updatePhaseField.phase_field.id"));
        let id = slug.as_deref().unwrap_or(&plan.keep.field_id);
        let read = call.query(pipes::get_phase_fields(phase_id)).await;
        let found = readback::item(read, "phase.fields", &["id", "uuid"], id);
        Some(found.matches(plan, &[("sync_with_card", "synced_with_card")]))
    }
}
