use pipefy::scope::Lookup;
use pipefy::{fields, pipes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::readback;
use crate::tools::shared::{FIELD_TYPES, extra_keys, required_text, send, text_of};
use crate::tools::turns;
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write, dig,
};

/// Adds a field to a phase, or to the start form (phase_id = startFormPhaseId of get_pipe).
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreatePhaseField {
    phase_id: CheckedId,
    label: String,
    /// short_text, long_text, number, currency, date, datetime, due_date, time, email, phone, select, radio_vertical,
    /// radio_horizontal, checklist_vertical, checklist_horizontal, attachment, assignee_select, label_select, connector
    /// (needs connectedRepoId in extra_input), statement, id, cpf, cnpj, dynamic_content.
    field_type: String,
    #[serde(default)]
    options: Option<Vec<String>>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    required: Option<bool>,
    /// Further attributes of Pipefy's CreatePhaseFieldInput.
    #[serde(default)]
    extra_input: Option<Map<String, Value>>,
}

impl Write for CreatePhaseField {
    const OP: Op = Op::write("create_phase_field", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("phase_id", IdKind::Phase)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let label = required_text("label", &self.label)?;
        let kind = required_text("field_type", &self.field_type)?;
        let phase_id = self.phase_id.to_string();
        let mut input = Map::new();
        input.insert("phase_id".to_owned(), phase_id.clone().into());
        input.insert("label".to_owned(), label.into());
        input.insert("type".to_owned(), kind.into());
        input.extend(extra_keys(self.extra_input, &["phase_id", "label", "type", "field_type"]));
        input.extend(self.options.map(|options| ("options".to_owned(), options.into())));
        input.extend(self.description.map(|text| ("description".to_owned(), text.into())));
        input.extend(self.required.map(|required| ("required".to_owned(), required.into())));
        Ok(Plan::new(phase_id).then(fields::create_phase_field(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        // Not found may be the phase, the type or the connected pipe: Pipefy's own text says which, and the type is told.
        let explain =
            Explain::doing("create phase field").about("phase", &plan.keep).keep_not_found().hint(FIELD_TYPES);
        let turn = turns::at(&place(act, &plan.keep).await).await;
        let sent = send(plan, act).await;
        drop(turn);
        let data = sent.map_err(|e| with_types(explain.map(act, e)))?;
        Ok(Outcome::new(data).message("Field created."))
    }

    async fn verify(plan: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let uuid = text_of(dig(&outcome.body.value(), "createPhaseField.phase_field.uuid"))?;
        let read = call.query(pipes::get_phase_fields(&plan.keep)).await;
        let found = readback::item(read, "phase.fields", &["uuid"], &uuid);
        let renamed =
            [("phase_id", ""), ("sync_with_card", "synced_with_card"), ("connectedRepoId", "connectedRepo.id")];
        Some(found.matches(plan, &renamed))
    }
}

/// Where creations must not overlap: the pipe of the phase, or the phase itself where its pipe cannot be read.
async fn place(call: &Call<'_>, phase_id: &str) -> String {
    let read = call.query(Lookup::Phase.of(phase_id)).await;
    match read.ok().and_then(|data| text_of(dig(&data.value(), "phase.repo_id"))) {
        Some(pipe) => format!("pipe {pipe}"),
        None => format!("phase {phase_id}"),
    }
}

/// A type that Pipefy does not know is refused as not found; which types it knows is said with it.
pub(crate) fn with_types(error: ToolError) -> ToolError {
    let about_the_type = error.message.to_lowercase().contains("field type") && !error.message.contains(FIELD_TYPES);
    if about_the_type { error.clone().message(format!("{} Field {FIELD_TYPES}.", error.message)) } else { error }
}
