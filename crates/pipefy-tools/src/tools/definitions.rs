//! Field definitions of start forms and phases: reading, choosing, and what to send of the values somebody gave
//! (`spec/tools-pipes-cards.md`, "Field definitions" and "Field filtering").

use pipefy::pipes;
use serde_json::{Map, Value, json};

use crate::tools::shared::{list_at, text_of};
use crate::{Call, Explain, ToolError};

/// Attributes that mean something on connectors only.
const CONNECTOR: [&str; 7] = [
    "canConnectExisting",
    "canConnectMultiples",
    "canCreateNewConnected",
    "childMustExistToFinishParent",
    "allChildrenMustBeDoneToFinishParent",
    "allChildrenMustBeDoneToMoveParent",
    "connectedRepo",
];

/// One field of a form.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    /// Slug, by which values are given.
    pub(crate) id: String,
    /// Field type, such as `short_text`.
    pub(crate) kind: String,
    pub(crate) required: bool,
    pub(crate) editable: bool,
    /// The definition without null keys.
    pub(crate) shown: Map<String, Value>,
}

impl Definition {
    fn read(entry: &Value) -> Option<Self> {
        let entry = entry.as_object()?;
        let text = |key: &str| text_of(entry.get(key)).map(|t| t.trim().to_owned()).filter(|t| !t.is_empty());
        let (id, kind) = (text("id")?, text("type")?);
        let says_nothing = |key: &str| kind != "connector" && CONNECTOR.contains(&key);
        let said = entry.iter().filter(|(key, value)| !value.is_null() && !says_nothing(key));
        let mut shown: Map<String, Value> = said.map(|(key, value)| (key.clone(), value.clone())).collect();
        shown.insert("id".to_owned(), id.clone().into());
        shown.insert("type".to_owned(), kind.clone().into());
        let flag = |key: &str| shown.get(key).and_then(Value::as_bool);
        Some(Self {
            required: flag("required") == Some(true),
            editable: flag("editable") != Some(false),
            id,
            kind,
            shown,
        })
    }

    /// Label, or the id when there is none.
    pub(crate) fn label(&self) -> &str {
        self.text("label").unwrap_or(&self.id)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.shown.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
    }

