use pipefy::members;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::membership::{ROLES, is_member, row, row_errors};
use crate::tools::shared::{list_at, send};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write,
};

/// Invites people to a pipe by e-mail.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct InviteMembers {
    pipe_id: CheckedId,
    /// [{email, role_name}]; roles: admin, member, my_cards_only, read_and_comment and others of the pipe.
    members: Vec<Map<String, Value>>,
}

pub(crate) struct Keep {
    pipe_id: String,
    emails: Vec<String>,
}

impl Write for InviteMembers {
    const OP: Op = Op::write("invite_members", Domain::Governance, Shape::Result)
        .personas(&[Persona::Admin])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);
    type Keep = Keep;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let needed = "each needs `email` and `role_name`";
        if self.members.is_empty() {
            return Err(ToolError::invalid(format!("`members` must not be empty; {needed}.")));
        }
        let lacks = |member: &Map<String, Value>| !(member.contains_key("email") && member.contains_key("role_name"));
        if let Some(index) = self.members.iter().position(lacks) {
            return Err(ToolError::invalid(format!("members[{index}] is incomplete; {needed}.")));
        }
        let rows =
            self.members.iter().enumerate().map(|(index, member)| row(index, member)).collect::<Result<Vec<_>, _>>()?;
        let emails = rows.iter().filter_map(|row| row.get("email")?.as_str().map(str::to_owned)).collect();
        let pipe_id = self.pipe_id.to_string();
        let mutation = members::invite_members(&pipe_id, rows);
        Ok(Plan::new(Keep { pipe_id, emails }).then(mutation))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("invite members").about("pipe", &plan.keep.pipe_id);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        let refused = row_errors(&data.value());
        if refused.len() >= plan.keep.emails.len() && list_at(&data.value(), "inviteMembers.users").is_empty() {
            let message = format!("Nobody was invited: {}. {ROLES}.", refused.join("; "));
            return Err(ToolError::invalid(message));
        }
        let message = if refused.is_empty() {
            "Members invited.".to_owned()
        } else {
            format!("Not everybody was invited: {}.", refused.join("; "))
        };
        Ok(Outcome::new(data).message(message))
    }

    async fn verify(plan: &Plan<Keep>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let mut missing = Vec::new();
        for email in &plan.keep.emails {
            match is_member(call, &plan.keep.pipe_id, email).await {
                Some(true) => {}
                Some(false) => missing.push(email.as_str()),
                None => return Some(Verification::unknown("the members could not be read back")),
            }
        }
        Some(match missing.as_slice() {
            [] => Verification::of(true, "all are members"),
            missing => Verification::of(false, format!("not members (yet): {}", missing.join(", "))),
        })
    }
}
