//! The columns of a report: the card's own properties and its fields; their values, tests and aggregates.

use crate::ctx::{Ctx, day, parse_time};
use crate::domains::{cards, phases, records};
use crate::error::GqlError;
use crate::json::{flag, scalar, text, texts, texts_at};
use crate::values;
use jiff::ToSpan as _;
use jiff::civil::{Date, Weekday};
use serde_json::{Value, json};
use std::cmp::Ordering;

/// One column, in the words of the API.
pub(crate) struct Column {
    /// `title`, or the index name of a field.
    pub(crate) name: String,
    pub(crate) label: String,
    /// `string`, `number`, `date`, `select`, `group_select`, `boolean` or `email`.
    pub(crate) kind: &'static str,
    /// Where a person looks for it: a phase's name, `Start form`, or `General`.
    pub(crate) place: String,
    options: Vec<(String, String)>,
    field: Option<Value>,
}

/// The card's own columns: name, label, type.
const FIXED: [(&str, &str, &str); 12] = [
    ("id", "Code", "string"),
    ("title", "Title", "string"),
    ("current_phase", "Current phase", "select"),
    ("assignees", "Assignees", "group_select"),
    ("labels", "Labels", "group_select"),
    ("created_by", "Creator", "select"),
    ("created_at", "Created at", "date"),
    ("updated_at", "Updated at", "date"),
    ("due_date", "Due date", "date"),
    ("finished_at", "Finished at", "date"),
    ("late", "Late", "boolean"),
    ("overdue", "Overdue", "boolean"),
];

/// What a card has in a column: ids (or plain values) for tests, words for people.
pub(crate) struct Cell {
    pub(crate) raw: Vec<String>,
    pub(crate) shown: Vec<String>,
}

impl Cell {
    fn same(raw: Vec<String>) -> Self {
        Self { shown: raw.clone(), raw }
    }
}

fn kind_of(field_type: &str) -> &'static str {
    match field_type {
        "number" | "currency" => "number",
        "date" | "datetime" | "due_date" => "date",
        "email" => "email",
        "select" | "radio_horizontal" | "radio_vertical" => "select",
        kind if values::is_list(kind) => "group_select",
        _ => "string",
    }
}

/// All columns of a pipe, the card's own first.
pub(crate) fn of_pipe(ctx: &Ctx<'_>, pipe: &Value) -> Result<Vec<Column>, GqlError> {
    let id = text(pipe, "id");
    let pair = |body: &Value| (text(body, "id").to_owned(), text(body, "name").to_owned());
    let mut people = Vec::new();
    for member in ctx.children("member", &format!("pipe:{id}"))? {
        people.extend(ctx.get("user", text(&member, "user_id"))?.map(|user| pair(&user)));
    }
    let labels: Vec<_> = ctx.children("label", id)?.iter().map(|label| pair(label)).collect();
    let board: Vec<_> = phases::visible(ctx, id)?.iter().map(|phase| pair(phase)).collect();
    let mut columns = Vec::new();
    for (name, label, kind) in FIXED {
        let options = match name {
            "current_phase" => board.clone(),
            "assignees" | "created_by" => people.clone(),
            "labels" => labels.clone(),
            _ if kind == "boolean" => {
                vec![("true".to_owned(), "Yes".to_owned()), ("false".to_owned(), "No".to_owned())]
            }
            _ => Vec::new(),
        };
        columns.push(Column {
            name: name.to_owned(),
            label: label.to_owned(),
            kind,
            place: "General".to_owned(),
            options,
            field: None,
        });
    }
    for field in ctx.grouped("field", id)? {
        if matches!(text(&field, "type"), "statement" | "id" | "dynamic_content") {
            continue;
        }
        let phase = ctx.get("phase", text(&field, "phase_id"))?;
        let place = match phase {
            Some(phase) if !flag(&phase, "isDraft") => text(&phase, "name").to_owned(),
            _ => "Start form".to_owned(),
        };
        let options = match text(&field, "type") {
            "assignee_select" => people.clone(),
            "label_select" => labels.clone(),
            _ => field.get("options").map(texts).unwrap_or_default().into_iter().map(|o| (o.clone(), o)).collect(),
        };
        columns.push(Column {
            name: text(&field, "index_name").to_owned(),
            label: text(&field, "label").to_owned(),
            kind: kind_of(text(&field, "type")),
            place,
            options,
            field: Some((*field).clone()),
        });
    }
    Ok(columns)
}

