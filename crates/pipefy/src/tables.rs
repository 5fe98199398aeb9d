//! Database tables and their records. Root fields `findRecords`, `table_records`, `table_record`, `organizations.tables`,
//! `updateTableRecord`, `setTableRecordFieldValue` of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::tables as documents;
use crate::operation::{Mutation, Query};

/// Records of a table, one page.
pub fn get_table_records(table_id: &str, first: Option<i64>, after: Option<&str>) -> Query {
    Query::new(&documents::GET_TABLE_RECORDS).var("tableId", table_id).var_opt("first", first).var_opt("after", after)
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

/// Every organisation with its tables, the first `first` of each.
pub fn search_tables(first: i64) -> Query {
    Query::new(&documents::SEARCH_TABLES).var("first", first)
}

/// Changes title, due date or status of a record; `input` takes the keys of `UpdateTableRecordInput`.
pub fn update_table_record(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_TABLE_RECORD).input(input)
}
