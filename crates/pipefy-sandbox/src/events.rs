//! What follows when something happens to a card: the audit trail, webhooks, automations and AI agents.

use crate::answer;
use crate::ctx::{Body, Ctx};
use crate::domains::{actions, conditions, usage};
use crate::error::GqlError;
use crate::json::{flag, scalar, set, text, texts, texts_at};
use crate::schedule;
use crate::standin::Source;
use crate::store::Links;
use serde_json::{Value, json};

/// Who made something happen, and how many rules stand between a caller and it.
pub(crate) struct Cause {
    /// A person's name, or `Automation: NAME`, `AI agent: NAME`, `Clock`.
    pub(crate) who: String,
    depth: u8,
    /// The log entry of the run that acts; blank for people.
    log: String,
}

/// Rules that may follow from one another; a longer chain is cut off, so that rules that feed each other end.
const DEEPEST: u8 = 5;

impl Cause {
    /// The person or service account that sent the request.
    pub(crate) fn caller(ctx: &Ctx<'_>) -> Result<Self, GqlError> {
        let who = ctx.get("user", &ctx.viewer)?.map(|user| text(&user, "name").to_owned()).unwrap_or_default();
        Ok(Self::first(who))
    }

    /// Time that passed.
    pub(crate) fn clock() -> Self {
        Self::first("Clock".to_owned())
    }

    /// Somebody outside, by e-mail address.
    pub(crate) fn outside(address: &str) -> Self {
        Self::first(address.to_owned())
    }

    fn first(who: String) -> Self {
        Self { who, depth: 0, log: String::new() }
    }

    fn next(&self, who: String, log: &str) -> Self {
        Self { who, depth: self.depth + 1, log: log.to_owned() }
    }
}

/// What happened to a card.
pub(crate) enum What<'e> {
    /// It was created.
    Created,
    /// It came from one phase to another.
    Moved { from: &'e Value, to: &'e Value },
    /// A field has another value.
    FieldUpdated { field: &'e Value },
    /// Title, due date, people or labels changed.
    Changed,
    /// It was longer in its phase than allowed.
    Late,
    /// Its due date passed.
    Overdue,
    /// It is about to be deleted.
    Deleted,
    /// Somebody commented.
    Commented { comment: &'e Value },
    /// An e-mail came in.
    EmailReceived,
}

impl What<'_> {
    /// The action of webhooks that listen to it; `None` when none can.
    fn webhook_action(&self) -> Option<&'static str> {
        Some(match self {
            Self::Created => "card.create",
            Self::Moved { .. } => "card.move",
            Self::FieldUpdated { .. } => "card.field_update",
            Self::Late => "card.late",
            Self::Overdue => "card.overdue",
            Self::Deleted => "card.delete",
            Self::Commented { .. } => "card.comment_create",
            Self::EmailReceived => "card.email_received",
            Self::Changed => return None,
        })
    }

    /// One line for people.
    fn sentence(&self, ctx: &Ctx<'_>, card: &Value) -> Result<(&'static str, String), GqlError> {
        Ok(match self {
            Self::Created => ("created", String::new()),
            Self::Moved { from, to } => ("moved", format!("{} -> {}", text(from, "name"), text(to, "name"))),
            Self::FieldUpdated { field } => {
                let shown = crate::values::display(ctx, field, &crate::values::stored(card, field))?;
                let shown: String = shown.join(", ").chars().take(120).collect();
                ("field changed", format!("{}: {shown}", text(field, "label")))
            }
            Self::Changed => ("changed", String::new()),
            Self::Late => ("became late", String::new()),
            Self::Overdue => ("became overdue", String::new()),
            Self::Deleted => ("deleted", String::new()),
            Self::Commented { comment } => ("commented", text(comment, "text").chars().take(120).collect()),
            Self::EmailReceived => ("e-mail received", String::new()),
        })
    }
}

