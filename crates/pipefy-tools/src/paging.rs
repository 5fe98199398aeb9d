//! Pages: the page-size rule, and `all`, which follows cursors within limits.

use std::collections::HashSet;
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

/// The way through the pages of a listing. A cursor is followed once: a service that gives one again would lead in a circle.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    now: Option<String>,
    followed: HashSet<String>,
}

impl Cursors {
    /// From the page after this cursor, or from the first.
    pub(crate) fn from(after: Option<&str>) -> Self {
        let mut cursors = Self::default();
        cursors.follow(after.map(str::to_owned));
        cursors
    }

    /// The cursor of the page to read; `None` for the first.
    pub(crate) fn now(&self) -> Option<&str> {
        self.now.as_deref()
    }

    /// Goes on to the page after `next`. False when there is no such way: no cursor, or one that was followed before.
    pub(crate) fn follow(&mut self, next: Option<String>) -> bool {
        match next.filter(|next| !next.is_empty() && self.followed.insert(next.clone())) {
            Some(next) => {
                self.now = Some(next);
                true
            }
            None => false,
        }
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
    // The last page is asked for as short as it has to be, so that its cursor is where the next call goes on.
    let first = |items: usize| {
        let left = i64::try_from(max_items.saturating_sub(items as u64)).unwrap_or(i64::MAX);
        page_size.map(|size| size.min(left.max(1)))
    };
    arguments.insert("first".to_owned(), first(0).into());
    let mut cursors = Cursors::from(arguments.get("after").and_then(Value::as_str));
    let from_the_start = cursors.now().is_none();
    let now = |cursors: &Cursors| cursors.now().map(str::to_owned);
    let mut items: Vec<Value> = Vec::new();
    let mut bytes = 0;
    let mut result: Option<(Outcome, Value)> = None;
    let mut stopped: Option<String> = None;
    let mut broke_off = false;
    let (complete, next_cursor) = loop {
        let outcome = match ((row.run)(arguments.clone(), call).await, &result) {
            (Ok(outcome), _) => outcome,
            (Err(error), None) => return Err(error),
            (Err(error), Some(_)) => {
                (stopped, broke_off) = (Some(error.message), true);
                break (false, now(&cursors));
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
                break (false, now(&cursors));
            }
            let left = usize::try_from(max_items).unwrap_or(usize::MAX).saturating_sub(items.len());
            let over = list.len() > left;
            list.truncate(left);
            items.append(list);
            if over {
                // There is no cursor inside of a page.
                stopped =
                    Some("the service gave more than was asked for; next_cursor begins with the same page".to_owned());
                result = Some((outcome, body));
                break (false, now(&cursors));
            }
        }
        call.budget.advance(1, None, &format!("{} items read", items.len()));
        result = Some((outcome, body));
        if !page.has_more {
            break (true, None);
        }
        if !cursors.follow(page.end_cursor) {
            // Pipefy says there is more but gives no way on: saying so beats reading the same pages for ever.
            (stopped, broke_off) = (Some("the service gave the same cursor again".to_owned()), true);
            break (false, now(&cursors));
        }
        if items.len() as u64 >= max_items || Instant::now() >= end || call.budget.is_over() {
            break (false, now(&cursors));
        }
        arguments.insert("after".to_owned(), now(&cursors).into());
        arguments.insert("first".to_owned(), first(items.len()).into());
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
        page.page_size = page_size;
        page.end_cursor = next_cursor.clone();
    }
    let total = dig(&body, paging.items.rsplit_once('.').map_or("", |(parent, _)| parent))
        .and_then(|parent| parent.get("totalCount"))
        .cloned()
        .or_else(|| outcome.page.as_ref().and_then(|page| page.total_count).map(Value::from))
        // Where Pipefy does not count, the whole tells.
        .or_else(|| (complete && from_the_start).then(|| returned.into()));
    outcome.body = Body::Value(body);
    outcome.broke_off = broke_off;
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
    let mut cursors = Cursors::from(None);
    for _ in 0..PREVIEW_PAGES {
        if found.items.len() >= enough {
            break;
        }
        let Ok(data) = call.query(page(cursors.now())).await else { return found };
        let mut value = data.value();
        let here = Page::from_page_info(dig(&value, page_info), None);
        if let Some(Value::Array(list)) = dig_mut(&mut value, items) {
            found.items.append(list);
        }
        if !here.has_more || !cursors.follow(here.end_cursor) {
            found.partial = here.has_more;
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use proptest::prelude::*;

    use super::*;
    use crate::tools::testing::Mock;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever cursors the service gives, in circles too: no page is read twice, and the reading ends.
        #[test]
        fn no_way_leads_in_a_circle(ways in prop::collection::vec(prop::option::of("[a-c]{0,2}"), 0..20)) {
            let mut cursors = Cursors::from(None);
            let mut read = vec![None];
            for next in ways {
                if cursors.follow(next.clone()) {
                    let now = cursors.now().map(str::to_owned);
                    prop_assert_eq!(&now, &next);
                    prop_assert!(!read.contains(&now), "{now:?} after {read:?}");
                    read.push(now);
                }
            }
        }

        #[test]
        fn all_pages_are_read_once(pages in prop::collection::vec(("[a-d]{0,1}", any::<bool>()), 1..12)) {
            let mut mock = Mock::new();
            for (number, (cursor, more)) in pages.iter().enumerate() {
                let info = json!({"hasNextPage": more, "endCursor": cursor});
                let page = json!({"edges": [{"node": {"id": number.to_string()}}], "pageInfo": info});
                // The last page is given for ever.
                mock = mock.on("cards", page);
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let reply = runtime.block_on(mock.reply("get_cards", json!({"pipe_id": "1", "all": true})));
            let asked: Vec<Value> = mock.sent().iter().map(|sent| sent.variables["after"].clone()).collect();
            for (number, after) in asked.iter().enumerate() {
                prop_assert!(!asked[..number].contains(after), "{asked:?}");
            }
            prop_assert_eq!(&reply["returned"], asked.len());
            prop_assert_eq!(reply["complete"] == json!(true), reply.get("stopped").is_none(), "{}", reply);
        }
    }

    fn page(ids: std::ops::Range<u64>, more: bool) -> Value {
        let edges: Vec<Value> = ids.clone().map(|id| json!({"node": {"id": id.to_string()}})).collect();
        json!({"edges": edges, "pageInfo": {"hasNextPage": more, "endCursor": format!("c{}", ids.end)}})
    }

    #[tokio::test]
    async fn max_items_is_exact_and_the_cursor_goes_on_from_there() {
        let mock = Mock::new().on("cards", page(0..2, true)).on("cards", page(2..3, true));
        let call = json!({"pipe_id": "1", "all": true, "first": 2, "max_items": 3});
        let reply = mock.reply("get_cards", call).await;
        let asked: Vec<Value> = mock.sent().iter().map(|sent| sent.variables["first"].clone()).collect();
        assert_eq!(asked, [json!(2), json!(1)]);
        assert_eq!(
            (&reply["returned"], &reply["complete"], &reply["next_cursor"]),
            (&json!(3), &json!(false), &json!("c3"))
        );
        assert_eq!(reply["pagination"]["page_size"], 2, "{reply}");
        // A service that gives more than it was asked for: nothing is skipped.
        let mock = Mock::new().on("cards", page(0..5, true)).on("cards", page(5..10, true));
        let reply = mock.reply("get_cards", json!({"pipe_id": "1", "all": true, "first": 5, "max_items": 7})).await;
        assert_eq!(
            (&reply["returned"], &reply["complete"], &reply["next_cursor"]),
            (&json!(7), &json!(false), &json!("c5"))
        );
        assert!(reply["stopped"].as_str().unwrap().contains("same page"), "{reply}");
    }
}
