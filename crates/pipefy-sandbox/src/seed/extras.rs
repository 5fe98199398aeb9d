//! Rules and helpers around the cards: field conditions, automations with their runs, agents, webhooks, templates.

use super::Garden;
use crate::ctx::stamp;
use crate::domains::phases;
use crate::error::GqlError;
use crate::json::text;
use crate::store::Links;
use crate::values;
use jiff::SignedDuration;
use serde_json::{Value, json};

pub(super) fn plant(garden: &mut Garden<'_>) -> Result<(), GqlError> {
    conditions(garden)?;
    templates(garden)?;
    automations(garden)?;
    agents(garden)?;
    integrations(garden)?;
    super::showcase::plant(garden)?;
    // What is late already is old news.
    crate::events::noticed(garden.ctx).map(drop)
}

pub(super) fn field(garden: &Garden<'_>, pipe: &str, label: &str) -> Result<String, GqlError> {
    let slug = values::slug_of(label);
    let found = values::field_by_slug(garden.ctx, &garden.repo(pipe), &slug)?;
    Ok(found.map(|f| text(&f, "internal_id").to_owned()).unwrap_or_default())
}

/// Ids of the board's phases, by place.
pub(super) fn board(garden: &Garden<'_>, pipe: &str) -> Result<Vec<String>, GqlError> {
    let phases = phases::visible(garden.ctx, &garden.repo(pipe))?;
    Ok(phases.iter().map(|p| text(p, "id").to_owned()).collect())
}

fn conditions(garden: &Garden<'_>) -> Result<(), GqlError> {
    let ctx = garden.ctx;
    let rules = [
        ("Purchase Requests", Some(1), "Explain high urgency", "Urgency", "High", "show", "Reason for the urgency"),
        ("Purchase Requests", None, "No justification for small things", "Urgency", "Low", "hide", "Justification"),
        ("Customer Support", Some(0), "Tags only for first priority", "Priority", "P1", "show", "Tags"),
    ];
    for (pipe, place, name, watched, value, action, target) in rules {
        let repo = garden.repo(pipe);
        let phase = match place {
            Some(place) => board(garden, pipe)?.get(place).cloned().unwrap_or_default(),
            None => {
                let pipe = ctx.must("pipe", "Pipe", &repo)?;
                text(&pipe, "startFormPhaseId").to_owned()
            }
        };
        let id = ctx.new_id("condition")?;
        let body = json!({
            "id": id, "name": name, "phase_id": phase, "pipe_id": repo,
            "condition": {
                "id": ctx.new_id("condition_expression")?,
                "expressions": [{
                    "id": ctx.new_id("expression")?, "field_address": field(garden, pipe, watched)?, "operation": "equals",
                    "value": value, "structure_id": "0",
                }],
                "expressions_structure": [["0"]],
            },
            "actions": [{
                "id": ctx.new_id("condition_action")?, "actionId": action, "phaseFieldId": field(garden, pipe, target)?,
                "phaseId": phase, "whenEvaluator": true,
            }],
        });
        ctx.put("condition", &id, &Links::parent(&phase).group(&repo), body)?;
    }
    Ok(())
}

