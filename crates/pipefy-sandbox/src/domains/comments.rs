//! Comments on cards.

use crate::access;
use crate::ctx::{Answer, Args, Body, Ctx};
use crate::error::GqlError;
use crate::events::{self, Cause, What};
use crate::json::{link, set, text};
use crate::object::{Property, Root};
use crate::store::Links;
use serde_json::json;

pub(crate) const ROOTS: &[Root] = &[
    Root::public("createComment", create),
    Root::public("updateComment", update),
    Root::public("deleteComment", delete),
];

pub(crate) const PROPERTIES: &[Property] =
    &[Property::of(&["Comment"], "author", |_, comment, _| Ok(link("user", text(comment, "author_id"))))];

/// Longest comment, in characters.
const LONGEST: usize = 1_000;

fn checked(value: String) -> Result<String, GqlError> {
    if value.trim().is_empty() {
        return Err(GqlError::invalid("Text can't be blank"));
    }
    if value.chars().count() > LONGEST {
        return Err(GqlError::invalid(format!("Text is invalid: it must be at most {LONGEST} characters long")));
    }
    Ok(value)
}

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (card, _, level) = access::card(ctx, &input.need("card_id")?)?;
    if level == access::Level::None {
        return Err(GqlError::denied());
    }
    let id = ctx.new_id("comment")?;
    let author = ctx.get("user", &ctx.viewer)?;
    let body = json!({
        "id": id, "text": checked(input.need("text")?)?, "card_id": text(&card, "id"), "author_id": ctx.viewer,
        "author_name": author.map(|a| text(&a, "name").to_owned()).unwrap_or_default(), "created_at": ctx.stamp(),
    });
    let comment = ctx.put("comment", &id, &Links::parent(text(&card, "id")), body)?;
    events::tell(ctx, &Cause::caller(ctx)?, &What::Commented { comment: &comment }, text(&card, "id"))?;
    Ok(json!({ "comment": link("comment", &id) }))
}

/// A comment that the caller wrote, or may change as an administrator of the pipe.
fn own(ctx: &Ctx<'_>, id: &str) -> Result<Body, GqlError> {
    let comment = ctx.get("comment", id)?.ok_or_else(|| GqlError::not_found("Comment", id))?;
    let (_, _, level) = access::card(ctx, text(&comment, "card_id"))?;
    if text(&comment, "author_id") != ctx.viewer && level != access::Level::Admin {
        return Err(GqlError::denied());
    }
    Ok(comment)
}

fn update(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let id = input.need("id")?;
    let mut body = (*own(ctx, &id)?).clone();
    set(&mut body, "text", checked(input.need("text")?)?);
    ctx.save("comment", &id, body)?;
    Ok(json!({ "comment": link("comment", &id) }))
}

fn delete(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let id = args.input().need("id")?;
    own(ctx, &id)?;
    Ok(json!({ "success": ctx.remove("comment", &id)? }))
}
