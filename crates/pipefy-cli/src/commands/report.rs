//! Reports of pipes and organizations.

use crate::command::{Command, Param, Preset, Show, array, float, id, int, named, object, text};
use crate::flows;

const FIRST: Param = int("--first", "first", "Page size").or(Preset::Int(30));
const AFTER: Param = text("--after", "after", "Cursor: the endCursor of the page before");
const NAME: Param = text("--name -n", "name", "Name");
const FIELDS: Param = array("--fields", "fields", "Fields it shows");
const FILTER: Param = object("--filter", "filter", "Which cards it shows");
const FORMULAS: Param = array("--formulas", "formulas", "Formulas");
const COLOR: Param = text("--color", "color", "New color");
const FORMAT: Param =
    text("--format", "format", "json starts the export; csv waits for it and writes the file to stdout")
        .or(Preset::Text("json"));
const SORT: Param = object("--sort-by", "sort_by", "Order");
const COLUMNS: Param = array("--columns", "columns", "Columns");
const TIMEOUT: Param =
    float("--poll-timeout", "poll_timeout", "With csv: seconds to wait for it").or(Preset::Float(90.0));
const ORGANIZATION: Param = text("--organization --org", "organization_id", "Organization id").required();
const REPORT: Param = id("report_id", "Report id");

pub(super) static OF_PIPES: &[Command] = &[
    Command::new("report-pipe list", "get_pipe_reports", "List the reports of a pipe").takes(&[
        text("--pipe", "pipe_uuid", "Pipe uuid").required(),
        FIRST,
        AFTER,
        text("--search", "search", "Text to look for"),
        text("--report-id", "report_id", "Only this report"),
        object("--order", "order", "Order"),
    ]),
    Command::new("report-pipe get", "get_pipe_report", "Show a report of a pipe")
        .takes(&[
            text("--pipe", "pipe_uuid", "Pipe uuid").required(),
            text("--report-id", "report_id", "Report id").required(),
        ])
        .shows(Show::Success),
    Command::new("report-pipe columns", "get_pipe_report_columns", "List the columns that reports of a pipe can have")
        .takes(&[text("--pipe", "pipe_uuid", "Pipe uuid").required()]),
    Command::new(
        "report-pipe filterable-fields",
        "get_pipe_report_filterable_fields",
        "List what reports of a pipe can filter by",
    )
    .takes(&[text("--pipe", "pipe_uuid", "Pipe uuid").required()]),
    Command::new("report-pipe create", "create_pipe_report", "Create a report of a pipe").takes(&[
        text("--pipe", "pipe_id", "Pipe id").required(),
        NAME.required(),
        FIELDS,
        FILTER,
        FORMULAS,
    ]),
    Command::new("report-pipe update", "update_pipe_report", "Change a report of a pipe").takes(&[
        REPORT,
        NAME,
        COLOR,
        FIELDS,
        FILTER,
        FORMULAS,
        text("--featured-field", "featured_field", "Field it features"),
    ]),
    Command::new("report-pipe delete", "delete_pipe_report", "Delete a report of a pipe for good")
        .takes(&[REPORT])
        .deletes(|given| named("pipe report", "report_id", given)),
    Command::new("report-pipe export", "export_pipe_report", "Export a report of a pipe")
        .flow(&["get_pipe_report_export"], flows::export_pipe_report)
        .takes(&[
            text("--pipe", "pipe_id", "Pipe id").required(),
            text("--report-id", "pipe_report_id", "Report id").required(),
            FORMAT,
            SORT,
            FILTER,
            COLUMNS,
            TIMEOUT,
        ]),
];

pub(super) static OF_ORGANIZATIONS: &[Command] = &[
    Command::new("report-org list", "get_organization_reports", "List the reports of an organization").takes(&[
        ORGANIZATION,
        FIRST,
        AFTER,
    ]),
    Command::new("report-org get", "get_organization_report", "Show a report of an organization").takes(&[REPORT]),
    Command::new("report-org create", "create_organization_report", "Create a report of an organization").takes(&[
        ORGANIZATION,
        NAME.required(),
        array("--pipe-ids", "pipe_ids", "Pipes it covers").required(),
        FIELDS,
        FILTER,
    ]),
    Command::new("report-org update", "update_organization_report", "Change a report of an organization").takes(&[
        REPORT,
        NAME,
        COLOR,
        FIELDS,
        FILTER,
        array("--pipe-ids", "pipe_ids", "Pipes it covers"),
    ]),
    Command::new("report-org delete", "delete_organization_report", "Delete a report of an organization for good")
        .takes(&[REPORT])
        .deletes(|given| named("organization report", "report_id", given)),
    Command::new("report-org export", "export_organization_report", "Export a report of an organization")
        .flow(&["get_organization_report_export"], flows::export_organization_report)
        .takes(&[
            ORGANIZATION,
            FORMAT,
            text("--organization-report-id", "organization_report_id", "Report id"),
            array("--pipe-ids", "pipe_ids", "Pipes"),
            SORT,
            FILTER,
            COLUMNS,
            TIMEOUT,
        ]),
];
