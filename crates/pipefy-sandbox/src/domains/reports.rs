//! Reports over one pipe or several pipes of an organization: columns, filters, order, formulas.

use crate::access::{self, Level};
use crate::columns::{self, Column};
use crate::ctx::{Answer, Args, Body, Ctx};
use crate::error::GqlError;
use crate::json::{copy, link, set, text, texts_at};
use crate::object::{Property, Root};
use crate::page;
use crate::store::Links;
use serde_json::{Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("pipeReports", pipe_reports),
    Root::public("pipeReportColumns", |ctx, args| {
        let pipe = readable(ctx, &args.need("pipeUuid")?)?;
        let shown = |column: &Column| {
            json!({
                "name": column.name, "label": column.label, "type": column.kind, "archived": false,
                "visible": column.kind != "date", "options": column.options(),
            })
        };
        Ok(columns::of_pipe(ctx, &pipe)?.iter().map(shown).collect())
    }),
    Root::public("pipeReportFilterableFields", filterable),
    Root::public("createPipeReport", create_pipe_report),
    Root::public("updatePipeReport", update_pipe_report),
    Root::public("deletePipeReport", |ctx, args| {
        let id = args.input().need("id")?;
        pipe_report(ctx, &id, Level::edits)?;
        Ok(json!({ "success": ctx.remove("pipe_report", &id)? }))
    }),
    Root::public("organizationReport", |ctx, args| {
        let report = organization_report(ctx, &args.need("id")?)?;
        Ok(link("organization_report", text(&report, "id")))
    }),
    Root::public("organizationReports", |ctx, args| {
        let org = insider(ctx, &args.need("organizationId")?)?;
        let rows = ctx.children("organization_report", text(&org, "id"))?;
        let rows = rows.iter().map(|r| (text(r, "id").to_owned(), link("organization_report", text(r, "id"))));
        page::connection(rows.collect(), args, page::PIPE_PAGE)
    }),
    Root::public("createOrganizationReport", create_organization_report),
    Root::public("updateOrganizationReport", update_organization_report),
    Root::public("deleteOrganizationReport", |ctx, args| {
        let report = managed_report(ctx, &args.input().need("id")?)?;
        Ok(json!({ "success": ctx.remove("organization_report", text(&report, "id"))? }))
    }),
];

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(&["PipeReport", "OrganizationReport"], "cardCount", |ctx, report, _| {
        Ok(json!(rows(ctx, report, &report_filter(report))?.1.len()))
    }),
    Property::of(&["PipeReport"], "selectedFormulaFields", formulas),
    Property::of(&["OrganizationReport"], "repos", |ctx, report, _| {
        let mut repos = Vec::new();
        for id in texts_at(report, "pipe_ids") {
            if let Some(pipe) = ctx.get("pipe", &id)? {
                repos.push(json!({ "id": id, "uuid": text(&pipe, "uuid"), "name": text(&pipe, "name") }));
            }
        }
        Ok(json!(repos))
    }),
];

/// A pipe of which the caller may read every card.
fn readable(ctx: &Ctx<'_>, key: &str) -> Result<Body, GqlError> {
    let (pipe, level) = access::pipe(ctx, key)?;
    if level.reads_all() { Ok(pipe) } else { Err(GqlError::denied()) }
}

/// An organization in which the caller is more than a guest.
pub(super) fn insider(ctx: &Ctx<'_>, key: &str) -> Result<Body, GqlError> {
    let org = access::organization(ctx, key)?;
    let role = access::role(ctx, &super::organizations::scope(&org), &ctx.viewer)?;
    if role.is_some_and(|role| role.contains("guest")) { Err(GqlError::denied()) } else { Ok(org) }
}

/// A pipe report, when the caller's level in its pipe is enough.
pub(super) fn pipe_report(ctx: &Ctx<'_>, id: &str, enough: fn(Level) -> bool) -> Result<Body, GqlError> {
    let report = ctx.get("pipe_report", id)?.ok_or_else(|| GqlError::not_found("Report", id))?;
    let (_, level) = access::pipe(ctx, text(&report, "pipe_id"))?;
    if enough(level) { Ok(report) } else { Err(GqlError::denied()) }
}

/// An organization report that the caller may read.
pub(super) fn organization_report(ctx: &Ctx<'_>, id: &str) -> Result<Body, GqlError> {
    let report = ctx.get("organization_report", id)?.ok_or_else(|| GqlError::not_found("Organization report", id))?;
    insider(ctx, text(&report, "organization_id"))?;
    Ok(report)
}

fn managed_report(ctx: &Ctx<'_>, id: &str) -> Result<Body, GqlError> {
    let report = organization_report(ctx, id)?;
    access::managed_organization(ctx, text(&report, "organization_id"))?;
    Ok(report)
}

