//! The pages for people: `/` shows organizations and pipes as boards, `/open-cards/ID` one card, both live.
//!
//! They only read, and only on loopback. They show what one of the documented people may see: the administrator, or
//! `?as=member`, `?as=guest`.

mod html;

use crate::access::{self, Level};
use crate::ctx::{Body, Ctx, day, parse_time};
use crate::domains::{cards, phases};
use crate::engine;
use crate::error::GqlError;
use crate::json::{flag, text, texts_at};
use crate::oauth;
use crate::object::Endpoint;
use crate::people::{ADMIN, GUEST, MEMBER, Person};
use crate::server::{App, with_store};
use crate::values;
use axum::Router;
use axum::extract::{Path, Query, State as Shared};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use html::Html;
use http::{StatusCode, header};
use serde_json::Value;
use std::collections::HashMap;
use std::convert::Infallible;

/// Cards that one column shows.
const COLUMN: usize = 50;
/// Entries of the activity list.
const ACTIVITY: usize = 40;

/// The pages, their style and script, and the stream that says when to look again.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(board))
        .route("/open-cards/{id}", get(card))
        .route("/board.css", get(|| async { asset("text/css; charset=utf-8", include_str!("board.css")) }))
        .route("/board.js", get(|| async { asset("text/javascript; charset=utf-8", include_str!("board.js")) }))
        .route("/board/changes", get(changes))
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}

/// A message whenever something was written.
async fn changes(Shared(state): Shared<App>) -> Response {
    if !state.loopback {
        return elsewhere();
    }
    let seen = state.changes.subscribe();
    let stream = futures_util::stream::unfold(seen, |mut seen| async move {
        seen.changed().await.ok()?;
        let count = *seen.borrow_and_update();
        Some((Ok::<_, Infallible>(Event::default().data(count.to_string())), seen))
    });
    Sse::new(stream).keep_alive(KeepAlive::default()).into_response()
}

fn elsewhere() -> Response {
    (StatusCode::FORBIDDEN, "The pages are served on loopback only.\n").into_response()
}

type Asked = Query<HashMap<String, String>>;

async fn board(Shared(state): Shared<App>, Query(query): Asked) -> Response {
    let pipe = query.get("pipe").cloned();
    page(state, &query, move |ctx, who| board_page(ctx, who, pipe.as_deref())).await
}

async fn card(Shared(state): Shared<App>, Path(id): Path<String>, Query(query): Asked) -> Response {
    page(state, &query, move |ctx, who| card_page(ctx, who, &id)).await
}

/// Who is looking.
struct Viewer {
    person: Person,
    /// Value of `as`; empty for the administrator.
    key: &'static str,
}

impl Viewer {
    fn named(key: &str) -> Self {
        match key {
            "member" => Self { person: MEMBER, key: "member" },
            "guest" => Self { person: GUEST, key: "guest" },
            _ => Self { person: ADMIN, key: "" },
        }
    }

    /// A link inside the pages that keeps the viewer.
    fn href(&self, path: &str, query: &str) -> String {
        let mut out = path.to_owned();
        let parts: Vec<String> =
            [query.to_owned(), if self.key.is_empty() { String::new() } else { format!("as={}", self.key) }]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect();
        if !parts.is_empty() {
            out.push('?');
            out.push_str(&parts.join("&"));
        }
        out
    }
}

/// The mark beside the name: a board with three columns.
const MARK: &str = "<svg viewBox=\"0 0 24 24\" aria-hidden=\"true\"><rect width=\"24\" height=\"24\" rx=\"6\"/><path d=\"M6 6v12M12 6v8\
                    M18 6v5\"/></svg>";

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

