//! Small pieces that several capabilities use.

use pipefy::{Data, Mutation};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Act, Call, Explain, Outcome, Page, Plan, ToolError, dig};

/// The colors of pipes, phases and tables (`Colors` of the schema), for hints.
pub(crate) const COLORS: &str =
    "color is one of blue, cyan, gray, green, indigo, lime, orange, pink, purple, red, sky, yellow";

/// The types of fields (`FieldTypeId`, `spec/tools-pipes-cards.md` "Field definitions"), for hints: others may exist.
pub(crate) const FIELD_TYPES: &str = "types are assignee_select, attachment, checklist_horizontal, checklist_vertical, cnpj, connector (with connectedRepoId), \
     cpf, currency, date, datetime, due_date, dynamic_content, email, id, label_select, long_text, number, phone, \
     radio_horizontal, radio_vertical, select, short_text, statement, time; those with choices need options";

/// The object of a value without its null keys.
pub(crate) fn no_nulls(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map.into_iter().filter(|(_, v)| !v.is_null()).collect(),
        _ => Map::new(),
    }
}

/// A listing's outcome; `pagination` only when a page size was asked for.
pub(crate) fn listing(data: Data, root: &str, first: Option<i64>, message: &str) -> Outcome {
    let page = first.map(|_| {
        let value = data.value();
        Page::from_page_info(value.get(root).and_then(|c| c.get("pageInfo")), first)
    });
    Outcome::new(data).message(message).page(page)
}

/// Text of a value: text as it is, numbers in digits.
pub(crate) fn text_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Text that holds a JSON object, list or null is read as such, for arguments that take any value; other text stays text.
pub(crate) fn unpacked(value: Value) -> Value {
    let Value::String(text) = &value else { return value };
    match serde_json::from_str::<Value>(text) {
        Ok(parsed @ (Value::Object(_) | Value::Array(_) | Value::Null)) => parsed,
        _ => value,
    }
}

/// Trimmed text; `None` when nothing is left.
pub(crate) fn non_blank(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

/// Trimmed text that must not be blank.
///
/// # Errors
/// `INVALID_ARGUMENTS` naming the argument.
pub(crate) fn required_text<'t>(argument: &str, text: &'t str) -> Result<&'t str, ToolError> {
    non_blank(Some(text)).ok_or_else(|| ToolError::invalid(format!("`{argument}` must not be blank.")))
}

/// The list at a dotted path; missing or null is empty.
pub(crate) fn list_at<'v>(value: &'v Value, path: &str) -> &'v [Value] {
    dig(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Ids of fields and values that were not sent.
pub(crate) fn strings(list: &[String]) -> Value {
    list.iter().map(|text| Value::from(text.as_str())).collect()
}

/// Sends the only mutation of a plan; the answer must prove the change.
///
/// # Errors
/// See [`Act::send`].
pub(crate) async fn send<K>(plan: &Plan<K>, act: &Act<'_, '_>) -> Result<Data, pipefy::Error> {
    act.send(only_mutation(plan)?).await
}

/// Sends the only mutation of a plan; the caller judges the payload.
///
/// # Errors
/// See [`Act::send_unproven`].
pub(crate) async fn send_unproven<K>(plan: &Plan<K>, act: &Act<'_, '_>) -> Result<Data, pipefy::Error> {
    act.send_unproven(only_mutation(plan)?).await
}

fn only_mutation<K>(plan: &Plan<K>) -> Result<&Mutation, pipefy::Error> {
    plan.mutations().next().ok_or_else(|| pipefy::Error::Value("the plan holds no step; nothing was sent".to_owned()))
}

/// `extra_input` without null values and without the keys that arguments of their own stand for, in either spelling.
pub(crate) fn extra_keys(extra: Option<Map<String, Value>>, taken: &[&str]) -> Map<String, Value> {
    let plain = |key: &str| key.replace('_', "").to_lowercase();
    let taken: Vec<String> = taken.iter().map(|key| plain(key)).collect();
    extra.into_iter().flatten().filter(|(key, value)| !value.is_null() && !taken.contains(&plain(key))).collect()
}

/// `extra_input` where any JSON is accepted: it must be an object all the same.
///
/// # Errors
/// `INVALID_ARGUMENTS` naming it.
pub(crate) fn extra_object(extra: Option<Value>) -> Result<Option<Map<String, Value>>, ToolError> {
    match extra.map(unpacked) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(_) => Err(ToolError::invalid("`extra_input` must be an object (dict) of camelCase keys.")),
    }
}

/// Sends the only mutation of a plan where the reader judges the payload: a null one is a failure, `success: false` is shown.
///
/// # Errors
/// See [`Act::send_unproven`], and [`pipefy::Error::NoPayload`].
pub(crate) async fn send_shown<K>(plan: &Plan<K>, act: &Act<'_, '_>) -> Result<Data, pipefy::Error> {
    let data = send_unproven(plan, act).await?;
    match pipefy::prove(&data) {
        Ok(()) | Err(pipefy::Error::Declined { .. }) => Ok(data),
        Err(error) => Err(error),
    }
}

/// A write that failed; where Pipefy says `success: false`, the message names what was not done and to what.
pub(crate) fn not_done(call: &Call<'_>, explain: Explain<'_>, error: pipefy::Error) -> ToolError {
    let declined = matches!(error, pipefy::Error::Declined { .. });
    let failure = explain.map(call, error);
    if !declined {
        return failure;
    }
    let id = explain.id.map(|id| format!(" (ID: {id})")).unwrap_or_default();
    let message = format!("Could not {}{id}: {}", explain.doing, failure.message);
    failure.message(message)
}

/// An input object of the keys that have a value.
pub(crate) fn given<const N: usize>(pairs: [(&str, Option<Value>); N]) -> Map<String, Value> {
    pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}
