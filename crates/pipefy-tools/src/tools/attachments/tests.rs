#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::tools::testing::Mock;

/// Head and body of each request.
type Seen = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A storage on loopback: answers every PUT with this status and keeps the requests.
struct Storage {
    base: String,
    seen: Seen,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Storage {
    async fn answering(status: &'static str, body: &'static str) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let seen = Seen::default();
        let kept = seen.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                let mut chunk = vec![0; 64 * 1024];
                let (head, body_start, length) = loop {
                    let read = stream.read(&mut chunk).await.unwrap_or(0);
                    request.extend_from_slice(&chunk[..read]);
                    if let Some(end) = request.windows(4).position(|w| w == b"\r\n\r\n") {
                        let head = String::from_utf8_lossy(&request[..end]).into_owned();
                        let length = head
                            .lines()
                            .find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned))
                            .and_then(|l| l.parse::<usize>().ok())
                            .unwrap_or(0);
                        break (head, end + 4, length);
                    }
                    if read == 0 {
                        return;
                    }
                };
                while request.len() < body_start + length {
                    let read = stream.read(&mut chunk).await.unwrap_or(0);
                    if read == 0 {
                        break;
                    }
                    request.extend_from_slice(&chunk[..read]);
                }
                kept.lock().unwrap().push((head, request[body_start..].to_vec()));
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { base, seen, task }
    }

    fn presigned(&self) -> Value {
        json!({"url": format!("{}/orgs/1/uploads/k/relat%C3%B3rio%20%281%29.pdf?X-Amz-Expires=300&X-Amz-Signature=secretsignature", self.base),
               "downloadUrl": "https://files/d"})
    }
}

/// A card, and a record, that have one attachment field.
fn form(mock: Mock) -> Mock {
    let field =
        |slug: &str, kind: &str| json!({"id": slug, "uuid": format!("u-{slug}"), "internal_id": "9", "type": kind});
    mock.on("card", json!({"pipe": {"start_form_fields": [field("text", "short_text")], "phases": [{"fields": [field("f", "attachment")]}]}}))
        .on("table_record", json!({"table": {"table_fields": [field("f", "attachment"), field("text", "number")]}}))
}

fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".pdf").tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn arguments(path: &std::path::Path) -> Value {
    json!({"organization_id": 1, "card_id": 5, "field_id": "f", "file_path": path, "file_name": " relat\u{f3}rio (1).pdf "})
}

#[tokio::test]
async fn a_file_is_put_to_storage_and_the_field_points_at_its_decoded_path() {
    let storage = Storage::answering("200 OK", "").await;
    let file = file(&vec![7; 300_000]);
    let mock = form(Mock::at(&storage.base))
        .on("createPresignedUrl", storage.presigned())
        .on("updateCardField", json!({"success": true}));
    let reply = mock.reply("upload_attachment_to_card", arguments(file.path())).await;
    assert_eq!(
        reply,
        json!({
            "success": true, "download_url": "https://files/d", "file_name": "relat\u{f3}rio (1).pdf",
            "content_type": "application/pdf", "file_size": 300_000, "field_id": "f", "card_id": "5"
        })
    );
    let writes = mock.writes();
    assert_eq!(
        writes[0].variables,
        json!({"organizationId": "1", "fileName": "relat\u{f3}rio (1).pdf", "contentType": "application/pdf", "contentLength": 300_000})
    );
    assert_eq!(
        writes[1].variables["input"],
        json!({"card_id": "5", "field_id": "f", "new_value": ["orgs/1/uploads/k/relat\u{f3}rio (1).pdf"]})
    );
    let seen = storage.seen.lock().unwrap();
    assert_eq!((seen.len(), seen[0].1.len()), (1, 300_000));
    assert!(seen[0].0.to_lowercase().contains("content-type: application/pdf"));
}

#[tokio::test]
async fn a_record_gets_its_file_too() {
    let storage = Storage::answering("204 No Content", "").await;
    let file = file(b"x");
    let mock = form(Mock::at(&storage.base))
        .on("createPresignedUrl", storage.presigned())
        .on("setTableRecordFieldValue", json!({"table_record": {"id": "5"}}));
    let arguments = json!({"organization_id": "o", "table_record_id": 5, "field_id": "f", "file_path": file.path(), "content_type": " "});
    let reply = mock.reply("upload_attachment_to_table_record", arguments).await;
    assert_eq!((&reply["table_record_id"], &reply["content_type"]), (&json!("5"), &json!("application/pdf")));
    let value = &mock.writes()[1].variables["input"]["value"];
    assert_eq!(*value, json!(["orgs/1/uploads/k/relat\u{f3}rio (1).pdf"]));
}

