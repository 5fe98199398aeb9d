//! `records`: the newer query over a pipe's cards with filters and order.

use crate::access;
use crate::ctx::{Answer, Args, Body, Ctx, parse_time};
use crate::error::GqlError;
use crate::json::{flag, link, scalar, text, texts, texts_at};
use crate::object::Root;
use crate::page;
use crate::values;
use serde_json::{Value, json};
use std::cmp::Ordering;

pub(crate) const ROOTS: &[Root] = &[Root::public("records", records)];

/// Rows that can be reached by paging when a filter or search is given.
const REACH: usize = 10_000;

fn records(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let (pipe, level) = access::pipe(ctx, &args.need("repoId")?)?;
    let filter = args.get("where");
    if filter.is_some_and(|f| f.as_object().is_some_and(serde_json::Map::is_empty)) {
        return Err(GqlError::invalid("where must not be empty"));
    }
    let term = args.text("searchTerm").unwrap_or_default();
    let phase = args.text("phaseId");
    let mut rows: Vec<Body> = Vec::new();
    for card in ctx.children("card", text(&pipe, "id"))? {
        let in_phase = phase.as_deref().is_none_or(|p| p == text(&card, "phase_id"));
        if !access::sees_card(ctx, level, &card) || !in_phase {
            continue;
        }
        if !term.trim().is_empty() && !mentions(ctx, &card, &term)? {
            continue;
        }
        let kept = match filter {
            Some(filter) => holds(ctx, &card, filter)?,
            None => true,
        };
        if kept {
            rows.push(card);
        }
    }
    if let Some(orders) = args.get("orderBy").and_then(Value::as_array) {
        sort(ctx, &mut rows, orders)?;
    }
    if filter.is_some() || !term.is_empty() {
        rows.truncate(REACH);
    }
    let total = rows.len();
    let rows: Vec<(String, Value)> =
        rows.iter().map(|card| (text(card, "id").to_owned(), link("card", text(card, "id")))).collect();
    if args.0.get("after").and_then(Value::as_str) == Some("") {
        // An empty cursor gives an empty last page here, unlike the older queries.
        return Ok(json!({
            "edges": [], "nodes": [], "totalCount": total,
            "pageInfo": { "hasNextPage": false, "hasPreviousPage": true, "startCursor": null, "endCursor": null },
        }));
    }
    page::connection(rows, args, page::PIPE_PAGE)
}

fn mentions(ctx: &Ctx<'_>, card: &Value, term: &str) -> Result<bool, GqlError> {
    let mut hay = text(card, "title").to_lowercase();
    for entry in values::entries(ctx, card, text(card, "pipe_id"))? {
        hay.push('\n');
        hay.push_str(&text(&entry, "value").to_lowercase());
    }
    Ok(term.to_lowercase().split_whitespace().all(|word| hay.contains(word)))
}

/// The texts that a condition compares with. Relations compare by id.
fn operand(ctx: &Ctx<'_>, card: &Value, node: &Value) -> Result<Vec<String>, GqlError> {
    if let Some(uuid) = node.get("field").and_then(Value::as_str) {
        let field = ctx.store.id_of_uuid("field", uuid)?;
        let field = match field {
            Some(id) => ctx.get("field", &id)?,
            None => None,
        };
        let field = field.filter(|f| text(f, "pipe_id") == text(card, "pipe_id"));
        let field = field.ok_or_else(|| GqlError::not_found("Field", uuid))?;
        return Ok(texts(&values::stored(card, &field)));
    }
    let single = |key: &str| Some(text(card, key).to_owned()).filter(|t| !t.is_empty()).into_iter().collect();
    Ok(match text(node, "attribute") {
        "ID" => single("id"),
        "INDEX" => single("id"),
        "TITLE" => single("title"),
        "CREATOR" => single("created_by"),
        "CREATOR_EMAIL" => {
            ctx.get("user", text(card, "created_by"))?.map(|u| text(&u, "email").to_owned()).into_iter().collect()
        }
        "DUE_DATE" => single("due_date"),
        "CREATED_AT" => single("created_at"),
        "UPDATED_AT" => single("updated_at"),
        "FINISHED_AT" => single("finished_at"),
        "CURRENT_PHASE" => single("phase_id"),
        "LABELS" => texts_at(card, "label_ids"),
        "ASSIGNEES" => texts_at(card, "assignee_ids"),
        "EMAIL_READ" => vec![flag(card, "inbox_emails_read").to_string()],
        other => return Err(GqlError::invalid(format!("A condition needs an attribute or a field, got {other:?}"))),
    })
}

