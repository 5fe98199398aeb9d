//! What one request works with: who asks, the store, the clock.

use crate::error::GqlError;
use crate::json;
use crate::store::{By, Links, Store};
use apollo_compiler::Schema;
use apollo_compiler::validation::Valid;
use jiff::Timestamp;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

pub(crate) type Body = Rc<Value>;
pub(crate) type Answer = Result<Value, GqlError>;

/// The arguments of one field, coerced to the schema; an explicit null counts as absent.
pub(crate) struct Args(pub(crate) Value);

impl Args {
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|v| !v.is_null())
    }

    /// A scalar argument as text; ids may arrive as numbers.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(json::scalar)
    }

    /// A scalar argument that the schema requires.
    pub(crate) fn need(&self, key: &str) -> Result<String, GqlError> {
        self.text(key).ok_or_else(|| GqlError::invalid(format!("{key} is required")))
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).and_then(Value::as_bool)
    }

    pub(crate) fn int(&self, key: &str) -> Option<i64> {
        self.get(key).and_then(Value::as_i64)
    }

    /// `None` when absent, so that an empty list can mean "clear".
    pub(crate) fn texts(&self, key: &str) -> Option<Vec<String>> {
        self.get(key).map(json::texts)
    }

    /// The `input` object of a mutation.
    pub(crate) fn input(&self) -> Args {
        Args(self.0.get("input").cloned().unwrap_or_default())
    }
}

/// One request's view of the sandbox. Lives on one blocking thread.
pub(crate) struct Ctx<'s> {
    pub(crate) store: &'s Store,
    pub(crate) schema: &'s Valid<Schema>,
    /// The user id of the person or service account that asks.
    pub(crate) viewer: String,
    pub(crate) now: Timestamp,
    /// `http://127.0.0.1:PORT`.
    pub(crate) base_url: &'s str,
    bodies: RefCell<HashMap<(String, String), Body>>,
    /// Sibling lists by kind, then by the column and key that they hang on.
    lists: RefCell<HashMap<String, Lists>>,
}

type Lists = HashMap<(By, String), Vec<Body>>;

impl<'s> Ctx<'s> {
    pub(crate) fn new(store: &'s Store, schema: &'s Valid<Schema>, viewer: String, base_url: &'s str) -> Self {
        Self {
            store,
            schema,
            viewer,
            now: Timestamp::now(),
            base_url,
            bodies: RefCell::default(),
            lists: RefCell::default(),
        }
    }

    /// The time of the request as the API prints it.
    pub(crate) fn stamp(&self) -> String {
        stamp(self.now)
    }

    pub(crate) fn get(&self, kind: &str, id: &str) -> Result<Option<Body>, GqlError> {
        let key = (kind.to_owned(), id.to_owned());
        if let Some(body) = self.bodies.borrow().get(&key) {
            return Ok(Some(body.clone()));
        }
        let Some(body) = self.store.get(kind, id)? else { return Ok(None) };
        let body = Rc::new(body);
        self.bodies.borrow_mut().insert(key, body.clone());
        Ok(Some(body))
    }

    /// By id, else by uuid.
    pub(crate) fn find(&self, kind: &str, key: &str) -> Result<Option<Body>, GqlError> {
        if let Some(body) = self.get(kind, key)? {
            return Ok(Some(body));
        }
        match self.store.id_of_uuid(kind, key)? {
            Some(id) => self.get(kind, &id),
            None => Ok(None),
        }
    }

    /// By id or uuid; unknown is `RESOURCE_NOT_FOUND`.
    pub(crate) fn must(&self, kind: &str, what: &str, key: &str) -> Result<Body, GqlError> {
        self.find(kind, key)?.ok_or_else(|| GqlError::not_found(what, key))
    }

    fn keep(&self, kind: &str, rows: Vec<(String, Value)>) -> Vec<Body> {
        let mut bodies = self.bodies.borrow_mut();
        rows.into_iter()
            .map(|(id, body)| {
                let body = Rc::new(body);
                bodies.insert((kind.to_owned(), id), body.clone());
                body
            })
            .collect()
    }

