//! A small iPaaS beside the sandbox: the gateway's REST, OAuth and MCP paths, two pieces, and their connections.
//!
//! `@sandbox/piece-notes` takes a token and keeps notes; `@sandbox/piece-calendar` connects over OAuth and lists events
//! that never change. Nothing outside of the sandbox is reached.

use crate::access;
use crate::ctx::{Answer, Args, Ctx, parse_time, stamp};
use crate::error::GqlError;
use crate::json::{set, text};
use crate::oauth::{fingerprint, new_secret};
use crate::object::Root;
use crate::server::{App, answer_faults, finish, form_fields, header, note_plain, with_store};
use crate::store::{By, Links, Store};
use axum::Router;
use axum::extract::{Path, Query, State as Shared};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The root field that opens a pipe's workspace.
pub(crate) const ROOTS: &[Root] = &[Root::internal("advancedAutomationsToken", token)];

const NOTES: &str = "@sandbox/piece-notes";
const CALENDAR: &str = "@sandbox/piece-calendar";

/// Seconds that a token or code is good for.
const LIFE: i64 = 600;

/// Only administrators of a pipe have its workspace.
fn token(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let pipe = access::managed_pipe(ctx, &args.need("repoId")?)?;
    let token = grant(ctx.store, "ipaas_pipe_token", json!({ "project": text(&pipe, "id") }), ctx.now)?;
    Ok(json!({ "token": token }))
}

/// Stores what a fresh secret opens.
fn grant(store: &Store, kind: &str, mut body: Value, now: Timestamp) -> Result<String, GqlError> {
    let secret = new_secret();
    let until = now.checked_add(SignedDuration::from_secs(LIFE)).unwrap_or(now);
    set(&mut body, "until", stamp(until));
    store.put(kind, &fingerprint(&secret), &Links::default(), &body)?;
    Ok(secret)
}

/// What a secret opens, when it is known and fresh.
fn opened(store: &Store, kind: &str, secret: &str, now: Timestamp) -> Option<Value> {
    let body = store.get(kind, &fingerprint(secret)).ok().flatten()?;
    parse_time(text(&body, "until")).is_some_and(|until| now < until).then_some(body)
}

/// The routes of the gateway. They sit at the root, where the toolkit's `--sandbox` points its iPaaS setting.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/api/v1/managed-authn/external-token", post(session))
        .route("/authorize", get(authorize))
        .route("/api/v1/mcp-oauth/approve", post(approve))
        .route("/token", post(exchange))
        .route("/mcp", post(mcp))
        .route("/api/v1/pieces/{*name}", get(piece))
        .route("/api/v1/oauth-apps", get(oauth_apps))
        .route("/api/v1/app-connections/oauth2/authorization-url", post(authorization_url))
        .route("/api/v1/app-connections", post(connect))
}

type Reply = (StatusCode, Value);

fn refuse(status: StatusCode, message: &str) -> Reply {
    (status, json!({ "statusCode": status.as_u16(), "message": message }))
}

/// Notes the request, lets faults strike, and answers with what the store says.
async fn served(
    state: App,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    work: impl FnOnce(&Store, Timestamp) -> Result<Reply, GqlError> + Send + 'static,
) -> Response {
    let number = note_plain(&state, method.as_str(), uri.path(), &headers);
    if let Some(response) = answer_faults(&state, "ipaas").await {
        return finish(&state, number, response);
    }
    let done = with_store(&state, move |_, store| store.atomic(|| work(store, Timestamp::now()))).await;
    let response = match done {
        Ok(Ok((status, body))) => (status, axum::Json(body)).into_response(),
        Ok(Err(error)) => {
            let (status, body) = refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.message);
            (status, axum::Json(body)).into_response()
        }
        Err(response) => response,
    };
    finish(&state, number, response)
}

fn parsed(body: &Bytes) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}

fn bearer(headers: &HeaderMap) -> String {
    header(headers, &http::header::AUTHORIZATION).strip_prefix("Bearer ").unwrap_or_default().trim().to_owned()
}

async fn session(Shared(state): Shared<App>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    served(state, method, uri, headers, move |store, now| {
        let given = text(&parsed(&body), "externalAccessToken").to_owned();
        let Some(grant_of_pipe) = opened(store, "ipaas_pipe_token", &given, now) else {
            return Ok(refuse(StatusCode::UNAUTHORIZED, "The external access token is unknown or expired"));
        };
        let project = json!({ "project": text(&grant_of_pipe, "project") });
        let token = grant(store, "ipaas_session", project.clone(), now)?;
        Ok((StatusCode::CREATED, json!({ "token": token, "projectId": text(&project, "project") })))
    })
    .await
}

