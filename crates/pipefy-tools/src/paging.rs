//! Pages: the page-size rule, and `all`, which follows cursors within limits.

use std::time::{Duration, Instant};

use pipefy::Query;
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::capability::Row;
use crate::error::{ToolError, bounds};
use crate::fit;
use crate::op::Paging;
use crate::outcome::{Body, Outcome, Page, dig, dig_mut};

/// Items that `all` reads at most when the call says nothing.
pub(crate) const ALL_ITEMS: u64 = 5_000;
/// Seconds that `all` takes at most when the call says nothing.
pub(crate) const ALL_SECONDS: u64 = 60;

/// Bytes that a result needs beside its items.
const ENVELOPE: usize = 2_000;
/// Why a listing ended before its limits.
const FULL: &str = "the result is full; go on with `after` = next_cursor";

/// Checks a page size (`spec/mcp-server.md` section 13).
///
/// # Errors
/// `INVALID_ARGUMENTS` with `details` `{min, max, provided}`.
pub fn page_size(argument: &str, first: Option<i64>, max: i64) -> Result<Option<i64>, ToolError> {
    match first {
        Some(first) if !(1..=max).contains(&first) => {
            let mut error = ToolError::invalid(format!("{argument} must be between 1 and {max}, not {first}."));
            error.details = bounds(1, max, &first.into());
            Err(error)
        }
        other => Ok(other),
    }
}

/// Reads page after page. What was read before a later page fails is kept and said to be incomplete.
pub(crate) async fn all(
    row: &Row,
    paging: Paging,
    mut arguments: Map<String, Value>,
    call: &Call<'_>,
) -> Result<Outcome, ToolError> {
    let max_items = call.options.max_items.unwrap_or(ALL_ITEMS).max(1);
    let seconds = call.options.max_seconds.unwrap_or(ALL_SECONDS);
    let end = Instant::now() + Duration::from_secs(seconds);
    if arguments.get("first").is_none_or(Value::is_null) {
        arguments.insert("first".to_owned(), paging.page_size.into());
    }
    let page_size = arguments.get("first").and_then(Value::as_i64);
    let mut cursor: Option<String> = arguments.get("after").and_then(Value::as_str).map(str::to_owned);
    let mut items: Vec<Value> = Vec::new();
    let mut bytes = 0;
    let mut result: Option<(Outcome, Value)> = None;
    let mut stopped: Option<String> = None;
    let (complete, next_cursor) = loop {
        let outcome = match ((row.run)(arguments.clone(), call).await, &result) {
            (Ok(outcome), _) => outcome,
            (Err(error), None) => return Err(error),
            (Err(error), Some(_)) => {
                stopped = Some(error.message);
                break (false, cursor);
            }
        };
        let mut body = outcome.body.clone().into_value();
        // Where a tool shows the list alone, its own account of the page is all there is.
        let page = match &outcome.page {
            Some(page) => page.clone(),
            None => Page::from_page_info(dig(&body, paging.page_info), page_size),
        };
        if let Some(Value::Array(list)) = dig_mut(&mut body, paging.items) {
            // A page that does not fit is left for the next call, which begins with it.
            bytes += list.iter().map(|item| fit::size(item) + 1).sum::<usize>();
            if result.is_some() && call.room.is_some_and(|room| bytes + ENVELOPE > room) {
                stopped = Some(FULL.to_owned());
                break (false, cursor);
            }
            items.append(list);
        }
        call.budget.advance(1, None, &format!("{} items read", items.len()));
        result = Some((outcome, body));
        if !page.has_more {
            break (true, None);
        }
        let next = page.end_cursor.filter(|c| !c.is_empty());
        if next.is_none() || next == cursor {
            // Pipefy says there is more but gives no way on: saying so beats reading the same page for ever.
            stopped = Some("the service gave the same cursor again".to_owned());
            break (false, cursor);
        }
        cursor = next;
        if items.len() as u64 >= max_items || Instant::now() >= end || call.budget.is_over() {
            break (false, cursor);
        }
        arguments.insert("after".to_owned(), cursor.clone().into());
    };
    let Some((mut outcome, mut body)) = result else {
        return Err(ToolError::internal("no page was read"));
    };
    let returned = items.len();
    if let Some(list) = dig_mut(&mut body, paging.items) {
        *list = Value::Array(items);
    }
    if let Some(page) = &mut outcome.page {
        page.has_more = !complete;
        page.end_cursor = next_cursor.clone();
    }
    let total = dig(&body, paging.items.rsplit_once('.').map_or("", |(parent, _)| parent))
        .and_then(|parent| parent.get("totalCount"))
        .cloned()
        .or_else(|| outcome.page.as_ref().and_then(|page| page.total_count).map(Value::from));
    outcome.body = Body::Value(body);
    Ok(outcome
        .extra("complete", complete)
        .extra("returned", returned)
        .extra_opt("total", total)
        .extra_opt("next_cursor", next_cursor.map(Value::from))
        .extra_opt("stopped", stopped.map(|reason| json!(reason))))
}

/// Pages that a preview reads at most.
const PREVIEW_PAGES: usize = 100;

/// What a preview counts.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// The items in the order of their pages.
    pub(crate) items: Vec<Value>,
    /// Whether there may be more of them.
    pub(crate) partial: bool,
}

/// Reads the pages of a listing until there are `enough` items or no more pages; `items` and `page_info` are dotted paths in an
/// answer. Whatever fails leaves what was read, marked as partial: a preview never fails for its numbers.
pub(crate) async fn counted(
    call: &Call<'_>,
    enough: usize,
    items: &str,
    page_info: &str,
    page: impl Fn(Option<&str>) -> Query,
) -> Counted {
    let mut found = Counted { items: Vec::new(), partial: true };
    let mut cursors: Vec<String> = Vec::new();
    while cursors.len() < PREVIEW_PAGES && found.items.len() < enough {
        let Ok(data) = call.query(page(cursors.last().map(String::as_str))).await else { return found };
        let mut value = data.value();
        let here = Page::from_page_info(dig(&value, page_info), None);
        if let Some(Value::Array(list)) = dig_mut(&mut value, items) {
            found.items.append(list);
        }
        match here.end_cursor.filter(|cursor| here.has_more && !cursor.is_empty() && !cursors.contains(cursor)) {
            Some(cursor) => cursors.push(cursor),
            None => {
                found.partial = here.has_more;
                break;
            }
        }
    }
    found
}
