//! What a pipe offers to the behaviours of an agent: phases and fields.

use std::collections::{BTreeSet, HashMap, HashSet};

use futures_util::stream::{self, StreamExt};
use pipefy::pipes;
use serde_json::Value;

use super::tokens;
use crate::tools::shared::text_of;
use crate::{Call, dig};

/// Phase field reads at once; the API throttles more.
const AT_ONCE: usize = 8;

/// Phases and fields of a pipe.
#[derive(Debug, Default)]
pub(crate) struct PipeFields {
    /// The pipe's uuid.
    pub(crate) uuid: Option<String>,
    /// Numeric ids and labels by slug: forms of one pipe may use a slug twice (field report B03).
    slugs: HashMap<String, Vec<(String, String)>>,
    /// Every id a field is known by: slug and number.
    pub(crate) ids: HashSet<String>,
    /// Ids of the phases (the start form's phase is none of them).
    pub(crate) phases: BTreeSet<String>,
    /// Phases whose fields could not be read, by name or id, sorted.
    pub(crate) unread: Vec<String>,
}

/// Reads a pipe with the fields of all its phases. A phase that cannot be read is left out and named in `unread`.
///
/// # Errors
/// The pipe cannot be read or does not exist.
pub(crate) async fn fields(call: &Call<'_>, pipe_id: &str) -> Result<PipeFields, pipefy::Error> {
    let data = call.query(pipes::get_pipe(pipe_id)).await?;
    let value = data.value();
    let Some(pipe) = value.get("pipe").filter(|p| p.is_object()) else {
        return Err(pipefy::Error::NoPayload { field: "pipe".to_owned(), kind: pipefy::OperationKind::Query });
    };
    let mut found = PipeFields { uuid: text_of(pipe.get("uuid")), ..PipeFields::default() };
    found.add(pipe.get("start_form_fields"));
    let mut bare = Vec::new();
    for phase in pipe.get("phases").and_then(Value::as_array).into_iter().flatten() {
        let Some(id) = text_of(phase.get("id")) else { continue };
        // An empty list is an answer; only a missing one says nothing.
        match phase.get("fields") {
            Some(Value::Array(_)) => found.add(phase.get("fields")),
            _ => bare.push((id.clone(), text_of(phase.get("name")))),
        }
        found.phases.insert(id);
    }
    let mut reads = stream::iter(bare)
        .map(|(id, name)| async move {
            let answer = call.query(pipes::get_phase_fields(&id)).await;
            (name.unwrap_or(id), answer)
        })
        .buffer_unordered(AT_ONCE);
    while let Some((name, answer)) = reads.next().await {
        match answer.ok().map(|data| data.value()).as_ref().and_then(|v| dig(v, "phase.fields")) {
            Some(fields @ Value::Array(_)) => found.add(Some(fields)),
            _ => found.unread.push(name),
        }
    }
    drop(reads);
    found.unread.sort();
    Ok(found)
}

impl PipeFields {
    fn add(&mut self, fields: Option<&Value>) {
        for field in fields.and_then(Value::as_array).into_iter().flatten() {
            let (slug, number) = (text_of(field.get("id")), text_of(field.get("internal_id")));
            self.ids.extend(slug.iter().chain(number.iter()).cloned());
            if let (Some(slug), Some(number)) = (slug, number)
                && !tokens::is_digits(&slug)
            {
                let same = self.slugs.entry(slug).or_default();
                if !same.iter().any(|(known, _)| *known == number) {
                    same.push((number, text_of(field.get("label")).unwrap_or_default()));
                }
            }
        }
    }

    /// The numeric id of the field that a slug means; `None` when there is no such field.
    ///
    /// # Errors
    /// It stands for several: the candidates, in words.
    pub(crate) fn number_of(&self, slug: &str) -> Result<Option<&str>, String> {
        match self.slugs.get(slug).map(Vec::as_slice) {
            None | Some([]) => Ok(None),
            Some([(number, _)]) => Ok(Some(number)),
            Some(several) => {
                let several: Vec<String> =
                    several.iter().map(|(number, label)| format!("{number} ({label})")).collect();
                Err(format!("the slug '{slug}' stands for several fields: {}. Use the numeric id.", several.join(", ")))
            }
        }
    }
}
