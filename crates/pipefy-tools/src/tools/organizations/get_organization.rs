use pipefy::{documents, organizations};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Reads one organization: uuid, plan, role, numbers of members and pipes.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetOrganization {
    /// The number, not the uuid.
    organization_id: CheckedId,
}

impl Read for GetOrganization {
    const OP: Op = Op::read("get_organization", Domain::Governance, Shape::Text)
        .personas(&[Persona::Admin, Persona::Auditor])
        .no_output_schema()
        .touches(&[IdArg::new("organization_id", IdKind::Organization)])
        .selects(&documents::organizations::GET_ORGANIZATION, "organization");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("load organization").about("organization", &self.organization_id);
        let data = call
            .query(organizations::get_organization(&self.organization_id))
            .await
            .map_err(|e| Explain::doing("load organization").map(call, e))?;
        let organization = data.value().get_mut("organization").map(serde_json::Value::take).unwrap_or_default();
        if organization.is_null() {
            let failure = explain.missing();
            let message = format!("{} `list_organizations` shows those of this account.", failure.message);
            return Err(failure.message(message));
        }
        Ok(Outcome::new(organization).parsed(true))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use serde_json::{Value, json};

    use crate::tools::testing::Mock;

    #[tokio::test]
    async fn the_organization_itself_is_shown() {
        let organization = json!({"id": "1", "name": "Caf\u{e9}", "uuid": "u"});
        let mock = Mock::new().on("organization", organization.clone());
        let reply = mock.reply("get_organization", json!({"organization_id": 1})).await;
        assert_eq!(reply["data"], organization);
        assert_eq!(serde_json::from_str::<Value>(reply["result"].as_str().unwrap()).unwrap(), organization);
        assert_eq!(mock.sent()[0].variables, json!({"id": "1"}));
    }

    #[tokio::test]
    async fn a_null_organization_is_not_found_and_a_denial_is_a_failure() {
        let reply =
            Mock::new().on("organization", Value::Null).reply("get_organization", json!({"organization_id": 7})).await;
        assert_eq!(reply["error"]["code"], "NOT_FOUND");
        assert!(reply["error"]["message"].as_str().unwrap().contains('7'));
        let mock = Mock::new().error("organization", "Permission denied", "PERMISSION_DENIED");
        let reply = mock.reply("get_organization", json!({"organization_id": 7})).await;
        assert_eq!(reply["success"], false);
        let mock = Mock::new();
        assert_eq!(mock.reply("get_organization", json!({"organization_id": true})).await["success"], false);
        assert!(mock.sent().is_empty());
    }
}
