use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::rules::{self, PAGE};
use crate::tools::shared::non_blank;
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError, page_size};

/// Lists automations of a pipe or an organization, page by page. Give at least one of both ids.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetAutomations {
    #[serde(default)]
    organization_id: Option<CheckedId>,
    #[serde(default)]
    pipe_id: Option<CheckedId>,
    /// Page size, 1..50 (default 50).
    #[serde(default)]
    first: Option<i64>,
    #[serde(default)]
    after: Option<String>,
}

impl Read for GetAutomations {
    const OP: Op = Op::read("get_automations", Domain::Automation, Shape::Envelope)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager])
        .touches(&[IdArg::new("organization_id", IdKind::Organization), IdArg::new("pipe_id", IdKind::Pipe)])
        .paging("", "", PAGE);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let first = page_size("first", self.first, PAGE)?.unwrap_or(PAGE);
        let after = non_blank(self.after.as_deref());
        let (organization, pipe) = (self.organization_id.as_deref(), self.pipe_id.as_deref());
        let explain = match (organization, pipe) {
            (_, Some(pipe)) => Explain::doing("list automations").about("pipe", pipe),
            (Some(organization), None) => Explain::doing("list automations").about("organization", organization),
            (None, None) => {
                return Err(ToolError::invalid(
                    "Give organization_id or pipe_id: without one there is nothing to list.",
                ));
            }
        };
        let listing = rules::list(call, organization, pipe, Some(first), after)
            .await
            .map_err(|e| explain.map(call, e))?
            .ok_or_else(|| explain.missing())?;
        let message = rules::listing_message(listing.rules.len(), &listing.page);
        Ok(Outcome::new(Value::Array(listing.rules)).message(message).page(Some(listing.page)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use serde_json::json;

    use crate::tools::testing::Mock;

    #[tokio::test]
    async fn one_page_and_all_pages() {
        let page = |id: &str, more: bool| json!({"totalCount": 2, "pageInfo": {"hasNextPage": more, "endCursor": id}, "nodes": [{"id": id}]});
        let mock = || {
            Mock::new()
                .on("pipe", json!({"organizationId": 1}))
                .on("automations", page("a", true))
                .on("automations", page("b", false))
        };
        let reply = mock().reply("get_automations", json!({"pipe_id": "7"})).await;
        assert_eq!(reply["data"], json!([{"id": "a"}]));
        assert_eq!(
            reply["pagination"],
            json!({"has_more": true, "end_cursor": "a", "page_size": 50, "total_count": 2})
        );
        let reply = mock().reply("get_automations", json!({"pipe_id": "7", "all": true})).await;
        assert_eq!(reply["data"], json!([{"id": "a"}, {"id": "b"}]));
        assert_eq!(reply["complete"], true);
    }

    #[tokio::test]
    async fn nothing_to_list_is_no_empty_list() {
        let mock = Mock::new();
        assert_eq!(mock.reply("get_automations", json!({})).await["error"]["code"], "INVALID_ARGUMENTS");
        assert_eq!(
            mock.reply("get_automations", json!({"pipe_id": 7, "first": 51})).await["error"]["details"]["max"],
            50
        );
        assert!(mock.sent().is_empty());
        let reply = Mock::new().on("pipe", json!(null)).reply("get_automations", json!({"pipe_id": 7})).await;
        assert_eq!(reply["error"]["code"], "NOT_FOUND");
    }
}
