//! Whether a field takes files at all, asked before anything is uploaded: bytes that no field will point at are lost in storage.

use pipefy::{Query, cards, tables};
use serde_json::Value;

use super::upload::failed;
use crate::error::NOT_FOUND_CODES;
use crate::tools::shared::{list_at, text_of};
use crate::{Call, Explain, ToolError, dig};

/// What gets the file.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    Card(&'a str),
    Record(&'a str),
}

impl Target<'_> {
    fn query(self) -> Query {
        match self {
            Self::Card(id) => cards::get_card_form(id),
            Self::Record(id) => tables::get_record_form(id),
        }
    }

    fn fields(self, form: &Value) -> Vec<&Value> {
        match self {
            Self::Card(_) => {
                let phases = list_at(form, "card.pipe.phases").iter().flat_map(|phase| list_at(phase, "fields"));
                list_at(form, "card.pipe.start_form_fields").iter().chain(phases).collect()
            }
            Self::Record(_) => list_at(form, "table_record.table.table_fields").iter().collect(),
        }
    }

    fn explain(&self) -> Explain<'_> {
        let explain = Explain::doing("read the fields");
        match self {
            Self::Card(id) => explain.about("card", id),
            Self::Record(id) => explain.about("table_record", id),
        }
    }
}

/// Checks that the field is one for attachments and named by its slug. Fields that cannot be read are left to Pipefy.
///
/// # Errors
/// Step `validation`: no such card, record or field, another type, or another of the field's ids.
pub(crate) async fn takes_files(call: &Call<'_>, target: Target<'_>, field_id: &str) -> Result<(), ToolError> {
    let form = match call.query(target.query()).await {
        Ok(data) => data.value(),
        Err(error) if NOT_FOUND_CODES.iter().any(|code| error.has_code(code)) => {
            return Err(failed("validation", target.explain().map(call, error)));
        }
        Err(_) => return Ok(()),
    };
    let fields = target.fields(&form);
    let is = |field: &Value, key: &str| text_of(field.get(key)).as_deref() == Some(field_id);
    let takes = |field: &Value| dig(field, "type").and_then(Value::as_str) == Some("attachment");
    if fields.is_empty() || fields.iter().any(|field| is(field, "id") && takes(field)) {
        return Ok(());
    }
    let known: Vec<String> =
        fields.iter().filter(|field| takes(field)).filter_map(|field| text_of(field.get("id"))).collect();
    let known = match known.as_slice() {
        [] => "it has no attachment field".to_owned(),
        known => format!("its attachment fields are {}", known.join(", ")),
    };
    let named = fields.iter().find(|field| ["id", "uuid", "internal_id"].iter().any(|key| is(field, key)));
    let problem = match named {
        None => format!("There is no field '{field_id}' here; {known}."),
        Some(field) if takes(field) => format!(
            "`field_id` takes the slug of the field, which is '{}' for {field_id}.",
            text_of(field.get("id")).unwrap_or_default()
        ),
        Some(field) => format!(
            "Field '{field_id}' is of type {} and takes no file; {known}.",
            text_of(field.get("type")).unwrap_or_default()
        ),
    };
    Err(failed("validation", ToolError::invalid(format!("{problem} Nothing was uploaded."))))
}
