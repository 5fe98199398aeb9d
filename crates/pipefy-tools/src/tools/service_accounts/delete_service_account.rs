use pipefy::{Error, service_accounts};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::shared::{required_text, send};
use crate::{
    Act, Call, Confirmation, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Write, dig,
};

/// Deletes a service account for good; everything that signs in with it stops.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteServiceAccount {
    organization_uuid: String,
    service_account_uuid: String,
}

impl Write for DeleteServiceAccount {
    const OP: Op = Op::destructive("delete_service_account", Domain::Governance, Shape::Envelope)
        .personas(&[Persona::Admin])
        .debug()
        .touches(&[
            IdArg::new("organization_uuid", IdKind::Organization),
            IdArg::within("service_account_uuid", IdKind::Member),
        ]);
    type Keep = String;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<String>, ToolError> {
        let organization = required_text("organization_uuid", &self.organization_uuid)?;
        let account = required_text("service_account_uuid", &self.service_account_uuid)?;
        let identity = json!({ "service_account_uuid": account, "organization_uuid": organization });
        let mutation = service_accounts::delete_service_account(organization, account);
        let confirmation = Confirmation::delete(format!("service account {account}"), identity);
        Ok(Plan::new(account.to_owned()).then(mutation).confirm(confirmation))
    }

    async fn act(plan: &Plan<String>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let did_not = format!("Deleting service account {} did not succeed", plan.keep);
        let data = send(plan, act).await.map_err(|error| match error {
            error @ (Error::Declined { .. } | Error::NoPayload { .. }) => {
                let message = format!("{did_not}: {error}.");
                ToolError::from(error).message(message)
            }
            error => Explain::doing("delete the service account").map(act, error),
        })?;
        if dig(&data.value(), "deleteServiceAccount.success").and_then(Value::as_bool) != Some(true) {
            return Err(ToolError::api(format!("{did_not}.")));
        }
        Ok(Outcome::new(json!({ "success": true })).message("Service account deleted."))
    }
}
