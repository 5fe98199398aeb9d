//! AI agents, AI automations, LLM providers, knowledge bases.

use serde_json::{Map, Value};

use crate::command::{Command, Param, Preset, Show, array, flag, id, int, named, object, pair, path, text};
use crate::failure::Failure;
use crate::flows;
use crate::shapes;

const STRICT: Param =
    pair("--strict / --no-strict", "strict_unknown_action_types", "Unknown action types are problems, not warnings")
        .or(Preset::Bool(true));
const AFTER: Param = text("--after", "after", "Cursor: the endCursor of the page before");
const BEHAVIORS: Param = array("--behaviors", "behaviors", "Behaviors: a list of objects").required();
const SOURCES: Param = array("--data-sources", "data_source_ids", "Knowledge base ids");
const ORG_UUID: Param = text("--org-uuid", "organization_uuid", "Organization uuid").required();
const CONFIG: Param =
    path("--config-file -f", "configuration_file_path", "JSON file with the provider's configuration").required();

pub(super) static AGENTS: &[Command] = &[
    Command::new("agent list", "get_ai_agents", "List the AI agents of a pipe")
        .takes(&[text("--repo", "repo_uuid", "Pipe uuid").required()])
        .shows(Show::SuccessAs("agents")),
    Command::new("agent get", "get_ai_agent", "Show an AI agent")
        .takes(&[id("uuid", "Agent uuid")])
        .shows(Show::SuccessAs("agent")),
    Command::new("agent create", "create_ai_agent", "Check behaviors and create an AI agent with them")
        .flow(&["validate_ai_agent_behaviors"], flows::create_agent)
        .takes(&[
            text("--repo-uuid", "repo_uuid", "Pipe uuid").required(),
            text("--name -n", "name", "Name").required(),
            text("--instruction", "instruction", "What the agent is for").required(),
            BEHAVIORS,
            text("--pipe", "pipe", "Pipe id, to check the behaviors").required(),
            SOURCES,
            pair("--active / --inactive", "active", "Switched on").or(Preset::Bool(true)),
            STRICT,
        ]),
    Command::new("agent update", "update_ai_agent", "Check behaviors and replace those of an AI agent")
        .flow(&["validate_ai_agent_behaviors"], flows::update_agent)
        .takes(&[
            text("--uuid", "uuid", "Agent uuid").required(),
            text("--name -n", "name", "Name").required(),
            text("--repo-uuid", "repo_uuid", "Pipe uuid").required(),
            text("--instruction", "instruction", "What the agent is for").required(),
            BEHAVIORS,
            text("--pipe", "pipe", "Pipe id, to check the behaviors").required(),
            SOURCES,
            text("--disabled-at", "disabled_at", "Switched off since, ISO 8601"),
            STRICT,
        ]),
    Command::new("agent delete", "delete_ai_agent", "Delete an AI agent for good")
        .takes(&[id("uuid", "Agent uuid")])
        .deletes(|given| named("AI agent", "uuid", given))
        .shows(Show::With(shapes::success)),
    Command::new("agent toggle", "toggle_ai_agent_status", "Switch an AI agent on or off")
        .takes(&[
            id("uuid", "Agent uuid"),
            pair("--active / --inactive", "active", "Switch it on").or(Preset::Bool(true)),
        ])
        .asks_when(
            "disable",
            |given| named("AI agent", "uuid", given),
            |given| given.get("active") == Some(&Value::Bool(false)),
        )
        .shows(Show::Told),
    Command::new("agent validate-behaviors", "validate_ai_agent_behaviors", "Check behaviors against a pipe")
        .takes(&[
            text("--pipe", "pipe_id", "Pipe id").required(),
            BEHAVIORS,
            STRICT,
            text("--data-source-id", "data_source_ids", "Knowledge base id; may be repeated").many(),
        ])
        .shows(Show::Told),
    Command::new("agent logs list", "get_ai_agent_logs", "List runs of the AI agents of a pipe").takes(&[
        text("--repo", "repo_uuid", "Pipe uuid").required(),
        int("--first", "first", "Page size").or(Preset::Int(30)),
        AFTER,
        text("--status", "status", "Only this status"),
        text("--search", "search_term", "Text to look for"),
    ]),
    Command::new("agent logs get", "get_ai_agent_log_details", "Show one run of an AI agent")
        .takes(&[id("log_uuid", "Log uuid")]),
];

