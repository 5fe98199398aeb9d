//! One of every kind, switched off: rules for each event and action, an agent with each type of action, field conditions
//! with groups, without expressions and for whole phases. Something to read, to copy and to write back.

use super::Garden;
use super::extras::{board, field};
use crate::ctx::stamp;
use crate::error::GqlError;
use crate::events;
use crate::json::{set, text};
use crate::store::Links;
use serde_json::{Value, json};

const PIPE: &str = "Employee Onboarding";

pub(super) fn plant(garden: &mut Garden<'_>) -> Result<(), GqlError> {
    conditions(garden)?;
    rules(garden)?;
    agent(garden)
}

/// `(a and b) or c`, over the fields of the pipe.
fn grouped(garden: &Garden<'_>) -> Result<Value, GqlError> {
    let rows =
        [("Position", "equals", "Intern"), ("Start date", "date_is_after", "2026-01-31"), ("Desk", "present", "")];
    let mut expressions = Vec::new();
    for (place, (label, operation, value)) in rows.into_iter().enumerate() {
        expressions.push(json!({
            "id": garden.ctx.new_id("expression")?, "field_address": field(garden, PIPE, label)?, "operation": operation,
            "value": value, "structure_id": place.to_string(),
        }));
    }
    Ok(json!({
        "id": garden.ctx.new_id("condition_expression")?, "expressions": expressions,
        "expressions_structure": [["0", "1"], ["2"]],
    }))
}

fn conditions(garden: &Garden<'_>) -> Result<(), GqlError> {
    let ctx = garden.ctx;
    let phases = board(garden, PIPE)?;
    let phase = phases.first().cloned().unwrap_or_default();
    let (files, number) = (field(garden, PIPE, "Scanned files")?, field(garden, PIPE, "Employee number")?);
    let nothing = json!({ "id": ctx.new_id("condition_expression")?, "expressions": [], "expressions_structure": [] });
    let of_field = |kind: &str, field: &str, when: bool| json!({ "actionId": kind, "phaseFieldId": field, "phaseId": phase, "whenEvaluator": when });
    let rows = [
        ("Files of interns", grouped(garden)?, vec![of_field("show", &files, true), of_field("hide", &number, false)]),
        ("Number for everybody", nothing, vec![of_field("show", &number, true)]),
        (
            "Equipment after the papers",
            grouped(garden)?,
            vec![json!({ "actionId": "show", "phaseFieldId": null, "phaseId": phases.get(1), "whenEvaluator": true })],
        ),
    ];
    for (name, condition, mut actions) in rows {
        let id = ctx.new_id("condition")?;
        for action in &mut actions {
            set(action, "id", ctx.new_id("condition_action")?);
        }
        let body = json!({
            "id": id, "name": name, "phase_id": phase, "pipe_id": garden.repo(PIPE), "condition": condition, "actions": actions,
        });
        ctx.put("condition", &id, &Links::parent(&phase).group(&garden.repo(PIPE)), body)?;
    }
    Ok(())
}

