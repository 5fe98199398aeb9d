//! The commands of several steps.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use pipefy_tools::{Outcome, ToolError, dig};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::flow::Flow;
use crate::output::{Body, Shown, Style, json_text};
use crate::shapes::with_success;
use crate::{show, values};

type Args = Map<String, Value>;
type Work<'a> = BoxFuture<'a, Result<Shown, Failure>>;

fn text<'v>(args: &'v Args, name: &str) -> &'v str {
    args.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn take_extra(args: &mut Args) -> Args {
    match args.shift_remove("extra") {
        Some(Value::Object(extra)) => extra,
        _ => Map::new(),
    }
}

/// `--extra` of commands whose capability has an argument for everything: its keys are arguments, and win.
pub(crate) fn merge_extra(args: &mut Args) -> Result<(), Failure> {
    let extra = take_extra(args);
    args.extend(extra);
    Ok(())
}

/// `phase create`, `phase update`: the result, and where transitions are set.
pub(crate) fn transitions_note<'a>(flow: &'a Flow<'a>, mut args: Args) -> Work<'a> {
    Box::pin(async move {
        let extra = take_extra(&mut args);
        args.extend(extra);
        let tool = if args.contains_key("phase_id") { "update_phase" } else { "create_phase" };
        let outcome = flow.call(tool, args).await?;
        Ok(plainly(flow, outcome).note(
            "note: which phases cards can move to is set in Pipefy's UI (pipe settings, phase, connections); \
             `pipefy phase targets` lists them",
        ))
    })
}

/// `org get`: the argument, else the organization of the settings.
pub(crate) fn organization<'a>(flow: &'a Flow<'a>, mut args: Args) -> Work<'a> {
    Box::pin(async move {
        if text(&args, "organization_id").trim().is_empty() {
            let id = flow.target.settings.org_id.clone().ok_or_else(|| {
                Failure::refused(
                    "Which organization? Name its id (pipefy org get ORGANIZATION_ID) or set PIPEFY_ORG_ID; \
                     pipefy org list shows the ids.",
                )
            })?;
            args.insert("organization_id".to_owned(), id.into());
        }
        let outcome = flow.call("get_organization", args).await?;
        let message = outcome.message.clone();
        Ok(show::missing(plainly(flow, outcome), message))
    })
}

/// `automation list`: the page in JSON; a table and a line with the page's end for people.
pub(crate) fn automations<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    const COLUMNS: [&str; 7] = ["id", "name", "active", "action_id", "actionEnabled", "disabledReason", "event_id"];
    Box::pin(async move {
        let outcome = flow.call("get_automations", args).await?;
        let page = outcome.page.clone().unwrap_or_default();
        let shown = plainly(flow, outcome);
        let Body::Value(nodes) = shown.body else { return Ok(shown) };
        let whole = json!({
            "nodes": nodes,
            "totalCount": page.total_count.unwrap_or_default(),
            "pageInfo": { "hasNextPage": page.has_more, "endCursor": page.end_cursor },
        });
        let rows: Value = nodes
            .as_array()
            .into_iter()
            .flatten()
            .map(|row| {
                let cells =
                    COLUMNS.iter().filter_map(|name| row.get(*name).map(|cell| ((*name).to_owned(), cell.clone())));
                Value::Object(cells.collect())
            })
            .collect();
        let total = page.total_count.unwrap_or_default();
        let more = if page.has_more { "True" } else { "False" };
        let cursor = page.end_cursor.as_deref().unwrap_or("None");
        let after = Some(format!("totalCount={total} hasNextPage={more} endCursor={cursor}"));
        Ok(Shown { after, body: Body::Either(rows, whole), ..shown })
    })
}

/// The result as Pipefy gave it.
fn plainly(flow: &Flow<'_>, outcome: Outcome) -> Shown {
    show::dressed(outcome, flow.approved, |outcome| outcome.body.into_value())
}

