//! Records of database tables.

mod create_table_record;
mod delete_table_record;
mod find_records;
mod get_table_record;
mod get_table_records;
mod search_tables;
mod set_table_record_field_value;
mod update_table_record;

use pipefy::Data;
use serde_json::{Value, json};

use crate::capability::Row;
use crate::tools::shared::non_blank;
use crate::{Call, Outcome, Page, ToolError, dig};

pub(crate) const ROWS: &[Row] = &[
    Row::read::<search_tables::SearchTables>(),
    Row::read::<get_table_records::GetTableRecords>(),
    Row::read::<get_table_record::GetTableRecord>(),
    Row::read::<find_records::FindRecords>(),
    Row::write::<create_table_record::CreateTableRecord>(),
    Row::write::<update_table_record::UpdateTableRecord>(),
    Row::write::<set_table_record_field_value::SetTableRecordFieldValue>(),
    Row::write::<delete_table_record::DeleteTableRecord>(),
];

/// A cursor argument: trimmed, and not blank when given.
fn cursor(after: Option<&str>) -> Result<Option<&str>, ToolError> {
    match after {
        Some(text) => match non_blank(Some(text)) {
            Some(cursor) => Ok(Some(cursor)),
            None => Err(ToolError::refused_value("`after` must not be blank; leave it out for the first page.")),
        },
        None => Ok(None),
    }
}

/// A page of records. With the unified envelope off, `pagination` has Pipefy's own key names.
fn page_of_records(call: &Call<'_>, data: Data, root: &str, page_size: i64, message: &str) -> Outcome {
    let value = data.value();
    let page_info = dig(&value, root).and_then(|connection| connection.get("pageInfo"));
    if call.toolbox.unified_envelope {
        let page = Page::from_page_info(page_info, Some(page_size));
        return Outcome::new(data).message(message).page(Some(page));
    }
    let key = |name: &str| page_info.and_then(|info| info.get(name)).cloned().unwrap_or_default();
    let block = match page_info {
        Some(Value::Object(_)) => json!({ "hasNextPage": key("hasNextPage"), "endCursor": key("endCursor") }),
        _ => Value::Null,
    };
    Outcome::new(data).message(message).extra("pagination", block)
}

#[cfg(test)]
mod tests;
