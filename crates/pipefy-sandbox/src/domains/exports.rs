//! Files that are made in the background: report exports (CSV), automation jobs (XLSX), audit logs (CSV, by e-mail).
//!
//! The contents are those of the moment of the request; the file can be had a little later, so that clients have to poll.

use super::reports;
use crate::access;
use crate::columns::{self, Column};
use crate::ctx::{Answer, Args, Body, Ctx, parse_time};
use crate::error::GqlError;
use crate::json::{link, set, text, texts_at};
use crate::object::{Property, Root};
use crate::sheet::{self, Rows};
use crate::storage;
use crate::store::Links;
use serde_json::{Value, json};
use std::cmp::Ordering;

pub(crate) const ROOTS: &[Root] = &[
    Root::public("exportPipeReport", export_pipe),
    Root::public("exportOrganizationReport", export_organization),
    Root::public("exportPipeAuditLogsReport", export_audit),
    Root::public("pipeReportExport", |ctx, args| own(ctx, args, PIPE)),
    Root::public("organizationReportExport", |ctx, args| own(ctx, args, ORGANIZATION)),
    Root::public("createAutomationJobsExport", export_jobs),
    Root::public("automationJobsExport", |ctx, args| own(ctx, args, JOBS)),
];

const PIPE: &str = "pipe_report_export";
const ORGANIZATION: &str = "organization_report_export";
const JOBS: &str = "automation_jobs_export";
const REPORT_EXPORTS: &[&str] = &["PipeReportExport", "OrganizationReportExport"];

/// Rows of one file; further ones are left out.
const MOST_ROWS: usize = 10_000;

/// Milliseconds until a file is ready.
const WORK: i64 = 700;

pub(crate) const PROPERTIES: &[Property] = &[
    Property::of(REPORT_EXPORTS, "state", |ctx, export, _| {
        Ok(json!(if ready(ctx, export) { "done" } else { "processing" }))
    }),
    Property::of(REPORT_EXPORTS, "fileURL", |ctx, export, _| url(ctx, export)),
    Property::of(REPORT_EXPORTS, "finishedAt", |ctx, export, _| {
        Ok(if ready(ctx, export) { json!(text(export, "finishes_at")) } else { Value::Null })
    }),
    Property::of(REPORT_EXPORTS, "requestedBy", |_, export, _| Ok(link("user", text(export, "requested_by")))),
    Property::of(REPORT_EXPORTS, "report", |_, export, _| {
        Ok(link(text(export, "report_kind"), text(export, "report_id")))
    }),
    Property::of(&["AutomationJobsExport"], "status", |ctx, export, _| {
        Ok(json!(if ready(ctx, export) { "finished" } else { "processing" }))
    }),
    Property::of(&["AutomationJobsExport"], "fileUrl", |ctx, export, _| url(ctx, export)),
];

fn ready(ctx: &Ctx<'_>, export: &Value) -> bool {
    let started = export.get("started_ms").and_then(Value::as_i64).unwrap_or_default();
    ctx.now.as_millisecond() - started >= WORK
}

fn url(ctx: &Ctx<'_>, export: &Value) -> Answer {
    if !ready(ctx, export) {
        return Ok(Value::Null);
    }
    let key = text(export, "file");
    Ok(json!(storage::signed_url(ctx.store, ctx.base_url, "GET", key, None, storage::DOWNLOAD_LIFE, ctx.now)?))
}

/// An export that the caller asked for.
fn own(ctx: &Ctx<'_>, args: &Args, kind: &str) -> Answer {
    let id = args.need("id")?;
    let export = ctx.get(kind, &id)?.ok_or_else(|| GqlError::not_found("Export", &id))?;
    if text(&export, "requested_by") != ctx.viewer {
        return Err(GqlError::denied());
    }
    Ok(link(kind, &id))
}

/// Stores a file for an organization and gives its object key.
fn file(ctx: &Ctx<'_>, org: &str, name: &str, content_type: &str, bytes: &[u8]) -> Result<String, GqlError> {
    let org = ctx.must("organization", "Organization", org)?;
    let key = format!("orgs/{}/exports/{}/{name}", text(&org, "uuid"), ctx.new_uuid()?);
    ctx.store.put_object(&key, content_type, bytes)?;
    Ok(key)
}

