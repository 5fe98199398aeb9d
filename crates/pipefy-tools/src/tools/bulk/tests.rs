#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use pipefy::{EndpointKind, Error, OperationKind};
use serde_json::{Value, json};

use crate::tools::testing::Mock;
use crate::{Kind, ToolError};

fn form() -> Mock {
    let field =
        |id: &str, label: &str| json!({"id": id, "label": label, "type": "short_text", "required": id == "code"});
    let fields = json!([field("code", "Code"), field("note", "Note")]);
    Mock::new().on("pipe", json!({"start_form_fields": fields, "phases": [{"fields": [field("late", "Late")]}]}))
}

fn found(ids: &[&str]) -> Value {
    let edges: Vec<Value> = ids.iter().map(|id| json!({"node": {"id": id, "title": "T"}})).collect();
    json!({"edges": edges, "pageInfo": {"hasNextPage": false, "endCursor": null}})
}

fn card(id: &str) -> Value {
    json!({"card": {"id": id, "title": "T"}})
}

fn sent(mock: &Mock, root: &str) -> Vec<Value> {
    mock.sent().iter().filter(|sent| sent.root == root).map(|sent| sent.variables.clone()).collect()
}

fn rows(codes: &[&str]) -> Value {
    codes.iter().map(|code| json!({"Code": code, "Note": ""})).collect()
}

fn results(error: &ToolError) -> Vec<(u64, String)> {
    let rows = error.details["rows"].as_array().unwrap();
    rows.iter().map(|row| (row["row"].as_u64().unwrap(), row["result"].as_str().unwrap().to_owned())).collect()
}

#[tokio::test]
async fn rows_whose_key_is_missing_are_created() {
    let mock = form().on("findCards", found(&[])).on("findCards", found(&["9"])).on("createCard", card("7"));
    let args = json!({"pipe_id": 1, "rows": rows(&["a", "b"]), "key": "Code", "parallel": 1, "every_result": true});
    let reply = mock.reply("bulk_import_cards", args).await;
    assert_eq!(reply["success"], true, "{reply}");
    assert_eq!(reply["data"]["rows"][0], json!({"row": 1, "key": "a", "result": "created", "id": "7", "error": null}));
    assert_eq!(reply["data"]["rows"][1], json!({"row": 2, "key": "b", "result": "exists", "id": "9", "error": null}));
    assert_eq!(reply["message"], "1 created, 1 there already, 0 failed.");
    let sent = sent(&mock, "createCard");
    assert_eq!(sent.len(), 1);
    // An empty cell says nothing.
    let fields = json!([{"field_id": "code", "field_value": "a", "generated_by_ai": true}]);
    assert_eq!(sent[0]["input"], json!({"pipe_id": "1", "fields_attributes": fields}));
}

/// Ways in which a row may have arrived although nobody knows.
fn lost() -> Vec<Box<dyn Fn(Mock) -> Mock>> {
    let (endpoint, kind) = (EndpointKind::Public, OperationKind::Mutation);
    let fails = |error: Error| -> Box<dyn Fn(Mock) -> Mock> {
        Box::new(move |mock: Mock| mock.failing("createCard", error.clone()))
    };
    let says = |payload: Value| -> Box<dyn Fn(Mock) -> Mock> {
        Box::new(move |mock: Mock| mock.on("createCard", payload.clone()))
    };
    vec![
        fails(Error::Timeout { endpoint, limit: Duration::from_secs(30), kind }),
        fails(Error::Transport { endpoint, cause: "reset".into(), sent: true, kind }),
        fails(Error::Http { endpoint, status: 503, detail: "busy".into(), kind }),
        fails(Error::TooLarge { endpoint, limit: 1, kind }),
        says(Value::Null),
        says(json!({})),
        says(json!({"card": null})),
        says(json!({"card": {"id": ""}})),
    ]
}

