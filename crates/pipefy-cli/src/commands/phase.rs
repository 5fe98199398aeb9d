//! Phases, their fields and field conditions.

use crate::command::{Command, Param, Preset, Show, array, flag, float, id, int, named, object, pair, text};
use crate::flows::{merge_extra, transitions_note};
use crate::shapes;

const REQUIRED_ONLY: Param = flag("--required-only", "required_only", "Only required fields");

pub(super) static PHASES: &[Command] = &[
    Command::new("phase get", "get_phase_fields", "Show the fields of a phase")
        .takes(&[id("phase_id", "Phase id"), REQUIRED_ONLY]),
    Command::new(
        "phase targets",
        "get_phase_allowed_move_targets",
        "List the phases that cards of a phase can move to",
    )
    .takes(&[id("phase_id", "Phase id")])
    .shows(Show::With(shapes::targets)),
    Command::new("phase count", "get_phase_cards_count", "Count the cards of a phase")
        .takes(&[id("phase_id", "Phase id")]),
    Command::new("phase cards", "get_phase_cards", "List the cards of a phase").takes(&[
        id("phase_id", "Phase id"),
        int("--first", "first", "Page size").range(1, 500).or(Preset::Int(50)),
        text("--after", "after", "Cursor: the endCursor of the page before"),
        flag("--include-fields", "include_fields", "Also show field names and values"),
    ]),
    Command::new("phase create", "create_phase", "Create a phase").flow(&[], transitions_note).takes(&[
        text("--pipe", "pipe_id", "Pipe id").required(),
        text("--name -n", "name", "Name").required(),
        flag("--done", "done", "Cards in it are done"),
        float("--index", "index", "Position"),
        text("--description -d", "description", "Description"),
    ]),
    Command::new("phase update", "update_phase", "Change a phase").flow(&[], transitions_note).takes(&[
        id("phase_id", "Phase id"),
        text("--name -n", "name", "New name"),
        text("--description -d", "description", "New description"),
        pair("--done / --no-done", "done", "Cards in it are done"),
        text("--color", "color", "New color"),
        int("--lateness-time", "lateness_time", "Seconds after which a card is late"),
        pair(
            "--can-receive-from-draft / --no-can-receive-from-draft",
            "can_receive_card_directly_from_draft",
            "Cards can be created in it",
        ),
        object("--extra", "extra", "Further arguments, merged last"),
    ]),
    Command::new("phase delete", "delete_phase", "Delete a phase and its cards for good")
        .takes(&[id("phase_id", "Phase id")])
        .deletes(|given| named("phase", "phase_id", given)),
];

pub(super) static FIELDS: &[Command] = &[
    Command::new("field list", "get_phase_fields", "List the fields of a phase")
        .takes(&[text("--phase", "phase_id", "Phase id").required(), REQUIRED_ONLY]),
    Command::new("field create", "create_phase_field", "Create a field in a phase").takes(&[
        text("--phase", "phase_id", "Phase id").required(),
        text("--label -l", "label", "Label").required(),
        text("--type -t", "field_type", "Field type, e.g. short_text").required(),
        object("--extra", "extra_input", "Further attributes, e.g. options, description, required"),
    ]),
    Command::new("field update", "update_phase_field", "Change a field of a phase").prepare(merge_extra).takes(&[
        id("field_id", "Field id"),
        object("--extra", "extra", "What to change, label included; phase_id or pipe_id resolve a slug"),
    ]),
    Command::new("field delete", "delete_phase_field", "Delete a field of a phase for good")
        .takes(&[id("field_id", "Field id"), text("--pipe-uuid", "pipe_uuid", "Uuid of the pipe, for slugs")])
        .deletes(|given| named("field", "field_id", given)),
];

pub(super) static CONDITIONS: &[Command] = &[
    Command::new("field-condition list", "get_field_conditions", "List the field conditions of a phase")
        .takes(&[text("--phase", "phase_id", "Phase id").required()])
        .shows(Show::Told),
    Command::new("field-condition get", "get_field_condition", "Show a field condition")
        .takes(&[id("field_condition_id", "Field condition id")])
        .shows(Show::Told),
    Command::new("field-condition create", "create_field_condition", "Create a field condition")
        .takes(&[
            text("--phase", "phase_id", "Phase id").required(),
            text("--name -n", "name", "Name").required(),
            object("--condition", "condition", "When it holds").required(),
            array("--actions", "actions", "What it does").required(),
            object("--extra", "extra_input", "Further attributes"),
        ])
        .shows(Show::With(shapes::condition_created)),
    Command::new("field-condition update", "update_field_condition", "Change a field condition")
        .takes(&[
            id("condition_id", "Field condition id"),
            object("--extra", "extra_input", "What to change").required(),
        ])
        .shows(Show::With(shapes::condition_updated)),
    Command::new("field-condition delete", "delete_field_condition", "Delete a field condition for good")
        .takes(&[id("condition_id", "Field condition id")])
        .deletes(|given| named("field condition", "condition_id", given))
        .shows(Show::With(shapes::success)),
];