fn start(ctx: &Ctx<'_>, kind: &str, org: &str, file: &str, report: (&str, &str)) -> Answer {
    let id = ctx.new_id(kind)?;
    let until = ctx.now.checked_add(jiff::SignedDuration::from_millis(WORK)).unwrap_or(ctx.now);
    let body = json!({
        "id": id, "started_ms": ctx.now.as_millisecond(), "startedAt": ctx.stamp(), "finishes_at": crate::ctx::stamp(until),
        "requested_by": ctx.viewer, "file": file, "report_kind": report.0, "report_id": report.1,
    });
    ctx.put(kind, &id, &Links::parent(org), body)?;
    Ok(link(kind, &id))
}

/// The columns that the file has: the ones asked for, else those of the report without its dates.
fn chosen<'c>(columns: &'c [Column], asked: &[String], report: &Value) -> Result<Vec<&'c Column>, GqlError> {
    reports::known_columns(columns, asked)?;
    if !asked.is_empty() {
        return Ok(asked.iter().filter_map(|name| columns::named(columns, name)).collect());
    }
    let own = texts_at(report, "fields");
    let own: Vec<&Column> = own.iter().filter_map(|name| columns::named(columns, name)).collect();
    let all = if own.is_empty() { columns.iter().collect() } else { own };
    Ok(all.into_iter().filter(|column| column.kind != "date").collect())
}