/// Records it and runs everything that listens to it. Failures of rules are logged with the rule and never undo what
/// happened.
pub(crate) fn tell(ctx: &Ctx<'_>, cause: &Cause, what: &What<'_>, card_id: &str) -> Result<(), GqlError> {
    let Some(card) = ctx.get("card", card_id)? else { return Ok(()) };
    let (verb, details) = what.sentence(ctx, &card)?;
    audit(ctx, &cause.who, verb, &details, &card)?;
    let pipe = ctx.must("pipe", "Pipe", text(&card, "pipe_id"))?;
    call_webhooks(ctx, cause, what, &card, &pipe)?;
    if cause.depth >= DEEPEST {
        return Ok(());
    }
    run_rules(ctx, cause, what, &card, &pipe)?;
    if let What::Moved { to, .. } = what {
        children_arrived(ctx, cause, card_id, to)?;
    }
    run_agents(ctx, cause, what, card_id, &pipe)
}

/// One entry of a pipe's audit trail.
pub(crate) fn audit(ctx: &Ctx<'_>, who: &str, what: &str, details: &str, card: &Value) -> Result<(), GqlError> {
    let id = ctx.new_id("audit")?;
    let pipe = text(card, "pipe_id");
    let body = json!({
        "id": id, "at": ctx.stamp(), "who": who, "what": what, "details": details, "pipe_id": pipe,
        "card_id": text(card, "id"), "card_title": text(card, "title"),
    });
    ctx.put("audit", &id, &Links::parent(pipe).group(text(card, "id")), body)?;
    Ok(())
}

/// Whether an id under a key is the given one; no id at all means any.
fn any_or(params: &Value, key: &str, id: &str) -> bool {
    let wanted = params.get(key).and_then(scalar).unwrap_or_default();
    wanted.is_empty() || wanted == id
}

/// Whether a rule's event and its parameters fit what happened.
fn fits(what: &What<'_>, card: &Value, event: &str, params: &Value) -> bool {
    match (what, event) {
        (What::Created, "card_created") | (What::EmailReceived, "card_inbox_received_email") => true,
        (What::Moved { to, .. }, "card_moved") => any_or(params, "to_phase_id", text(to, "id")),
        (What::Moved { from, .. }, "card_left_phase") => any_or(params, "fromPhaseId", text(from, "id")),
        (What::FieldUpdated { field }, "field_updated") => {
            let fields = texts_at(params, "triggerFieldIds");
            fields.is_empty()
                || ["internal_id", "id", "uuid"].iter().any(|key| fields.iter().any(|f| f == text(field, key)))
        }
        (What::Late | What::Overdue, "sla_based") => {
            let kind = if matches!(what, What::Late) { "late" } else { "overdue" };
            let wanted = text(params, "kindOfSla").to_lowercase();
            (wanted.is_empty() || wanted.contains(kind)) && any_or(params, "inPhaseId", text(card, "phase_id"))
        }
        _ => false,
    }
}

fn run_rules(ctx: &Ctx<'_>, cause: &Cause, what: &What<'_>, card: &Body, pipe: &Value) -> Result<(), GqlError> {
    for rule in ctx.grouped("automation", text(pipe, "id"))? {
        let params = rule.get("event_params").cloned().unwrap_or_default();
        if flag(&rule, "active") && fits(what, card, text(&rule, "event_id"), &params) {
            run_on_card(ctx, cause, &rule, text(card, "id"), &Value::Null)?;
        }
    }
    Ok(())
}

