#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use pipefy::{Budget, Error, GraphqlExecutor, GraphqlResponse, Operation, OperationKind};
use serde_json::{Value, json};

use crate::tools::testing::{Mock, WriteRules};

const UUID: &str = "11111111-2222-4333-8444-555555555555";
const OTHER: &str = "22222222-2222-4333-8444-555555555555";

fn field(uuid: &str) -> Value {
    json!({"id": "amount", "internal_id": "1002", "uuid": uuid, "label": "Amount", "type": "number"})
}

fn pipe() -> Value {
    json!({"id": "1", "startFormPhaseId": "10", "phases": [{"id": "11"}, {"id": "12"}]})
}

#[tokio::test]
async fn writes_hold_to_the_rules() {
    for rules in [
        WriteRules::new("create_phase_field", json!({"phase_id": 9, "label": " L ", "field_type": "short_text"}))
            .read("phase", json!({"repo_id": 1}))
            .write("createPhaseField", json!({"phase_field": {"id": "l"}})),
        WriteRules::new("update_phase_field", json!({"field_id": "amount", "label": " L ", "phase_id": 9}))
            .read("phase", json!({"fields": [field(UUID)]}))
            .write("updatePhaseField", json!({"phase_field": {"id": "l"}})),
        WriteRules::new("delete_phase_field", json!({"field_id": "amount", "pipe_uuid": UUID}))
            .write("deletePhaseField", json!({"success": true})),
    ] {
        rules.check().await;
    }
}

#[tokio::test]
async fn arguments_win_over_extra_input_and_retarget_nothing() {
    let mock = Mock::new().on("phase", Value::Null).on("createPhaseField", json!({"phase_field": {"id": "l"}}));
    let extra = json!({"phase_id": "8", "type": "x", "label": "X", "phaseId": "7", "required": false, "help": "h", "none": null});
    let arguments = json!({"phase_id": 9, "label": "L", "field_type": "select", "options": ["a"], "required": true, "extra_input": extra});
    mock.reply("create_phase_field", arguments).await;
    assert_eq!(
        mock.writes()[0].variables["input"],
        json!({"phase_id": "9", "label": "L", "type": "select", "help": "h", "options": ["a"], "required": true})
    );
    let mock = Mock::new().on("updatePhaseField", json!({"phase_field": {"id": "l"}}));
    let arguments = json!({
        "field_id": "5", "label": " L ", "options": {"a": 1}, "extra_input": {"id": "6", "uuid": OTHER, "index": 2}
    });
    mock.reply("update_phase_field", arguments).await;
    assert_eq!(mock.writes()[0].variables["input"], json!({"id": "5", "label": "L", "index": 2, "options": {"a": 1}}));
}

#[tokio::test]
async fn a_slug_is_resolved_where_it_was_said_to_be() {
    let run = async |mock: Mock, arguments: Value| {
        let mock = mock.on("updatePhaseField", json!({"phase_field": {"id": "l"}}));
        let reply = mock.reply("update_phase_field", arguments).await;
        (reply, mock.writes().first().map(|w| w.variables["input"].clone()), mock.roots())
    };
    let in_phase = || Mock::new().on("phase", json!({"fields": [field(UUID)]}));
    let (_, input, _) = run(in_phase(), json!({"field_id": "amount", "label": "L", "phase_id": 9})).await;
    assert_eq!(input.unwrap(), json!({"id": "amount", "label": "L", "uuid": UUID}));
    let hint = json!({"field_id": "amount", "label": "L", "extra_input": {"phase_id": "9"}});
    assert_eq!(run(in_phase(), hint).await.1.unwrap()["uuid"], UUID);
    // A uuid that was given, and anything that is no slug, needs no look-up.
    for id in ["1002", UUID, "___"] {
        let (_, _, roots) = run(Mock::new(), json!({"field_id": id, "label": "L", "phase_id": 9})).await;
        assert_eq!(roots, ["updatePhaseField"], "{id}");
    }
    let (_, input, roots) =
        run(Mock::new(), json!({"field_id": "amount", "label": "L", "phase_id": 9, "uuid": OTHER})).await;
    assert_eq!((input.unwrap()["uuid"].as_str(), roots.len()), (Some(OTHER), 1));
    // The start form is searched too.
    let mock =
        Mock::new().on("pipe", pipe()).on("phase", json!({"fields": [field(UUID)]})).on("phase", json!({"fields": []}));
    let (_, input, roots) = run(mock, json!({"field_id": "amount", "label": "L", "pipe_id": 1})).await;
    assert_eq!((input.unwrap()["uuid"].as_str(), roots.len()), (Some(UUID), 5));
    let both = Mock::new()
        .on("pipe", pipe())
        .on("phase", json!({"fields": [field(UUID)]}))
        .on("phase", json!({"fields": [field(OTHER)]}));
    let (reply, input, _) = run(both, json!({"field_id": "amount", "label": "L", "pipe_id": 1})).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains(OTHER) && input.is_none(), "{reply}");
    let lost = Mock::new().on("pipe", pipe()).on("phase", json!({"fields": []})).error("phase", "no", "");
    let (reply, input, _) = run(lost, json!({"field_id": "amount", "label": "L", "pipe_id": 1})).await;
    assert!(
        reply["error"]["message"].as_str().unwrap().contains("Could not load fields") && input.is_none(),
        "{reply}"
    );
    assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS");
}