/// The rows of a report's file: title line first.
fn table(ctx: &Ctx<'_>, report: &Value, input: &Args) -> Result<Rows, GqlError> {
    let filter = input.get("filter").cloned().unwrap_or_else(|| reports::report_filter(report));
    let (columns, mut cards) = reports::rows(ctx, report, &filter)?;
    columns::check_filter(&columns, &filter)?;
    let shown = chosen(&columns, &input.texts("columns").unwrap_or_default(), report)?;
    let order = input.get("sortBy").or_else(|| report.get("sortBy")).cloned().unwrap_or_default();
    if let Some(column) = columns::named(&columns, text(&order, "field")) {
        cards = sorted(ctx, cards, column, text(&order, "direction") == "desc")?;
    } else if input.get("sortBy").is_some() {
        reports::known_columns(&columns, &[text(&order, "field").to_owned()])?;
    }
    let mut rows = vec![shown.iter().map(|column| column.label.clone()).collect::<Vec<_>>()];
    for card in cards.iter().take(MOST_ROWS) {
        let mut row = Vec::with_capacity(shown.len());
        for column in &shown {
            row.push(column.cell(ctx, card)?.shown.join(", "));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn sorted(ctx: &Ctx<'_>, cards: Vec<Body>, column: &Column, down: bool) -> Result<Vec<Body>, GqlError> {
    let mut keyed = Vec::with_capacity(cards.len());
    for card in cards {
        keyed.push((column.cell(ctx, &card)?.shown.join(", "), card));
    }
    keyed.sort_by(|(a, _), (b, _)| {
        let order = super::records::compare(a, b);
        if down { order.reverse() } else { order }
    });
    Ok(keyed.into_iter().map(|(_, card)| card).collect())
}

fn export_pipe(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (pipe, _) = access::pipe(ctx, &input.need("pipeId")?)?;
    let report = reports::pipe_report(ctx, &input.need("pipeReportId")?, access::Level::reads_all)?;
    if text(&report, "pipe_id") != text(&pipe, "id") {
        return Err(GqlError::not_found("Report", text(&report, "id")));
    }
    let rows = table(ctx, &report, &input)?;
    let org = text(&pipe, "organization_id");
    let key = file(ctx, org, "report.csv", "text/csv; charset=utf-8", &sheet::csv(&rows))?;
    Ok(json!({ "pipeReportExport": start(ctx, PIPE, org, &key, ("pipe_report", text(&report, "id")))? }))
}

/// With a report: its pipes, or the given ones of them. Without: the given pipes, with every column.
fn export_organization(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let org = reports::insider(ctx, &input.need("organizationId")?)?;
    let mut report = match input.text("organizationReportId") {
        Some(id) => (*reports::organization_report(ctx, &id)?).clone(),
        None => json!({ "id": "", "pipe_ids": [], "fields": [], "filter": {} }),
    };
    if let Some(ids) = input.texts("pipeIds").filter(|ids| !ids.is_empty()) {
        let mut pipes = Vec::new();
        for id in ids {
            let (pipe, level) = access::pipe(ctx, &id)?;
            if !level.reads_all() {
                return Err(GqlError::denied());
            }
            pipes.push(text(&pipe, "id").to_owned());
        }
        set(&mut report, "pipe_ids", pipes);
    }
    if texts_at(&report, "pipe_ids").is_empty() {
        return Err(GqlError::invalid("organizationReportId or pipeIds is required"));
    }
    let rows = table(ctx, &report, &input)?;
    let key = file(ctx, text(&org, "id"), "report.csv", "text/csv; charset=utf-8", &sheet::csv(&rows))?;
    let export = start(ctx, ORGANIZATION, text(&org, "id"), &key, ("organization_report", text(&report, "id")))?;
    Ok(json!({ "organizationReportExport": export }))
}

/// The audit trail goes to the caller by e-mail: an entry of the sandbox's outbox with the file.
fn export_audit(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let pipe = access::managed_pipe(ctx, &input.need("pipeUuid")?)?;
    let term = input.text("searchTerm").unwrap_or_default().to_lowercase();
    let mut rows = vec![["Date", "Who", "What", "Card", "Details"].map(str::to_owned).to_vec()];
    for entry in ctx.children("audit", text(&pipe, "id"))? {
        let row = ["at", "who", "what", "card_title", "details"].map(|key| text(&entry, key).to_owned()).to_vec();
        if row.iter().any(|cell| cell.to_lowercase().contains(&term)) {
            rows.push(row);
        }
    }
    let key =
        file(ctx, text(&pipe, "organization_id"), "audit-log.csv", "text/csv; charset=utf-8", &sheet::csv(&rows))?;
    let to = ctx.get("user", &ctx.viewer)?.map(|user| text(&user, "email").to_owned()).unwrap_or_default();
    let id = ctx.new_id("outbox")?;
    let body = json!({
        "id": id, "to": [to], "subject": format!("Audit log of {}", text(&pipe, "name")), "at": ctx.stamp(), "file": key,
        "text": format!("{} entries.", rows.len() - 1),
    });
    ctx.put("outbox", &id, &Links::default(), body)?;
    Ok(json!({ "success": true }))
}

fn export_jobs(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let org = access::managed_organization(ctx, &input.need("organizationId")?)?;
    let (from, to) = super::usage::span(ctx, &input.need("filter")?)?;
    let mut rows = vec![
        ["Job", "Automation", "Automation id", "Pipe", "Card id", "Card", "Status", "Date", "Seconds", "Reason"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let mut runs = Vec::new();
    for rule in ctx.children("automation", text(&org, "id"))? {
        let pipe = ctx.get("pipe", text(&rule, "event_repo_id"))?.map(|p| text(&p, "name").to_owned());
        for log in ctx.children("automation_log", text(&rule, "id"))? {
            if parse_time(text(&log, "datetime")).is_some_and(|at| from <= at && at <= to) {
                runs.push((pipe.clone().unwrap_or_default(), log));
            }
        }
    }
    runs.sort_by(|(_, a), (_, b)| match text(b, "datetime").cmp(text(a, "datetime")) {
        Ordering::Equal => text(a, "uuid").cmp(text(b, "uuid")),
        order => order,
    });
    for (pipe, log) in runs.iter().take(MOST_ROWS) {
        let seconds = log.get("duration").and_then(Value::as_f64).map(|s| format!("{s:.1}")).unwrap_or_default();
        let mut row = ["uuid", "automationName", "automationId"].map(|key| text(log, key).to_owned()).to_vec();
        row.push(pipe.clone());
        row.extend(["cardId", "cardTitle", "status", "datetime"].map(|key| text(log, key).to_owned()));
        row.push(seconds);
        row.push(text(log, "error").to_owned());
        rows.push(row);
    }
    let key =
        file(ctx, text(&org, "id"), "automation-jobs.xlsx", sheet::XLSX, &sheet::xlsx("Automation jobs", &rows)?)?;
    Ok(json!({ "automationJobsExport": start(ctx, JOBS, text(&org, "id"), &key, ("", ""))? }))
}