/// However often the search does not know it yet: a row that may have arrived is looked for, and not sent again in this run.
#[tokio::test]
async fn a_row_that_may_have_arrived_is_not_sent_again() {
    let args = json!({"pipe_id": 1, "rows": rows(&["a"]), "key": "Code", "every_result": true});
    let plays = lost().into_iter().flat_map(|lost| {
        // At which look it is found, if at any.
        [Some(1), Some(3), None].map(|at| {
            let mut mock = lost(form()).on("createCard", card("8")).on("findCards", found(&[]));
            for look in 1..=at.unwrap_or(1) {
                mock = mock.on("findCards", if Some(look) == at { found(&["7"]) } else { found(&[]) });
            }
            let args = args.clone();
            async move {
                let reply = mock.call("bulk_import_cards", args).await;
                assert_eq!(sent(&mock, "createCard").len(), 1, "{at:?} {reply:?}");
                assert_eq!(sent(&mock, "findCards").len(), 1 + at.unwrap_or(3), "{at:?}");
                match (at, reply) {
                    (Some(_), Ok(outcome)) => {
                        let body = outcome.body.into_value();
                        assert_eq!((&body["created"], &body["rows"][0]["id"]), (&json!(1), &json!("7")), "{body}");
                    }
                    (None, Err(error)) => {
                        assert_eq!(results(&error), [(1, "unknown".to_owned())]);
                        assert_eq!(error.details["may_have_been_applied"], true);
                        assert!(error.message.contains("run again later"), "{error}");
                    }
                    (at, reply) => panic!("{at:?}: {reply:?}"),
                }
            }
        })
    });
    join_all(plays.collect::<Vec<_>>()).await;
    // Nothing tells the row apart: it is not looked for, and what is known is said.
    for lost in lost() {
        let mock = lost(form()).on("createCard", card("8"));
        let args = json!({"pipe_id": 1, "rows": rows(&["a"]), "every_row": true});
        let error = mock.call("bulk_import_cards", args).await.unwrap_err();
        assert_eq!((results(&error), sent(&mock, "createCard").len()), (vec![(1, "unknown".to_owned())], 1));
        assert_eq!(error.details["may_have_been_applied"], true);
    }
}

/// What was surely not applied is sent again, without a look.
#[tokio::test]
async fn a_row_that_did_not_arrive_is_sent_again() {
    let (endpoint, kind) = (EndpointKind::Public, OperationKind::Mutation);
    for error in [
        Error::RateLimited { endpoint, status: 429, retry_after_s: 0, kind },
        Error::Transport { endpoint, cause: "refused".into(), sent: false, kind },
    ] {
        let mock = form().on("findCards", found(&[])).failing("createCard", error).on("createCard", card("8"));
        let args = json!({"pipe_id": 1, "rows": rows(&["a"]), "key": "Code"});
        let reply = mock.reply("bulk_import_cards", args).await;
        assert_eq!(reply["data"]["created"], 1, "{reply}");
        assert_eq!((sent(&mock, "createCard").len(), sent(&mock, "findCards").len()), (2, 1));
    }
}

/// The next run of an import looks first, and sends only what is not there.
#[tokio::test]
async fn what_is_unknown_is_settled_by_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    std::fs::write(&file, "Code\na\n").unwrap();
    let args = json!({"pipe_id": 1, "file": file, "key": "Code", "every_result": true});
    let mock = form().on("findCards", found(&[])).timeout("createCard", OperationKind::Mutation);
    let error = mock.call("bulk_import_cards", args.clone()).await.unwrap_err();
    assert_eq!(results(&error), [(1, "unknown".to_owned())]);
    for (there, result, times) in [(found(&["7"]), "exists", 0), (found(&[]), "created", 1)] {
        let mock = form().on("findCards", there).on("createCard", card("8"));
        let body = mock.call("bulk_import_cards", args.clone()).await.unwrap().body.into_value();
        assert_eq!(body["rows"][0]["result"], result, "{body}");
        assert_eq!(sent(&mock, "createCard").len(), times);
    }
}