/// `audit export`: the result, to stdout or to a file.
pub(crate) fn audit<'a>(flow: &'a Flow<'a>, mut args: Args) -> Work<'a> {
    Box::pin(async move {
        let output = args.shift_remove("output");
        let Some(path) = output.as_ref().and_then(Value::as_str).map(std::path::Path::new) else {
            return Ok(plainly(flow, flow.call("export_pipe_audit_logs", args).await?));
        };
        let failed =
            |error: std::io::Error| Failure::refused(format!("--output {} cannot be written: {error}", path.display()));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let shown = plainly(flow, flow.call("export_pipe_audit_logs", args).await?);
        let Body::Value(value) = &shown.body else { return Ok(shown) };
        std::fs::write(path, json_text(value, Style::MACHINE)).map_err(failed)?;
        Ok(Shown { body: Body::Nothing, ..shown })
    })
}

/// `graphql exec`: the data; with errors, the errors alone and exit code 1.
pub(crate) fn graphql<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    Box::pin(async move {
        let outcome = match flow.show("execute_graphql", args).await {
            Err(Failure::Tool(error)) if has_errors(&error) => {
                let errors = error.source.as_deref().map(pipefy::Error::graphql_errors).unwrap_or_default();
                let raw: Vec<Value> = errors.iter().map(|error| error.raw.clone()).collect();
                return Ok(Shown::value(json!({ "errors": raw })).code(1));
            }
            other => other?,
        };
        Ok(plainly(flow, outcome))
    })
}

fn has_errors(error: &ToolError) -> bool {
    matches!(error.source.as_deref(), Some(pipefy::Error::Graphql { errors, .. }) if !errors.is_empty())
}

/// Checks behaviors first; problems are usage errors, one per line.
async fn preflight(flow: &Flow<'_>, args: &mut Args) -> Result<Option<Value>, Failure> {
    let mut check = Map::new();
    let pipe = args.shift_remove("pipe").unwrap_or_default();
    let strict = args.shift_remove("strict_unknown_action_types").unwrap_or(Value::Bool(true));
    // What is no object cannot be a behavior; the reference drops it too.
    if let Some(Value::Array(behaviors)) = args.get_mut("behaviors") {
        behaviors.retain(Value::is_object);
        if behaviors.is_empty() {
            return Err(Failure::usage("--behaviors must hold at least one object"));
        }
    }
    check.insert("pipe_id".to_owned(), pipe);
    check.insert("behaviors".to_owned(), args.get("behaviors").cloned().unwrap_or_default());
    check.insert("strict_unknown_action_types".to_owned(), strict);
    if let Some(sources) = args.get("data_source_ids") {
        check.insert("data_source_ids".to_owned(), sources.clone());
    }
    let result = flow.call("validate_ai_agent_behaviors", check).await?.body.into_value();
    if result.get("valid") == Some(&Value::Bool(false)) {
        return Err(problems("validate-behaviors failed", &result));
    }
    let warned = result.get("warnings").and_then(Value::as_array).is_some_and(|warnings| !warnings.is_empty());
    Ok(warned.then_some(result))
}

fn problems(what: &str, result: &Value) -> Failure {
    let lines = result.get("problems").and_then(Value::as_array).into_iter().flatten();
    let lines = lines.map(|line| line.as_str().map_or_else(|| line.to_string(), str::to_owned));
    Failure::usage(format!("{what}:\n- {}", lines.collect::<Vec<_>>().join("\n- ")))
}

/// `agent create`
pub(crate) fn create_agent<'a>(flow: &'a Flow<'a>, mut args: Args) -> Work<'a> {
    Box::pin(async move {
        let preflight = preflight(flow, &mut args).await?;
        let active = args.get("active").cloned().unwrap_or(Value::Bool(true));
        let outcome = flow.call("create_ai_agent", args).await?;
        Ok(show::dressed(outcome, flow.approved, |outcome| {
            let message = outcome.message.clone();
            let data = outcome.body.into_value();
            let part = |name: &str| data.get(name).cloned();
            let mut map = Map::new();
            map.insert("success".to_owned(), true.into());
            map.insert("agent_uuid".to_owned(), part("agent_uuid").unwrap_or_default());
            map.insert("message".to_owned(), message.into());
            map.insert("disabled_at".to_owned(), part("disabled_at").unwrap_or_default());
            map.insert("active".to_owned(), part("active").unwrap_or(active));
            map.extend(preflight.map(|preflight| ("preflight".to_owned(), preflight)));
            map.into()
        }))
    })
}

