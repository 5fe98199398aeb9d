use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::tools::automations::rules::{self, AI_ACTION, PAGE};
use crate::tools::shared::non_blank;
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError, page_size};

/// Lists AI automations of a pipe. A page counts all its automations, so it may hold none of them and still have more.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAiAutomations {
    pipe_id: CheckedId,
    #[serde(default)]
    organization_id: Option<CheckedId>,
    /// Page size, 1..50 (default 50).
    #[serde(default)]
    first: Option<i64>,
    #[serde(default)]
    after: Option<String>,
}

impl Read for GetAiAutomations {
    const OP: Op = Op::read("get_ai_automations", Domain::Automation, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager])
        .debug()
        .no_output_schema()
        .touches(&[IdArg::new("organization_id", IdKind::Organization), IdArg::new("pipe_id", IdKind::Pipe)])
        .paging("", "", PAGE);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let first = page_size("first", self.first, PAGE)?.unwrap_or(PAGE);
        let after = non_blank(self.after.as_deref());
        let explain = Explain::doing("list AI automations").about("pipe", &self.pipe_id);
        let mut listing = rules::list(call, self.organization_id.as_deref(), Some(&self.pipe_id), Some(first), after)
            .await
            .map_err(|e| explain.map(call, e))?
            .ok_or_else(|| explain.missing())?;
        let all = listing.rules.len();
        listing.rules.retain(|rule| rule.get("action_id").and_then(Value::as_str) == Some(AI_ACTION));
        let message = format!(
            "{} AI automations. Of all automations: {}",
            listing.rules.len(),
            rules::listing_message(all, &listing.page)
        );
        Ok(Outcome::new(Value::Array(listing.rules)).message(message).page(Some(listing.page)))
    }
}