/// The pipes of a report that still exist.
pub(super) fn pipes_of(ctx: &Ctx<'_>, report: &Value) -> Result<Vec<Body>, GqlError> {
    let own = text(report, "pipe_id").to_owned();
    let ids = if own.is_empty() { texts_at(report, "pipe_ids") } else { vec![own] };
    let mut pipes = Vec::new();
    for id in ids {
        pipes.extend(ctx.get("pipe", &id)?);
    }
    Ok(pipes)
}

pub(super) fn report_filter(report: &Value) -> Value {
    report.get("filter").filter(|f| f.is_object()).cloned().unwrap_or_else(|| json!({}))
}

/// The columns of a report's pipes (the card's own ones once) and the cards that pass the filter.
pub(super) fn rows(ctx: &Ctx<'_>, report: &Value, filter: &Value) -> Result<(Vec<Column>, Vec<Body>), GqlError> {
    let (mut all, mut kept) = (Vec::<Column>::new(), Vec::new());
    for pipe in pipes_of(ctx, report)? {
        let columns = columns::of_pipe(ctx, &pipe)?;
        let level = access::pipe_level(ctx, &pipe)?;
        for card in ctx.children("card", text(&pipe, "id"))? {
            if access::sees_card(ctx, level, &card) && columns::passes(ctx, &columns, &card, filter)? {
                kept.push(card);
            }
        }
        all.extend(columns.into_iter().filter(|c| !all.iter().any(|known| known.name == c.name)).collect::<Vec<_>>());
    }
    Ok((all, kept))
}

fn filterable(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let pipe = readable(ctx, &args.need("pipeUuid")?)?;
    let mut groups: Vec<(String, Vec<Value>)> = Vec::new();
    for column in columns::of_pipe(ctx, &pipe)? {
        let row =
            json!({ "name": column.name, "label": column.label, "type": column.kind, "options": column.options() });
        match groups.iter_mut().find(|(place, _)| *place == column.place) {
            Some((_, list)) => list.push(row),
            None => groups.push((column.place, vec![row])),
        }
    }
    let group = |(label, list): (String, Vec<Value>)| json!({ "label": label, "list": list });
    let (general, fields): (Vec<_>, Vec<_>) = groups.into_iter().partition(|(place, _)| place == "General");
    Ok(json!([
        { "title": "Card", "list": general.into_iter().map(group).collect::<Vec<_>>() },
        { "title": "Fields", "list": fields.into_iter().map(group).collect::<Vec<_>>() },
    ]))
}

fn pipe_reports(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let pipe = readable(ctx, &args.need("pipeUuid")?)?;
    let search = args.text("search").unwrap_or_default().to_lowercase();
    let wanted = args.text("reportId");
    let mut reports: Vec<Body> = ctx
        .children("pipe_report", text(&pipe, "id"))?
        .into_iter()
        .filter(|r| text(r, "name").to_lowercase().contains(&search))
        .filter(|r| wanted.as_deref().is_none_or(|id| id == text(r, "id")))
        .collect();
    if let Some(order) = args.get("order") {
        let key = match text(order, "field") {
            "created_at" | "createdAt" => "createdAt",
            "last_updated_at" | "lastUpdatedAt" | "updated_at" => "lastUpdatedAt",
            "id" => "id",
            "name" | "" => "name",
            other => return Err(GqlError::invalid(format!("Reports cannot be ordered by {other:?}"))),
        };
        reports.sort_by_key(|r| text(r, key).to_lowercase());
        if text(order, "direction") == "desc" {
            reports.reverse();
        }
    }
    let rows = reports.iter().map(|r| (text(r, "id").to_owned(), link("pipe_report", text(r, "id"))));
    page::connection(rows.collect(), args, page::PIPE_PAGE)
}

const SETTINGS: [&str; 7] = ["name", "color", "fields", "filter", "formulas", "featuredField", "sortBy"];

/// Takes the given settings over and checks them against the columns that the report's pipes have.
fn write(ctx: &Ctx<'_>, body: &mut Value, input: &Args) -> Result<(), GqlError> {
    copy(body, &input.0, &SETTINGS);
    if text(body, "name").trim().is_empty() {
        return Err(GqlError::not_saved("Name can't be blank"));
    }
    let mut all = Vec::new();
    for pipe in pipes_of(ctx, body)? {
        all.extend(columns::of_pipe(ctx, &pipe)?);
    }
    columns::check_filter(&all, &report_filter(body))?;
    known_columns(&all, &texts_at(body, "fields"))?;
    for formula in body.get("formulas").and_then(Value::as_array).into_iter().flatten() {
        let (field, _) = formula_of(formula)?;
        known_columns(&all, &[field])?;
    }
    set(body, "lastUpdatedAt", ctx.stamp());
    Ok(())
}

