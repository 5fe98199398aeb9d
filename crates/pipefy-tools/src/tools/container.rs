//! Deleting what holds other things for good: a pipe with its cards, a table with its records.

use pipefy::{Error, Mutation, Query};
use serde_json::json;

use crate::tools::shared::{send, text_of};
use crate::{Act, Call, Confirmation, NOT_FOUND_CODES, Outcome, Plan, ToolError, Verification, debug_suffix, dig};

/// A kind of container.
pub(crate) struct Container {
    /// Its root field, and what people call it: `pipe`.
    pub(crate) noun: &'static str,
    /// The argument that holds its id.
    pub(crate) argument: &'static str,
    /// Reads it.
    pub(crate) get: fn(&str) -> Query,
    /// Deletes it.
    pub(crate) delete: fn(&str) -> Mutation,
}

/// One container.
pub(crate) struct Named {
    id: String,
    name: String,
}

impl Container {
    /// Reads its name and plans the deletion.
    pub(crate) async fn plan(&self, id: &str, call: &Call<'_>) -> Result<Plan<Named>, ToolError> {
        let mut named = Named { id: id.to_owned(), name: "Unknown".to_owned() };
        let data = call.query((self.get)(id)).await.map_err(|e| self.failed(call, e, &named))?;
        let value = data.value();
        if let Some(name) = text_of(dig(&value, &format!("{}.name", self.noun))) {
            named.name = name;
        }
        let resource = format!("{} '{}' (ID: {id})", self.noun, named.name);
        let confirmation = Confirmation::delete(resource, json!({ self.argument: id }));
        Ok(Plan::new(named).then((self.delete)(id)).before(value).confirm(confirmation))
    }

    /// Deletes it.
    pub(crate) async fn act(&self, plan: &Plan<Named>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        send(plan, act).await.map_err(|e| self.failed(act, e, &plan.keep))?;
        let Named { id, name } = &plan.keep;
        let message = format!("{} '{name}' (ID: {id}) has been permanently deleted.", self.title());
        Ok(Outcome::new(json!({ self.argument: id })).message(message))
    }

    /// Whether it can still be read.
    pub(crate) async fn verify(&self, plan: &Plan<Named>, call: &Call<'_>) -> Verification {
        let noun = self.noun;
        match call.query((self.get)(&plan.keep.id)).await {
            Ok(data) if data.value().get(noun).is_some_and(|found| !found.is_null()) => {
                Verification::of(false, format!("the {noun} can still be read"))
            }
            Ok(_) => Verification::of(true, format!("the {noun} can no longer be read")),
            Err(e) if e.has_code("RESOURCE_NOT_FOUND") || e.has_code("PERMISSION_DENIED") => {
                Verification::of(true, format!("the {noun} is removed or no longer accessible"))
            }
            Err(e) => Verification::unknown(e.to_string()),
        }
    }

    fn title(&self) -> String {
        let mut letters = self.noun.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
    }

    /// A failure by the first code that is known; a time-out keeps its own text.
    fn failed(&self, call: &Call<'_>, error: Error, Named { id, name }: &Named) -> ToolError {
        let (noun, title) = (self.noun, self.title());
        let codes: Vec<String> = error.codes().into_iter().map(str::to_owned).collect();
        let message = match &error {
            Error::Graphql { .. } | Error::Declined { .. } | Error::NoPayload { .. } => {
                let known = codes.iter().find_map(|code| match code.as_str() {
                    code if NOT_FOUND_CODES.contains(&code) => {
                        Some(format!("{title} {id} not found. Check that it exists and that this account has access."))
                    }
                    "PERMISSION_DENIED" => Some(format!("No permission to delete {noun} {id}.")),
                    "RECORD_NOT_DESTROYED" => Some(format!(
                        "{title} '{name}' (ID: {id}) could not be deleted; try again or contact Pipefy's support."
                    )),
                    _ => None,
                });
                known.unwrap_or_else(|| {
                    let codes = if codes.is_empty() { String::new() } else { format!(" Codes: {}", codes.join(", ")) };
                    format!("Deleting {noun} '{name}' (ID: {id}) did not succeed: {error}{codes}")
                })
            }
            other => other.to_string(),
        };
        let suffix = if call.debug() { debug_suffix(&codes, error.correlation_id()) } else { String::new() };
        ToolError::from(error).message(message + &suffix)
    }
}
