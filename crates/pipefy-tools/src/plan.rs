//! What a write would send, made before anything is sent.

use pipefy::Mutation;
use serde_json::{Map, Value, json};

/// One thing a write does, in order.
#[derive(Clone, Debug)]
pub enum Step {
    /// A mutation. A variable that only an earlier step can give is [`unknown`] until then.
    Send(Mutation),
    /// Bytes moved to or from elsewhere, in words.
    Transfer(String),
}

/// What must be approved before a destructive plan goes on.
#[derive(Clone, Debug)]
pub struct Confirmation {
    /// The values the approval is bound to (`spec/mcp-server.md` section 14, "Identity per tool").
    pub identity: Map<String, Value>,
    /// What it is about, for people: `card 'Title' (ID: 5) from pipe 'Sales'`.
    pub resource: String,
    /// Replaces the sentence that says what is irreversible.
    pub sentence: Option<String>,
    /// The verb of the CLI's question: `delete`, `remove`, `disable`, `send`.
    pub verb: &'static str,
    /// Further keys of the preview (the e-mail draft).
    pub extra: Map<String, Value>,
}

impl Confirmation {
    /// An approval to delete `resource`, bound to `identity` (an object).
    pub fn delete(resource: impl Into<String>, identity: Value) -> Self {
        Self {
            identity: match identity {
                Value::Object(map) => map,
                _ => Map::new(),
            },
            resource: resource.into(),
            sentence: None,
            verb: "delete",
            extra: Map::new(),
        }
    }

    /// Replaces the sentence that says what is irreversible.
    #[must_use]
    pub fn sentence(mut self, sentence: impl Into<String>) -> Self {
        self.sentence = Some(sentence.into());
        self
    }

    /// Sets the verb of the CLI's question.
    #[must_use]
    pub fn verb(mut self, verb: &'static str) -> Self {
        self.verb = verb;
        self
    }

    /// Adds a key to the preview.
    #[must_use]
    pub fn extra(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key.to_owned(), value.into());
        self
    }
}

/// The plan of a write. Made by reads only; the gate stands between it and the act.
#[derive(Clone, Debug)]
pub struct Plan<K = ()> {
    /// What will be done, in order. Empty when there is nothing to change.
    pub steps: Vec<Step>,
    /// What must be approved first.
    pub confirm: Option<Confirmation>,
    /// The state before, where it was read.
    pub before: Option<Value>,
    /// What the act needs beside the steps.
    pub keep: K,
}

impl Plan<()> {
    /// A plan of one mutation.
    pub fn of(mutation: Mutation) -> Self {
        Self::new(()).then(mutation)
    }
}

impl<K> Plan<K> {
    /// An empty plan with what the act needs.
    pub fn new(keep: K) -> Self {
        Self { steps: Vec::new(), confirm: None, before: None, keep }
    }

    /// Adds a mutation.
    #[must_use]
    pub fn then(mut self, mutation: Mutation) -> Self {
        self.steps.push(Step::Send(mutation));
        self
    }

    /// Adds a transfer of bytes, in words.
    #[must_use]
    pub fn transfer(mut self, what: impl Into<String>) -> Self {
        self.steps.push(Step::Transfer(what.into()));
        self
    }

    /// Needs this approval.
    #[must_use]
    pub fn confirm(mut self, confirmation: Confirmation) -> Self {
        self.confirm = Some(confirmation);
        self
    }

    /// The state before.
    #[must_use]
    pub fn before(mut self, before: Value) -> Self {
        self.before = Some(before);
        self
    }

    /// The mutations, in order.
    pub fn mutations(&self) -> impl Iterator<Item = &Mutation> {
        self.steps.iter().filter_map(|step| match step {
            Step::Send(mutation) => Some(mutation),
            Step::Transfer(_) => None,
        })
    }

    /// The steps as shown by `dry_run`.
    pub fn shown_steps(&self) -> Value {
        self.steps
            .iter()
            .map(|step| match step {
                Step::Send(mutation) => {
                    let operation = mutation.operation();
                    json!({
                        "endpoint": operation.document.endpoint().to_string(),
                        "document": operation.document.text(),
                        "variables": operation.variables,
                    })
                }
                Step::Transfer(what) => json!({ "transfer": what }),
            })
            .collect()
    }
}

const UNKNOWN: &str = "$unknown";

/// A value that only the answer of an earlier step can give; shown as such by `dry_run` and never sent.
pub fn unknown(what: &str) -> Value {
    json!({ UNKNOWN: what })
}

/// Whether a value still holds an [`unknown`].
pub(crate) fn has_unknown(value: &Value) -> bool {
    match value {
        Value::Object(map) => (map.len() == 1 && map.contains_key(UNKNOWN)) || map.values().any(has_unknown),
        Value::Array(list) => list.iter().any(has_unknown),
        _ => false,
    }
}