    /// The values to choose from.
    pub(crate) fn options(&self) -> &[Value] {
        self.shown.get("options").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

/// A phase's name and fields.
#[derive(Clone, Debug)]
pub(crate) struct PhaseForm {
    /// Id as Pipefy gave it, else as asked for.
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) fields: Vec<Definition>,
}

/// Reads the fields of a pipe's start form. `what` completes "Cannot ...".
///
/// # Errors
/// The pipe cannot be read or seen, or a definition lacks its id or type.
pub(crate) async fn start_form(call: &Call<'_>, pipe_id: &str, what: &str) -> Result<Vec<Definition>, ToolError> {
    let explain = Explain::doing("load the start form").about("pipe", pipe_id);
    let data = call.query(pipes::get_start_form_fields(pipe_id)).await.map_err(|e| explain.map(call, e))?;
    let value = data.value();
    if value.get("pipe").is_none_or(Value::is_null) {
        return Err(explain.missing());
    }
    read(list_at(&value, "pipe.start_form_fields"), what)
}

/// Reads a phase and its fields. `what` completes "Cannot ...".
///
/// # Errors
/// As [`start_form`].
pub(crate) async fn phase_form(call: &Call<'_>, phase_id: &str, what: &str) -> Result<PhaseForm, ToolError> {
    let explain = Explain::doing("load the phase").about("phase", phase_id);
    let data = call.query(pipes::get_phase_fields(phase_id)).await.map_err(|e| explain.map(call, e))?;
    let value = data.value();
    let phase = value.get("phase").filter(|phase| !phase.is_null()).ok_or_else(|| explain.missing())?;
    Ok(PhaseForm {
        id: text_of(phase.get("id")).unwrap_or_else(|| phase_id.to_owned()),
        name: text_of(phase.get("name")),
        fields: read(list_at(phase, "fields"), what)?,
    })
}

fn read(entries: &[Value], what: &str) -> Result<Vec<Definition>, ToolError> {
    let fields: Vec<Definition> = entries.iter().filter_map(Definition::read).collect();
    match entries.len() - fields.len() {
        0 => Ok(fields),
        bad => {
            let (plural, verb) = if bad == 1 { ("", "lacks") } else { ("s", "lack") };
            Err(ToolError::api(format!(
                "Cannot {what}: {bad} field definition{plural} {verb} an `id` or a `type`. The pipe's configuration may be \
                 incomplete; check the form in Pipefy."
            )))
        }
    }
}

/// The definitions as shown, only the required ones on request.
pub(crate) fn shown(fields: &[Definition], required_only: bool) -> Vec<Value> {
    fields.iter().filter(|field| field.required || !required_only).map(|field| field.shown.clone().into()).collect()
}

/// The fields that can be written.
pub(crate) fn editable(fields: &[Definition]) -> Vec<&Definition> {
    fields.iter().filter(|field| field.editable).collect()
}

/// What of `values` names one of `fields`, in their order, and the names of the rest.
pub(crate) fn sift(values: &Map<String, Value>, fields: &[&Definition]) -> (Map<String, Value>, Vec<String>) {
    let known = |id: &String| fields.iter().any(|field| field.id == *id);
    let kept = values.iter().filter(|(id, _)| known(id)).map(|(id, value)| (id.clone(), value.clone())).collect();
    (kept, values.keys().filter(|id| !known(id)).cloned().collect())
}

/// The `fields_attributes` of a new card.
pub(crate) fn attributes(values: &Map<String, Value>) -> Vec<Value> {
    values.iter().map(|(id, value)| json!({ "field_id": id, "field_value": value, "generated_by_ai": true })).collect()
}

/// Says of each value that is a name where ids are wanted what it should be (field report B13); empty when all fit.
pub(crate) fn id_hints(values: &Map<String, Value>, fields: &[&Definition]) -> String {
    let mut hints = String::new();
    for (id, value) in values {
        let Some(field) = fields.iter().find(|field| field.id == *id) else { continue };
        let wanted = match field.kind.as_str() {
            "assignee_select" => "user ids (`get_pipe_members`)",
            "connector" => "ids of related cards or records, not titles",
            "label_select" => "label ids (`get_labels`)",
            _ => continue,
        };
        let is_id = |value: &Value| text_of(Some(value)).is_some_and(|t| t.trim().bytes().all(|b| b.is_ascii_digit()));
        let fits = match value {
            Value::Array(list) => list.iter().all(is_id),
            one => is_id(one),
        };
        if !fits {
            hints.push_str(&format!(" Field `{id}` ({}) takes {wanted}.", field.kind));
        }
    }
    hints
}

/// Names date values that can be read in two ways (field report B11); `None` when there is none.
pub(crate) fn date_warning(values: &Map<String, Value>, fields: &[&Definition]) -> Option<String> {
    let unclear: Vec<&str> = fields
        .iter()
        .filter(|field| matches!(field.kind.as_str(), "date" | "datetime" | "due_date"))
        .filter(|field| values.get(&field.id).and_then(Value::as_str).is_some_and(is_ambiguous_date))
        .map(|field| field.id.as_str())
        .collect();
    (!unclear.is_empty()).then(|| {
        format!(
            "Sent as given: {}. Day and month may be read either way; use YYYY-MM-DD (date-times with offset).",
            unclear.join(", ")
        )
    })
}

/// Whether text looks like `03/04/2024`, which some read as March and some as April.
pub(crate) fn is_ambiguous_date(text: &str) -> bool {
    let head: Vec<&str> = text.trim().split([' ', 'T']).next().unwrap_or_default().split(['/', '.', '-']).collect();
    match head.as_slice() {
        [day, month, year] => {
            let number = |t: &str| (t.len() <= 2).then(|| t.parse::<u8>().ok()).flatten();
            year.len() == 4 && number(day).zip(number(month)).is_some_and(|(d, m)| d <= 12 && m <= 12 && d != m)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn definitions_lose_null_keys_and_blanks_around_id_and_type() {
        let entries = [
            json!({"id": " a ", "type": "select ", "editable": null, "options": null, "new": 1, "canConnectExisting": true}),
        ];
        let fields = read(&entries, "return phase fields").unwrap();
        assert!(fields[0].editable && !fields[0].required);
        assert_eq!(shown(&fields, false), [json!({"id": "a", "type": "select", "new": 1})]);
        assert!(shown(&fields, true).is_empty());
    }

    #[test]
    fn definitions_without_id_or_type_are_counted() {
        for (entries, text) in [
            (vec![json!({"id": "a"})], "1 field definition "),
            (vec![json!({"type": "x"}), json!(null), json!({"id": "a", "type": "x"})], "2 field definitions "),
        ] {
            let error = read(&entries, "return start form fields").unwrap_err();
            assert!(error.message.contains(text) && error.message.contains("return start form fields"), "{error}");
        }
    }

    #[test]
    fn only_dates_that_can_be_read_in_two_ways_are_ambiguous() {
        for (text, ambiguous) in [
            ("03/04/2024", true),
            ("3.4.2024 10:00", true),
            ("2024-04-03", false),
            ("31/12/2024", false),
            ("04/04/2024", false),
            ("2024-04-03T10:00:00Z", false),
            ("", false),
            ("x", false),
        ] {
            assert_eq!(is_ambiguous_date(text), ambiguous, "{text}");
        }
    }
}
