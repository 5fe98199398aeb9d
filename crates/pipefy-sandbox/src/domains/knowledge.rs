//! Knowledge bases of a pipe: plain texts, documents and data lookups.

use crate::access;
use crate::ctx::{Answer, Args, Body, Ctx};
use crate::error::GqlError;
use crate::json::{copy, link, links, set, text};
use crate::object::Root;
use crate::store::Links;
use serde_json::{Value, json};

/// One of the three kinds of item, with the names that the API gives it.
struct Kind {
    /// The value of `type` in the list.
    listed: &'static str,
    /// The id argument of update and delete.
    id_key: &'static str,
    /// The payload key of create and update.
    payload: &'static str,
}

const TEXT: Kind =
    Kind { listed: "knowledge_base_plain_texts", id_key: "plainTextId", payload: "knowledgeBasePlainText" };
const DOCUMENT: Kind =
    Kind { listed: "knowledge_base_documents", id_key: "documentId", payload: "knowledgeBaseDocument" };
const LOOKUP: Kind = Kind { listed: "data_lookups", id_key: "dataLookupId", payload: "knowledgeBaseDataLookup" };

pub(crate) const ROOTS: &[Root] = &[
    Root::public("aiKnowledgeBases", |ctx, args| {
        let pipe = access::read_pipe(ctx, &args.need("pipeUuid")?)?;
        let rows = ctx.children("knowledge_base", text(&pipe, "uuid"))?;
        Ok(links("knowledge_base", rows.iter().map(|r| text(r, "id"))))
    }),
    Root::public("aiKnowledgeBasePlainText", |ctx, args| read(ctx, args, &TEXT)),
    Root::public("aiKnowledgeBaseDocument", |ctx, args| read(ctx, args, &DOCUMENT)),
    Root::public("aiKnowledgeBaseDataLookup", |ctx, args| read(ctx, args, &LOOKUP)),
    Root::public("createAiKnowledgeBasePlainText", |ctx, args| create(ctx, args, &TEXT)),
    Root::public("createAiKnowledgeBaseDocument", |ctx, args| create(ctx, args, &DOCUMENT)),
    Root::public("createAiKnowledgeBaseDataLookup", |ctx, args| create(ctx, args, &LOOKUP)),
    Root::public("updateAiKnowledgeBasePlainText", |ctx, args| update(ctx, args, &TEXT)),
    Root::public("updateAiKnowledgeBaseDocument", |ctx, args| update(ctx, args, &DOCUMENT)),
    Root::public("updateAiKnowledgeBaseDataLookup", |ctx, args| update(ctx, args, &LOOKUP)),
    Root::public("deleteAiKnowledgeBasePlainText", |ctx, args| delete(ctx, args, &TEXT)),
    Root::public("deleteAiKnowledgeBaseDocument", |ctx, args| delete(ctx, args, &DOCUMENT)),
    Root::public("deleteAiKnowledgeBaseDataLookup", |ctx, args| delete(ctx, args, &LOOKUP)),
];

/// An item of the right kind in the right pipe.
fn item(ctx: &Ctx<'_>, pipe: &Value, id: &str, kind: &Kind) -> Result<Body, GqlError> {
    let found = ctx.get("knowledge_base", id)?;
    let found = found.filter(|i| text(i, "type") == kind.listed && text(i, "pipe_uuid") == text(pipe, "uuid"));
    found.ok_or_else(|| GqlError::not_found("Knowledge base", id))
}

fn read(ctx: &Ctx<'_>, args: &Args, kind: &Kind) -> Answer {
    let pipe = access::read_pipe(ctx, &args.need("pipeUuid")?)?;
    let found = item(ctx, &pipe, &args.need("id")?, kind)?;
    Ok(link("knowledge_base", text(&found, "id")))
}

const KEYS: [&str; 7] = ["name", "description", "content", "sourceRepoId", "searchQuery", "outputFields", "conditions"];

/// Longest content and description, in characters.
const LIMITS: [(&str, usize); 2] = [("content", 3_500), ("description", 900)];

fn write(ctx: &Ctx<'_>, body: &mut Value, input: &Args) -> Result<(), GqlError> {
    if input.text("name").is_some_and(|name| name.trim().is_empty()) {
        return Err(GqlError::not_saved("Name can't be blank"));
    }
    for (key, longest) in LIMITS {
        if input.text(key).is_some_and(|value| value.chars().count() > longest) {
            return Err(GqlError::not_saved(format!("{key} is too long (maximum is {longest} characters)")));
        }
    }
    if let Some(source) = input.text("sourceRepoId") {
        access::read_pipe(ctx, &source)?;
    }
    copy(body, &input.0, &KEYS);
    if let Some(url) = input.text("documentUrl") {
        set(body, "content", url);
    }
    set(body, "updatedAt", ctx.stamp());
    Ok(())
}

fn answer(kind: &Kind, id: &str) -> Value {
    let mut payload = json!({});
    set(&mut payload, kind.payload, link("knowledge_base", id));
    payload
}

fn create(ctx: &Ctx<'_>, args: &Args, kind: &Kind) -> Answer {
    let input = args.input();
    let pipe = access::managed_pipe(ctx, &input.need("pipeUuid")?)?;
    let id = ctx.new_id("knowledge_base")?;
    let mut body = json!({ "id": id, "type": kind.listed, "pipe_uuid": text(&pipe, "uuid") });
    write(ctx, &mut body, &input)?;
    ctx.put("knowledge_base", &id, &Links::parent(text(&pipe, "uuid")), body)?;
    Ok(answer(kind, &id))
}

fn update(ctx: &Ctx<'_>, args: &Args, kind: &Kind) -> Answer {
    let input = args.input();
    let pipe = access::managed_pipe(ctx, &input.need("pipeUuid")?)?;
    let id = input.need(kind.id_key)?;
    let mut body = (*item(ctx, &pipe, &id, kind)?).clone();
    write(ctx, &mut body, &input)?;
    ctx.save("knowledge_base", &id, body)?;
    Ok(answer(kind, &id))
}

fn delete(ctx: &Ctx<'_>, args: &Args, kind: &Kind) -> Answer {
    let input = args.input();
    let pipe = access::managed_pipe(ctx, &input.need("pipeUuid")?)?;
    let id = input.need(kind.id_key)?;
    item(ctx, &pipe, &id, kind)?;
    Ok(json!({ "success": ctx.remove("knowledge_base", &id)?, "errors": [] }))
}
