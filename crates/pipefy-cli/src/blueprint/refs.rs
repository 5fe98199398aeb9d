//! Ids in the place of names and back: in conditions, and in what automations wait for and do.
//!
//! Both ways go through the same tables, so that what is read can be written. An id that has no name stays an id:
//! `{id: "5"}`.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// Fields and phases of a pipe or table.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    pub(super) fields: HashMap<String, String>,
    pub(super) phases: HashMap<String, String>,
}

/// Which way a dictionary leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    #[default]
    ToNames,
    ToIds,
}

/// What stands for what.
#[derive(Clone, Debug, Default)]
pub(super) struct Dictionary {
    pub(super) way: Way,
    /// The pipe's own.
    pub(super) own: Book,
    /// Those of the pipe or table that an automation works on.
    pub(super) other: Book,
    pub(super) automations: HashMap<String, String>,
    pub(super) templates: HashMap<String, String>,
}

/// What a value refers to.
#[derive(Clone, Copy)]
enum Ref {
    /// Text, at any depth, that may name fields as `%{...}`.
    Texts,
    Phase,
    Field,
    /// A field of what the automation works on.
    Target,
    Fields,
    Targets,
    Automation,
    Template,
    /// Maps of this table, in a list or alone.
    Rows(&'static [Row]),
}

/// The key of the API, the key in files, what the value is.
type Row = (&'static str, &'static str, Ref);

const EVENT: &[Row] = &[
    ("to_phase_id", "to_phase", Ref::Phase),
    ("fromPhaseId", "from_phase", Ref::Phase),
    ("inPhaseId", "in_phase", Ref::Phase),
    ("kindOfSla", "sla", Ref::Texts),
    ("triggerFieldIds", "fields", Ref::Fields),
    ("triggerAutomationId", "automation", Ref::Automation),
];

const ACTION: &[Row] = &[
    ("to_phase_id", "to_phase", Ref::Phase),
    ("email_template_id", "email_template", Ref::Template),
    ("field_map", "fields", Ref::Rows(MAPPED)),
    ("fields_map_order", "fields_order", Ref::Targets),
    ("aiParams", "ai", Ref::Rows(AI)),
];

const AI: &[Row] = &[("value", "prompt", Ref::Texts), ("fieldIds", "fields", Ref::Fields)];

const MAPPED: &[Row] = &[("fieldId", "field", Ref::Target), ("inputMode", "mode", Ref::Texts)];

const EXPRESSION: &[Row] = &[("field_address", "field", Ref::Field)];

const RULE_ACTION: &[Row] =
    &[("actionId", "action", Ref::Texts), ("phaseFieldId", "field", Ref::Field), ("phaseId", "phase", Ref::Phase)];

const SEARCH: &[Row] = &[("field", "field", Ref::Target)];

impl Dictionary {
    /// `event_params` of an automation.
    pub(super) fn event(&self, params: &Value) -> Result<Value, String> {
        self.rows(EVENT, params)
    }

    /// `action_params` of an automation.
    pub(super) fn action(&self, params: &Value) -> Result<Value, String> {
        self.rows(ACTION, params)
    }

    /// `searchFor` of an automation.
    pub(super) fn search(&self, rows: &Value) -> Result<Value, String> {
        self.rows(SEARCH, rows)
    }

    /// What a field condition does; `place` is the phase whose condition it is.
    pub(super) fn rule_actions(&self, actions: &Value, place: &str) -> Result<Value, String> {
        let mut list = Vec::new();
        for action in actions.as_array().into_iter().flatten() {
            let mut action = action.as_object().cloned().unwrap_or_default();
            if self.way == Way::ToNames {
                let phase = action.shift_remove("phase").and_then(|phase| phase.get("id").cloned());
                action.extend(phase.map(|id| ("phaseId".to_owned(), id)));
                if action.shift_remove("whenEvaluator") == Some(false.into()) {
                    action.insert("unless".to_owned(), true.into());
                }
            } else {
                let unless = action.shift_remove("unless") == Some(true.into());
                action.insert("whenEvaluator".to_owned(), (!unless).into());
                action.entry("phase").or_insert_with(|| place.into());
            }
            let mut row = self.row(RULE_ACTION, &action)?;
            if row.get("phase").and_then(Value::as_str) == Some(place) {
                row.shift_remove("phase");
            }
            list.push(row.into());
        }
        Ok(Value::Array(list))
    }