/// A rule of the seeded pipes.
#[derive(Default)]
struct Rule {
    pipe: &'static str,
    name: &'static str,
    event: (&'static str, Value),
    action: (&'static str, Value),
    /// Only when this field has this value.
    when: Option<(String, &'static str)>,
    /// Another pipe that the action works on.
    target: Option<&'static str>,
    /// Keeps its metrics from people who do not administer the pipe.
    private: bool,
    /// Not switched on.
    idle: bool,
}

fn automations(garden: &mut Garden<'_>) -> Result<(), GqlError> {
    let ctx = garden.ctx;
    let buying = garden.repo("Purchase Requests");
    let slot = |pipe: &str, label: &str| field(garden, pipe, label);
    let (decision, wanted) = (slot("Purchase Requests", "Decision")?, slot("Purchase Requests", "What do you need?")?);
    let (quantity, cost) = (slot("Purchase Requests", "Quantity")?, slot("Purchase Requests", "Estimated cost")?);
    let (urgency, channel) = (slot("Purchase Requests", "Urgency")?, slot("Customer Support", "Channel")?);
    let (priority, newcomer) = (slot("Customer Support", "Priority")?, slot("Employee Onboarding", "Full name")?);
    let (deal, notes) = (slot("Vendas B2B - São Paulo", "Negócio")?, slot("Vendas B2B - São Paulo", "Observações")?);
    let place = |pipe: &str, index: usize| -> Result<String, GqlError> {
        Ok(board(garden, pipe)?.get(index).cloned().unwrap_or_default())
    };
    let notice = ctx.children("email_template", &buying)?.first().map(|t| text(t, "id").to_owned());
    let fixed = |id: &str, value: &str| json!({ "fieldId": id, "inputMode": "fixed_value", "value": value });
    let rules = [
        Rule {
            pipe: "Purchase Requests",
            name: "Move approved requests to quotation",
            event: ("field_updated", json!({ "triggerFieldIds": [decision] })),
            action: ("move_single_card", json!({ "to_phase_id": place("Purchase Requests", 2)? })),
            when: Some((decision.clone(), "Approved")),
            ..Rule::default()
        },
        Rule {
            pipe: "Purchase Requests",
            name: "Tell the requester about the delivery",
            event: ("card_moved", json!({ "to_phase_id": place("Purchase Requests", 4)? })),
            action: ("send_email_template", json!({ "email_template_id": notice })),
            ..Rule::default()
        },
        Rule {
            pipe: "Customer Support",
            name: "Escalate first priority",
            event: ("card_created", json!({})),
            action: ("update_card_field", json!({ "field_map": [fixed(&priority, "P1")] })),
            when: Some((channel.clone(), "Telefone")),
            ..Rule::default()
        },
        Rule {
            pipe: "Customer Support",
            name: "Solve answered tickets",
            event: ("sla_based", json!({ "kindOfSla": "late", "inPhaseId": place("Customer Support", 2)? })),
            action: ("move_single_card", json!({ "to_phase_id": place("Customer Support", 4)? })),
            private: true,
            ..Rule::default()
        },
        Rule {
            pipe: "Employee Onboarding",
            name: "Order the equipment",
            event: ("card_moved", json!({ "to_phase_id": place("Employee Onboarding", 1)? })),
            action: (
                "create_card",
                json!({ "field_map": [
                    fixed(&wanted, &format!("Notebook for %{{{newcomer}}}")), fixed(&quantity, "1"), fixed(&cost, "6500"),
                    fixed(&urgency, "Normal"),
                ] }),
            ),
            target: Some("Purchase Requests"),
            ..Rule::default()
        },
        Rule {
            pipe: "Vendas B2B - São Paulo",
            name: "Resumo do negócio com IA",
            event: ("card_moved", json!({ "to_phase_id": place("Vendas B2B - São Paulo", 3)? })),
            action: (
                "generate_with_ai",
                json!({ "aiParams": {
                    "value": format!("Resuma o negócio %{{{deal}}} em duas frases."), "fieldIds": [notes], "skillsIds": [] } }),
            ),
            idle: true,
            ..Rule::default()
        },
    ];
    for rule in rules {
        let Rule { pipe, name, event, action, when, target, private, idle } = rule;
        let (repo, active) = (garden.repo(pipe), !idle);
        let id = ctx.new_id("automation")?;
        let expressions = when.map(|(field, value)| {
            json!([{ "id": id, "field_address": field, "operation": "equals", "value": value, "structure_id": "0" }])
        });
        let structure = if expressions.is_some() { json!([["0"]]) } else { json!([]) };
        let body = json!({
            "id": id, "name": name, "active": active, "event_id": event.0, "action_id": action.0, "actionEnabled": true,
            "disabledReason": null, "created_at": stamp(super::back(ctx, 1_500)), "event_repo_id": repo,
            "action_repo_id": target.map_or_else(|| repo.clone(), |name| garden.repo(name)),
            "event_params": event.1, "action_params": action.1, "related_card_ids": [], "private_metrics": private,
            "condition": { "id": id, "expressions": expressions.unwrap_or_else(|| json!([])), "expressions_structure": structure },
            "searchFor": [],
        });
        ctx.put("automation", &id, &Links::parent(&garden.org).group(&repo), body)?;
        let runs = if active { 8 + garden.dice.below(20) } else { 0 };
        for run in 0..runs {
            let minutes = 3 + run as i64 * run as i64 * 4;
            let at = ctx.now.checked_sub(SignedDuration::from_mins(minutes)).unwrap_or(ctx.now);
            let status = if garden.dice.chance(15) { "failed" } else { "success" };
            let card = garden.item(pipe).unwrap_or_default();
            let title = ctx.get("card", &card)?.map(|c| text(&c, "title").to_owned());
            let uuid = ctx.new_uuid()?;
            let log = json!({
                "uuid": uuid, "automationId": id, "automationName": name, "cardId": card, "cardTitle": title,
                "datetime": stamp(at), "status": status, "duration": 0.2 + garden.dice.below(30) as f64 / 10.0,
            });
            ctx.put("automation_log", &uuid, &Links::parent(&id).group(&repo).uuid(&uuid), log)?;
        }
    }
    Ok(())
}

fn agents(garden: &mut Garden<'_>) -> Result<(), GqlError> {
    let ctx = garden.ctx;
    let phases = board(garden, "Customer Support")?;
    let priority = field(garden, "Customer Support", "Priority")?;
    let channel = field(garden, "Customer Support", "Channel")?;
    let support = garden.repo("Customer Support");
    let plans = [
        (
            "Customer Support",
            "Ticket triage",
            "Read the ticket and set its priority.",
            json!({ "name": "Set the priority", "actionType": "update_card", "metadata": {
                "pipeId": support, "fieldsAttributes": [{ "fieldId": priority, "inputMode": "fill_with_ai", "value": "" }] } }),
            "card_created",
            Value::Null,
        ),
        (
            "Customer Support",
            "Solution reviewer",
            "Move tickets with a clear solution to Solved.",
            json!({ "name": "Solve", "actionType": "move_card", "metadata": { "destinationPhaseId": phases.last() } }),
            "card_moved",
            json!(stamp(super::back(ctx, 200))),
        ),
    ];
    for (pipe, name, instruction, mut action, event, disabled) in plans {
        let pipe = ctx.must("pipe", "Pipe", &garden.repo(pipe))?;
        let (uuid, reference) = (ctx.new_uuid()?, ctx.new_uuid()?);
        crate::json::set(&mut action, "id", ctx.new_id("agent_action")?);
        crate::json::set(&mut action, "referenceId", reference.as_str());
        let behavior = json!({
            "id": ctx.new_id("agent_behavior")?, "name": format!("{name} behavior"), "active": true, "event_id": event,
            "action_id": "ai_behavior", "event_params": {},
            "condition": {
                "id": uuid, "expressions_structure": [["0"]],
                "expressions": [{ "id": uuid, "field_address": channel, "operation": "equals", "value": "Portal", "structure_id": "0" }],
            },
            "action_params": { "aiBehaviorParams": {
                "uuid": ctx.new_uuid()?, "instruction": format!("{instruction}\n%{{action:{reference}}}"), "dataSourceIds": [],
                "referencedFieldIds": [], "capabilitiesAttributes": [], "actionsAttributes": [action] } },
        });
        let body = json!({
            "uuid": uuid, "name": name, "instruction": instruction, "repoUuid": text(&pipe, "uuid"), "dataSourceIds": [],
            "disabledAt": disabled, "needReview": false, "behaviors": [behavior], "created_at": stamp(super::back(ctx, 900)),
        });
        ctx.put("agent", &uuid, &Links::parent(text(&pipe, "uuid")).uuid(&uuid), body)?;
        for run in 0..6_i64 {
            let card = garden.item("Customer Support").unwrap_or_default();
            let title = ctx.get("card", &card)?.map(|c| text(&c, "title").to_owned());
            let log_uuid = ctx.new_uuid()?;
            let at = stamp(super::back(ctx, 2 + run * 9));
            let status = if run == 3 { "failed" } else { "success" };
            let log = json!({
                "uuid": log_uuid, "agentUuid": uuid, "agentName": name, "automationId": null, "automationName": null,
                "cardId": card, "cardTitle": title, "status": status, "createdAt": at, "updatedAt": at, "finishedAt": at,
                "executionTime": 1.5 + run as f64,
            });
            ctx.put("agent_log", &log_uuid, &Links::parent(text(&pipe, "uuid")).group(&uuid).uuid(&log_uuid), log)?;
        }
    }
    Ok(())
}

fn templates(garden: &Garden<'_>) -> Result<(), GqlError> {
    let ctx = garden.ctx;
    let purchases = garden.repo("Purchase Requests");
    for (name, subject) in [("Delivery notice", "Your order arrived"), ("Pedido recebido", "Recebemos o seu pedido")] {
        let id = ctx.new_id("email_template")?;
        let body = json!({
            "id": id, "name": name, "subject": subject, "body": "<p>Hello, {{title}} is in {{phase}}.</p>", "fromEmail": "compras@aurora.example",
            "fromName": "Aurora", "toEmail": "", "ccEmail": "", "bccEmail": "", "repoId": purchases, "defaultTemplate": false,
        });
        ctx.put("email_template", &id, &Links::parent(&purchases), body)?;
    }
    Ok(())
}

/// Webhooks, reports, LLM providers and knowledge bases.
fn integrations(garden: &mut Garden<'_>) -> Result<(), GqlError> {
    let ctx = garden.ctx;
    let purchases = garden.repo("Purchase Requests");
    let support = garden.repo("Customer Support");
    let hooks = [
        (format!("pipe:{purchases}"), "ERP orders", "https://hooks.example.com/erp", json!(["card.move", "card.done"])),
        (format!("pipe:{support}"), "Chat alerts", "https://hooks.example.com/chat", json!(["card.create"])),
        (
            format!("table:{}", garden.repo("Fornecedores")),
            "Supplier sync",
            "https://hooks.example.com/sync",
            json!(["card.create"]),
        ),
    ];
    for (scope, name, url, actions) in hooks {
        let id = ctx.new_id("webhook")?;
        let body = json!({
            "id": id, "name": name, "url": url, "actions": actions, "headers": "{\"X-Origin\":\"pipefy\"}", "email": null, "scope": scope,
        });
        ctx.put("webhook", &id, &Links::parent(&garden.org).group(&scope), body)?;
    }
    for (pipe, name) in
        [(&purchases, "Open requests by department"), (&purchases, "Late approvals"), (&support, "First priority")]
    {
        let id = ctx.new_id("pipe_report")?;
        let body = json!({
            "id": id, "name": name, "cardCount": 0, "color": "blue", "fields": ["title", "current_phase"], "pipe_id": pipe,
            "filter": "{}", "featuredField": null, "sortBy": { "field": "created_at", "direction": "desc" }, "createdAt": ctx.stamp(),
            "lastUpdatedAt": ctx.stamp(), "selectedFormulaFields": [],
        });
        ctx.put("pipe_report", &id, &Links::parent(pipe), body)?;
    }
    let provider = ctx.new_id("llm_provider")?;
    let body = json!({
        "__typename": "LlmProvider", "id": provider, "name": "Aurora OpenAI", "type": "byom", "active": true,
        "organization_id": garden.org,
        "configuration": { "provider": "openai", "model": "gpt-4o", "api_key": "not-a-real-key" },
    });
    ctx.put("llm_provider", &provider, &Links::parent(&garden.org), body)?;
    let pipe = ctx.must("pipe", "Pipe", &support)?;
    let base = ctx.new_id("knowledge_base")?;
    let body = json!({
        "id": base, "type": "knowledge_base_plain_texts", "pipe_uuid": text(&pipe, "uuid"), "name": "Return policy", "description": "What customers may return",
        "content": "Goods may be returned within 30 days.", "updatedAt": ctx.stamp(),
    });
    ctx.put("knowledge_base", &base, &Links::parent(text(&pipe, "uuid")), body)?;
    Ok(())
}
