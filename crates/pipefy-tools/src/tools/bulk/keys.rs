//! Which keys are in Pipefy already.

use std::collections::{HashMap, HashSet};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use pipefy::cards;
use serde_json::{Map, Value};

use super::columns::{Field, Target};
use super::{Ids, Kind, PAGE, Page, fields_of, shown, unread};
use crate::error::NOT_FOUND_CODES;
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
    /// What its field is called in Pipefy.
    ids: Ids,
    /// The label of its field, which others may have too.
    label: String,
    /// Whether values are shown as they are written.
    plain: bool,
}

impl Key {
    pub(super) fn new(column: &str, target: &Target, fields: &[Field]) -> Self {
        let field = match target {
            Target::Field(id) => fields.iter().find(|field| field.ids.id() == id),
            _ => None,
        };
        let kind = field.map(|field| field.kind.as_str());
        Self {
            column: column.to_owned(),
            target: target.clone(),
            ids: field.map(|field| field.ids.clone()).unwrap_or_default(),
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
    /// Pipefy's, of a read; an answer that does not tell.
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

    /// Goes through at most so many pages; whether that was all, and told of every row which fields its values are of.
    async fn listed(
        &self,
        wanted: &HashSet<&str>,
        pages: usize,
        known: &mut HashMap<String, String>,
    ) -> Result<bool, ToolError> {
        let by_title = self.key.target == Target::Title;
        let mut cursors = Cursors::from(None);
        let mut told = true;
        for _ in 0..pages {
            let (query, root) = self.kind.page(self.place, !by_title, PAGE, cursors.now());
            let answer = self.read(query).await?;
            let page = Page::of(&answer, root)?;
            for node in &page.nodes {
                let mut values = Vec::new();
                if by_title {
                    values.push(shown(node.get("title")));
                }
                for field in fields_of(node).filter(|_| !by_title) {
                    // Fields of other phases may have the same label.
                    match Ids::of(field.get("field").unwrap_or(&Value::Null)).same(&self.key.ids) {
                        Some(true) => values.push(shown(field.get("value"))),
                        Some(false) => {}
                        None => told &= field.get("name").and_then(Value::as_str) != Some(&self.key.label),
                    }
                }
                for value in values.into_iter().filter(|value| wanted.contains(value.as_str())) {
                    known.entry(value).or_insert_with(|| shown(node.get("id")));
                }
            }
            match page.next {
                None => return Ok(told),
                next => follow(&mut cursors, next, root)?,
            }
        }
        Ok(false)
    }

    /// The thing that has this key.
    ///
    /// # Errors
    /// Pipefy's, of a read; an answer that does not tell.
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
        Ok(Page::of(&answer, root)?.nodes.first().map(|node| shown(node.get("id"))))
    }

    /// The card of this very title; the search finds those that contain it.
    async fn titled(&self, title: &str, search: &Map<String, Value>) -> Result<Option<String>, ToolError> {
        let mut cursors = Cursors::from(None);
        loop {
            let first = i64::try_from(PAGE).ok();
            let answer = self.read(cards::get_cards(self.place, search, false, first, cursors.now())).await?;
            let page = Page::of(&answer, "cards")?;
            if let Some(node) = page.nodes.iter().find(|node| shown(node.get("title")) == title) {
                return Ok(Some(shown(node.get("id"))));
            }
            match page.next {
                None => return Ok(None),
                next => follow(&mut cursors, next, "cards")?,
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
            Ok(data) => match shown(dig(&data.value(), path)) == id {
                true => Ok(true),
                // Of what is not there Pipefy says so; nothing at all is no answer.
                false => {
                    Err(unread(path, &format!("it does not say whether {id}, which an earlier run created, is there")))
                }
            },
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

/// Goes on to the next page.
///
/// # Errors
/// It was read before: what is left cannot be reached.
pub(super) fn follow(cursors: &mut Cursors, next: Option<String>, root: &str) -> Result<(), ToolError> {
    match cursors.follow(next) {
        true => Ok(()),
        false => Err(unread(root, "it leads back to a page that was read before")),
    }
}
