//! A capability: arguments with schema and documentation, an operation row, and one function (a read) or two (a write).

use std::future::Future;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::arguments;
use crate::call::{Act, Call};
use crate::error::ToolError;
use crate::gate;
use crate::op::Op;
use crate::outcome::Outcome;
use crate::plan::Plan;

/// A capability that only reads. The type is its arguments; its doc comment is the tool's description.
pub trait Read: DeserializeOwned + JsonSchema + Send + 'static {
    /// Its operation.
    const OP: Op;

    /// Does it.
    fn read(self, call: &Call<'_>) -> impl Future<Output = Result<Outcome, ToolError>> + Send;
}

/// A capability that writes: a plan made of reads, then, past the gate, the act.
pub trait Write: DeserializeOwned + JsonSchema + Send + 'static {
    /// Its operation.
    const OP: Op;
    /// What the act needs beside the steps.
    type Keep: Send + Sync + 'static;

    /// Checks the arguments and says what would be sent. Reads only.
    fn plan(self, call: &Call<'_>) -> impl Future<Output = Result<Plan<Self::Keep>, ToolError>> + Send;

    /// Sends it.
    fn act(plan: &Plan<Self::Keep>, act: &Act<'_, '_>) -> impl Future<Output = Result<Outcome, ToolError>> + Send;

    /// What else goes away with it; only asked for previews. Whatever fails is left out.
    fn dependents(
        _plan: &Plan<Self::Keep>,
        _call: &Call<'_>,
    ) -> impl Future<Output = Option<Map<String, Value>>> + Send {
        async { None }
    }

    /// Reads the change back and says whether it is there; `None` when there is nothing to compare.
    fn verify(
        _plan: &Plan<Self::Keep>,
        _outcome: &Outcome,
        _call: &Call<'_>,
    ) -> impl Future<Output = Option<Verification>> + Send {
        async { None }
    }
}

/// What reading back showed.
#[derive(Clone, Debug, Default)]
pub struct Verification {
    /// `Some(true)`: as asked. `Some(false)`: not as asked. `None`: could not be checked.
    pub verified: Option<bool>,
    /// What was compared, or why it could not be.
    pub note: String,
    /// Further keys of the `verification` block: what was read that the caller needs, such as the ids of a copy.
    pub facts: Map<String, Value>,
}

impl Verification {
    /// The comparison's result.
    pub fn of(verified: bool, note: impl Into<String>) -> Self {
        Self { verified: Some(verified), note: note.into(), facts: Map::new() }
    }

    /// Adds a key to the block.
    #[must_use]
    pub fn fact(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(key.to_owned(), value.into());
        self
    }

    /// The block of the result: `verified`, `note` and the facts.
    pub(crate) fn block(self) -> Value {
        let mut block = Map::new();
        block.insert("verified".to_owned(), self.verified.into());
        block.insert("note".to_owned(), self.note.into());
        block.extend(self.facts);
        block.into()
    }

    /// It could not be checked.
    pub fn unknown(note: impl Into<String>) -> Self {
        Self { verified: None, note: note.into(), facts: Map::new() }
    }
}

/// Runs a capability on validated arguments.
pub type Run = for<'c> fn(Map<String, Value>, &'c Call<'c>) -> BoxFuture<'c, Result<Outcome, ToolError>>;

/// One static row: types erased early, so that adapters exist once and not once per tool.
#[derive(Clone, Copy)]
pub struct Row {
    /// The operation.
    pub op: &'static Op,
    pub(crate) schema: fn() -> Value,
    pub(crate) run: Run,
}

impl Row {
    /// The row of a read.
    pub const fn read<T: Read>() -> Self {
        Self {
            op: &T::OP,
            schema: arguments::schema_of::<T>,
            run: |arguments, call| Box::pin(async move { arguments::parse::<T>(&T::OP, arguments)?.read(call).await }),
        }
    }

    /// The row of a write.
    pub const fn write<T: Write>() -> Self {
        Self {
            op: &T::OP,
            schema: arguments::schema_of::<T>,
            run: |arguments, call| Box::pin(async move { gate::pass::<T>(arguments, call).await }),
        }
    }
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row").field("op", &self.op.name).finish_non_exhaustive()
    }
}