impl Column {
    /// The options as the API lists them; null when the column has none.
    pub(crate) fn options(&self) -> Value {
        if self.options.is_empty() {
            return Value::Null;
        }
        self.options.iter().map(|(id, name)| json!({ "id": id, "name": name })).collect()
    }

    /// What a card has here.
    pub(crate) fn cell(&self, ctx: &Ctx<'_>, card: &Value) -> Result<Cell, GqlError> {
        if let Some(field) = &self.field {
            let value = values::stored(card, field);
            return Ok(Cell { raw: texts(&value), shown: values::display(ctx, field, &value)? });
        }
        let named = |ids: Vec<String>| Cell {
            shown: ids
                .iter()
                .map(|id| self.options.iter().find(|(known, _)| known == id).map_or(id, |(_, name)| name).clone())
                .collect(),
            raw: ids,
        };
        let single = |key: &str| vec![text(card, key).to_owned()].into_iter().filter(|v| !v.is_empty()).collect();
        Ok(match self.name.as_str() {
            "current_phase" => named(single("phase_id")),
            "created_by" => named(single("created_by")),
            "assignees" => named(texts_at(card, "assignee_ids")),
            "labels" => named(texts_at(card, "label_ids")),
            "late" => {
                let phase = ctx.get("phase", text(card, "phase_id"))?;
                Cell::same(vec![phase.is_some_and(|phase| cards::is_late(ctx, card, &phase)).to_string()])
            }
            "overdue" => Cell::same(vec![cards::is_overdue(ctx, card).to_string()]),
            key => Cell::same(single(key)),
        })
    }
}

/// The column that a report or filter names: by its name, else by the field's slug or id.
pub(crate) fn named<'c>(columns: &'c [Column], name: &str) -> Option<&'c Column> {
    columns.iter().find(|column| column.name == name).or_else(|| {
        let key = |field: &Value| [text(field, "id"), text(field, "internal_id"), text(field, "uuid")].contains(&name);
        columns.iter().find(|column| column.field.as_ref().is_some_and(key))
    })
}

/// Refuses a filter that names a column which the pipes do not have.
pub(crate) fn check_filter(columns: &[Column], filter: &Value) -> Result<(), GqlError> {
    for query in filter.get("queries").and_then(Value::as_array).into_iter().flatten() {
        let field = text(query, "field");
        if named(columns, field).is_none() {
            return Err(GqlError::invalid(format!("Filter field {field:?} does not exist in the report's pipes")));
        }
    }
    for group in filter.get("groups").and_then(Value::as_array).into_iter().flatten() {
        check_filter(columns, group)?;
    }
    Ok(())
}

/// Whether a card passes a filter. An empty filter lets every card pass; a column that is gone lets none.
pub(crate) fn passes(ctx: &Ctx<'_>, columns: &[Column], card: &Value, filter: &Value) -> Result<bool, GqlError> {
    let mut results = Vec::new();
    for query in filter.get("queries").and_then(Value::as_array).into_iter().flatten() {
        results.push(match named(columns, text(query, "field")) {
            Some(column) => test(ctx, &column.cell(ctx, card)?, query),
            None => false,
        });
    }
    for group in filter.get("groups").and_then(Value::as_array).into_iter().flatten() {
        results.push(passes(ctx, columns, card, group)?);
    }
    let any = text(filter, "operator") == "or";
    Ok(results.is_empty() || if any { results.contains(&true) } else { !results.contains(&false) })
}

