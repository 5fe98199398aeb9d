//! AI agents of a pipe.

use crate::access;
use crate::ctx::{Answer, Args, Body, Ctx};
use crate::error::GqlError;
use crate::json::{link, set, text};
use crate::object::Root;
use crate::page;
use crate::store::Links;
use serde_json::{Map, Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("aiAgent", |ctx, args| {
        let agent = ctx.must("agent", "AI agent", &args.need("uuid")?)?;
        access::read_pipe(ctx, text(&agent, "repoUuid"))?;
        Ok(link("agent", text(&agent, "uuid")))
    }),
    Root::public("aiAgents", |ctx, args| {
        let pipe = access::read_pipe(ctx, &args.need("repoUuid")?)?;
        let rows = ctx.children("agent", text(&pipe, "uuid"))?;
        let rows = rows.iter().map(|a| (text(a, "uuid").to_owned(), link("agent", text(a, "uuid"))));
        page::connection(rows.collect(), args, page::PIPE_PAGE)
    }),
    Root::public("createAiAgent", create),
    Root::public("updateAiAgent", update),
    Root::public("updateAiAgentStatus", set_status),
    Root::public("deleteAiAgent", delete),
];

/// Behaviors that one agent may have.
const MOST_BEHAVIORS: usize = 5;

fn agent_input(args: &Args) -> Args {
    Args(args.input().get("agent").cloned().unwrap_or_default())
}

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = agent_input(args);
    let pipe = access::managed_pipe(ctx, &input.need("repoUuid")?)?;
    if input.text("name").unwrap_or_default().trim().is_empty() {
        return Err(GqlError::not_saved("Name can't be blank"));
    }
    let uuid = ctx.new_uuid()?;
    // An agent starts disabled unless it is told otherwise; saving its configuration without a time enables it.
    let mut body = json!({
        "uuid": uuid, "repoUuid": text(&pipe, "uuid"), "instruction": "", "dataSourceIds": [], "disabledAt": ctx.stamp(),
        "needReview": false, "behaviors": [], "created_at": ctx.stamp(),
    });
    write(ctx, &mut body, &input)?;
    if let Some(at) = input.text("disabledAt") {
        set(&mut body, "disabledAt", at);
    }
    ctx.put("agent", &uuid, &Links::parent(text(&pipe, "uuid")).uuid(&uuid), body)?;
    Ok(json!({ "agent": link("agent", &uuid) }))
}

fn managed(ctx: &Ctx<'_>, uuid: &str) -> Result<Body, GqlError> {
    let agent = ctx.must("agent", "AI agent", uuid)?;
    access::managed_pipe(ctx, text(&agent, "repoUuid"))?;
    Ok(agent)
}

/// A whole replacement: behaviors that are not sent again are gone, an omitted `disabledAt` enables.
fn update(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = agent_input(args);
    let uuid = args.input().need("uuid")?;
    let mut body = (*managed(ctx, &uuid)?).clone();
    write(ctx, &mut body, &input)?;
    set(&mut body, "disabledAt", input.text("disabledAt").map_or(Value::Null, Value::from));
    ctx.save("agent", &uuid, body)?;
    Ok(json!({ "agent": link("agent", &uuid) }))
}

fn write(ctx: &Ctx<'_>, body: &mut Value, input: &Args) -> Result<(), GqlError> {
    for key in ["name", "instruction", "dataSourceIds"] {
        if let Some(value) = input.get(key) {
            set(body, key, value.clone());
        }
    }
    let Some(behaviors) = input.get("behaviors").and_then(Value::as_array) else { return Ok(()) };
    if behaviors.len() > MOST_BEHAVIORS {
        return Err(GqlError::not_saved(format!("An agent has at most {MOST_BEHAVIORS} behaviors")));
    }
    let mut kept = Vec::new();
    for behavior in behaviors {
        kept.push(behavior_body(ctx, behavior)?);
    }
    set(body, "behaviors", kept);
    Ok(())
}

