//! Field conditions: rules that show or hide fields of a phase.

use crate::access;
use crate::columns;
use crate::ctx::{Answer, Args, Body, Ctx, day, parse_time};
use crate::error::GqlError;
use crate::json::{link, links, set, text};
use crate::object::{Property, Root};
use crate::store::Links;
use crate::values;
use serde_json::{Value, json};
use std::collections::HashMap;

pub(crate) const ROOTS: &[Root] = &[
    Root::public("fieldCondition", |ctx, args| {
        let id = args.need("id")?;
        let condition = ctx.get("condition", &id)?.ok_or_else(|| GqlError::not_found("Field condition", &id))?;
        access::phase(ctx, text(&condition, "phase_id"))?;
        Ok(link("condition", &id))
    }),
    Root::public("createFieldCondition", create),
    Root::public("updateFieldCondition", update),
    Root::public("deleteFieldCondition", delete),
    Root::public("setFieldConditionOrder", reorder),
];

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(&["FieldCondition"], "phase", |_, condition, _| Ok(link("phase", text(condition, "phase_id")))),
    Property::of(&["FieldCondition"], "isTrueFor", |ctx, condition, args| {
        let (card, _, _) = access::card(ctx, &args.need("cardId")?)?;
        Ok(json!(holds(ctx, &card, condition)?))
    }),
    Property::of(&["FieldConditionAction"], "phase", |_, action, _| Ok(link("phase", text(action, "phaseId")))),
    Property::of(&["FieldConditionAction"], "phaseField", |_, action, _| {
        Ok(link("field", text(action, "phaseFieldId")))
    }),
];

/// Gives expressions and actions their ids. Only the actions `hide` and `show` exist.
fn shaped(ctx: &Ctx<'_>, body: &mut Value, input: &Args) -> Result<(), GqlError> {
    if let Some(condition) = input.get("condition") {
        let mut condition = condition.clone();
        let mut expressions = condition.get("expressions").and_then(Value::as_array).cloned().unwrap_or_default();
        for (place, expression) in expressions.iter_mut().enumerate() {
            set(expression, "id", ctx.new_id("expression")?);
            if expression.get("structure_id").is_none_or(Value::is_null) {
                set(expression, "structure_id", place.to_string());
            }
        }
        set(&mut condition, "expressions", expressions);
        set(&mut condition, "id", ctx.new_id("condition_expression")?);
        set(body, "condition", condition);
    }
    if let Some(actions) = input.get("actions").and_then(Value::as_array) {
        let mut kept = Vec::new();
        for action in actions {
            let mut action = action.clone();
            if !matches!(text(&action, "actionId"), "hide" | "show") {
                return Err(GqlError::not_saved(format!(
                    "Action {:?} is not included in the list: hide, show",
                    text(&action, "actionId")
                )));
            }
            let field = action.get("phaseFieldId").and_then(crate::json::scalar).unwrap_or_default();
            if !field.is_empty() {
                let known = ctx.find("field", &field)?.filter(|f| text(f, "pipe_id") == text(body, "pipe_id"));
                let known = known.ok_or_else(|| GqlError::not_found("Field", &field))?;
                set(&mut action, "phaseFieldId", text(&known, "internal_id"));
            }
            set(&mut action, "id", ctx.new_id("condition_action")?);
            kept.push(action);
        }
        set(body, "actions", kept);
    }
    if let Some(name) = input.text("name") {
        set(body, "name", name);
    }
    Ok(())
}

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (phase, pipe) = access::managed_phase(ctx, &input.need("phaseId")?)?;
    let id = ctx.new_id("condition")?;
    let mut body = json!({
        "id": id, "name": "", "phase_id": text(&phase, "id"), "pipe_id": text(&pipe, "id"),
        "condition": { "expressions": [], "expressions_structure": [] }, "actions": [],
    });
    shaped(ctx, &mut body, &input)?;
    if text(&body, "name").trim().is_empty() {
        return Err(GqlError::not_saved("Name can't be blank"));
    }
    let mut links = Links::parent(text(&phase, "id")).group(text(&pipe, "id"));
    links.pos = input.get("index").and_then(Value::as_f64);
    ctx.put("condition", &id, &links, body)?;
    Ok(json!({ "fieldCondition": link("condition", &id) }))
}

fn managed(ctx: &Ctx<'_>, id: &str) -> Result<Body, GqlError> {
    let condition = ctx.get("condition", id)?.ok_or_else(|| GqlError::not_found("Field condition", id))?;
    access::managed_pipe(ctx, text(&condition, "pipe_id"))?;
    Ok(condition)
}

fn update(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let id = input.need("id")?;
    let mut body = (*managed(ctx, &id)?).clone();
    shaped(ctx, &mut body, &input)?;
    ctx.save("condition", &id, body)?;
    Ok(json!({ "fieldCondition": link("condition", &id) }))
}

fn delete(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let id = args.input().need("id")?;
    managed(ctx, &id)?;
    Ok(json!({ "success": ctx.remove("condition", &id)? }))
}

