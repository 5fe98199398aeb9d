#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../tests/mock/mod.rs"]
mod mock;

use super::*;
use crate::settings::PipefySettings;
use mock::{Mock, Reply, json, with};
use tokio_util::sync::CancellationToken;

const SECRET: &str = "X-Amz-Signature=5ecre75ignature&X-Amz-Credential=AKIAFAKEFAKE%2F20250101%2Fs3";

fn insecure(base: &str) -> PipefySettings {
    PipefySettings::for_base_url(base, UrlPolicy::Insecure).unwrap()
}

/// Trusts the mock as the configured API host does, and lets downloads reach loopback.
fn open() -> Transfer {
    Transfer::with_gate(&insecure("http://127.0.0.1:1"), Gate::Open)
}

fn no_url(error: &TransferError) {
    for text in [error.to_string(), format!("{error:?}")] {
        let text = text.replace("https://host", "");
        assert!(!text.contains("://") && !text.contains("5ecre75") && !text.contains("AKIAFAKE"), "{text}");
        assert!(!text.trim().is_empty());
    }
}

async fn put(mock: &Mock, budget: &Budget) -> Result<(), TransferError> {
    let url = mock.url(&format!("/bucket/a.txt?{SECRET}"));
    let result = open().upload(&url, Some("text/plain"), 5, "hello", budget).await;
    if let Err(error) = &result {
        no_url(error);
    }
    result
}

async fn get(url: &str, limit: u64) -> Result<Bytes, TransferError> {
    let result = match open().download(url, limit, &Budget::unlimited()).await {
        Ok(download) => download.bytes().await,
        Err(error) => Err(error),
    };
    if let Err(error) = &result {
        no_url(error);
    }
    result
}

#[tokio::test]
async fn an_upload_is_one_plain_put() {
    let mock = Mock::start(|_, _| Reply::Answer(200, vec![], vec![])).await;
    put(&mock, &Budget::unlimited()).await.unwrap();
    let seen = &mock.seen()[0];
    assert_eq!((seen.method.as_str(), seen.text().as_str()), ("PUT", "hello"));
    assert_eq!(seen.header("content-type"), Some("text/plain"));
    assert_eq!(seen.header("content-length"), Some("5"));
    assert_eq!(seen.header("transfer-encoding"), None);
    assert_eq!(seen.header("authorization"), None);
    assert_eq!(seen.header("cookie"), None);
    assert!(seen.target.ends_with(SECRET), "the signed query is sent as given");
}

#[tokio::test]
async fn a_streamed_upload_declares_its_length() {
    let mock = Mock::start(|_, _| Reply::Answer(204, vec![], vec![])).await;
    let chunks = stream::iter([Ok::<_, std::io::Error>("abc"), Ok("defg")]);
    let body = reqwest::Body::wrap_stream(chunks);
    open().upload(&mock.url("/x"), None, 7, body, &Budget::unlimited()).await.unwrap();
    let seen = &mock.seen()[0];
    assert_eq!(seen.header("content-length"), Some("7"));
    assert_eq!(seen.header("content-type"), None);
    assert_eq!(seen.text(), "abcdefg");
}

#[tokio::test]
async fn only_2xx_is_a_stored_upload_and_redirects_are_not_followed() {
    let other = Mock::start(|_, _| Reply::Answer(200, vec![], vec![])).await;
    for status in [301, 302, 307, 308, 304, 400, 403, 404, 500, 503] {
        let location = other.url("/elsewhere");
        let mock = Mock::start(move |_, _| with(status, &[("location", &location)], "")).await;
        let error = put(&mock, &Budget::unlimited()).await.unwrap_err();
        assert_eq!(error.status(), Some(status));
        assert_eq!(mock.count(), 1, "sent once, whatever happens");
    }
    assert_eq!(other.count(), 0);
    let reset = Mock::start(|_, _| Reply::Reset).await;
    assert!(matches!(put(&reset, &Budget::unlimited()).await.unwrap_err(), TransferError::Connection { .. }));
    assert_eq!(reset.count(), 1);
}

