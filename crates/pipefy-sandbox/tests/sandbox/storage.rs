//! Signed uploads and downloads.

use crate::Rig;
use serde_json::{Value, json};

const PRESIGN: &str = "mutation createPresignedUrl($organizationId: ID!, $fileName: String!, $contentType: String, $contentLength: Int) {
    createPresignedUrl(input: { organizationId: $organizationId, fileName: $fileName, contentType: $contentType, contentLength: $contentLength }) {
        url downloadUrl clientMutationId } }";

async fn presign(rig: &Rig, name: &str, content_type: Option<&str>) -> Value {
    let org = rig.ok("{ organizations { id } }", json!({})).await["organizations"][0]["id"].clone();
    let variables = json!({ "organizationId": org, "fileName": name, "contentType": content_type });
    rig.ok(PRESIGN, variables).await["createPresignedUrl"].clone()
}

#[tokio::test]
async fn a_file_goes_up_onto_a_card_and_comes_back() {
    let rig = Rig::new().await;
    let links = presign(&rig, "relatório (1).pdf", Some("application/pdf")).await;
    let url = reqwest::Url::parse(links["url"].as_str().unwrap()).unwrap();
    assert!(url.path().starts_with("/orgs/"), "{url}");
    assert!(url.query().unwrap().contains("X-Amz-Expires=300"));
    let put = rig.http.put(url.clone()).header("content-type", "application/pdf").body("%PDF-1").send().await.unwrap();
    assert_eq!(put.status(), 200);
    let key = "orgs".to_owned() + &percent_decoded(url.path().trim_start_matches("/orgs"));
    assert!(key.ends_with("/relatório (1).pdf"), "{key}");
    let card = rig.card().await;
    let update = "mutation($input: UpdateCardFieldInput!) { updateCardField(input: $input) {
        card { id fields { field { id label } value array_value } attachments { path url } } success } }";
    let input = json!({ "card_id": card, "field_id": "quotes", "new_value": [key] });
    let updated = rig.ok(update, json!({ "input": input })).await["updateCardField"]["card"].clone();
    assert_eq!(updated["attachments"][0]["path"], key);
    let field = updated["fields"].as_array().unwrap().iter().find(|f| f["field"]["id"] == "quotes").unwrap();
    for link in [field["array_value"][0].as_str().unwrap(), links["downloadUrl"].as_str().unwrap()] {
        let got = rig.http.get(link).send().await.unwrap();
        assert_eq!(got.headers()["content-type"], "application/pdf");
        assert_eq!(got.text().await.unwrap(), "%PDF-1");
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let hex: Vec<u8> = rest.by_ref().take(2).collect();
            bytes.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn unsigned_altered_expired_or_differently_typed_requests_are_refused() {
    let rig = Rig::new().await;
    let links = presign(&rig, "a.txt", Some("text/plain")).await;
    let url = links["url"].as_str().unwrap();
    let put = |url: String, kind: &'static str| {
        let request = rig.http.put(url).header("content-type", kind).body("x");
        async move {
            let response = request.send().await.unwrap();
            (response.status().as_u16(), response.text().await.unwrap())
        }
    };
    let (path, query) = url.split_once('?').unwrap();
    let unsigned = put(path.to_owned(), "text/plain").await;
    assert_eq!(unsigned.0, 403);
    let other_type = put(url.to_owned(), "multipart/form-data").await;
    assert!(other_type.0 == 403 && other_type.1.contains("SignatureDoesNotMatch"), "{other_type:?}");
    let other_file = put(format!("{}b.txt?{query}", path.trim_end_matches("a.txt")), "text/plain").await;
    assert_eq!(other_file.0, 403);
    let longer = put(url.replace("X-Amz-Expires=300", "X-Amz-Expires=3000"), "text/plain").await;
    assert_eq!(longer.0, 403);
    assert_eq!(put(url.to_owned(), "text/plain").await.0, 200);
    let missing =
        rig.http.get(presign(&rig, "never.txt", None).await["downloadUrl"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(missing.status(), 404);
    let outside = rig.http.get(format!("{}/storage/elsewhere/a.txt?{query}", rig.sandbox.url())).send().await.unwrap();
    assert_eq!(outside.status(), 403);
}

#[tokio::test]
async fn seeded_attachments_can_be_downloaded() {
    let rig = Rig::new().await;
    let pipe = rig.pipe("Purchase Requests").await;
    let query = "query($id: ID!) { cards(pipe_id: $id, first: 50) { edges { node { attachments { url } } } } }";
    let data = rig.ok(query, json!({ "id": pipe["id"] })).await;
    let urls =
        data["cards"]["edges"].as_array().unwrap().iter().filter_map(|e| e["node"]["attachments"][0]["url"].as_str());
    let url = urls.clone().next().expect("a seeded attachment").to_owned();
    assert_eq!(rig.http.get(url).send().await.unwrap().status(), 200);
}
