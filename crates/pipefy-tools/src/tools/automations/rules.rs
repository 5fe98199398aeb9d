//! What creating and changing rules share: conditions, event parameters, spellings, answers
//! (`spec/tools-automation-ai.md`, 1.13 to 1.16).

use pipefy::{Data, Error, OperationKind, automations, pipes};
use serde_json::{Map, Value, json};

use crate::readback::Found;
use crate::tools::agents::preflight::{TRANSITIONS, destinations};
use crate::tools::agents::tokens::is_digits;
use crate::tools::condition_operations;
use crate::tools::shared::{list_at, text_of};
use crate::{Call, Explain, Page, Plan, ToolError};

/// A rule with a prompt has this action.
pub(crate) const AI_ACTION: &str = "generate_with_ai";

/// Rules the API gives on one page at most.
pub(crate) const PAGE: i64 = 50;

/// A condition as it is sent: checked, without nulls and without the id that it is read with.
///
/// # Errors
/// One line per problem.
pub(crate) fn condition(mut condition: Map<String, Value>) -> Result<Map<String, Value>, Vec<String>> {
    let mut problems = Vec::new();
    condition.retain(|key, value| !value.is_null() && key != "id");
    for key in ["expressions", "expressions_structure"] {
        if condition.get(key).is_some_and(|v| !v.is_array()) {
            problems.push(format!("{key}: must be a list"));
        }
    }
    if let Some(Value::Array(expressions)) = condition.get_mut("expressions") {
        for (i, expression) in expressions.iter_mut().enumerate() {
            let Value::Object(map) = expression else {
                problems.push(format!("expressions.{i}: must be an object"));
                continue;
            };
            map.retain(|_, value| !value.is_null());
            for key in ["field_address", "operation", "value", "id"] {
                if map.get(key).is_some_and(|v| !v.is_string()) {
                    problems.push(format!("expressions.{i}.{key}: must be text"));
                }
            }
            if let Some(given) = map.get("operation").and_then(Value::as_str)
                && let Some(meant) = condition_operations::meant(given)
            {
                problems.push(format!("expressions.{i}.operation: '{given}' is no operation, did you mean '{meant}'?"));
            }
            if map.get("structure_id").is_some_and(|v| !v.is_string() && !v.is_i64() && !v.is_u64()) {
                problems.push(format!("expressions.{i}.structure_id: must be text or a whole number"));
            }
        }
    }
    if problems.is_empty() { Ok(condition) } else { Err(problems) }
}

/// A new rule's condition, which is only wanted when it compares something.
///
/// # Errors
/// Problems of the condition, or none to compare.
pub(crate) fn real_condition(given: Option<Map<String, Value>>) -> Result<Option<Map<String, Value>>, ToolError> {
    match changed_condition(given)? {
        Some(condition) if condition.get("expressions") == Some(&json!([])) => Err(no_expression()),
        condition => Ok(condition),
    }
}

/// A condition that replaces a rule's; an empty list of expressions removes it.
///
/// # Errors
/// Problems of the condition, or no list of expressions.
pub(crate) fn changed_condition(given: Option<Map<String, Value>>) -> Result<Option<Map<String, Value>>, ToolError> {
    let Some(given) = given else { return Ok(None) };
    let condition = condition(given).map_err(invalid)?;
    if condition.contains_key("expressions") { Ok(Some(condition)) } else { Err(no_expression()) }
}

/// The condition of an argument replaces the one of the further keys, which is checked alike.
///
/// # Errors
/// Problems of the condition.
pub(crate) fn put_condition(
    extra: &mut Map<String, Value>,
    given: Option<Map<String, Value>>,
) -> Result<(), ToolError> {
    let checked = match (given, extra.remove("condition")) {
        (Some(given), _) => given,
        (None, Some(Value::Object(beside))) => condition(beside).map_err(invalid)?,
        (None, Some(_)) => return Err(invalid(vec!["must be an object".to_owned()])),
        (None, None) => return Ok(()),
    };
    extra.insert("condition".to_owned(), checked.into());
    Ok(())
}

/// What is to be said about the condition that a plan sends; blank when there is nothing.
pub(crate) fn remark<K>(plan: &Plan<K>) -> String {
    let input = plan.mutations().next().and_then(|mutation| mutation.operation().variables.get("input"));
    condition_operations::remark(input.and_then(|input| input.get("condition")))
}

/// The failure for problems of a condition.
pub(crate) fn invalid(problems: Vec<String>) -> ToolError {
    ToolError::refused_value(format!("Invalid 'condition': {}", problems.join("; ")))
}