/// Numbers as numbers, times as times, all else as text.
pub(crate) fn compare(left: &str, right: &str) -> Ordering {
    if let (Ok(a), Ok(b)) = (left.parse::<f64>(), right.parse::<f64>()) {
        return a.partial_cmp(&b).unwrap_or(Ordering::Equal);
    }
    match (parse_time(left), parse_time(right)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => left.cmp(right),
    }
}

/// Each word of the pattern is in the text; case does not matter and there are no wildcards.
fn like(have: &[String], pattern: &str) -> bool {
    let pattern = pattern.to_lowercase();
    have.iter().any(|text| {
        let text = text.to_lowercase();
        pattern.split_whitespace().all(|word| text.contains(word))
    })
}

fn holds(ctx: &Ctx<'_>, card: &Value, node: &Value) -> Result<bool, GqlError> {
    let Some(map) = node.as_object() else { return Err(GqlError::invalid("A condition must be an object")) };
    for (key, group) in map.iter().filter(|(_, v)| !v.is_null()) {
        let items = group.as_array().map(Vec::as_slice).unwrap_or_default();
        match key.as_str() {
            "and" => {
                for item in items {
                    if !holds(ctx, card, item)? {
                        return Ok(false);
                    }
                }
            }
            "or" => {
                let mut any = items.is_empty();
                for item in items {
                    any = any || holds(ctx, card, item)?;
                }
                if !any {
                    return Ok(false);
                }
            }
            "attribute" | "field" => {}
            operator => {
                let have = operand(ctx, card, node)?;
                if !test(operator, &have, group)? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

fn test(operator: &str, have: &[String], given: &Value) -> Result<bool, GqlError> {
    let wanted = scalar(given).unwrap_or_default();
    let list = texts(given);
    let equal = |value: &String| compare(value, &wanted) == Ordering::Equal;
    let against = |ok: fn(Ordering) -> bool| have.iter().any(|v| ok(compare(v, &wanted)));
    let inside = || {
        let bound = |key: &str| given.get(key).and_then(scalar).unwrap_or_default();
        let (min, max) = (bound("min"), bound("max"));
        have.iter().any(|v| compare(v, &min) != Ordering::Less && compare(v, &max) != Ordering::Greater)
    };
    let any_of = || have.iter().any(|v| list.contains(v));
    let all_of = || list.iter().all(|v| have.contains(v));
    Ok(match operator {
        "eq" => have.iter().any(equal),
        "neq" => !have.iter().any(equal),
        "lt" => against(Ordering::is_lt),
        "lte" => against(Ordering::is_le),
        "gt" => against(Ordering::is_gt),
        "gte" => against(Ordering::is_ge),
        "in" => any_of(),
        "nin" => !any_of(),
        "contains" => all_of(),
        "ncontains" => !all_of(),
        "between" => inside(),
        "nbetween" => !inside(),
        "like" | "ilike" => like(have, &wanted),
        "nlike" | "nilike" => !like(have, &wanted),
        other => return Err(GqlError::invalid(format!("Unknown operator {other:?}"))),
    })
}

fn sort(ctx: &Ctx<'_>, rows: &mut Vec<Body>, orders: &[Value]) -> Result<(), GqlError> {
    let mut keyed = Vec::with_capacity(rows.len());
    for card in rows.drain(..) {
        let mut keys = Vec::with_capacity(orders.len());
        for order in orders {
            keys.push(operand(ctx, &card, order)?.join(","));
        }
        keyed.push((keys, card));
    }
    keyed.sort_by(|(a, _), (b, _)| {
        let pairs = a.iter().zip(b).zip(orders);
        let compared = pairs.map(|((a, b), order)| {
            let ordering = compare(a, b);
            if text(order, "direction") == "DESC" { ordering.reverse() } else { ordering }
        });
        compared.fold(Ordering::Equal, Ordering::then)
    });
    rows.extend(keyed.into_iter().map(|(_, card)| card));
    Ok(())
}
