//! Database tables and their records.

use serde_json::{Map, Value};

use crate::bulk;
use crate::command::{Command, Preset, Shape, Show, commas, id, int, json, named, object, pair, text, word};
use crate::failure::Failure;

pub(super) static TABLES: &[Command] = &[
    Command::new("table list", "search_tables", "List tables, or find them by name or ids")
        .takes(&[
            commas("--ids", "table_ids", "Only these ids; name and page size do not matter then"),
            text("--name -n", "table_name", "Name to look for; near matches count"),
            int("--first", "first", "Tables per organization at most").range(1, 500).or(Preset::Int(100)),
        ])
        .or(&["get_tables"], by_ids),
    Command::new("table get", "get_table", "Show a table and its fields").takes(&[id("table_id", "Table id")]),
    Command::new("table create", "create_table", "Create a table").takes(&[
        word("name", "Name"),
        text("--org", "organization_id", "Organization id").required(),
        object("--extra", "extra_input", "Further attributes"),
    ]),
    Command::new("table update", "update_table", "Change a table").takes(&[
        id("table_id", "Table id"),
        text("--name", "name", "New name"),
        text("--description -d", "description", "New description"),
        object("--extra", "extra_input", "Further attributes"),
    ]),
    Command::new("table delete", "delete_table", "Delete a table and its records for good")
        .takes(&[id("table_id", "Table id")])
        .deletes(|given| named("table", "table_id", given))
        .shows(Show::Done("deleteTable")),
    Command::new("table field create", "create_table_field", "Create a field in a table").takes(&[
        id("table_id", "Table id"),
        text("--label -l", "label", "Label").required(),
        text("--type -t", "field_type", "Field type, e.g. short_text").required(),
        object("--extra", "extra_input", "Further attributes"),
    ]),
    Command::new("table field update", "update_table_field", "Change a field of a table")
        .prepare(table_of_extra)
        .takes(&[
            id("field_id", "Field id"),
            text("--table", "table_id", "Table id"),
            text("--label -l", "label", "New label"),
            text("--description -d", "description", "New description"),
            pair("--required / --not-required", "required", "Must be filled in"),
            json("--options", "options", Shape::ObjectOrArray, "New options"),
            object("--extra", "extra_input", "Further attributes"),
        ]),
    Command::new("table field delete", "delete_table_field", "Delete a field of a table for good")
        .takes(&[id("field_id", "Field id"), text("--table", "table_id", "Table id").required()])
        .deletes(|given| format!("{} of {}", named("field", "field_id", given), named("table", "table_id", given))),
];

pub(super) static RECORDS: &[Command] = &[
    Command::new(
        "record find",
        "get_table_records",
        "List the records of a table, or find them by the value of a field",
    )
    .takes(&[
        text("--table", "table_id", "Table id").required(),
        object("--filter", "filter", "{\"field_id\": ..., \"field_value\": ...}, to find instead of list"),
        int("--first", "first", "Page size; 50 when listing").range(1, 200),
        text("--after", "after", "Cursor: the endCursor of the page before"),
    ])
    .or(&["find_records"], by_filter),
    Command::new("record get", "get_table_record", "Show a record").takes(&[id("record_id", "Record id")]),
    Command::new("record create", "create_table_record", "Create a record").prepare(fields_at_least_empty).takes(&[
        text("--table", "table_id", "Table id").required(),
        json("--fields", "fields", Shape::ObjectOrArray, "Field values"),
        text("--title -t", "title", "Title"),
        object("--extra", "extra_input", "Further attributes"),
    ]),
    Command::new("record update", "update_table_record", "Change a record, or one of its field values")
        .takes(&[
            id("record_id", "Record id"),
            object("--fields", "fields", "title, due_date, status_id"),
            text("--field-id", "field_id", "Field whose value to set, together with --value"),
            json("--value", "value", Shape::Any, "The new value, as JSON"),
        ])
        .or(&["set_table_record_field_value"], by_field),
    Command::new("record delete", "delete_table_record", "Delete a record for good")
        .takes(&[id("record_id", "Record id")])
        .deletes(|given| named("record", "record_id", given)),
    Command::new(
        "record import",
        "bulk_import_records",
        "Create a record for every row of a file whose key is not there yet",
    )
    .flow(&[], bulk::import_records)
    .takes(&bulk::imports(text("--table", "table_id", "Table id").required())),
    Command::new(
        "record export",
        "bulk_export_records",
        "Show all records of a table with their values, a row each; see --format",
    )
    .flow(&[], bulk::export_records)
    .takes(&bulk::exports(text("--table", "table_id", "Table id").required())),
];

fn by_ids(args: &mut Map<String, Value>) -> Result<&'static str, Failure> {
    if !args.contains_key("table_ids") {
        return Ok("search_tables");
    }
    args.retain(|name, _| name != "table_name" && name != "first");
    Ok("get_tables")
}

fn by_filter(args: &mut Map<String, Value>) -> Result<&'static str, Failure> {
    let mut filter = match args.shift_remove("filter") {
        Some(Value::Object(filter)) => filter,
        _ => Map::new(),
    };
    match (filter.shift_remove("field_id"), filter.shift_remove("field_value")) {
        (Some(field @ Value::String(_)), Some(value @ Value::String(_))) => {
            args.insert("field_id".to_owned(), field);
            args.insert("field_value".to_owned(), value);
            Ok("find_records")
        }
        (None, None) => {
            args.entry("first").or_insert(50.into());
            Ok("get_table_records")
        }
        _ => Err(Failure::usage("--filter needs both field_id and field_value, as text")),
    }
}

fn by_field(args: &mut Map<String, Value>) -> Result<&'static str, Failure> {
    match (args.contains_key("field_id"), args.contains_key("value"), args.contains_key("fields")) {
        (true, true, _) => {
            args.shift_remove("fields");
            Ok("set_table_record_field_value")
        }
        (true, false, _) => Err(Failure::usage("--field-id needs --value")),
        (false, true, _) => Err(Failure::usage("--value needs --field-id")),
        (false, false, true) => Ok("update_table_record"),
        (false, false, false) => Err(Failure::usage("Provide --fields, or --field-id and --value")),
    }
}

fn fields_at_least_empty(args: &mut Map<String, Value>) -> Result<(), Failure> {
    args.entry("fields").or_insert_with(|| Map::new().into());
    Ok(())
}

fn table_of_extra(args: &mut Map<String, Value>) -> Result<(), Failure> {
    let table = args.get("extra_input").and_then(|extra| extra.get("table_id")).cloned();
    if let (Some(table), false) = (table, args.contains_key("table_id")) {
        args.insert("table_id".to_owned(), table);
        if let Some(Value::Object(extra)) = args.get_mut("extra_input") {
            extra.shift_remove("table_id");
        }
    }
    Ok(())
}
