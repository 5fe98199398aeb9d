#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};

fn inbox() -> Value {
    json!({"card_id": "5", "to": [" a@example.com "], "subject": " S ", "body": "B", "from_": " me@example.com ",
        "extra_input": {"cc": ["c@example.com"], "none": null}})
}

fn card() -> Value {
    json!({"id": "5", "uuid": "u-5", "pipe": {"id": "123", "name": "P"}})
}

fn sent() -> Value {
    json!({"emailSent": true, "errors": [], "inboxEmail": {"id": "1"}})
}

fn template() -> Value {
    json!({"subject": "Sub", "body": "<p>Hi</p>", "fromEmail": "tpl@example.com", "toEmail": "a@example.com, b@example.com,"})
}

#[tokio::test]
async fn sending_holds_to_the_rules_of_writes() {
    let sent = WriteRules::new("send_inbox_email", inbox())
        .read("card", card())
        .write("createAndSendInboxEmail", sent())
        .check()
        .await;
    let input = json!({"cardId": "5", "from": "me@example.com", "subject": "S", "to": ["a@example.com"], "text": "B",
        "cc": ["c@example.com"], "repoId": "123"});
    assert_eq!(sent[0].variables["input"], input);
}

#[tokio::test]
async fn the_preview_shows_the_whole_message_and_asks_nothing_of_pipefy() {
    let mock = Mock::new();
    let preview = mock.reply("send_inbox_email", inbox()).await;
    assert!(mock.sent().is_empty());
    assert_eq!(preview["resource"], "email from card 5 to a@example.com");
    let email = r#"{"card_id":"5","to":["a@example.com"],"subject":"S","body":"B","from_":"me@example.com","extra":{"cc":["c@example.com"],"none":null}}"#;
    assert_eq!(preview["email"].to_string(), email);
    let message = preview["message"].as_str().unwrap();
    assert!(message.contains("cannot be undone") && message.contains("explicit approval"));
}

#[tokio::test]
async fn an_approval_covers_this_message_only() {
    for (key, value) in [("body", json!("B2")), ("to", json!(["x@example.com"])), ("extra_input", json!({"cc": []}))] {
        let mock = Mock::new();
        let preview = mock.reply("send_inbox_email", inbox()).await;
        let mut arguments = inbox();
        arguments[key] = value;
        arguments["confirm"] = true.into();
        arguments["confirmation_token"] = preview["confirmation_token"].clone();
        let reply = mock.reply("send_inbox_email", arguments).await;
        assert_eq!(reply["requires_confirmation"], true, "{key}: {reply}");
        assert!(mock.sent().is_empty());
    }
}

#[tokio::test]
async fn without_a_readable_card_the_e_mail_goes_out_without_its_pipe() {
    for mock in [Mock::new().on("card", Value::Null), Mock::new().error("card", "no", "PERMISSION_DENIED")] {
        let mock = mock.on("createAndSendInboxEmail", json!({"emailSent": false, "errors": ["x"], "inboxEmail": null}));
        let reply = mock.confirmed("send_inbox_email", inbox()).await;
        assert_eq!(reply["success"], true, "{reply}");
        assert!(reply["message"].as_str().unwrap().contains("nothing went out"));
        assert!(mock.writes()[0].variables["input"].get("repoId").is_none());
    }
    let mut arguments = inbox();
    arguments["extra_input"] = json!({"repoId": "9"});
    let mock = Mock::new().on("createAndSendInboxEmail", sent());
    mock.confirmed("send_inbox_email", arguments).await;
    assert_eq!((mock.roots().len(), &mock.writes()[0].variables["input"]["repoId"]), (1, &json!("9")));
}

#[tokio::test]
async fn bad_input_is_refused_before_the_preview() {
    for (key, value) in [
        ("to", json!([])),
        ("to", json!([" "])),
        ("subject", json!(" ")),
        ("from_", json!("")),
        ("card_id", json!(0)),
        ("extra_input", json!({"to": ["x@example.com"]})),
        ("extra_input", json!({"cardId": "6"})),
        ("extra_input", json!({"from": "x@example.com"})),
    ] {
        let mock = Mock::new();
        let mut arguments = inbox();
        arguments[key] = value;
        let reply = mock.reply("send_inbox_email", arguments).await;
        assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS", "{key}: {reply}");
        assert!(mock.sent().is_empty());
    }
    for arguments in [
        json!({"card_id": "abc", "email_template_id": "8"}),
        json!({"card_id": "5", "email_template_id": "8", "to": [" "]}),
        json!({"card_id": "5", "email_template_id": "8", "from_": " "}),
        json!({"card_id": "5", "email_template_id": "8", "extra_input": {"subject": "x"}}),
    ] {
        let mock = Mock::new();
        let reply = mock.reply("send_email_with_template", arguments).await;
        assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS", "{reply}");
        assert!(mock.sent().is_empty());
    }
}