fn rules(garden: &Garden<'_>) -> Result<(), GqlError> {
    let ctx = garden.ctx;
    let pipe = garden.repo(PIPE);
    let phases = board(garden, PIPE)?;
    let at = |place: usize| phases.get(place).cloned().unwrap_or_default();
    let (name, desk) = (field(garden, PIPE, "Full name")?, field(garden, PIPE, "Desk")?);
    let need = field(garden, "Purchase Requests", "What do you need?")?;
    let (buying, suppliers) = (garden.repo("Purchase Requests"), garden.repo("Fornecedores"));
    let supplier = ctx.grouped("field", &suppliers)?.first().map(|f| text(f, "internal_id").to_owned());
    let copied = |to: &str| json!([{ "fieldId": to, "inputMode": "copy_from", "value": format!("%{{{name}}}") }]);
    let day = json!({ "enabled": true, "startHour": "09:00", "endHour": "18:00" });
    let off = json!({ "enabled": false, "startHour": null, "endHour": null });
    let rows = [
        (
            "Say good-bye to the papers",
            json!({ "event_id": "card_left_phase", "event_params": { "fromPhaseId": at(0) }, "action_id": "send_a_task",
                "action_params": { "taskParams": { "title": "File the papers of %{title}", "recipients": "office@aurora.example" } } }),
        ),
        (
            "On when everything was bought",
            json!({ "event_id": "all_children_in_phase", "event_params": { "to_phase_id": at(1) }, "action_id": "move_single_card",
                "action_params": { "to_phase_id": at(2) } }),
        ),
        (
            "Order what was asked for by e-mail",
            json!({ "event_id": "card_inbox_received_email", "action_id": "create_connected_card", "action_repo_id": buying,
                "action_params": { "field_map": copied(&need), "fields_map_order": [need] } }),
        ),
        (
            "Parent moves along",
            json!({ "event_id": "card_moved", "event_params": { "to_phase_id": at(3) }, "action_id": "move_parent_card",
                "action_params": { "to_phase_id": at(3) } }),
        ),
        (
            "Weekly supplier",
            json!({ "event_id": "scheduler", "schedulerCron": { "cron": "0 9 * * 1", "timezone": "UTC" },
                "searchFor": [{ "field": "title", "operator": "string_contains", "value": "a" }],
                "action_id": "create_table_record", "action_repo_id": suppliers,
                "action_params": { "field_map": [{ "fieldId": supplier, "inputMode": "fixed_value", "value": "Weekly" }] } }),
        ),
        (
            "Ask the personnel system",
            json!({ "event_id": "manually_triggered", "action_id": "send_http_request",
                "responseSchema": { "type": "object", "properties": { "desk": { "type": "string" } } },
                "action_params": { "url": "https://personnel.example.com/people", "httpMethod": "POST",
                    "headers": "{\"accept\":\"application/json\"}", "body": format!("{{\"name\":\"%{{{name}}}\"}}"),
                    "authenticationType": "api_key", "authenticationAddTo": "header", "authenticationKey": "x-key",
                    "authenticationValue": "not-a-real-key" } }),
        ),
        (
            "Working hours",
            json!({ "event_id": "http_response_received", "action_id": "apply_sla_rules",
                "action_params": { "slaParams": { "timezone": "America/Sao_Paulo", "monday": day, "tuesday": day, "wednesday": day,
                    "thursday": day, "friday": day, "saturday": off, "sunday": off,
                    "holidays": [{ "date": "2026-12-25", "description": "Christmas", "recurrence": "yearly" }] } } }),
        ),
        (
            "Welcome text",
            json!({ "event_id": "field_updated", "event_params": { "triggerFieldIds": [desk] }, "action_id": "generate_with_ai",
                "action_params": { "aiParams": { "value": format!("Welcome %{{{name}}}"), "fieldIds": [desk], "skillsIds": [] } } }),
        ),
    ];
    let mut before = String::new();
    for (name, rest) in rows {
        let id = ctx.new_id("automation")?;
        let mut body = json!({
            "id": id, "name": name, "active": false, "actionEnabled": true, "disabledReason": null,
            "created_at": stamp(super::back(ctx, 1_400)), "event_repo_id": pipe, "action_repo_id": pipe, "event_params": {},
            "related_card_ids": [], "private_metrics": false, "searchFor": [], "condition": grouped(garden)?,
        });
        for (key, value) in rest.as_object().into_iter().flatten() {
            set(&mut body, key, value.clone());
        }
        if text(&body, "event_id") == "http_response_received" {
            set(&mut body, "event_params", json!({ "triggerAutomationId": before }));
        }
        events::plan_next(ctx, &mut body);
        ctx.put("automation", &id, &Links::parent(&garden.org).group(&pipe), body)?;
        before = id;
    }
    Ok(())
}

