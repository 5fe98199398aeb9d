//! Usage and credits of an organisation.

use pipefy::observability::{self, Usage};
use pipefy::{Id, Query, documents};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::organization::{period, uuid_of};
use crate::tools::dates::{is_date, is_reversed};
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// An organization and the part of its usage that is shown.
#[derive(Deserialize, JsonSchema)]
struct Range {
    /// Uuid or numeric id.
    organization_uuid: CheckedId,
    /// ISO 8601.
    filter_date_from: String,
    /// ISO 8601.
    filter_date_to: String,
    /// Keys of FilterParams, e.g. {status, action, event}.
    #[serde(default)]
    filters: Option<Map<String, Value>>,
    #[serde(default)]
    search: Option<String>,
    /// {field, direction}.
    #[serde(default)]
    sort: Option<Map<String, Value>>,
}

/// Shows how many AI credits agents used in a range of dates.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAgentsUsage {
    #[serde(flatten)]
    range: Range,
}

/// Shows how often automations ran in a range of dates.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAutomationsUsage {
    #[serde(flatten)]
    range: Range,
}

/// Shows an organization's AI credits: limit, used, by kind.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAiCreditUsage {
    /// Uuid or numeric id.
    organization_uuid: Id,
    /// current_month, last_month or last_3_months.
    period: String,
}

impl Range {
    async fn load(
        &self,
        call: &Call<'_>,
        query: fn(&str, &Usage<'_>) -> Query,
        message: &str,
    ) -> Result<Outcome, ToolError> {
        let (from, to) = (self.filter_date_from.trim(), self.filter_date_to.trim());
        for (name, date) in [("filter_date_from", from), ("filter_date_to", to)] {
            if date.is_empty() {
                return Err(ToolError::invalid(format!("{name} must not be blank.")));
            }
            if !is_date(date) {
                return Err(ToolError::invalid(format!(
                    "{name} must be ISO 8601: a day (YYYY-MM-DD) or a date-time, such as 2026-01-31T00:00:00Z."
                )));
            }
        }
        if is_reversed(from, to) {
            return Err(ToolError::invalid(format!(
                "filter_date_from ({from}) lies after filter_date_to ({to}); exchange them."
            )));
        }
        let organization = self.organization_uuid.as_str();
        let uuid = uuid_of(call, organization).await?;
        let (filters, search, sort) = (self.filters.as_ref(), self.search.as_deref(), self.sort.as_ref());
        let explain = Explain::doing("load the usage").about("organization", organization);
        let usage = Usage { from, to, filters, search, sort };
        let data = call.query(query(&uuid, &usage)).await.map_err(|e| explain.map(call, e))?;
        Ok(Outcome::new(data).message(message))
    }
}

impl Read for GetAgentsUsage {
    const OP: Op = Op::read("get_agents_usage", Domain::Intelligence, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[IdArg::new("organization_uuid", IdKind::Organization)])
        .narrows(&documents::observability::GET_AGENTS_USAGE, "agentsUsageDetails.agents.nodes");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        self.range.load(call, observability::get_agents_usage, "AI agent usage loaded.").await
    }
}

impl Read for GetAutomationsUsage {
    const OP: Op = Op::read("get_automations_usage", Domain::Automation, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[IdArg::new("organization_uuid", IdKind::Organization)])
        .narrows(&documents::observability::GET_AUTOMATIONS_USAGE, "automationsUsageDetails.automations.nodes");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        self.range.load(call, observability::get_automations_usage, "Automation usage loaded.").await
    }
}

impl Read for GetAiCreditUsage {
    const OP: Op = Op::read("get_ai_credit_usage", Domain::Intelligence, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Manager])
        .debug()
        .touches(&[IdArg::new("organization_uuid", IdKind::Organization)])
        .narrows(&documents::observability::GET_AI_CREDIT_USAGE, "aiCreditUsageStats");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let period = period(&self.period)?;
        if !self.organization_uuid.is_checked() {
            return Err(ToolError::invalid("organization_uuid must be a uuid or a positive number."));
        }
        let given = self.organization_uuid.as_str();
        let uuid = uuid_of(call, given).await?;
        let explain = Explain::doing("load the AI credits").about("organization", given);
        let data =
            call.query(observability::get_ai_credit_usage(&uuid, period)).await.map_err(|e| explain.map(call, e))?;
        Ok(Outcome::new(data).message("AI credit usage loaded."))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use serde_json::json;

    use super::*;
    use crate::tools::testing::Mock;

    const UUID: &str = "11111111-2222-4333-8444-555555555555";

    fn arguments(organization: Value) -> Value {
        json!({"organization_uuid": organization, "filter_date_from": " 2026-01-01 ", "filter_date_to": "2026-02-01", "period": "last_month"})
    }

    #[tokio::test]
    async fn a_number_is_looked_up_and_a_uuid_is_not() {
        for (tool, root) in [
            ("get_agents_usage", "agentsUsageDetails"),
            ("get_automations_usage", "automationsUsageDetails"),
            ("get_ai_credit_usage", "aiCreditUsageStats"),
        ] {
            let mock = Mock::new().on(root, json!({"usage": 1}));
            assert_eq!(mock.reply(tool, arguments(json!(UUID))).await["data"][root]["usage"], 1);
            let mock = Mock::new().on(root, json!({})).on("organization", json!({"uuid": UUID}));
            mock.reply(tool, arguments(json!(12))).await;
            assert_eq!(mock.sent()[1].variables["organizationUuid"], UUID);
            let mock = Mock::new().on("organization", json!(null));
            assert_eq!(mock.reply(tool, arguments(json!(12))).await["error"]["code"], "NOT_FOUND");
            let mock = Mock::new();
            assert_eq!(mock.reply(tool, arguments(json!("abc"))).await["error"]["code"], "INVALID_ARGUMENTS");
            assert!(mock.sent().is_empty());
        }
        let mock = Mock::new();
        let mut blank = arguments(json!(UUID));
        blank["filter_date_to"] = json!(" ");
        assert!(
            mock.reply("get_agents_usage", blank).await["error"]["message"]
                .as_str()
                .unwrap()
                .contains("filter_date_to")
        );
        let mut reversed = arguments(json!(UUID));
        reversed["filter_date_from"] = json!("2026-02-02T00:00:00Z");
        let reply = mock.reply("get_automations_usage", reversed).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains("lies after"), "{reply}");
        let mut unknown = arguments(json!(UUID));
        unknown["period"] = json!("today");
        assert!(
            mock.reply("get_ai_credit_usage", unknown).await["error"]["message"].as_str().unwrap().contains("period")
        );
        assert!(mock.sent().is_empty());
    }
}
