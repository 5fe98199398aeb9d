//! What the three kinds of knowledge share: checks, the shape of answers, writing.

use pipefy::Mutation;
use pipefy::knowledge_bases::Knowledge;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::tools::classified::{KNOWLEDGE, done};
use crate::tools::shared::{required_text, send};
use crate::{Act, Call, Confirmation, Op, Outcome, Plan, ToolError, Verification, Write, dig};

/// Characters of a text at most.
const CONTENT: usize = 3_500;
/// Characters of a description at most.
const DESCRIPTION: usize = 900;

/// The key of an item in results.
pub(crate) fn key(kind: Knowledge) -> &'static str {
    match kind {
        Knowledge::PlainText => "knowledge_base_plain_text",
        Knowledge::Document => "knowledge_base_document",
        Knowledge::DataLookup => "knowledge_base_data_lookup",
    }
}

/// What people call it.
fn noun(kind: Knowledge) -> &'static str {
    match kind {
        Knowledge::PlainText => "knowledge base plain text",
        Knowledge::Document => "knowledge base document",
        Knowledge::DataLookup => "knowledge base data lookup",
    }
}

/// The argument that holds its id.
fn id_argument(kind: Knowledge) -> &'static str {
    match kind {
        Knowledge::PlainText => "plain_text_id",
        Knowledge::Document => "document_id",
        Knowledge::DataLookup => "data_lookup_id",
    }
}

/// The ids that name an item.
pub struct Ids {
    pub(crate) id: String,
    pub(crate) pipe_uuid: String,
}

impl Ids {
    pub(crate) fn new(id: &pipefy::Id, pipe_uuid: &str) -> Result<Self, ToolError> {
        let pipe_uuid = required_text("pipe_uuid", pipe_uuid)?;
        Ok(Self { id: id.as_str().to_owned(), pipe_uuid: pipe_uuid.to_owned() })
    }
}

/// Checks `name`, `content` and `description` where they are given and puts them, trimmed, into `input`.
///
/// # Errors
/// Blank or too long, naming field, limit and length.
pub(crate) fn texts(
    input: &mut Map<String, Value>,
    name: Option<&str>,
    content: Option<&str>,
    description: Option<&str>,
) -> Result<(), ToolError> {
    for (field, text, limit) in
        [("name", name, usize::MAX), ("content", content, CONTENT), ("description", description, DESCRIPTION)]
    {
        let Some(text) = text else { continue };
        let text = required_text(field, text)?;
        let length = text.chars().count();
        if length > limit {
            return Err(ToolError::invalid(format!(
                "{field} may have {limit} characters at most; this one has {length}."
            )));
        }
        input.insert(field.to_owned(), text.into());
    }
    Ok(())
}

/// One item.
pub(crate) async fn read(call: &Call<'_>, kind: Knowledge, ids: &Ids) -> Result<Option<Value>, pipefy::Error> {
    let value = call.query(kind.get(&ids.id, &ids.pipe_uuid)).await?.value();
    Ok(value.get(kind.read_root()).filter(|item| item.is_object()).cloned())
}

/// One item as a result.
pub(crate) async fn get(call: &Call<'_>, kind: Knowledge, ids: &Ids) -> Result<Outcome, ToolError> {
    match read(call, kind, ids).await.map_err(|e| KNOWLEDGE.failure(e))? {
        Some(item) => Ok(done(call, json!({ key(kind): item }), format!("The {} was loaded.", noun(kind)))),
        None => Err(ToolError::not_found(format!(
            "The {} {} was not found in this pipe. Find it with `get_ai_knowledge_bases`.",
            noun(kind),
            ids.id
        ))),
    }
}

/// Sends the only step of a plan and gives the item of its answer.
pub(crate) async fn save<K>(
    plan: &Plan<K>,
    act: &Act<'_, '_>,
    kind: Knowledge,
    root: &str,
    verb: &str,
) -> Result<Outcome, ToolError> {
    let Some(mutation) = plan.mutations().next() else {
        return Err(ToolError::internal("the plan holds no step"));
    };
    let value = act.send(mutation).await.map_err(|e| KNOWLEDGE.unproven(e, root))?.value();
    saved(act, &value, kind, root, verb)
}

