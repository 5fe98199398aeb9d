//! Database tables and their fields.

use crate::access;
use crate::ctx::{Answer, Args, Ctx};
use crate::error::GqlError;
use crate::json::{copy, link, links, set, text};
use crate::object::{Property, Root};
use crate::page;
use crate::store::{By, Links};
use crate::values;
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("table", |ctx, args| {
        let (table, _) = access::table(ctx, &args.need("id")?)?;
        Ok(link("table", text(&table, "id")))
    }),
    Root::public("tables", |ctx, args| {
        let mut rows = Vec::new();
        for id in args.texts("ids").unwrap_or_default() {
            rows.push(match access::table(ctx, &id) {
                Ok((table, _)) => link("table", text(&table, "id")),
                Err(error) => error.as_value(),
            });
        }
        Ok(json!(rows))
    }),
    Root::public("createTable", create),
    Root::public("updateTable", update),
    Root::public("deleteTable", delete),
    Root::public("createTableField", create_field),
    Root::public("updateTableField", update_field),
    Root::public("deleteTableField", delete_field),
    Root::public("setTableFieldOrder", order_fields),
];

const TABLE: &[&str] = &["Table", "ConnectedTable"];

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(TABLE, "table_fields", |ctx, table, _| super::fields::links_of(ctx, text(table, "id"))),
    Property::of(TABLE, "table_records", |ctx, table, args| {
        let (table, level) = access::table(ctx, text(table, "id"))?;
        page::connection(super::table_records::matching(ctx, &table, level, None)?, args, page::PIPE_PAGE)
    }),
    Property::of(TABLE, "table_records_count", |ctx, table, _| {
        Ok(json!(ctx.store.count("table_record", By::Parent, text(table, "id"))?))
    }),
    Property::of(TABLE, "members", |ctx, table, args| super::members::members(ctx, &scope(table), args)),
    Property::of(TABLE, "users_count", |ctx, table, _| {
        Ok(json!(ctx.store.count("member", By::Parent, &scope(table))?))
    }),
    Property::of(TABLE, "title_field", |_, table, _| Ok(link("field", text(table, "title_field_id")))),
    Property::of(TABLE, "permissions", |ctx, table, _| Ok(super::pipes::permissions(access::table_level(ctx, table)?))),
    Property::of(TABLE, "my_permissions", |ctx, table, _| {
        let level = access::table_level(ctx, table)?;
        Ok(json!({ "can_manage_record": level.edits(), "can_manage_table": level == access::Level::Admin }))
    }),
    Property::of(TABLE, "url", |ctx, table, _| {
        Ok(json!(format!("{}/apollo_databases/{}", ctx.base_url, text(table, "id"))))
    }),
    Property::of(&["Table"], "webhooks", |ctx, table, _| {
        let rows = ctx.grouped("webhook", &scope(table))?;
        Ok(links("webhook", rows.iter().map(|r| text(r, "id"))))
    }),
];

pub(super) fn scope(table: &Value) -> String {
    format!("table:{}", text(table, "id"))
}

const SETTINGS: [&str; 9] = [
    "authorization",
    "color",
    "description",
    "icon",
    "noun",
    "public",
    "public_form",
    "create_record_button_label",
    "name",
];

/// A new table with the statuses that every table has. The creator becomes its administrator.
pub(crate) fn new_table(ctx: &Ctx<'_>, org: &str, name: &str, extra: &Value) -> Answer {
    let (id, internal_id, uuid) = (ctx.store.next_alnum()?, ctx.new_id("table")?, ctx.new_uuid()?);
    let mut body = json!({
        "id": id, "internal_id": internal_id, "uuid": uuid, "name": name, "noun": "record", "icon": "pipefy", "color": "blue",
        "description": Value::Null, "organization_id": org, "authorization": "write", "public": false, "public_form": false,
        "create_record_button_label": "Create new record", "created_at": ctx.stamp(),
        "statuses": [{ "id": format!("{internal_id}1"), "name": "Active" }, { "id": format!("{internal_id}2"), "name": "Inactive" }],
    });
    copy(&mut body, extra, &SETTINGS);
    ctx.put("table", &id, &Links::parent(org).uuid(&uuid), body)?;
    ctx.put("table_key", &internal_id, &Links::default(), json!({ "id": id }))?;
    super::members::join(ctx, &format!("table:{id}"), &ctx.viewer, "admin")?;
    Ok(link("table", &id))
}

fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let org = access::managed_organization(ctx, &input.need("organization_id")?)?;
    let name = input.need("name")?;
    if name.trim().is_empty() {
        return Err(GqlError::not_saved("Name can't be blank"));
    }
    let table = new_table(ctx, text(&org, "id"), &name, &input.0)?;
    let id = text(&table, "$id").to_owned();
    for label in input.get("labels").and_then(Value::as_array).into_iter().flatten() {
        let label_id = ctx.new_id("label")?;
        let body =
            json!({ "id": label_id, "name": text(label, "name"), "color": text(label, "color"), "table_id": id });
        ctx.put("label", &label_id, &Links::parent(&id), body)?;
    }
    for member in input.get("members").and_then(Value::as_array).into_iter().flatten() {
        super::members::join(ctx, &format!("table:{id}"), text(member, "user_id"), text(member, "role_name"))?;
    }
    Ok(json!({ "table": table }))
}

fn update(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let table = access::managed_table(ctx, &input.need("id")?)?;
    let mut body = (*table).clone();
    if input.text("name").is_some_and(|name| name.trim().is_empty()) {
        return Err(GqlError::not_saved("Name can't be blank"));
    }
    copy(&mut body, &input.0, &SETTINGS);
    let id = text(&table, "id").to_owned();
    if let Some(slug) = input.text("title_field_id") {
        let field = values::field_by_slug(ctx, &id, &slug)?.ok_or_else(|| GqlError::not_found("Field", &slug))?;
        set(&mut body, "title_field_id", text(&field, "internal_id"));
    }
    ctx.save("table", &id, body)?;
    Ok(json!({ "table": link("table", &id) }))
}

fn delete(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let table = access::managed_table(ctx, &args.input().need("id")?)?;
    let id = text(&table, "id").to_owned();
    for record in ctx.children("table_record", &id)? {
        super::table_records::bury(ctx, text(&record, "id"))?;
    }
    for field in ctx.children("field", &id)? {
        ctx.remove("field", text(&field, "internal_id"))?;
    }
    for label in ctx.children("label", &id)? {
        ctx.remove("label", text(&label, "id"))?;
    }
    for member in ctx.children("member", &scope(&table))? {
        ctx.remove("member", &format!("{}/{}", scope(&table), text(&member, "user_id")))?;
    }
    ctx.remove("table_key", text(&table, "internal_id"))?;
    Ok(json!({ "success": ctx.remove("table", &id)? }))
}

fn create_field(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let table = access::managed_table(ctx, &input.need("table_id")?)?;
    let (label, kind) = (input.need("label")?, input.need("type")?);
    let field = super::fields::new_field(ctx, &table, "table_id", text(&table, "id"), &label, &kind, &input.0)?;
    if text(&table, "title_field_id").is_empty() {
        let mut body = (*table).clone();
        set(&mut body, "title_field_id", text(&field, "internal_id"));
        ctx.save("table", text(&table, "id"), body)?;
    }
    Ok(json!({ "table_field": link("field", text(&field, "internal_id")) }))
}

/// A field of a table by slug, uuid or internal id.
pub(super) fn field(ctx: &Ctx<'_>, table: &str, key: &str) -> Result<crate::ctx::Body, GqlError> {
    let fields = ctx.children("field", table)?;
    let found = fields.into_iter().find(|f| ["id", "uuid", "internal_id"].iter().any(|k| text(f, k) == key));
    found.ok_or_else(|| GqlError::not_found("Field", key))
}

fn update_field(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let table = access::managed_table(ctx, &input.need("table_id")?)?;
    let found = field(ctx, text(&table, "id"), &input.need("id")?)?;
    let mut body = (*found).clone();
    const KEYS: [&str; 12] = [
        "description",
        "help",
        "minimal_view",
        "options",
        "required",
        "unique",
        "custom_validation",
        "canConnectExisting",
        "canConnectMultiples",
        "canCreateNewConnected",
        "childMustExistToFinishParent",
        "allChildrenMustBeDoneToFinishParent",
    ];
    copy(&mut body, &input.0, &KEYS);
    if let Some(label) = input.text("label") {
        if label.trim().is_empty() {
            return Err(GqlError::not_saved("Label can't be blank"));
        }
        set(&mut body, "label", label);
    }
    ctx.save("field", text(&found, "internal_id"), body)?;
    Ok(json!({ "table_field": link("field", text(&found, "internal_id")) }))
}

fn delete_field(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let table = access::managed_table(ctx, &input.need("table_id")?)?;
    let found = field(ctx, text(&table, "id"), &input.need("id")?)?;
    Ok(json!({ "success": ctx.remove("field", text(&found, "internal_id"))? }))
}

fn order_fields(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let table = access::managed_table(ctx, &input.need("table_id")?)?;
    let id = text(&table, "id").to_owned();
    for (place, key) in input.texts("field_ids").unwrap_or_default().iter().enumerate() {
        let found = field(ctx, &id, key)?;
        let mut body = (*found).clone();
        let at = (place + 1) as f64;
        set(&mut body, "index", at);
        let links = Links::parent(&id).group(&id).uuid(text(&found, "uuid")).pos(at);
        ctx.put("field", text(&found, "internal_id"), &links, body)?;
    }
    Ok(json!({ "table_fields": super::fields::links_of(ctx, &id)? }))
}