#[tokio::test]
async fn what_storage_says_is_kept_short_and_without_the_signature() {
    let xml = "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code><SignatureProvided>5ecre75ignature\
               </SignatureProvided><AWSAccessKeyId>AKIAFAKEFAKE</AWSAccessKeyId></Error>";
    let mock = Mock::start(move |_, _| with(403, &[], xml)).await;
    let error = put(&mock, &Budget::unlimited()).await.unwrap_err();
    let snippet = error.snippet().unwrap();
    assert!(snippet.contains("SignatureDoesNotMatch") && snippet.contains("***"), "{snippet}");

    let long = Mock::start(|_, _| with(400, &[], "é".repeat(5000))).await;
    let error = put(&long, &Budget::unlimited()).await.unwrap_err();
    assert_eq!(error.snippet().unwrap().chars().count(), SNIPPET);

    for html in ["<!DOCTYPE html><p>x", "  <HTML><body>x", "<?xml version='1.0'?><!DOCTYPE html>", ""] {
        let mock = Mock::start(move |_, _| with(500, &[], html)).await;
        assert_eq!(put(&mock, &Budget::unlimited()).await.unwrap_err().snippet(), None, "{html}");
    }
    let endless =
        Mock::start(|_, _| Reply::Raw([b"HTTP/1.1 400 X\r\n\r\n".as_slice(), &vec![b'x'; 1 << 20]].concat())).await;
    assert_eq!(put(&endless, &Budget::unlimited()).await.unwrap_err().status(), Some(400));
}

#[tokio::test]
async fn an_upload_ends_with_its_budget_and_the_socket_closes() {
    let mock = Mock::start(|_, _| Reply::Silence).await;
    let budget = Budget::unlimited().with_deadline(Instant::now() + Duration::from_secs(2));
    assert!(matches!(put(&mock, &budget).await.unwrap_err(), TransferError::Timeout { upload: true, .. }));
    assert!(mock.closed(1).await);

    let cancel = CancellationToken::new();
    let budget = Budget::unlimited().with_cancel(cancel.clone());
    let (result, ()) = tokio::join!(put(&mock, &budget), async {
        while mock.count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        cancel.cancel();
    });
    assert!(matches!(result.unwrap_err(), TransferError::Cancelled { upload: true }));
    assert!(mock.closed(2).await);
    assert!(matches!(put(&mock, &budget).await.unwrap_err(), TransferError::Cancelled { .. }));
    assert_eq!(mock.count(), 2, "nothing is sent for a caller that has gone");
}

#[tokio::test]
async fn an_upload_goes_only_where_storage_can_be() {
    let mock = Mock::start(|_, _| Reply::Answer(200, vec![], vec![])).await;
    let budget = Budget::unlimited();
    let local = mock.url("/x");
    // The sandbox: insecure URLs allowed and the API on the same host.
    Transfer::new(&insecure(&mock.url(""))).unwrap().upload(&local, None, 0, "", &budget).await.unwrap();
    assert_eq!(mock.count(), 1);
    for (settings, url) in [
        (PipefySettings::default(), local.as_str()),
        (insecure("http://localhost:1"), local.as_str()),
        (insecure("https://app.pipefy.com"), local.as_str()),
        (PipefySettings::default(), "https://amazonaws.com.evil.test/x?X-Amz-Signature=5ecre75"),
        (PipefySettings::default(), "https://bucket.s3.amazonaws.com/x"),
        (PipefySettings::default(), "http://bucket.s3.amazonaws.com/x?X-Amz-Signature=5ecre75"),
        (PipefySettings::default(), "https://bucket.s3.amazonaws.com:8443/x?X-Amz-Signature=5ecre75"),
        (PipefySettings::default(), "nonsense"),
        (PipefySettings::default(), ""),
    ] {
        let transfer = Transfer::new(&settings).unwrap();
        let error = transfer.upload(url, None, 0, "", &budget).await.unwrap_err();
        assert!(matches!(error, TransferError::Refused(_)), "{url}: {error}");
        assert!(transfer.check_upload(url).is_err());
        no_url(&error);
    }
    assert_eq!(mock.count(), 1);
}

#[tokio::test]
async fn a_download_gives_bytes_type_and_length() {
    let mock = Mock::start(|_, _| with(200, &[("content-type", "image/png")], "pixels")).await;
    let download = open().download(&mock.url("/a?x=1"), 6, &Budget::unlimited()).await.unwrap();
    assert_eq!(download.content_type.as_deref(), Some("image/png"));
    assert_eq!(download.length, Some(6));
    assert!(!format!("{download:?}").contains("://"));
    assert_eq!(download.bytes().await.unwrap(), "pixels");
    let seen = &mock.seen()[0];
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("GET", "/a?x=1"));
    for absent in ["authorization", "cookie", "referer"] {
        assert_eq!(seen.header(absent), None);
    }
}

#[tokio::test]
async fn only_status_200_has_a_file() {
    for status in [201, 202, 203, 204, 206, 300, 304, 305, 400, 401, 404, 416, 500, 503] {
        let mock = Mock::start(move |_, _| Reply::Answer(status, vec![], b"body".to_vec())).await;
        let error = get(&mock.url(&format!("/x?{SECRET}")), 100).await.unwrap_err();
        assert_eq!(error.status(), Some(status));
        assert!(error.to_string().contains(&status.to_string()));
        assert!(!error.to_string().contains("body"));
    }
}

