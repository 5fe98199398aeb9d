#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use pipefy::OperationKind;
use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};
use crate::{Answer, AskError};

fn start_form() -> Value {
    json!({"start_form_fields": [
        {"id": "title_f", "type": "short_text", "label": "Title", "description": "d", "required": true, "options": []},
        {"id": "amount", "type": "number", "label": "Amount", "required": false, "editable": true},
        {"id": "kind", "type": "select", "label": "Kind", "options": ["a", "b"]},
        {"id": "owner", "type": "assignee_select", "label": "Owner"},
        {"id": "day", "type": "date", "label": "Day"},
        {"id": "locked", "type": "short_text", "label": "Locked", "editable": false}
    ]})
}

fn phase(fields: Value) -> Value {
    json!({"id": "9", "name": "Doing", "fields": fields})
}

fn number_field() -> Value {
    json!([{"id": "amount", "type": "number", "label": "Amount"}])
}

fn created(title: &str) -> Value {
    json!({"card": {"id": "77", "title": title}})
}

fn attributes(mock: &Mock) -> Value {
    mock.writes()[0].variables["input"]["fields_attributes"].clone()
}

#[tokio::test]
async fn writes_hold_to_the_rules() {
    let card = json!({"id": "5", "title": "T", "pipe": {"name": "P"}, "current_phase": {"id": "1", "name": "Now"}});
    let membership = json!({"members": [{"user": {"id": "1"}}], "start_form_fields": []});
    for rules in [
        WriteRules::new("create_card", json!({"pipe_id": 1, "title": "T"}))
            .read("pipe", membership)
            .write("createCard", created("T")),
        WriteRules::new("update_card", json!({"card_id": 5, "title": "T", "label_ids": [1], "assignee_ids": []}))
            .read("card", card.clone())
            .write("updateCard", json!({"card": {"id": "5"}})),
        WriteRules::new("update_card", json!({"card_id": 5, "field_updates": [{"field_id": "f", "value": 1}]}))
            .read("card", card.clone())
            .write("updateFieldsValues", json!({"success": true}))
            .judged_by_reader(),
        WriteRules::new("update_card_field", json!({"card_id": 5, "field_id": "f", "new_value": "[\"1\"]"}))
            .read("card", card.clone())
            .write("updateCardField", json!({"success": true}))
            .judged_by_reader(),
        WriteRules::new("fill_card_phase_fields", json!({"card_id": 5, "phase_id": 9, "fields": {"amount": 1}}))
            .read("card", card.clone())
            .read("phase", phase(number_field()))
            .write("updateFieldsValues", json!({"success": true}))
            .judged_by_reader(),
        WriteRules::new("move_card_to_phase", json!({"card_id": 5, "destination_phase_id": 2}))
            .read("card", card.clone())
            .read("phase", json!({"id": "1", "name": "Now", "cards_can_be_moved_to_phases": [{"id": "2"}]}))
            .write("moveCardToPhase", json!({"clientMutationId": null})),
        WriteRules::new("delete_card", json!({"card_id": 5}))
            .read("card", card.clone())
            .write("deleteCard", json!({"success": true})),
    ] {
        rules.check().await;
    }
}

#[tokio::test]
async fn a_zero_id_is_refused_before_anything_is_sent() {
    for (tool, arguments) in [
        ("create_card", json!({"pipe_id": "0"})),
        ("create_card", json!({"pipe_id": "1", "phase_id": "000"})),
        ("update_card", json!({"card_id": "-5"})),
        ("update_card_field", json!({"card_id": 0, "field_id": "f", "new_value": 1})),
        ("fill_card_phase_fields", json!({"card_id": "1", "phase_id": "0"})),
        ("find_cards", json!({"pipe_id": "0", "field_id": "f", "field_value": "v"})),
        ("get_records", json!({"pipe_id": "0"})),
        ("get_records", json!({"pipe_id": "1", "phase_id": "0"})),
    ] {
        let mock = Mock::new();
        let reply = mock.reply(tool, arguments).await;
        assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS", "{tool}: {reply}");
        assert!(mock.sent().is_empty());
    }
}

