//! Why a permission may have been denied: whether this account is a member of the pipes involved
//! (`spec/tools-pipes-cards.md`, "Permission enrichment").

use futures_util::future::join_all;
use pipefy::{Error, members};
use serde_json::Value;

use crate::tools::shared::{list_at, text_of};
use crate::{Call, dig};

/// One line for each pipe whose membership looks wrong; `None` when there is nothing to say, or not in time.
pub(crate) async fn membership_lines(call: &Call<'_>, error: &Error, pipe_ids: &[&str]) -> Option<String> {
    if !error.has_code("PERMISSION_DENIED") {
        return None;
    }
    let mut distinct: Vec<&str> = Vec::new();
    for id in pipe_ids.iter().filter(|id| !id.is_empty()) {
        if !distinct.contains(id) {
            distinct.push(id);
        }
    }
    let look_ups = join_all(distinct.iter().map(|id| line(call, id)));
    let lines = tokio::time::timeout(call.toolbox.enrichment_timeout, look_ups).await.ok()?;
    let lines: Vec<String> = lines.into_iter().flatten().collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

async fn line(call: &Call<'_>, pipe_id: &str) -> Option<String> {
    let Ok(data) = call.query(members::get_pipe_membership(pipe_id)).await else {
        return Some(format!(
            "Could not verify membership of pipe {pipe_id}; if this account is not a member, add it with `invite_members`."
        ));
    };
    let value = data.value();
    let members = list_at(&value, "pipe.members");
    let me = text_of(dig(&value, "me.id"));
    let is_me = |member: &Value| me.is_none() || text_of(dig(member, "user.id")) == me;
    // Without knowing who asks, having any members is all that can be told.
    if members.iter().any(is_me) {
        return None;
    }
    let name = text_of(dig(&value, "pipe.name")).unwrap_or_else(|| format!("pipe {pipe_id}"));
    Some(format!("This service account may not be a member of {name} (ID: {pipe_id}); add it with `invite_members`."))
}