fn reorder(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (phase, pipe) = access::managed_phase(ctx, &input.need("phaseId")?)?;
    let ids = input.texts("fieldConditionIds").unwrap_or_default();
    for (place, id) in ids.iter().enumerate() {
        let body = (*managed(ctx, id)?).clone();
        let links = Links::parent(text(&phase, "id")).group(text(&pipe, "id")).pos(place as f64);
        ctx.put("condition", id, &links, body)?;
    }
    Ok(json!({ "fieldConditions": links("condition", ids) }))
}

/// The same rule for the clone of a pipe.
pub(super) fn copy_condition(
    ctx: &Ctx<'_>,
    condition: &Value,
    phases: &HashMap<String, String>,
    fields: &HashMap<String, String>,
    pipe: &str,
) -> Result<(), GqlError> {
    let id = ctx.new_id("condition")?;
    let mut body = condition.clone();
    let phase = phases.get(text(condition, "phase_id")).cloned().unwrap_or_default();
    set(&mut body, "id", id.as_str());
    set(&mut body, "phase_id", phase.as_str());
    set(&mut body, "pipe_id", pipe);
    let rename = |row: &Value, key: &str| {
        let mut row = row.clone();
        if let Some(new) = fields.get(text(&row, key)).cloned() {
            set(&mut row, key, new);
        }
        row
    };
    let rows = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let actions: Vec<Value> = rows(condition.get("actions")).iter().map(|a| rename(a, "phaseFieldId")).collect();
    set(&mut body, "actions", actions);
    let mut inner = condition.get("condition").cloned().unwrap_or_default();
    let expressions: Vec<Value> = rows(inner.get("expressions")).iter().map(|e| rename(e, "field_address")).collect();
    set(&mut inner, "expressions", expressions);
    set(&mut body, "condition", inner);
    ctx.put("condition", &id, &Links::parent(&phase).group(pipe), body)?;
    Ok(())
}

/// Whether a rule's condition is true for a card: any group of the structure whose expressions all hold. No condition,
/// and an expression without an operation, are true.
pub(crate) fn holds(ctx: &Ctx<'_>, card: &Value, rule: &Value) -> Result<bool, GqlError> {
    let condition = rule.get("condition").cloned().unwrap_or_default();
    let expressions = condition.get("expressions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut results: HashMap<String, bool> = HashMap::new();
    for expression in &expressions {
        let field = ctx.get("field", text(expression, "field_address"))?;
        let shown = match &field {
            Some(field) => values::display(ctx, field, &values::stored(card, field))?.join(", "),
            None => String::new(),
        };
        let result = compares(ctx, text(expression, "operation"), &shown, text(expression, "value"));
        results.insert(expression.get("structure_id").and_then(crate::json::scalar).unwrap_or_default(), result);
    }
    let groups = condition.get("expressions_structure").and_then(Value::as_array).cloned().unwrap_or_default();
    if groups.is_empty() {
        return Ok(results.values().all(|r| *r));
    }
    Ok(groups.iter().any(|group| crate::json::texts(group).iter().all(|id| results.get(id) == Some(&true))))
}

/// Every operation of a condition.
pub(crate) const OPERATIONS: [&str; 19] = [
    "equals",
    "not_equals",
    "present",
    "blank",
    "string_contains",
    "string_not_contains",
    "number_greater_than",
    "number_less_than",
    "date_is_today",
    "date_is_yesterday",
    "date_in_current_week",
    "date_in_last_week",
    "date_in_current_month",
    "date_in_last_month",
    "date_in_current_year",
    "date_in_last_year",
    "date_is",
    "date_is_after",
    "date_is_before",
];

/// Whether a shown value passes an operation; none at all is always passed, an unknown one never.
pub(crate) fn compares(ctx: &Ctx<'_>, operation: &str, shown: &str, wanted: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    let compared = number(shown).zip(number(wanted));
    match operation {
        "equals" => shown == wanted,
        "not_equals" => shown != wanted,
        "present" => !shown.is_empty(),
        "blank" => shown.is_empty(),
        "string_contains" => shown.contains(wanted),
        "string_not_contains" => !shown.contains(wanted),
        "number_greater_than" => compared.is_some_and(|(a, b)| a > b),
        "number_less_than" => compared.is_some_and(|(a, b)| a < b),
        "" => true,
        operation => operation.strip_prefix("date_").is_some_and(|test| date_holds(ctx, test, shown, wanted)),
    }
}

/// `is`, `is_after`, `is_before` a date; `is_today`, `is_yesterday`, `in_current_week`, `in_last_month` and the like.
fn date_holds(ctx: &Ctx<'_>, test: &str, shown: &str, wanted: &str) -> bool {
    let date = |text: &str| parse_time(text).map(day);
    let Some(have) = date(shown) else { return false };
    match (test, date(wanted)) {
        ("is", Some(wanted)) => have == wanted,
        ("is_after", Some(wanted)) => have > wanted,
        ("is_before", Some(wanted)) => have < wanted,
        (test, _) => {
            let Some(name) = test.strip_prefix("in_").or_else(|| test.strip_prefix("is_")) else { return false };
            let (from, to) = columns::period(name, day(ctx.now));
            from <= have && have <= to
        }
    }
}
