#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::HashMap;
use std::sync::Mutex;

use pipefy::OperationKind;
use pipefy::settings::AuthSettings;
use serde_json::{Value, json};

use super::*;
use crate::tools::testing::Mock;

/// A journal in memory that can be looked into and can fail.
#[derive(Default)]
pub(crate) struct Memory {
    entries: Mutex<HashMap<String, String>>,
    broken: Mutex<bool>,
}

impl Memory {
    fn works(&self) -> Result<(), Unusable> {
        if *self.broken.lock().unwrap() { Err(Unusable("the disk is full".to_owned())) } else { Ok(()) }
    }

    fn shown(&self) -> String {
        format!("{:?}", self.entries.lock().unwrap())
    }
}

impl Entries for Memory {
    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<String>, Unusable>> {
        Box::pin(async move { self.works().map(|()| self.entries.lock().unwrap().get(id).cloned()) })
    }
    fn begin<'a>(&'a self, id: &'a str, entry: &'a str) -> BoxFuture<'a, Result<bool, Unusable>> {
        Box::pin(async move {
            self.works()?;
            let mut entries = self.entries.lock().unwrap();
            let new = !entries.contains_key(id);
            entries.entry(id.to_owned()).or_insert_with(|| entry.to_owned());
            Ok(new)
        })
    }
    fn end<'a>(&'a self, id: &'a str, entry: Option<&'a str>) -> BoxFuture<'a, Result<(), Unusable>> {
        Box::pin(async move {
            self.works()?;
            let mut entries = self.entries.lock().unwrap();
            match entry {
                Some(entry) => drop(entries.insert(id.to_owned(), entry.to_owned())),
                None => drop(entries.remove(id)),
            }
            Ok(())
        })
    }
}

fn comment(text: &str, key: &str) -> Value {
    json!({"card_id": 5, "text": text, "idempotency_key": key})
}