    fn siblings(&self, kind: &str, by: By, key: &str) -> Result<Vec<Body>, GqlError> {
        let place = (by, key.to_owned());
        if let Some(list) = self.lists.borrow().get(kind).and_then(|lists| lists.get(&place)) {
            return Ok(list.clone());
        }
        let list = self.keep(kind, self.store.list(kind, by, key)?);
        self.lists.borrow_mut().entry(kind.to_owned()).or_default().insert(place, list.clone());
        Ok(list)
    }

    pub(crate) fn children(&self, kind: &str, parent: &str) -> Result<Vec<Body>, GqlError> {
        self.siblings(kind, By::Parent, parent)
    }

    pub(crate) fn grouped(&self, kind: &str, group: &str) -> Result<Vec<Body>, GqlError> {
        self.siblings(kind, By::Group, group)
    }

    /// The children of which only the ids are wanted.
    pub(crate) fn child_ids(&self, kind: &str, parent: &str) -> Result<Vec<String>, GqlError> {
        Ok(self.store.ids(kind, parent)?)
    }

    /// The children that may hold this value: all that do, and perhaps some that do not.
    pub(crate) fn children_with(&self, kind: &str, parent: &str, value: &Value) -> Result<Vec<Body>, GqlError> {
        // A text is looked for without its quotes: a number may be stored where a text is asked for.
        let text = value.to_string();
        let rows = self.store.containing(kind, parent, text.trim_matches('"'))?;
        Ok(self.keep(kind, rows))
    }

    pub(crate) fn all(&self, kind: &str) -> Result<Vec<Body>, GqlError> {
        let rows = self.store.all(kind)?;
        Ok(self.keep(kind, rows))
    }

    pub(crate) fn put(&self, kind: &str, id: &str, links: &Links, body: Value) -> Result<Body, GqlError> {
        self.store.put(kind, id, links, &body)?;
        self.lists.borrow_mut().remove(kind);
        let body = Rc::new(body);
        self.bodies.borrow_mut().insert((kind.to_owned(), id.to_owned()), body.clone());
        Ok(body)
    }

    pub(crate) fn save(&self, kind: &str, id: &str, body: Value) -> Result<Body, GqlError> {
        self.store.update(kind, id, &body)?;
        self.lists.borrow_mut().remove(kind);
        let body = Rc::new(body);
        self.bodies.borrow_mut().insert((kind.to_owned(), id.to_owned()), body.clone());
        Ok(body)
    }

    pub(crate) fn remove(&self, kind: &str, id: &str) -> Result<bool, GqlError> {
        self.bodies.borrow_mut().remove(&(kind.to_owned(), id.to_owned()));
        self.lists.borrow_mut().remove(kind);
        Ok(self.store.delete(kind, id)?)
    }

    /// Moves an entity to another group (a card to another phase).
    pub(crate) fn regroup(&self, kind: &str, id: &str, group: &str) -> Result<(), GqlError> {
        self.lists.borrow_mut().remove(kind);
        Ok(self.store.regroup(kind, id, group)?)
    }

    /// Forgets what was read, after a rolled back write.
    pub(crate) fn forget(&self) {
        self.bodies.borrow_mut().clear();
        self.lists.borrow_mut().clear();
    }

    pub(crate) fn new_id(&self, kind: &str) -> Result<String, GqlError> {
        Ok(self.store.next_id(kind)?)
    }

    pub(crate) fn new_uuid(&self) -> Result<String, GqlError> {
        Ok(self.store.next_uuid()?)
    }
}

/// RFC 3339 with whole seconds in UTC: `2026-03-01T12:00:00Z`.
pub(crate) fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The day of a time in UTC.
pub(crate) fn day(at: Timestamp) -> jiff::civil::Date {
    jiff::tz::TimeZone::UTC.to_datetime(at).date()
}

/// Reads a time as the API prints it; a plain date counts as its first second in UTC.
pub(crate) fn parse_time(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    let civil = text.parse::<jiff::civil::DateTime>().ok().or_else(|| {
        let date = text.parse::<jiff::civil::Date>().ok()?;
        Some(date.at(0, 0, 0, 0))
    })?;
    jiff::tz::TimeZone::UTC.to_timestamp(civil).ok()
}
