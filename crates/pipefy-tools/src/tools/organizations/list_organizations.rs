use pipefy::{documents, organizations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Call, Domain, Explain, IdKind, Op, Outcome, Persona, Reach, Read, Shape, ToolError};

/// Lists the organizations this account belongs to, with role, plan and sizes.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListOrganizations {}

impl Read for ListOrganizations {
    const OP: Op = Op::read("list_organizations", Domain::Governance, Shape::Text)
        .personas(&[Persona::Admin, Persona::Auditor])
        .no_output_schema()
        .reaches(Reach::Listing(&[("organizations", IdKind::Organization)]))
        .selects(&documents::organizations::LIST_ORGANIZATIONS, "organizations");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let data = call
            .query(organizations::list_organizations())
            .await
            .map_err(|e| Explain::doing("list organizations").map(call, e))?;
        let organizations = data.value().get("organizations").filter(|o| !o.is_null()).cloned();
        Ok(Outcome::new(json!({ "organizations": organizations.unwrap_or(Value::Array(Vec::new())) })))
    }
}
