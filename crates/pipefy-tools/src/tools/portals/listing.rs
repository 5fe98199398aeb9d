//! Listings that are read to their end (field report B08): a cursor that does not advance, too many pages, or a later page that
//! fails end them; what was read is kept and said to be incomplete.

use pipefy::{Error, Query};
use serde_json::{Value, json};

use crate::paging::Cursors;
use crate::tools::shared::list_at;
use crate::{Call, Outcome, Page, dig};

/// Pages read at most: 10,000 items at 50 a page.
const PAGES: usize = 200;

/// The nodes of every page, and why the reading stopped before the end, if it did.
pub(crate) struct Nodes {
    pub(crate) list: Vec<Value>,
    stopped: Option<String>,
}

/// Reads page after page of the connection `root`; `query` takes the cursor.
pub(crate) async fn nodes(call: &Call<'_>, root: &str, query: impl Fn(Option<&str>) -> Query) -> Result<Nodes, Error> {
    let mut list = Vec::new();
    let mut cursors = Cursors::from(None);
    for _ in 0..PAGES {
        let value = match (call.query(query(cursors.now())).await, cursors.now()) {
            (Ok(data), _) => data.value(),
            (Err(error), None) => return Err(error),
            (Err(error), Some(_)) => return Ok(Nodes { list, stopped: Some(error.to_string()) }),
        };
        let connection = value.get(root).unwrap_or(&Value::Null);
        let edges = list_at(connection, "edges").iter();
        list.extend(edges.filter_map(|edge| edge.get("node")).filter(|node| !node.is_null()).cloned());
        let page = Page::from_page_info(dig(connection, "pageInfo"), None);
        if !page.has_more {
            return Ok(Nodes { list, stopped: None });
        }
        if !cursors.follow(page.end_cursor) {
            return Ok(stopped(list, "the service says that there is more but gives no new cursor"));
        }
        call.budget.advance(1, None, &format!("{} items read", list.len()));
        if call.budget.is_over() {
            return Ok(stopped(list, "the time for this call is over; narrow the search"));
        }
    }
    Ok(stopped(list, "there are too many pages; narrow the search"))
}

fn stopped(list: Vec<Value>, reason: &str) -> Nodes {
    Nodes { list, stopped: Some(reason.to_owned()) }
}

impl Nodes {
    /// The listing under `key`; incomplete ones say so.
    pub(crate) fn outcome(self, key: &str) -> Outcome {
        let outcome = Outcome::new(json!({ key: self.list })).parsed(true);
        match self.stopped {
            Some(reason) => outcome.extra("complete", false).extra("stopped", reason),
            None => outcome,
        }
    }
}
