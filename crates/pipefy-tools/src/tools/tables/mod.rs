//! Database tables and their fields.

mod create_table;
mod create_table_field;
mod delete_table;
mod delete_table_field;
mod get_table;
mod get_tables;
mod update_table;
mod update_table_field;

use pipefy::tables;
use serde_json::Value;

use crate::Call;
use crate::capability::Row;
use crate::readback::{self, Found};
use crate::tools::shared::COLORS;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<get_table::GetTable>(),
    Row::read::<get_tables::GetTables>(),
    Row::write::<create_table::CreateTable>(),
    Row::write::<update_table::UpdateTable>(),
    Row::write::<delete_table::DeleteTable>(),
    Row::write::<create_table_field::CreateTableField>(),
    Row::write::<update_table_field::UpdateTableField>(),
    Row::write::<delete_table_field::DeleteTableField>(),
];

/// What values of a table that Pipefy refuses may be.
fn hint() -> String {
    format!("{COLORS}; authorization is read or write.")
}

/// The table as it is, for dry runs and for reading back; `None` when it cannot be read.
async fn table(call: &Call<'_>, table_id: &str) -> Option<Value> {
    let data = call.query(tables::get_table(table_id)).await.ok()?;
    data.value().get_mut("table").map(Value::take).filter(|table| !table.is_null())
}

/// The field of a table as a read shows it.
async fn field(call: &Call<'_>, table_id: &str, field_id: &str) -> Found {
    let read = call.query(tables::get_table(table_id)).await;
    readback::item(read, "table.table_fields", &["id", "uuid", "internal_id"], field_id)
}

#[cfg(test)]
mod tests;