fn no_expression() -> ToolError {
    ToolError::refused_value("'condition' needs at least one expression; leave it out for a rule without condition.")
}

/// The condition that stands for none.
pub(crate) fn default_condition() -> Value {
    json!({
        "expressions": [{ "structure_id": 0, "field_address": "", "operation": "", "value": "" }],
        "expressions_structure": [[0]],
    })
}

/// Event parameters as they are sent: the API's spelling, without nulls and without the phase that is only read.
///
/// # Errors
/// One line per problem.
pub(crate) fn event_params(given: Map<String, Value>) -> Result<Map<String, Value>, Vec<String>> {
    const ALIASES: &[(&str, &str)] = &[
        ("kind_of_sla", "kindOfSla"),
        ("from_phase_id", "fromPhaseId"),
        ("in_phase_id", "inPhaseId"),
        ("trigger_automation_id", "triggerAutomationId"),
        ("trigger_field_ids", "triggerFieldIds"),
    ];
    let mut params = crate::tools::agents::behaviors::level(given, ALIASES);
    params.remove("phase");
    let mut problems = Vec::new();
    for key in ["kindOfSla", "fromPhaseId", "inPhaseId", "to_phase_id", "triggerAutomationId"] {
        if params.get(key).is_some_and(|v| !v.is_string()) {
            problems.push(format!("event_params.{key}: must be text"));
        }
    }
    let texts = |v: &Value| v.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    if params.get("triggerFieldIds").is_some_and(|v| !texts(v)) {
        problems.push("event_params.triggerFieldIds: must be a list of texts".to_owned());
    }
    if problems.is_empty() { Ok(params) } else { Err(problems) }
}

/// Further keys of the mutation's input in the API's spelling, nulls out. Of two spellings the API's wins; what is inside
/// the values stays as it is (field report A14), but for what get_automation shows and the API does not take.
pub(crate) fn extra_keys(given: Option<Map<String, Value>>) -> Map<String, Value> {
    const ALIASES: &[(&str, &str)] = &[
        ("actionId", "action_id"),
        ("actionParams", "action_params"),
        ("actionRepoId", "action_repo_id"),
        ("eventId", "event_id"),
        ("eventParams", "event_params"),
        ("eventRepoId", "event_repo_id"),
        ("schedulerFrequency", "scheduler_frequency"),
        ("client_mutation_id", "clientMutationId"),
        ("response_schema", "responseSchema"),
        ("scheduler_cron", "schedulerCron"),
        ("search_for", "searchFor"),
    ];
    let mut extra = crate::tools::agents::behaviors::level(given.unwrap_or_default(), ALIASES);
    for (group, shown) in [
        ("condition", &["id"][..]),
        ("event_params", &["phase"]),
        ("action_params", &["phase", "hasAuthenticationValue", "oauth2ClientData"]),
    ] {
        let Some(Value::Object(params)) = extra.get_mut(group) else { continue };
        // The client is read as an object and written by its id.
        let client = params.get("oauth2ClientData").and_then(|client| text_of(client.get("uuid")));
        if let Some(client) = client.filter(|_| params.get("oauth2ClientId").is_none_or(Value::is_null)) {
            params.insert("oauth2ClientId".to_owned(), client.into());
        }
        params.retain(|key, _| !shown.contains(&key.as_str()));
        if let Some(Value::Object(behavior)) = params.get_mut("aiBehaviorParams") {
            behavior.remove("uuid");
        }
    }
    extra
}

/// Refuses keys that an argument already gives.
///
/// # Errors
/// `INVALID_ARGUMENTS` naming the key.
pub(crate) fn refuse_keys(extra: &Map<String, Value>, keys: &[&str]) -> Result<(), ToolError> {
    match keys.iter().find(|key| extra.contains_key(**key)) {
        Some(key) => Err(ToolError::invalid(format!(
            "extra_input must not hold '{key}': it repeats or contradicts an argument of the tool. Use the argument."
        ))),
        None => Ok(()),
    }
}

/// The rule in a mutation's answer.
///
/// # Errors
/// Nothing came back, `error_details` say why it was refused, or no rule is in the answer.
pub(crate) fn saved(data: &Data, root: &str) -> Result<Value, Refused> {
    let value = data.value();
    let nothing = || Refused::Api(Error::NoPayload { field: root.to_owned(), kind: OperationKind::Mutation });
    let payload = value.get(root).filter(|p| p.is_object()).ok_or_else(nothing)?;
    if let Some(text) = payload.get("error_details").and_then(reasons) {
        return Err(Refused::Details(text));
    }
    payload.get("automation").filter(|a| a.is_object()).cloned().ok_or_else(nothing)
}

