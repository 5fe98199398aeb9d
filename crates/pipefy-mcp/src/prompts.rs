//! The playbooks as prompts. One is offered where every tool that it needs can be run, so that no server shows a job that
//! cannot be done on it; what it merely advises may be missing, and its text then says so.

use pipefy_tools::playbooks::{Playbook, playbooks};
use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::json;

use crate::catalogue::{Exposure, Way};

/// The prompts of this server, by name.
pub(crate) fn list(exposure: &Exposure) -> Vec<Prompt> {
    playbooks().iter().filter(|playbook| lacking(exposure, playbook.needed()).is_empty()).map(listing).collect()
}

/// A playbook that this server offers.
///
/// # Errors
/// -32602: there is none of this name, or tools that it needs are not here.
pub(crate) fn find(exposure: &Exposure, name: &str) -> Result<&'static Playbook, ErrorData> {
    let data = || Some(json!({ "name": name }));
    let Some(playbook) = Playbook::find(name) else {
        return Err(ErrorData::invalid_params("Unknown prompt; prompts/list names those of this server", data()));
    };
    let lacking = lacking(exposure, playbook.needed());
    if lacking.is_empty() {
        return Ok(playbook);
    }
    let message = format!("Unknown prompt: it needs tools that this server does not offer: {}", lacking.join(", "));
    Err(ErrorData::invalid_params(message, data()))
}

/// A playbook with the caller's values in it.
///
/// # Errors
/// -32602: there is no such prompt, or arguments are missing, unknown or no texts.
pub(crate) fn get(
    exposure: &Exposure,
    name: &str,
    arguments: Option<JsonObject>,
) -> Result<GetPromptResult, ErrorData> {
    let playbook = find(exposure, name)?;
    let mut text = playbook
        .filled(&arguments.unwrap_or_default())
        .map_err(|bad| ErrorData::invalid_params(bad.to_string(), Some(json!({ "name": name }))))?;
    let through = playbook.needed().iter().any(|tool| matches!(exposure.way_to(tool), Some(Way::Through(_))));
    let missing = lacking(exposure, playbook.advised());
    if through || !missing.is_empty() {
        text.push_str("\n## On this server\n\n");
    }
    if through {
        text.push_str(
            "- Run the tools with execute_tool(name, arguments); describe_tool shows the arguments of each.\n",
        );
    }
    if !missing.is_empty() {
        text.push_str(&format!(
            "- Not offered here: {}. Where a step names one, say what to do in Pipefy itself instead.\n",
            missing.join(", ")
        ));
    }
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).with_description(playbook.description))
}

fn lacking(exposure: &Exposure, tools: &[&'static str]) -> Vec<&'static str> {
    tools.iter().filter(|tool| exposure.way_to(tool).is_none()).copied().collect()
}

fn listing(playbook: &Playbook) -> Prompt {
    let arguments: Vec<PromptArgument> = playbook
        .arguments
        .iter()
        .map(|argument| {
            PromptArgument::new(argument.name).with_description(argument.description).with_required(argument.required)
        })
        .collect();
    Prompt::new(playbook.name, Some(playbook.description), Some(arguments)).with_title(playbook.title)
}