/// `all_children_in_phase` of the cards that have the moved card as a child.
fn children_arrived(ctx: &Ctx<'_>, cause: &Cause, child: &str, phase: &Value) -> Result<(), GqlError> {
    for row in ctx.grouped("card_relation", child)? {
        let Some(parent) = ctx.get("card", text(&row, "parentId"))? else { continue };
        for rule in ctx.grouped("automation", text(&parent, "pipe_id"))? {
            let params = rule.get("event_params").cloned().unwrap_or_default();
            let listens = flag(&rule, "active") && text(&rule, "event_id") == "all_children_in_phase";
            if !listens || !any_or(&params, "to_phase_id", text(phase, "id")) {
                continue;
            }
            let mut all = true;
            for sibling in ctx.children("card_relation", text(&parent, "id"))? {
                let sibling = ctx.get("card", text(&sibling, "childId"))?;
                all = all && sibling.is_none_or(|card| text(&card, "phase_id") == text(phase, "id"));
            }
            if all {
                run_on_card(ctx, cause, &rule, text(&parent, "id"), &Value::Null)?;
            }
        }
    }
    Ok(())
}

/// Runs a rule on a card as it is by now; `answer` is what came back when an HTTP request triggers it, else null.
fn run_on_card(
    ctx: &Ctx<'_>,
    cause: &Cause,
    rule: &Value,
    card_id: &str,
    answer: &Value,
) -> Result<Option<Value>, GqlError> {
    match ctx.get("card", card_id)? {
        Some(card) => run_rule(ctx, cause, rule, Source { card: &card, answer }),
        None => Ok(None),
    }
}

/// Runs a rule, when its condition holds, and logs how it went; the log entry. An HTTP request is logged as `processing`
/// until it was made.
fn run_rule(ctx: &Ctx<'_>, cause: &Cause, rule: &Value, source: Source<'_>) -> Result<Option<Value>, GqlError> {
    let card = source.card;
    if !conditions::holds(ctx, card, rule)? {
        return Ok(None);
    }
    let uuid = ctx.new_uuid()?;
    let cause = cause.next(format!("Automation: {}", text(rule, "name")), &uuid);
    let prompt = text(rule, "action_id") == "generate_with_ai";
    let budget = if prompt { usage::affordable(ctx, text(card, "pipe_id"))? } else { Ok(()) };
    let credits = if prompt && budget.is_ok() { 1.0 } else { 0.0 };
    let outcome = match budget {
        Ok(()) => ctx.store.atomic(|| actions::of_rule(ctx, &cause, rule, source)),
        Err(error) => Err(error),
    };
    let (status, error) = match outcome {
        Ok(()) if text(rule, "action_id") == "send_http_request" => ("processing", Value::Null),
        Ok(()) => ("success", Value::Null),
        Err(error) => {
            ctx.forget();
            audit(ctx, &cause.who, "failed", &error.message, card)?;
            ("failed", Value::from(error.message))
        }
    };
    let log = json!({
        "uuid": uuid, "automationId": text(rule, "id"), "automationName": text(rule, "name"), "cardId": card.get("id"),
        "cardTitle": card.get("title"), "datetime": ctx.stamp(), "status": status, "duration": 0.1, "credits": credits,
        "error": error,
    });
    let links = Links::parent(text(rule, "id")).group(text(rule, "event_repo_id")).uuid(&uuid);
    ctx.put("automation_log", &uuid, &links, log.clone())?;
    Ok(Some(log))
}

/// Runs a `manually_triggered` rule on a card of its pipe; the log entry, or null when its condition does not hold.
pub(crate) fn run_by_hand(ctx: &Ctx<'_>, id: &str, card_id: &str) -> Result<Value, GqlError> {
    let rule = ctx.get("automation", id)?.ok_or_else(|| GqlError::not_found("Automation", id))?;
    let card = ctx.must("card", "Card", card_id)?;
    if text(&rule, "event_id") != "manually_triggered" || !flag(&rule, "active") {
        return Err(GqlError::invalid("Only an active rule with the event manually_triggered is run by hand"));
    }
    if text(&card, "pipe_id") != text(&rule, "event_repo_id") {
        return Err(GqlError::invalid("The card is not in the automation's pipe"));
    }
    let log = run_rule(ctx, &Cause::first("Manual trigger".to_owned()), &rule, Source::card(&card))?;
    Ok(log.unwrap_or_default())
}