/// Why a rule was not saved.
pub(crate) enum Refused {
    /// The call failed.
    Api(Error),
    /// Pipefy's own account of what is wrong with it; never read as "not found".
    Details(String),
}

impl Refused {
    /// As a failure about `explain`'s resource.
    pub(crate) fn map(self, call: &Call<'_>, explain: &Explain<'_>) -> ToolError {
        match self {
            Self::Api(error) => explain.map(call, error),
            Self::Details(text) => ToolError::api(text),
        }
    }
}

/// The text of `error_details`; none when there is nothing to say.
fn reasons(details: &Value) -> Option<String> {
    let joined = |list: Vec<String>| (!list.is_empty()).then(|| list.join("; "));
    match details {
        Value::String(text) => Some(text.trim().to_owned()).filter(|t| !t.is_empty()),
        Value::Object(map) if map.is_empty() => None,
        Value::Object(map) => joined(messages(map)).or_else(|| Some(details.to_string())),
        Value::Array(list) => joined(list.iter().filter_map(reason).collect()),
        _ => None,
    }
}

fn messages(map: &Map<String, Value>) -> Vec<String> {
    let one = map.get("message").and_then(Value::as_str);
    map.get("messages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .chain(one)
        .map(str::trim)
        .filter(|t| !t.is_empty())
        .map(str::to_owned)
        .collect()
}

fn reason(item: &Value) -> Option<String> {
    let map = match item {
        Value::String(text) => return Some(text.trim().to_owned()).filter(|t| !t.is_empty()),
        Value::Object(map) => map,
        _ => return None,
    };
    let body = messages(map).join("; ");
    if body.is_empty() {
        return None;
    }
    let part = |key: &str| text_of(map.get(key)).filter(|t| !t.trim().is_empty());
    Some(match (part("object_name"), part("object_key")) {
        (Some(name), Some(key)) => format!("{name} ({key}): {body}"),
        (Some(name), None) => format!("{name}: {body}"),
        (None, Some(key)) => format!("{key}: {body}"),
        (None, None) => body,
    })
}

/// Checks a new rule against what can be read; what cannot be read is not checked.
///
/// # Errors
/// The move is not configured, or a field is not the pipe's.
pub(crate) async fn preflight(call: &Call<'_>, input: &Map<String, Value>) -> Result<(), ToolError> {
    transition(call, input).await?;
    field_map(call, input).await
}

fn param<'m>(input: &'m Map<String, Value>, group: &str, key: &str) -> Option<&'m str> {
    input.get(group)?.get(key)?.as_str().filter(|t| !t.trim().is_empty())
}

fn text<'m>(input: &'m Map<String, Value>, key: &str) -> Option<&'m str> {
    input.get(key).and_then(Value::as_str)
}

async fn transition(call: &Call<'_>, input: &Map<String, Value>) -> Result<(), ToolError> {
    if text(input, "event_id") != Some("card_moved") || text(input, "action_id") != Some("move_single_card") {
        return Ok(());
    }
    let (Some(from), Some(to)) =
        (param(input, "event_params", "to_phase_id"), param(input, "action_params", "to_phase_id"))
    else {
        return Ok(());
    };
    let Ok(data) = call.query(pipes::get_phase_allowed_move_targets(from)).await else { return Ok(()) };
    let value = data.value();
    let Some(phase) = value.get("phase").filter(|p| p.is_object()) else { return Ok(()) };
    let allowed = list_at(phase, "cards_can_be_moved_to_phases");
    if allowed.iter().any(|p| text_of(p.get("id")).as_deref() == Some(to)) {
        return Ok(());
    }
    let name = text_of(phase.get("name")).filter(|n| !n.is_empty()).map(|n| format!("'{n}' ")).unwrap_or_default();
    Err(ToolError::refused_value(format!(
        "This rule could never move a card: from phase {name}({from}) the destination {to} cannot be reached. Allowed destinations: {}. \
         {TRANSITIONS}",
        destinations(allowed)
    )))
}

