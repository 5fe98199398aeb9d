//! Files, seeds, and several processes on one file.

use crate::{Rig, ask, client};
use pipefy_sandbox::{DEFAULT_TOKEN, Data, Sandbox, SandboxError, SandboxOptions, attach_or_start};
use serde_json::json;

fn options(data: Data, seed: u64) -> SandboxOptions {
    SandboxOptions { data, seed, ..SandboxOptions::default() }
}

#[tokio::test]
async fn a_file_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let data = Data::File(folder.path().join("new").join("sandbox.sqlite"));
    let rig = Rig::with(options(data.clone(), 1)).await;
    let id = rig.card().await;
    rig.sandbox.shutdown().await;
    let rig = Rig::with(options(data, 99)).await;
    let read = rig.ok("query($id: ID!) { card(id: $id) { title } }", json!({ "id": id })).await;
    assert!(read["card"]["title"].as_str().unwrap().starts_with("Teclado"));
    assert_ne!(rig.card().await, id);
}

#[tokio::test]
async fn the_same_seed_gives_the_same_ids_and_another_seed_others() {
    let query = "{ organizations { id uuid pipes { id uuid phases { id fields { uuid internal_id } cards(first: 30) { edges { node { id title } } } } }
        tables(first: 9) { nodes { id table_records(first: 50) { edges { node { id } } } } } } }";
    let mut answers = Vec::new();
    for seed in [7, 7, 8] {
        let rig = Rig::with(options(Data::Memory, seed)).await;
        answers.push(rig.ok(query, json!({})).await);
    }
    assert_eq!(answers[0], answers[1]);
    assert_ne!(answers[0]["organizations"][0]["pipes"][0]["id"], answers[2]["organizations"][0]["pipes"][0]["id"]);
}

#[tokio::test]
async fn later_processes_attach_to_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let data = Data::File(folder.path().join("sandbox.sqlite"));
    let (one, two) = tokio::join!(attach_or_start(options(data.clone(), 1)), attach_or_start(options(data.clone(), 1)));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.url(), two.url());
    assert_ne!(one.serves(), two.serves(), "exactly one of them serves");
    let read = ask(&client(), two.url(), "/graphql", DEFAULT_TOKEN, "{ me { name } }", json!({})).await;
    assert_eq!(read["data"]["me"]["name"], "Ana Souza");
    one.shutdown().await;
    two.shutdown().await;
    assert!(!folder.path().join("sandbox.sqlite.lock").exists(), "the announcement is withdrawn");
}

#[tokio::test]
async fn a_stale_lock_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sandbox.sqlite");
    let lock = folder.path().join("sandbox.sqlite.lock");
    let other = Sandbox::start(SandboxOptions::default()).await.unwrap();
    for text in [
        "garbage".to_owned(),
        r#"{"url":"http://127.0.0.1:9","key":"0000000000000000","pid":1}"#.to_owned(),
        json!({ "url": other.url(), "key": "0000000000000000", "pid": 1 }).to_string(),
    ] {
        std::fs::write(&lock, text).unwrap();
        let attached = attach_or_start(options(Data::File(file.clone()), 1)).await.unwrap();
        assert!(attached.serves());
        assert_ne!(attached.url(), other.url());
        attached.shutdown().await;
    }
}

#[tokio::test]
async fn a_taken_port_and_a_foreign_file_are_named() {
    let rig = Rig::new().await;
    let bind = rig.sandbox.url().strip_prefix("http://").unwrap().parse().unwrap();
    let error = Sandbox::start(SandboxOptions { bind, ..SandboxOptions::default() }).await.unwrap_err();
    assert!(matches!(error, SandboxError::Bind { .. }), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "this is no database at all, only a text that is long enough to be one").unwrap();
    let error = Sandbox::start(options(Data::File(file), 1)).await.unwrap_err();
    assert!(matches!(error, SandboxError::Database(_)), "{error}");
}