/// Runs the rules whose time has come, once each, however often it came since the last look. The number of them.
fn run_scheduled(ctx: &Ctx<'_>) -> Result<usize, GqlError> {
    let due = ctx.store.due_rules(ctx.now)?;
    for id in &due {
        let Some(rule) = ctx.get("automation", id)? else { continue };
        let mut body = (*rule).clone();
        plan_next(ctx, &mut body);
        ctx.save("automation", id, body)?;
        if flag(&rule, "active") {
            // There is no card; actions that need one are ruled out for the event.
            let nothing = json!({ "pipe_id": text(&rule, "event_repo_id"), "title": text(&rule, "name") });
            run_rule(ctx, &Cause::clock(), &rule, Source::card(&nothing))?;
        }
    }
    Ok(due.len())
}

/// Notes when a scheduled rule runs next; other rules have no such time.
pub(crate) fn plan_next(ctx: &Ctx<'_>, rule: &mut Value) {
    let cron = schedule::of_rule(rule).filter(|_| text(rule, "event_id") == "scheduler").and_then(Result::ok);
    let next = cron.and_then(|cron| cron.after(ctx.now)).map(crate::ctx::stamp);
    set(rule, "next_run_at", next);
}

/// Ends the run behind an HTTP request: its log entry says how it went, and an answer triggers the rules that wait for it.
pub(crate) fn request_ended(ctx: &Ctx<'_>, call: &Value) -> Result<(), GqlError> {
    let Some(rule) = ctx.get("automation", text(call, "automation_id"))? else { return Ok(()) };
    let status = call.get("answer").cloned().unwrap_or_default();
    let delivered = text(call, "state") == "delivered";
    // What the rule's schema declares of the answer; a refusal has no such answer.
    let read = match answer::schema(&rule).and_then(Result::ok) {
        Some(schema) if delivered => answer::read(&schema, text(call, "response")),
        _ => Ok(Value::Null),
    };
    if let Some(log) = ctx.get("automation_log", text(call, "log"))? {
        let mut log = (*log).clone();
        let why = match &read {
            Ok(_) if delivered => None,
            Err(why) => Some(why.clone()),
            Ok(_) => Some(
                status.as_str().map_or_else(|| format!("The request was answered with HTTP {status}"), str::to_owned),
            ),
        };
        set(&mut log, "status", if why.is_none() { "success" } else { "failed" });
        if let Some(why) = why {
            set(&mut log, "error", why);
        }
        ctx.save("automation_log", text(call, "log"), log)?;
    }
    let Ok(read) = read else { return Ok(()) };
    let depth = call.get("depth").and_then(Value::as_u64).and_then(|depth| u8::try_from(depth).ok()).unwrap_or(DEEPEST);
    if !status.is_number() || depth >= DEEPEST {
        return Ok(());
    }
    let cause = Cause { depth, ..Cause::first(text(call, "by").to_owned()) };
    for listener in ctx.grouped("automation", text(&rule, "event_repo_id"))? {
        let params = listener.get("event_params").cloned().unwrap_or_default();
        let listens = flag(&listener, "active") && text(&listener, "event_id") == "http_response_received";
        if listens && any_or(&params, "triggerAutomationId", text(&rule, "id")) {
            run_on_card(ctx, &cause, &listener, text(call, "card_id"), &read)?;
        }
    }
    Ok(())
}

/// Queues the HTTP request of a rule.
pub(crate) fn request(ctx: &Ctx<'_>, cause: &Cause, card: &Value, mut call: Value) -> Result<(), GqlError> {
    set(&mut call, "card_id", text(card, "id"));
    set(&mut call, "by", cause.who.as_str());
    set(&mut call, "depth", cause.depth);
    set(&mut call, "log", cause.log.as_str());
    queue(ctx, call)
}