async fn field_map(call: &Call<'_>, input: &Map<String, Value>) -> Result<(), ToolError> {
    let entries = input.get("action_params").and_then(|p| p.get("field_map")).and_then(Value::as_array);
    let ids: Vec<&str> = entries
        .into_iter()
        .flatten()
        .filter_map(|e| e.get("fieldId").or_else(|| e.get("field_id"))?.as_str())
        .filter(|id| !id.trim().is_empty())
        .collect();
    let Some(pipe) = text(input, "action_repo_id") else { return Ok(()) };
    const WHERE: &str = "Find ids with `get_start_form_fields` and `get_phase_fields`.";
    if let Some(slug) = ids.iter().find(|id| !is_digits(id)) {
        return Err(ToolError::refused_value(format!(
            "field_map: '{slug}' is no numeric internal_id of pipe {pipe}; the slug that update_card_field takes does not work here. {WHERE}"
        )));
    }
    if ids.is_empty() {
        return Ok(());
    }
    let Ok(data) = call.query(pipes::get_pipe(pipe)).await else { return Ok(()) };
    let value = data.value();
    let forms = list_at(&value, "pipe.start_form_fields").iter();
    let phases = list_at(&value, "pipe.phases").iter().flat_map(|phase| list_at(phase, "fields"));
    let known: Vec<String> = forms.chain(phases).filter_map(|f| text_of(f.get("internal_id"))).collect();
    match ids.iter().find(|id| !known.iter().any(|k| k == *id)) {
        Some(id) => {
            Err(ToolError::refused_value(format!("field_map: field {id} is not a field of pipe {pipe}. {WHERE}")))
        }
        None => Ok(()),
    }
}

/// Rules of an organisation or a pipe, one page.
pub(crate) struct Listing {
    /// The rules.
    pub(crate) rules: Vec<Value>,
    /// Where the listing stands.
    pub(crate) page: Page,
}

/// Reads one page. `None` when the pipe has no organisation: it does not exist or cannot be seen.
///
/// # Errors
/// The API's.
pub(crate) async fn list(
    call: &Call<'_>,
    organization_id: Option<&str>,
    pipe_id: Option<&str>,
    first: Option<i64>,
    after: Option<&str>,
) -> Result<Option<Listing>, Error> {
    let organization = match (organization_id, pipe_id) {
        (Some(id), _) => Some(id.to_owned()),
        (None, Some(pipe)) => {
            let data = call.query(automations::pipe_organization_id(pipe)).await?;
            text_of(crate::dig(&data.value(), "pipe.organizationId")).filter(|id| !id.is_empty())
        }
        (None, None) => None,
    };
    let Some(organization) = organization else { return Ok(None) };
    let query = match pipe_id {
        Some(pipe) => automations::get_automations_of_repo(&organization, pipe, first, after),
        None => automations::get_automations(&organization, first, after),
    };
    let value = call.query(query).await?.value();
    let connection = value.get("automations").unwrap_or(&Value::Null);
    let mut page = Page::from_page_info(connection.get("pageInfo"), first);
    page.total_count = Some(connection.get("totalCount").and_then(Value::as_i64).unwrap_or(0));
    Ok(Some(Listing { rules: list_at(connection, "nodes").to_vec(), page }))
}

/// What a listing's message says.
pub(crate) fn listing_message(shown: usize, page: &Page) -> String {
    let total = page.total_count.unwrap_or_default();
    if page.has_more {
        format!(
            "{shown} of {total} rules listed. Call again with `after` = pagination.end_cursor; the listing is incomplete until has_more \
             is false."
        )
    } else {
        format!("{shown} of {total} rules listed; this is the last page.")
    }
}

/// A note for tools that are about rules with a prompt, when this one is another.
pub(crate) fn other_action(rule: Option<&Value>) -> String {
    match rule.and_then(|r| text_of(r.get("action_id"))) {
        Some(action) if action != AI_ACTION => {
            format!(" Note: its action is '{action}', so it is not an AI automation.")
        }
        _ => String::new(),
    }
}

/// One rule, or `None` when it does not exist.
///
/// # Errors
/// The API's.
pub(crate) async fn read(call: &Call<'_>, automation_id: &str) -> Result<Option<Value>, Error> {
    let data = call.query(automations::get_automation(automation_id)).await?;
    Ok(data.value().get("automation").filter(|a| a.is_object()).cloned())
}

/// What reading a rule back can be compared by: the rest is shown in another form than it is written in.
pub(crate) fn comparable(rule: &Value) -> Map<String, Value> {
    let kept = ["name", "active"].into_iter().filter_map(|key| Some((key.to_owned(), rule.get(key)?.clone())));
    kept.collect()
}

/// The rule as it is now, for `verify`.
pub(crate) async fn found(call: &Call<'_>, automation_id: &str) -> Found {
    match read(call, automation_id).await {
        Ok(Some(rule)) => Found::Thing(comparable(&rule).into()),
        Ok(None) => Found::Nothing,
        Err(error) => Found::Unread(error.to_string()),
    }
}

