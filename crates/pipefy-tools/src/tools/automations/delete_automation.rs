use pipefy::{Error, automations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::rules;
use crate::{
    Act, Call, CheckedId, Confirmation, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Shape, ToolError,
    Verification, Write,
};

/// Deletes an automation for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteAutomation {
    automation_id: CheckedId,
}

/// Deletes an AI automation for good.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteAiAutomation {
    automation_id: CheckedId,
}

pub(crate) struct Deleted {
    id: String,
    note: String,
}

impl Write for DeleteAutomation {
    const OP: Op = Op::destructive("delete_automation", Domain::Automation, Shape::Flat)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("automation_id", IdKind::Automation)]);
    type Keep = Deleted;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Deleted>, ToolError> {
        let before =
            if call.options.dry_run { rules::read(call, &self.automation_id).await.ok().flatten() } else { None };
        Ok(plan(&self.automation_id, "automation", String::new(), before))
    }

    async fn act(plan: &Plan<Deleted>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        delete(plan, act, "automation", "Automation").await
    }

    async fn verify(plan: &Plan<Deleted>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(gone(plan, call).await)
    }
}

impl Write for DeleteAiAutomation {
    const OP: Op = Op::destructive("delete_ai_automation", Domain::Automation, Shape::Flat)
        .personas(&[Persona::Builder])
        .debug()
        .no_output_schema()
        .touches(&[IdArg::new("automation_id", IdKind::Automation)]);
    type Keep = Deleted;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Deleted>, ToolError> {
        // The API deletes any rule by this id, so say so before when it is no AI automation; a failed look is no reason to stop.
        let before = rules::read(call, &self.automation_id).await.ok().flatten();
        let note = rules::other_action(before.as_ref());
        Ok(plan(&self.automation_id, "AI automation", note, before))
    }

    async fn act(plan: &Plan<Deleted>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        delete(plan, act, "ai_automation", "AI automation").await
    }

    async fn verify(plan: &Plan<Deleted>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(gone(plan, call).await)
    }
}

fn plan(id: &str, noun: &str, note: String, before: Option<Value>) -> Plan<Deleted> {
    let resource = format!("{noun} (ID: {id})");
    let mut confirmation = Confirmation::delete(resource.clone(), json!({ "automation_id": id }));
    if !note.is_empty() {
        confirmation = confirmation
            .sentence(format!("\u{26a0}\u{fe0f} Deleting {resource} is permanent and cannot be undone.{note}"));
    }
    let mut plan =
        Plan::new(Deleted { id: id.to_owned(), note }).then(automations::delete_automation(id)).confirm(confirmation);
    plan.before = before;
    plan
}

async fn delete(plan: &Plan<Deleted>, act: &Act<'_, '_>, kind: &str, noun: &str) -> Result<Outcome, ToolError> {
    let Deleted { id, note } = &plan.keep;
    for mutation in plan.mutations() {
        act.send(mutation).await.map_err(|error| {
            let declined = matches!(error, Error::Declined { .. });
            let failure = Explain::doing("delete the automation").about(kind, id).map(act, error);
            if !declined {
                return failure;
            }
            let message = format!("Deleting {noun} {id} did not succeed: {}", failure.message);
            failure.message(message)
        })?;
    }
    Ok(Outcome::new(json!({ "automation": {} })).message(format!("{noun} deleted (ID: {id}).{note}")))
}

async fn gone(plan: &Plan<Deleted>, call: &Call<'_>) -> Verification {
    match rules::read(call, &plan.keep.id).await {
        Ok(rule) => Verification::of(rule.is_none(), "read the automation again"),
        Err(error) if error.has_code("RESOURCE_NOT_FOUND") || error.has_code("NOT_FOUND") => {
            Verification::of(true, "the automation can no longer be found")
        }
        Err(error) => Verification::unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::{Mock, WriteRules};

    #[tokio::test]
    async fn both_ask_first_and_delete_once() {
        for tool in ["delete_automation", "delete_ai_automation"] {
            let sent = WriteRules::new(tool, json!({"automation_id": 7}))
                .read("automation", json!({"id": "7", "action_id": "move_single_card"}))
                .write("deleteAutomation", json!({"success": true}))
                .check()
                .await;
            assert_eq!(sent[0].variables["input"], json!({"id": "7"}));
        }
        let mock = Mock::new().on("automation", json!({"id": "7", "action_id": "move_single_card"}));
        let reply = mock.reply("delete_ai_automation", json!({"automation_id": 7})).await;
        assert!(reply["message"].as_str().unwrap().contains("not an AI automation"), "{reply}");
    }
}