    /// A condition of Pipefy as groups of comparisons: any group must hold, with all that is in it. None at all is null.
    pub(super) fn groups(&self, condition: &Value) -> Result<Value, String> {
        let list = |key: &str| condition.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let mut expressions: Vec<(String, Value)> = Vec::new();
        for expression in list("expressions") {
            let mut map = expression.as_object().cloned().unwrap_or_default();
            let place = text(&map.shift_remove("structure_id").unwrap_or_default());
            map.shift_remove("id");
            let row = self.row(EXPRESSION, &map)?;
            // Rules without a condition have an expression that compares nothing.
            if !row.is_empty() {
                expressions.push((place, row.into()));
            }
        }
        let find = |id: &Value| expressions.iter().find(|(place, _)| *place == text(id)).map(|(_, row)| row.clone());
        let mut groups: Vec<Value> = Vec::new();
        for group in list("expressions_structure") {
            let rows: Vec<Value> = match &group {
                Value::Array(ids) => ids.iter().filter_map(find).collect(),
                id => find(id).into_iter().collect(),
            };
            if !rows.is_empty() {
                groups.push(rows.into());
            }
        }
        if groups.is_empty() && !expressions.is_empty() {
            let all: Vec<Value> = expressions.into_iter().map(|(_, row)| row).collect();
            groups.push(all.into());
        }
        Ok(if groups.is_empty() { Value::Null } else { groups.into() })
    }

    /// The opposite of [`Dictionary::groups`]; none gives a condition without expressions.
    pub(super) fn condition(&self, groups: Option<&Value>) -> Result<Value, String> {
        let (mut expressions, mut structure) = (Vec::new(), Vec::new());
        for group in groups.and_then(Value::as_array).into_iter().flatten() {
            let mut ids: Vec<Value> = Vec::new();
            let rows = group.as_array().ok_or("`when` is a list of groups, and a group is a list of comparisons")?;
            for row in rows {
                let row = row.as_object().ok_or("a comparison is a map with field, operation and value")?;
                let mut sent = self.row(EXPRESSION, row)?;
                for key in ["field_address", "operation", "value"] {
                    sent.entry(key).or_insert_with(|| "".into());
                }
                if let Some(value) = sent.get_mut("value").filter(|value| !value.is_string()) {
                    *value = value.to_string().into();
                }
                sent.insert("structure_id".to_owned(), expressions.len().into());
                ids.push(expressions.len().into());
                expressions.push(Value::from(sent));
            }
            structure.push(Value::from(ids));
        }
        Ok(json!({ "expressions": expressions, "expressions_structure": structure }))
    }

    /// Fields that a connection fills in.
    pub(super) fn mapped(&self, rows: &Value) -> Result<Value, String> {
        self.rows(MAPPED, rows)
    }