async fn page(
    state: App,
    query: &HashMap<String, String>,
    work: impl FnOnce(&Ctx<'_>, &Viewer) -> Result<Html, GqlError> + Send + 'static,
) -> Response {
    if !state.loopback {
        return elsewhere();
    }
    let who = Viewer::named(query.get("as").map(String::as_str).unwrap_or_default());
    let made = with_store(&state, move |state, store| {
        let user = oauth::user_of(store, who.person.token, jiff::Timestamp::now())?.unwrap_or_default();
        let ctx = Ctx::new(store, engine::schema(Endpoint::Public)?, user, &state.url);
        work(&ctx, &who)
    })
    .await;
    let (status, html) = match made {
        Ok(Ok(html)) => (StatusCode::OK, html.0),
        Ok(Err(error)) => {
            let status = match error.code {
                Some("RESOURCE_NOT_FOUND") => StatusCode::NOT_FOUND,
                Some("PERMISSION_DENIED") => StatusCode::FORBIDDEN,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            let mut main = Html::default();
            main.open("p", "empty").text(&error.message).close("p");
            main.raw("<p class=\"empty\"><a href=\"/\">Back to the boards</a></p>");
            (status, html::document("Pipefy sandbox", &main).0)
        }
        Err(response) => return response,
    };
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, html).into_response()
}

/// `3 min ago`, `2 h ago`, `5 d ago`.
fn ago(ctx: &Ctx<'_>, at: &str) -> String {
    let Some(at) = parse_time(at) else { return String::new() };
    let seconds = ctx.now.as_second() - at.as_second();
    match seconds {
        ..60 => "just now".to_owned(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

fn lasted(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn name_of(ctx: &Ctx<'_>, kind: &str, id: &str) -> Result<String, GqlError> {
    Ok(ctx.get(kind, id)?.map(|body| text(&body, "name").to_owned()).unwrap_or_default())
}

/// An organization's name, and the pipes that the viewer sees in it.
type OrgPipes = (String, Vec<(Body, Level)>);

fn pipes_seen(ctx: &Ctx<'_>) -> Result<Vec<OrgPipes>, GqlError> {
    let mut out = Vec::new();
    for org in ctx.all("organization")? {
        let mut pipes = Vec::new();
        for pipe in ctx.children("pipe", text(&org, "id"))? {
            let level = access::pipe_level(ctx, &pipe)?;
            if level != Level::None {
                pipes.push((pipe, level));
            }
        }
        if access::is_org_member(ctx, text(&org, "id"))? || !pipes.is_empty() {
            out.push((text(&org, "name").to_owned(), pipes));
        }
    }
    Ok(out)
}

fn board_page(ctx: &Ctx<'_>, who: &Viewer, pipe: Option<&str>) -> Result<Html, GqlError> {
    let orgs = pipes_seen(ctx)?;
    let shown = match pipe {
        Some(key) => Some(access::pipe(ctx, key)?),
        None => orgs.iter().flat_map(|(_, pipes)| pipes).next().cloned(),
    };
    let current = shown.as_ref().map(|(pipe, _)| text(pipe, "id").to_owned()).unwrap_or_default();
    let mut main = Html::default();
    main.raw("<div class=\"frame\">");
    sidebar(&mut main, who, &orgs, &current);
    main.raw("<main id=\"live\">");
    let title = match shown {
        Some((pipe, level)) => {
            columns(&mut main, ctx, who, &pipe, level)?;
            activity(&mut main, ctx, who, &pipe, level)?;
            text(&pipe, "name").to_owned()
        }
        None => {
            main.raw("<p class=\"empty\">There is no pipe to see yet. Create one: <code>pipefy pipe create</code></p>");
            "Boards".to_owned()
        }
    };
    main.raw("</main></div>");
    Ok(html::document(&format!("{title} - Pipefy sandbox"), &main))
}

fn sidebar(out: &mut Html, who: &Viewer, orgs: &[OrgPipes], current: &str) {
    out.raw("<nav class=\"side\"><a class=\"brand\" href=\"").text(&who.href("/", "")).raw("\">").raw(MARK);
    out.raw("Pipefy sandbox</a>");
    for (org, pipes) in orgs {
        out.open("h2", "").text(org).close("h2");
        out.raw("<ul>");
        for (pipe, _) in pipes {
            let id = text(pipe, "id");
            out.raw("<li><a ").raw(if id == current { "class=\"here\" " } else { "" }).raw("href=\"");
            out.text(&who.href("/", &format!("pipe={id}"))).raw("\">").text(text(pipe, "name")).raw("</a></li>");
        }
        out.raw("</ul>");
    }
    out.raw("<h2>Looking as</h2><ul>");
    for (key, label) in [("", "administrator"), ("member", "member"), ("guest", "guest")] {
        let other = Viewer::named(key);
        let query = if current.is_empty() { String::new() } else { format!("pipe={current}") };
        out.raw("<li><a ").raw(if other.key == who.key { "class=\"here\" " } else { "" }).raw("href=\"");
        out.text(&other.href("/", &query)).raw("\">").text(other.person.name).raw(" <small>").text(label);
        out.raw("</small></a></li>");
    }
    out.raw("</ul><p class=\"hint\">This page follows what happens. It shows, it changes nothing.</p></nav>");
}

fn columns(out: &mut Html, ctx: &Ctx<'_>, who: &Viewer, pipe: &Body, level: Level) -> Result<(), GqlError> {
    let id = text(pipe, "id");
    let all: Vec<Body> =
        ctx.children("card", id)?.into_iter().filter(|card| access::sees_card(ctx, level, card)).collect();
    let late = |card: &Body, phase: &Body| cards::is_late(ctx, card, phase);
    out.raw("<header class=\"top\"><h1>").text(text(pipe, "name")).raw("</h1><p>");
    out.text(text(pipe, "description")).raw("</p><p class=\"facts\"><code>").text(id).raw("</code> ");
    out.text(&format!("{} cards", all.len()))
        .raw(" <span id=\"pulse\" hidden>live</span></p></header><section class=\"board\">");
    for phase in phases::visible(ctx, id)? {
        let mut here: Vec<&Body> = all.iter().filter(|card| text(card, "phase_id") == text(&phase, "id")).collect();
        here.sort_by(|a, b| text(b, "started_current_phase_at").cmp(text(a, "started_current_phase_at")));
        let late_here = here.iter().filter(|card| late(card, &phase)).count();
        out.raw("<section class=\"column\"><h2>").text(text(&phase, "name"));
        out.raw(if flag(&phase, "done") { " <span class=\"tag done\">done</span>" } else { "" });
        out.raw(" <span class=\"count\">").text(&here.len().to_string()).raw("</span>");
        if late_here > 0 {
            out.raw("<span class=\"tag late\">").text(&format!("{late_here} late")).raw("</span>");
        }
        out.raw("</h2><div class=\"cards\">");
        for card in here.iter().take(COLUMN) {
            card_tile(out, ctx, who, card, late(card, &phase))?;
        }
        if here.len() > COLUMN {
            out.raw("<p class=\"more\">").text(&format!("and {} more", here.len() - COLUMN)).raw("</p>");
        }
        if here.is_empty() {
            out.raw("<p class=\"more\">No cards</p>");
        }
        out.raw("</div></section>");
    }
    out.raw("</section>");
    Ok(())
}

fn card_tile(out: &mut Html, ctx: &Ctx<'_>, who: &Viewer, card: &Body, late: bool) -> Result<(), GqlError> {
    let id = text(card, "id");
    out.raw("<a class=\"card\" data-card=\"").text(id).raw("\" data-stamp=\"");
    out.text(&format!("{} {}", text(card, "updated_at"), text(card, "phase_id"))).raw("\" href=\"");
    out.text(&who.href(&format!("/open-cards/{id}"), "")).raw("\">");
    labels(out, ctx, card)?;
    out.raw("<strong>").text(text(card, "title")).raw("</strong>");
    for entry in values::entries(ctx, card, text(card, "pipe_id"))?.iter().skip(1).take(2) {
        out.raw("<span class=\"line\"><em>").text(text(entry, "name")).raw("</em> ");
        out.text(&words(entry).chars().take(60).collect::<String>()).raw("</span>");
    }
    out.raw("<span class=\"foot\">");
    for user in texts_at(card, "assignee_ids") {
        person(out, &name_of(ctx, "user", &user)?);
    }
    out.raw("<small>").text(&ago(ctx, text(card, "started_current_phase_at"))).raw("</small>");
    out.raw(if late { "<span class=\"tag late\">late</span>" } else { "" });
    out.raw(if cards::is_overdue(ctx, card) { "<span class=\"tag late\">overdue</span>" } else { "" });
    out.raw("</span></a>");
    Ok(())
}

/// Classes that colour people.
const HUES: [&str; 6] = ["h0", "h1", "h2", "h3", "h4", "h5"];

/// Initials with the whole name as a tip.
fn person(out: &mut Html, name: &str) {
    let initials: String = name.split_whitespace().filter_map(|word| word.chars().next()).take(2).collect();
    // A person has one colour everywhere. Colours are classes, because the page's policy allows no inline style.
    let hue = name.bytes().fold(7_usize, |sum, byte| (sum * 131 + usize::from(byte)) % 9_973) / 16 % HUES.len();
    out.raw("<span class=\"who ").raw(HUES.get(hue).copied().unwrap_or_default()).raw("\" title=\"").text(name);
    out.raw("\">").text(&initials).raw("</span>");
}

fn labels(out: &mut Html, ctx: &Ctx<'_>, card: &Value) -> Result<(), GqlError> {
    let ids = texts_at(card, "label_ids");
    if ids.is_empty() {
        return Ok(());
    }
    out.raw("<span class=\"labels\">");
    for id in ids {
        let Some(label) = ctx.get("label", &id)? else { continue };
        out.raw("<span class=\"label\"><svg viewBox=\"0 0 8 8\" aria-hidden=\"true\"><circle cx=\"4\" cy=\"4\" r=\"4\" fill=\"");
        out.text(html::color(text(&label, "color"))).raw("\"/></svg>").text(text(&label, "name")).raw("</span>");
    }
    out.raw("</span>");
    Ok(())
}

/// A field's value for people: lists without brackets, files by name.
fn words(entry: &Value) -> String {
    let value = text(entry, "value");
    match serde_json::from_str::<Vec<String>>(value) {
        Ok(list) => list.iter().map(|item| file_name(item)).collect::<Vec<_>>().join(", "),
        Err(_) => value.to_owned(),
    }
}

fn file_name(item: &str) -> String {
    if !item.contains("/orgs/") {
        return item.to_owned();
    }
    let path = item.split('?').next().unwrap_or(item);
    let name = path.rsplit('/').next().unwrap_or(path);
    percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned()
}

fn activity(out: &mut Html, ctx: &Ctx<'_>, who: &Viewer, pipe: &Body, level: Level) -> Result<(), GqlError> {
    out.raw("<aside class=\"activity\"><h2>Activity</h2>");
    let trail = if level.reads_all() { ctx.children("audit", text(pipe, "id"))? } else { Vec::new() };
    entries(out, ctx, Some(who), &trail);
    out.raw("</aside>");
    Ok(())
}

/// The newest entries of an audit trail; with a viewer also the cards.
fn entries(out: &mut Html, ctx: &Ctx<'_>, who: Option<&Viewer>, trail: &[Body]) {
    if trail.is_empty() {
        out.raw(
            "<p class=\"quiet\">Nothing has happened yet. What people, agents and automations do shows up here as they do \
             it.</p>",
        );
        return;
    }
    out.raw("<ol>");
    for entry in trail.iter().rev().take(ACTIVITY) {
        let by = text(entry, "who");
        let kind = match by {
            by if by.starts_with("AI agent:") => "agent",
            by if by.starts_with("Automation:") => "rule",
            "Clock" => "clock",
            _ => "human",
        };
        out.raw("<li class=\"").raw(kind).raw("\"><b>").text(by).raw("</b> ").text(text(entry, "what")).raw(" ");
        if let Some(who) = who {
            let href = who.href(&format!("/open-cards/{}", text(entry, "card_id")), "");
            out.raw("<a href=\"").text(&href).raw("\">").text(text(entry, "card_title")).raw("</a>");
        }
        if !text(entry, "details").is_empty() {
            out.raw("<span class=\"detail\">").text(text(entry, "details")).raw("</span>");
        }
        out.raw("<small>").text(&ago(ctx, text(entry, "at"))).raw("</small></li>");
    }
    out.raw("</ol>");
}

fn fact(out: &mut Html, name: &str, value: &str) {
    if !value.is_empty() {
        out.raw("<dt>").text(name).raw("</dt><dd>").text(value).raw("</dd>");
    }
}

fn card_page(ctx: &Ctx<'_>, who: &Viewer, id: &str) -> Result<Html, GqlError> {
    let (card, pipe, level) = access::card(ctx, id)?;
    let id = text(&card, "id").to_owned();
    let phase = ctx.must("phase", "Phase", text(&card, "phase_id"))?;
    let mut out = Html::default();
    out.raw("<div class=\"frame\">");
    sidebar(&mut out, who, &pipes_seen(ctx)?, text(&pipe, "id"));
    out.raw("<main id=\"live\" class=\"one\"><header class=\"top\"><p class=\"crumb\"><a href=\"");
    out.text(&who.href("/", &format!("pipe={}", text(&pipe, "id"))))
        .raw("\">")
        .text(text(&pipe, "name"))
        .raw("</a> / ");
    out.text(text(&phase, "name")).raw("</p><h1>").text(text(&card, "title")).raw("</h1>");
    labels(&mut out, ctx, &card)?;
    out.raw("<p class=\"facts\"><code>").text(&id).raw("</code>");
    out.raw(if cards::is_late(ctx, &card, &phase) { " <span class=\"tag late\">late</span>" } else { "" });
    out.raw(if cards::is_overdue(ctx, &card) { " <span class=\"tag late\">overdue</span>" } else { "" });
    out.raw(if text(&card, "finished_at").is_empty() { "" } else { " <span class=\"tag done\">done</span>" });
    out.raw(" <span id=\"pulse\" hidden>live</span></p></header><div class=\"sheet\"><section>");
    steps(&mut out, ctx, &card, &pipe)?;
    fields(&mut out, ctx, &card, &pipe)?;
    connections(&mut out, ctx, who, &id)?;
    comments(&mut out, ctx, &id)?;
    mails(&mut out, ctx, &id)?;
    out.raw("</section><aside class=\"activity\"><h2>About</h2><dl>");
    fact(&mut out, "Created by", &name_of(ctx, "user", text(&card, "created_by"))?);
    fact(&mut out, "Created", &ago(ctx, text(&card, "created_at")));
    fact(&mut out, "Changed", &ago(ctx, text(&card, "updated_at")));
    fact(&mut out, "Due", &parse_time(text(&card, "due_date")).map(|at| day(at).to_string()).unwrap_or_default());
    let mut people = Vec::new();
    for user in texts_at(&card, "assignee_ids") {
        people.push(name_of(ctx, "user", &user)?);
    }
    fact(&mut out, "Assigned to", &people.join(", "));
    out.raw("</dl>");
    history(&mut out, ctx, &card)?;
    out.raw("<h2>Activity</h2>");
    let trail = if level.reads_all() { ctx.grouped("audit", &id)? } else { Vec::new() };
    entries(&mut out, ctx, None, &trail);
    out.raw("</aside></div></main></div>");
    Ok(html::document(&format!("{} - Pipefy sandbox", text(&card, "title")), &out))
}

/// The phases as a line, with the card's place in it.
fn steps(out: &mut Html, ctx: &Ctx<'_>, card: &Value, pipe: &Value) -> Result<(), GqlError> {
    out.raw("<ol class=\"steps\">");
    for phase in phases::visible(ctx, text(pipe, "id"))? {
        let here = text(card, "phase_id") == text(&phase, "id");
        let been = card
            .get("history")
            .and_then(Value::as_array)
            .is_some_and(|rows| rows.iter().any(|row| text(row, "phase_id") == text(&phase, "id")));
        out.raw("<li class=\"")
            .raw(if here {
                "here"
            } else if been {
                "been"
            } else {
                ""
            })
            .raw("\">");
        out.text(text(&phase, "name")).raw("</li>");
    }
    out.raw("</ol>");
    Ok(())
}

/// The filled fields by the place where they are filled in.
fn fields(out: &mut Html, ctx: &Ctx<'_>, card: &Value, pipe: &Value) -> Result<(), GqlError> {
    let mut places = vec![("Start form".to_owned(), text(pipe, "startFormPhaseId").to_owned())];
    for phase in phases::visible(ctx, text(pipe, "id"))? {
        places.push((text(&phase, "name").to_owned(), text(&phase, "id").to_owned()));
    }
    for (name, place) in places {
        let mut rows = Html::default();
        for field in ctx.children("field", &place)? {
            let Some(entry) = values::entry(ctx, card, &field)? else { continue };
            rows.raw("<dt>").text(text(&field, "label")).raw("</dt><dd>");
            value(&mut rows, &field, &entry);
            rows.raw("</dd>");
        }
        if !rows.0.is_empty() {
            out.raw("<h2>").text(&name).raw("</h2><dl class=\"fields\">").raw(&rows.0).raw("</dl>");
        }
    }
    Ok(())
}

/// Files are links into the sandbox's own storage; everything else is text.
fn value(out: &mut Html, field: &Value, entry: &Value) {
    if text(field, "type") != "attachment" {
        out.text(&words(entry));
        return;
    }
    let urls: Vec<String> = serde_json::from_str(text(entry, "value")).unwrap_or_default();
    for url in urls {
        // The path alone: the page and its files have one origin.
        let path = url.find("/orgs/").and_then(|at| url.get(at..)).unwrap_or_default();
        out.raw("<a class=\"file\" href=\"").text(path).raw("\">").text(&file_name(&url)).raw("</a> ");
    }
}

fn connections(out: &mut Html, ctx: &Ctx<'_>, who: &Viewer, id: &str) -> Result<(), GqlError> {
    let mut rows = Html::default();
    let up = ctx.grouped("card_relation", id)?.into_iter().map(|row| ("parent", text(&row, "parentId").to_owned()));
    let down = ctx.children("card_relation", id)?.into_iter().map(|row| ("child", text(&row, "childId").to_owned()));
    for (kind, other) in up.chain(down).collect::<Vec<_>>() {
        // Only what the viewer may see.
        let Ok((other, pipe, _)) = access::card(ctx, &other) else { continue };
        rows.raw("<li><span class=\"tag\">").raw(kind).raw("</span> <a href=\"");
        rows.text(&who.href(&format!("/open-cards/{}", text(&other, "id")), "")).raw("\">").text(text(&other, "title"));
        rows.raw("</a><small>").text(text(&pipe, "name")).raw("</small></li>");
    }
    if !rows.0.is_empty() {
        out.raw("<h2>Connections</h2><ul class=\"plain\">").raw(&rows.0).raw("</ul>");
    }
    Ok(())
}

fn comments(out: &mut Html, ctx: &Ctx<'_>, id: &str) -> Result<(), GqlError> {
    let rows = ctx.children("comment", id)?;
    out.raw("<h2>Comments <span class=\"count\">").text(&rows.len().to_string()).raw("</span></h2>");
    out.raw(if rows.is_empty() { "<p class=\"quiet\">No comments yet.</p>" } else { "" });
    for comment in rows {
        out.raw("<article class=\"comment\">");
        person(out, text(&comment, "author_name"));
        out.raw("<div><b>").text(text(&comment, "author_name")).raw("</b> <small>");
        out.text(&ago(ctx, text(&comment, "created_at"))).raw("</small><p>").text(text(&comment, "text"));
        out.raw("</p></div></article>");
    }
    Ok(())
}

fn mails(out: &mut Html, ctx: &Ctx<'_>, id: &str) -> Result<(), GqlError> {
    let rows = ctx.children("inbox_email", id)?;
    if rows.is_empty() {
        return Ok(());
    }
    out.raw("<h2>E-mails <span class=\"count\">").text(&rows.len().to_string()).raw("</span></h2>");
    for mail in rows {
        out.raw("<article class=\"comment\"><span class=\"tag\">").text(text(&mail, "type")).raw("</span><div><b>");
        out.text(text(&mail, "subject"))
            .raw("</b> <small>")
            .text(&ago(ctx, text(&mail, "created_at")))
            .raw("</small><p>");
        let body = [text(&mail, "clean_text"), text(&mail, "body")].into_iter().find(|t| !t.is_empty());
        out.text(&format!("{} -> {}", text(&mail, "from"), texts_at(&mail, "to").join(", "))).raw("</p><p>");
        out.text(body.unwrap_or_default()).raw("</p></div></article>");
    }
    Ok(())
}

fn history(out: &mut Html, ctx: &Ctx<'_>, card: &Value) -> Result<(), GqlError> {
    out.raw("<h2>History</h2><ol>");
    for row in card.get("history").and_then(Value::as_array).into_iter().flatten() {
        let seconds = row.get("duration").and_then(Value::as_i64).unwrap_or_default();
        let open = text(row, "lastTimeOut").is_empty();
        out.raw("<li><b>").text(&name_of(ctx, "phase", text(row, "phase_id"))?).raw("</b> ");
        out.text(&if open { format!("since {}", ago(ctx, text(row, "lastTimeIn"))) } else { lasted(seconds) });
        out.raw(if flag(row, "became_late") { " <span class=\"tag late\">late</span>" } else { "" }).raw("</li>");
    }
    out.raw("</ol>");
    Ok(())
}