const PROMPT: Param = text("--prompt", "prompt", "Prompt; fields as %{internal_id}");
const FIELD_IDS: Param = array("--field-ids", "field_ids", "Fields that take the answer");

pub(super) static AI_AUTOMATIONS: &[Command] = &[
    Command::new("ai-automation list", "get_ai_automations", "List the AI automations of a pipe")
        .takes(&[
            text("--pipe", "pipe_id", "Pipe id").required(),
            text("--organization --org", "organization_id", "Organization id"),
            int("--first", "first", "Page size").range(1, 50),
            AFTER,
        ])
        .shows(Show::With(shapes::listed)),
    Command::new("ai-automation get", "get_ai_automation", "Show an AI automation")
        .takes(&[id("automation_id", "Automation id")])
        .shows(Show::With(shapes::retrieved)),
    Command::new("ai-automation validate-prompt", "validate_ai_automation_prompt", "Check a prompt against a pipe")
        .takes(&[
            text("--pipe", "pipe_id", "Pipe id").required(),
            PROMPT.required(),
            FIELD_IDS.required(),
            text("--event-id", "event_id", "Event that starts it"),
        ])
        .shows(Show::Success),
    Command::new("ai-automation create", "create_ai_automation", "Check a prompt and create an AI automation with it")
        .flow(&["validate_ai_automation_prompt"], flows::create_ai_automation)
        .takes(&[
            text("--pipe", "pipe_id", "Pipe id").required(),
            text("--name -n", "name", "Name").required(),
            text("--event-id", "event_id", "Event that starts it").required(),
            PROMPT.required(),
            FIELD_IDS.required(),
            text("--action-repo", "action_repo_id", "Pipe it acts on, when another one"),
            array("--skills-ids", "skills_ids", "Skills"),
            object("--event-params", "event_params", "Parameters of the event"),
            object("--condition", "condition", "When it runs"),
        ]),
    Command::new("ai-automation update", "update_ai_automation", "Check a prompt and change an AI automation")
        .flow(&["validate_ai_automation_prompt", "get_automation"], flows::update_ai_automation)
        .takes(&[
            id("automation_id", "Automation id"),
            text("--pipe", "pipe_id", "Pipe id, to check the prompt").required(),
            PROMPT,
            FIELD_IDS,
            text("--name -n", "name", "New name"),
            pair("--patch-active / --no-patch-active", "active", "Switched on"),
            array("--skills-ids", "skills_ids", "Skills"),
            object("--event-params", "event_params", "Parameters of the event"),
            object("--condition", "condition", "When it runs"),
        ]),
    Command::new("ai-automation delete", "delete_ai_automation", "Delete an AI automation for good")
        .takes(&[id("automation_id", "Automation id")])
        .deletes(|given| named("AI automation", "automation_id", given))
        .shows(Show::With(shapes::success)),
];

