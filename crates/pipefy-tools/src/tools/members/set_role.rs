use pipefy::members;
use schemars::JsonSchema;
use serde::Deserialize;

use super::membership::ROLES;
use crate::tools::shared::{list_at, required_text, send, text_of};
use crate::{
    Act, Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError, Verification,
    Write,
};

/// Sets the role of a member of a pipe.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SetRole {
    pipe_id: CheckedId,
    /// The user's id.
    member_id: CheckedId,
    /// admin, member, creator, my_cards_only or read_and_comment.
    role_name: String,
}

pub(crate) struct Keep {
    pipe_id: String,
    member_id: String,
    role: String,
}

impl Write for SetRole {
    const OP: Op = Op::write("set_role", Domain::Governance, Shape::Result)
        .personas(&[Persona::Admin])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe), IdArg::within("member_id", IdKind::Member)]);
    type Keep = Keep;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        let role = required_text("role_name", &self.role_name)?.to_owned();
        let keep = Keep { pipe_id: self.pipe_id.to_string(), member_id: self.member_id.to_string(), role };
        let mutation = members::set_role(&keep.pipe_id, &keep.member_id, &keep.role);
        let before = if call.options.dry_run { role_now(call, &keep).await } else { None };
        let mut plan = Plan::new(keep).then(mutation);
        plan.before = before.map(|role| serde_json::json!({ "role_name": role }));
        Ok(plan)
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let explain = Explain::doing("set role").about("pipe", &plan.keep.pipe_id).hint(ROLES);
        let data = send(plan, act).await.map_err(|e| explain.map(act, e))?;
        Ok(Outcome::new(data).message("Role set."))
    }

    async fn verify(plan: &Plan<Keep>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(match role_now(call, &plan.keep).await {
            Some(role) => Verification::of(role == plan.keep.role, format!("the role is {role}")),
            None => Verification::unknown("the member could not be read back"),
        })
    }
}

/// The role the member has; `None` when there is no such member or it cannot be read.
async fn role_now(call: &Call<'_>, keep: &Keep) -> Option<String> {
    let data = call.query(members::get_pipe_members(&keep.pipe_id)).await.ok()?;
    let value = data.value();
    let member = list_at(&value, "pipe.members")
        .iter()
        .find(|member| member.get("user").and_then(|user| text_of(user.get("id"))).as_ref() == Some(&keep.member_id))?;
    text_of(member.get("role_name"))
}
