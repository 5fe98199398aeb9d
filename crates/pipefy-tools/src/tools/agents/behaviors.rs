//! The behaviours of an AI agent: one spelling, templates filled in, every problem reported
//! (`spec/tools-automation-ai.md`, 4.1 to 4.3).

use serde_json::{Map, Value};

use super::tokens;

/// A behaviour in the API's spelling.
pub(crate) type Behavior = Map<String, Value>;

/// Behaviours an agent may have at most (the API refuses more).
pub(crate) const MAX_BEHAVIORS: usize = 5;

/// Action types whose metadata this version knows.
pub(crate) const ACTION_TYPES: [&str; 8] = [
    "create_card",
    "create_connected_card",
    "create_table_record",
    "human_validation",
    "mcp_tool",
    "move_card",
    "send_email_template",
    "update_card",
];

/// Brings the caller's behaviours into the API's form and checks them; all problems of all behaviours at once.
///
/// # Errors
/// One line per problem, each naming its path.
pub(crate) fn prepare(raw: &[Map<String, Value>]) -> Result<Vec<Behavior>, Vec<String>> {
    let mut problems = Vec::new();
    if raw.is_empty() || raw.len() > MAX_BEHAVIORS {
        problems.push(format!("behaviors: an agent has 1 to {MAX_BEHAVIORS} behaviors, not {}", raw.len()));
    }
    let mut behaviors = Vec::new();
    for (index, raw) in raw.iter().enumerate() {
        match expand(raw) {
            Ok(behavior) => {
                problems.extend(check(index, &behavior));
                behaviors.push(behavior);
            }
            Err(reason) => problems.push(format!("behaviors.{index}: {reason}")),
        }
    }
    if problems.is_empty() { Ok(behaviors) } else { Err(problems) }
}

/// One spelling, template filled in, tokens written in full.
fn expand(raw: &Map<String, Value>) -> Result<Behavior, String> {
    let mut raw = raw.clone();
    let mut parameters = Map::new();
    let mut has_parameters = false;
    for key in ["template_params", "templateParams", "placeholders"] {
        if let Some(Value::Object(given)) = raw.shift_remove(key) {
            has_parameters |= !given.is_empty();
            parameters.extend(given.into_iter().filter(|(_, value)| !value.is_null()));
        }
    }
    let template = raw.shift_remove("instruction_template");
    let template = raw.shift_remove("instructionTemplate").filter(|t| !t.is_null()).or(template);
    let mut behavior = rename(raw);
    if let Some(Value::String(template)) = template {
        set(&mut behavior, &["actionParams", "aiBehaviorParams", "instruction"], template.into());
    }
    let mut value = Value::Object(behavior);
    fill(&mut value, if has_parameters { Some(&parameters) } else { None })?;
    let Value::Object(mut behavior) = value else { return Ok(Behavior::new()) };
    if let Some(Value::String(text)) = params_mut(&mut behavior).and_then(|p| p.get_mut("instruction")) {
        *text = tokens::normalise(text);
    }
    Ok(behavior)
}

/// Writes a value at a path, making the objects on the way.
fn set(map: &mut Map<String, Value>, path: &[&str], value: Value) {
    match path {
        [] => {}
        [key] => {
            map.insert((*key).to_owned(), value);
        }
        [key, rest @ ..] => {
            let mut inner = match map.shift_remove(*key) {
                Some(Value::Object(inner)) => inner,
                _ => Map::new(),
            };
            set(&mut inner, rest, value);
            map.insert((*key).to_owned(), inner.into());
        }
    }
}

/// `aiBehaviorParams` of a behaviour.
pub(crate) fn params(behavior: &Behavior) -> Option<&Map<String, Value>> {
    behavior.get("actionParams")?.get("aiBehaviorParams")?.as_object()
}