/// From the input's spelling to the one that is read, with the ids that the API gives out.
fn behavior_body(ctx: &Ctx<'_>, behavior: &Value) -> Answer {
    let mut params = behavior.get("actionParams").cloned().unwrap_or_else(|| json!({}));
    let ai = params.get("aiBehaviorParams").cloned().unwrap_or_default();
    let actions = ai.get("actionsAttributes").and_then(Value::as_array).cloned().unwrap_or_default();
    if actions.is_empty() {
        return Err(GqlError::not_saved("Behaviors must contain at least 1 action"));
    }
    let mut kept = Vec::new();
    for mut action in actions {
        check_action(ctx, &action)?;
        if action.get("id").is_none_or(Value::is_null) {
            set(&mut action, "id", ctx.new_id("agent_action")?);
        }
        kept.push(action);
    }
    let mut ai = if ai.is_object() { ai } else { json!({}) };
    if ai.get("uuid").is_none() {
        set(&mut ai, "uuid", ctx.new_uuid()?);
    }
    set(&mut ai, "actionsAttributes", kept);
    set(&mut params, "aiBehaviorParams", ai);
    let id = match behavior.get("id").and_then(crate::json::scalar) {
        Some(id) => id,
        None => ctx.new_id("agent_behavior")?,
    };
    let mut body = Map::new();
    for (key, value) in [
        ("id", Value::from(id)),
        ("name", behavior.get("name").cloned().unwrap_or_default()),
        ("active", behavior.get("active").filter(|v| !v.is_null()).cloned().unwrap_or(Value::Bool(true))),
        ("event_id", behavior.get("eventId").cloned().unwrap_or_default()),
        (
            "action_id",
            behavior.get("actionId").filter(|v| !v.is_null()).cloned().unwrap_or_else(|| json!("ai_behavior")),
        ),
        ("event_params", behavior.get("eventParams").cloned().unwrap_or_default()),
        ("action_params", params),
        ("condition", behavior.get("condition").cloned().unwrap_or_default()),
    ] {
        body.insert(key.to_owned(), value);
    }
    Ok(Value::Object(body))
}

const NOT_SAVED: &str = "The agent could not be saved";

/// What each action type must name; phases, pipes and tables must exist.
fn check_action(ctx: &Ctx<'_>, action: &Value) -> Result<(), GqlError> {
    let meta = action.get("metadata").cloned().unwrap_or_default();
    let id = |key: &str| meta.get(key).and_then(crate::json::scalar).unwrap_or_default();
    let filled = |key: &str| meta.get(key).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let ok = match text(action, "actionType") {
        "update_card" | "create_card" | "create_connected_card" => {
            ctx.find("pipe", &id("pipeId"))?.is_some() && filled("fieldsAttributes")
        }
        "move_card" => ctx.find("phase", &id("destinationPhaseId"))?.is_some(),
        "create_table_record" => !id("tableId").is_empty() && access::table(ctx, &id("tableId")).is_ok(),
        "send_email_template" => !id("emailTemplateId").is_empty(),
        "human_validation" => filled("emails") || !id("title").is_empty(),
        "mcp_tool" => !id("mcpServerId").is_empty() && !id("toolName").is_empty(),
        _ => false,
    };
    if ok { Ok(()) } else { Err(GqlError::not_saved(NOT_SAVED)) }
}

fn set_status(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let uuid = input.need("uuid")?;
    let mut body = (*managed(ctx, &uuid)?).clone();
    let at = if input.flag("active") == Some(true) { Value::Null } else { Value::from(ctx.stamp()) };
    set(&mut body, "disabledAt", at);
    ctx.save("agent", &uuid, body)?;
    Ok(json!({ "success": true }))
}

fn delete(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let uuid = args.input().need("uuid")?;
    managed(ctx, &uuid)?;
    Ok(json!({ "success": ctx.remove("agent", &uuid)?, "errors": [] }))
}
