//! Forms that a person fills in before a card is written (`spec/tools-pipes-cards.md`, "Elicitation").

use serde_json::{Map, Value, json};

use crate::tools::definitions::Definition;
use crate::{Answer, AskError, Call, Kind, ToolError};

/// Asks for the values of `fields`; `given` are shown as defaults. `Ok(None)` when nobody can be asked. The values are those
/// that were entered, chosen or left as given; what stayed empty is absent, what was emptied is null.
///
/// # Errors
/// Declined (`what` was cancelled), or the answer does not fit the form.
pub(crate) async fn ask(
    call: &Call<'_>,
    message: &str,
    what: &str,
    fields: &[&Definition],
    given: &Map<String, Value>,
) -> Result<Option<Map<String, Value>>, ToolError> {
    let Some(person) = call.person() else { return Ok(None) };
    let fields: Vec<&Definition> =
        fields.iter().copied().filter(|field| can_show(field, given.get(&field.id))).collect();
    match person.form(message, schema(&fields, given)).await {
        Ok(Answer::Accept(content)) => read(&fields, given, &content).map(Some),
        Ok(Answer::Decline | Answer::Cancel) => {
            Err(ToolError::new(Kind::Declined, format!("The {what} was cancelled by the user; nothing was sent.")))
        }
        Err(AskError::Closed) => Ok(None),
        Err(AskError::Later) => Err(ToolError::new(
            Kind::Declined,
            "The form waits to be filled in; nothing was sent. The call goes on when it comes again with the answer.",
        )
        .code("INPUT_REQUIRED")),
        Err(AskError::Failed(reason)) => Err(ToolError::new(
            Kind::Input,
            format!(
                "The form gave no usable answer ({reason}); nothing was sent. Call again with skip_elicitation=true."
            ),
        )),
    }
}

/// A form can hold only one text, number or yes/no per field; a value that is none of them stays out and is sent as given.
fn can_show(field: &Definition, given: Option<&Value>) -> bool {
    let Some(given) = given.filter(|v| !v.is_null()) else { return true };
    match json_type(&field.kind) {
        "number" => number(given).is_some(),
        "boolean" => given.is_boolean(),
        _ => given.is_string() && (field.options().is_empty() || field.options().contains(given)),
    }
}

fn json_type(kind: &str) -> &'static str {
    match kind {
        "number" => "number",
        "checkbox" => "boolean",
        _ => "string",
    }
}

fn schema(fields: &[&Definition], given: &Map<String, Value>) -> Value {
    let prefilled = |field: &Definition| given.get(&field.id).filter(|v| !v.is_null()).cloned();
    let mut properties = Map::new();
    for field in fields {
        let kind = json_type(&field.kind);
        let mut property = Map::new();
        property.insert("type".to_owned(), kind.into());
        property.insert("title".to_owned(), field.label().into());
        property.insert("description".to_owned(), field.text("description").unwrap_or_default().into());
        if kind == "string" && !field.options().is_empty() {
            property.insert("enum".to_owned(), field.options().into());
        }
        let format = match field.kind.as_str() {
            "date" => Some("date"),
            "datetime" => Some("date-time"),
            "email" => Some("email"),
            _ => None,
        };
        property.extend(format.map(|format| ("format".to_owned(), format.into())));
        let default = prefilled(field).and_then(|value| if kind == "number" { number(&value) } else { Some(value) });
        property.extend(default.map(|value| ("default".to_owned(), value)));
        properties.insert(field.id.clone(), property.into());
    }
    let required: Vec<&str> =
        fields.iter().filter(|f| f.required && prefilled(f).is_none()).map(|f| f.id.as_str()).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("title".to_owned(), "DynamicFormModel".into());
    schema.insert("properties".to_owned(), properties.into());
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema.into()
}

fn read(
    fields: &[&Definition],
    given: &Map<String, Value>,
    content: &Map<String, Value>,
) -> Result<Map<String, Value>, ToolError> {
    let mut values = Map::new();
    for field in fields {
        let default = given.get(&field.id).filter(|v| !v.is_null());
        let entered = content.get(&field.id);
        let empty = entered.is_none_or(|v| v.is_null() || v.as_str() == Some(""));
        let value = match (entered, default) {
            // Emptied on purpose: what is stored must go too.
            (Some(_), Some(_)) if empty => Some(Value::Null),
            (None, Some(default)) => Some(default.clone()),
            (_, None) if empty => None,
            (Some(entered), _) => Some(convert(field, entered)?),
            (None, None) => None,
        };
        match value {
            Some(value) => {
                values.insert(field.id.clone(), value);
            }
            None if field.required => return Err(unfit(field, "is required and was left empty")),
            None => {}
        }
    }
    Ok(values)
}

fn convert(field: &Definition, entered: &Value) -> Result<Value, ToolError> {
    match json_type(&field.kind) {
        "number" => number(entered).ok_or_else(|| unfit(field, "must be a number")),
        "boolean" if entered.is_boolean() => Ok(entered.clone()),
        "boolean" => Err(unfit(field, "must be true or false")),
        _ if entered.is_string() => Ok(entered.clone()),
        _ => Err(unfit(field, "must be text")),
    }
}

fn number(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => {
            let text = text.trim();
            let whole = text.parse::<i64>().ok().map(Value::from);
            whole.or_else(|| text.parse::<f64>().ok().filter(|n| n.is_finite()).map(Value::from))
        }
        _ => None,
    }
}

fn unfit(field: &Definition, reason: &str) -> ToolError {
    ToolError::new(Kind::Input, format!("The form's answer does not fit: `{}` {reason}; nothing was sent.", field.id))
}
