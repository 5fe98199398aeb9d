use pipefy::tables;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::readback::{self, Sent, asked};
use crate::tools::shared::{extra_keys, extra_object, list_at, send, text_of, unpacked};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Plan, Shape, ToolError, Verification, Write, dig,
};

/// Adds a record to a database table.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateTableRecord {
    table_id: CheckedId,
    /// {field_id: value} or [{field_id, field_value}]; ids as in get_table.
    fields: Value,
    #[serde(default)]
    title: Option<String>,
    /// Further keys of CreateTableRecordInput, e.g. due_date, label_ids, assignee_ids.
    #[serde(default)]
    extra_input: Option<Value>,
}

impl Write for CreateTableRecord {
    const OP: Op = Op::write("create_table_record", Domain::Database, Shape::Result)
        .debug()
        .touches(&[IdArg::new("table_id", IdKind::Table)]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let titled = self.title.as_deref().is_some_and(|title| !title.trim().is_empty());
        // A record may consist of its title; with neither there is nothing to create.
        let attributes = match unpacked(self.fields) {
            Value::Object(map) if titled && map.is_empty() => Vec::new(),
            Value::Array(list) if titled && list.is_empty() => Vec::new(),
            fields => attributes(fields)?,
        };
        // What arguments of their own stand for is not taken from here: the explicit argument wins.
        let mut input = extra_keys(extra_object(self.extra_input)?, &["table_id", "fields", "fields_attributes"]);
        let table_id = self.table_id.to_string();
        input.insert("table_id".to_owned(), table_id.as_str().into());
        input.insert("fields_attributes".to_owned(), attributes.into());
        if let Some(title) = self.title {
            input.insert("title".to_owned(), title.into());
        }
        Ok(Plan::new(table_id).then(tables::create_table_record(input)))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("create table record").about("table", &plan.keep);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        let wanted = text_of(asked(plan).get("title"));
        let shown = text_of(dig(&data.value(), "createTableRecord.table_record.title"));
        let title_warning = wanted.filter(|wanted| shown.as_ref() != Some(wanted)).map(|wanted| {
            let shown = shown.as_deref().unwrap_or_default();
            format!(
                "The title was not applied as expected: asked for '{wanted}', got '{shown}'. The table builds titles from its \
                 title field (`title_field` of `get_table`); change it with `update_table_record`."
            )
        });
        Ok(Outcome::new(data).message("Record created.").extra_opt("title_warning", title_warning))
    }

    async fn verify(plan: &Plan<String>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let id = text_of(dig(&outcome.body.value(), "createTableRecord.table_record.id"))?;
        let input = asked(plan);
        let attributes = list_at(input.get("fields_attributes")?, "");
        if attributes.is_empty() {
            let read = call.query(tables::get_table_record(&id)).await;
            return Some(readback::thing(read, "table_record").there("record"));
        }
        let sent = attributes.iter().filter_map(|entry| {
            let (field, value) = (entry.get("field_id")?.as_str()?, entry.get("field_value")?);
            Some(Sent { field, value, operation: "REPLACE" })
        });
        Some(readback::values(call.query(tables::get_record_values(&id)).await, "table_record.record_fields", sent))
    }
}

/// `fields_attributes`; values count as written by an assistant unless an entry says otherwise.
fn attributes(fields: Value) -> Result<Vec<Value>, ToolError> {
    const SHAPE: &str = "`fields` must be {field_id: value} or a list of {field_id, field_value}, and not empty.";
    match fields {
        Value::Object(map) if !map.is_empty() => Ok(map
            .into_iter()
            .map(|(id, value)| json!({ "field_id": id, "field_value": value, "generated_by_ai": true }))
            .collect()),
        Value::Array(list) if !list.is_empty() => {
            list.into_iter().enumerate().map(|(index, item)| entry(item, index)).collect()
        }
        _ => Err(ToolError::invalid(SHAPE)),
    }
}

fn entry(item: Value, index: usize) -> Result<Value, ToolError> {
    match item {
        Value::Object(mut entry) if entry.contains_key("field_id") && entry.contains_key("field_value") => {
            entry.entry("generated_by_ai").or_insert(Value::Bool(true));
            Ok(Value::Object(entry))
        }
        _ => Err(ToolError::invalid(format!("`fields` at index {index} needs the keys field_id and field_value."))),
    }
}