#[tokio::test]
async fn a_template_s_message_is_shown_then_sent_once() {
    let mock =
        || Mock::new().on("card", card()).on("parsedEmailTemplate", template()).on("createAndSendInboxEmail", sent());
    let arguments = json!({"card_id": "5", "email_template_id": "8"});
    let ready = mock();
    let preview = ready.reply("send_email_with_template", arguments.clone()).await;
    let email = json!({"card_id": "5", "to": ["a@example.com", "b@example.com"], "subject": "Sub", "body": "<p>Hi</p>",
        "from_": "tpl@example.com", "extra": {"repoId": "123"}});
    assert_eq!((&preview["email"], &preview["email_template_id"]), (&email, &json!("8")));
    let ready = mock();
    let reply = ready.confirmed("send_email_with_template", arguments.clone()).await;
    assert_eq!(reply["success"], true, "{reply}");
    assert_eq!(
        ready.roots(),
        ["card", "parsedEmailTemplate", "card", "parsedEmailTemplate", "createAndSendInboxEmail"]
    );
    let input = json!({"cardId": "5", "from": "tpl@example.com", "subject": "Sub", "to": ["a@example.com", "b@example.com"],
        "text": "<p>Hi</p>", "repoId": "123"});
    assert_eq!(ready.writes()[0].variables["input"], input);
    let read_only = mock().read_only();
    let reply = read_only.reply("send_email_with_template", arguments.clone()).await;
    assert_eq!(reply["error"]["code"], "READ_ONLY");
    assert!(read_only.writes().is_empty());
    let mut dry = arguments;
    dry["dry_run"] = true.into();
    let dried = mock();
    let reply = dried.reply("send_email_with_template", dry).await;
    assert_eq!(reply["steps"][0]["variables"]["input"], input);
    assert!(dried.writes().is_empty());
}

#[tokio::test]
async fn a_changed_template_needs_a_new_approval_and_a_callers_pipe_stays() {
    let mut changed = template();
    changed["subject"] = "Other".into();
    let mock = Mock::new().on("card", card()).on("parsedEmailTemplate", template()).on("parsedEmailTemplate", changed);
    let reply = mock.confirmed("send_email_with_template", json!({"card_id": "5", "email_template_id": "8"})).await;
    assert_eq!(reply["requires_confirmation"], true, "{reply}");
    let mut copied = template();
    copied["ccEmail"] = "boss@example.com".into();
    let mock = Mock::new().on("card", card()).on("parsedEmailTemplate", copied);
    let arguments = json!({"card_id": "5", "email_template_id": "8", "extra_input": {"repoId": "9"}});
    let reply = mock.reply("send_email_with_template", arguments).await;
    assert_eq!(reply["email"]["extra"], json!({"repoId": "9"}));
    assert!(reply["message"].as_str().unwrap().contains("cc and bcc are not used"), "{reply}");
}

#[tokio::test]
async fn what_a_template_lacks_is_said() {
    for (missing, word) in [("fromEmail", "from_"), ("toEmail", "`to`")] {
        let mut lacking = template();
        lacking[missing] = Value::Null;
        let mock = Mock::new().on("card", card()).on("parsedEmailTemplate", lacking);
        let reply = mock.reply("send_email_with_template", json!({"card_id": "5", "email_template_id": "8"})).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains(word), "{reply}");
    }
    let mock = Mock::new().on("card", json!({"id": "5", "uuid": null, "pipe": null}));
    let reply = mock.reply("send_email_with_template", json!({"card_id": "5", "email_template_id": "8"})).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("uuid"), "{reply}");
    let mock = Mock::new().on("card", card()).error("parsedEmailTemplate", "gone", "RESOURCE_NOT_FOUND");
    let reply = mock.reply("send_email_with_template", json!({"card_id": "5", "email_template_id": "8"})).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("get_email_templates"), "{reply}");
}

