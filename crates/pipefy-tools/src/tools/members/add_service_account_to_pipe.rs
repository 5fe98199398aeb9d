use pipefy::{Error, OperationKind, members};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::membership::{is_member, row, row_errors};
use crate::tools::shared::{required_text, send_unproven};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write,
};

/// Gives a service account a role on a pipe, and checks that it is a member then.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct AddServiceAccountToPipe {
    pipe_id: CheckedId,
    email: String,
    /// See set_role.
    #[serde(default = "admin")]
    role_name: String,
}

fn admin() -> String {
    "admin".to_owned()
}

pub(crate) struct Keep {
    pipe_id: String,
    email: String,
}

impl Write for AddServiceAccountToPipe {
    const OP: Op = Op::write("add_service_account_to_pipe", Domain::Governance, Shape::Result)
        .personas(&[Persona::Admin])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);
    type Keep = Keep;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let mut member = Map::new();
        member.insert("email".to_owned(), required_text("email", &self.email)?.into());
        member.insert("role_name".to_owned(), required_text("role_name", &self.role_name)?.into());
        let row = row(0, &member)?;
        let email = row.get("email").and_then(Value::as_str).unwrap_or_default().to_owned();
        let pipe_id = self.pipe_id.to_string();
        let mutation = members::invite_members(&pipe_id, vec![row]);
        Ok(Plan::new(Keep { pipe_id, email }).then(mutation))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Keep { pipe_id, email } = &plan.keep;
        let explain = Explain::doing("add the service account").about("pipe", pipe_id);
        let data = send_unproven(plan, act).await.map_err(|e| explain.map(act, e))?;
        let value = data.value();
        let silent = value.get("inviteMembers").is_none_or(Value::is_null);
        match is_member(act, pipe_id, email).await {
            Some(true) => Ok(Outcome::new(data).message(format!("{email} is a member of pipe {pipe_id}."))),
            // Neither the answer nor the members say that it worked.
            None if silent => {
                Err(explain
                    .map(act, Error::NoPayload { field: "inviteMembers".to_owned(), kind: OperationKind::Mutation }))
            }
            None => Ok(Outcome::new(data)
                .message(format!("{email} was invited to pipe {pipe_id}; the members could not be read to check it."))),
            Some(false) => {
                let reasons = row_errors(&value);
                let reason =
                    if reasons.is_empty() { "the invite did not take effect".to_owned() } else { reasons.join("; ") };
                let error = ToolError::api(format!(
                    "{email} is not a member of pipe {pipe_id}: {reason}. Confirm the e-mail of the service account."
                ));
                Err(if reasons.is_empty() { error } else { error.code("INVALID_ARGUMENTS") })
            }
        }
    }

    async fn verify(plan: &Plan<Keep>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let Keep { pipe_id, email } = &plan.keep;
        Some(match is_member(call, pipe_id, email).await {
            Some(member) => Verification::of(member, format!("looked for {email} among the members")),
            None => Verification::unknown("the members could not be read back"),
        })
    }
}
