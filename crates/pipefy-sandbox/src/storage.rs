//! Uploads and downloads through signed URLs, as an S3 bucket behaves: real bytes, a life span, XML errors.

use crate::ctx::parse_time;
use crate::error::GqlError;
use crate::store::Store;
use aws_lc_rs::{constant_time, hmac};
use http::StatusCode;
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Seconds that an upload URL is good for.
pub(crate) const UPLOAD_LIFE: i64 = 300;
/// Seconds that a download URL is good for.
pub(crate) const DOWNLOAD_LIFE: i64 = 900;

const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// A signed URL for one method and one object.
pub(crate) fn signed_url(
    store: &Store,
    base_url: &str,
    method: &str,
    key: &str,
    content_type: Option<&str>,
    life: i64,
    now: Timestamp,
) -> Result<String, GqlError> {
    let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let headers = if content_type.is_some() { "content-type;host" } else { "host" };
    let signature = sign(store, method, key, &date, life, content_type.unwrap_or_default())?;
    Ok(format!(
        "{base_url}/{}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date={date}&X-Amz-Expires={life}&X-Amz-SignedHeaders={}&X-Amz-Signature={signature}",
        utf8_percent_encode(key, SEGMENT),
        headers.replace(';', "%3B"),
    ))
}

fn sign(store: &Store, method: &str, key: &str, date: &str, life: i64, content_type: &str) -> Result<String, GqlError> {
    let secret = hmac::Key::new(hmac::HMAC_SHA256, &store.signing_key()?);
    let text = format!("{method}\n{key}\n{date}\n{life}\n{content_type}");
    Ok(hmac::sign(&secret, text.as_bytes()).as_ref().iter().map(|b| format!("{b:02x}")).collect())
}

/// Why a storage request is refused: status, S3 code, message.
pub(crate) type Refusal = (StatusCode, &'static str, &'static str);

/// The object key of a request, when its signature and age are right.
pub(crate) fn admit(
    store: &Store,
    method: &str,
    path: &str,
    query: &str,
    content_type: &str,
    now: Timestamp,
) -> Result<String, Refusal> {
    const DENIED: StatusCode = StatusCode::FORBIDDEN;
    let path = path.trim_start_matches('/');
    let path = path.strip_prefix("storage/v1/signed/").or_else(|| path.strip_prefix("storage/")).unwrap_or(path);
    let key = percent_decode_str(path).decode_utf8_lossy().into_owned();
    if !key.starts_with("orgs/") || key.split('/').any(|part| part == "..") {
        return Err((DENIED, "AccessDenied", "Object keys start with orgs/"));
    }
    let value = |name: &str| {
        query.split('&').filter_map(|pair| pair.split_once('=')).find(|(k, _)| *k == name).map(|(_, v)| v.to_owned())
    };
    let fields = (value("X-Amz-Date"), value("X-Amz-Expires"), value("X-Amz-Signature"), value("X-Amz-SignedHeaders"));
    let (Some(date), Some(life), Some(signature), Some(headers)) = fields else {
        return Err((DENIED, "AccessDenied", "The request is not signed"));
    };
    let life: i64 =
        life.parse().map_err(|_| (DENIED, "AuthorizationQueryParametersError", "X-Amz-Expires must be a number"))?;
    let signed_type = if headers.contains("content-type") { content_type } else { "" };
    let wanted = sign(store, method, &key, &date, life, signed_type)
        .map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "The store failed"))?;
    if constant_time::verify_slices_are_equal(wanted.as_bytes(), signature.as_bytes()).is_err() {
        let text = "The request signature we calculated does not match the signature you provided";
        return Err((DENIED, "SignatureDoesNotMatch", text));
    }
    let readable = match (date.get(..8), date.get(9..15)) {
        (Some(day), Some(time)) => format!(
            "{}-{}-{}T{}:{}:{}Z",
            day.get(..4).unwrap_or_default(),
            day.get(4..6).unwrap_or_default(),
            day.get(6..8).unwrap_or_default(),
            time.get(..2).unwrap_or_default(),
            time.get(2..4).unwrap_or_default(),
            time.get(4..6).unwrap_or_default()
        ),
        _ => String::new(),
    };
    let age = parse_time(&readable).map(|at| now.as_second() - at.as_second());
    match age {
        Some(age) if age < life => Ok(key),
        _ => Err((DENIED, "AccessDenied", "Request has expired")),
    }
}

/// The storage key inside an attachment value: a plain key, or a URL of this sandbox that contains one.
pub(crate) fn key_of(value: &str) -> Option<String> {
    let value = value.trim();
    if value.starts_with("orgs/") {
        return Some(value.to_owned());
    }
    let (_, rest) = value.split_once("/orgs/")?;
    if !value.starts_with("http") {
        return None;
    }
    let path = rest.split('?').next().unwrap_or(rest);
    Some(format!("orgs/{}", percent_decode_str(path).decode_utf8_lossy()))
}
