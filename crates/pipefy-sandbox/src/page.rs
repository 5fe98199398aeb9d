//! Pages of a list: limits, opaque cursors, the connection shape.

use crate::ctx::Args;
use crate::error::GqlError;
use crate::json::link;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// Cards of one pipe, records of one table: never more per answer.
pub(crate) const PIPE_PAGE: usize = 50;
/// Cards of one phase.
pub(crate) const PHASE_PAGE: usize = 30;

/// Cuts one page out of `(key, node)` rows. A larger `first` than the cap gives the cap, as the real API does.
pub(crate) fn connection(rows: Vec<(String, Value)>, args: &Args, cap: usize) -> Result<Value, GqlError> {
    cut(&rows, |(key, _)| key, |(_, node)| node.clone(), args, cap)
}

/// Cuts one page out of entities of which only the ids were read: a long list costs little.
pub(crate) fn of_ids(kind: &str, ids: &[String], args: &Args, cap: usize) -> Result<Value, GqlError> {
    cut(ids, |id| id, |id| link(kind, id), args, cap)
}

fn cut<R>(
    rows: &[R],
    key: impl Fn(&R) -> &str,
    node: impl Fn(&R) -> Value,
    args: &Args,
    cap: usize,
) -> Result<Value, GqlError> {
    let place = |cursor: &str| place(rows.iter().map(&key), cursor);
    let total = rows.len();
    let size = |key| -> Result<Option<usize>, GqlError> {
        match args.int(key) {
            Some(n) if n < 0 => Err(GqlError::invalid(format!("{key} must not be negative"))),
            other => Ok(other.map(|n| usize::try_from(n).unwrap_or(cap).min(cap))),
        }
    };
    let (first, last) = (size("first")?, size("last")?);
    let mut start = match args.text("after").filter(|c| !c.is_empty()) {
        Some(cursor) => place(&cursor)?.saturating_add(1).min(total),
        None => 0,
    };
    let mut end = match args.text("before").filter(|c| !c.is_empty()) {
        Some(cursor) => place(&cursor)?.min(total).max(start),
        None => total,
    };
    match (first, last) {
        (None, Some(last)) => start = end.saturating_sub(last).max(start),
        (first, _) => end = end.min(start.saturating_add(first.unwrap_or(cap))),
    }
    let edges: Vec<Value> = rows
        .iter()
        .enumerate()
        .take(end)
        .skip(start)
        .map(|(index, row)| json!({ "cursor": cursor(index, key(row)), "node": node(row) }))
        .collect();
    let cursor_of = |edge: Option<&Value>| edge.and_then(|e| e.get("cursor")).cloned().unwrap_or_default();
    let nodes: Vec<Value> = edges.iter().filter_map(|e| e.get("node").cloned()).collect();
    Ok(json!({
        "pageInfo": {
            "startCursor": cursor_of(edges.first()), "endCursor": cursor_of(edges.last()),
            "hasNextPage": end < total, "hasPreviousPage": start > 0,
        },
        "nodes": nodes, "totalCount": total, "matchCount": total, "edges": edges,
    }))
}

fn cursor(index: usize, key: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{index}|{key}"))
}

/// Where the row of a cursor is now; where it was, when it is gone.
fn place<'k>(mut keys: impl Iterator<Item = &'k str>, cursor: &str) -> Result<usize, GqlError> {
    let bad = || GqlError::invalid("Invalid cursor");
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| bad())?;
    let text = String::from_utf8(bytes).map_err(|_| bad())?;
    let (index, key) = text.split_once('|').ok_or_else(bad)?;
    let index: usize = index.parse().map_err(|_| bad())?;
    Ok(keys.position(|known| known == key).unwrap_or_else(|| index.saturating_sub(1)))
}