#[tokio::test]
async fn the_cap_counts_declared_and_streamed_bytes() {
    let ten = Mock::start(|_, _| with(200, &[], "0123456789")).await;
    assert_eq!(get(&ten.url("/"), 10).await.unwrap().len(), 10);
    assert!(matches!(get(&ten.url("/"), 9).await.unwrap_err(), TransferError::TooLarge { limit: 9 }));

    // Declared too large: refused before any byte of it is read.
    let huge = Mock::start(|_, _| Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 104857601\r\n\r\n".to_vec())).await;
    let error = get(&huge.url("/"), 100 * 1024 * 1024).await.unwrap_err();
    assert_eq!(error.to_string(), "the file is larger than 100 MiB");

    // Not declared and without end: cut off at the cap, and the socket closes.
    let endless = Mock::start(|_, _| Reply::Endless(50_000)).await;
    assert!(matches!(get(&endless.url("/"), 1_000_000).await.unwrap_err(), TransferError::TooLarge { .. }));
    assert!(endless.closed(1).await);

    let until_close = Mock::start(|_, _| Reply::Raw(b"HTTP/1.1 200 OK\r\n\r\nabcdef".to_vec())).await;
    assert_eq!(get(&until_close.url("/"), 6).await.unwrap(), "abcdef");
    assert!(matches!(get(&until_close.url("/"), 5).await.unwrap_err(), TransferError::TooLarge { .. }));
}

#[tokio::test]
async fn a_compressed_file_is_unpacked_under_the_same_cap() {
    // gzip of 1000 zero bytes, 29 bytes long.
    const PACKED: [u8; 29] =
        [31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 99, 96, 24, 5, 163, 96, 20, 12, 119, 0, 0, 128, 23, 11, 6, 232, 3, 0, 0];
    let mock =
        Mock::start(|_, _| Reply::Answer(200, vec![("content-encoding".into(), "gzip".into())], PACKED.to_vec())).await;
    assert_eq!(get(&mock.url("/"), 1000).await.unwrap(), vec![0_u8; 1000]);
    assert!(matches!(get(&mock.url("/"), 999).await.unwrap_err(), TransferError::TooLarge { .. }));
}

#[tokio::test]
async fn up_to_three_redirects_are_followed() {
    for status in [301, 302, 303, 307, 308] {
        let mock = Mock::start(move |n, _| match n {
            0 => with(status, &[("location", "/second")], ""),
            1 => with(status, &[("location", "third?x#fragment")], ""),
            2 => with(status, &[("location", "?fourth")], ""),
            _ => with(200, &[], "here"),
        })
        .await;
        assert_eq!(get(&mock.url("/first"), 10).await.unwrap(), "here");
        let targets: Vec<String> = mock.seen().into_iter().map(|s| s.target).collect();
        assert_eq!(targets, ["/first", "/second", "/third?x", "/third?fourth"]);
        assert!(mock.seen().iter().all(|s| s.method == "GET" && s.header("referer").is_none()));
    }
    let forever = Mock::start(|_, _| with(302, &[("location", "/again")], "")).await;
    assert!(matches!(get(&forever.url("/"), 10).await.unwrap_err(), TransferError::TooManyRedirects));
    assert_eq!(forever.count(), REDIRECT_LIMIT + 1);
    let nowhere = Mock::start(|_, _| with(302, &[], "")).await;
    assert!(matches!(get(&nowhere.url("/"), 10).await.unwrap_err(), TransferError::NoLocation { status: 302 }));
}

#[tokio::test]
async fn every_hop_is_checked() {
    for location in [
        "file:///etc/passwd",
        "ftp://host/x?X-Amz-Signature=5ecre75",
        "http://",
        "https:///x",
        "javascript:alert(1)",
        "gopher://127.0.0.1/",
    ] {
        let mock = Mock::start(move |_, _| with(302, &[("location", location)], "")).await;
        let error = get(&mock.url("/"), 10).await.unwrap_err();
        assert!(
            matches!(
                error,
                TransferError::Refused(_) | TransferError::NoLocation { .. } | TransferError::Connection { .. }
            ),
            "{location}: {error}"
        );
        assert_eq!(mock.count(), 1);
    }
    // With the real gate, a public-looking start that points back inside is stopped at the second hop: here the first.
    let strict = Transfer::new(&PipefySettings::default()).unwrap();
    let relaxed = Transfer::new(&insecure("http://127.0.0.1:1")).unwrap();
    let victim = Mock::start(|_, _| with(200, &[], "inside")).await;
    for url in [
        format!("http://127.0.0.1:{}/", victim.port),
        format!("http://localhost:{}/", victim.port),
        format!("https://127.0.0.1:{}/", victim.port),
        "http://127.0.0.1/".to_owned(),
        "https://[::ffff:127.0.0.1]/".to_owned(),
        "https://[::1]/".to_owned(),
        "https://0.0.0.0/".to_owned(),
        "https://224.0.0.1/".to_owned(),
        "https://169.254.169.254/latest".to_owned(),
        "https://10.0.0.1:443/".to_owned(),
        "https://2130706433/".to_owned(),
        "https://0x7f.1/".to_owned(),
        "https://localhost/".to_owned(),
        "https://x.localhost./".to_owned(),
        "https://93.184.216.34:8443/".to_owned(),
        "ftp://93.184.216.34/".to_owned(),
        "nonsense".to_owned(),
        String::new(),
    ] {
        for transfer in [&strict, &relaxed] {
            let error = transfer.download(&url, 10, &Budget::unlimited()).await.unwrap_err();
            assert!(matches!(error, TransferError::Refused(_)), "{url}: {error}");
        }
    }
    assert_eq!(victim.count(), 0);
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_stopped_when_connecting() {
    // The check before the request is left out here; the client alone must refuse.
    let victim = Mock::start(|_, _| with(200, &[], "inside")).await;
    let transfer = open();
    let error = transfer.guarded().unwrap().get(format!("http://localhost:{}/", victim.port)).send().await.unwrap_err();
    assert!(cause(&error).contains("blocked address"), "{}", cause(&error));
    assert_eq!(victim.count(), 0);
}

#[tokio::test]
async fn a_broken_download_is_an_error_not_a_short_file() {
    for reply in [
        Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc".to_vec()),
        Reply::RawThenReset(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc".to_vec()),
        Reply::Raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n".to_vec()),
        Reply::Reset,
        Reply::Raw(b"garbage".to_vec()),
        Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\nabc".to_vec()),
    ] {
        let mock = Mock::start(move |_, _| reply.clone()).await;
        let error = get(&mock.url(&format!("/x?{SECRET}")), 100).await.unwrap_err();
        assert!(matches!(error, TransferError::Connection { upload: false, .. }), "{error}");
        assert_eq!(mock.count(), 1);
    }
    let gone = Mock::start(|_, _| json(200, "")).await.url("/x");
    assert!(matches!(get(&gone, 100).await.unwrap_err(), TransferError::Connection { .. }));
}

#[tokio::test]
async fn a_download_ends_with_its_budget_also_in_the_middle() {
    let stuck = Mock::start(|_, _| Reply::Silence).await;
    let budget = Budget::unlimited().with_deadline(Instant::now() + Duration::from_secs(2));
    let error = open().download(&stuck.url("/"), 10, &budget).await.unwrap_err();
    assert!(matches!(error, TransferError::Timeout { upload: false, .. }));
    assert!(stuck.closed(1).await);

    let endless = Mock::start(|_, _| Reply::Endless(1000)).await;
    let cancel = CancellationToken::new();
    let budget = Budget::unlimited().with_cancel(cancel.clone());
    let mut download = open().download(&endless.url("/"), u64::MAX, &budget).await.unwrap();
    download.stream.next().await.unwrap().unwrap();
    cancel.cancel();
    let end = loop {
        match download.stream.next().await {
            Some(Ok(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(end, Some(Err(TransferError::Cancelled { upload: false }))));
    drop(download);
    assert!(endless.closed(1).await);
}

#[tokio::test]
async fn exports_come_from_pipefy_or_the_configured_host() {
    let mock = Mock::start(|_, _| with(200, &[], "a;b")).await;
    let budget = Budget::unlimited();
    let sandbox = Transfer::new(&insecure(&mock.url(""))).unwrap();
    let export = sandbox.download_export(&mock.url("/e.csv"), 10, &budget).await.unwrap();
    assert_eq!(export.bytes().await.unwrap(), "a;b");
    for (settings, url) in [
        (PipefySettings::default(), mock.url("/e.csv")),
        (PipefySettings::default(), "http://files.pipefy.com/e.csv".to_owned()),
        (PipefySettings::default(), "https://pipefy.com.evil.test/e.csv".to_owned()),
        (PipefySettings::default(), "https://evilpipefy.com/e.csv".to_owned()),
        (PipefySettings::default(), "https://b.s3.amazonaws.com/e.csv?X-Amz-Signature=5ecre75".to_owned()),
        (insecure("http://localhost:1"), mock.url("/e.csv")),
    ] {
        let error = Transfer::new(&settings).unwrap().download_export(&url, 10, &budget).await.unwrap_err();
        assert!(matches!(error, TransferError::Refused(_)), "{url}: {error}");
        no_url(&error);
    }
    assert_eq!(mock.count(), 1);
}
