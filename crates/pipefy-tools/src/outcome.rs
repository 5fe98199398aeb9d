//! What a capability gives back, before an adapter dresses it.

use pipefy::Data;
use serde_json::{Map, Value};

use crate::op::Shape;

/// The result itself.
#[derive(Clone, Debug)]
pub enum Body {
    /// As Pipefy gave it, unparsed.
    Data(Data),
    /// Built or changed by us.
    Value(Value),
}

impl Body {
    /// The parsed value.
    pub fn value(&self) -> Value {
        match self {
            Self::Data(data) => data.value(),
            Self::Value(value) => value.clone(),
        }
    }

    /// The parsed value, taken.
    pub fn into_value(self) -> Value {
        match self {
            Self::Data(data) => data.value(),
            Self::Value(value) => value,
        }
    }
}

impl From<Data> for Body {
    fn from(data: Data) -> Self {
        Self::Data(data)
    }
}

impl From<Value> for Body {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl From<Map<String, Value>> for Body {
    fn from(value: Map<String, Value>) -> Self {
        Self::Value(value.into())
    }
}

/// Where a listing stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Whether Pipefy has more.
    pub has_more: bool,
    /// The cursor to go on from.
    pub end_cursor: Option<String>,
    /// The page size asked for.
    pub page_size: Option<i64>,
    /// How many there are in all, where Pipefy says so.
    pub total_count: Option<i64>,
}

impl Page {
    /// Reads `pageInfo`; null or missing means no more.
    pub fn from_page_info(page_info: Option<&Value>, page_size: Option<i64>) -> Self {
        let get = |key: &str| page_info.and_then(|p| p.get(key));
        Self {
            has_more: get("hasNextPage").and_then(Value::as_bool).unwrap_or(false),
            end_cursor: get("endCursor").and_then(Value::as_str).map(str::to_owned),
            page_size,
            total_count: None,
        }
    }

    /// The `pagination` block.
    pub fn block(&self) -> Value {
        let mut block = Map::new();
        block.insert("has_more".to_owned(), self.has_more.into());
        block.insert("end_cursor".to_owned(), self.end_cursor.clone().into());
        if let Some(size) = self.page_size {
            block.insert("page_size".to_owned(), size.into());
        }
        if let Some(total) = self.total_count {
            block.insert("total_count".to_owned(), total.into());
        }
        block.into()
    }
}

/// A capability's result: what the CLI prints (`body`) and what MCP wraps around it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The raw result.
    pub body: Body,
    /// One sentence about it.
    pub message: Option<String>,
    /// Where a listing stands; shown as `pagination`.
    pub page: Option<Page>,
    /// Further top-level keys of the MCP result.
    pub extra: Map<String, Value>,
    /// The whole MCP payload, for results that are no success of the operation's shape (preview, dry run).
    pub whole: bool,
    /// With [`crate::Shape::Text`]: also give the parsed data.
    pub parsed: bool,
    /// Whether text of outsiders in it is marked, so that parts of it are to be marked as well.
    pub marked: bool,
    /// Whether a change was sent, so that the call must not be repeated.
    pub wrote: bool,
    /// Whether reading all pages ended by a failure, not by a limit or the last page; `extra.stopped` says which.
    pub broke_off: bool,
}

impl Outcome {
    /// A result.
    pub fn new(body: impl Into<Body>) -> Self {
        Self {
            body: body.into(),
            message: None,
            page: None,
            extra: Map::new(),
            whole: false,
            parsed: false,
            marked: false,
            wrote: false,
            broke_off: false,
        }
    }

    /// A result that is shown as it is, whatever the operation's shape.
    pub fn whole(payload: Map<String, Value>) -> Self {
        let mut outcome = Self::new(Value::Object(payload));
        outcome.whole = true;
        outcome
    }

    /// Adds the sentence.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Adds where the listing stands.
    #[must_use]
    pub fn page(mut self, page: Option<Page>) -> Self {
        self.page = page;
        self
    }

    /// Adds a top-level key.
    #[must_use]
    pub fn extra(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a top-level key when there is a value.
    #[must_use]
    pub fn extra_opt(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.extra(key, value),
            None => self,
        }
    }

    /// Says that Pipefy answered null for `field`. The reference counts this as a success with nothing in it, so the result
    /// stays (`spec/tools-data-portals.md` 1.5) and its sentence tells what it means; raw and flat results have no place for one.
    #[must_use]
    pub(crate) fn unanswered(mut self, shape: Shape, field: &str) -> Self {
        let message = format!(
            "Pipefy answered nothing for `{field}`: it does not exist or cannot be seen with this sign-in. Check the ids, and \
             find what this account can see with `list_organizations`, `search_pipes` or `search_tables`."
        );
        match shape {
            Shape::Text => return self.extra("message", message),
            Shape::Flat => {}
            _ => self.message = Some(message),
        }
        self
    }

    /// Also gives the parsed data beside the text.
    #[must_use]
    pub fn parsed(mut self, parsed: bool) -> Self {
        self.parsed = parsed;
        self
    }
}

/// Follows a dotted path of keys; an empty path is the value itself.
pub fn dig<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    if path.is_empty() {
        return Some(value);
    }
    path.split('.').try_fold(value, |value, key| value.get(key))
}

/// Follows a dotted path of keys, to change what is there.
pub(crate) fn dig_mut<'v>(value: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    if path.is_empty() {
        return Some(value);
    }
    path.split('.').try_fold(value, |value, key| value.get_mut(key))
}
