//! Organizations, members, service accounts, labels, webhooks, relations.

use serde_json::{Map, Value};

use crate::command::{Command, Preset, Show, array, commas, id, int, named, object, text, words};
use crate::failure::Failure;
use crate::flows;
use crate::shapes;

pub(super) static ORGANIZATIONS: &[Command] =
    &[
        Command::new("org list", "list_organizations", "List the organizations this account belongs to")
            .shows(Show::At("organizations")),
        Command::new("org get", "get_organization", "Show an organization")
            .flow(&[], flows::organization)
            .takes(&[id("organization_id", "Organization id; PIPEFY_ORG_ID when not given").optional()]),
    ];

pub(super) static MEMBERS: &[Command] = &[
    Command::new("member list", "get_pipe_members", "List the members of a pipe")
        .takes(&[text("--pipe", "pipe_id", "Pipe id").required()]),
    Command::new("member invite", "invite_members", "Invite people to a pipe").takes(&[
        text("--pipe", "pipe_id", "Pipe id").required(),
        array("--members", "members", "[{\"email\", \"role_name\"}]").required(),
    ]),
    Command::new(
        "member add-service-account",
        "add_service_account_to_pipe",
        "Make a service account a member of a pipe",
    )
    .takes(&[
        text("--pipe", "pipe_id", "Pipe id").required(),
        text("--email", "email", "E-mail address of the service account").required(),
        text("--role", "role_name", "Role").or(Preset::Text("admin")),
    ]),
    Command::new("member remove", "remove_member_from_pipe", "Remove members from a pipe")
        .takes(&[
            text("--pipe", "pipe_id", "Pipe id").required(),
            words("--user-ids", "user_ids", "User ids").required(),
        ])
        .asks("remove", removed)
        .shows(Show::With(shapes::members_removed)),
    Command::new("member set-role", "set_role", "Set the role of a member of a pipe").takes(&[
        text("--pipe", "pipe_id", "Pipe id").required(),
        text("--member", "member_id", "User id").required(),
        text("--role", "role_name", "Role").required(),
    ]),
];

fn removed(given: &Map<String, Value>) -> String {
    let count = given.get("user_ids").and_then(Value::as_array).map_or(0, Vec::len);
    let noun = if count == 1 { "member" } else { "members" };
    format!("{count} {noun} from {}", named("pipe", "pipe_id", given))
}

pub(super) static SERVICE_ACCOUNTS: &[Command] = &[
    Command::new(
        "service-account create",
        "create_service_account",
        "Create a service account; its secret is shown once",
    )
    .takes(&[
        text("--org", "organization_uuid", "Organization uuid").required(),
        text("--name", "name", "Name, 1 to 20 characters").required(),
        text("--role", "role", "Role in the organization").or(Preset::Text("normal")),
        text("--description", "description", "Description"),
        text("--expiration-unit", "expiration_unit", "seconds, minutes, hours or days, with --expiration-value"),
        int("--expiration-value", "expiration_value", "How long its secret is valid"),
        words("--pipe-ids", "pipe_ids", "Pipes it becomes a member of"),
        text("--pipe-role", "pipe_role", "Role in these pipes").or(Preset::Text("admin")),
    ])
    .shows(Show::With(shapes::service_account)),
    Command::new("service-account delete", "delete_service_account", "Delete a service account for good")
        .takes(&[
            text("--org", "organization_uuid", "Organization uuid").required(),
            text("--id", "service_account_uuid", "Service account uuid").required(),
        ])
        .deletes(|given| named("service account", "service_account_uuid", given))
        .shows(Show::With(shapes::service_account_deleted)),
];

pub(super) static LABELS: &[Command] = &[
    Command::new("label list", "get_labels", "List the labels of a pipe")
        .takes(&[text("--pipe", "pipe_id", "Pipe id").required()])
        .shows(Show::Told),
    Command::new("label create", "create_label", "Create a label").prepare(label).takes(&[
        text("--pipe", "pipe_id", "Pipe id").required(),
        text("--name -n", "name", "Name").required(),
        text("--color -c", "color", "#RGB or #RRGGBB").required(),
    ]),
    Command::new("label update", "update_label", "Change a label").prepare(label).takes(&[
        id("label_id", "Label id"),
        text("--name -n", "name", "New name").required(),
        text("--color -c", "color", "#RGB or #RRGGBB").required(),
    ]),
    Command::new("label delete", "delete_label", "Delete a label for good")
        .takes(&[id("label_id", "Label id")])
        .deletes(|given| named("label", "label_id", given)),
];