/// Refuses names that are no column.
pub(super) fn known_columns(all: &[Column], names: &[String]) -> Result<(), GqlError> {
    match names.iter().find(|name| columns::named(all, name).is_none()) {
        Some(name) => Err(GqlError::invalid(format!("Column {name:?} does not exist in the report's pipes"))),
        None => Ok(()),
    }
}

const FORMULAS: [&str; 5] = ["sum", "avg", "min", "max", "count"];

/// Column and formula of a pair, in whichever order they come.
fn formula_of(pair: &Value) -> Result<(String, String), GqlError> {
    let words = crate::json::texts(pair);
    let formula = words.iter().find(|word| FORMULAS.contains(&word.as_str()));
    let field = words.iter().find(|word| !FORMULAS.contains(&word.as_str()));
    match (field, formula) {
        (Some(field), Some(formula)) => Ok((field.clone(), formula.clone())),
        _ => Err(GqlError::invalid(format!("A formula is a column and one of {FORMULAS:?}, got {pair}"))),
    }
}

fn formulas(ctx: &Ctx<'_>, report: &Value, _: &Args) -> Answer {
    let (columns, cards) = rows(ctx, report, &report_filter(report))?;
    let mut out = Vec::new();
    for pair in report.get("formulas").and_then(Value::as_array).into_iter().flatten() {
        let (field, formula) = formula_of(pair)?;
        if let Some(column) = columns::named(&columns, &field) {
            let mut row = columns::aggregate(ctx, column, &cards)?;
            set(&mut row, "indexName", column.name.as_str());
            set(&mut row, "label", column.label.as_str());
            set(&mut row, "selectedFormula", formula);
            out.push(row);
        }
    }
    Ok(json!(out))
}

fn new_body(ctx: &Ctx<'_>, id: &str) -> Value {
    json!({
        "id": id, "name": "", "color": "blue", "fields": ["title", "current_phase"], "filter": {}, "formulas": [],
        "featuredField": null, "sortBy": { "field": "created_at", "direction": "desc" }, "createdAt": ctx.stamp(),
        "lastUpdatedAt": ctx.stamp(), "created_by": ctx.viewer,
    })
}

fn create_pipe_report(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (pipe, level) = access::pipe(ctx, &input.need("pipeId")?)?;
    if !level.edits() {
        return Err(GqlError::denied());
    }
    let id = ctx.new_id("pipe_report")?;
    let mut body = new_body(ctx, &id);
    set(&mut body, "pipe_id", text(&pipe, "id"));
    write(ctx, &mut body, &input)?;
    ctx.put("pipe_report", &id, &Links::parent(text(&pipe, "id")), body)?;
    Ok(json!({ "pipeReport": link("pipe_report", &id) }))
}

fn update_pipe_report(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let id = input.need("id")?;
    let mut body = (*pipe_report(ctx, &id, Level::edits)?).clone();
    write(ctx, &mut body, &input)?;
    ctx.save("pipe_report", &id, body)?;
    Ok(json!({ "pipeReport": link("pipe_report", &id) }))
}

/// The pipes of an organization report: at least one, all of the organization.
fn report_pipes(ctx: &Ctx<'_>, org: &str, ids: &[String]) -> Result<Vec<String>, GqlError> {
    let mut pipes = Vec::new();
    for id in ids {
        let pipe = readable(ctx, id)?;
        if text(&pipe, "organization_id") != org {
            return Err(GqlError::not_found("Pipe", id));
        }
        pipes.push(text(&pipe, "id").to_owned());
    }
    if pipes.is_empty() { Err(GqlError::not_saved("Pipes can't be blank")) } else { Ok(pipes) }
}

fn create_organization_report(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let org = access::managed_organization(ctx, &input.need("organizationId")?)?;
    let id = ctx.new_id("organization_report")?;
    let mut body = new_body(ctx, &id);
    set(&mut body, "organization_id", text(&org, "id"));
    set(&mut body, "pipe_ids", report_pipes(ctx, text(&org, "id"), &input.texts("pipeIds").unwrap_or_default())?);
    write(ctx, &mut body, &input)?;
    ctx.put("organization_report", &id, &Links::parent(text(&org, "id")), body)?;
    Ok(json!({ "organizationReport": link("organization_report", &id) }))
}

fn update_organization_report(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let report = managed_report(ctx, &input.need("id")?)?;
    let mut body = (*report).clone();
    if let Some(ids) = input.texts("pipeIds") {
        set(&mut body, "pipe_ids", report_pipes(ctx, text(&report, "organization_id"), &ids)?);
    }
    write(ctx, &mut body, &input)?;
    ctx.save("organization_report", text(&report, "id"), body)?;
    Ok(json!({ "organizationReport": link("organization_report", text(&report, "id")) }))
}
