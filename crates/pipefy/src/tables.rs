//! Database tables, their fields and their records. Root fields `table`, `tables`, `findRecords`, `table_records`,
//! `table_record`, `organizations.tables`, `createTable`, `updateTable`, `deleteTable`, `createTableField`,
//! `updateTableField`, `deleteTableField`, `createTableRecord`, `updateTableRecord`, `deleteTableRecord`,
//! `setTableRecordFieldValue` of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::tables as documents;
use crate::operation::{Mutation, Query};

/// Records of a table, one page.
pub fn get_table_records(table_id: &str, first: Option<i64>, after: Option<&str>) -> Query {
    Query::new(&documents::GET_TABLE_RECORDS).var("tableId", table_id).var_opt("first", first).var_opt("after", after)
}

/// Records of a table, one page, for rows of an export: with the value of every field and the ids of the fields.
pub fn get_record_rows(table_id: &str, first: Option<i64>, after: Option<&str>) -> Query {
    Query::new(&documents::GET_RECORD_ROWS).var("tableId", table_id).var_opt("first", first).var_opt("after", after)
}

/// Records of a table whose field holds a value, one page.
pub fn find_records(
    table_id: &str,
    field_id: &str,
    field_value: &str,
    first: Option<i64>,
    after: Option<&str>,
) -> Query {
    Query::new(&documents::FIND_RECORDS)
        .var("tableId", table_id)
        .var("fieldId", field_id)
        .var("fieldValue", field_value)
        .var_opt("first", first)
        .var_opt("after", after)
}

/// Replaces the value of one field of a record; a single value is sent as a list of one.
pub fn set_table_record_field_value(record_id: &str, field_id: &str, value: Value) -> Mutation {
    let value = match value {
        Value::Array(list) => Value::Array(list),
        one => Value::Array(vec![one]),
    };
    let mut input = Map::new();
    input.insert("table_record_id".to_owned(), record_id.into());
    input.insert("field_id".to_owned(), field_id.into());
    input.insert("value".to_owned(), value);
    Mutation::new(&documents::SET_TABLE_RECORD_FIELD_VALUE).input(input)
}

/// One record with its values.
pub fn get_table_record(record_id: &str) -> Query {
    Query::new(&documents::GET_TABLE_RECORD).var("id", record_id)
}

/// The values of a record by field: `record_fields{field{id uuid internal_id} value array_value}`; empty fields are left out.
pub fn get_record_values(record_id: &str) -> Query {
    Query::new(&documents::RECORD_VALUES).var("id", record_id)
}

/// The fields that a record's table has, with their types.
pub fn get_record_form(record_id: &str) -> Query {
    Query::new(&documents::RECORD_FORM).var("id", record_id)
}

/// Every organisation with its tables, the first `first` of each.
pub fn search_tables(first: i64) -> Query {
    Query::new(&documents::SEARCH_TABLES).var("first", first)
}

/// Changes title, due date or status of a record; `input` takes the keys of `UpdateTableRecordInput`.
pub fn update_table_record(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_TABLE_RECORD).input(input)
}

/// One table with its fields; null when there is none of that id.
pub fn get_table(table_id: &str) -> Query {
    Query::new(&documents::GET_TABLE).var("id", table_id)
}

/// Several tables with their fields, in one request.
pub fn get_tables(table_ids: &[&str]) -> Query {
    Query::new(&documents::GET_TABLES).var("ids", table_ids)
}

/// Creates a table; `input` takes the keys of `CreateTableInput`, of which `name` and `organization_id` are required.
pub fn create_table(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_TABLE).input(input)
}

/// Changes a table; `input` takes the keys of `UpdateTableInput`, of which `id` is required.
pub fn update_table(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_TABLE).input(input)
}

/// Deletes a table with its records for good.
pub fn delete_table(table_id: &str) -> Mutation {
    Mutation::new(&documents::DELETE_TABLE).id(table_id)
}

/// Adds a field to a table; `input` takes the keys of `CreateTableFieldInput`: `table_id`, `label`, `type` and more.
pub fn create_table_field(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_TABLE_FIELD).input(input)
}

/// Changes a field of a table; `input` takes the keys of `UpdateTableFieldInput`, of which `id` and `table_id` are required.
pub fn update_table_field(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_TABLE_FIELD).input(input)
}

/// Deletes a field of a table, and its values, for good.
pub fn delete_table_field(field_id: &str, table_id: &str) -> Mutation {
    let mut input = Map::new();
    input.insert("id".to_owned(), field_id.into());
    input.insert("table_id".to_owned(), table_id.into());
    Mutation::new(&documents::DELETE_TABLE_FIELD).input(input)
}

/// Adds a record; `input` takes the keys of `CreateTableRecordInput`: `table_id`, `fields_attributes` and more.
pub fn create_table_record(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_TABLE_RECORD).input(input)
}

/// Deletes a record for good.
pub fn delete_table_record(record_id: &str) -> Mutation {
    Mutation::new(&documents::DELETE_TABLE_RECORD).id(record_id)
}