/// `aiBehaviorParams` of a behaviour, to change it.
pub(crate) fn params_mut(behavior: &mut Behavior) -> Option<&mut Map<String, Value>> {
    behavior.get_mut("actionParams")?.get_mut("aiBehaviorParams")?.as_object_mut()
}

/// The actions of a behaviour.
pub(crate) fn actions(behavior: &Behavior) -> &[Value] {
    params(behavior).and_then(|p| p.get("actionsAttributes")).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The actions of a behaviour, to change them.
pub(crate) fn actions_mut(behavior: &mut Behavior) -> &mut [Value] {
    match params_mut(behavior).and_then(|p| p.get_mut("actionsAttributes")) {
        Some(Value::Array(actions)) => actions,
        _ => &mut [],
    }
}

/// Text under `key`, when it is text.
pub(crate) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

/// Text of an action's metadata that is not blank.
pub(crate) fn metadata<'v>(action: &'v Value, key: &str) -> Option<&'v str> {
    action.get("metadata").and_then(|m| text(m, key)).filter(|t| !t.trim().is_empty())
}

/// The field map of an action.
pub(crate) fn field_map(action: &Value) -> &[Value] {
    action.get("metadata").and_then(|m| m.get("fieldsAttributes")).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

const BEHAVIOR: &[(&str, &str)] = &[
    ("event_id", "eventId"),
    ("action_id", "actionId"),
    ("event_params", "eventParams"),
    ("action_params", "actionParams"),
];
const EVENT_PARAMS: &[(&str, &str)] = &[
    ("kind_of_sla", "kindOfSla"),
    ("from_phase_id", "fromPhaseId"),
    ("in_phase_id", "inPhaseId"),
    ("trigger_automation_id", "triggerAutomationId"),
    ("trigger_field_ids", "triggerFieldIds"),
];
const ACTION_PARAMS: &[(&str, &str)] = &[("ai_behavior_params", "aiBehaviorParams")];
const PARAMS: &[(&str, &str)] = &[
    ("actions_attributes", "actionsAttributes"),
    ("capabilities_attributes", "capabilitiesAttributes"),
    ("data_source_ids", "dataSourceIds"),
    ("referenced_field_ids", "referencedFieldIds"),
    ("provider_id", "providerId"),
    ("system_provider_id", "systemProviderId"),
];
const ACTION: &[(&str, &str)] = &[("action_type", "actionType"), ("reference_id", "referenceId")];
const METADATA: &[(&str, &str)] = &[
    ("pipe_id", "pipeId"),
    ("table_id", "tableId"),
    ("destination_phase_id", "destinationPhaseId"),
    ("email_template_id", "emailTemplateId"),
    ("allow_template_modifications", "allowTemplateModifications"),
    ("fields_attributes", "fieldsAttributes"),
    ("mcp_server_id", "mcpServerId"),
    ("tool_name", "toolName"),
    ("tool_inputs", "toolInputs"),
];
const FIELD: &[(&str, &str)] = &[("field_id", "fieldId"), ("input_mode", "inputMode")];
const CAPABILITY: &[(&str, &str)] = &[("capability_type", "capabilityType")];

/// What the API knows of a behaviour at its top level.
const KEYS: [&str; 8] = ["id", "name", "eventId", "actionId", "active", "condition", "eventParams", "actionParams"];

/// The API's spelling at every level it defines. Of two spellings of one key the API's wins and the other goes; a null
/// of a known level goes; the insides of `condition` and of unknown keys stay as they are.
fn rename(raw: Map<String, Value>) -> Behavior {
    let mut behavior = level(raw, BEHAVIOR);
    behavior.retain(|key, _| KEYS.contains(&key.as_str()));
    within(&mut behavior, "eventParams", |map| level(map, EVENT_PARAMS));
    within(&mut behavior, "actionParams", |map| {
        let mut map = level(map, ACTION_PARAMS);
        within(&mut map, "aiBehaviorParams", |map| {
            let mut map = level(map, PARAMS);
            each(&mut map, "capabilitiesAttributes", |map| level(map, CAPABILITY));
            each(&mut map, "actionsAttributes", |map| {
                let mut map = level(map, ACTION);
                within(&mut map, "metadata", |map| {
                    let mut map = level(map, METADATA);
                    each(&mut map, "fieldsAttributes", |map| level(map, FIELD));
                    map
                });
                map
            });
            map
        });
        map
    });
    behavior.entry("actionId").or_insert_with(|| "ai_behavior".into());
    behavior.entry("active").or_insert(Value::Bool(true));
    behavior
}

/// One level: aliases to names, nulls out.
pub(crate) fn level(map: Map<String, Value>, aliases: &[(&str, &str)]) -> Map<String, Value> {
    let wire = |key: &str| aliases.iter().find(|(alias, _)| *alias == key).map(|(_, name)| *name);
    let kept: Vec<String> = map.keys().filter(|k| wire(k).is_none()).cloned().collect();
    map.into_iter()
        .filter(|(_, value)| !value.is_null())
        .filter_map(|(key, value)| match wire(&key) {
            Some(name) if kept.iter().any(|k| k == name) => None,
            Some(name) => Some((name.to_owned(), value)),
            None => Some((key, value)),
        })
        .collect()
}

fn within(map: &mut Map<String, Value>, key: &str, change: impl FnOnce(Map<String, Value>) -> Map<String, Value>) {
    if let Some(Value::Object(inner)) = map.get_mut(key) {
        *inner = change(std::mem::take(inner));
    }
}

fn each(map: &mut Map<String, Value>, key: &str, change: impl Fn(Map<String, Value>) -> Map<String, Value>) {
    if let Some(Value::Array(list)) = map.get_mut(key) {
        for item in list {
            if let Value::Object(inner) = item {
                *inner = change(std::mem::take(inner));
            }
        }
    }
}

/// Replaces `{{name}}` in every text below `value`.
fn fill(value: &mut Value, parameters: Option<&Map<String, Value>>) -> Result<(), String> {
    match value {
        Value::String(text) => {
            if let Some(filled) = tokens::fill(text, parameters)? {
                *text = filled;
            }
            Ok(())
        }
        Value::Array(list) => list.iter_mut().try_for_each(|v| fill(v, parameters)),
        Value::Object(map) => map.values_mut().try_for_each(|v| fill(v, parameters)),
        _ => Ok(()),
    }
}

/// Every problem of one behaviour; rules about meaning are only checked when the structure is sound.
fn check(index: usize, behavior: &Behavior) -> Vec<String> {
    let mut found = Problems { path: format!("behaviors.{index}"), lines: Vec::new() };
    structure(behavior, &mut found);
    if found.lines.is_empty() {
        meaning(behavior, &mut found);
    }
    found.lines
}

struct Problems {
    path: String,
    lines: Vec<String>,
}

impl Problems {
    fn at(&mut self, path: &str, what: &str) {
        self.lines.push(if path.is_empty() {
            format!("{}: {what}", self.path)
        } else {
            format!("{}.{path}: {what}", self.path)
        });
    }

    fn texts(&mut self, map: &Value, path: &str, keys: &[&str]) {
        for key in keys {
            if map.get(*key).is_some_and(|v| !v.is_string()) {
                let path = if path.is_empty() { (*key).to_owned() } else { format!("{path}.{key}") };
                self.at(&path, "must be text");
            }
        }
    }

    fn text_list(&mut self, map: &Value, path: &str, key: &str) {
        match map.get(key) {
            None => {}
            Some(Value::Array(list)) if list.iter().all(Value::is_string) => {}
            Some(_) => self.at(&format!("{path}.{key}"), "must be a list of texts"),
        }
    }
}

fn structure(behavior: &Behavior, found: &mut Problems) {
    const SHAPE: &str =
        "give each behavior {name, eventId, actionParams: {aiBehaviorParams: {instruction, actionsAttributes}}}";
    let whole = Value::Object(behavior.clone());
    match behavior.get("name") {
        Some(Value::String(name)) if !name.trim().is_empty() => {}
        Some(Value::String(_)) => found.at("name", &format!("must not be blank; {SHAPE}")),
        Some(_) => found.at("name", &format!("must be text; {SHAPE}")),
        None => found.at("name", &format!("is missing; {SHAPE}")),
    }
    match behavior.get("eventId") {
        Some(Value::String(event)) if !event.trim().is_empty() => {}
        Some(Value::String(_)) => found.at("eventId", "must not be blank"),
        Some(_) => found.at("eventId", "must be text"),
        None => found.at("eventId", "is missing"),
    }
    found.texts(&whole, "", &["id", "actionId"]);
    if behavior.get("active").is_some_and(|a| lax_bool(a).is_none()) {
        found.at("active", "must be true or false");
    }
    for key in ["condition", "eventParams", "actionParams"] {
        if behavior.get(key).is_some_and(|v| !v.is_object()) {
            found.at(key, "must be an object");
        }
    }
    if let Some(event) = behavior.get("eventParams").filter(|e| e.is_object()) {
        let keys = ["kindOfSla", "fromPhaseId", "inPhaseId", "to_phase_id", "triggerAutomationId"];
        found.texts(event, "eventParams", &keys);
        found.text_list(event, "eventParams", "triggerFieldIds");
    }
    let Some(params) = behavior.get("actionParams").and_then(|a| a.get("aiBehaviorParams")) else { return };
    const AT: &str = "actionParams.aiBehaviorParams";
    if !params.is_object() {
        return found.at(AT, "must be an object");
    }
    found.texts(params, AT, &["instruction", "providerId", "systemProviderId"]);
    found.text_list(params, AT, "dataSourceIds");
    found.text_list(params, AT, "referencedFieldIds");
    if params.get("capabilitiesAttributes").is_some_and(|c| !c.is_array()) {
        found.at(&format!("{AT}.capabilitiesAttributes"), "must be a list");
    }
    let actions = match params.get("actionsAttributes") {
        None => return,
        Some(Value::Array(actions)) => actions,
        Some(_) => return found.at(&format!("{AT}.actionsAttributes"), "must be a list"),
    };
    for (j, action) in actions.iter().enumerate() {
        let at = format!("{AT}.actionsAttributes.{j}");
        if !action.is_object() {
            found.at(&at, "must be an object");
            continue;
        }
        found.texts(action, &at, &["id", "name", "actionType", "referenceId"]);
        let Some(metadata) = action.get("metadata") else { continue };
        let at = format!("{at}.metadata");
        if !metadata.is_object() {
            found.at(&at, "must be an object");
            continue;
        }
        found.texts(metadata, &at, &["pipeId", "tableId", "destinationPhaseId", "emailTemplateId"]);
        match metadata.get("fieldsAttributes") {
            None => {}
            Some(Value::Array(fields)) => {
                for (k, field) in fields.iter().enumerate() {
                    let at = format!("{at}.fieldsAttributes.{k}");
                    if field.is_object() {
                        found.texts(field, &at, &["fieldId", "inputMode", "value"]);
                    } else {
                        found.at(&at, "must be an object");
                    }
                }
            }
            Some(_) => found.at(&format!("{at}.fieldsAttributes"), "must be a list"),
        }
    }
}

fn meaning(behavior: &Behavior, found: &mut Problems) {
    if !behavior.contains_key("actionParams") {
        return found.at("", "actionParams is missing; it holds aiBehaviorParams with the instruction and the actions");
    }
    let Some(params) = params(behavior) else {
        return found.at("", "actionParams.aiBehaviorParams is missing");
    };
    let actions = actions(behavior);
    if actions.is_empty() {
        found.at("", "actionParams.aiBehaviorParams.actionsAttributes must contain at least one action");
    }
    for (j, action) in actions.iter().enumerate() {
        action_rules(j, action, found);
    }
    capabilities(params, found);
    let blank = |key: &str| params.get(key).and_then(Value::as_str).is_some_and(|t| t.trim().is_empty());
    for key in ["providerId", "systemProviderId"] {
        if blank(key) {
            found.at("", &format!("{key} must be non-empty when it is given"));
        }
    }
    if params.contains_key("providerId") && params.contains_key("systemProviderId") {
        found.at("", "at most one of providerId and systemProviderId may be set");
    }
}

fn action_rules(j: usize, action: &Value, found: &mut Problems) {
    let Some(kind) = text(action, "actionType") else { return };
    let needs: &[&str] = match kind {
        "update_card" | "create_card" | "create_connected_card" => &["pipeId", "fieldsAttributes"],
        "create_table_record" => &["tableId", "fieldsAttributes"],
        "move_card" => &["destinationPhaseId"],
        "send_email_template" => &["emailTemplateId"],
        _ => return,
    };
    let at = format!("actionsAttributes.{j}");
    for key in needs {
        if *key != "fieldsAttributes" {
            if metadata(action, key).is_none() {
                found.at(&at, &format!("{kind} needs metadata.{key}"));
            }
            continue;
        }
        let fields = field_map(action);
        if fields.is_empty() {
            found.at(&at, &format!("{kind} needs metadata.fieldsAttributes with at least one field"));
        }
        for (k, field) in fields.iter().enumerate() {
            for key in ["fieldId", "inputMode"] {
                if text(field, key).is_none_or(|t| t.trim().is_empty()) {
                    found.at(&at, &format!("{kind} needs metadata.fieldsAttributes.{k}.{key}"));
                }
            }
        }
    }
    if kind == "send_email_template"
        && action.get("metadata").and_then(|m| m.get("allowTemplateModifications")).is_some_and(|v| !v.is_boolean())
    {
        found.at(&at, "metadata.allowTemplateModifications must be true or false, not text");
    }
}

fn capabilities(params: &Map<String, Value>, found: &mut Problems) {
    let list = params.get("capabilitiesAttributes").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    for (k, capability) in list.iter().enumerate() {
        let at = format!("capabilitiesAttributes.{k}");
        let Some(map) = capability.as_object() else {
            let kind = match capability {
                Value::String(_) => "str",
                Value::Array(_) => "list",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            found.at(&at, &format!("must be an object, not {kind}"));
            continue;
        };
        if map.get("capabilityType").and_then(Value::as_str).is_none_or(|t| t.trim().is_empty()) {
            found.at(&at, "needs a capabilityType");
        }
        if map.get("enabled").and_then(lax_bool).is_none() {
            found.at(&at, "needs enabled, true or false");
        }
        for key in map.keys().filter(|k| !["capabilityType", "enabled"].contains(&k.as_str())) {
            found.at(&at, &format!("unknown key '{key}'"));
        }
    }
}

/// A boolean in the usual spellings.
pub(crate) fn lax_bool(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::Number(number) => match number.as_f64() {
            Some(0.0) => Some(false),
            Some(1.0) => Some(true),
            _ => None,
        },
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
            "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Writes booleans that came as text in their own type.
pub(crate) fn settle(behavior: &mut Behavior) {
    if let Some(active) = behavior.get("active").and_then(lax_bool) {
        behavior.insert("active".to_owned(), active.into());
    }
    if let Some(Value::Array(list)) = params_mut(behavior).and_then(|p| p.get_mut("capabilitiesAttributes")) {
        for capability in list.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(enabled) = capability.get("enabled").and_then(lax_bool) {
                capability.insert("enabled".to_owned(), enabled.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn with(params: Value) -> Map<String, Value> {
        object(json!({"name": "b", "eventId": "card_created", "actionParams": {"aiBehaviorParams": params}}))
    }

    fn move_card() -> Value {
        json!({"name": "M", "actionType": "move_card", "metadata": {"destinationPhaseId": "1"}})
    }

    #[test]
    fn both_spellings_give_the_wire_form_and_the_losing_one_goes() {
        let raw = object(json!({
            "name": "b", "event_id": "card_moved", "eventParams": {"from_phase_id": "1", "toPhaseId": "kept"}, "other": 1,
            "condition": {"x": null},
            "action_params": {"card_id": "%{1}", "ai_behavior_params": {"instruction": "x", "provider_id": null, "actions_attributes": [
                {"name": "M", "action_type": "loses", "actionType": "update_card", "metadata": {"pipe_id": "7", "fields_attributes": [{"field_id": "1", "input_mode": "fill_with_ai", "value": null}]}}
            ]}}
        }));
        let behaviors = prepare(&[raw]).unwrap();
        assert_eq!(
            Value::Object(behaviors[0].clone()),
            json!({
                "name": "b", "eventId": "card_moved", "eventParams": {"fromPhaseId": "1", "toPhaseId": "kept"},
                "condition": {"x": null}, "actionId": "ai_behavior", "active": true,
                "actionParams": {"card_id": "%{1}", "aiBehaviorParams": {"instruction": "x", "actionsAttributes": [
                    {"name": "M", "actionType": "update_card", "metadata": {"pipeId": "7", "fieldsAttributes": [{"fieldId": "1", "inputMode": "fill_with_ai"}]}}
                ]}}
            })
        );
    }

    #[test]
    fn every_problem_of_every_behaviour_is_reported() {
        let bad = [
            object(json!({"name": " ", "actionParams": 1})),
            with(json!({"instruction": "x", "actionsAttributes": []})),
            with(json!({"instruction": "x", "providerId": "1", "systemProviderId": " ",
                "capabilitiesAttributes": ["advanced_ocr", {"capabilityType": "", "x": 1}],
                "actionsAttributes": [{"actionType": "update_card", "metadata": {"fieldsAttributes": [{"fieldId": "1"}]}},
                    {"actionType": "send_email_template", "metadata": {"emailTemplateId": "1", "allowTemplateModifications": "yes"}}]})),
        ];
        let problems = prepare(&bad).unwrap_err();
        let text = problems.join("\n");
        for part in [
            "behaviors.0.name",
            "behaviors.0.eventId",
            "behaviors.0.actionParams",
            "behaviors.1: ",
            "at least one action",
            "update_card needs metadata.pipeId",
            "fieldsAttributes.0.inputMode",
            "must be true or false",
            "must be an object, not str",
            "capabilityType",
            "enabled",
            "unknown key",
            "non-empty",
            "at most one",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(prepare(&[]).is_err() && prepare(&vec![with(json!({"actionsAttributes": [move_card()]})); 6]).is_err());
    }

    #[test]
    fn templates_are_filled_everywhere_but_in_keys() {
        let mut raw = with(json!({"instruction": "{{greeting}} {5}", "actionsAttributes": [
            {"name": "{{greeting}}", "actionType": "move_card", "metadata": {"destinationPhaseId": "1"}}]}));
        assert!(prepare(std::slice::from_ref(&raw)).unwrap_err()[0].contains("no template_params"));
        raw.insert("template_params".to_owned(), json!({"greeting": 5}));
        let filled = &prepare(std::slice::from_ref(&raw)).unwrap()[0];
        assert_eq!(params(filled).unwrap()["instruction"], "5 %{field:5}");
        assert_eq!(actions(filled)[0]["name"], "5");
        raw.insert("instructionTemplate".to_owned(), json!("Say {{other}}"));
        assert!(prepare(&[raw]).unwrap_err()[0].contains("Missing template parameter 'other'"));
    }
}