/// `agent update`
pub(crate) fn update_agent<'a>(flow: &'a Flow<'a>, mut args: Args) -> Work<'a> {
    Box::pin(async move {
        let preflight = preflight(flow, &mut args).await?;
        let outcome = flow.call("update_ai_agent", args).await?;
        Ok(show::dressed(outcome, flow.approved, |outcome| {
            let mut value = with_message(outcome);
            if let (Value::Object(map), Some(preflight)) = (&mut value, preflight) {
                map.insert("preflight".to_owned(), preflight);
            }
            value
        }))
    })
}

async fn check_prompt(flow: &Flow<'_>, args: &Args) -> Result<(), Failure> {
    let mut check = Map::new();
    let pipe = args.get("pipe").or_else(|| args.get("pipe_id"));
    check.insert("pipe_id".to_owned(), pipe.cloned().unwrap_or_default());
    for name in ["prompt", "field_ids", "event_id"] {
        if let Some(value) = args.get(name) {
            check.insert(name.to_owned(), value.clone());
        }
    }
    let result = flow.call("validate_ai_automation_prompt", check).await?.body.into_value();
    match result.get("valid") == Some(&Value::Bool(false)) {
        true => Err(problems("validate-prompt failed", &result)),
        false => Ok(()),
    }
}

/// `ai-automation create`
pub(crate) fn create_ai_automation<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    Box::pin(async move {
        check_prompt(flow, &args).await?;
        let outcome = flow.call("create_ai_automation", args).await?;
        Ok(show::dressed(outcome, flow.approved, with_message))
    })
}

fn with_message(outcome: Outcome) -> Value {
    let message = outcome.message.clone();
    let mut value = outcome.body.into_value();
    if let (Value::Object(map), Some(message)) = (&mut value, message) {
        map.entry("message").or_insert(message.into());
    }
    value
}

/// `ai-automation update`: what is not given is read from the automation, to check the whole.
pub(crate) fn update_ai_automation<'a>(flow: &'a Flow<'a>, mut args: Args) -> Work<'a> {
    Box::pin(async move {
        let id = args.get("automation_id").cloned().unwrap_or_default();
        let loaded = flow.call("get_automation", Map::from_iter([("automation_id".to_owned(), id)])).await?;
        let message = loaded.message.clone();
        let body = loaded.body.into_value();
        let rule = body.get("automation").cloned().unwrap_or(body);
        if rule.is_null() {
            return Ok(Shown::value(json!({ "success": false, "message": message })));
        }
        let mut check = args.clone();
        for (name, path) in
            [("prompt", "action_params.aiParams.value"), ("field_ids", "action_params.aiParams.fieldIds")]
        {
            if !check.contains_key(name) {
                let known = dig(&rule, path).filter(|value| !value.is_null()).cloned().ok_or_else(|| {
                    Failure::usage(
                        "the automation does not tell its prompt and fields; pass both --prompt and --field-ids",
                    )
                })?;
                check.insert(name.to_owned(), known);
            }
        }
        if let Some(event) = rule.get("event_id").filter(|event| event.is_string()) {
            check.insert("event_id".to_owned(), event.clone());
        }
        check_prompt(flow, &check).await?;
        args.shift_remove("pipe");
        let outcome = flow.call("update_ai_automation", args).await?;
        Ok(show::dressed(outcome, flow.approved, with_message))
    })
}