/// Whether a key is there is known only from a list of what was asked for. Whatever else comes, no row is sent.
#[tokio::test]
async fn a_look_up_that_is_not_answered_sends_nothing() {
    let end = json!({"hasNextPage": false, "endCursor": null});
    let unanswered = [
        Value::Null,
        json!({}),
        json!([]),
        json!(7),
        json!("x"),
        json!({"edges": null, "pageInfo": end}),
        json!({"edges": {}, "pageInfo": end}),
        json!({"edges": [null], "pageInfo": end}),
        json!({"edges": [{"node": null}], "pageInfo": end}),
        json!({"edges": [{"node": {}}], "pageInfo": end}),
        json!({"edges": []}),
        json!({"edges": [], "pageInfo": {}}),
        json!({"edges": [], "pageInfo": {"hasNextPage": true, "endCursor": null}}),
        json!({"edges": [], "pageInfo": {"hasNextPage": true, "endCursor": ""}}),
    ];
    let many: Vec<String> = (0..60).map(|n| format!("k{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let titled = |codes: &[&str]| -> Value { codes.iter().map(|code| json!({"title": code, "Code": code})).collect() };
    let table = json!({"id": "9", "table_fields": [{"id": "code", "label": "Code", "type": "short_text"}]});
    for answer in &unanswered {
        for (tool, root, args) in [
            ("bulk_import_cards", "findCards", json!({"pipe_id": 1, "rows": rows(&["a"]), "key": "Code"})),
            ("bulk_import_cards", "cards", json!({"pipe_id": 1, "rows": rows(&many), "key": "Code"})),
            ("bulk_import_cards", "cards", json!({"pipe_id": 1, "rows": titled(&["a"]), "key": "title"})),
            ("bulk_import_cards", "cards", json!({"pipe_id": 1, "rows": titled(&many), "key": "title"})),
            ("bulk_import_records", "findRecords", json!({"table_id": "9", "rows": [{"Code": "a"}], "key": "Code"})),
            ("bulk_import_records", "table_records", json!({"table_id": "9", "rows": titled(&["a"]), "key": "title"})),
        ] {
            let mock = form().on("table", table.clone()).on(root, answer.clone());
            let mock = mock.on("createCard", card("7")).on("createTableRecord", json!({"table_record": {"id": "7"}}));
            let error = mock.call(tool, args).await.map(|outcome| outcome.body.into_value()).unwrap_err();
            assert!(error.message.contains(root) && error.message.contains("cannot be read"), "{answer}: {error}");
            assert!(mock.writes().is_empty(), "{answer}: {root}");
        }
        // The same of the thing that an earlier run created.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows.csv");
        std::fs::write(&file, "Code\na\n").unwrap();
        let args = json!({"pipe_id": 1, "file": file, "key": "Code"});
        let mock = form().on("findCards", found(&[])).on("createCard", card("7"));
        mock.call("bulk_import_cards", args.clone()).await.unwrap();
        let mock = form().on("findCards", found(&[])).on("card", answer.clone()).on("createCard", card("8"));
        assert!(mock.call("bulk_import_cards", args).await.is_err(), "{answer}");
        assert!(mock.writes().is_empty(), "{answer}");
    }
    // Pages that lead in a circle.
    let circle = json!({"edges": [], "pageInfo": {"hasNextPage": true, "endCursor": "x"}});
    let mock = form().on("cards", circle).on("createCard", card("7"));
    let args = json!({"pipe_id": 1, "rows": rows(&many), "key": "Code"});
    let error = mock.call("bulk_import_cards", args).await.unwrap_err();
    assert!(error.message.contains("read before") && mock.writes().is_empty(), "{error}");
    // And a form that is not answered: what it requires is not known.
    let mock = Mock::new().on("pipe", json!({"start_form_fields": null})).on("findCards", found(&[]));
    let error = mock.call("bulk_import_cards", json!({"pipe_id": 1, "rows": titled(&["a"]), "key": "title"})).await;
    assert!(error.unwrap_err().message.contains("cannot be read") && mock.writes().is_empty());
}

#[tokio::test]
async fn one_bad_row_stops_no_other_and_ten_stop_all() {
    let mock = form()
        .on("findCards", found(&[]))
        .on("createCard", card("7"))
        .error("createCard", "Not today", "RECORD_NOT_SAVED")
        .on("createCard", card("8"));
    let args = json!({"pipe_id": 1, "rows": rows(&["a", "b", "c"]), "key": "Code", "parallel": 1});
    let error = mock.call("bulk_import_cards", args).await.unwrap_err();
    assert_eq!(results(&error), [(2, "failed".to_owned())]);
    assert_eq!(error.code.as_deref(), Some("RECORD_NOT_SAVED"));
    assert!(error.message.starts_with("2 created, 0 there already, 1 failed. Row 2: Not today"), "{error}");

    let mock = form().error("createCard", "Never", "RECORD_NOT_SAVED");
    let codes: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
    let args = json!({"pipe_id": 1, "rows": rows(&codes), "every_row": true, "parallel": 1});
    let error = mock.call("bulk_import_cards", args).await.unwrap_err();
    assert_eq!(sent(&mock, "createCard").len(), 10);
    assert_eq!((&error.details["failed"], &error.details["left"]), (&json!(10), &json!(30)));
}

/// However little time a call has, it makes one row, and says how many are left: called again and again it comes to an end.
#[tokio::test]
async fn a_call_without_time_makes_one_row() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    std::fs::write(&file, "Code\na\nb\nc\n").unwrap();
    let args = json!({"pipe_id": 1, "file": file, "every_row": true, "max_seconds": 0});
    for (made, left) in [(1, 2), (1, 1), (1, 0), (0, 0)] {
        let mock = form().on("createCard", card("7"));
        let reply = mock.reply("bulk_import_cards", args.clone()).await;
        let counts = (&reply["data"]["created"], &reply["data"]["left"], sent(&mock, "createCard").len());
        assert_eq!(counts, (&json!(made), &json!(left), made), "{reply}");
        let told = reply["message"].as_str().unwrap().contains(&format!("{left} rows are left; the same call goes on"));
        assert_eq!(told, left > 0, "{reply}");
    }
    // The same of an export and its pages.
    let mock = form().on("cards", page(0, 2, Some("x")));
    let reply = mock.reply("bulk_export_cards", json!({"pipe_id": 1, "max_seconds": 0})).await;
    assert_eq!((&reply["data"]["count"], &reply["data"]["next_cursor"]), (&json!(2), &json!("x")), "{reply}");
}

#[tokio::test]
async fn nothing_is_sent_when_anything_is_wrong() {
    for (args, wanted) in [
        (json!({"pipe_id": 1, "key": "Code"}), "`rows` or as a `file`"),
        (json!({"pipe_id": 1, "rows": [], "key": "Code"}), "no rows"),
        (json!({"pipe_id": 1, "rows": [{"Code": "a"}], "file": "x"}), "`rows` or as a `file`"),
        (json!({"pipe_id": 1, "rows": [{"Code": "a"}]}), "`key`"),
        (json!({"pipe_id": 1, "rows": [{"Code": "a"}], "key": "Other"}), "Other is no column"),
        (json!({"pipe_id": 1, "rows": [{"Note": "a"}], "every_row": true}), "requires: Code"),
        (
            json!({"pipe_id": 1, "rows": [{"Code": "a", "Odd": 1}], "key": "Code"}),
            "no field for Odd. Its fields: title, ",
        ),
        (json!({"pipe_id": 1, "rows": [{"Code": "a"}, {"Code": " "}], "key": "Code"}), "row 2, Code: the key is blank"),
        (json!({"pipe_id": 1, "rows": [{"Code": "a"}], "key": "Code", "parallel": 17}), "between 1 and 16"),
        (json!({"pipe_id": 1, "rows": [{"Code": "a"}], "key": "Code", "map": {"Code": 1}}), "as text"),
        (json!({"pipe_id": 1, "file": "/nonexistent/rows.csv", "key": "Code"}), "the file was not found"),
    ] {
        let mock = form();
        let error = mock.call("bulk_import_cards", args.clone()).await.unwrap_err();
        assert!(error.kind == Kind::Input && error.message.contains(wanted), "{args}: {error}");
        assert!(mock.sent().iter().all(|sent| sent.kind == OperationKind::Query), "{args}");
    }
    let bare = Mock::new().on("pipe", json!({"start_form_fields": [], "phases": []}));
    let args = json!({"pipe_id": 1, "rows": [{"Odd": 1}], "every_row": true});
    let error = bare.call("bulk_import_cards", args).await.unwrap_err();
    assert!(error.message.contains("no field for Odd. Its fields: title. Name"), "{error}");
}

/// What a run that was killed left behind decides what the next one sends.
#[tokio::test]
async fn an_import_goes_on_by_its_journal() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    std::fs::write(&file, "Code,Note\na,1\nb,2\nc,3\nc,3\n").unwrap();
    let args = json!({"pipe_id": 1, "file": file, "every_row": true, "parallel": 1, "every_result": true});
    // The first row arrives, the second may have, and then everything ends.
    let mock = form().on("createCard", card("7")).timeout("createCard", OperationKind::Mutation).error(
        "createCard",
        "No",
        "RECORD_NOT_SAVED",
    );
    let error = mock.call("bulk_import_cards", args.clone()).await.unwrap_err();
    let unknown = || (2, "unknown".to_owned());
    let failed = |row: u64| (row, "failed".to_owned());
    assert_eq!(results(&error), [(1, "created".to_owned()), unknown(), failed(3), failed(4)]);

    let mock = form().on("createCard", card("8"));
    let error = mock.call("bulk_import_cards", args.clone()).await.unwrap_err();
    let exists = |row: u64| (row, "exists".to_owned());
    let created = |row: u64| (row, "created".to_owned());
    assert_eq!(results(&error), [exists(1), unknown(), created(3), created(4)]);
    assert_eq!(sent(&mock, "createCard").len(), 2);
    assert!(error.message.contains("without its line in the journal"), "{error}");
    let journal = error.details["journal"].as_str().unwrap().to_owned();
    assert!(Path::new(&journal).starts_with(folder.path()) && journal.ends_with("rows.csv.journal.jsonl"));

    // A rehearsal changes nothing of it, and nothing is sent twice.
    let before = std::fs::read_to_string(&journal).unwrap();
    let mock = form();
    let mut rehearsal = args.clone();
    rehearsal["dry_run"] = true.into();
    let reply = mock.reply("bulk_import_cards", rehearsal).await;
    assert_eq!((&reply["steps"], &reply["before"]["rows"][1]["result"]), (&json!([]), &json!("unknown")), "{reply}");
    assert_eq!(std::fs::read_to_string(&journal).unwrap(), before);

    // Without a journal every row is sent.
    let mut without = args;
    without["journal"] = "".into();
    let mock = form().on("createCard", card("9"));
    mock.call("bulk_import_cards", without).await.unwrap();
    assert_eq!(sent(&mock, "createCard").len(), 4);
}