/// Starts the headless code flow. The redirect names the request; nobody follows it.
async fn authorize(
    Shared(state): Shared<App>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let number = note_plain(&state, method.as_str(), uri.path(), &headers);
    if let Some(response) = answer_faults(&state, "ipaas").await {
        return finish(&state, number, response);
    }
    let value = |key: &str| query.get(key).map(String::as_str).unwrap_or_default().to_owned();
    let whole = value("response_type") == "code" && value("code_challenge_method") == "S256";
    let fields = ["client_id", "redirect_uri", "code_challenge"].map(|key| (key, value(key)));
    if !whole || fields.iter().any(|(_, value)| value.is_empty()) {
        let (status, body) = refuse(StatusCode::BAD_REQUEST, "The authorization request is incomplete");
        return finish(&state, number, (status, axum::Json(body)).into_response());
    }
    let made = with_store(&state, move |_, store| {
        let body: Value = fields.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        grant(store, "ipaas_request", body, Timestamp::now())
    })
    .await;
    let response = match made {
        Ok(Ok(id)) => {
            let to = format!("{}/consent?authRequestId={id}", state.url);
            (StatusCode::FOUND, [(http::header::LOCATION, to)]).into_response()
        }
        Ok(Err(_)) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Err(response) => response,
    };
    finish(&state, number, response)
}

async fn approve(Shared(state): Shared<App>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let token = bearer(&headers);
    served(state, method, uri, headers, move |store, now| {
        let Some(session) = opened(store, "ipaas_session", &token, now) else {
            return Ok(refuse(StatusCode::UNAUTHORIZED, "The session token is unknown or expired"));
        };
        let body = parsed(&body);
        let Some(mut request) = opened(store, "ipaas_request", text(&body, "authRequestId"), now) else {
            return Ok(refuse(StatusCode::NOT_FOUND, "The authorization request is unknown or expired"));
        };
        if text(&body, "projectId") != text(&session, "project") {
            return Ok(refuse(StatusCode::FORBIDDEN, "The project is another one"));
        }
        set(&mut request, "project", text(&session, "project"));
        let to = text(&request, "redirect_uri").to_owned();
        let code = grant(store, "ipaas_code", request, now)?;
        let joint = if to.contains('?') { '&' } else { '?' };
        Ok((StatusCode::OK, json!({ "redirectUrl": format!("{to}{joint}code={code}") })))
    })
    .await
}

async fn exchange(Shared(state): Shared<App>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    served(state, method, uri, headers, move |store, now| {
        let form = form_fields(&body);
        let field = |name: &str| form.iter().find(|(key, _)| key == name).map(|(_, v)| v.as_str()).unwrap_or_default();
        let refused = |error: &str| Ok((StatusCode::BAD_REQUEST, json!({ "error": error })));
        if field("grant_type") != "authorization_code" {
            return refused("unsupported_grant_type");
        }
        let Some(code) = opened(store, "ipaas_code", field("code"), now) else { return refused("invalid_grant") };
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, field("code_verifier").as_bytes());
        let fits = URL_SAFE_NO_PAD.encode(digest.as_ref()) == text(&code, "code_challenge")
            && field("client_id") == text(&code, "client_id")
            && field("redirect_uri") == text(&code, "redirect_uri");
        // A code works once, also when it was used wrongly.
        store.delete("ipaas_code", &fingerprint(field("code")))?;
        if !fits {
            return refused("invalid_grant");
        }
        let token = grant(store, "ipaas_access", json!({ "project": text(&code, "project") }), now)?;
        Ok((StatusCode::OK, json!({ "access_token": token, "token_type": "Bearer", "expires_in": LIFE })))
    })
    .await
}

async fn mcp(Shared(state): Shared<App>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let token = bearer(&headers);
    served(state, method, uri, headers, move |store, now| {
        let Some(access) = opened(store, "ipaas_access", &token, now) else {
            return Ok(refuse(StatusCode::UNAUTHORIZED, "The access token is unknown or expired"));
        };
        let request = parsed(&body);
        let params = request.get("params").cloned().unwrap_or_default();
        let result = match text(&request, "method") {
            "initialize" => Ok(json!({
                "protocolVersion": "2025-03-26", "capabilities": { "tools": {} },
                "serverInfo": { "name": "pipefy-sandbox-ipaas", "version": "1" },
            })),
            "tools/list" => Ok(json!({ "tools": tools() })),
            "tools/call" => call(store, text(&access, "project"), &params, now)?,
            other => Err((-32601, format!("Unknown method {other:?}"))),
        };
        let mut answer = json!({ "jsonrpc": "2.0", "id": request.get("id") });
        match result {
            Ok(result) => set(&mut answer, "result", result),
            Err((code, message)) => set(&mut answer, "error", json!({ "code": code, "message": message })),
        }
        Ok((StatusCode::OK, answer))
    })
    .await
}