/// What an access probe found; a refused one is a finding too.
async fn found(flow: &Flow<'_>, tool: &str, scope: &str, args: &Args) -> Result<Args, Failure> {
    let arguments = Map::from_iter([(scope.to_owned(), args.get(scope).cloned().unwrap_or_default())]);
    let probe = match flow.call(tool, arguments).await {
        Ok(outcome) => outcome.body.into_value(),
        Err(Failure::Tool(error)) if error.details.contains_key("kind") => {
            let detail = |name: &str| error.details.get(name).cloned().unwrap_or_default();
            let problem = json!({
                "kind": detail("kind"),
                "message": error.message,
                "code": error.code,
                "correlation_id": detail("correlation_id"),
            });
            json!({ "ok": false, "problem": problem })
        }
        Err(failure) => return Err(failure),
    };
    match probe {
        Value::Object(probe) => Ok(probe),
        _ => Ok(Map::new()),
    }
}

fn probe<'a>(flow: &'a Flow<'a>, args: Args, tool: &'static str, scope: &'static str) -> Work<'a> {
    Box::pin(async move {
        let found = found(flow, tool, scope, &args).await?;
        let ok = found.get("ok") == Some(&Value::Bool(true));
        let mut map = Map::from_iter([("success".to_owned(), ok.into())]);
        map.extend(found);
        Ok(Shown::value(map.into()))
    })
}

/// `ai-provider validate-access`
pub(crate) fn provider_access<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    probe(flow, args, "validate_llm_provider_access", "organization_uuid")
}

/// `kb validate-access`
pub(crate) fn knowledge_access<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    probe(flow, args, "validate_knowledge_base_access", "pipe_uuid")
}

/// Runs the access probe; anything but a clean yes is shown instead of writing.
async fn gate(flow: &Flow<'_>, tool: &str, scope: &str, args: &Args) -> Result<Option<Shown>, Failure> {
    let found = found(flow, tool, scope, args).await?;
    if found.get("ok") == Some(&Value::Bool(true)) && found.get("problem").is_none_or(Value::is_null) {
        return Ok(None);
    }
    let mut map = Map::from_iter([("success".to_owned(), Value::Bool(false))]);
    map.extend(found);
    Ok(Some(Shown::value(map.into())))
}

/// `ai-provider create`, `ai-provider update`
pub(crate) fn provider_write<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    Box::pin(async move {
        values::readable(&args, "configuration_file_path", "--config-file")?;
        if let Some(stopped) = gate(flow, "validate_llm_provider_access", "organization_uuid", &args).await? {
            return Ok(stopped);
        }
        let tool = if args.contains_key("provider_id") { "update_llm_provider" } else { "create_llm_provider" };
        let outcome = flow.call(tool, args).await?;
        Ok(show::dressed(outcome, flow.approved, |outcome| {
            with_success(None, under("provider", outcome.body.into_value()))
        }))
    })
}

/// `kb plain-text create` and `update`
pub(crate) fn plain_text_write<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    knowledge(flow, args, "plain_text")
}

/// `kb document create` and `update`
pub(crate) fn document_write<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    knowledge(flow, args, "document")
}

/// `kb data-lookup create` and `update`
pub(crate) fn data_lookup_write<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    knowledge(flow, args, "data_lookup")
}

fn knowledge<'a>(flow: &'a Flow<'a>, args: Args, kind: &'static str) -> Work<'a> {
    Box::pin(async move {
        if args.contains_key("file_path") {
            values::readable(&args, "file_path", "--file")?;
        }
        if let Some(stopped) = gate(flow, "validate_knowledge_base_access", "pipe_uuid", &args).await? {
            return Ok(stopped);
        }
        let verb = if args.contains_key(&format!("{kind}_id")) { "update" } else { "create" };
        let outcome = flow.call(&format!("{verb}_ai_knowledge_base_{kind}"), args).await?;
        Ok(show::dressed(outcome, flow.approved, |outcome| {
            with_success(None, under(&format!("knowledge_base_{kind}"), outcome.body.into_value()))
        }))
    })
}

