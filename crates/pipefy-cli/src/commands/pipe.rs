//! Pipes.

use serde_json::{Map, Value};

use crate::blueprint;
use crate::command::{Command, Form, Param, Preset, Show, flag, id, int, named, object, text, word};
use crate::failure::Failure;

pub(super) static COMMANDS: &[Command] = &[
    Command::new("pipe get", "get_pipe", "Show a pipe: phases, fields, labels, start form")
        .takes(&[id("pipe_id", "Pipe id")]),
    Command::new("pipe start-form", "get_start_form_fields", "Show the fields of a pipe's start form")
        .takes(&[id("pipe_id", "Pipe id"), flag("--required-only", "required_only", "Only required fields")]),
    Command::new("pipe list", "search_pipes", "List pipes, or find them by name").takes(&[
        text("--name -n", "pipe_name", "Name to look for; near matches count"),
        int("--max-per-org", "max_pipes_per_org", "Pipes per organization at most").range(1, 500).or(Preset::Int(500)),
    ]),
    Command::new("pipe create", "create_pipe", "Create a pipe")
        .takes(&[word("name", "Name"), text("--org", "organization_id", "Organization id").required()]),
    Command::new("pipe update", "update_pipe", "Change a pipe").prepare(something).takes(&[
        id("pipe_id", "Pipe id"),
        text("--name", "name", "New name"),
        text("--icon", "icon", "New icon"),
        text("--color", "color", "New color"),
        object("--preferences", "preferences", "New preferences"),
    ]),
    Command::new("pipe delete", "delete_pipe", "Delete a pipe and its cards for good")
        .takes(&[id("pipe_id", "Pipe id")])
        .deletes(|given| named("pipe", "pipe_id", given))
        .shows(Show::Done("deletePipe")),
    Command::new("pipe clone", "clone_pipe", "Copy a pipe").takes(&[
        id("pipe_template_id", "Id of the pipe to copy"),
        text("--org", "organization_id", "Organization id of the copy"),
    ]),
    Command::new("pipe pull", "get_pipe", "Print a pipe as code: YAML with names in the place of ids")
        .flow(&[], blueprint::pull)
        .alone()
        .form(Form::Text)
        .takes(&[id("pipe_id", "Pipe id")]),
    Command::new("pipe diff", "get_pipe", "Compare a pipe with its code; exit code 2 when they differ")
        .flow(&[], blueprint::diff)
        .alone()
        .takes(&[FILE, PIPE, NAME, ORGANIZATION]),
    Command::new("pipe apply", "update_pipe", "Make a pipe what its code says; a new one where there is none")
        .flow(blueprint::CALLS, blueprint::apply)
        .alone()
        .takes(&[
            FILE,
            PIPE,
            NAME,
            ORGANIZATION,
            flag("--dry-run", "dry_run", "Show what would change and send nothing"),
            flag("--yes -y", "yes", "Remove what the code does not have without asking"),
        ]),
];

const FILE: Param = word("file", "File that `pipe pull` made; - reads standard input");
const PIPE: Param = id("pipe_id", "Pipe id; the pipe of the file's name when not given").optional();
const NAME: Param = text("--name -n", "name", "Name of the pipe, instead of the file's");
const ORGANIZATION: Param = text("--org", "organization_id", "Organization id where the pipe is looked for or created");

/// Something to change; empty preferences are nothing.
fn something(args: &mut Map<String, Value>) -> Result<(), Failure> {
    if args.get("preferences").and_then(Value::as_object).is_some_and(Map::is_empty) {
        args.shift_remove("preferences");
    }
    match ["name", "icon", "color", "preferences"].iter().any(|name| args.contains_key(*name)) {
        true => Ok(()),
        false => Err(Failure::usage("Provide at least one of: --name, --icon, --color, --preferences")),
    }
}
