//! Automations, their logs, usage and exports.

use serde_json::{Map, Value};

use crate::command::{Command, Param, Preset, Show, id, int, named, object, pair, path, text};
use crate::failure::Failure;
use crate::flows;
use crate::shapes;

const PIPE: Param = text("--pipe", "pipe_id", "Pipe id").required();
const FIRST: Param = int("--first", "first", "Page size").or(Preset::Int(30));
const AFTER: Param = text("--after", "after", "Cursor: the endCursor of the page before");
const CONDITION: Param =
    object("--condition", "condition", "When it runs: {\"expressions\", \"expressions_structure\"}");

pub(super) static AUTOMATIONS: &[Command] = &[
    Command::new("automation list", "get_automations", "List automations of an organization or a pipe")
        .flow(&[], flows::automations)
        .takes(&[
            text("--organization --org", "organization_id", "Organization id"),
            text("--pipe", "pipe_id", "Pipe id"),
            int("--first", "first", "Page size").range(1, 50),
            AFTER,
        ]),
    Command::new("automation get", "get_automation", "Show an automation")
        .takes(&[id("automation_id", "Automation id")])
        .shows(Show::With(shapes::retrieved)),
    Command::new("automation create", "create_automation", "Create an automation")
        .takes(&[
            PIPE,
            text("--name -n", "name", "Name").required(),
            text("--event-id --trigger-id", "trigger_id", "Event that starts it, see automation events list")
                .required(),
            text("--action-id", "action_id", "What it does, see automation actions list").required(),
            pair("--active / --no-active", "active", "Switched on").or(Preset::Bool(true)),
            text("--action-repo", "action_repo_id", "Pipe or table it acts on, when another one"),
            CONDITION,
            object("--extra", "extra_input", "Further attributes, e.g. event_params, action_params"),
        ])
        .shows(Show::With(shapes::automation_created)),
    Command::new("automation update", "update_automation", "Change an automation")
        .takes(&[
            id("automation_id", "Automation id"),
            CONDITION,
            object("--extra", "extra_input", "What to change, e.g. name, active, action_params"),
        ])
        .shows(Show::With(shapes::automation_updated)),
    Command::new("automation delete", "delete_automation", "Delete an automation for good")
        .takes(&[id("automation_id", "Automation id")])
        .deletes(|given| named("automation", "automation_id", given))
        .shows(Show::With(shapes::success)),
    Command::new("automation simulate", "simulate_automation", "Try an automation on a card").takes(&[
        PIPE,
        text("--action-id", "action_id", "What it does").required(),
        text("--sample-card", "sample_card_id", "Card to try it on").required(),
        text("--event-id", "event_id", "Event that starts it"),
        object("--event-params", "event_params", "Parameters of the event"),
        object("--action-params", "action_params", "Parameters of the action"),
        CONDITION,
        text("--name", "name", "Name"),
        object("--extra", "extra_input", "Further attributes"),
    ]),
    Command::new("automation logs", "get_automation_logs", "List runs of an automation, or of all of a pipe")
        .takes(&[
            text("--automation", "automation_id", "Automation id"),
            text("--repo", "repo_id", "Pipe id"),
            FIRST,
            AFTER,
            text("--status", "status", "Only this status"),
            text("--search", "search_term", "Text to look for"),
        ])
        .or(&["get_automation_logs_by_repo"], one_or_all),
    Command::new("automation event-attributes", "get_automation_event_attributes", "List the attributes of events"),
    Command::new("automation usage", "get_automations_usage", "Show what automations used").takes(USAGE),
    Command::new(
        "automation send-task create",
        "create_send_task_automation",
        "Create an automation that sends a task",
    )
    .takes(&[
        PIPE,
        text("--name -n", "name", "Name").required(),
        text("--event-id", "event_id", "Event that starts it").required(),
        text("--task-title", "task_title", "Title of the task").required(),
        text("--recipients", "recipients", "E-mail addresses between commas").required(),
        pair("--active / --no-active", "active", "Switched on").or(Preset::Bool(true)),
        object("--event-params", "event_params", "Parameters of the event"),
        CONDITION,
    ])
    .shows(Show::With(shapes::automation_created)),
    Command::new("automation export jobs", "export_automation_jobs", "Start an export of automation runs").takes(JOBS),
    Command::new("automation export status", "get_automation_jobs_export", "Show how far an export is")
        .takes(&[id("export_id", "Export id")]),
    Command::new("automation export csv", "get_automation_jobs_export_csv", "Show a finished export as CSV text")
        .takes(&[id("export_id", "Export id")]),
    Command::new(
        "automation events list",
        "get_automation_events",
        "List the events that can start automations of a pipe",
    )
    .takes(&[PIPE]),
    Command::new("automation actions list", "get_automation_actions", "List what automations of a pipe can do")
        .takes(&[PIPE]),
];