#[tokio::test]
async fn create_card_sends_known_values_and_names_the_rest() {
    let mock = Mock::new().on("pipe", start_form()).on("createCard", created("T"));
    let fields = json!({"amount": 3, "locked": 2, "nope": 1, "title_f": "v"});
    let reply = mock
        .reply("create_card", json!({"pipe_id": 1, "fields": fields, "title": " ", "required_fields_only": true}))
        .await;
    assert_eq!(
        reply,
        json!({
            "createCard": created("T"),
            "card_link": "[https://app.pipefy.com/open-cards/77](https://app.pipefy.com/open-cards/77)",
            "skipped_field_ids": ["nope", "locked"],
        })
    );
    assert_eq!(
        mock.writes()[0].variables,
        json!({"input": {"pipe_id": "1", "fields_attributes": [
            {"field_id": "title_f", "field_value": "v", "generated_by_ai": true},
            {"field_id": "amount", "field_value": 3, "generated_by_ai": true}
        ]}})
    );
}

#[tokio::test]
async fn without_any_definition_values_go_as_given_and_with_only_locked_ones_none_goes() {
    let mock = Mock::new()
        .on("phase", phase(json!([])))
        .on("pipe", json!({"start_form_fields": null}))
        .on("createCard", created("T"));
    mock.reply("create_card", json!({"pipe_id": 1, "phase_id": 9, "fields": {"a": 1}})).await;
    assert_eq!(attributes(&mock).as_array().unwrap().len(), 1);
    assert_eq!(mock.writes()[0].variables["input"]["phase_id"], "9");

    let locked = json!({"start_form_fields": [{"id": "a", "type": "number", "editable": false}]});
    let mock = Mock::new().on("pipe", locked).on("createCard", created("T"));
    let reply = mock.reply("create_card", json!({"pipe_id": 1, "fields": {"a": 1}})).await;
    assert_eq!(attributes(&mock), json!([]));
    assert_eq!(reply["skipped_field_ids"], json!(["a"]));
}

#[tokio::test]
async fn a_form_sends_what_was_entered_kept_or_given_and_nothing_empty() {
    let content = json!({"title_f": "v", "amount": "5", "kind": null, "owner": "", "day": null});
    let accept = Ok(Answer::Accept(content.as_object().unwrap().clone()));
    let mock = Mock::new().on("pipe", start_form()).on("createCard", created("T")).person(accept);
    let fields = json!({"day": "2026-01-02", "owner": ["1"], "nope": 1});
    let reply = mock.reply("create_card", json!({"pipe_id": 1, "fields": fields})).await;
    assert_eq!(reply["skipped_field_ids"], json!(["nope"]));
    let sent: Vec<Value> =
        attributes(&mock).as_array().unwrap().iter().map(|a| json!([a["field_id"], a["field_value"]])).collect();
    // `day` was emptied in the form; `owner` is a list, so no form could show it.
    assert_eq!(sent, [json!(["title_f", "v"]), json!(["amount", 5]), json!(["owner", ["1"]])]);
    let (message, schema) = &mock.forms()[0];
    assert!(message.contains("pipe 1"));
    assert_eq!(
        *schema,
        json!({
            "type": "object", "title": "DynamicFormModel", "required": ["title_f"],
            "properties": {
                "title_f": {"type": "string", "title": "Title", "description": "d"},
                "amount": {"type": "number", "title": "Amount", "description": ""},
                "kind": {"type": "string", "title": "Kind", "description": "", "enum": ["a", "b"]},
                "day": {"type": "string", "title": "Day", "description": "", "format": "date", "default": "2026-01-02"},
            }
        })
    );
}

#[tokio::test]
async fn a_form_that_is_declined_or_does_not_fit_sends_nothing_and_a_lost_one_falls_back() {
    let fit = |content: Value| Ok(Answer::Accept(content.as_object().unwrap().clone()));
    for (answer, needle) in [
        (Ok(Answer::Decline), "cancelled"),
        (Ok(Answer::Cancel), "cancelled"),
        (Err(AskError::Failed("no content".to_owned())), "no usable answer"),
        (fit(json!({})), "required"),
        (fit(json!({"title_f": 5})), "must be text"),
        (fit(json!({"title_f": "a", "amount": "x"})), "must be a number"),
    ] {
        let mock = Mock::new().on("pipe", start_form()).person(answer);
        let reply = mock.reply("create_card", json!({"pipe_id": 1})).await;
        assert!(reply["error"]["message"].as_str().unwrap().contains(needle), "{reply}");
        assert!(mock.writes().is_empty());
    }
    for (answer, skip) in [(Err(AskError::Closed), false), (Ok(Answer::Decline), true)] {
        let mock = Mock::new().on("pipe", start_form()).on("createCard", created("T")).person(answer);
        mock.reply("create_card", json!({"pipe_id": 1, "fields": {"amount": 1}, "skip_elicitation": skip})).await;
        assert_eq!(attributes(&mock)[0]["field_id"], "amount");
    }
}

