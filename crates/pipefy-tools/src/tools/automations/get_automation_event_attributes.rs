use pipefy::automations;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{Call, Domain, Explain, Op, Outcome, Persona, Reach, Read, Shape, ToolError, dig};

/// Lists values of the trigger itself that a field_map value can take, such as the time it fired.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAutomationEventAttributes {}

/// The attributes that Pipefy has: field of the answer, id.
const ATTRIBUTES: [(&str, &str); 1] = [("automationEventExecutionDatetime", "automation_event_execution_datetime")];

impl Read for GetAutomationEventAttributes {
    const OP: Op = Op::read("get_automation_event_attributes", Domain::Automation, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Builder])
        .reaches(Reach::Nothing);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let data = call
            .query(automations::get_automation_event_attributes())
            .await
            .map_err(|e| Explain::doing("load the attributes of triggers").map(call, e))?;
        let value = data.value();
        let rows: Vec<Value> = ATTRIBUTES
            .iter()
            .filter_map(|(field, id)| {
                Some(row(id, dig(&value, "automationEventAttributes")?.get(*field)?.as_object()?))
            })
            .collect();
        let message = format!("{} attributes.", rows.len());
        Ok(Outcome::new(Value::Array(rows)).message(message))
    }
}

fn row(id: &str, attribute: &Map<String, Value>) -> Value {
    let mut row = Map::new();
    row.insert("id".to_owned(), id.into());
    row.insert("value_token".to_owned(), format!("%{{{id}}}").into());
    let text = |keys: &[&str]| keys.iter().find_map(|key| attribute.get(*key).and_then(Value::as_str));
    for (name, keys) in
        [("internal_id", &["internalId", "internal_id"][..]), ("label", &["label"]), ("type", &["type"])]
    {
        if let Some(text) = text(keys) {
            row.insert(name.to_owned(), text.into());
        }
    }
    row.into()
}