/// A file that is there and no journal is refused before anything is sent, and stays as it is: the rows themselves, another file.
#[tokio::test]
async fn what_is_no_journal_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    std::fs::write(&file, "Code\na\n").unwrap();
    let notes = folder.path().join("notes.txt");
    std::fs::write(&notes, "mine\n").unwrap();
    let (empty, same) = (folder.path().join("empty"), folder.path().join(".").join("rows.csv"));
    std::fs::write(&empty, "").unwrap();
    for dry_run in [false, true] {
        for (journal, wanted) in [
            (file.as_path(), "its own journal"),
            (same.as_path(), "its own journal"),
            (notes.as_path(), "no journal of an import"),
            (folder.path(), "no regular file"),
        ] {
            let mock = form().on("findCards", found(&[])).on("createCard", card("7"));
            let args = json!({"pipe_id": 1, "file": file, "key": "Code", "journal": journal, "dry_run": dry_run});
            let error = mock.call("bulk_import_cards", args).await.unwrap_err();
            assert!(error.kind == Kind::Input && error.message.contains(wanted), "{error}");
            assert_eq!((mock.writes().len(), sent(&mock, "findCards").len()), (0, 0));
        }
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "Code\na\n");
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "mine\n");
    let mock = form().on("findCards", found(&[])).on("createCard", card("7"));
    let args = json!({"pipe_id": 1, "file": file, "key": "Code", "journal": empty});
    mock.call("bulk_import_cards", args).await.unwrap();
}

