//! Labels of pipes and tables.

use crate::access;
use crate::ctx::{Answer, Args, Body, Ctx};
use crate::error::GqlError;
use crate::json::{link, set, text, texts_at};
use crate::object::Root;
use crate::store::Links;
use serde_json::json;

pub(crate) const ROOTS: &[Root] =
    &[Root::public("createLabel", create), Root::public("updateLabel", update), Root::public("deleteLabel", delete)];

/// `#RGB` or `#RRGGBB`.
fn color(value: &str) -> Result<&str, GqlError> {
    let hex = value.strip_prefix('#').unwrap_or_default();
    if matches!(hex.len(), 3 | 6) && hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(value);
    }
    Err(GqlError::invalid("Color is invalid"))
}

fn name(value: &str) -> Result<&str, GqlError> {
    if value.trim().is_empty() { Err(GqlError::invalid("Name can't be blank")) } else { Ok(value) }
}

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (key, repo) = match input.text("pipe_id") {
        Some(id) => ("pipe_id", access::managed_pipe(ctx, &id)?),
        None => ("table_id", access::managed_table(ctx, &input.need("table_id")?)?),
    };
    let id = ctx.new_id("label")?;
    let (label_name, label_color) = (input.need("name")?, input.need("color")?);
    let mut body = json!({ "id": id, "name": name(&label_name)?, "color": color(&label_color)? });
    set(&mut body, key, text(&repo, "id"));
    ctx.put("label", &id, &Links::parent(text(&repo, "id")), body)?;
    Ok(json!({ "label": link("label", &id) }))
}

fn managed(ctx: &Ctx<'_>, id: &str) -> Result<Body, GqlError> {
    let label = ctx.get("label", id)?.ok_or_else(|| GqlError::not_found("Label", id))?;
    if text(&label, "pipe_id").is_empty() {
        access::managed_table(ctx, text(&label, "table_id"))?;
    } else {
        access::managed_pipe(ctx, text(&label, "pipe_id"))?;
    }
    Ok(label)
}

fn update(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let id = input.need("id")?;
    let mut body = (*managed(ctx, &id)?).clone();
    let (label_name, label_color) = (input.need("name")?, input.need("color")?);
    set(&mut body, "name", name(&label_name)?);
    set(&mut body, "color", color(&label_color)?);
    ctx.save("label", &id, body)?;
    Ok(json!({ "label": link("label", &id) }))
}

/// Deleting a label takes it off every card, without a word.
fn delete(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let id = args.input().need("id")?;
    let label = managed(ctx, &id)?;
    for (kind, repo) in [("card", text(&label, "pipe_id")), ("table_record", text(&label, "table_id"))] {
        for item in ctx.children(kind, repo)? {
            let labels = texts_at(&item, "label_ids");
            if labels.contains(&id) {
                let mut body = (*item).clone();
                let left: Vec<String> = labels.into_iter().filter(|l| *l != id).collect();
                set(&mut body, "label_ids", json!(left));
                ctx.save(kind, text(&item, "id"), body)?;
            }
        }
    }
    Ok(json!({ "success": ctx.remove("label", &id)? }))
}