/// A name, and a colour in one spelling.
fn label(args: &mut Map<String, Value>) -> Result<(), Failure> {
    let text = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    if text("name").is_empty() {
        return Err(Failure::usage("--name must not be blank"));
    }
    let color = text("color");
    let digits: Vec<char> = color.strip_prefix('#').unwrap_or_default().chars().collect();
    let full: String = match digits.len() {
        3 => digits.iter().flat_map(|digit| [*digit, *digit]).collect(),
        _ => digits.iter().collect(),
    };
    if full.len() != 6 || !full.chars().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(Failure::usage(format!("--color: expected #RGB or #RRGGBB hex color, received {color}")));
    }
    args.insert("color".to_owned(), format!("#{}", full.to_ascii_uppercase()).into());
    Ok(())
}

pub(super) static WEBHOOKS: &[Command] = &[
    Command::new("webhook list", "get_webhooks", "List the webhooks of a pipe")
        .takes(&[text("--pipe", "pipe_id", "Pipe id").required()]),
    Command::new("webhook create", "create_webhook", "Create a webhook").takes(&[
        text("--pipe", "pipe_id", "Pipe id").required(),
        text("--url", "url", "Where Pipefy sends events").required(),
        array("--actions", "actions", "Events, e.g. [\"card.create\"]").required(),
        object("--extra", "extra_input", "Further attributes, e.g. name, headers"),
    ]),
    Command::new("webhook update", "update_webhook", "Change a webhook").prepare(headers).takes(&[
        id("webhook_id", "Webhook id"),
        text("--name", "name", "New name"),
        text("--url", "url", "New address"),
        array("--actions", "actions", "Events that replace the present ones"),
        text("--headers", "headers", "JSON object that replaces the headers; blank for none"),
    ]),
    Command::new("webhook delete", "delete_webhook", "Delete a webhook for good")
        .takes(&[id("webhook_id", "Webhook id")])
        .deletes(|given| named("webhook", "webhook_id", given)),
];

/// Blank headers mean none at all, where other options mean "not given".
fn headers(args: &mut Map<String, Value>) -> Result<(), Failure> {
    if let Some(text) = args.get("headers").and_then(Value::as_str) {
        let read = crate::values::json(text, crate::command::Shape::Object)
            .map_err(|what| Failure::usage(format!("--headers {what}")))?;
        args.insert("headers".to_owned(), read.unwrap_or_else(|| Map::new().into()));
    }
    Ok(())
}

pub(super) static RELATIONS: &[Command] = &[
    Command::new("relation pipe list", "get_pipe_relations", "List the relations of a pipe")
        .takes(&[id("pipe_id", "Pipe id")]),
    Command::new("relation pipe create", "create_pipe_relation", "Connect two pipes").takes(&[
        text("--parent", "parent_id", "Parent pipe id").required(),
        text("--child", "child_id", "Child pipe id").required(),
        text("--name -n", "name", "Name").required(),
        object("--extra", "extra_input", "Further attributes"),
    ]),
    Command::new("relation pipe update", "update_pipe_relation", "Change a relation of pipes").takes(&[
        id("relation_id", "Relation id"),
        text("--name -n", "name", "New name").required(),
        object("--extra", "extra_input", "Further attributes"),
    ]),
    Command::new("relation pipe delete", "delete_pipe_relation", "Delete a relation of pipes for good")
        .takes(&[id("relation_id", "Relation id")])
        .deletes(|given| named("pipe relation", "relation_id", given)),
    Command::new("relation table list", "get_table_relations", "Show relations of tables").takes(&[commas(
        "--ids",
        "relation_ids",
        "Relation ids",
    )
    .required()]),
    Command::new("relation card list", "get_card_relations", "List the cards connected to a card")
        .takes(&[id("card_id", "Card id")])
        .shows(Show::Under("card")),
    Command::new("relation card create", "create_card_relation", "Connect two cards").takes(&[
        text("--parent", "parent_id", "Parent card id").required(),
        text("--child", "child_id", "Child card id").required(),
        text("--source", "source_id", "Id of the pipe relation").required(),
        object("--extra", "extra_input", "Further attributes"),
    ]),
    Command::new("relation card delete", "delete_card_relation", "Disconnect two cards")
        .takes(&[
            text("--child", "child_id", "Child card id").required(),
            text("--parent", "parent_id", "Parent card id").required(),
            text("--source", "source_id", "Id of the pipe relation").required(),
        ])
        .deletes(|given| {
            format!("relation between {} and {}", named("card", "parent_id", given), named("card", "child_id", given))
        }),
];