fn run_agents(ctx: &Ctx<'_>, cause: &Cause, what: &What<'_>, card_id: &str, pipe: &Value) -> Result<(), GqlError> {
    if pipe.pointer("/preferences/aiAgentsEnabled") == Some(&Value::Bool(false)) {
        return Ok(());
    }
    for agent in ctx.children("agent", text(pipe, "uuid"))? {
        if !text(&agent, "disabledAt").is_empty() {
            continue;
        }
        for behavior in agent.get("behaviors").and_then(Value::as_array).into_iter().flatten() {
            let Some(card) = ctx.get("card", card_id)? else { return Ok(()) };
            let params = behavior.get("event_params").cloned().unwrap_or_default();
            let listens = flag(behavior, "active") && fits(what, &card, text(behavior, "event_id"), &params);
            if listens && conditions::holds(ctx, &card, behavior)? {
                run_behavior(ctx, cause, &agent, behavior, &card)?;
            }
        }
    }
    Ok(())
}

fn run_behavior(ctx: &Ctx<'_>, cause: &Cause, agent: &Value, behavior: &Value, card: &Value) -> Result<(), GqlError> {
    let uuid = ctx.new_uuid()?;
    let cause = cause.next(format!("AI agent: {}", text(agent, "name")), &uuid);
    let mut trace = Vec::new();
    let (outcome, credits) = match usage::affordable(ctx, text(card, "pipe_id"))? {
        Err(error) => (Err(("AI credits", error)), 0.0),
        Ok(()) => {
            trace.push(json!({
                "nodeName": "Sandbox stand-in", "status": "success",
                "message": "A fixed rule answers here instead of a language model",
            }));
            let done = ctx.store.atomic(|| actions::of_behavior(ctx, &cause, behavior, card, &mut trace));
            (done.map_err(|error| ("Action", error)), usage::price(behavior))
        }
    };
    let status = match outcome {
        Ok(()) => "success",
        Err((node, error)) => {
            ctx.forget();
            audit(ctx, &cause.who, "failed", &error.message, card)?;
            trace.push(json!({ "nodeName": node, "status": "failed", "message": error.message }));
            "failed"
        }
    };
    let now = ctx.stamp();
    let log = json!({
        "uuid": uuid, "agentUuid": text(agent, "uuid"), "agentName": text(agent, "name"), "automationId": behavior.get("id"),
        "automationName": text(behavior, "name"), "cardId": text(card, "id"), "cardTitle": text(card, "title"),
        "status": status, "createdAt": now, "updatedAt": now, "finishedAt": now, "executionTime": 0.1, "credits": credits,
        "trace": trace,
    });
    let links = Links::parent(text(agent, "repoUuid")).group(text(agent, "uuid")).uuid(&uuid);
    ctx.put("agent_log", &uuid, &links, log)?;
    Ok(())
}

/// Queues a call of every webhook of the pipe and its organization that listens.
fn call_webhooks(ctx: &Ctx<'_>, cause: &Cause, what: &What<'_>, card: &Value, pipe: &Value) -> Result<(), GqlError> {
    let Some(action) = what.webhook_action() else { return Ok(()) };
    let mut data = json!({
        "action": action, "by": cause.who,
        "card": { "id": text(card, "id"), "title": text(card, "title"), "pipe_id": text(pipe, "id"), "uuid": text(card, "uuid") },
    });
    let short = |phase: &Value| json!({ "id": text(phase, "id"), "name": text(phase, "name") });
    match what {
        What::Moved { from, to } => {
            set(&mut data, "from", short(from));
            set(&mut data, "to", short(to));
        }
        What::FieldUpdated { field } => {
            let shown = crate::values::display(ctx, field, &crate::values::stored(card, field))?;
            let body = json!({ "id": text(field, "id"), "internal_id": text(field, "internal_id"), "label": text(field, "label") });
            set(&mut data, "field", body);
            set(&mut data, "new_value", shown.join(", "));
        }
        What::Commented { comment } => {
            set(&mut data, "comment", json!({ "id": text(comment, "id"), "text": text(comment, "text") }));
        }
        _ => {}
    }
    notify(ctx, &format!("pipe:{}", text(pipe, "id")), text(pipe, "organization_id"), action, &data)?;
    let arrived = matches!(what, What::Moved { to, .. } if flag(to, "done"));
    if arrived {
        set(&mut data, "action", "card.done");
        notify(ctx, &format!("pipe:{}", text(pipe, "id")), text(pipe, "organization_id"), "card.done", &data)?;
    }
    Ok(())
}

