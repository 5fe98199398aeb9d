//! Cards and their comments.

use crate::command::{Command, Shape, Show, array, commas, flag, id, int, json, named, object, text, word};
use crate::{bulk, shapes};

pub(super) static COMMANDS: &[Command] = &[
    Command::new("card get", "get_card", "Show a card: title, pipe, phase and, on request, its field values").takes(&[
        id("card_id", "Card id"),
        flag("--include-fields", "include_fields", "Also show field names and values"),
    ]),
    Command::new("card list", "get_cards", "List the cards of a pipe").takes(&[
        text("--pipe", "pipe_id", "Pipe id").required(),
        text("--title -t", "title", "Only cards whose title contains this; wins over a title in --search"),
        object("--search", "search", "title, assignee_ids, label_ids, ignore_ids, include_done, inbox_emails_read"),
        flag("--include-fields", "include_fields", "Also show field names and values"),
        int("--first", "first", "Page size; Pipefy gives at most 50").range(1, 500),
        text("--after", "after", "Cursor: the endCursor of the page before"),
    ]),
    Command::new("card records", "get_records", "List the cards of a pipe that meet conditions, in an order").takes(&[
        text("--pipe", "pipe_id", "Pipe id").required(),
        object("--where", "where", "Conditions"),
        text("--search-term", "search_term", "Text to look for"),
        text("--phase", "phase_id", "Only cards in this phase"),
        json("--order-by", "order_by", Shape::Array, "Order, most important first"),
        flag("--include-fields", "include_fields", "Also show field names and values"),
        int("--first", "first", "Page size").range(1, 50),
        text("--after", "after", "Cursor: the endCursor of the page before"),
    ]),
    Command::new("card find", "find_cards", "Find the cards of a pipe by the value of a field").takes(&[
        text("--pipe", "pipe_id", "Pipe id").required(),
        text("--field", "field_id", "Field id (slug)").required(),
        text("--value", "field_value", "Value to look for").required(),
        flag("--include-fields", "include_fields", "Also show field names and values"),
        int("--first", "first", "Page size"),
        text("--after", "after", "Cursor: the endCursor of the page before"),
    ]),
    Command::new("card create", "create_card", "Create a card").takes(&[
        id("pipe_id", "Pipe id"),
        text("--title -t", "title", "Title"),
        text("--phase-id", "phase_id", "Phase to create it in, instead of the first one"),
        json(
            "--fields",
            "fields",
            Shape::ObjectOrArray,
            "Field values: {\"field_id\": value} or a list of field and value",
        ),
    ]),
    Command::new("card update", "update_card", "Change a card: title, due date, assignees, labels, field values")
        .takes(&[
            id("card_id", "Card id"),
            text("--title -t", "title", "New title"),
            text("--due-date", "due_date", "New due date, ISO 8601"),
            commas("--assignee-ids", "assignee_ids", "User ids that replace the assignees"),
            commas("--label-ids", "label_ids", "Label ids that replace the labels"),
            array(
                "--field-updates",
                "field_updates",
                "Changes of field values: [{\"field_id\", \"value\", \"operation\"}]",
            ),
        ]),
    Command::new("card move", "move_card_to_phase", "Move a card to another phase of its pipe").takes(&[
        id("card_id", "Card id"),
        text("--phase", "destination_phase_id", "Id of the phase to move to").required(),
    ]),
    Command::new("card fill", "fill_card_phase_fields", "Fill in the fields of a phase of a card").takes(&[
        id("card_id", "Card id"),
        text("--phase", "phase_id", "Id of the phase that has the fields").required(),
        json("--fields", "fields", Shape::Object, "Field values: {\"field_id\": value}").required(),
        flag("--required-only", "required_fields_only", "Ignore what is not required"),
    ]),
    Command::new("card delete", "delete_card", "Delete a card for good")
        .takes(&[id("card_id", "Card id")])
        .deletes(|given| named("card", "card_id", given))
        .shows(Show::Done("deleteCard")),
    Command::new("card comment add", "add_card_comment", "Comment on a card")
        .takes(&[id("card_id", "Card id"), word("text", "The comment, 1 to 1000 characters")])
        .shows(Show::With(shapes::comment_added)),
    Command::new("card comment update", "update_comment", "Replace the text of a comment")
        .takes(&[id("comment_id", "Comment id"), word("text", "The comment, 1 to 1000 characters")])
        .shows(Show::With(shapes::comment_updated)),
    Command::new("card comment delete", "delete_comment", "Delete a comment for good")
        .takes(&[id("comment_id", "Comment id")])
        .deletes(|given| named("comment", "comment_id", given))
        .shows(Show::Done("deleteComment")),
    Command::new(
        "card import",
        "bulk_import_cards",
        "Create a card for every row of a file whose key is not there yet",
    )
    .flow(&[], bulk::import_cards)
    .takes(&bulk::imports(text("--pipe", "pipe_id", "Pipe id").required())),
    Command::new(
        "card export",
        "bulk_export_cards",
        "Show all cards of a pipe with their values, a row each; see --format",
    )
    .flow(&[], bulk::export_cards)
    .takes(&bulk::exports(text("--pipe", "pipe_id", "Pipe id").required())),
];