pub(super) static PROVIDERS: &[Command] = &[
    Command::new("ai-provider list", "get_llm_providers", "List the LLM providers of an organization")
        .takes(&[
            ORG_UUID,
            flag("--only-active", "only_active", "Only active ones"),
            int("--first", "first", "Page size").or(Preset::Int(50)),
            AFTER,
        ])
        .shows(Show::With(shapes::paged)),
    Command::new("ai-provider models", "get_available_ai_models", "List the models of a vendor")
        .takes(&[text("--provider-name", "provider_name", "Vendor, e.g. openai").required()])
        .shows(Show::SuccessAs("models")),
    Command::new("ai-provider dependencies", "get_llm_provider_dependencies", "List what uses an LLM provider")
        .takes(&[
            text("--provider-id", "provider_id", "Provider id").required(),
            ORG_UUID,
            int("--first", "first", "Page size").or(Preset::Int(50)),
            AFTER,
        ])
        .shows(Show::With(shapes::paged)),
    Command::new("ai-provider validate-access", "validate_llm_provider_access", "Check that LLM providers can be read")
        .takes(&[ORG_UUID])
        .flow(&[], flows::provider_access),
    Command::new("ai-provider create", "create_llm_provider", "Create an LLM provider from a configuration file")
        .flow(&["validate_llm_provider_access"], flows::provider_write)
        .takes(&[ORG_UUID, text("--name", "name", "Name").required(), CONFIG]),
    Command::new("ai-provider update", "update_llm_provider", "Replace the configuration of an LLM provider")
        .flow(&["validate_llm_provider_access"], flows::provider_write)
        .takes(&[
            text("--id", "provider_id", "Provider id").required(),
            ORG_UUID,
            CONFIG,
            text("--name", "name", "New name"),
        ]),
    Command::new("ai-provider delete", "delete_llm_provider", "Delete an LLM provider for good")
        .takes(&[text("--id", "provider_id", "Provider id").required(), ORG_UUID])
        .deletes(|given| named("LLM provider", "provider_id", given))
        .shows(Show::Success),
    Command::new("ai-provider set-active-status", "set_llm_provider_active_status", "Switch an LLM provider on or off")
        .takes(&[
            text("--id", "provider_id", "Provider id").required(),
            pair("--active / --inactive", "active", "Switch it on").required(),
        ])
        .shows(Show::Success),
    Command::new("ai-provider default get", "get_default_llm_provider", "Show the default LLM provider")
        .takes(&[
            text("--owner-id", "owner_id", "Id of the owner").required(),
            text("--owner-type", "owner_type", "organization, assistant or behavior").or(Preset::Text("organization")),
        ])
        .shows(Show::SuccessAs("provider")),
    Command::new(
        "ai-provider default set",
        "set_default_llm_provider",
        "Set the default LLM provider of an organization",
    )
    .prepare(one_provider)
    .takes(&[
        text("--org-id", "organization_id", "Organization id").required(),
        text("--provider-id", "provider_id", "Id of a provider of your own"),
        text("--system-provider-id", "system_provider_id", "Id of a provider of Pipefy"),
    ])
    .shows(Show::Success),
    Command::new("ai-provider default reset", "reset_default_llm_provider", "Go back to Pipefy's default LLM provider")
        .takes(&[text("--org-id", "organization_id", "Organization id").required()])
        .shows(Show::Success),
];

fn one_provider(args: &mut Map<String, Value>) -> Result<(), Failure> {
    match args.contains_key("provider_id") ^ args.contains_key("system_provider_id") {
        true => Ok(()),
        false => Err(Failure::usage("Provide exactly one of --provider-id and --system-provider-id")),
    }
}

const PIPE_UUID: Param = text("--pipe-uuid", "pipe_uuid", "Pipe uuid").required();
const NAME: Param = text("--name", "name", "Name");
const DESCRIPTION: Param = text("--description", "description", "What it holds, for the agents");
const CONTENT: Param = text("--content", "content", "Text");
const SOURCE_REPO: Param = text("--source-repo-id", "source_repo_id", "Pipe or table to look in").required();
const OUTPUTS: Param = array("--output-fields", "output_fields", "Fields that are given back").required();
const CONDITIONS: Param = array("--conditions", "conditions", "Conditions: a list of objects").required();
const QUERY: Param = text("--search-query", "search_query", "Text to look for");
const TEXT_ID: Param = text("--id", "plain_text_id", "Knowledge base id").required();
const DOCUMENT_ID: Param = text("--id", "document_id", "Knowledge base id").required();
const LOOKUP_ID: Param = text("--id", "data_lookup_id", "Knowledge base id").required();

