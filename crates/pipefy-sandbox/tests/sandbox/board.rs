//! The pages for people.

use crate::{CREATE_CARD, Rig};
use serde_json::json;
use std::time::Duration;

async fn page(rig: &Rig, path: &str) -> (u16, String) {
    let response = rig.http.get(format!("{}{path}", rig.sandbox.url())).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test]
async fn the_root_shows_boards_and_cards_and_escapes_everything() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Customer Support").await;
    let nasty = "<script>alert(1)</script> & \"x\" 'y'";
    let input = json!({ "pipe_id": pipe["id"], "fields_attributes": [
        { "field_id": "subject", "field_value": nasty }, { "field_id": "description", "field_value": "d" },
        { "field_id": "channel", "field_value": "Chat" } ] });
    let id = rig.ok(CREATE_CARD, json!({ "input": input })).await["createCard"]["card"]["id"].clone();
    let id = id.as_str().unwrap();
    let (status, home) = page(&rig, "/").await;
    assert_eq!(status, 200);
    for words in ["Pipefy sandbox", "Aurora Labs", "Purchase Requests", "Triage", "Looking as", "Ana Souza"] {
        assert!(home.contains(words), "{words}");
    }
    let escaped = "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;x&quot; &#39;y&#39;";
    let (_, board) = page(&rig, &format!("/?pipe={}", pipe["id"].as_str().unwrap())).await;
    let (_, card) = page(&rig, &format!("/open-cards/{id}")).await;
    for html in [&board, &card] {
        assert!(html.contains(escaped) && !html.contains("<script>alert"), "{html}");
    }
    assert!(card.contains("Channel") && card.contains("History") && card.contains("Comments"), "{card}");
    assert!(board.contains("created"), "the activity list");
    let response = rig.http.get(rig.sandbox.url()).send().await.unwrap();
    let policy = response.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    // Nothing is loaded from elsewhere.
    assert!(!home.contains("src=\"http") && !home.contains("href=\"http"), "{home}");
    assert_eq!(page(&rig, "/board.css").await.0, 200);
    assert_eq!(page(&rig, "/open-cards/1").await.0, 404);
}

#[tokio::test]
async fn each_person_sees_what_they_may() {
    let rig = Rig::new().await;
    let id = rig.card().await;
    let (_, member) = page(&rig, "/?as=member").await;
    assert!(member.contains("Customer Support") && !member.contains("Employee Onboarding"), "{member}");
    let (_, guest) = page(&rig, "/?as=guest").await;
    assert!(guest.contains("Purchase Requests") && !guest.contains("Teclado"), "{guest}");
    assert_eq!(page(&rig, &format!("/open-cards/{id}?as=guest")).await.0, 403);
    assert_eq!(page(&rig, &format!("/open-cards/{id}?as=member")).await.0, 200);
}

#[tokio::test]
async fn a_change_is_announced() {
    let rig = Rig::new().await;
    let mut stream = rig.http.get(format!("{}/board/changes", rig.sandbox.url())).send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    rig.card().await;
    let first = tokio::time::timeout(Duration::from_secs(90), stream.chunk()).await.unwrap().unwrap().unwrap();
    assert!(first.starts_with(b"data: "), "{first:?}");
    // A stream that somebody holds open does not keep the sandbox from stopping.
    tokio::time::timeout(Duration::from_secs(90), rig.sandbox.shutdown()).await.unwrap();
}