const USAGE: &[Param] = &[
    text("--organization --org", "organization_uuid", "Organization uuid or id").required(),
    text("--from", "filter_date_from", "First day, ISO 8601").required(),
    text("--to", "filter_date_to", "Last day, ISO 8601").required(),
    object("--filters", "filters", "Further filters"),
    text("--search", "search", "Text to look for"),
    object("--sort", "sort", "Order"),
];

const JOBS: &[Param] = &[
    text("--organization --org", "organization_id", "Organization id").required(),
    text("--period", "period", "Period, e.g. current_month").required(),
    int("--wait-seconds", "wait_seconds", "Wait so long for the file and show it as CSV"),
];

pub(super) static EXPORTS: &[Command] = &[
    Command::new("export automation-jobs", "export_automation_jobs", "Start an export of automation runs").takes(JOBS),
    Command::new("export automation-jobs-csv", "get_automation_jobs_export_csv", "Show a finished export as CSV text")
        .takes(&[id("export_id", "Export id")]),
];

pub(super) static AUDIT: &[Command] =
    &[Command::new("audit export", "export_pipe_audit_logs", "Export the audit log of a pipe")
        .flow(&[], flows::audit)
        .takes(&[
            text("--pipe", "pipe_uuid", "Pipe uuid").required(),
            text("--search", "search_term", "Text to look for"),
            path("--output -o", "output", "File to write the JSON document to, instead of stdout"),
        ])];

pub(super) static USAGES: &[Command] = &[
    Command::new("usage agents", "get_agents_usage", "Show what AI agents used").takes(USAGE),
    Command::new("usage automations", "get_automations_usage", "Show what automations used").takes(USAGE),
    Command::new("usage execution-metrics", "get_automation_execution_metrics", "Show how automations ran").takes(&[
        text("--organization --org", "organization_id", "Organization id").required(),
        text("--automation -a", "automation_ids", "Automation id; may be repeated").many(),
        text("--repo", "repo_id", "Pipe or table id"),
        text("--action", "action_ids", "Action id; may be repeated").many(),
        text("--event", "event_id", "Event id"),
        pair("--active / --inactive", "active", "Only active ones"),
        text("--search", "search", "Text to look for"),
        text("--sort-by", "sort_by", "What to sort by"),
        text("--sort-order", "sort_order", "asc or desc"),
        text("--period", "period", "Period").or(Preset::Text("SIXTY_MINUTES")),
        int("--first", "first", "Page size").or(Preset::Int(50)),
        AFTER,
    ]),
    Command::new("usage credits", "get_ai_credit_usage", "Show the AI credits an organization used").takes(&[
        text("--organization --org", "organization_uuid", "Organization uuid or id").required(),
        text("--period", "period", "Period").or(Preset::Text("current_month")),
    ]),
];

fn one_or_all(args: &mut Map<String, Value>) -> Result<&'static str, Failure> {
    match (args.contains_key("automation_id"), args.contains_key("repo_id")) {
        (true, false) => Ok("get_automation_logs"),
        (false, true) => Ok("get_automation_logs_by_repo"),
        _ => Err(Failure::usage("Provide exactly one of --automation and --repo")),
    }
}
