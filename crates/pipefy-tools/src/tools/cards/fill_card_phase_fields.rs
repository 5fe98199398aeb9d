use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::values::{FieldValues, card_before};
use crate::tools::definitions::{self, Definition, PhaseForm};
use crate::tools::form;
use crate::tools::shared::strings;
use crate::{
    Act, Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Outsiders, Persona, Plan, Shape, ToolError, Verification,
    Write,
};

/// Writes values of a phase's editable fields on a card. Clients that can show forms ask the user first.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct FillCardPhaseFields {
    card_id: CheckedId,
    phase_id: CheckedId,
    /// Values by field id (slug), see get_phase_fields.
    #[serde(default)]
    fields: Option<Map<String, Value>>,
    /// The form shows only required fields.
    #[serde(default)]
    required_fields_only: bool,
    /// Send `fields` without asking the user.
    #[serde(default)]
    skip_elicitation: bool,
}

pub(crate) enum Fill {
    /// Nothing to write, and why.
    Nothing(Value),
    Write {
        values: FieldValues,
        skipped: Vec<String>,
        hints: String,
        warning: Option<String>,
    },
}

impl Write for FillCardPhaseFields {
    const OP: Op = Op::write("fill_card_phase_fields", Domain::Workflow, Shape::Raw)
        .outsiders(Outsiders::CONTENTS)
        .personas(&[Persona::Manager, Persona::Operator])
        .no_output_schema()
        .asks()
        .touches(&[IdArg::new("card_id", IdKind::Card), IdArg::new("phase_id", IdKind::Phase)]);
    type Keep = Fill;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Fill>, ToolError> {
        let phase = definitions::phase_form(call, &self.phase_id, "build the interactive form").await?;
        let fields = definitions::editable(&phase.fields);
        let given = self.fields.clone().unwrap_or_default();
        let (mut values, skipped) = definitions::sift(&given, &fields);
        if let Some(entered) = self.ask(call, &phase, &fields, &given).await? {
            let rest = std::mem::replace(&mut values, entered);
            for (id, value) in rest {
                values.entry(id).or_insert(value);
            }
        }
        if values.is_empty() {
            return Ok(Plan::new(Fill::Nothing(self.nothing(&phase, &fields, &given))));
        }
        let hints = definitions::id_hints(&values, &fields);
        let warning = definitions::date_warning(&values, &fields);
        let values = FieldValues::replacing(&self.card_id, &values);
        let mutations = values.mutations();
        let keep = Fill::Write { values, skipped, hints, warning };
        let mut plan = mutations.into_iter().fold(Plan::new(keep), Plan::then);
        if call.options.dry_run {
            plan.before = card_before(call, &self.card_id).await;
        }
        Ok(plan)
    }

    async fn act(plan: &Plan<Fill>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        match &plan.keep {
            Fill::Nothing(result) => Ok(Outcome::new(result.clone())),
            Fill::Write { values, skipped, hints, warning } => {
                let outcome = values.send(plan, act).await.map_err(|error| {
                    let refused = matches!(error.source.as_deref(), Some(pipefy::Error::Graphql { .. }));
                    let message = format!("{}{hints}", error.message);
                    if refused { error.message(message) } else { error }
                })?;
                let skipped = (!skipped.is_empty()).then(|| strings(skipped));
                Ok(outcome.extra_opt("skipped_field_ids", skipped).extra_opt("warning", warning.clone()))
            }
        }
    }

    async fn verify(plan: &Plan<Fill>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        match &plan.keep {
            Fill::Nothing(_) => Some(Verification::unknown("nothing was written")),
            Fill::Write { values, .. } => Some(values.verify(call).await),
        }
    }
}

impl FillCardPhaseFields {
    async fn ask(
        &self,
        call: &Call<'_>,
        phase: &PhaseForm,
        fields: &[&Definition],
        given: &Map<String, Value>,
    ) -> Result<Option<Map<String, Value>>, ToolError> {
        let asked: Vec<&Definition> =
            fields.iter().copied().filter(|field| field.required || !self.required_fields_only).collect();
        if self.skip_elicitation || call.options.dry_run || asked.is_empty() {
            return Ok(None);
        }
        let name = self.name(phase);
        let message = format!("Filling fields of phase {name} (ID: {}) on card {}.", self.phase_id, self.card_id);
        form::ask(call, &message, "phase field update", &asked, given).await
    }

    fn name(&self, phase: &PhaseForm) -> String {
        phase.name.clone().unwrap_or_else(|| format!("Phase {}", self.phase_id))
    }

    fn nothing(&self, phase: &PhaseForm, fields: &[&Definition], given: &Map<String, Value>) -> Value {
        let name = self.name(phase);
        let required = fields.iter().any(|field| field.required);
        let message = if self.required_fields_only && !required {
            format!("Phase '{name}' has no required fields; nothing was updated.")
        } else if !fields.is_empty() {
            format!(
                "No value was collected, so nothing was updated. Phase '{name}' has {} editable field(s): pass `fields` keyed \
                 by the ids of get_phase_fields({}).",
                fields.len(),
                self.phase_id
            )
        } else if given.is_empty() {
            "No fields to update.".to_owned()
        } else {
            format!("Phase '{name}' has no editable fields; nothing was updated.")
        };
        let skipped: Vec<&String> = given.keys().collect();
        json!({
            "success": true,
            "message": message,
            "phase_id": self.phase_id.as_str(),
            "phase_name": name,
            "skipped_field_ids": skipped,
        })
    }
}