/// With a key Pipefy decides; the journal helps where a search does not find what is there.
#[tokio::test]
async fn the_key_decides_and_the_journal_helps() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    std::fs::write(&file, "Code\na\nb\n").unwrap();
    let args = json!({"pipe_id": 1, "file": file, "key": "Code", "parallel": 1});
    let mock = form().on("findCards", found(&[])).on("createCard", card("7")).on("createCard", card("8"));
    mock.call("bulk_import_cards", args.clone()).await.unwrap();
    // The search knows neither; one of them was deleted since.
    let mock = form()
        .on("findCards", found(&[]))
        .on("card", json!({"id": "7"}))
        .error("card", "You cannot see it", "PERMISSION_DENIED")
        .on("createCard", card("9"));
    let outcome = mock.call("bulk_import_cards", args).await.unwrap().body.into_value();
    assert_eq!((&outcome["created"], &outcome["existing"]), (&json!(1), &json!(1)), "{outcome}");
}

#[tokio::test]
async fn a_hosted_server_takes_rows_and_no_files() {
    for args in [
        json!({"pipe_id": 1, "file": "/etc/hostname", "key": "Code"}),
        json!({"pipe_id": 1, "rows": [{"Code": "a"}], "key": "Code", "journal": "/tmp/x"}),
    ] {
        let error = form().hosted().call("bulk_import_cards", args).await.unwrap_err();
        assert_eq!(error.kind, Kind::Refused, "{error}");
    }
    let error = form().hosted().call("bulk_export_cards", json!({"pipe_id": 1, "file": "/tmp/x"})).await.unwrap_err();
    assert_eq!(error.kind, Kind::Refused, "{error}");
    let mock = form().hosted().on("findCards", found(&[])).on("createCard", card("7"));
    let reply = mock.reply("bulk_import_cards", json!({"pipe_id": 1, "rows": rows(&["a"]), "key": "Code"})).await;
    assert_eq!((&reply["data"]["created"], reply["data"].get("journal")), (&json!(1), None), "{reply}");
}