fn tools() -> Value {
    let schema = |properties: Value, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    let text = json!({ "type": "string" });
    json!([
        { "name": "list_pieces", "description": "Lists the pieces of this workspace.", "inputSchema": schema(json!({}), &[]),
          "annotations": { "readOnlyHint": true, "destructiveHint": false } },
        { "name": "list_connections", "description": "Lists the connections of this workspace.", "inputSchema": schema(json!({}), &[]),
          "annotations": { "readOnlyHint": true, "destructiveHint": false } },
        { "name": "delete_connection", "description": "Deletes a connection.", "inputSchema": schema(json!({ "externalId": text }), &["externalId"]),
          "annotations": { "destructiveHint": true } },
        { "name": "notes_add", "description": "Adds a note. Needs a connection of the notes piece.",
          "inputSchema": schema(json!({ "text": text }), &["text"]), "annotations": { "destructiveHint": false } },
        { "name": "notes_list", "description": "Lists the notes. Needs a connection of the notes piece.", "inputSchema": schema(json!({}), &[]),
          "annotations": { "readOnlyHint": true, "destructiveHint": false } },
        { "name": "notes_manage", "description": "Clears or counts the notes, by operation.",
          "inputSchema": schema(json!({ "operation": { "type": "string", "enum": ["COUNT", "DELETE"] } }), &["operation"]) },
        { "name": "calendar_list_events", "description": "Lists the events of the week. Needs a connection of the calendar piece.",
          "inputSchema": schema(json!({}), &[]), "annotations": { "readOnlyHint": true, "destructiveHint": false } },
    ])
}

type Called = Result<Value, (i64, String)>;

/// A failure inside a tool is a result with `isError`; an unknown tool is an error of the protocol.
fn call(store: &Store, project: &str, params: &Value, now: Timestamp) -> Result<Called, GqlError> {
    let arguments = params.get("arguments").cloned().unwrap_or_default();
    let said = |body: Value, failed: bool| {
        Ok(Ok(json!({ "content": [{ "type": "text", "text": body.to_string() }], "isError": failed })))
    };
    let connections = store.list("ipaas_connection", By::Parent, project)?;
    let connected = |piece: &str| connections.iter().any(|(_, c)| text(c, "pieceName") == piece);
    let missing =
        |piece: &str| said(json!({ "error": format!("There is no connection of {piece}; create one first") }), true);
    let notes = store.list("ipaas_note", By::Parent, project)?;
    match text(params, "name") {
        "list_pieces" => said(json!([piece_of(NOTES), piece_of(CALENDAR)]), false),
        "list_connections" => said(json!(connections.iter().map(|(_, c)| shown(c)).collect::<Vec<_>>()), false),
        "delete_connection" => {
            let wanted = text(&arguments, "externalId");
            match connections.iter().find(|(_, c)| text(c, "externalId") == wanted) {
                Some((id, _)) => said(json!({ "deleted": store.delete("ipaas_connection", id)? }), false),
                None => said(json!({ "error": format!("There is no connection {wanted:?}") }), true),
            }
        }
        "notes_add" | "notes_list" | "notes_manage" if !connected(NOTES) => missing(NOTES),
        "notes_add" => {
            let note = text(&arguments, "text");
            if note.trim().is_empty() {
                return said(json!({ "error": "text is required" }), true);
            }
            let id = store.next_id("ipaas_note")?;
            let body = json!({ "id": id, "text": note, "createdAt": stamp(now) });
            store.put("ipaas_note", &id, &Links::parent(project), &body)?;
            said(body, false)
        }
        "notes_list" => said(json!(notes.iter().map(|(_, note)| note).collect::<Vec<_>>()), false),
        "notes_manage" => match text(&arguments, "operation") {
            "COUNT" => said(json!({ "count": notes.len() }), false),
            "DELETE" => {
                for (id, _) in &notes {
                    store.delete("ipaas_note", id)?;
                }
                said(json!({ "deleted": notes.len() }), false)
            }
            other => said(json!({ "error": format!("Unknown operation {other:?}") }), true),
        },
        "calendar_list_events" if !connected(CALENDAR) => missing(CALENDAR),
        "calendar_list_events" => said(json!([{ "title": "Team meeting", "day": "Monday", "time": "10:00" }]), false),
        other => Ok(Err((-32602, format!("Unknown tool {other:?}")))),
    }
}

