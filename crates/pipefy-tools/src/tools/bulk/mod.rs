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
use crate::{Call, Row, ToolError};

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
            Self::Cards if with_fields => (cards::get_card_rows(place, first, after), "cards"),
            Self::Cards => (cards::get_cards(place, &Map::new(), false, first, after), "cards"),
            Self::Records => (tables::get_record_rows(place, first, after), "table_records"),
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

/// A page of a listing.
struct Page<'v> {
    nodes: Vec<&'v Value>,
    /// The cursor of the next page, when there is one.
    next: Option<String>,
}

impl<'v> Page<'v> {
    /// Reads a page. Whether something is there is decided by it, so that whatever is no whole page is none at all.
    ///
    /// # Errors
    /// It is no list of things with ids, or says that there is more and not where.
    fn of(answer: &'v Value, root: &str) -> Result<Self, ToolError> {
        let connection = answer.get(root).unwrap_or(&Value::Null);
        let edges = connection.get("edges").and_then(Value::as_array);
        let edges = edges.ok_or_else(|| unread(root, "there is no list in it"))?;
        let node = |edge: &'v Value| edge.get("node").filter(|node| !shown(node.get("id")).is_empty());
        let nodes: Option<Vec<&Value>> = edges.iter().map(node).collect();
        let nodes = nodes.ok_or_else(|| unread(root, "a row of it has no id"))?;
        let said = |key: &str| connection.get("pageInfo").and_then(|info| info.get(key));
        let next = match said("hasNextPage").and_then(Value::as_bool) {
            Some(false) => None,
            Some(true) => {
                let cursor = said("endCursor").and_then(Value::as_str).filter(|cursor| !cursor.is_empty());
                Some(cursor.ok_or_else(|| unread(root, "it says that there is more, and not where"))?.to_owned())
            }
            None => return Err(unread(root, "it does not say whether there is more")),
        };
        Ok(Self { nodes, next })
    }
}

/// What Pipefy answered cannot be read.
fn unread(root: &str, why: &str) -> ToolError {
    ToolError::api(format!(
        "Pipefy's answer for `{root}` cannot be read: {why}. Nothing was sent on it; try again later."
    ))
}

/// A list that was asked for.
///
/// # Errors
/// There is none.
fn list_in<'v>(answer: &'v Value, path: &str) -> Result<&'v [Value], ToolError> {
    let list = dig(answer, path).and_then(Value::as_array);
    list.map(Vec::as_slice).ok_or_else(|| unread(path, "there is no list in it"))
}

/// What Pipefy calls a field: uuid, internal id, and the id that is unique within a pipe or table. Blank where an answer does
/// not say.
#[derive(Clone, Debug, Default)]
struct Ids([String; 3]);

impl Ids {
    fn of(field: &Value) -> Self {
        Self(["uuid", "internal_id", "id"].map(|key| shown(field.get(key))))
    }

    /// The one by which it is addressed; blank when it has none.
    fn id(&self) -> &str {
        let [.., id] = &self.0;
        id
    }

    /// Whether both are of one field, by the first that both have; `None` when there is none.
    fn same(&self, other: &Self) -> Option<bool> {
        let pairs = self.0.iter().zip(&other.0);
        pairs.filter(|(own, other)| !own.is_empty() && !other.is_empty()).map(|(own, other)| own == other).next()
    }

    fn has(&self, name: &str) -> bool {
        !name.is_empty() && self.0.iter().any(|id| id == name)
    }
}

/// The fields of a card or record, as they are shown: `{name, value, field}`.
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