#[tokio::test]
async fn a_refused_put_leaves_the_field_alone_and_shows_no_url() {
    for (status, body, needle) in [
        ("307 Temporary Redirect", "", "307"),
        ("403 Forbidden", "<Error><Code>SignatureDoesNotMatch</Code></Error>", "what was signed"),
        ("403 Forbidden", "<Error><Code>ExpiredToken</Code></Error>", "call again"),
        ("503 Busy", "", "503"),
    ] {
        let storage = Storage::answering(status, body).await;
        let file = file(b"x");
        let mock = form(Mock::at(&storage.base)).on("createPresignedUrl", storage.presigned());
        let reply = mock.reply("upload_attachment_to_card", arguments(file.path())).await;
        assert_eq!(reply["step"], "s3_upload", "{reply}");
        let text = reply["error"]["message"].as_str().unwrap();
        assert!(text.contains(needle) && !text.contains("secretsignature") && !text.contains("http://"), "{text}");
        assert_eq!(mock.roots(), ["card", "createPresignedUrl"]);
        assert_eq!(storage.seen.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_failed_field_update_gives_the_storage_path_away() {
    let storage = Storage::answering("200 OK", "").await;
    let file = file(b"x");
    let mock = form(Mock::at(&storage.base)).on("createPresignedUrl", storage.presigned()).error(
        "updateCardField",
        "Field not found",
        "RESOURCE_NOT_FOUND",
    );
    let reply = mock.reply("upload_attachment_to_card", arguments(file.path())).await;
    assert_eq!((&reply["step"], &reply["error"]["message"]), (&json!("field_update"), &json!("Field not found")));
    assert_eq!(reply["storage_path"], "orgs/1/uploads/k/relat\u{f3}rio (1).pdf");
}

#[tokio::test]
async fn nothing_is_asked_for_a_file_that_cannot_be_had() {
    let file = file(b"x");
    let folder = tempfile::tempdir().unwrap();
    let huge = tempfile::NamedTempFile::new().unwrap();
    huge.as_file().set_len(super::source::SIZE_LIMIT + 1).unwrap();
    let base = || json!({"organization_id": 1, "card_id": 5, "field_id": "f"});
    let with = |changes: Value| {
        let mut arguments = base();
        for (key, value) in changes.as_object().unwrap() {
            arguments[key] = value.clone();
        }
        arguments
    };
    for (mock, arguments, step, needle) in [
        (Mock::new(), base(), "validation", "exactly one of file_path or file_url"),
        (Mock::new(), with(json!({"file_path": "a", "file_url": "https://x/a"})), "validation", "exactly one"),
        (Mock::new(), with(json!({"file_url": "https://files.example.com/"})), "validation", "no file name"),
        (Mock::new().hosted(), with(json!({"file_path": file.path()})), "validation", "hosted server"),
        (Mock::new(), with(json!({"file_path": folder.path().join("no")})), "file_read", "not found"),
        (Mock::new(), with(json!({"file_path": folder.path()})), "file_read", "not found"),
        (Mock::new(), with(json!({"file_path": huge.path()})), "file_read", "too large"),
        (Mock::new(), with(json!({"file_path": "~nobody/x"})), "file_read", "expansion"),
        (form(Mock::new()), with(json!({"file_url": "ftp://files.example.com/a.pdf"})), "download", "HTTPS"),
        (form(Mock::new()), with(json!({"file_url": "https://127.0.0.1/a.pdf"})), "download", ""),
    ] {
        let reply = mock.reply("upload_attachment_to_card", arguments.clone()).await;
        assert_eq!(reply["step"], step, "{arguments}: {reply}");
        assert!(reply["error"]["message"].as_str().unwrap().contains(needle), "{needle}: {reply}");
        assert!(mock.writes().is_empty());
    }
    let home = folder.path().join("a.csv");
    std::fs::write(&home, "x").unwrap();
    let mock = form(Mock::new()).env("HOME", folder.path().to_str().unwrap()).error("createPresignedUrl", "no", "");
    let reply = mock.reply("upload_attachment_to_card", with(json!({"file_path": "~/a.csv"}))).await;
    assert_eq!(
        (&reply["step"], &mock.writes()[0].variables["contentType"]),
        (&json!("presigned_url"), &json!("text/csv"))
    );
}

#[tokio::test]
async fn the_plan_of_an_upload_is_shown_without_touching_anything() {
    let file = file(b"abc");
    let mut with_dry_run = arguments(file.path());
    with_dry_run["dry_run"] = json!(true);
    let mock = form(Mock::new());
    let reply = mock.reply("upload_attachment_to_card", with_dry_run).await;
    assert_eq!(reply["steps"].as_array().unwrap().len(), 3);
    assert_eq!(reply["steps"][0]["variables"]["contentLength"], 3);
    assert!(reply["steps"][1]["transfer"].as_str().unwrap().contains("3 bytes"));
    let from_url = json!({"organization_id": 1, "card_id": 5, "field_id": "f", "file_url": "https://x.example.com/a.pdf?sig=secret", "dry_run": true});
    let reply = mock.reply("upload_attachment_to_card", from_url).await;
    assert!(
        reply["steps"][0]["variables"]["contentLength"]["$unknown"].is_string()
            && !reply.to_string().contains("secret"),
        "{reply}"
    );
    assert!(mock.writes().is_empty());
    let reply = mock.read_only().reply("upload_attachment_to_card", arguments(file.path())).await;
    assert_eq!(reply["error"]["code"], "READ_ONLY");
}

#[tokio::test]
async fn a_presigned_url_is_given_with_its_path_and_life() {
    for (url, path, life) in [
        (" https://b.s3.amazonaws.com/k%20x ", "k x", Value::Null),
        ("https://b.s3.amazonaws.com/orgs/a.pdf?X-Amz-Expires=900", "orgs/a.pdf", json!(900)),
        ("https://b.s3.amazonaws.com/orgs/a.pdf?X-Amz-Expires=9x", "orgs/a.pdf", Value::Null),
    ] {
        let mock = Mock::new().on("createPresignedUrl", json!({"url": url, "downloadUrl": "d"}));
        let reply = mock
            .reply("create_attachment_presigned_url", json!({"organization_id": 1, "file_name": " a b.pdf "}))
            .await;
        let wanted =
            json!({"success": true, "upload_url": url.trim(), "storage_path": path, "expires_in_seconds": life});
        assert_eq!(reply, wanted);
        assert_eq!(
            mock.writes()[0].variables,
            json!({"organizationId": "1", "fileName": "a b.pdf", "contentType": null, "contentLength": null})
        );
    }
    for (payload, step) in [
        (json!({"url": null}), "presigned_url"),
        (json!({"url": "https://b.s3.amazonaws.com/"}), "presigned_url"),
        (Value::Null, "presigned_url"),
    ] {
        let mock = Mock::new().on("createPresignedUrl", payload);
        let reply =
            mock.reply("create_attachment_presigned_url", json!({"organization_id": 1, "file_name": "a"})).await;
        assert_eq!(reply["step"], step, "{reply}");
    }
    let mock = Mock::new();
    let reply = mock.reply("create_attachment_presigned_url", json!({"organization_id": 1, "file_name": " "})).await;
    assert_eq!(reply["step"], "validation");
    assert!(reply["error"]["message"].as_str().unwrap().contains("file_name") && mock.sent().is_empty());
}

#[tokio::test]
async fn a_field_that_takes_no_file_is_refused_before_anything_is_uploaded() {
    let file = file(b"x");
    for (tool, id, field, part) in [
        ("upload_attachment_to_card", "card_id", "text", "of type short_text"),
        ("upload_attachment_to_card", "card_id", "none", "no field 'none'"),
        ("upload_attachment_to_card", "card_id", "u-f", "slug of the field, which is 'f'"),
        ("upload_attachment_to_table_record", "table_record_id", "text", "of type number"),
        ("upload_attachment_to_table_record", "table_record_id", "none", "attachment fields are f"),
    ] {
        let mock = form(Mock::new());
        let arguments = json!({"organization_id": 1, id: 5, "field_id": field, "file_path": file.path()});
        let reply = mock.reply(tool, arguments).await;
        let text = reply["error"]["message"].as_str().unwrap();
        assert!(text.contains(part) && text.contains("Nothing was uploaded"), "{tool}: {text}");
        assert_eq!((&reply["step"], &reply["error"]["code"]), (&json!("validation"), &json!("INVALID_ARGUMENTS")));
        assert!(mock.writes().is_empty());
    }
    // A card that is not there is told before the bytes move, too; what cannot be read is left to Pipefy.
    let mock = Mock::new().error("card", "Card not found", "RESOURCE_NOT_FOUND");
    let reply = mock.reply("upload_attachment_to_card", arguments(file.path())).await;
    assert_eq!(
        (&reply["step"], &reply["error"]["code"]),
        (&json!("validation"), &json!("RESOURCE_NOT_FOUND")),
        "{reply}"
    );
    for unread in [Mock::new().error("card", "denied", "PERMISSION_DENIED"), Mock::new().on("card", Value::Null)] {
        let mock = unread.error("createPresignedUrl", "no", "");
        assert_eq!(mock.reply("upload_attachment_to_card", arguments(file.path())).await["step"], "presigned_url");
    }
}

#[tokio::test]
async fn the_file_is_looked_for_in_its_field() {
    for (url, verified) in
        [("https://s.example/orgs/1/relat%C3%B3rio%20%281%29.pdf?sig=1", true), ("https://s.example/other.pdf", false)]
    {
        let storage = Storage::answering("200 OK", "").await;
        let file = file(b"x");
        let values = json!({"fields": [{"field": {"id": "f"}, "value": "", "array_value": [url]}]});
        let mock = form(Mock::at(&storage.base))
            .on("createPresignedUrl", storage.presigned())
            .on("updateCardField", json!({"success": true}))
            .on("card", values);
        let mut arguments = arguments(file.path());
        arguments["verify"] = true.into();
        let reply = mock.reply("upload_attachment_to_card", arguments).await;
        assert_eq!(reply["verification"]["verified"], verified, "{reply}");
    }
}