    fn rows(&self, table: &'static [Row], value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::Array(items) => {
                items.iter().map(|item| self.rows(table, item)).collect::<Result<Vec<_>, _>>()?.into()
            }
            Value::Object(map) => self.row(table, map)?.into(),
            other => other.clone(),
        })
    }

    fn row(&self, table: &'static [Row], map: &Map<String, Value>) -> Result<Map<String, Value>, String> {
        let mut out = Map::new();
        for (key, value) in map.iter().filter(|(_, value)| !is_blank(value)) {
            let row = table.iter().find(|(api, own, _)| match self.way {
                Way::ToNames => *api == key,
                Way::ToIds => *own == key,
            });
            let (key, kind) = match (row, self.way) {
                (Some((_, own, kind)), Way::ToNames) => (*own, *kind),
                (Some((api, _, kind)), Way::ToIds) => (*api, *kind),
                (None, _) => (key.as_str(), Ref::Texts),
            };
            let value = self.value(kind, value)?;
            if !is_blank(&value) {
                out.insert(key.to_owned(), value);
            }
        }
        Ok(out)
    }

    fn value(&self, kind: Ref, value: &Value) -> Result<Value, String> {
        let (own, other) = (&self.own, &self.other);
        match kind {
            Ref::Texts => Ok(self.texts(value)),
            Ref::Phase => self.look("phase", &[&other.phases, &own.phases], value),
            Ref::Field => self.look("field", &[&own.fields, &other.fields], value),
            Ref::Target => self.look("field", &[&other.fields, &own.fields], value),
            Ref::Automation => self.look("automation", &[&self.automations], value),
            Ref::Template => self.look("e-mail template", &[&self.templates], value),
            Ref::Rows(table) => self.rows(table, value),
            Ref::Fields | Ref::Targets => {
                let kind = if matches!(kind, Ref::Fields) { Ref::Field } else { Ref::Target };
                let items = value.as_array().ok_or("a list of fields is expected")?;
                Ok(items.iter().map(|item| self.value(kind, item)).collect::<Result<Vec<_>, _>>()?.into())
            }
        }
    }

    fn look(&self, what: &str, books: &[&HashMap<String, String>], value: &Value) -> Result<Value, String> {
        let key = match (value, self.way) {
            (Value::Object(map), Way::ToIds) => {
                return map.get("id").filter(|id| id.is_string()).cloned().ok_or(format!("{value} names no {what}"));
            }
            _ => text(value),
        };
        match (books.iter().find_map(|book| book.get(&key)), self.way) {
            (Some(found), _) => Ok(found.as_str().into()),
            (None, Way::ToNames) => Ok(json!({ "id": key })),
            (None, Way::ToIds) => Err(format!("there is no {what} {key:?}")),
        }
    }

    fn texts(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.tokens(text).into(),
            Value::Array(items) => items.iter().map(|item| self.texts(item)).collect::<Vec<_>>().into(),
            Value::Object(map) => map
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), self.texts(value)))
                .collect::<Map<_, _>>()
                .into(),
            other => other.clone(),
        }
    }

    /// `%{...}` that stand for fields; others, such as those of Pipefy itself, stay.
    fn tokens(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("%{") {
            let Some((inside, behind)) = after.split_once('}') else { break };
            out.push_str(before);
            let found = [&self.own, &self.other].into_iter().find_map(|book| book.fields.get(inside));
            let found = found.filter(|name| !name.contains('}'));
            out.push_str("%{");
            out.push_str(found.map_or(inside, String::as_str));
            out.push('}');
            rest = behind;
        }
        out.push_str(rest);
        out
    }
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// An id as text, whether it came as text or as a number.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| if value.is_null() { String::new() } else { value.to_string() }, str::to_owned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn dictionaries() -> (Dictionary, Dictionary) {
        let pairs = [("1", "Start form / What?"), ("2", "Doing / Price")];
        let names = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let ids = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*b).to_owned(), (*a).to_owned())).collect();
        let other = [("9", "Start form / Subject")];
        let there = Dictionary {
            way: Way::ToNames,
            own: Book { fields: names(&pairs), phases: names(&[("7", "Doing")]) },
            other: Book { fields: names(&other), phases: HashMap::new() },
            automations: names(&[("5", "First")]),
            templates: names(&[("6", "Hello")]),
        };
        let back = Dictionary {
            way: Way::ToIds,
            own: Book { fields: ids(&pairs), phases: ids(&[("7", "Doing")]) },
            other: Book { fields: ids(&other), phases: HashMap::new() },
            automations: ids(&[("5", "First")]),
            templates: ids(&[("6", "Hello")]),
        };
        (there, back)
    }

    #[test]
    fn what_is_read_can_be_written() {
        let (there, back) = dictionaries();
        let action = json!({
            "to_phase_id": "7", "email_template_id": 6, "url": null, "body": "{\"a\": \"%{1}\", \"b\": \"%{x}\"} %{",
            "field_map": [{"fieldId": "9", "inputMode": "fixed_value", "value": "%{1} and %{2}"}, {"fieldId": "404", "value": null}],
            "aiParams": {"value": "Sum up %{1}", "fieldIds": ["2"], "skillsIds": []},
        });
        let read = there.action(&action).unwrap();
        assert_eq!(
            read,
            json!({
                "to_phase": "Doing", "email_template": "Hello", "body": "{\"a\": \"%{Start form / What?}\", \"b\": \"%{x}\"} %{",
                "fields": [
                    {"field": "Start form / Subject", "mode": "fixed_value", "value": "%{Start form / What?} and %{Doing / Price}"},
                    {"field": {"id": "404"}},
                ],
                "ai": {"prompt": "Sum up %{Start form / What?}", "fields": ["Doing / Price"]},
            })
        );
        let written = back.action(&read).unwrap();
        assert_eq!(there.action(&written).unwrap(), read);
        assert_eq!(written["field_map"][1], json!({"fieldId": "404"}));
        assert_eq!(written["email_template_id"], "6");
        let event =
            json!({"triggerFieldIds": ["1", 2], "triggerAutomationId": "5", "kindOfSla": "late", "inPhaseId": "7"});
        let read = there.event(&event).unwrap();
        assert_eq!(there.event(&back.event(&read).unwrap()).unwrap(), read);
        assert!(back.event(&json!({"to_phase": "Nowhere"})).unwrap_err().contains("no phase \"Nowhere\""));
    }

    #[test]
    fn conditions_keep_their_groups() {
        let (there, back) = dictionaries();
        let condition = json!({
            "expressions": [
                {"structure_id": "a", "field_address": "1", "operation": "equals", "value": "x"},
                {"structure_id": 1, "field_address": "2", "operation": "present", "value": ""},
                {"structure_id": "2", "field_address": "3", "operation": "blank", "value": null},
            ],
            "expressions_structure": [["a", "1"], [2]],
        });
        let groups = there.groups(&condition).unwrap();
        assert_eq!(
            groups,
            json!([
                [{"field": "Start form / What?", "operation": "equals", "value": "x"}, {"field": "Doing / Price", "operation": "present"}],
                [{"field": {"id": "3"}, "operation": "blank"}],
            ])
        );
        let sent = back.condition(Some(&groups)).unwrap();
        assert_eq!(sent["expressions_structure"], json!([[0, 1], [2]]));
        assert_eq!(there.groups(&sent).unwrap(), groups);
        let nothing = json!({"expressions": [{"structure_id": 0, "field_address": "", "operation": "", "value": ""}], "expressions_structure": [[0]]});
        assert_eq!(there.groups(&nothing).unwrap(), Value::Null);
        assert!(back.condition(Some(&json!([{"field": "x"}]))).is_err());
    }

    #[test]
    fn actions_of_rules_say_only_what_is_special() {
        let (there, back) = dictionaries();
        let actions = json!([
            {"actionId": "show", "phaseFieldId": "2", "whenEvaluator": true, "phase": {"id": "7"}},
            {"actionId": "hide", "phaseFieldId": "1", "whenEvaluator": false, "phase": null},
        ]);
        let read = there.rule_actions(&actions, "Doing").unwrap();
        assert_eq!(
            read,
            json!([{"action": "show", "field": "Doing / Price"}, {"action": "hide", "field": "Start form / What?", "unless": true}])
        );
        let sent = back.rule_actions(&read, "Doing").unwrap();
        assert_eq!(sent[0], json!({"actionId": "show", "phaseFieldId": "2", "whenEvaluator": true, "phaseId": "7"}));
        assert_eq!(sent[1]["whenEvaluator"], false);
    }
}
