//! Many cards or records at once: rows of a file or of the call become cards, and cards become rows.
//!
//! A key column tells rows apart. A row whose key is in Pipefy already is left alone, so an import that broke off, in whatever
//! way, is simply called again. A creation whose answer was lost is looked up by its key before it is repeated; what became of
//! each row is noted in a journal, which also lets an import without a key go on.

mod bulk_export_cards;
mod bulk_export_records;
mod bulk_import_cards;
mod bulk_import_records;
mod columns;
mod export;
mod import;
mod journal;
mod keys;
pub(crate) mod rows;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use pipefy::{Mutation, Query, cards, pipes, tables};
use serde_json::{Map, Value};

use crate::outcome::dig;
use crate::{Call, Row};

/// The rows of this noun.
pub(crate) const ROWS: &[Row] = &[
    Row::write::<bulk_import_cards::BulkImportCards>(),
    Row::read::<bulk_export_cards::BulkExportCards>(),
    Row::write::<bulk_import_records::BulkImportRecords>(),
    Row::read::<bulk_export_records::BulkExportRecords>(),
];

/// So long before a call must have ended it begins nothing more after its first row or page, and says how to go on.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Whether the time is nearly up: that of the call, or what was given for this work.
fn is_late(end: Option<Instant>, call: &Call<'_>) -> bool {
    end.is_some_and(|end| Instant::now() >= end) || call.budget.remaining().is_some_and(|left| left < LAST_WORDS)
}

/// Rows a page: what Pipefy gives at most.
const PAGE: u64 = 50;

/// What rows are: cards of a pipe, or records of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cards,
    Records,
}

impl Kind {
    /// The argument that says where they are.
    const fn place(self) -> &'static str {
        match self {
            Self::Cards => "pipe_id",
            Self::Records => "table_id",
        }
    }

    /// The kind of what they are in, as in error texts.
    const fn owner(self) -> &'static str {
        match self {
            Self::Cards => "pipe",
            Self::Records => "table",
        }
    }

    const fn noun(self) -> &'static str {
        match self {
            Self::Cards => "cards",
            Self::Records => "records",
        }
    }

    /// What a new one is asked for, and where the answer has it.
    fn form(self, place: &str) -> (Query, &'static str) {
        match self {
            Self::Cards => (pipes::get_start_form_fields(place), "pipe.start_form_fields"),
            Self::Records => (tables::get_table(place), "table.table_fields"),
        }
    }

    /// Everything that one can hold, and the lists of the answer that say so.
    fn layout(self, place: &str) -> (Query, &'static [&'static str]) {
        match self {
            Self::Cards => (pipes::get_pipe_configuration(place), &["pipe.start_form_fields", "pipe.phases"]),
            Self::Records => (tables::get_table(place), &["table.table_fields"]),
        }
    }

    /// One page of all of them, and where the answer has it.
    fn page(self, place: &str, with_fields: bool, first: u64, after: Option<&str>) -> (Query, &'static str) {
        let first = i64::try_from(first.clamp(1, PAGE)).ok();
        match self {
            Self::Cards => (cards::get_cards(place, &Map::new(), with_fields, first, after), "cards"),
            Self::Records => (tables::get_table_records(place, first, after), "table_records"),
        }
    }

    /// Those whose field has this value, and where the answer has them.
    fn find(self, place: &str, field: &str, value: &str) -> (Query, &'static str) {
        match self {
            Self::Cards => (cards::find_cards(place, field, value, false, None, None), "findCards"),
            Self::Records => (tables::find_records(place, field, value, None, None), "findRecords"),
        }
    }

    /// One of them by its id, and where the answer has it.
    fn get(self, id: &str) -> (Query, &'static str) {
        match self {
            Self::Cards => (cards::get_card(id, false), "card.id"),
            Self::Records => (tables::get_table_record(id), "table_record.id"),
        }
    }

    /// A new one, and where the answer has its id.
    fn create(self, input: Map<String, Value>) -> Mutation {
        match self {
            Self::Cards => cards::create_card(input),
            Self::Records => tables::create_table_record(input),
        }
    }

    const fn created(self) -> &'static str {
        match self {
            Self::Cards => "createCard.card.id",
            Self::Records => "createTableRecord.table_record.id",
        }
    }
}

/// The nodes of a connection.
fn nodes(connection: &Value) -> impl Iterator<Item = &Value> {
    dig(connection, "edges").and_then(Value::as_array).into_iter().flatten().filter_map(|edge| edge.get("node"))
}

/// The fields of a card or record, as they are shown: `{name, value}`.
fn fields_of(node: &Value) -> impl Iterator<Item = &Value> {
    ["fields", "record_fields"].iter().find_map(|key| node.get(*key)?.as_array()).into_iter().flatten()
}

/// A value as one text, without white space around it; null is empty.
fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(other) => other.to_string(),
    }
}