#[tokio::test]
async fn a_field_not_found_on_creation_keeps_the_text_of_pipefy() {
    let of_pipe = || Mock::new().on("phase", json!({"repo_id": 1}));
    let mock = of_pipe().error("createPhaseField", "Connected repo not found", "RESOURCE_NOT_FOUND");
    let reply = mock.reply("create_phase_field", json!({"phase_id": 9, "label": "L", "field_type": "connector"})).await;
    assert_eq!(reply["error"], json!({"message": "Connected repo not found", "code": "RESOURCE_NOT_FOUND"}));
    // A type that is not known, or lacks something, is refused with the types there are.
    for (message, code) in [
        ("Field type not found with id: magic", "RESOURCE_NOT_FOUND"),
        ("Connected repo can't be blank", "RECORD_NOT_SAVED"),
    ] {
        let mock = of_pipe().error("createPhaseField", message, code);
        let reply = mock.reply("create_phase_field", json!({"phase_id": 9, "label": "L", "field_type": "magic"})).await;
        let text = reply["error"]["message"].as_str().unwrap();
        assert!(text.starts_with(message) && text.contains("connector (with connectedRepoId)"), "{text}");
    }
    for arguments in [
        json!({"phase_id": 9, "label": " ", "field_type": "x"}),
        json!({"phase_id": 9, "label": "l", "field_type": " "}),
    ] {
        let reply = Mock::new().reply("create_phase_field", arguments).await;
        assert_eq!(reply["error"]["code"], "INVALID_ARGUMENTS");
    }
    let reply = Mock::new().reply("update_phase_field", json!({"field_id": "a", "label": " "})).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("`label` is required on every update"));
}

#[tokio::test]
async fn a_preview_lists_the_conditions_that_use_the_field() {
    let phase = json!({
        "fields": [field(UUID)],
        "fieldConditions": [
            {"id": "1", "name": "by action", "actions": [{"phaseFieldId": UUID}, {"phaseFieldId": "5"}]},
            {"id": "2", "name": "by expression", "condition": {"expressions": [{"field_address": 1002}]}, "actions": []},
            {"id": "3", "name": "other", "actions": [{"phaseFieldId": "6"}]}
        ]
    });
    let mock = Mock::new().on("phase", phase);
    let reply = mock.reply("delete_phase_field", json!({"field_id": "amount", "phase_id": 9})).await;
    assert_eq!(
        reply["dependents"]["field_conditions"],
        json!([{"id": "1", "name": "by action", "action_count": 2}, {"id": "2", "name": "by expression", "action_count": 0}])
    );
    assert!(reply["dependents"]["hint"].as_str().unwrap().contains("`delete_field_condition`"));
    let token = reply["confirmation_token"].clone();
    let mock = Mock::new().on("deletePhaseField", json!({"success": true}));
    let with_pipe = json!({"field_id": "amount", "pipe_uuid": UUID, "confirm": true, "confirmation_token": token});
    assert_eq!(mock.reply("delete_phase_field", with_pipe).await["requires_confirmation"], true);
    let without_phase = json!({"field_id": "amount", "confirm": true, "confirmation_token": token});
    assert_eq!(mock.reply("delete_phase_field", without_phase).await["success"], true);
    assert_eq!(mock.roots(), ["deletePhaseField"]);
}