fn piece_of(name: &str) -> Value {
    match name {
        NOTES => json!({
            "name": NOTES, "displayName": "Sandbox notes", "version": "1.0.0",
            "auth": { "type": "SECRET_TEXT", "displayName": "Token", "required": true },
        }),
        CALENDAR => json!({
            "name": CALENDAR, "displayName": "Sandbox calendar", "version": "1.0.0",
            "auth": [{ "type": "OAUTH2", "displayName": "Connection", "required": true, "scope": ["events.read"] }],
        }),
        _ => Value::Null,
    }
}

/// A connection without its secret.
fn shown(connection: &Value) -> Value {
    let mut body = connection.clone();
    if let Some(map) = body.as_object_mut() {
        map.remove("value");
    }
    body
}

async fn piece(
    Shared(state): Shared<App>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> Response {
    with_session(state, method, uri, headers, move |_, _, _| match piece_of(&name) {
        Value::Null => Ok(refuse(StatusCode::NOT_FOUND, "There is no such piece")),
        piece => Ok((StatusCode::OK, piece)),
    })
    .await
}

/// As [`served`], for the routes that the session token opens; the work also gets the project.
async fn with_session(
    state: App,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    work: impl FnOnce(&Store, &str, Timestamp) -> Result<Reply, GqlError> + Send + 'static,
) -> Response {
    let token = bearer(&headers);
    served(state, method, uri, headers, move |store, now| match opened(store, "ipaas_session", &token, now) {
        Some(session) => work(store, text(&session, "project"), now),
        None => Ok(refuse(StatusCode::UNAUTHORIZED, "The session token is unknown or expired")),
    })
    .await
}

/// Two pages, so that clients have to follow the cursor.
async fn oauth_apps(
    Shared(state): Shared<App>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let second = query.get("cursor").map(String::as_str) == Some("2");
    with_session(state, method, uri, headers, move |_, _, _| {
        let app = |piece: &str, client: &str| json!({ "pieceName": piece, "clientId": client });
        Ok((
            StatusCode::OK,
            match second {
                true => json!({ "data": [app(CALENDAR, "sandbox-calendar-client")], "next": null }),
                false => json!({ "data": [app("@sandbox/piece-none", "sandbox-none")], "next": "2" }),
            },
        ))
    })
    .await
}

async fn authorization_url(
    Shared(state): Shared<App>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let base = state.url.clone();
    with_session(state, method, uri, headers, move |store, project, now| {
        let body = parsed(&body);
        if text(&body, "pieceName") != CALENDAR || text(&body, "clientId") != "sandbox-calendar-client" {
            return Ok(refuse(StatusCode::NOT_FOUND, "There is no such OAuth app"));
        }
        let (verifier, code) = (new_secret(), grant(store, "ipaas_piece_code", json!({ "project": project }), now)?);
        let url = format!("{base}/_sandbox/consent?code={code}");
        Ok((StatusCode::OK, json!({ "authorizationUrl": url, "codeVerifier": verifier, "scope": ["events.read"] })))
    })
    .await
}

/// Makes or replaces the connection with an external id. The secret is kept out of every answer.
async fn connect(Shared(state): Shared<App>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    with_session(state, method, uri, headers, move |store, project, now| {
        let body = parsed(&body);
        let value = body.get("value").cloned().unwrap_or_default();
        let (piece, external) = (text(&body, "pieceName"), text(&body, "externalId"));
        if text(&body, "projectId") != project {
            return Ok(refuse(StatusCode::FORBIDDEN, "The project is another one"));
        }
        if external.is_empty() || text(&body, "type") != text(&value, "type") {
            return Ok(refuse(StatusCode::BAD_REQUEST, "externalId, and the type in both places, are required"));
        }
        let ok = match (piece, text(&body, "type")) {
            (NOTES, "SECRET_TEXT") => !text(&value, "secret_text").is_empty(),
            (CALENDAR, "PLATFORM_OAUTH2" | "CLOUD_OAUTH2" | "OAUTH2") => {
                opened(store, "ipaas_piece_code", text(&value, "code"), now).is_some()
            }
            _ => false,
        };
        if !ok {
            return Ok(refuse(StatusCode::BAD_REQUEST, "The piece does not take this connection value"));
        }
        let known = store.list("ipaas_connection", By::Parent, project)?;
        let id = match known.into_iter().find(|(_, c)| text(c, "externalId") == external) {
            Some((id, _)) => id,
            None => store.next_id("ipaas_connection")?,
        };
        let body = json!({
            "id": id, "externalId": external, "displayName": text(&body, "displayName"), "pieceName": piece, "projectId": project,
            "type": text(&body, "type"), "status": "ACTIVE", "created": stamp(now), "value": value,
        });
        store.put("ipaas_connection", &id, &Links::parent(project), &body)?;
        Ok((StatusCode::CREATED, shown(&body)))
    })
    .await
}