#[tokio::test]
async fn create_card_explains_what_may_be_wrong() {
    let denied = |members: Value| {
        let pipe = json!({"name": "Sales", "members": members, "start_form_fields": start_form()["start_form_fields"]});
        Mock::new().on("pipe", pipe).error("createCard", "Permission denied", "PERMISSION_DENIED")
    };
    let message = |reply: &Value| reply["error"]["message"].as_str().unwrap().to_owned();
    let reply = denied(json!([])).reply("create_card", json!({"pipe_id": 1, "fields": {"owner": "Ana"}})).await;
    let text = message(&reply);
    assert!(text.contains("may not be a member of Sales (ID: 1)") && text.contains("`invite_members`"), "{text}");
    assert!(
        text.contains("\nPermission denied") && text.contains("Field `owner` (assignee_select) takes user ids"),
        "{text}"
    );
    let reply = denied(json!([{"user": {"id": "1"}}])).reply("create_card", json!({"pipe_id": 1})).await;
    assert_eq!(message(&reply), "Permission denied");

    let mock = Mock::new().on("pipe", start_form()).error("createCard", "   ", "");
    let text = message(&mock.reply("create_card", json!({"pipe_id": 1})).await);
    assert!(text.starts_with("Failed to create card.") && text.contains("do not blind-retry"), "{text}");

    for (pipe, needle) in
        [(Value::Null, "not found"), (json!({"start_form_fields": [{"id": "a"}]}), "1 field definition")]
    {
        let mock = Mock::new().on("pipe", pipe);
        let reply = mock.reply("create_card", json!({"pipe_id": 1})).await;
        assert!(message(&reply).contains(needle), "{reply}");
        assert!(mock.writes().is_empty());
    }
}

#[tokio::test]
async fn another_title_and_an_ambiguous_date_are_told() {
    let mock = Mock::new().on("pipe", start_form()).on("createCard", created("Other"));
    let reply =
        mock.reply("create_card", json!({"pipe_id": 1, "title": "Wanted", "fields": {"day": "03/04/2026"}})).await;
    let warning = reply["title_warning"].as_str().unwrap();
    assert!(warning.contains("not applied as expected") && warning.contains("Wanted") && warning.contains("Other"));
    assert!(reply["warning"].as_str().unwrap().contains("day"));
    assert_eq!(mock.writes().len(), 1);
}

#[tokio::test]
async fn values_keep_their_json_type_and_text_of_any_kind_comes_back_unchanged() {
    let title = "He said \"ok\" \\ {x}\n\u{1f600}\u{2028}";
    let mock = Mock::new().on("updateCard", json!({"card": {"id": "5"}}));
    mock.reply("update_card", json!({"card_id": "5", "title": title})).await;
    assert_eq!(mock.writes()[0].variables["input"], json!({"id": "5", "title": title}));
    for (given, sent) in [
        (json!("12"), json!("12")),
        (json!("[\"1\"]"), json!(["1"])),
        (json!("{\"a\":1}"), json!({"a": 1})),
        (json!("null"), Value::Null),
        (Value::Null, Value::Null),
        (json!(1.50), json!(1.50)),
    ] {
        let mock = Mock::new().on("updateCardField", json!({"success": true}));
        mock.reply("update_card_field", json!({"card_id": "5", "field_id": "f", "new_value": given})).await;
        assert_eq!(mock.writes()[0].variables["input"]["new_value"], sent);
    }
}

#[tokio::test]
async fn lists_replace_clear_or_stay() {
    let mock = Mock::new().on("updateCard", json!({"card": {"id": "5"}}));
    mock.reply("update_card", json!({"card_id": "5", "assignee_ids": [], "label_ids": null})).await;
    assert_eq!(mock.writes()[0].variables["input"], json!({"id": "5", "assignee_ids": []}));
}

