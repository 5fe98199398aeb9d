//! E-mail of cards, and attachments.

use serde_json::{Map, Value};

use crate::command::{Command, Consent, Preset, Show, commas, int, object, path, text};
use crate::failure::Failure;
use crate::shapes;
use crate::values;

pub(super) static EMAILS: &[Command] = &[
    Command::new("email inbox list", "get_card_inbox_emails", "List the e-mails of a card")
        .takes(&[text("--card", "card_id", "Card id").required(), text("--type", "email_type", "sent or received")]),
    Command::new(
        "email inbox send",
        "send_inbox_email",
        "Send an e-mail from a card; without --yes the draft is shown",
    )
    .takes(&[
        text("--card", "card_id", "Card id").required(),
        commas("--to", "to", "Addresses").required(),
        text("--subject -s", "subject", "Subject").required(),
        text("--body -b", "body", "Text").required(),
        text("--from-email", "from_", "Sender").required(),
        object("--extra", "extra_input", "Further attributes"),
    ])
    .consent(Consent::Draft),
    Command::new("email template list", "get_email_templates", "List the e-mail templates of a pipe").takes(&[
        text("--repo", "repo_id", "Pipe id").required(),
        text("--name", "filter_by_name", "Only names that contain this"),
        int("--first", "first", "Templates at most").or(Preset::Int(50)),
    ]),
    Command::new(
        "email template send",
        "send_email_with_template",
        "Send a template from a card; without --yes the draft is shown",
    )
    .takes(&[
        text("--card", "card_id", "Card id").required(),
        text("--template", "email_template_id", "Template id").required(),
        commas("--to", "to", "Addresses, instead of the template's"),
        text("--from-email", "from_", "Sender"),
        object("--extra", "extra_input", "Further attributes"),
    ])
    .consent(Consent::Draft),
];

pub(super) static ATTACHMENTS: &[Command] = &[
    Command::new("attachment upload", "upload_attachment_to_card", "Upload a file to a field of a card or record")
        .takes(&[
            path("--file -f", "file_path", "File").required(),
            text("--card", "card_id", "Card id"),
            text("--record", "table_record_id", "Record id"),
            text("--organization --org", "organization_id", "Organization id").required(),
            text("--field", "field_id", "Field id").required(),
            text("--content-type", "content_type", "MIME type, instead of the one its name suggests"),
        ])
        .or(&["upload_attachment_to_table_record"], card_or_record)
        .shows(Show::With(shapes::uploaded)),
    Command::new("attachment presign", "create_attachment_presigned_url", "Get a URL to upload an attachment to")
        .takes(&[
            text("--file-name", "file_name", "File name").required(),
            text("--organization --org", "organization_id", "Organization id").required(),
            text("--content-type", "content_type", "MIME type"),
            int("--content-length", "content_length", "Bytes"),
        ])
        .shows(Show::With(shapes::presigned)),
];

fn card_or_record(args: &mut Map<String, Value>) -> Result<&'static str, Failure> {
    let tool = match (args.contains_key("card_id"), args.contains_key("table_record_id")) {
        (true, false) => "upload_attachment_to_card",
        (false, true) => "upload_attachment_to_table_record",
        _ => return Err(Failure::usage("Provide exactly one of --card and --record")),
    };
    values::readable(args, "file_path", "--file")?;
    Ok(tool)
}
