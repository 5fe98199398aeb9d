//! `pipefy tools`: every capability by its tool name.

use futures_util::future::BoxFuture;
use pipefy_tools::{Class, Tool, render};
use serde_json::{Map, Value, json};

use crate::commands;
use crate::failure::Failure;
use crate::flow::Approved;
use crate::names;
use crate::output::{Body, Shown};
use crate::prompt;
use crate::run::Start;

/// `tools list`
pub(crate) fn list<'a>(_: &'a Start, args: Map<String, Value>) -> BoxFuture<'a, Result<Shown, Failure>> {
    Box::pin(async move {
        let text = |name: &str| args.get(name).and_then(Value::as_str).map(str::to_lowercase);
        let (domain, wanted) = (text("domain"), text("match"));
        let tools: Vec<&Tool> = commands::catalogue()
            .tools()
            .iter()
            .filter(|tool| domain.as_deref().is_none_or(|domain| tool.op().domain.name() == domain))
            .filter(|tool| {
                wanted.as_deref().is_none_or(|wanted| {
                    tool.name().contains(wanted) || tool.description().to_lowercase().contains(wanted)
                })
            })
            .collect();
        Ok(shown(&tools))
    })
}

/// `tools search`
pub(crate) fn search<'a>(_: &'a Start, args: Map<String, Value>) -> BoxFuture<'a, Result<Shown, Failure>> {
    Box::pin(async move {
        let query = args.get("query").and_then(Value::as_str).unwrap_or_default();
        let limit = args.get("limit").and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok());
        let all: Vec<&Tool> = commands::catalogue().tools().iter().collect();
        let mut found = commands::catalogue().search(&all, query);
        found.truncate(limit.unwrap_or(all.len()));
        Ok(shown(&found))
    })
}

fn shown(tools: &[&Tool]) -> Shown {
    let short = |tool: &&Tool| json!({ "tool": tool.name(), "class": class(tool), "command": command(tool), "description": first_sentence(tool) });
    let full = |tool: &&Tool| {
        json!({
            "name": tool.name(),
            "domain": tool.op().domain.name(),
            "class": class(tool),
            "command": command(tool),
            "description": tool.description(),
        })
    };
    Shown {
        body: Body::Either(tools.iter().map(short).collect(), tools.iter().map(full).collect()),
        ..Shown::default()
    }
}

/// `tools describe`
pub(crate) fn describe<'a>(_: &'a Start, args: Map<String, Value>) -> BoxFuture<'a, Result<Shown, Failure>> {
    Box::pin(async move {
        let tool = find(&args)?;
        Ok(Shown::value(json!({
            "name": tool.name(),
            "domain": tool.op().domain.name(),
            "class": class(tool),
            "command": command(tool),
            "description": tool.description(),
            "arguments": tool.input_schema(),
            "result": tool.result_schema(true),
        })))
    })
}

/// `tools call`
pub(crate) fn call<'a>(start: &'a Start, mut args: Map<String, Value>) -> BoxFuture<'a, Result<Shown, Failure>> {
    Box::pin(async move {
        let tool = find(&args)?;
        let mut arguments = match args.shift_remove("args") {
            Some(Value::Object(arguments)) => arguments,
            _ => Map::new(),
        };
        let yes = args.get("yes") == Some(&Value::Bool(true));
        let loaded = start.settings()?;
        let ids = names::ids_of_tool(tool);
        if names::any(&ids, &arguments) {
            let resolved =
                start.session(&loaded, Approved::No, async |flow| names::resolve(flow, &ids, arguments).await);
            arguments = resolved.await?;
        }
        let dry = arguments.get("dry_run") == Some(&Value::Bool(true));
        let approved = match tool.op().class {
            Class::Destructive if !dry => {
                let what = format!("run {} with {}", tool.name(), Value::Object(arguments.clone()));
                prompt::confirm(&start.terminal, &what, yes).await?;
                Approved::Yes
            }
            Class::ByInput if !yes => Approved::No,
            _ => Approved::Yes,
        };
        start
            .session(&loaded, approved, async |flow| {
                let outcome = match flow.show(tool.name(), arguments.clone()).await {
                    Err(failure) if failure.leads_nowhere() => {
                        return Err(names::explained(flow, failure, &ids, &arguments).await);
                    }
                    outcome => outcome?,
                };
                let reply = render(tool.op(), &flow.toolbox, Ok(outcome), &arguments, 0);
                Ok(Shown::value(reply.payload.value()))
            })
            .await
    })
}

fn find(args: &Map<String, Value>) -> Result<&'static Tool, Failure> {
    let name = args.get("name").and_then(Value::as_str).unwrap_or_default();
    commands::catalogue().get(name).ok_or_else(|| {
        let near = commands::catalogue()
            .tools()
            .iter()
            .map(|tool| (strsim::jaro_winkler(tool.name(), name), tool.name()))
            .filter(|(likeness, _)| *likeness > 0.8)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let hint = near.map(|(_, name)| format!("; did you mean {name}?")).unwrap_or_default();
        Failure::usage(format!("there is no tool of this name{hint} `pipefy tools list` shows all"))
    })
}

fn class(tool: &Tool) -> &'static str {
    match tool.op().class {
        Class::Read => "read",
        Class::Write => "write",
        Class::Destructive => "destructive",
        Class::ByInput => "by input",
    }
}

fn command(tool: &Tool) -> Option<String> {
    commands::of_tool(tool.name()).map(|command| format!("pipefy {}", command.path))
}

fn first_sentence(tool: &Tool) -> &str {
    let text = tool.description();
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.')
}
