//! Values of card fields, sent in batches (field report B16: Pipefy takes at most 30 a request and one card).

use pipefy::{Mutation, cards};
use serde_json::{Map, Value, json};

use crate::readback::{self, Sent};
use crate::tools::shared::text_of;
use crate::{Act, Call, Explain, Outcome, Plan, ToolError, Verification};

/// Field values that one request may carry.
const BATCH: usize = 30;

/// What to write to the fields of one card.
pub(crate) struct FieldValues {
    card_id: String,
    values: Vec<Value>,
}

impl FieldValues {
    /// Values given as `{field_id | fieldId, value, operation?}`.
    ///
    /// # Errors
    /// An entry without field id or value, or with an unknown operation.
    pub(crate) fn from_updates(card_id: &str, updates: &[Map<String, Value>]) -> Result<Self, ToolError> {
        let values =
            updates.iter().enumerate().map(|(index, update)| entry(index, update)).collect::<Result<_, _>>()?;
        Ok(Self { card_id: card_id.to_owned(), values })
    }

    /// Values that replace what is there.
    pub(crate) fn replacing(card_id: &str, values: &Map<String, Value>) -> Self {
        let values = values.iter().map(|(id, value)| one(id, value, "REPLACE")).collect();
        Self { card_id: card_id.to_owned(), values }
    }

    /// One mutation for every 30 values.
    pub(crate) fn mutations(&self) -> Vec<Mutation> {
        self.values.chunks(BATCH).map(|batch| cards::update_fields_values(&self.card_id, batch.to_vec())).collect()
    }

    /// Sends the mutations of `plan` in order and gives the last answer. A payload that says `success: false` is shown as it
    /// is when nothing else was sent; in a series it ends the series.
    ///
    /// # Errors
    /// Says which fields were written before the failure.
    pub(crate) async fn send<K>(&self, plan: &Plan<K>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("update card fields").about("card", &self.card_id);
        let batches = self.values.len().div_ceil(BATCH);
        let mut last = None;
        for (index, mutation) in plan.mutations().enumerate() {
            let answer = act.send_unproven(mutation).await;
            let proof = match &answer {
                Ok(data) => match pipefy::prove(data) {
                    Err(pipefy::Error::Declined { .. }) if batches == 1 => Ok(()),
                    other => other,
                },
                Err(_) => Ok(()),
            };
            match answer.and_then(|data| proof.map(|()| data)) {
                Ok(data) => last = Some(data),
                Err(error) => return Err(self.partly(explain.map(act, error), index)),
            }
        }
        let data = last.ok_or_else(|| ToolError::internal("the plan holds no step"))?;
        let outcome = Outcome::new(data);
        Ok(if batches > 1 { outcome.extra("batches", batches) } else { outcome })
    }

    /// Reads the fields back.
    pub(crate) async fn verify(&self, call: &Call<'_>) -> Verification {
        let text = |value: &'_ Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let parts: Vec<(String, String, Value)> = self
            .values
            .iter()
            .map(|value| {
                (text(value, "fieldId"), text(value, "operation"), value.get("value").cloned().unwrap_or_default())
            })
            .collect();
        let sent = parts.iter().map(|(field, operation, value)| Sent { field, value, operation });
        readback::values(call.query(cards::get_card_values(&self.card_id)).await, "card.fields", sent)
    }

    /// Adds to a failure what was already written.
    fn partly(&self, error: ToolError, done: usize) -> ToolError {
        if done == 0 {
            return error;
        }
        let ids = |values: &[Value]| values.iter().filter_map(|v| v.get("fieldId").cloned()).collect::<Vec<Value>>();
        let (written, rest) = self.values.split_at_checked(done * BATCH).unwrap_or((&self.values, &[]));
        let message = format!(
            "{} The first {} fields were written, the other {} were not: send only those again.",
            error.message,
            written.len(),
            rest.len()
        );
        error.message(message).detail("written_field_ids", ids(written)).detail("unwritten_field_ids", ids(rest))
    }
}

fn entry(index: usize, update: &Map<String, Value>) -> Result<Value, ToolError> {
    let id = ["field_id", "fieldId"].iter().find_map(|key| update.get(*key)).filter(|id| !id.is_null());
    let id = text_of(id).map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).ok_or_else(|| {
        ToolError::invalid(format!("field_updates[{index}] needs `field_id` (`fieldId` is accepted too)."))
    })?;
    let value = update
        .get("value")
        .ok_or_else(|| ToolError::invalid(format!("field_updates[{index}] needs `value`; null empties the field.")))?;
    let operation = match update.get("operation") {
        None | Some(Value::Null) => "REPLACE".to_owned(),
        Some(Value::String(text)) => text.trim().to_uppercase(),
        Some(_) => String::new(),
    };
    if !matches!(operation.as_str(), "ADD" | "REMOVE" | "REPLACE") {
        return Err(ToolError::invalid(format!("field_updates[{index}].operation must be ADD, REMOVE or REPLACE.")));
    }
    Ok(one(&id, value, &operation))
}

fn one(id: &str, value: &Value, operation: &str) -> Value {
    json!({ "fieldId": id, "value": value, "operation": operation, "generatedByAi": true })
}

/// The card with its fields, for a dry run; `None` when it cannot be read.
pub(crate) async fn card_before(call: &Call<'_>, card_id: &str) -> Option<Value> {
    call.query(cards::get_card(card_id, true)).await.ok().map(|data| data.value())
}