#[tokio::test]
async fn field_updates_send_add_and_remove_as_such_without_reading() {
    let mock = Mock::new().on("updateFieldsValues", json!({"success": true}));
    let updates = json!([
        {"field_id": "f", "value": ["3"], "operation": "add"},
        {"fieldId": "g", "value": null, "operation": null},
        {"field_id": "h", "fieldId": "x", "value": ["1"], "operation": "REMOVE", "other": 1}
    ]);
    mock.reply("update_card", json!({"card_id": "5", "field_updates": updates, "title": "ignored"})).await;
    assert_eq!(mock.roots(), ["updateFieldsValues"]);
    assert_eq!(
        mock.writes()[0].variables["input"]["values"],
        json!([
            {"fieldId": "f", "value": ["3"], "operation": "ADD", "generatedByAi": true},
            {"fieldId": "g", "value": null, "operation": "REPLACE", "generatedByAi": true},
            {"fieldId": "h", "value": ["1"], "operation": "REMOVE", "generatedByAi": true}
        ])
    );
    for (update, needle) in [
        (json!({"value": 1}), "field_updates[0] needs `field_id`"),
        (json!({"field_id": "f"}), "needs `value`"),
        (json!({"field_id": "f", "value": 1, "operation": "NONE"}), "ADD, REMOVE or REPLACE"),
        (json!({"field_id": "f", "value": 1, "operation": 3}), "ADD, REMOVE or REPLACE"),
    ] {
        let mock = Mock::new();
        let reply = mock.reply("update_card", json!({"card_id": "5", "field_updates": [update]})).await;
        assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS");
        assert!(reply["error"]["message"].as_str().unwrap().contains(needle), "{reply}");
        assert!(mock.sent().is_empty());
    }
}

