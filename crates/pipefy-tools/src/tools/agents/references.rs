//! What an agent's behaviours refer to: fields by slug, and actions by reference id (`spec/tools-automation-ai.md`, 4.4
//! and 4.5).

use std::collections::{BTreeSet, HashMap};

use futures_util::future::join_all;
use serde_json::Value;

use super::behaviors::{Behavior, actions, actions_mut, field_map, metadata, params, params_mut, text};
use super::pipe::{self, PipeFields};
use super::tokens;
use crate::{Call, ToolError};

/// Puts numeric field ids where slugs are, and the list of fields each instruction refers to. Each action's fields are
/// those of its own pipe; an instruction's are looked for in the behaviour's pipes, in the order of its actions. Fields of
/// tables, and what cannot be found, stay as they are.
///
/// # Errors
/// A slug stands for several fields of its pipe; `INVALID_ARGUMENTS` with the candidates.
pub(crate) async fn resolve(call: &Call<'_>, behaviors: &mut [Behavior]) -> Result<(), ToolError> {
    let needed: BTreeSet<String> = behaviors.iter().flat_map(pipes_needed).collect();
    let loaded = join_all(needed.iter().map(|id| pipe::fields(call, id))).await;
    let pipes: HashMap<String, PipeFields> =
        needed.into_iter().zip(loaded).filter_map(|(id, loaded)| Some((id, loaded.ok()?))).collect();
    for (i, behavior) in behaviors.iter_mut().enumerate() {
        let refused = |why: String| ToolError::invalid(format!("behaviors.{i}: {why}"));
        let order = pipe_ids(behavior);
        for action in actions_mut(behavior) {
            resolve_action(action, &pipes).map_err(refused)?;
        }
        let Some(params) = params_mut(behavior) else { continue };
        let Some(Value::String(instruction)) = params.get_mut("instruction") else { continue };
        let mut numbers: HashMap<String, String> = HashMap::new();
        for slug in tokens::field_references(instruction) {
            for pipe in order.iter().filter_map(|id| pipes.get(id)) {
                if let Some(number) = pipe.number_of(slug).map_err(refused)? {
                    numbers.insert(slug.to_owned(), number.to_owned());
                    break;
                }
            }
        }
        *instruction = tokens::replace_fields(instruction, |slug| numbers.get(slug).cloned());
        let mut ids: Vec<Value> = Vec::new();
        for id in tokens::field_references(instruction).into_iter().filter(|id| tokens::is_digits(id)) {
            if !ids.iter().any(|known| known == id) {
                ids.push(id.into());
            }
        }
        let given = params.get("referencedFieldIds").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        if !given {
            params.insert("referencedFieldIds".to_owned(), ids.into());
        }
    }
    Ok(())
}

fn resolve_action(action: &mut Value, pipes: &HashMap<String, PipeFields>) -> Result<(), String> {
    if text(action, "actionType") == Some("create_table_record") {
        return Ok(());
    }
    let Some(known) = metadata(action, "pipeId").and_then(|id| pipes.get(id)) else { return Ok(()) };
    let fields = action.get_mut("metadata").and_then(|m| m.get_mut("fieldsAttributes")).and_then(Value::as_array_mut);
    for field in fields.into_iter().flatten() {
        if let Some(Value::String(id)) = field.get_mut("fieldId")
            && let Some(number) = known.number_of(id)?
        {
            *id = number.to_owned();
        }
    }
    Ok(())
}

/// The pipes of a behaviour's actions, in order.
pub(crate) fn pipe_ids(behavior: &Behavior) -> Vec<String> {
    let mut ids = Vec::new();
    for id in actions(behavior).iter().filter_map(|a| metadata(a, "pipeId")) {
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    ids
}

fn pipes_needed(behavior: &Behavior) -> Vec<String> {
    let instruction = params(behavior).and_then(|p| p.get("instruction")).and_then(Value::as_str).unwrap_or_default();
    if tokens::field_references(instruction).iter().any(|id| is_slug(id)) {
        return pipe_ids(behavior);
    }
    actions(behavior)
        .iter()
        .filter(|a| text(a, "actionType") != Some("create_table_record"))
        .filter(|a| field_map(a).iter().any(|f| text(f, "fieldId").is_some_and(is_slug)))
        .filter_map(|a| metadata(a, "pipeId").map(str::to_owned))
        .collect()
}

/// A slug: neither digits nor a dotted chain of digits (a connected card's field).
fn is_slug(id: &str) -> bool {
    !id.split('.').all(tokens::is_digits)
}

/// Whether what the caller sends is already an agent's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A new agent: ids in the input would be those of another one.
    New,
    /// The agent itself, as it was read: its ids stay, so that reading and writing back changes nothing (field report A11).
    Existing,
}

/// Gives every action its reference id, and the instruction one line per action.
pub(crate) fn tie_actions(behavior: &mut Behavior, origin: Origin) {
    if origin == Origin::New {
        behavior.shift_remove("id");
    }
    let mut references = Vec::new();
    for action in actions_mut(behavior).iter_mut().filter_map(Value::as_object_mut) {
        if origin == Origin::New {
            action.shift_remove("id");
        }
        let kept = match action.get("referenceId") {
            Some(Value::String(id))
                if origin == Origin::Existing && tokens::is_uuid(id) && !references.contains(id) =>
            {
                Some(id.clone())
            }
            _ => None,
        };
        let reference = kept.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        action.insert("referenceId".to_owned(), reference.clone().into());
        references.push(reference);
    }
    if references.is_empty() {
        return;
    }
    let Some(params) = params_mut(behavior) else { return };
    let instruction = params.get("instruction").and_then(Value::as_str).unwrap_or_default();
    let instruction = tokens::with_action_lines(instruction, &references);
    params.insert("instruction".to_owned(), instruction.into());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    fn behavior() -> Behavior {
        json!({"id": "b1", "name": "b", "actionParams": {"aiBehaviorParams": {"instruction": "Do it", "actionsAttributes": [
            {"id": "a1", "actionType": "mcp_tool", "referenceId": "not a uuid", "metadata": {"mcpServerId": "1"}}, {"actionType": "move_card"}
        ]}}})
        .as_object()
        .unwrap()
        .clone()
    }

    #[test]
    fn reading_and_writing_back_is_the_identity() {
        let mut first = behavior();
        tie_actions(&mut first, Origin::Existing);
        let mut second = first.clone();
        tie_actions(&mut second, Origin::Existing);
        assert_eq!(first, second);
        assert_eq!(first["id"], "b1");
        assert_eq!(actions(&first)[0]["id"], "a1");
    }

    #[test]
    fn a_new_agent_takes_no_ids_of_another() {
        let mut first = behavior();
        tie_actions(&mut first, Origin::New);
        let before = actions(&first)[0]["referenceId"].clone();
        assert!(first.get("id").is_none() && actions(&first)[0].get("id").is_none());
        tie_actions(&mut first, Origin::New);
        assert_ne!(actions(&first)[0]["referenceId"], before);
        assert_eq!(params(&first).unwrap()["instruction"].as_str().unwrap().lines().count(), 3);
    }
}