/// Queues a call of the webhooks of one scope and of its organization.
pub(crate) fn notify(ctx: &Ctx<'_>, scope: &str, org: &str, action: &str, data: &Value) -> Result<(), GqlError> {
    for scope in [scope.to_owned(), format!("organization:{org}")] {
        for hook in ctx.grouped("webhook", &scope)? {
            if texts_at(&hook, "actions").iter().any(|a| a == action) && wanted(&hook, action, data) {
                let headers = serde_json::from_str(text(&hook, "headers")).unwrap_or_else(|_| json!({}));
                let call = json!({
                    "webhook_id": text(&hook, "id"), "name": text(&hook, "name"), "method": "POST", "url": text(&hook, "url"),
                    "headers": headers, "body": json!({ "data": data }).to_string(), "action": action,
                });
                queue(ctx, call)?;
            }
        }
    }
    Ok(())
}

/// Filters of a webhook: phases of a move, the field of a change.
fn wanted(hook: &Value, action: &str, data: &Value) -> bool {
    let Some(filter) = hook.get("filters").and_then(|filters| filters.get(action)).and_then(Value::as_object) else {
        return true;
    };
    let have = |pointer: &str| data.pointer(pointer).and_then(scalar).unwrap_or_default();
    filter.iter().all(|(key, value)| {
        let wanted = texts(value);
        let found = match key.as_str() {
            "from_phase_id" => vec![have("/from/id")],
            "to_phase_id" => vec![have("/to/id")],
            "field_id" => vec![have("/field/id"), have("/field/internal_id")],
            _ => return true,
        };
        wanted.is_empty() || wanted.iter().any(|id| found.contains(id))
    })
}

/// Puts an HTTP call into the queue that the server works off after the change is stored.
pub(crate) fn queue(ctx: &Ctx<'_>, mut call: Value) -> Result<(), GqlError> {
    let id = ctx.new_id("delivery")?;
    set(&mut call, "id", id.as_str());
    set(&mut call, "at", ctx.stamp());
    set(&mut call, "state", "waiting");
    ctx.put("delivery", &id, &Links::default().group("waiting"), call)?;
    Ok(())
}

/// Tells of the cards that became late or overdue since the last look, and runs the rules whose time has come. The number
/// of both.
pub(crate) fn sweep(ctx: &Ctx<'_>) -> Result<usize, GqlError> {
    let news = noticed(ctx)?;
    for (id, late) in &news {
        tell(ctx, &Cause::clock(), if *late { &What::Late } else { &What::Overdue }, id)?;
    }
    Ok(news.len() + run_scheduled(ctx)?)
}

/// Finds the cards that are late (true) or overdue (false) and were not so at the last look, and marks them as seen.
/// Alone it keeps a fresh organization from starting with a flood of events.
pub(crate) fn noticed(ctx: &Ctx<'_>) -> Result<Vec<(String, bool)>, GqlError> {
    let news = ctx.store.newly_late(ctx.now)?;
    for (id, late) in &news {
        let Some(card) = ctx.get("card", id)? else { continue };
        let mut body = (*card).clone();
        let (key, mark) = if *late { ("late_told", "started_current_phase_at") } else { ("overdue_told", "due_date") };
        set(&mut body, key, text(&card, mark));
        ctx.save("card", id, body)?;
    }
    Ok(news)
}