fn page(from: usize, count: usize, next: Option<&str>) -> Value {
    let node = |n: usize| {
        json!({"node": {"id": n.to_string(), "title": format!("Card {n}"), "current_phase": {"name": "New"},
                        "fields": [{"name": "Code", "value": format!("c\"{n}")}]}})
    };
    let edges: Vec<Value> = (from..from + count).map(node).collect();
    json!({"edges": edges, "pageInfo": {"hasNextPage": next.is_some(), "endCursor": next}})
}

#[tokio::test]
async fn all_pages_become_rows() {
    let mock = form().on("cards", page(0, 2, Some("x"))).on("cards", page(2, 1, None));
    let reply = mock.reply("bulk_export_cards", json!({"pipe_id": 1})).await;
    assert_eq!(reply["data"]["columns"], json!(["id", "title", "phase", "Code", "Note", "Late"]));
    assert_eq!(reply["data"]["rows"][2], json!(["2", "Card 2", "New", "c\"2", null, null]));
    assert_eq!((&reply["data"]["complete"], &reply["data"]["count"]), (&json!(true), &json!(3)));
    // Only some columns, and as many rows as are wanted.
    let mock = form().on("cards", page(0, 2, Some("x")));
    let args = json!({"pipe_id": 1, "fields": ["code", "Title"], "max_items": 2});
    let reply = mock.reply("bulk_export_cards", args).await;
    assert_eq!(reply["data"]["rows"][1], json!(["c\"1", "Card 1"]));
    assert_eq!((&reply["data"]["complete"], &reply["data"]["next_cursor"]), (&json!(false), &json!("x")));
    assert_eq!(sent(&mock, "cards")[0]["first"], 2);
    let error = form().call("bulk_export_cards", json!({"pipe_id": 1, "fields": ["Cod"]})).await.unwrap_err();
    assert!(error.message.contains("There is no column Cod") && error.message.contains("Late"), "{error}");
}