#[tokio::test]
async fn a_field_that_went_with_its_phase_is_said_to_be_gone() {
    let mock = |fields: Value| {
        Mock::new().on("pipe", pipe()).on("phase", json!({"fields": fields})).error(
            "deletePhaseField",
            "Something went wrong",
            "INTERNAL_SERVER_ERROR",
        )
    };
    let arguments = json!({"field_id": "amount", "pipe_id": 1});
    let reply = mock(json!([])).confirmed("delete_phase_field", arguments.clone()).await;
    let text = reply["error"]["message"].as_str().unwrap();
    assert!(text.contains("no longer exists") && text.contains("cascaded"), "{text}");
    assert_eq!(reply["error"]["code"], "NOT_FOUND");
    let reply = mock(json!([field(UUID)])).confirmed("delete_phase_field", arguments).await;
    assert_eq!(reply["error"]["code"], "INTERNAL_SERVER_ERROR");
}

/// A Pipefy that counts creations in flight. Every phase belongs to the pipe that is its first digit.
#[derive(Default)]
struct Busy {
    now: Mutex<HashMap<String, usize>>,
    most: Mutex<HashMap<String, usize>>,
    /// Creations of two pipes wait for each other here.
    meeting: Option<tokio::sync::Barrier>,
}

impl GraphqlExecutor for Busy {
    fn execute<'a>(&'a self, operation: &'a Operation, _: &'a Budget) -> BoxFuture<'a, Result<GraphqlResponse, Error>> {
        Box::pin(async move {
            let variables = &operation.variables;
            let body = if operation.document.kind() == OperationKind::Query {
                json!({"data": {"phase": {"repo_id": variables["id"].as_str().unwrap()[..1]}}})
            } else {
                let pipe = variables["input"]["phase_id"].as_str().unwrap()[..1].to_owned();
                let running = {
                    let mut now = self.now.lock().unwrap();
                    let running = now.entry(pipe.clone()).or_default();
                    *running += 1;
                    *running
                };
                {
                    let mut most = self.most.lock().unwrap();
                    let most = most.entry(pipe.clone()).or_default();
                    *most = running.max(*most);
                }
                match &self.meeting {
                    Some(meeting) => {
                        let _met = meeting.wait().await.is_leader();
                    }
                    None => tokio::task::yield_now().await,
                }
                *self.now.lock().unwrap().get_mut(&pipe).unwrap() -= 1;
                json!({"data": {"createPhaseField": {"phase_field": {"id": "l"}}}})
            };
            Ok(GraphqlResponse::parse(200, &body.to_string().into()).unwrap())
        })
    }

    fn credential_occurs_in<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async { Ok(false) })
    }
}

async fn create_in(pipefy: Arc<Busy>, phases: &[&str]) {
    let mock = Mock::new();
    let calls = phases.iter().map(|phase| {
        let arguments = json!({"phase_id": phase, "label": "L", "field_type": "short_text"});
        mock.call_through(pipefy.clone(), "create_phase_field", arguments)
    });
    let made = tokio::time::timeout(Duration::from_secs(20), futures_util::future::join_all(calls)).await.unwrap();
    assert!(made.iter().all(Result::is_ok));
}

#[tokio::test]
async fn fields_of_one_pipe_are_created_one_after_the_other_and_pipes_do_not_wait_for_each_other() {
    let busy = Arc::new(Busy::default());
    create_in(busy.clone(), &["71", "71", "72", "72", "73"]).await;
    assert_eq!(*busy.most.lock().unwrap(), HashMap::from([("7".to_owned(), 1)]));
    // Each waits for the other: were they in one line, neither would end.
    let busy = Arc::new(Busy { meeting: Some(tokio::sync::Barrier::new(2)), ..Busy::default() });
    create_in(busy, &["81", "91"]).await;
}
