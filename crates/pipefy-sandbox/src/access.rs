//! Who may do what. Every read and write asks here.

use crate::ctx::{Body, Ctx};
use crate::error::GqlError;
use crate::json::text;
use serde_json::Value;

/// What a caller may do in one pipe or table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    None,
    /// Fill in the start form, see the own cards (role `creator`).
    StartForm,
    /// Read and comment (role `read_and_comment`).
    Read,
    /// Work with cards or records (role `member`).
    Member,
    /// Everything, also structure and members (role `admin`, organization administrators).
    Admin,
}

impl Level {
    pub(crate) fn reads_all(self) -> bool {
        matches!(self, Self::Read | Self::Member | Self::Admin)
    }

    pub(crate) fn creates(self) -> bool {
        matches!(self, Self::StartForm | Self::Member | Self::Admin)
    }

    pub(crate) fn edits(self) -> bool {
        matches!(self, Self::Member | Self::Admin)
    }
}

/// Role of a user in a scope (`pipe:ID`, `table:ID`, `organization:ID`).
pub(crate) fn role(ctx: &Ctx<'_>, scope: &str, user: &str) -> Result<Option<String>, GqlError> {
    let member = ctx.get("member", &format!("{scope}/{user}"))?;
    Ok(member.map(|m| text(&m, "role_name").to_owned()))
}

fn is_admin_role(role: &str) -> bool {
    matches!(role, "admin" | "super_admin")
}

pub(crate) fn is_org_member(ctx: &Ctx<'_>, org: &str) -> Result<bool, GqlError> {
    Ok(role(ctx, &format!("organization:{org}"), &ctx.viewer)?.is_some())
}

pub(crate) fn is_org_admin(ctx: &Ctx<'_>, org: &str) -> Result<bool, GqlError> {
    Ok(role(ctx, &format!("organization:{org}"), &ctx.viewer)?.is_some_and(|r| is_admin_role(&r)))
}

fn level(ctx: &Ctx<'_>, kind: &str, repo: &Value) -> Result<Level, GqlError> {
    if is_org_admin(ctx, text(repo, "organization_id"))? {
        return Ok(Level::Admin);
    }
    let role = role(ctx, &format!("{kind}:{}", text(repo, "id")), &ctx.viewer)?;
    Ok(match role.as_deref() {
        None => Level::None,
        Some("admin" | "super_admin") => Level::Admin,
        Some("creator") => Level::StartForm,
        Some("read_and_comment" | "guest" | "external_guest") => Level::Read,
        Some(_) => Level::Member,
    })
}

pub(crate) fn pipe_level(ctx: &Ctx<'_>, pipe: &Value) -> Result<Level, GqlError> {
    level(ctx, "pipe", pipe)
}

pub(crate) fn table_level(ctx: &Ctx<'_>, table: &Value) -> Result<Level, GqlError> {
    level(ctx, "table", table)
}

fn allowed(ok: bool) -> Result<(), GqlError> {
    if ok { Ok(()) } else { Err(GqlError::denied()) }
}

/// An organization the caller belongs to.
pub(crate) fn organization(ctx: &Ctx<'_>, key: &str) -> Result<Body, GqlError> {
    let org = ctx.must("organization", "Organization", key)?;
    allowed(is_org_member(ctx, text(&org, "id"))?)?;
    Ok(org)
}

/// An organization the caller administers.
pub(crate) fn managed_organization(ctx: &Ctx<'_>, key: &str) -> Result<Body, GqlError> {
    let org = ctx.must("organization", "Organization", key)?;
    allowed(is_org_admin(ctx, text(&org, "id"))?)?;
    Ok(org)
}

/// A pipe (by id or uuid) that the caller may see, and the caller's level in it.
pub(crate) fn pipe(ctx: &Ctx<'_>, key: &str) -> Result<(Body, Level), GqlError> {
    let pipe = ctx.must("pipe", "Pipe", key)?;
    let level = pipe_level(ctx, &pipe)?;
    allowed(level != Level::None)?;
    Ok((pipe, level))
}

/// A pipe in which the caller reads everything, not only a start form.
pub(crate) fn read_pipe(ctx: &Ctx<'_>, key: &str) -> Result<Body, GqlError> {
    let (pipe, level) = pipe(ctx, key)?;
    allowed(level.reads_all())?;
    Ok(pipe)
}