#[tokio::test]
async fn the_same_call_with_the_same_key_is_done_once() {
    let mock = Mock::new().journal().on("createComment", json!({"comment": {"id": "77"}}));
    let first = mock.reply("add_card_comment", comment("secret words", "k1")).await;
    assert_eq!(first["data"]["comment_id"], "77", "{first}");
    // The form of an argument is no other argument, and options are none.
    let mut again = json!({"card_id": " 5", "text": "secret words", "idempotency_key": "k1", "verify": true});
    for _ in 0..2 {
        let reply = mock.reply("add_card_comment", again.clone()).await;
        assert_eq!(reply["data"], first["data"], "{reply}");
        assert_eq!(reply["idempotency"]["replayed"], true);
        again = comment("secret words", "k1");
    }
    assert_eq!(mock.writes().len(), 1);
    for other in [comment("other words", "k1"), json!({"card_id": 6, "text": "secret words", "idempotency_key": "k1"})]
    {
        let refused = mock.reply("add_card_comment", other).await;
        assert_eq!(refused["error"]["code"], "IDEMPOTENCY_KEY_REUSED", "{refused}");
    }
    let other_tool = json!({"comment_id": 5, "text": "secret words", "idempotency_key": "k1"});
    assert_eq!(mock.reply("update_comment", other_tool).await["error"]["code"], "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(mock.writes().len(), 1);
    // Another key, and another person's same key, are new.
    mock.reply("add_card_comment", comment("secret words", "k2")).await;
    let mock = mock.owned_by("somebody else");
    mock.reply("add_card_comment", comment("secret words", "k1")).await;
    assert_eq!(mock.writes().len(), 3);
    let kept = mock.memory().shown();
    for hidden in ["secret words", "comment_id", "somebody"] {
        assert!(!kept.contains(hidden), "{hidden}: {kept}");
    }
}

#[tokio::test]
async fn calls_at_the_same_time_are_one_call() {
    let mock = Mock::new().journal().on("createComment", json!({"comment": {"id": "77"}}));
    let calls = (0..8).map(|_| mock.reply("add_card_comment", comment("x", "k")));
    let replies = futures_util::future::join_all(calls).await;
    assert_eq!(mock.writes().len(), 1);
    for reply in replies {
        let told = reply["data"]["comment_id"] == "77" || reply["error"]["code"] == "OUTCOME_UNKNOWN";
        assert!(told, "{reply}");
    }
}

#[tokio::test]
async fn previews_and_dry_runs_use_no_key_up_and_a_confirmed_call_does() {
    let card = json!({"id": "5", "title": "T", "pipe": {"id": "1", "name": "P"}});
    let mock = Mock::new().journal().on("card", card).on("deleteCard", json!({"success": true}));
    let call = json!({"card_id": 5, "idempotency_key": "k"});
    let dry = mock.reply("delete_card", json!({"card_id": 5, "idempotency_key": "k", "dry_run": true})).await;
    assert_eq!(dry["dry_run"], true);
    let done = mock.confirmed("delete_card", call.clone()).await;
    assert_eq!(done["success"], true, "{done}");
    // Afterwards not even a preview is made: the card is gone, and the caller hears what came of it.
    let sent = mock.sent().len();
    let again = mock.reply("delete_card", call).await;
    assert_eq!((&again["success"], &again["idempotency"]["replayed"]), (&json!(true), &json!(true)), "{again}");
    assert_eq!((mock.sent().len(), mock.writes().len()), (sent, 1));
}

#[tokio::test]
async fn an_unknown_outcome_is_told_as_such() {
    let mock = Mock::new().journal().timeout("createComment", OperationKind::Mutation);
    let first = mock.reply("add_card_comment", comment("x", "k")).await;
    assert_eq!(first["error"]["code"], "TIMEOUT", "{first}");
    let again = mock.reply("add_card_comment", comment("x", "k")).await;
    assert_eq!(again["error"]["code"], "OUTCOME_UNKNOWN", "{again}");
    assert_eq!(again["error"]["details"]["may_have_been_applied"], true);
    assert!(again["error"]["message"].as_str().unwrap().contains("Read the state back"), "{again}");
    assert_eq!(mock.writes().len(), 1);
    // So is a call that ended in the middle, with its process or its caller.
    let mock = Mock::new().journal().on("createComment", json!({"comment": {"id": "77"}}));
    let call = mock.reply("add_card_comment", comment("x", "k"));
    // The scripted Pipefy answers at the second look.
    assert!(futures_util::FutureExt::now_or_never(call).is_none());
    assert_eq!(mock.writes().len(), 1);
    let reply = mock.reply("add_card_comment", comment("x", "k")).await;
    assert_eq!(reply["error"]["code"], "OUTCOME_UNKNOWN", "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("still runs"), "{reply}");
    assert_eq!(mock.writes().len(), 1);
}

#[tokio::test]
async fn a_failure_that_changed_nothing_gives_the_key_back() {
    let mock = Mock::new()
        .journal()
        .error("createComment", "Permission denied", "PERMISSION_DENIED")
        .on("createComment", json!({"comment": {"id": "77"}}));
    assert_eq!(mock.reply("add_card_comment", comment("x", "k")).await["success"], false);
    assert_eq!(mock.reply("add_card_comment", comment("x", "k")).await["data"]["comment_id"], "77");
    assert_eq!(mock.reply("add_card_comment", comment("x", "k")).await["idempotency"]["replayed"], true);
    assert_eq!(mock.writes().len(), 2);
}

#[tokio::test]
async fn a_part_that_was_done_is_remembered() {
    let updates: Vec<Value> = (0..40).map(|n| json!({"field_id": format!("f{n}"), "value": "v"})).collect();
    let call = json!({"card_id": 5, "field_updates": updates, "idempotency_key": "k"});
    let mock = Mock::new().journal().on("updateFieldsValues", json!({"success": true})).error(
        "updateFieldsValues",
        "Permission denied",
        "PERMISSION_DENIED",
    );
    let first = mock.reply("update_card", call.clone()).await;
    assert_eq!(first["success"], false, "{first}");
    let again = mock.reply("update_card", call).await;
    assert_eq!(again["error"]["details"]["replayed"], true, "{again}");
    assert_eq!(again["error"]["details"]["written_field_ids"], first["error"]["details"]["written_field_ids"]);
    assert_eq!(mock.writes().len(), 2);
}

#[tokio::test]
async fn without_a_journal_or_with_a_broken_one_nothing_is_sent() {
    let mock = Mock::new().on("createComment", json!({"comment": {"id": "77"}}));
    assert_eq!(mock.reply("add_card_comment", comment("x", "k")).await["error"]["code"], "NO_JOURNAL");
    let mock = mock.journal();
    *mock.memory().broken.lock().unwrap() = true;
    assert_eq!(mock.reply("add_card_comment", comment("x", "k")).await["error"]["code"], "JOURNAL_UNAVAILABLE");
    *mock.memory().broken.lock().unwrap() = false;
    for key in ["", "  ", &"k".repeat(LONGEST_KEY + 1)] {
        assert_eq!(mock.reply("add_card_comment", comment("x", key)).await["error"]["code"], "INVALID_ARGUMENTS");
    }
    assert!(mock.sent().is_empty());
}

#[tokio::test]
async fn secrets_and_large_results_are_not_kept() {
    for tool in SECRET {
        assert!(crate::Catalogue::new().get(tool).is_some(), "{tool}");
    }
    let url = "https://storage.example.com/x?X-Amz-Signature=canary";
    let answer = json!({"url": url, "downloadUrl": url, "clientMutationId": "1"});
    let mock = Mock::new().journal().on("createPresignedUrl", answer);
    let call = json!({"organization_id": 1, "file_name": "a.txt", "idempotency_key": "k"});
    let first = mock.reply("create_attachment_presigned_url", call.clone()).await;
    assert_eq!(first["success"], true, "{first}");
    let again = mock.reply("create_attachment_presigned_url", call).await;
    assert_eq!(again["idempotency"]["replayed"], true, "{again}");
    assert!(
        !again.to_string().contains("canary") && again["message"].as_str().unwrap().contains("not kept"),
        "{again}"
    );
    assert_eq!(mock.writes().len(), 1);
}

#[test]
fn owners_are_told_apart_and_name_nobody() {
    let with = |change: &dyn Fn(&mut AuthSettings)| {
        let mut settings = AuthSettings::default();
        change(&mut settings);
        owner(&settings, None)
    };
    let owners = [
        with(&|_| {}),
        with(&|settings| settings.account = Some("work".to_owned())),
        with(&|settings| settings.static_token = Some("token-a".into())),
        with(&|settings| settings.static_token = Some("token-b".into())),
        with(&|settings| settings.service_account_client_id = Some("client".to_owned())),
        with(&|settings| settings.base_url = "https://other.example.com".to_owned()),
    ];
    for (at, one) in owners.iter().enumerate() {
        assert!(one.len() == 64 && !owners[..at].contains(one), "{owners:?}");
    }
    assert_eq!(owner(&AuthSettings::default(), Some("token-a")), owners[2]);
}