/// `{key: value}`, unless the value has the key already.
fn under(key: &str, value: Value) -> Value {
    match value.get(key) {
        Some(_) => value,
        None => Value::Object(Map::from_iter([(key.to_owned(), value)])),
    }
}

/// `report-pipe export`
pub(crate) fn export_pipe_report<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    export(flow, args, "export_pipe_report", "get_pipe_report_export")
}

/// `report-org export`
pub(crate) fn export_organization_report<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    export(flow, args, "export_organization_report", "get_organization_report_export")
}

/// Most bytes of an export.
const FILE_LIMIT: u64 = 50 * 1024 * 1024;

/// How often an export is looked at.
const POLL: Duration = Duration::from_secs(2);

fn export<'a>(flow: &'a Flow<'a>, mut args: Args, start: &'static str, look: &'static str) -> Work<'a> {
    Box::pin(async move {
        let format = args.shift_remove("format");
        let limit = args.shift_remove("poll_timeout").and_then(|seconds| seconds.as_f64()).unwrap_or(90.0);
        let csv = match format.as_ref().and_then(Value::as_str).unwrap_or("json") {
            "json" => false,
            "csv" => true,
            _ => return Err(Failure::usage("--format must be json or csv")),
        };
        if csv && flow.json {
            return Err(Failure::usage("--format csv writes the file as it is; leave out --json"));
        }
        if csv && limit <= 0.0 {
            return Err(Failure::usage("--poll-timeout must be more than 0"));
        }
        let started = flow.call(start, args).await?;
        if !csv || started.whole {
            return Ok(plainly(flow, started));
        }
        let started = started.body.into_value();
        let id = find(&started, &mut |key, value| {
            (key == "id").then(|| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        })
        .ok_or_else(|| Failure::failed("Pipefy started no export: its answer names no export id."))?;
        let until = Instant::now() + Duration::from_secs_f64(limit.min(86_400.0));
        loop {
            let arguments = Map::from_iter([("export_id".to_owned(), Value::from(id.clone()))]);
            let seen = flow.call(look, arguments).await?.body.into_value();
            let state =
                find(&seen, &mut |key, value| (key == "state").then(|| value.as_str().map(str::to_owned)).flatten());
            match state.as_deref() {
                Some("done") => {
                    let url = find(&seen, &mut |key, value| {
                        (key == "fileURL").then(|| value.as_str().map(str::to_owned)).flatten()
                    });
                    let url = url
                        .filter(|url| !url.trim().is_empty())
                        .ok_or_else(|| Failure::failed(format!("Export {id} is done but has no file.")))?;
                    return download(flow, &url).await;
                }
                Some(state @ ("failed" | "error")) => {
                    return Err(Failure::failed(format!("Export {id} ended as {state}.")));
                }
                _ if Instant::now() + POLL > until => {
                    return Err(Failure::failed(format!(
                        "Export {id} was not ready within {limit} s; try again with a longer --poll-timeout, or look at it with \
                         pipefy tools call {look}."
                    )));
                }
                _ => tokio::time::sleep(POLL).await,
            }
        }
    })
}

async fn download(flow: &Flow<'_>, url: &str) -> Result<Shown, Failure> {
    let failed = |error: pipefy::TransferError| Failure::failed(format!("The export could not be downloaded: {error}"));
    let file = flow.session.transfer().download_export(url, FILE_LIMIT, &flow.budget).await.map_err(failed)?;
    let bytes = file.bytes().await.map_err(failed)?;
    Ok(Shown { body: Body::Bytes(bytes.to_vec()), ..Shown::default() })
}

/// The first value, depth first, that `pick` takes by key and value.
fn find<T>(value: &Value, pick: &mut impl FnMut(&str, &Value) -> Option<T>) -> Option<T> {
    match value {
        Value::Object(map) => map
            .iter()
            .find_map(|(key, value)| pick(key, value))
            .or_else(|| map.values().find_map(|value| find(value, pick))),
        Value::Array(items) => items.iter().find_map(|item| find(item, pick)),
        _ => None,
    }
}