fn test(ctx: &Ctx<'_>, cell: &Cell, query: &Value) -> bool {
    let wanted = query.get("value").and_then(scalar).unwrap_or_default();
    let all = || cell.raw.iter().chain(&cell.shown);
    let lower = wanted.to_lowercase();
    let equal = || {
        // Several choices travel as one text with commas.
        let choices: Vec<&str> = wanted.split(',').map(str::trim).collect();
        all().any(|have| have.to_lowercase() == lower || choices.contains(&have.as_str()))
            || cell.raw.iter().any(|have| records::compare(have, &wanted) == Ordering::Equal)
    };
    let contains = || all().any(|have| have.to_lowercase().contains(&lower));
    let against = |ok: fn(Ordering) -> bool| cell.raw.iter().any(|have| ok(records::compare(have, &wanted)));
    match text(query, "operator") {
        "eq" => equal(),
        "not_eq" => !equal(),
        "contains" => contains(),
        "not_contains" => !contains(),
        "gt" => against(Ordering::is_gt),
        "gte" => against(Ordering::is_ge),
        "lt" => against(Ordering::is_lt),
        "lte" => against(Ordering::is_le),
        "exists" => !cell.raw.is_empty(),
        "not_exists" | "unknown" => cell.raw.is_empty(),
        "period" => {
            let today = day(ctx.now);
            let (from, to) = period(&wanted, today);
            let days = |value: &String| parse_time(value).map(day);
            cell.raw.iter().filter_map(days).any(|day| from <= day && day <= to)
        }
        _ => false,
    }
}

/// First and last day of a named period: `today`, `yesterday`, `current_week`, `last_week`, the same of `month` and
/// `year`, and `last_N_days`. Anything else is a period without days.
pub(crate) fn period(name: &str, today: Date) -> (Date, Date) {
    let nothing = (today, Date::ZERO);
    let days = |n: i64| today.checked_sub(n.days()).unwrap_or(today);
    let monday = days(i64::from(today.weekday().since(Weekday::Monday)));
    match name.trim().replace("this_", "current_").as_str() {
        "today" => (today, today),
        "yesterday" => (days(1), days(1)),
        "current_week" => (monday, today),
        "last_week" => {
            let start = monday.checked_sub(7.days()).unwrap_or(monday);
            (start, start.checked_add(6.days()).unwrap_or(start))
        }
        "current_month" => (today.first_of_month(), today),
        "last_month" => {
            let start = today.first_of_month().checked_sub(1.month()).unwrap_or(today);
            (start, start.last_of_month())
        }
        "current_year" => (today.first_of_year(), today),
        "last_year" => {
            let start = today.first_of_year().checked_sub(1.year()).unwrap_or(today);
            (start, start.last_of_year())
        }
        other => match other.strip_prefix("last_").and_then(|rest| rest.strip_suffix("_days")) {
            Some(count) => count.parse().map_or(nothing, |count| (days(count), today)),
            None => nothing,
        },
    }
}

/// Count, sum, average, least and greatest of the numbers in a column; null where there are none.
pub(crate) fn aggregate(ctx: &Ctx<'_>, column: &Column, cards: &[crate::ctx::Body]) -> Result<Value, GqlError> {
    let mut numbers = Vec::new();
    let mut filled = 0;
    for card in cards {
        let cell = column.cell(ctx, card)?;
        filled += usize::from(!cell.raw.is_empty());
        numbers.extend(cell.raw.iter().filter_map(|value| value.parse::<f64>().ok()).filter(|n| n.is_finite()));
    }
    let sum: f64 = numbers.iter().sum();
    let some = |value: f64| if numbers.is_empty() { Value::Null } else { json!(value) };
    Ok(json!({
        "count": filled, "sum": some(sum), "avg": some(sum / numbers.len().max(1) as f64),
        "min": some(numbers.iter().copied().fold(f64::INFINITY, f64::min)),
        "max": some(numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn periods_have_their_first_and_last_day() {
        let today: Date = "2026-03-18".parse().unwrap();
        let span = |name: &str| {
            let (from, to) = period(name, today);
            format!("{from} {to}")
        };
        assert_eq!(span("this_week"), "2026-03-16 2026-03-18");
        assert_eq!(span("last_week"), "2026-03-09 2026-03-15");
        assert_eq!(span("last_month"), "2026-02-01 2026-02-28");
        assert_eq!(span("last_year"), "2025-01-01 2025-12-31");
        assert_eq!(span("last_30_days"), "2026-02-16 2026-03-18");
        let (from, to) = period("whenever", today);
        assert!(from > to);
    }
}