#[tokio::test]
async fn more_than_thirty_values_go_in_batches_and_a_failure_says_what_was_written() {
    let updates: Vec<Value> = (0..65).map(|i| json!({"field_id": format!("f{i}"), "value": i})).collect();
    let mock = Mock::new().on("updateFieldsValues", json!({"success": true}));
    let reply = mock.reply("update_card", json!({"card_id": "5", "field_updates": updates})).await;
    let sizes: Vec<usize> =
        mock.writes().iter().map(|w| w.variables["input"]["values"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [30, 30, 5]);
    assert_eq!(reply, json!({"updateFieldsValues": {"success": true}, "batches": 3}));

    let refusal = json!({"success": false, "userErrors": [{"field": "f30", "message": "bad"}]});
    let mock = Mock::new().on("updateFieldsValues", json!({"success": true})).on("updateFieldsValues", refusal);
    let reply = mock.reply("update_card", json!({"card_id": "5", "field_updates": updates})).await;
    assert_eq!(mock.writes().len(), 2);
    let text = reply["error"]["message"].as_str().unwrap();
    assert!(
        text.contains("f30: bad") && text.contains("first 30 fields were written, the other 35 were not"),
        "{text}"
    );
    assert_eq!(reply["error"]["details"]["unwritten_field_ids"].as_array().unwrap().len(), 35);
}

#[tokio::test]
async fn a_refused_field_update_is_shown_as_pipefy_gave_it() {
    let refusal = json!({"success": false, "userErrors": [{"field": "f", "message": "bad"}]});
    let mock = Mock::new().on("updateFieldsValues", refusal.clone());
    let reply =
        mock.reply("update_card", json!({"card_id": "5", "field_updates": [{"field_id": "f", "value": 1}]})).await;
    assert_eq!(reply, json!({"updateFieldsValues": refusal}));
}

#[tokio::test]
async fn filling_a_phase_writes_what_it_has_or_says_why_nothing_was_written() {
    let mock = Mock::new().on("phase", phase(number_field())).on("updateFieldsValues", json!({"success": true}));
    let reply = mock
        .reply("fill_card_phase_fields", json!({"card_id": 5, "phase_id": 9, "fields": {"amount": 1, "x": 2}}))
        .await;
    assert_eq!(reply, json!({"updateFieldsValues": {"success": true}, "skipped_field_ids": ["x"]}));
    for (fields, given, required_only, needle) in [
        (number_field(), json!({"x": 1}), false, "1 editable field(s)"),
        (number_field(), json!({}), true, "no required fields"),
        (json!([{"id": "a", "type": "number", "editable": false}]), json!({"a": 1}), false, "no editable fields"),
        (json!([]), json!({}), false, "No fields to update"),
    ] {
        let mock = Mock::new().on("phase", phase(fields));
        let arguments = json!({"card_id": 5, "phase_id": 9, "fields": given, "required_fields_only": required_only});
        let reply = mock.reply("fill_card_phase_fields", arguments).await;
        assert_eq!((&reply["success"], &reply["phase_name"]), (&json!(true), &json!("Doing")));
        assert!(reply["message"].as_str().unwrap().contains(needle), "{reply}");
        assert!(mock.writes().is_empty());
    }
    let mock = Mock::new().on("phase", Value::Null);
    let reply = mock.reply("fill_card_phase_fields", json!({"card_id": 5, "phase_id": 9})).await;
    assert_eq!(reply["error"]["code"], "NOT_FOUND");
}

#[tokio::test]
async fn a_form_never_wipes_what_the_user_left_empty_and_clears_what_he_emptied() {
    let fields = json!([
        {"id": "a", "type": "short_text"}, {"id": "b", "type": "short_text"}, {"id": "c", "type": "short_text"}
    ]);
    let content = json!({"a": "x", "b": null, "c": ""});
    let mock = Mock::new()
        .on("phase", phase(fields))
        .on("updateFieldsValues", json!({"success": true}))
        .person(Ok(Answer::Accept(content.as_object().unwrap().clone())));
    mock.reply("fill_card_phase_fields", json!({"card_id": 5, "phase_id": 9, "fields": {"c": "old"}})).await;
    let sent: Vec<Value> = mock.writes()[0].variables["input"]["values"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| json!([v["fieldId"], v["value"]]))
        .collect();
    assert_eq!(sent, [json!(["a", "x"]), json!(["c", null])]);
}

#[tokio::test]
async fn a_dry_run_asks_nobody() {
    let mock = Mock::new().on("pipe", start_form()).person(Ok(Answer::Decline));
    let reply = mock.reply("create_card", json!({"pipe_id": 1, "fields": {"amount": 1}, "dry_run": true})).await;
    assert_eq!(reply["steps"][0]["variables"]["input"]["fields_attributes"][0]["field_id"], "amount");
    assert!(mock.forms().is_empty() && mock.writes().is_empty());
}

#[tokio::test]
async fn verification_reads_back() {
    let card = |phase: &str| json!({"id": "77", "title": "T", "current_phase": {"id": phase}});
    for (phase_id, verified) in [("9", true), ("8", false)] {
        let mock = Mock::new()
            .on("phase", phase(json!([])))
            .on("pipe", json!({"start_form_fields": []}))
            .on("createCard", created("T"))
            .on("card", card(phase_id));
        let reply = mock.reply("create_card", json!({"pipe_id": 1, "phase_id": 9, "verify": true})).await;
        assert_eq!(reply["verification"]["verified"], verified, "{reply}");
    }
}

#[tokio::test]
async fn searches_say_when_they_find_nothing_and_page_by_cursor() {
    for payload in [Value::Null, json!({"edges": []})] {
        let mock = Mock::new().on("findCards", payload.clone());
        let reply = mock.reply("find_cards", json!({"pipe_id": 1, "field_id": "f", "field_value": "v"})).await;
        assert_eq!(reply["findCards"], payload);
        assert!(reply["message"].as_str().unwrap().contains("No cards were found"));
    }
    let page = |id: i64, next: Value| json!({"edges": [{"node": {"id": id}}], "pageInfo": {"hasNextPage": next.is_string(), "endCursor": next}});
    let mock = Mock::new().on("findCards", page(1, json!("n"))).on("findCards", page(2, Value::Null));
    let reply = mock.reply("find_cards", json!({"pipe_id": 1, "field_id": "f", "field_value": "v", "all": true})).await;
    assert_eq!(reply["findCards"]["edges"].as_array().unwrap().len(), 2);
    assert_eq!((&reply["complete"], &mock.sent()[1].variables["after"]), (&json!(true), &json!("n")));
}

#[tokio::test]
async fn records_are_filtered_by_what_was_given() {
    let records = json!({"totalCount": 9, "edges": [], "pageInfo": {"hasNextPage": true, "endCursor": "n"}});
    let mock = Mock::new().on("records", records.clone());
    let arguments = json!({"pipe_id": 1, "where": {}, "order_by": [], "search_term": "", "after": "", "first": 2});
    let reply = mock.reply("get_records", arguments).await;
    assert_eq!(
        mock.sent()[0].variables,
        json!({"repoId": "1", "includeFields": false, "searchTerm": "", "orderBy": [], "first": 2})
    );
    assert_eq!(reply["pagination"], json!({"has_more": true, "end_cursor": "n", "page_size": 2}));
    let mock = Mock::new().on("records", records).legacy();
    let reply = mock.reply("get_records", json!({"pipe_id": 1, "where": "{\"attribute\":\"TITLE\",\"eq\":1}"})).await;
    assert_eq!(reply["records"]["totalCount"], 9);
    assert_eq!(mock.sent()[0].variables["where"], json!({"attribute": "TITLE", "eq": 1}));
}

#[tokio::test]
async fn a_timed_out_move_keeps_its_text_and_costs_no_further_read() {
    let mock = Mock::new().timeout("moveCardToPhase", OperationKind::Mutation);
    let reply = mock.reply("move_card_to_phase", json!({"card_id": 5, "destination_phase_id": 2})).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("read it back"));
    assert_eq!(mock.sent().len(), 1);
}