#[tokio::test]
async fn listings_filter_and_bound() {
    let emails = json!({"id": "5", "inbox_emails": [{"id": "1", "type": "sent"}, {"id": "2", "type": "Received"}]});
    let mock = Mock::new().on("card", emails.clone());
    let reply = mock.reply("get_card_inbox_emails", json!({"card_id": 5, "email_type": " RECEIVED "})).await;
    assert_eq!(reply["result"]["card"]["inbox_emails"], json!([{"id": "2", "type": "Received"}]));
    let reply = mock.reply("get_card_inbox_emails", json!({"card_id": 5, "email_type": " "})).await;
    assert_eq!(reply["result"], json!({"card": emails}));
    let reply = Mock::new()
        .on("card", Value::Null)
        .reply("get_card_inbox_emails", json!({"card_id": 5, "email_type": "sent"}))
        .await;
    assert_eq!(reply["result"], json!({"card": {}}));
    let mock = Mock::new();
    assert_eq!(mock.reply("get_card_inbox_emails", json!({"card_id": 5, "email_type": "x"})).await["success"], false);
    assert_eq!(
        mock.reply("get_email_templates", json!({"repo_id": 5, "first": 0})).await["error"]["details"]["max"],
        500
    );
    assert!(mock.sent().is_empty());
    let mock = Mock::new().on("emailTemplates", json!({"edges": []}));
    mock.reply("get_email_templates", json!({"repo_id": 5, "filter_by_name": " "})).await;
    assert_eq!(mock.sent()[0].variables, json!({"repoId": "5", "first": 50}));
}

#[tokio::test]
async fn one_approval_sends_one_e_mail() {
    let mock = Mock::new().on("card", card()).on("createAndSendInboxEmail", sent());
    let preview = mock.reply("send_inbox_email", inbox()).await;
    let mut arguments = inbox();
    arguments["confirm"] = true.into();
    arguments["confirmation_token"] = preview["confirmation_token"].clone();
    assert_eq!(mock.reply("send_inbox_email", arguments.clone()).await["success"], true);
    let again = mock.reply("send_inbox_email", arguments.clone()).await;
    assert_eq!((&again["requires_confirmation"], mock.writes().len()), (&json!(true), 1), "{again}");
    // The new preview is an approval of its own.
    arguments["confirmation_token"] = again["confirmation_token"].clone();
    assert_eq!(mock.reply("send_inbox_email", arguments).await["success"], true);
    assert_eq!(mock.writes().len(), 2);
}

#[tokio::test]
async fn an_approval_outlives_an_act_that_never_reached_pipefy() {
    let lost = |sent| pipefy::Error::Transport {
        endpoint: pipefy::EndpointKind::Public,
        cause: "refused".to_owned(),
        sent,
        kind: pipefy::OperationKind::Mutation,
    };
    for (left_this_machine, approvals) in [(false, 1), (true, 2)] {
        let mock = Mock::new()
            .on("card", card())
            .failing("createAndSendInboxEmail", lost(left_this_machine))
            .on("createAndSendInboxEmail", sent());
        let preview = mock.reply("send_inbox_email", inbox()).await;
        let mut arguments = inbox();
        arguments["confirm"] = true.into();
        arguments["confirmation_token"] = preview["confirmation_token"].clone();
        assert_eq!(mock.reply("send_inbox_email", arguments.clone()).await["success"], false);
        let again = mock.reply("send_inbox_email", arguments).await;
        let asked = 1 + usize::from(again["requires_confirmation"] == true);
        assert_eq!(asked, approvals, "{again}");
    }
}

#[tokio::test]
async fn an_e_mail_that_was_sent_is_looked_for_among_those_of_its_card() {
    for (emails, verified) in [(json!([{"id": 1}]), json!(true)), (json!([]), json!(false)), (Value::Null, Value::Null)]
    {
        let shown = json!({"id": "5", "pipe": {"id": "123"}, "inbox_emails": emails});
        let mock = Mock::new().on("card", shown).on("createAndSendInboxEmail", sent());
        let mut arguments = inbox();
        arguments["verify"] = true.into();
        let reply = mock.confirmed("send_inbox_email", arguments).await;
        assert_eq!(reply["verification"]["verified"], verified, "{reply}");
    }
}
