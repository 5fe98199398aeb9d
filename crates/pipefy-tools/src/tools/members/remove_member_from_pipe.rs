use pipefy::{Id, members, pipes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::membership::is_number;
use crate::plan::unknown;
use crate::tools::shared::{list_at, text_of};
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError,
    Verification, Write, dig,
};

/// Removes users from a pipe, and checks that they are gone then.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct RemoveMemberFromPipe {
    /// Numeric id.
    pipe_id: CheckedId,
    /// User ids or uuids.
    user_ids: Vec<Id>,
}

pub(crate) struct Keep {
    pipe_id: String,
    user_ids: Vec<String>,
}

impl Write for RemoveMemberFromPipe {
    const OP: Op = Op::destructive("remove_member_from_pipe", Domain::Governance, Shape::Result)
        .personas(&[Persona::Admin])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe), IdArg::within("user_ids", IdKind::Member)]);
    type Keep = Keep;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Keep>, ToolError> {
        if self.user_ids.is_empty() {
            return Err(ToolError::invalid("`user_ids` must not be empty."));
        }
        let pipe_id = self.pipe_id.to_string();
        if !is_number(&pipe_id) {
            return Err(ToolError::invalid("pipe_id must be a numeric pipe ID here, not a uuid or name."));
        }
        let user_ids: Vec<String> = self.user_ids.into_iter().map(String::from).collect();
        let count = user_ids.len();
        let list = user_ids.join(", ");
        let identity = json!({ "pipe_id": pipe_id, "user_ids": user_ids });
        let confirmation = Confirmation::delete(format!("{count} member(s) from pipe {pipe_id}"), identity)
            .sentence(format!(
                "\u{26a0}\u{fe0f} Removing {count} member(s) from pipe {pipe_id} takes away their access (user IDs: {list})."
            ))
            .verb("remove");
        let keep = Keep { pipe_id, user_ids };
        // Pipefy wants uuids. They are looked up when it is time to send, so that a preview costs no read.
        let (pipe, users) = if call.options.dry_run {
            uuids(call, &keep).await?
        } else {
            let users = keep.user_ids.iter().map(|id| unknown(&format!("uuid of user {id}"))).collect();
            (unknown("uuid of the pipe"), users)
        };
        let mutation = members::remove_members_from_pipe(pipe, users);
        Ok(Plan::new(keep).then(mutation).confirm(confirmation))
    }

    async fn act(plan: &Plan<Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Keep { pipe_id, .. } = &plan.keep;
        let explain = explain(pipe_id);
        let (pipe, users) = uuids(act, &plan.keep).await?;
        let mutation = members::remove_members_from_pipe(pipe, users);
        let data = act.send(&mutation).await.map_err(|e| explain.map(act, e))?;
        let warning = match still_there(act, &plan.keep).await {
            Some(left) if !left.is_empty() => Some(format!(
                "Still members after the removal: {}. Their org-level permissions may override the pipe's.",
                left.join(", ")
            )),
            _ => None,
        };
        Ok(Outcome::new(data).message("Members removed.").extra_opt("warning", warning))
    }

    async fn verify(plan: &Plan<Keep>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(match still_there(call, &plan.keep).await {
            Some(left) if left.is_empty() => Verification::of(true, "none of them is a member any more"),
            Some(left) => Verification::of(false, format!("still members: {}", left.join(", "))),
            None => Verification::unknown("the members could not be read back"),
        })
    }
}

fn explain(pipe_id: &str) -> Explain<'_> {
    Explain::doing("remove members")
        .about("pipe", pipe_id)
        .hint("`get_pipe_members` lists the user ids and uuids of the pipe's members.")
}

/// The uuid of the pipe and of the users; what is not known goes as it was given.
async fn uuids(call: &Call<'_>, keep: &Keep) -> Result<(Value, Vec<Value>), ToolError> {
    let explain = explain(&keep.pipe_id);
    let data = call.query(pipes::get_pipe(&keep.pipe_id)).await.map_err(|e| explain.map(call, e))?;
    let pipe = text_of(dig(&data.value(), "pipe.uuid")).unwrap_or_else(|| keep.pipe_id.clone());
    let members = if keep.user_ids.iter().any(|id| is_number(id)) {
        let data = call.query(members::get_pipe_members(&keep.pipe_id)).await.map_err(|e| explain.map(call, e))?;
        data.value()
    } else {
        Value::Null
    };
    let uuid_of = |id: &String| {
        list_at(&members, "pipe.members")
            .iter()
            .filter_map(|member| member.get("user"))
            .find(|user| text_of(user.get("id")).as_ref() == Some(id))
            .and_then(|user| text_of(user.get("uuid")))
    };
    let users = keep.user_ids.iter().map(|id| uuid_of(id).unwrap_or_else(|| id.clone()).into()).collect();
    Ok((pipe.into(), users))
}

/// Which of the users are members, sorted; `None` when it cannot be read.
async fn still_there(call: &Call<'_>, keep: &Keep) -> Option<Vec<String>> {
    let data = call.query(members::get_pipe_members(&keep.pipe_id)).await.ok()?;
    let value = data.value();
    let mut left: Vec<String> = keep
        .user_ids
        .iter()
        .filter(|id| {
            list_at(&value, "pipe.members")
                .iter()
                .filter_map(|member| member.get("user"))
                .any(|user| ["id", "uuid"].iter().any(|key| text_of(user.get(*key)).as_ref() == Some(*id)))
        })
        .cloned()
        .collect();
    left.sort();
    Some(left)
}