/// 50 cards with 60 fields each; three fields asked for, of the card or of its form, are less than a tenth of the bytes.
#[tokio::test]
async fn three_fields_of_sixty_are_less_than_a_tenth() {
    let fields: Vec<Value> =
        (0..60).map(|i| json!({"name": format!("Field {i}"), "value": format!("value number {i}")})).collect();
    let edges: Vec<Value> = (0..50)
        .map(|i| json!({"node": {"id": i.to_string(), "title": format!("Card {i}"), "current_phase": {"id": "1", "name": "Inbox"}, "fields": fields}}))
        .collect();
    let whole = json!({"edges": edges, "pageInfo": {"hasNextPage": false, "endCursor": null}});
    let form =
        json!({"start_form_fields": [{"id": "field_7", "label": "Field 7"}, {"id": "late", "label": "Much later"}]});
    let mock = Mock::new().on("cards", whole).on("pipe", form);
    let all = mock.reply("get_cards", json!({"pipe_id": 1, "include_fields": true})).await.to_string().len();
    let asked = json!({"pipe_id": 1, "fields": ["Field 7", "field 30", "Field 59"]});
    let few = mock.reply("get_cards", asked).await;
    let shown = few.pointer("/data/cards/edges/0/node/fields").and_then(Value::as_array).map(Vec::len);
    assert_eq!(shown, Some(3), "{few}");
    let few = few.to_string().len();
    let asked = mock.sent().pop().unwrap();
    assert_eq!(asked.variables["includeFields"], true);
    eprintln!("{few} of {all} bytes");
    assert!(few * 10 < all, "{few} of {all} bytes");
    let typo = mock.reply("get_cards", json!({"pipe_id": 1, "fields": ["Feild 7"]})).await;
    let message = typo["error"]["message"].as_str().unwrap();
    assert!(message.contains("`Feild 7`, did you mean `Field 7`?"), "{message}");
    // A slip of one of the card's own names is no field of the form.
    let typo = mock.reply("get_cards", json!({"pipe_id": 1, "fields": ["titel"]})).await;
    let message = typo["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("fields: unknown field `titel`, did you mean `title`?"), "{message}");
    // A field of the form that no card has filled in is there all the same, by its label or id.
    for name in ["much LATER", "late"] {
        let few = mock.reply("get_cards", json!({"pipe_id": 1, "fields": [name, "Field 7"]})).await;
        assert_eq!(few["success"], true, "{few}");
    }
    let card = json!({"id": "5", "pipe": {"id": "1"}, "fields": [{"name": "Field 7", "value": "v"}]});
    let mock =
        Mock::new().on("card", card).on("pipe", json!({"phases": [{"fields": [{"id": "l", "label": "Later"}]}]}));
    let few = mock.reply("get_card", json!({"card_id": 5, "fields": ["Later"]})).await;
    assert_eq!(few, json!({"card": {"id": "5", "fields": []}}));
    let typo = mock.reply("get_card", json!({"card_id": 5, "fields": ["Latter"]})).await;
    assert!(typo["error"]["message"].as_str().unwrap().contains("did you mean `Later`?"), "{typo}");
}

/// The rest of a plan or a preview can be had; a change is never made for the sake of it.
#[tokio::test]
async fn asking_for_the_rest_changes_nothing() {
    let mock = Mock::new()
        .on("createComment", json!({"comment": {"id": "1"}}))
        .on("card", json!({"id": "5", "title": "T", "pipe": {"id": "1", "name": "P"}}))
        .on("deleteCard", json!({"success": true}));
    let comment = json!({"card_id": 5, "text": "x", "rest": {"path": "/data", "from": 0}});
    let reply = mock.reply("add_card_comment", comment).await;
    assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS", "{reply}");
    let dry = json!({"card_id": 5, "text": "x", "dry_run": true, "rest": {"path": "/steps", "from": 0}});
    let reply = mock.reply("add_card_comment", dry).await;
    assert_eq!(
        (&reply["success"], reply["rest"]["items"].as_array().map(Vec::len)),
        (&json!(true), Some(1)),
        "{reply}"
    );
    let rest = json!({"path": "/message", "from": 0});
    let preview = mock.reply("delete_card", json!({"card_id": 5, "rest": rest})).await;
    assert!(preview["rest"]["text"].as_str().unwrap().contains("permanent"), "{preview}");
    let reply = mock.confirmed("delete_card", json!({"card_id": 5})).await;
    assert_eq!((&reply["success"], mock.writes().len()), (&json!(true), 1));
    let token = mock.reply("delete_card", json!({"card_id": 5})).await["confirmation_token"].clone();
    let call = json!({"card_id": 5, "confirm": true, "confirmation_token": token, "rest": rest});
    let reply = mock.reply("delete_card", call).await;
    assert_eq!((&reply["error"]["code"], mock.writes().len()), (&json!("INVALID_ARGUMENTS"), 1), "{reply}");
}

/// `all` ends when the result is full, and says from where to go on: calls put together give every card once.
#[tokio::test]
async fn all_pages_end_in_time_and_calls_put_together_are_the_whole() {
    let page = |n: usize| {
        let edges: Vec<Value> =
            (0..5).map(|i| json!({"node": {"id": (n * 5 + i).to_string(), "title": "x".repeat(300)}})).collect();
        let next = (n < 9).then(|| format!("after-{n}"));
        json!({"totalCount": 50, "edges": edges, "pageInfo": {"hasNextPage": next.is_some(), "endCursor": next}})
    };
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    let mut calls = 0;
    loop {
        calls += 1;
        let begin = cursor.as_str().map_or(0, |text| text.trim_start_matches("after-").parse::<usize>().unwrap() + 1);
        let mock = (begin..10).fold(Mock::new().room(8_000), |mock, n| mock.on("cards", page(n)));
        let reply = mock.reply("get_cards", json!({"pipe_id": 1, "all": true, "after": cursor})).await;
        assert!(reply.to_string().len() <= 8_000);
        let edges = reply["data"]["cards"]["edges"].as_array().unwrap();
        assert_eq!((&reply["returned"], &reply["total"]), (&json!(edges.len()), &json!(50)));
        seen.extend(edges.iter().map(|edge| edge["node"]["id"].as_str().unwrap().to_owned()));
        if reply["complete"] == true {
            assert!(reply.get("next_cursor").is_none());
            break;
        }
        assert!(reply["stopped"].as_str().unwrap().contains("full"), "{reply}");
        cursor = reply["next_cursor"].clone();
    }
    assert!(calls > 2);
    assert_eq!(seen, (0..50).map(|i| i.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn everything_that_was_written_to_a_card_is_read_back() {
    let shown = json!({"id": "5", "title": "T", "due_date": "2026-12-01T03:00:00Z", "assignees": [{"id": 2}, {"id": "1"}], "labels": []});
    let mock = Mock::new().on("updateCard", json!({"card": {"id": "5"}})).on("card", shown);
    let arguments = json!({"card_id": 5, "title": "T", "due_date": "2026-12-01T00:00:00-03:00", "assignee_ids": [1, 2], "label_ids": []});
    let mut asked = arguments.clone();
    asked["verify"] = true.into();
    let reply = mock.reply("update_card", asked).await;
    assert_eq!(reply["verification"]["verified"], true, "{reply}");
    let mut other = arguments;
    other["assignee_ids"] = json!([1]);
    other["verify"] = true.into();
    let reply = mock.reply("update_card", other).await;
    assert_eq!(reply["verification"]["note"], "shown otherwise than asked: assignee_ids");

    let entry =
        |slug: &str, value: &str, list: Value| json!({"field": {"id": slug}, "value": value, "array_value": list});
    let values = json!({"fields": [entry("amount", "3.0", Value::Null), entry("tags", "[]", json!(["a", "b"]))]});
    let mock = Mock::new()
        .on("updateFieldsValues", json!({"success": true}))
        .on("updateCardField", json!({"success": true}))
        .on("card", values);
    for (updates, verified) in [
        (json!([{"field_id": "amount", "value": 3}, {"field_id": "tags", "value": ["b"], "operation": "ADD"}]), true),
        (
            json!([{"field_id": "gone", "value": null}, {"field_id": "tags", "value": ["c"], "operation": "REMOVE"}]),
            true,
        ),
        (json!([{"field_id": "amount", "value": 4}]), false),
    ] {
        let reply = mock.reply("update_card", json!({"card_id": 5, "field_updates": updates, "verify": true})).await;
        assert_eq!(reply["verification"]["verified"], verified, "{reply}");
    }
    let reply = mock
        .reply("update_card_field", json!({"card_id": 5, "field_id": "tags", "new_value": ["b", "a"], "verify": true}))
        .await;
    assert_eq!(reply["verification"], json!({"verified": true, "note": "compared tags"}), "{reply}");
}

#[tokio::test]
async fn a_move_that_a_hidden_required_field_stops_says_so_in_every_spelling_of_its_id() {
    let field = json!({"id": "amount", "internal_id": "31", "uuid": "11111111-2222-4333-8444-555555555555", "label": "Amount",
        "type": "number", "required": true});
    for (id, hidden) in [("amount", true), ("31", true), ("11111111-2222-4333-8444-555555555555", true), ("32", false)]
    {
        let rule = json!({"id": "7", "actions": [{"actionId": " Hidden ", "phaseFieldId": id}]});
        let phase = json!({"id": "8", "name": "Here", "cards_can_be_moved_to_phases": [{"id": "9"}], "fields": [field],
            "fieldConditions": [rule]});
        let mock = Mock::new()
            .error("moveCardToPhase", "Field \"Amount\" is required.", "")
            .on("card", json!({"id": "5", "current_phase": {"id": "8", "name": "Here"}}))
            .on("phase", phase);
        let reply = mock.reply("move_card_to_phase", json!({"card_id": 5, "destination_phase_id": 9})).await;
        let text = reply["error"]["message"].as_str().unwrap();
        assert_eq!(text.contains("may be hidden by a field condition"), hidden, "{id}: {text}");
        assert!(text.starts_with("Field \"Amount\" is required. "), "{text}");
        assert_eq!(mock.roots().iter().filter(|root| *root == "card").count(), 1, "the card is read once");
    }
}

#[tokio::test]
async fn a_deletion_names_a_pipe_without_a_name_and_links_lead_to_the_configured_host() {
    let mock = Mock::new().on("card", json!({"id": "5", "title": "T", "pipe": {"id": "1", "name": null}}));
    let reply = mock.reply("delete_card", json!({"card_id": 5})).await;
    assert_eq!(reply["resource"], "card 'T' (ID: 5) from pipe 'Unknown Pipe'");
    let mock = Mock::at("https://pipefy.example.com")
        .on("pipe", json!({"start_form_fields": []}))
        .on("createCard", json!({"card": {"id": "77", "title": "T"}}));
    let reply = mock.reply("create_card", json!({"pipe_id": 1})).await;
    assert!(reply["card_link"].as_str().unwrap().contains("(https://pipefy.example.com/open-cards/77)"), "{reply}");
}
