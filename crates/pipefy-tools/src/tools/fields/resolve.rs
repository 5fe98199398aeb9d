//! Which field a slug means: slugs are neither unique nor stable (field report B03), uuids are
//! (`spec/tools-pipes-cards.md`, "Phase-field slug resolution").

use futures_util::future::join_all;
use pipefy::pipes;
use serde_json::Value;

use crate::tools::shared::{list_at, text_of};
use crate::{Call, Explain, ToolError, dig};

/// Where to look for a field.
pub(crate) enum Place<'a> {
    Phase(&'a str),
    Pipe(&'a str),
}

/// Whether text is a slug rather than a number or uuid.
pub(crate) fn is_slug(text: &str) -> bool {
    let text = text.trim();
    !is_uuid(text) && text.chars().any(char::is_alphabetic)
}

/// Whether text is a uuid in any of its usual forms: hyphens, braces, `urn:uuid:`, any case.
pub(crate) fn is_uuid(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    let text = text.strip_prefix("urn:uuid:").unwrap_or(&text);
    let hex: String = text.trim_matches(['{', '}']).chars().filter(|c| *c != '-').collect();
    hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The uuid of the one field at `place` that `token` names; `None` when none does.
///
/// # Errors
/// Several do, or a phase could not be read so that it cannot be known. Errors of the reads themselves.
pub(crate) async fn uuid_of(call: &Call<'_>, token: &str, place: Place<'_>) -> Result<Option<String>, ToolError> {
    match place {
        Place::Phase(phase_id) => {
            let explain = Explain::doing("load phase").about("phase", phase_id);
            let data = call.query(pipes::get_phase_fields(phase_id)).await.map_err(|e| explain.map(call, e))?;
            let mut found = Vec::new();
            collect(&data.value(), token, &mut found);
            one(token, found)
        }
        Place::Pipe(pipe_id) => {
            let explain = Explain::doing("load pipe").about("pipe", pipe_id);
            let data = call.query(pipes::get_pipe(pipe_id)).await.map_err(|e| explain.map(call, e))?;
            let pipe = data.value();
            // The start form is a phase that the list of phases leaves out.
            let start = text_of(dig(&pipe, "pipe.startFormPhaseId"));
            let phases = list_at(&pipe, "pipe.phases").iter().filter_map(|phase| text_of(phase.get("id")));
            let mut phases: Vec<String> = start.into_iter().chain(phases).collect();
            phases.dedup();
            let reads = join_all(phases.iter().map(|id| call.query(pipes::get_phase_fields(id)))).await;
            let mut found = Vec::new();
            let mut failed = Vec::new();
            for (phase, read) in phases.iter().zip(reads) {
                match read {
                    Ok(data) => collect(&data.value(), token, &mut found),
                    Err(_) => failed.push(phase.as_str()),
                }
            }
            if !failed.is_empty() && found.len() <= 1 {
                return Err(ToolError::invalid(format!(
                    "Could not load fields of phase {}, so it is not known which field '{token}' means; pass `uuid` or \
                     `phase_id`.",
                    failed.join(", ")
                )));
            }
            one(token, found)
        }
    }
}

/// Adds the uuids (with label) of the fields of a phase read that `token` names.
fn collect(data: &Value, token: &str, found: &mut Vec<(String, String)>) {
    for field in list_at(data, "phase.fields") {
        let named = ["id", "internal_id", "uuid"].iter().any(|key| text_of(field.get(*key)).as_deref() == Some(token));
        if let (true, Some(uuid)) = (named, text_of(field.get("uuid")))
            && !found.iter().any(|(known, _)| *known == uuid)
        {
            found.push((uuid, text_of(field.get("label")).unwrap_or_default()));
        }
    }
}

fn one(token: &str, found: Vec<(String, String)>) -> Result<Option<String>, ToolError> {
    if found.len() > 1 {
        let candidates: Vec<String> = found.iter().map(|(uuid, label)| format!("{uuid} ({label})")).collect();
        return Err(ToolError::invalid(format!(
            "Several fields match '{token}': {}. Pass `uuid` or `phase_id`.",
            candidates.join(", ")
        )));
    }
    Ok(found.into_iter().next().map(|(uuid, _)| uuid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_neither_numbers_nor_uuids() {
        for (text, slug) in [
            ("document_upload", true),
            ("12", false),
            ("___", false),
            ("", false),
            ("11111111-2222-4333-8444-55555555aaaa", false),
            ("{11111111222243338444 55555555aaaa}", true),
            ("urn:uuid:11111111-2222-4333-8444-55555555AAAA", false),
            ("1111111122224333844455555555aaaa", false),
            ("a-1", true),
        ] {
            assert_eq!(is_slug(text), slug, "{text}");
        }
    }
}