const TEXT_KEY: Show = Show::SuccessAs("knowledge_base_plain_text");
const DOCUMENT_KEY: Show = Show::SuccessAs("knowledge_base_document");
const LOOKUP_KEY: Show = Show::SuccessAs("knowledge_base_data_lookup");
const PROBE: &[&str] = &["validate_knowledge_base_access"];

pub(super) static KNOWLEDGE: &[Command] = &[
    Command::new("kb list", "get_ai_knowledge_bases", "List the knowledge bases of a pipe")
        .takes(&[PIPE_UUID])
        .shows(Show::SuccessAs("knowledge_bases")),
    Command::new("kb validate-access", "validate_knowledge_base_access", "Check that knowledge bases can be read")
        .takes(&[PIPE_UUID])
        .flow(&[], flows::knowledge_access),
    Command::new("kb plain-text get", "get_ai_knowledge_base_plain_text", "Show a text")
        .takes(&[TEXT_ID, PIPE_UUID])
        .shows(TEXT_KEY),
    Command::new("kb plain-text create", "create_ai_knowledge_base_plain_text", "Add a text")
        .flow(PROBE, flows::plain_text_write)
        .takes(&[PIPE_UUID, NAME.required(), CONTENT.required(), DESCRIPTION.required()]),
    Command::new("kb plain-text update", "update_ai_knowledge_base_plain_text", "Change a text")
        .flow(PROBE, flows::plain_text_write)
        .takes(&[TEXT_ID, PIPE_UUID, NAME, CONTENT, DESCRIPTION]),
    Command::new("kb plain-text delete", "delete_ai_knowledge_base_plain_text", "Delete a text for good")
        .takes(&[TEXT_ID, PIPE_UUID])
        .deletes(|given| named("knowledge base text", "plain_text_id", given))
        .shows(Show::With(shapes::knowledge_deleted)),
    Command::new("kb document get", "get_ai_knowledge_base_document", "Show a document")
        .takes(&[DOCUMENT_ID, PIPE_UUID])
        .shows(DOCUMENT_KEY),
    Command::new("kb document create", "create_ai_knowledge_base_document", "Add a document from a file")
        .flow(PROBE, flows::document_write)
        .takes(&[
            PIPE_UUID,
            path("--file -f", "file_path", "File").required(),
            NAME.required(),
            DESCRIPTION.required(),
        ]),
    Command::new(
        "kb document update",
        "update_ai_knowledge_base_document",
        "Change the name or description of a document",
    )
    .flow(PROBE, flows::document_write)
    .takes(&[DOCUMENT_ID, PIPE_UUID, NAME, DESCRIPTION]),
    Command::new("kb document delete", "delete_ai_knowledge_base_document", "Delete a document for good")
        .takes(&[DOCUMENT_ID, PIPE_UUID])
        .deletes(|given| named("knowledge base document", "document_id", given))
        .shows(Show::With(shapes::knowledge_deleted)),
    Command::new("kb data-lookup get", "get_ai_knowledge_base_data_lookup", "Show a data lookup")
        .takes(&[LOOKUP_ID, PIPE_UUID])
        .shows(LOOKUP_KEY),
    Command::new("kb data-lookup create", "create_ai_knowledge_base_data_lookup", "Add a data lookup")
        .flow(PROBE, flows::data_lookup_write)
        .takes(&[PIPE_UUID, NAME.required(), DESCRIPTION.required(), SOURCE_REPO, OUTPUTS, CONDITIONS, QUERY]),
    Command::new("kb data-lookup update", "update_ai_knowledge_base_data_lookup", "Change a data lookup")
        .flow(PROBE, flows::data_lookup_write)
        .takes(&[LOOKUP_ID, PIPE_UUID, SOURCE_REPO, OUTPUTS, CONDITIONS, QUERY, NAME, DESCRIPTION]),
    Command::new("kb data-lookup delete", "delete_ai_knowledge_base_data_lookup", "Delete a data lookup for good")
        .takes(&[LOOKUP_ID, PIPE_UUID])
        .deletes(|given| named("knowledge base data lookup", "data_lookup_id", given))
        .shows(Show::With(shapes::knowledge_deleted)),
];
