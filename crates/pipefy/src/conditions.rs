//! Field conditions: rules that show or hide fields. Root fields `fieldCondition`, `createFieldCondition`,
//! `updateFieldCondition`, `deleteFieldCondition` of the public endpoint.

use serde_json::{Map, Value};

use crate::document::documents::conditions as documents;
use crate::operation::{Mutation, Query};

/// The operations that expressions of conditions know, as Pipefy documents them (`CONDITION_OPERATIONS` of the reference).
/// Those of dates that name no day (`date_is_today`, ...), `present` and `blank` take no value.
pub const CONDITION_OPERATIONS: [&str; 19] = [
    "equals",
    "not_equals",
    "present",
    "blank",
    "string_contains",
    "string_not_contains",
    "number_greater_than",
    "number_less_than",
    "date_is",
    "date_is_before",
    "date_is_after",
    "date_is_today",
    "date_is_yesterday",
    "date_in_current_week",
    "date_in_last_week",
    "date_in_current_month",
    "date_in_last_month",
    "date_in_current_year",
    "date_in_last_year",
];

/// One condition with its phase, expressions, their grouping and its actions.
pub fn get_field_condition(condition_id: &str) -> Query {
    Query::new(&documents::GET_FIELD_CONDITION).var("id", condition_id)
}

/// Adds a condition; `input` takes the keys of `createFieldConditionInput`. Pipefy may put it on another phase than
/// `phaseId` asks for (field report A07): read it back.
pub fn create_field_condition(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::CREATE_FIELD_CONDITION).input(input)
}

/// Changes a condition; `input` takes the keys of `UpdateFieldConditionInput`.
pub fn update_field_condition(input: Map<String, Value>) -> Mutation {
    Mutation::new(&documents::UPDATE_FIELD_CONDITION).input(input)
}

/// Deletes a condition for good.
pub fn delete_field_condition(condition_id: &str) -> Mutation {
    Mutation::new(&documents::DELETE_FIELD_CONDITION).id(condition_id)
}

/// A condition as Pipefy takes it: expressions without `id`, `structure_id` as a number where it is one, each group of
/// `expressions_structure` a list. Without a list of expressions it stays as it is. Applying it twice changes nothing.
pub fn normalized_condition(condition: &Map<String, Value>) -> Map<String, Value> {
    let mut condition = condition.clone();
    let Some(Value::Array(expressions)) = condition.get_mut("expressions") else {
        return condition;
    };
    for expression in expressions.iter_mut() {
        if let Value::Object(expression) = expression {
            expression.shift_remove("id");
            if let Some(id) = expression.get_mut("structure_id") {
                *id = as_number(id);
            }
        }
    }
    if let Some(Value::Array(groups)) = condition.get_mut("expressions_structure") {
        for group in groups.iter_mut() {
            *group = match &*group {
                Value::Array(ids) => ids.iter().map(as_number).collect(),
                one => Value::Array(vec![as_number(one)]),
            };
        }
    }
    condition
}

/// Actions as Pipefy takes them, also those that were read: the old spelling `hidden` is `hide`, and the `phase` that an action
/// is read with goes back as `phaseId` (field report A09).
pub fn normalized_actions(actions: &[Value]) -> Vec<Value> {
    actions
        .iter()
        .map(|action| {
            let mut action = action.clone();
            if let Some(kind) = action.get_mut("actionId")
                && kind.as_str().is_some_and(|k| k.trim().eq_ignore_ascii_case("hidden"))
            {
                *kind = "hide".into();
            }
            if let Some(map) = action.as_object_mut()
                && let Some(phase) = map.get("phase")
                && (phase.is_object() || phase.is_null())
                && let Some(phase) = map.remove("phase")
                && !map.contains_key("phaseId")
                && let Some(id) = phase.get("id").filter(|id| !id.is_null())
            {
                map.insert("phaseId".to_owned(), id.clone());
            }
            action
        })
        .collect()
}

fn as_number(value: &Value) -> Value {
    let number = match value {
        Value::String(text) => text.trim().parse::<i64>().ok(),
        Value::Number(number) => number.as_f64().filter(|n| n.fract() == 0.0).and_then(|_| number.as_i64()),
        _ => None,
    };
    number.map_or_else(|| value.clone(), Value::from)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_are_normalised_once_and_for_all() {
        let given = json!({
            "expressions": [{"id": "9", "structure_id": "0", "field_address": "1"}, {"structure_id": "a"}, 5],
            "expressions_structure": [["0", 1], "2", true], "other": null
        });
        let once = normalized_condition(given.as_object().unwrap());
        assert_eq!(
            Value::Object(once.clone()),
            json!({
                "expressions": [{"structure_id": 0, "field_address": "1"}, {"structure_id": "a"}, 5],
                "expressions_structure": [[0, 1], [2], [true]], "other": null
            })
        );
        assert_eq!(normalized_condition(&once), once);
        let without = json!({"expressions_structure": ["0"]});
        assert_eq!(Value::Object(normalized_condition(without.as_object().unwrap())), without);
    }

    #[test]
    fn the_old_spelling_of_hide_is_replaced_and_nothing_else() {
        let given = [json!({"actionId": " Hidden "}), json!({"actionId": "show"}), json!(3), json!({"actionId": null})];
        let wanted = [json!({"actionId": "hide"}), json!({"actionId": "show"}), json!(3), json!({"actionId": null})];
        assert_eq!(normalized_actions(&given), wanted);
        let read = [
            json!({"actionId": "show", "phaseFieldId": "1", "phase": {"id": "7"}}),
            json!({"phaseFieldId": "1", "phase": null}),
            json!({"phaseId": "8", "phase": {"id": "7"}}),
        ];
        let wanted = [
            json!({"actionId": "show", "phaseFieldId": "1", "phaseId": "7"}),
            json!({"phaseFieldId": "1"}),
            json!({"phaseId": "8"}),
        ];
        assert_eq!(normalized_actions(&read), wanted);
    }
}