/// Why a trigger never starts an action. Only the block lists of the two catalogues say so; an empty `triggerEvents` rules
/// nothing out. Nothing when they allow it or cannot be read.
pub(crate) async fn ruled_out(call: &Call<'_>, repo_id: &str, trigger: &str, action: &str) -> Option<String> {
    let lists = |data: &Value, root: &str, id: &str, key: &str, other: &str| {
        let rows = data.get(root).and_then(Value::as_array).into_iter().flatten();
        let mut rows = rows.filter(|row| text_of(row.get("id")).as_deref() == Some(id));
        rows.any(|row| {
            row.get(key).and_then(Value::as_array).is_some_and(|list| list.iter().any(|entry| entry == other))
        })
    };
    let actions =
        call.query(automations::get_automation_actions(repo_id)).await.map(|data| data.value()).unwrap_or_default();
    let key = match lists(&actions, "automationActions", action, "eventsBlacklist", trigger) {
        true => "eventsBlacklist of the action",
        false => {
            let events =
                call.query(automations::get_automation_events()).await.map(|data| data.value()).unwrap_or_default();
            if !lists(&events, "automationEvents", trigger, "actionsBlacklist", action) {
                return None;
            }
            "actionsBlacklist of the trigger"
        }
    };
    Some(format!("the rule exists, but Pipefy never runs {action} on {trigger}: the {key} says so"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn conditions_keep_what_is_not_known_and_name_every_problem() {
        let good = object(
            json!({"expressions": [{"field_address": "1", "structure_id": 0, "id": null, "new": 1}], "more": null, "other": {"x": null}}),
        );
        assert_eq!(
            Value::Object(condition(good).unwrap()),
            json!({"expressions": [{"field_address": "1", "structure_id": 0, "new": 1}], "other": {"x": null}})
        );
        let bad = object(json!({"expressions": [1, {"value": 2, "structure_id": true}], "expressions_structure": {}}));
        assert_eq!(condition(bad).unwrap_err().len(), 4);
        let slip =
            object(json!({"expressions": [{"operation": "equals"}, {"operation": "Equal"}, {"operation": "is_new"}]}));
        assert_eq!(
            condition(slip).unwrap_err(),
            ["expressions.1.operation: 'Equal' is no operation, did you mean 'equals'?"]
        );
        assert!(real_condition(Some(Map::new())).unwrap_err().message.contains("expression"));
    }

    #[test]
    fn the_apis_spelling_wins_and_nothing_inside_is_touched() {
        let extra = extra_keys(Some(object(json!({
            "actionParams": {"lost": 1}, "action_params": {"eventId": 1}, "eventParams": {"x": 1}, "scheduler_cron": {}, "note": null, "other": 1
        }))));
        assert_eq!(
            Value::Object(extra),
            json!({"action_params": {"eventId": 1}, "event_params": {"x": 1}, "schedulerCron": {}, "other": 1})
        );
    }

    #[test]
    fn what_is_only_read_is_not_sent_back() {
        let read = object(json!({
            "condition": {"id": "7", "expressions": [{"id": "8", "value": "x"}]},
            "event_params": {"to_phase_id": "1", "phase": {"id": "1", "name": "Inbox"}},
            "action_params": {"phase": null, "hasAuthenticationValue": true, "url": "u", "oauth2ClientData": {"uuid": "c", "name": "N"},
                              "aiBehaviorParams": {"uuid": "b", "instruction": "i"}},
        }));
        let sent = json!({
            "condition": {"expressions": [{"id": "8", "value": "x"}]},
            "event_params": {"to_phase_id": "1"},
            "action_params": {"url": "u", "oauth2ClientId": "c", "aiBehaviorParams": {"instruction": "i"}},
        });
        assert_eq!(Value::Object(extra_keys(Some(read.clone()))), sent);
        assert_eq!(Value::Object(condition(object(read["condition"].clone())).unwrap()), sent["condition"]);
        assert_eq!(Value::Object(event_params(object(read["event_params"].clone())).unwrap()), sent["event_params"]);
    }

    #[test]
    fn error_details_in_every_form() {
        for (details, text) in [
            (json!([]), None),
            (json!(null), None),
            (json!("no"), Some("no")),
            (json!({"messages": ["a", " ", "b"]}), Some("a; b")),
            (
                json!([{"messages": ["not found"], "object_key": "1", "object_name": "Field"}, {"message": "bad"}, 5, {}, "x"]),
                Some("Field (1): not found; bad; x"),
            ),
            (json!([{"messages": ["m"], "object_key": "k"}]), Some("k: m")),
        ] {
            assert_eq!(reasons(&details).as_deref(), text, "{details}");
        }
    }
}