/// The item of an answer.
pub(crate) fn saved(
    call: &Call<'_>,
    answer: &Value,
    kind: Knowledge,
    root: &str,
    verb: &str,
) -> Result<Outcome, ToolError> {
    let item =
        dig(answer, root).and_then(|p| p.get(kind.node())).filter(|i| i.as_object().is_some_and(|i| !i.is_empty()));
    match item {
        Some(item) => Ok(done(call, json!({ key(kind): item }), format!("The {} was {verb}.", noun(kind)))),
        None => Err(ToolError::api(format!(
            "{root} answered without the {}. The write may not have persisted; look with `get_ai_knowledge_bases`.",
            noun(kind)
        ))
        .detail("may_have_been_applied", true)),
    }
}

/// Plans a change or deletion; a dry run shows the item as it is.
pub(crate) async fn plan_change(call: &Call<'_>, kind: Knowledge, ids: Ids, mutation: Mutation) -> Plan<Ids> {
    let before = if call.options.dry_run { read(call, kind, &ids).await.ok().flatten() } else { None };
    let mut plan = Plan::new(ids).then(mutation);
    plan.before = before;
    plan
}

/// The deletion of an item, whatever its kind: the arguments say which.
pub(crate) trait Deletes: DeserializeOwned + JsonSchema + Send + 'static {
    /// Its kind.
    const KIND: Knowledge;
    /// The operation.
    const OP: Op;

    /// The ids that the arguments name.
    fn ids(&self) -> Result<Ids, ToolError>;
}

impl<T: Deletes> Write for T {
    const OP: Op = <T as Deletes>::OP;
    type Keep = Ids;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Ids>, ToolError> {
        let ids = self.ids()?;
        let confirmation = Confirmation::delete(
            format!("{} (ID: {})", noun(T::KIND), ids.id),
            json!({ id_argument(T::KIND): ids.id, "pipe_uuid": ids.pipe_uuid }),
        );
        let mutation = T::KIND.delete(&ids.id, &ids.pipe_uuid);
        Ok(plan_change(call, T::KIND, ids, mutation).await.confirm(confirmation))
    }

    async fn act(plan: &Plan<Ids>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let tool = <T as Deletes>::OP.name;
        send(plan, act).await.map_err(|error| match &error {
            pipefy::Error::Declined { messages, .. } => {
                let why =
                    if messages.is_empty() { "the API returned success=false".to_owned() } else { messages.join("; ") };
                let message = format!("{tool}: nothing was deleted: {why}.");
                ToolError::from(error).message(message)
            }
            _ => KNOWLEDGE.unproven(error, tool),
        })?;
        let id = &plan.keep.id;
        Ok(done(act, json!({ "deleted_id": id }), format!("The {} was deleted (ID: {id}).", noun(T::KIND))))
    }

    async fn verify(plan: &Plan<Ids>, _: &Outcome, call: &Call<'_>) -> Option<Verification> {
        Some(match read(call, T::KIND, &plan.keep).await {
            Ok(item) => Verification::of(item.is_none(), "read the item again"),
            Err(error) if crate::NOT_FOUND_CODES.iter().any(|code| error.has_code(code)) => {
                Verification::of(true, "the item can no longer be found")
            }
            Err(error) => Verification::unknown(error.to_string()),
        })
    }
}

/// Compares what was sent with what can be read.
pub(crate) async fn read_back(
    outcome: &Outcome,
    call: &Call<'_>,
    kind: Knowledge,
    pipe_uuid: &str,
) -> Option<Verification> {
    let value = outcome.body.value();
    let written = value.get(key(kind))?;
    let id = crate::tools::shared::text_of(written.get("id"))?;
    let ids = Ids { id, pipe_uuid: pipe_uuid.to_owned() };
    Some(match read(call, kind, &ids).await {
        Ok(Some(item)) => {
            let same = ["name", "description"].iter().all(|key| item.get(*key) == written.get(*key));
            Verification::of(same, "compared name and description")
        }
        Ok(None) => Verification::of(false, "the item cannot be found"),
        Err(error) => Verification::unknown(error.to_string()),
    })
}