#[tokio::test]
async fn a_result_ends_where_it_is_full() {
    let mock = form().on("cards", page(0, 50, Some("x"))).on("cards", page(50, 50, None));
    let mock = mock.room(5_000);
    let reply = mock.reply("bulk_export_cards", json!({"pipe_id": 1})).await;
    assert_eq!((&reply["data"]["count"], &reply["data"]["next_cursor"]), (&json!(50), &json!("x")), "{reply}");
    assert!(reply.get("truncated").is_none(), "{reply}");
}

#[tokio::test]
async fn a_file_is_written_once_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cards.csv");
    let args = json!({"pipe_id": 1, "file": file, "fields": ["id", "Code"]});
    let mock = form().on("cards", page(0, 1, Some("x"))).error("cards", "Not now", "OOPS");
    let error = mock.call("bulk_export_cards", args.clone()).await.unwrap_err();
    assert_eq!((&error.details["rows_written"], &error.details["next_cursor"]), (&json!(1), &json!("x")));
    let error = form().call("bulk_export_cards", args.clone()).await.unwrap_err();
    assert!(error.message.contains("there already"), "{error}");
    let mut rest = args;
    rest["after"] = "x".into();
    let mock = form().on("cards", page(1, 1, None));
    let outcome = mock.call("bulk_export_cards", rest).await.unwrap().body.into_value();
    assert_eq!((&outcome["complete"], &outcome["count"]), (&json!(true), &json!(1)));
    assert_eq!(sent(&mock, "cards")[0]["after"], "x");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "id,Code\r\n0,\"c\"\"0\"\r\n1,\"c\"\"1\"\r\n");
    let lines = folder.path().join("cards.ndjson");
    let mock = form().on("cards", page(0, 1, None));
    mock.call("bulk_export_cards", json!({"pipe_id": 1, "file": lines, "fields": ["id", "phase"]})).await.unwrap();
    assert_eq!(std::fs::read_to_string(&lines).unwrap(), "{\"id\":\"0\",\"phase\":\"New\"}\n");
    let error = form().read_only().call("bulk_export_cards", json!({"pipe_id": 1, "file": "x.csv"})).await.unwrap_err();
    assert_eq!(error.code.as_deref(), Some("READ_ONLY"));
}

/// Many keys are read page by page, not one by one; it is the field that counts, not its label.
#[tokio::test]
async fn many_keys_are_read_at_once() {
    let node = |id: &str, values: &[(&str, &str)]| {
        let field = |(slug, value): &(&str, &str)| json!({"name": "Code", "value": value, "field": {"id": slug}});
        json!({"node": {"id": id, "title": "T", "fields": values.iter().map(field).collect::<Vec<_>>()}})
    };
    // A field of a phase has the label and the value as well; a card of its own has it in the right place.
    let rows_there = [
        node("1", &[("code", "k0")]),
        node("2", &[("code_1", "other"), ("code", "k1")]),
        node("3", &[("code_1", "k2"), ("code", "x")]),
    ];
    let listed = json!({"edges": rows_there, "pageInfo": {"hasNextPage": false, "endCursor": null}});
    let mock = form().on("cards", listed).on("createCard", card("7"));
    let codes: Vec<String> = (0..60).map(|n| format!("k{n}")).collect();
    let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
    let args = json!({"pipe_id": 1, "rows": rows(&codes), "key": "Code"});
    let reply = mock.reply("bulk_import_cards", args.clone()).await;
    assert_eq!((&reply["data"]["created"], &reply["data"]["existing"]), (&json!(58), &json!(2)), "{reply}");
    assert_eq!(sent(&mock, "cards").len(), 1);

    // Where the listing does not say which field it is, each key is asked for.
    let unnamed = json!({"id": "1", "title": "T", "fields": [{"name": "Code", "value": "k0"}]});
    let listed = json!({"edges": [{"node": unnamed}], "pageInfo": {"hasNextPage": false, "endCursor": null}});
    let mock = form().on("cards", listed).on("findCards", found(&["5"]));
    let reply = mock.reply("bulk_import_cards", args).await;
    assert_eq!(reply["data"]["existing"], 60, "{reply}");
    assert_eq!(sent(&mock, "findCards").len(), 60);
}

