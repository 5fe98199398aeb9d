//! Data sources of elements: the pipes and tables an element shows.

use serde_json::{Map, Value};

use crate::ToolError;

/// Sources of an element as they are sent: only the keys the API takes, filters as JSON text.
///
/// # Errors
/// `INVALID_ARGUMENTS` naming the source that names no repo: leaving it out would unbind it silently.
pub(crate) fn of_element(sources: Vec<Map<String, Value>>) -> Result<Value, ToolError> {
    sources.into_iter().enumerate().map(|(index, source)| one(source, index)).collect()
}

fn one(mut source: Map<String, Value>, index: usize) -> Result<Value, ToolError> {
    let repo = source.get("repoId").and_then(Value::as_str).map(str::trim).filter(|repo| !repo.is_empty());
    let Some(repo) = repo.map(str::to_owned) else {
        return Err(ToolError::invalid(format!(
            "data_sources[{index}].repoId: the uuid of a pipe or table is required."
        )));
    };
    let mut sent = Map::new();
    for key in ["id", "name"] {
        if let Some(value) = source.remove(key).filter(|value| !value.is_null()) {
            sent.insert(key.to_owned(), value);
        }
    }
    match source.remove("filters") {
        None | Some(Value::Null) => {}
        Some(Value::Object(filters)) => {
            sent.insert("filters".to_owned(), super::json_text(&filters));
        }
        Some(text @ Value::String(_)) => {
            sent.insert("filters".to_owned(), text);
        }
        Some(_) => {
            return Err(ToolError::invalid(format!(
                "data_sources[{index}].filters: must be an object or its JSON text."
            )));
        }
    }
    sent.insert("repoId".to_owned(), repo.into());
    let keys = source.remove("fieldKeys").or_else(|| source.remove("field_keys")).filter(Value::is_array);
    sent.insert("fieldKeys".to_owned(), keys.unwrap_or_else(|| Value::Array(Vec::new())));
    Ok(sent.into())
}

/// The element with this id on this page of a portal or interface that was read.
///
/// # Errors
/// Says on which page it is, or that it is on none. `owner` is `portal` or `interface`, `advice` what to do in the last case.
pub(crate) fn element_on_page<'v>(
    whole: &'v Value,
    page_id: &str,
    element_id: &str,
    owner: &str,
    advice: &str,
) -> Result<&'v Value, ToolError> {
    use crate::tools::shared::{list_at, text_of};
    let mut elsewhere = None;
    for page in list_at(whole, "pages") {
        let page_of = text_of(page.get("id")).unwrap_or_default();
        let found = list_at(page, "elements").iter().find(|e| text_of(e.get("id")).as_deref() == Some(element_id));
        match found {
            Some(element) if page_of == page_id => return Ok(element),
            Some(_) => elsewhere = Some(page_of),
            None => {}
        }
    }
    Err(match elsewhere {
        Some(page) => ToolError::invalid(format!("Element {element_id} is on page {page}; give that as `page_id`.")),
        None => ToolError::invalid(format!("Element {element_id} is on no page of this {owner}. {advice}")),
    })
}
