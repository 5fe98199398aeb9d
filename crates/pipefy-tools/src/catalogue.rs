//! The catalogue: every capability by name, prepared once.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::arguments;
use crate::call::{Call, Options};
use crate::capability::Row;
use crate::discovery;
use crate::error::ToolError;
use crate::listing;
use crate::op::{Class, Op};
use crate::outcome::Outcome;
use crate::output;
use crate::paging;
use crate::tools::order::ORDER;
use crate::trust;

/// One capability, ready to be listed and called.
#[derive(Debug)]
pub struct Tool {
    row: &'static Row,
    schema: OnceLock<Value>,
}

impl Tool {
    const fn new(row: &'static Row) -> Self {
        Self { row, schema: OnceLock::new() }
    }

    /// Its operation.
    pub fn op(&self) -> &'static Op {
        self.row.op
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.row.op.name
    }

    pub(crate) fn schema(&self) -> &Value {
        self.schema.get_or_init(|| (self.row.schema)())
    }

    /// What it does, for people and models: the doc comment of its arguments.
    pub fn description(&self) -> &str {
        self.schema().get("description").and_then(Value::as_str).unwrap_or_default()
    }

    /// The JSON schema of its arguments, shared options included.
    pub fn input_schema(&self) -> Value {
        arguments::published(self.row.op, self.schema())
    }

    /// The JSON schema of its result in `tools/list`; `None` for the tools that have none there.
    pub fn output_schema(&self) -> Option<Value> {
        self.row.op.output_schema.then(|| json!({ "type": "object" }))
    }

    /// The precise JSON schema of what MCP shows of its result. `unified`: as `PIPEFY_MCP_UNIFIED_ENVELOPE` is set.
    pub fn result_schema(&self, unified: bool) -> Value {
        output::schema(self.row.op, unified)
    }

    /// Checks arguments without running anything: coerced ones, and the options that tools share.
    ///
    /// # Errors
    /// `INVALID_ARGUMENTS` with every problem.
    pub fn check(&self, arguments: Map<String, Value>) -> Result<(Map<String, Value>, Options), ToolError> {
        arguments::check(self.row.op, self.schema(), arguments)
    }

    /// Checks the arguments and what they touch, and runs nothing: for whoever reads in another way what this capability would
    /// show.
    ///
    /// # Errors
    /// Invalid arguments; `OUT_OF_SCOPE`.
    pub async fn admit(&self, arguments: Map<String, Value>, call: &Call<'_>) -> Result<(), ToolError> {
        let (arguments, _) = self.check(arguments)?;
        match call.policy.scope.as_deref() {
            Some(scope) => scope.admit(self.row.op, &arguments, call).await,
            None => Ok(()),
        }
    }

    /// Checks the arguments and what they touch, and runs it. `call.options` and `call.op` are set here.
    ///
    /// # Errors
    /// Invalid arguments, or whatever the capability says.
    pub async fn call(&self, arguments: Map<String, Value>, mut call: Call<'_>) -> Result<Outcome, ToolError> {
        let (arguments, options) = self.check(arguments)?;
        let arguments = if call.policy.mark_untrusted { trust::unmark(arguments)? } else { arguments };
        let all = options.all;
        let pruned = options.fields.clone().filter(|_| self.row.op.selects.is_none());
        let mut options = options;
        let mut arguments = arguments;
        let forms = listing::FormFields::take(self.row.op, &call.toolbox.selections, &mut options, &arguments);
        if forms.is_some() && self.schema().pointer("/properties/include_fields").is_some() {
            arguments.insert("include_fields".to_owned(), true.into());
        }
        call.options = options;
        call.op = Some(self.row.op);
        let scope = call.policy.scope.as_deref();
        if let Some(scope) = scope {
            scope.admit(self.row.op, &arguments, &call).await?;
        }
        let mut outcome = match self.row.op.paging {
            Some(paging) if all => paging::all(self.row, paging, arguments, &call).await,
            _ => (self.row.run)(arguments, &call).await,
        }?;
        if let (Some(field), Class::Read) = (call.unanswered.get(), self.row.op.class) {
            outcome = outcome.unanswered(self.row.op.shape, field);
        }
        if let Some(scope) = scope {
            outcome = scope.trim(self.row.op, outcome, &call).await?;
        }
        if let Some(fields) = pruned {
            listing::prune(self.row.op, &mut outcome, &fields)?;
        }
        if let Some(forms) = forms {
            forms.choose(self.row.op, &mut outcome, &call).await?;
        }
        if all && self.row.op.paging.is_none() {
            outcome = listing::account(self.row.op, outcome, call.options.max_items);
        }
        if call.policy.mark_untrusted {
            outcome = trust::mark(self.row.op, outcome);
        }
        Ok(outcome)
    }
}

/// All capabilities, in the order in which they are listed.
#[derive(Debug)]
pub struct Catalogue {
    tools: Vec<Tool>,
    by_name: HashMap<&'static str, usize>,
    index: OnceLock<discovery::Index>,
}

impl Catalogue {
    /// Prepares the catalogue; schemas are made on first use.
    pub fn new() -> Self {
        let place: HashMap<&str, usize> = ORDER.iter().enumerate().map(|(index, name)| (*name, index)).collect();
        let mut tools: Vec<Tool> = crate::tools::DOMAINS.iter().flat_map(|rows| rows.iter()).map(Tool::new).collect();
        tools.sort_by_key(|tool| place.get(tool.name()).copied().unwrap_or(usize::MAX));
        let by_name = tools.iter().enumerate().map(|(index, tool)| (tool.name(), index)).collect();
        Self { tools, by_name, index: OnceLock::new() }
    }

    /// All tools.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// One tool by name.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.by_name.get(name).and_then(|index| self.tools.get(*index))
    }

    /// The tools of `among` that have to do with `query`, best first. `query` is words of tool names, or what somebody wants
    /// done, in English, Portuguese or Spanish. Empty when nothing of it is known. See `discovery`.
    pub fn search<'t>(&'t self, among: &[&'t Tool], query: &str) -> Vec<&'t Tool> {
        discovery::search(self.index.get_or_init(|| discovery::Index::new(&self.tools)), &self.tools, among, query)
    }
}

impl Default for Catalogue {
    fn default() -> Self {
        Self::new()
    }
}
