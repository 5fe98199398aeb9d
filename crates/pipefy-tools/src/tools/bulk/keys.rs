//! Which keys are in Pipefy already.

use std::collections::{HashMap, HashSet};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use pipefy::cards;
use serde_json::{Map, Value};

use super::columns::{Field, Target};
use super::{Kind, PAGE, fields_of, nodes, shown};
use crate::error::NOT_FOUND_CODES;
use crate::outcome::Page;
use crate::paging::Cursors;
use crate::{Call, Explain, ToolError, dig};

/// The look-up of one value of the key: the id of what has it, if anything does.
type LookUp<'a> = BoxFuture<'a, (&'a String, Result<Option<String>, ToolError>)>;

/// From so many rows on, the keys that are there are read all at once rather than one by one.
const MANY: usize = 50;

/// The column that tells rows apart, and what it is in Pipefy.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) column: String,
    pub(super) target: Target,
    /// The label of its field, by which values are shown.
    label: String,
    /// Whether values are shown as they are written.
    plain: bool,
}

impl Key {
    pub(super) fn new(column: &str, target: &Target, fields: &[Field]) -> Self {
        let field = match target {
            Target::Field(id) => fields.iter().find(|field| field.id == *id),
            _ => None,
        };
        let kind = field.map(|field| field.kind.as_str());
        Self {
            column: column.to_owned(),
            target: target.clone(),
            label: field.map(|field| field.label.clone()).unwrap_or_default(),
            plain: matches!(
                kind,
                None | Some("short_text" | "long_text" | "email" | "select" | "radio_vertical" | "radio_horizontal")
            ),
        }
    }

    /// Its name in the journal.
    pub(super) fn id(&self) -> &str {
        match &self.target {
            Target::Field(id) => id,
            _ => "title",
        }
    }
}

/// Looks for keys in one pipe or table.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a, 'c> {
    pub(super) call: &'a Call<'c>,
    pub(super) kind: Kind,
    pub(super) place: &'a str,
    pub(super) key: &'a Key,
    pub(super) parallel: usize,
}

impl Keys<'_, '_> {
    /// Which of the wanted keys are there, and as what.
    ///
    /// # Errors
    /// Pipefy's, of a read.
    pub(super) async fn known(&self, wanted: &[String]) -> Result<HashMap<String, String>, ToolError> {
        let by_title = self.key.target == Target::Title;
        // Records cannot be looked for by their title.
        let only_listed = by_title && self.kind == Kind::Records;
        let mut known = HashMap::new();
        if only_listed || wanted.len() >= MANY {
            let wanted: HashSet<&str> = wanted.iter().map(String::as_str).collect();
            // A large pipe costs more pages than there are rows to look for.
            let pages = if only_listed { usize::MAX } else { wanted.len() };
            let whole = self.listed(&wanted, pages, &mut known).await?;
            if only_listed || (whole && self.key.plain) {
                return Ok(known);
            }
        }
        let open: Vec<&String> = wanted.iter().filter(|value| !known.contains_key(*value)).collect();
        let work: Vec<LookUp<'_>> = open
            .into_iter()
            .map(|value| -> BoxFuture<'_, _> { Box::pin(async move { (value, self.one(value).await) }) })
            .collect();
        let mut work = stream::iter(work).buffer_unordered(self.parallel);
        while let Some((value, found)) = work.next().await {
            known.extend(found?.map(|id| (value.clone(), id)));
        }
        Ok(known)
    }

    /// Goes through at most so many pages; whether that was all.
    async fn listed(
        &self,
        wanted: &HashSet<&str>,
        pages: usize,
        known: &mut HashMap<String, String>,
    ) -> Result<bool, ToolError> {
        let by_title = self.key.target == Target::Title;
        let mut cursors = Cursors::from(None);
        for _ in 0..pages {
            let (query, root) = self.kind.page(self.place, !by_title, PAGE, cursors.now());
            let answer = self.read(query).await?;
            let connection = answer.get(root).unwrap_or(&Value::Null);
            for node in nodes(connection) {
                let mut values: Vec<String> = match by_title {
                    true => vec![shown(node.get("title"))],
                    // Another field may have the same label.
                    false => fields_of(node)
                        .filter(|field| field.get("name").and_then(Value::as_str) == Some(&self.key.label))
                        .map(|field| shown(field.get("value")))
                        .collect(),
                };
                values.retain(|value| wanted.contains(value.as_str()));
                for value in values {
                    known.entry(value).or_insert_with(|| shown(node.get("id")));
                }
            }
            let page = Page::from_page_info(connection.get("pageInfo"), None);
            if !page.has_more || !cursors.follow(page.end_cursor) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The thing that has this key.
    ///
    /// # Errors
    /// Pipefy's, of a read.
    pub(super) async fn one(&self, value: &str) -> Result<Option<String>, ToolError> {
        let (query, root) = match (&self.key.target, self.kind) {
            (Target::Field(field), kind) => kind.find(self.place, field, value),
            (_, Kind::Cards) => {
                let search = Map::from_iter([("title".to_owned(), Value::from(value))]);
                return self.titled(value, &search).await;
            }
            (_, Kind::Records) => {
                let mut known = HashMap::new();
                self.listed(&HashSet::from([value]), usize::MAX, &mut known).await?;
                return Ok(known.remove(value));
            }
        };
        let answer = self.read(query).await?;
        Ok(answer.get(root).and_then(|found| nodes(found).next()).map(|node| shown(node.get("id"))))
    }

    /// The card of this very title; the search finds those that contain it.
    async fn titled(&self, title: &str, search: &Map<String, Value>) -> Result<Option<String>, ToolError> {
        let mut cursors = Cursors::from(None);
        loop {
            let first = i64::try_from(PAGE).ok();
            let answer = self.read(cards::get_cards(self.place, search, false, first, cursors.now())).await?;
            let found = answer.get("cards").unwrap_or(&Value::Null);
            if let Some(node) = nodes(found).find(|node| shown(node.get("title")) == title) {
                return Ok(Some(shown(node.get("id"))));
            }
            let page = Page::from_page_info(found.get("pageInfo"), None);
            if !page.has_more || !cursors.follow(page.end_cursor) {
                return Ok(None);
            }
        }
    }

    /// Whether what was created under this id is still there, whatever its key is by now.
    ///
    /// # Errors
    /// Pipefy's, unless it says that there is no such thing; a deleted one answers as one that may not be seen.
    pub(super) async fn is_there(&self, id: &str) -> Result<bool, ToolError> {
        let (query, path) = self.kind.get(id);
        match self.call.query(query).await {
            Ok(data) => Ok(dig(&data.value(), path).is_some_and(|id| !id.is_null())),
            Err(error)
                if error.codes().iter().any(|code| NOT_FOUND_CODES.contains(code) || *code == "PERMISSION_DENIED") =>
            {
                Ok(false)
            }
            Err(error) => Err(self.explained(error)),
        }
    }

    async fn read(&self, query: pipefy::Query) -> Result<Value, ToolError> {
        self.call.query(query).await.map(|data| data.value()).map_err(|error| self.explained(error))
    }

    fn explained(&self, error: pipefy::Error) -> ToolError {
        Explain::doing("look for the keys that are there").about(self.kind.owner(), self.place).map(self.call, error)
    }
}