/// A pipe that the caller administers.
pub(crate) fn managed_pipe(ctx: &Ctx<'_>, key: &str) -> Result<Body, GqlError> {
    let (pipe, level) = pipe(ctx, key)?;
    allowed(level == Level::Admin)?;
    Ok(pipe)
}

/// A phase that the caller may see, with its pipe.
pub(crate) fn phase(ctx: &Ctx<'_>, id: &str) -> Result<(Body, Body, Level), GqlError> {
    let phase = ctx.must("phase", "Phase", id)?;
    let (pipe, level) = pipe(ctx, text(&phase, "pipe_id"))?;
    Ok((phase, pipe, level))
}

/// A phase of a pipe that the caller administers.
pub(crate) fn managed_phase(ctx: &Ctx<'_>, id: &str) -> Result<(Body, Body), GqlError> {
    let (phase, pipe, level) = phase(ctx, id)?;
    allowed(level == Level::Admin)?;
    Ok((phase, pipe))
}

/// Whether the caller may see a card of a pipe in which the level is `level`.
pub(crate) fn sees_card(ctx: &Ctx<'_>, level: Level, card: &Value) -> bool {
    level.reads_all() || (level == Level::StartForm && text(card, "created_by") == ctx.viewer)
}

/// A card that the caller may see. A deleted one answers as a denied one, as the real API does.
pub(crate) fn card(ctx: &Ctx<'_>, key: &str) -> Result<(Body, Body, Level), GqlError> {
    if ctx.get("deleted", &format!("card:{key}"))?.is_some() {
        return Err(GqlError::denied());
    }
    let card = ctx.must("card", "Card", key)?;
    let (pipe, level) = pipe(ctx, text(&card, "pipe_id"))?;
    allowed(sees_card(ctx, level, &card))?;
    Ok((card, pipe, level))
}

/// A card that the caller may change.
pub(crate) fn editable_card(ctx: &Ctx<'_>, key: &str) -> Result<(Body, Body), GqlError> {
    let (card, pipe, level) = card(ctx, key)?;
    allowed(level.edits())?;
    let assigned = crate::json::texts_at(&card, "assignee_ids").contains(&ctx.viewer);
    let restricted = crate::json::flag(&pipe, "only_assignees_can_edit_cards");
    allowed(level == Level::Admin || assigned || !restricted)?;
    Ok((card, pipe))
}

/// A table (by id, internal id or uuid) that the caller may see.
pub(crate) fn table(ctx: &Ctx<'_>, key: &str) -> Result<(Body, Level), GqlError> {
    let table = any_table(ctx, key)?;
    let level = table_level(ctx, &table)?;
    allowed(level != Level::None)?;
    Ok((table, level))
}

/// A table by id, internal id or uuid, whoever asks.
pub(crate) fn any_table(ctx: &Ctx<'_>, key: &str) -> Result<Body, GqlError> {
    match ctx.find("table", key)? {
        Some(table) => Ok(table),
        None => match ctx.get("table_key", key)? {
            Some(alias) => ctx.must("table", "Table", text(&alias, "id")),
            None => Err(GqlError::not_found("Table", key)),
        },
    }
}

/// A table that the caller administers.
pub(crate) fn managed_table(ctx: &Ctx<'_>, key: &str) -> Result<Body, GqlError> {
    let (table, level) = table(ctx, key)?;
    allowed(level == Level::Admin)?;
    Ok(table)
}

/// A table record that the caller may see.
pub(crate) fn record(ctx: &Ctx<'_>, key: &str) -> Result<(Body, Body, Level), GqlError> {
    if ctx.get("deleted", &format!("table_record:{key}"))?.is_some() {
        return Err(GqlError::denied());
    }
    let record = ctx.must("table_record", "Table record", key)?;
    let (table, level) = table(ctx, text(&record, "table_id"))?;
    allowed(level.reads_all())?;
    Ok((record, table, level))
}

/// A table record that the caller may change.
pub(crate) fn editable_record(ctx: &Ctx<'_>, key: &str) -> Result<(Body, Body), GqlError> {
    let (record, table, level) = record(ctx, key)?;
    allowed(level.edits())?;
    Ok((record, table))
}
