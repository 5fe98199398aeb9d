//! Checks that look at headers and the size of the body, before anything is understood.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use pipefy::settings::HostList;

use super::refusal::Refusal;

/// Reads the body up to the limit. What was declared too large is not read at all, apart from a little: a client that is still
/// writing would see a broken connection instead of the answer.
pub(super) async fn read_body(headers: &HeaderMap, body: Body, limit: usize, time: Duration) -> Result<Bytes, Refusal> {
    // Most bodies are there already, and a timer is not free.
    let mut reading = std::pin::pin!(whole_body(headers, body, limit));
    if let std::task::Poll::Ready(read) = futures_util::poll!(reading.as_mut()) {
        return read;
    }
    tokio::time::timeout(time, reading).await.unwrap_or_else(|_| Err(Refusal::slow_body()))
}

async fn whole_body(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let limit_u64 = u64::try_from(limit).unwrap_or(u64::MAX);
    let mut body = body;
    if declared.is_none_or(|length| length <= limit_u64) {
        // One chunk, the usual case, is passed on without copying.
        let mut whole = Bytes::new();
        let mut more: Vec<u8> = Vec::new();
        loop {
            let Some(frame) = body.frame().await else {
                return Ok(if more.is_empty() { whole } else { more.into() });
            };
            let Ok(data) = frame.map_err(|_| Refusal::not_json())?.into_data() else { continue };
            if whole.len().max(more.len()) + data.len() > limit {
                break;
            }
            if whole.is_empty() && more.is_empty() {
                whole = data;
            } else {
                if more.is_empty() {
                    more.extend_from_slice(&whole);
                }
                more.extend_from_slice(&data);
            }
        }
    }
    let discard = async {
        let mut left = 4 * limit;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            if length > left {
                break;
            }
            left -= length;
        }
    };
    let _slow = tokio::time::timeout(Duration::from_secs(2), discard).await;
    Err(Refusal::body_too_large(limit))
}

/// Protection against DNS rebinding. HTTP/2 has no `Host`; its `:authority` is in the URI.
pub(super) fn check_host(parts: &Parts, hosts: &HostList) -> Result<(), Refusal> {
    let header = parts.headers.get(HOST).map(|value| value.to_str().unwrap_or_default());
    let host = header.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str));
    if !hosts.allows_host(host) {
        tracing::warn!("refused a request with a foreign Host");
        return Err(Refusal::host());
    }
    let origin = parts.headers.get(ORIGIN).map(|value| value.to_str().unwrap_or("not text"));
    if !hosts.allows_origin(origin) {
        tracing::warn!("refused a request with a foreign Origin");
        return Err(Refusal::origin());
    }
    Ok(())
}

pub(super) fn content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let alike = value.get(..16).is_some_and(|start| start.eq_ignore_ascii_case("application/json"));
    Err(Refusal::content_type(if alike { StatusCode::UNSUPPORTED_MEDIA_TYPE } else { StatusCode::BAD_REQUEST }))
}

/// Whether `Accept` covers the media type. Parameters do not count, as in the reference.
pub(super) fn accepts(headers: &HeaderMap, kind: &str, subkind: &str) -> bool {
    headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(
        |range| {
            let essence = range.split(';').next().unwrap_or_default().trim();
            essence.split_once('/').is_some_and(|(k, s)| {
                (k == "*" && s == "*")
                    || (k.eq_ignore_ascii_case(kind) && (s == "*" || s.eq_ignore_ascii_case(subkind)))
            })
        },
    )
}

pub(super) fn accepts_events(headers: &HeaderMap) -> Result<(), Refusal> {
    if accepts(headers, "text", "event-stream") { Ok(()) } else { Err(Refusal::not_acceptable("text/event-stream")) }
}