/// Fields of one label, or of the name of a column that every row has, are columns of their own; each shows its own value.
#[tokio::test]
async fn fields_of_one_label_are_two_columns() {
    let field = |id: &str, label: &str| json!({"id": id, "uuid": format!("u-{id}"), "label": label});
    let shown = |id: &str, label: &str, value: &str| json!({"name": label, "value": value, "field": {"id": id, "uuid": format!("u-{id}")}});
    let node = json!({"id": "5", "title": "T", "current_phase": {"name": "Do"}, "fields": [
        shown("key_1", "Key", "late"), shown("key", "Key", "early"), shown("title_1", "title", "own")
    ]});
    let page = json!({"edges": [{"node": node}], "pageInfo": {"hasNextPage": false, "endCursor": null}});
    let mock = || {
        let fields = json!([field("key", "Key"), field("title_1", "title")]);
        let form = json!({"start_form_fields": fields, "phases": [{"fields": [field("key_1", "Key")]}]});
        Mock::new().on("pipe", form).on("cards", page.clone())
    };
    let reply = mock().reply("bulk_export_cards", json!({"pipe_id": 1})).await;
    assert_eq!(reply["data"]["columns"], json!(["id", "title", "phase", "Key", "title (title_1)", "Key (key_1)"]));
    assert_eq!(reply["data"]["rows"][0], json!(["5", "T", "Do", "early", "own", "late"]));
    for (fields, wanted) in [
        (json!(["Key (key_1)", "key"]), json!(["late", "early"])),
        (json!(["key_1", "u-title_1"]), json!(["late", "own"])),
        (json!(["title_1", "title", "Key"]), json!(["own", "T", "early"])),
    ] {
        let reply = mock().reply("bulk_export_cards", json!({"pipe_id": 1, "fields": fields})).await;
        assert_eq!(reply["data"]["rows"][0], wanted, "{reply}");
    }
}

/// An export that cannot be whole fails, and says where it can go on.
#[tokio::test]
async fn an_export_without_a_way_on_is_a_failure() {
    let end = |more: Value, cursor: Value| json!({"hasNextPage": more, "endCursor": cursor});
    let with = |info: Value| json!({"edges": page(1, 1, None)["edges"], "pageInfo": info});
    for bad in [
        with(end(json!(true), Value::Null)),
        with(end(json!(true), json!(""))),
        with(end(Value::Null, Value::Null)),
        with(Value::Null),
        with(end(json!(true), json!("x"))),
        json!({"edges": null, "pageInfo": end(json!(false), Value::Null)}),
        json!({}),
        Value::Null,
        json!([]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cards.ndjson");
        let mock = form().on("cards", page(0, 1, Some("x"))).on("cards", bad.clone());
        let error = mock.call("bulk_export_cards", json!({"pipe_id": 1, "file": file})).await;
        let error = error.map(|outcome| outcome.body.into_value()).unwrap_err();
        assert!(error.message.contains("`cards` cannot be read"), "{bad}: {error}");
        // In a circle there is no way on at all.
        if bad["pageInfo"]["endCursor"] != "x" {
            assert_eq!((&error.details["rows_written"], &error.details["next_cursor"]), (&json!(1), &json!("x")));
        }
        let table = json!({"id": "9", "table_fields": [{"id": "code", "label": "Code"}]});
        let mock = Mock::new().on("table", table).on("table_records", bad.clone());
        let error = mock.call("bulk_export_records", json!({"table_id": "9"})).await;
        assert!(error.is_err(), "{bad}");
    }
    for layout in [
        json!({"start_form_fields": [], "phases": null}),
        json!({"phases": []}),
        json!({"start_form_fields": [], "phases": [{}]}),
    ] {
        let error = Mock::new().on("pipe", layout).call("bulk_export_cards", json!({"pipe_id": 1})).await.unwrap_err();
        assert!(error.message.contains("cannot be read"), "{error}");
    }
}