fn agent(garden: &Garden<'_>) -> Result<(), GqlError> {
    let ctx = garden.ctx;
    let pipe = ctx.must("pipe", "Pipe", &garden.repo(PIPE))?;
    let phases = board(garden, PIPE)?;
    let at = |place: usize| phases.get(place).cloned().unwrap_or_default();
    let (desk, name) = (field(garden, PIPE, "Desk")?, field(garden, PIPE, "Full name")?);
    let (buying, suppliers) = (garden.repo("Purchase Requests"), garden.repo("Fornecedores"));
    let need = field(garden, "Purchase Requests", "What do you need?")?;
    let supplier = ctx.grouped("field", &suppliers)?.first().map(|f| text(f, "internal_id").to_owned());
    let template = ctx.children("email_template", &buying)?.first().map(|t| text(t, "id").to_owned());
    let fill = |id: &str| json!([{ "fieldId": id, "inputMode": "fill_with_ai", "value": "" }]);
    let behaviors = [
        (
            json!({ "name": "Get the desk ready", "event_id": "card_created", "event_params": {}, "condition": grouped(garden)? }),
            json!({ "systemProviderId": "902", "capabilitiesAttributes": [{ "capabilityType": "web_search", "enabled": true },
                { "capabilityType": "math_operations", "enabled": false }] }),
            vec![
                json!({ "name": "Ask for a desk", "actionType": "create_card", "metadata": { "pipeId": buying, "fieldsAttributes": fill(&need) } }),
                json!({ "name": "And a chair", "actionType": "create_connected_card", "metadata": { "pipeId": buying, "fieldsAttributes": fill(&need) } }),
                json!({ "name": "Note who sells", "actionType": "create_table_record", "metadata": { "tableId": suppliers,
                    "fieldsAttributes": [{ "fieldId": supplier, "inputMode": "fixed_value", "value": "Desks Ltd" }] } }),
            ],
        ),
        (
            json!({ "name": "Go on", "event_id": "card_moved", "event_params": { "to_phase_id": at(1) }, "condition": null }),
            json!({ "referencedFieldIds": [name] }),
            vec![
                json!({ "name": "Write the desk", "actionType": "update_card", "metadata": { "pipeId": text(&pipe, "id"), "fieldsAttributes": fill(&desk) } }),
                json!({ "name": "Move", "actionType": "move_card", "metadata": { "destinationPhaseId": at(2) } }),
            ],
        ),
        (
            json!({ "name": "Tell", "event_id": "field_updated", "event_params": { "triggerFieldIds": [desk] }, "condition": null }),
            json!({}),
            vec![
                json!({ "name": "Write", "actionType": "send_email_template", "metadata": { "emailTemplateId": template, "allowTemplateModifications": true } }),
            ],
        ),
        (
            json!({ "name": "Check", "event_id": "card_left_phase", "event_params": { "fromPhaseId": at(2) }, "condition": null, "active": false }),
            json!({}),
            vec![
                json!({ "name": "Ask a person", "actionType": "human_validation", "metadata": { "emails": ["office@aurora.example"], "title": "Is all well?" } }),
            ],
        ),
        (
            json!({ "name": "Remind", "event_id": "sla_based", "event_params": { "kindOfSla": "late", "inPhaseId": at(0) }, "condition": null }),
            json!({}),
            vec![
                json!({ "name": "Ring", "actionType": "mcp_tool", "metadata": { "mcpServerId": "41", "toolName": "ring_bell",
                "toolInputs": [{ "fieldId": name, "name": "who", "source": "field", "value": null }] } }),
            ],
        ),
    ];
    let mut kept = Vec::new();
    for (mut behavior, more, mut actions) in behaviors {
        let mut instruction = format!("Help %{{field:{name}}} to start.");
        for action in &mut actions {
            let reference = ctx.new_uuid()?;
            set(action, "id", ctx.new_id("agent_action")?);
            set(action, "referenceId", reference.as_str());
            instruction.push_str(&format!("\n%{{action:{reference}}}"));
        }
        let mut ai = json!({
            "uuid": ctx.new_uuid()?, "instruction": instruction, "dataSourceIds": [], "referencedFieldIds": [name],
            "capabilitiesAttributes": [], "actionsAttributes": actions,
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            set(&mut ai, key, value.clone());
        }
        set(&mut behavior, "id", ctx.new_id("agent_behavior")?);
        set(&mut behavior, "action_id", "ai_behavior");
        if behavior.get("active").is_none() {
            set(&mut behavior, "active", true);
        }
        set(&mut behavior, "action_params", json!({ "aiBehaviorParams": ai }));
        kept.push(behavior);
    }
    let uuid = ctx.new_uuid()?;
    let body = json!({
        "uuid": uuid, "name": "Onboarding helper", "instruction": "Help new colleagues to start.", "repoUuid": text(&pipe, "uuid"),
        "dataSourceIds": [], "disabledAt": stamp(super::back(ctx, 100)), "needReview": false, "behaviors": kept,
        "created_at": stamp(super::back(ctx, 800)),
    });
    ctx.put("agent", &uuid, &Links::parent(text(&pipe, "uuid")).uuid(&uuid), body)?;
    Ok(())
}
