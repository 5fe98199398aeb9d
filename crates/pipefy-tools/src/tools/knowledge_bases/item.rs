//! What the three kinds of knowledge share: checks, the shape of answers, writing.

use pipefy::knowledge_bases::Knowledge;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::tools::classified::{KNOWLEDGE, done};
use crate::tools::shared::{required_text, send};
use crate::{Act, Call, Confirmation, Op, Outcome, Plan, Read, ToolError, Verification, Write, dig};

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
pub(crate) struct Ids {
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
async fn get(call: &Call<'_>, kind: Knowledge, ids: &Ids) -> Result<Outcome, ToolError> {
    match read(call, kind, ids).await.map_err(|e| KNOWLEDGE.failure(e))? {
        Some(item) => Ok(done(call, json!({ key(kind): item }), format!("The {} was loaded.", noun(kind)))),
        None => Err(ToolError::not_found(format!(
            "The {} {} was not found in this pipe. Find it with `get_ai_knowledge_bases`.",
            noun(kind),
            ids.id
        ))),
    }
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

/// What a write does to an item.
pub(crate) enum Change {
    /// Makes one in a pipe.
    Create { pipe_uuid: String, input: Map<String, Value> },
    /// Changes one; what is not in the input stays.
    Update { ids: Ids, input: Map<String, Value> },
    /// Deletes one for good.
    Delete(Ids),
}

/// The beginning of a new item's input: its pipe.
///
/// # Errors
/// `pipe_uuid` is blank.
pub(crate) fn new_in(pipe_uuid: &str) -> Result<(String, Map<String, Value>), ToolError> {
    let pipe = required_text("pipe_uuid", pipe_uuid)?;
    let mut input = Map::new();
    input.insert("pipeUuid".to_owned(), pipe.into());
    Ok((pipe.to_owned(), input))
}

/// A write of an item, whatever its kind: the arguments say what it does.
pub(crate) trait Changes: DeserializeOwned + JsonSchema + Send + 'static {
    /// Its kind.
    const KIND: Knowledge;
    /// The operation.
    const OP: Op;

    /// What is to be done.
    ///
    /// # Errors
    /// Wrong arguments; nothing was sent.
    fn change(self) -> Result<Change, ToolError>;
}

/// What a write needs to know afterwards.
pub struct Kept {
    pipe_uuid: String,
    verb: &'static str,
    /// The item; blank for one that is made.
    id: String,
}

impl<T: Changes> Write for T {
    const OP: Op = <T as Changes>::OP;
    type Keep = Kept;

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Kept>, ToolError> {
        let (verb, ids, mutation) = match self.change()? {
            Change::Create { pipe_uuid, input } => {
                let kept = Kept { pipe_uuid, verb: "create", id: String::new() };
                return Ok(Plan::new(kept).then(T::KIND.create(input)));
            }
            Change::Update { ids, mut input } => {
                input.insert("pipeUuid".to_owned(), ids.pipe_uuid.clone().into());
                input.insert(T::KIND.id_key().to_owned(), ids.id.clone().into());
                ("update", ids, T::KIND.update(input))
            }
            Change::Delete(ids) => {
                let mutation = T::KIND.delete(&ids.id, &ids.pipe_uuid);
                ("delete", ids, mutation)
            }
        };
        // A dry run shows the item as it is.
        let before = if call.options.dry_run { read(call, T::KIND, &ids).await.ok().flatten() } else { None };
        let confirmation = Confirmation::delete(
            format!("{} (ID: {})", noun(T::KIND), ids.id),
            json!({ id_argument(T::KIND): ids.id, "pipe_uuid": ids.pipe_uuid }),
        );
        let Ids { id, pipe_uuid } = ids;
        let mut plan = Plan::new(Kept { pipe_uuid, verb, id }).then(mutation);
        plan.before = before;
        Ok(if verb == "delete" { plan.confirm(confirmation) } else { plan })
    }

    async fn act(plan: &Plan<Kept>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let Kept { verb, id, .. } = &plan.keep;
        if *verb != "delete" {
            let root = T::KIND.write_root(verb);
            let value = send(plan, act).await.map_err(|e| KNOWLEDGE.unproven(e, &root))?.value();
            return saved(act, &value, T::KIND, &root, &format!("{verb}d"));
        }
        let tool = <T as Changes>::OP.name;
        send(plan, act).await.map_err(|error| match &error {
            pipefy::Error::Declined { messages, .. } => {
                let why =
                    if messages.is_empty() { "the API returned success=false".to_owned() } else { messages.join("; ") };
                let message = format!("{tool}: nothing was deleted: {why}.");
                ToolError::from(error).message(message)
            }
            _ => KNOWLEDGE.unproven(error, tool),
        })?;
        Ok(done(act, json!({ "deleted_id": id }), format!("The {} was deleted (ID: {id}).", noun(T::KIND))))
    }

    async fn verify(plan: &Plan<Kept>, outcome: &Outcome, call: &Call<'_>) -> Option<Verification> {
        let Kept { pipe_uuid, verb, id } = &plan.keep;
        if *verb != "delete" {
            return read_back(outcome, call, T::KIND, pipe_uuid).await;
        }
        let ids = Ids { id: id.clone(), pipe_uuid: pipe_uuid.clone() };
        Some(match read(call, T::KIND, &ids).await {
            Ok(item) => Verification::of(item.is_none(), "read the item again"),
            Err(error) if crate::NOT_FOUND_CODES.iter().any(|code| error.has_code(code)) => {
                Verification::of(true, "the item can no longer be found")
            }
            Err(error) => Verification::unknown(error.to_string()),
        })
    }
}

/// A read of one item, whatever its kind.
pub(crate) trait Shows: DeserializeOwned + JsonSchema + Send + 'static {
    /// Its kind.
    const KIND: Knowledge;
    /// The operation.
    const OP: Op;

    /// The ids that the arguments name.
    ///
    /// # Errors
    /// One is blank.
    fn ids(&self) -> Result<Ids, ToolError>;
}

impl<T: Shows> Read for T {
    const OP: Op = <T as Shows>::OP;

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        get(call, T::KIND, &self.ids()?).await
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
