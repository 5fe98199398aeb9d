//! What came back: data kept as it arrived, errors read leniently.

use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

/// JSON kept as the bytes that arrived; parsed only by who reads a value.
#[derive(Clone)]
pub struct Data(Bytes);

impl Data {
    /// Wraps text that is known to be one JSON value.
    fn trusted(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The JSON of a value.
    pub fn from_value(value: &Value) -> Self {
        Self(Bytes::from(value.to_string()))
    }

    /// The JSON text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("null")
    }

    /// Length of the JSON text in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the text is empty (it never is for data of a response).
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether nothing that was asked for is answered: `Some` with the first root field when all are null, with `data` when
    /// there is none.
    pub fn unanswered(&self) -> Option<String> {
        // An answer of nothing is short; a large one is not parsed for this.
        if self.0.len() > 512 {
            return None;
        }
        // Names of fields hold no colon, so what follows the first one is the first field's value.
        if self.text().split_once(':').is_some_and(|(_, first)| !first.trim_start().starts_with('n')) {
            return None;
        }
        let roots: std::collections::BTreeMap<String, Option<serde::de::IgnoredAny>> = self.read().ok()?;
        let nothing = roots.values().all(Option::is_none);
        nothing.then(|| roots.into_keys().next().unwrap_or_else(|| "data".to_owned()))
    }

    /// The parsed value.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.0).unwrap_or(Value::Null)
    }

    /// Reads it into a type.
    ///
    /// # Errors
    /// The JSON does not fit the type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.0.len())
    }
}

/// One error of a GraphQL answer, whatever shape the service gave it (field report B05).
#[derive(Clone, Debug, PartialEq)]
pub struct GraphqlError {
    /// What went wrong; never blank.
    pub message: String,
    /// `extensions.code` or its equivalent.
    pub code: Option<String>,
    /// Pipefy's correlation id, for its support.
    pub correlation_id: Option<String>,
    /// Path of the field in the answer.
    pub path: Option<Value>,
    /// The error as it came.
    pub raw: Value,
}

impl GraphqlError {
    /// Whether its code says that a quota of the plan is used up (`USAGE_LIMIT_EXCEEDED` and the like).
    pub fn is_exhausted(&self) -> bool {
        self.code.as_deref().is_some_and(|code| code.ends_with("_LIMIT_EXCEEDED") && code != "RATE_LIMIT_EXCEEDED")
    }

    fn from_value(raw: Value) -> Self {
        let text = |key: &str| {
            raw.get(key).and_then(Value::as_str).map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned)
        };
        let nested = |outer: &str, key: &str| {
            raw.get(outer)
                .and_then(|o| o.get(key))
                .and_then(|v| match v {
                    Value::String(s) => Some(s.trim().to_owned()),
                    Value::Number(n) => Some(n.to_string()),
                    _ => None,
                })
                .filter(|t| !t.is_empty())
                .map(|t| clip(&t, CODE))
        };
        let own_text = raw
            .as_str()
            .map(str::trim)
            .filter(|t| !t.is_empty())
            .map(|t| if looks_like_html(t) { HTML.to_owned() } else { clip(t, 500) });
        let message = own_text
            .or_else(|| text("message"))
            .or_else(|| match (text("title"), text("detail")) {
                (Some(title), Some(detail)) => Some(format!("{title}: {detail}")),
                (title, detail) => title.or(detail),
            })
            .or_else(|| text("error_description"))
            .or_else(|| text("error"));
        let short = |key: &str| text(key).map(|text| clip(&text, CODE));
        let code = nested("extensions", "code").or_else(|| nested("details", "code")).or_else(|| short("code"));
        let message = message.map(|text| clip(&text, MESSAGE)).unwrap_or_else(|| match &code {
            Some(code) => format!("Pipefy refused the request ({code})"),
            None => "Pipefy refused the request without saying why".to_owned(),
        });
        let correlation_id = nested("extensions", "correlation_id")
            .or_else(|| nested("details", "correlation_id"))
            .or_else(|| short("correlation_id"));
        let path = raw.get("path").cloned();
        let raw = match raw.to_string() {
            text if text.len() > RAW => serde_json::json!({ "clipped": clip(&text, MESSAGE) }),
            _ => raw,
        };
        Self { code, correlation_id, path, message, raw }
    }
}

/// Characters of a message and of a code, and bytes of an error as it came, that are kept at most.
const MESSAGE: usize = 2_000;
const CODE: usize = 200;
const RAW: usize = 8_000;
/// Errors of one answer that are kept at most.
const ERRORS: usize = 20;

pub(crate) const HTML: &str = "Pipefy answered with an HTML page instead of JSON";

pub(crate) fn looks_like_html(text: &str) -> bool {
    let head = text.trim_start().get(..15).unwrap_or(text.trim_start()).to_ascii_lowercase();
    head.starts_with("<!doctype") || head.starts_with("<html") || head.starts_with("<head") || head.starts_with("<?xml")
}

/// The first `limit` characters.
pub(crate) fn clip(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Whether well-formed JSON holds something that may have no value all the same: half a surrogate pair, a number beyond what
/// numbers can be, a hundred levels. Most answers are passed on without being parsed; this is looked for in one pass.
fn is_odd(json: &[u8]) -> bool {
    let (mut depth, mut digits, mut at) = (0_usize, 0_usize, 0);
    while let Some(byte) = json.get(at) {
        at += 1;
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        match byte {
            b'"' => loop {
                let Some(found) = json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) else {
                    return true;
                };
                at += found + 1;
                if json.get(at - 1) == Some(&b'"') {
                    break;
                }
                if json.get(at) == Some(&b'u') && matches!(json.get(at + 1), Some(b'd' | b'D')) {
                    return true;
                }
                at += 1;
            },
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            // `true` and `false` have no digit before their letter.
            b'e' | b'E' if at.checked_sub(2).and_then(|before| json.get(before)).is_some_and(u8::is_ascii_digit) => {
                return true;
            }
            _ => {}
        }
        if depth > 100 || digits > 300 {
            return true;
        }
    }
    false
}

/// A GraphQL answer: data and errors together.
#[derive(Clone, Debug)]
pub struct GraphqlResponse {
    /// The `data` object; `None` when absent or null.
    pub data: Option<Data>,
    /// The errors; empty when all went well.
    pub errors: Vec<GraphqlError>,
    /// HTTP status.
    pub status: u16,
}

impl GraphqlResponse {
    /// Reads a response body. `None` when it is not a GraphQL answer.
    pub fn parse(status: u16, body: &Bytes) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Wire<'a> {
            #[serde(borrow, default)]
            data: Option<&'a RawValue>,
            #[serde(default)]
            errors: Option<Value>,
            #[serde(default)]
            error: Option<Value>,
        }
        let wire: Wire<'_> = serde_json::from_slice(body).ok()?;
        let data = wire.data.map(RawValue::get).filter(|raw| *raw != "null");
        if data.is_some_and(|raw| is_odd(raw.as_bytes()) && serde_json::from_str::<Value>(raw).is_err()) {
            return None;
        }
        let data = data.map(|raw| Data::trusted(body.slice_ref(raw.as_bytes())));
        let mut errors: Vec<GraphqlError> = match wire.errors {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(mut list)) => {
                let more = list.len().saturating_sub(ERRORS);
                list.truncate(ERRORS);
                let more = (more > 0).then(|| Value::from(format!("and {more} more errors")));
                list.into_iter().chain(more).map(GraphqlError::from_value).collect()
            }
            Some(one) => vec![GraphqlError::from_value(one)],
        };
        if let Some(error) = wire.error.filter(|e| !e.is_null()) {
            errors.push(match error {
                // OAuth style: {"error": "invalid_token", "error_description": "..."}
                Value::String(code) => {
                    let whole: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
                    GraphqlError::from_value(match whole.get("error_description") {
                        Some(description) => serde_json::json!({"message": description, "code": code}),
                        None => Value::String(code),
                    })
                }
                other => GraphqlError::from_value(other),
            });
        }
        if data.is_none() && errors.is_empty() && !body.windows(6).any(|w| w == b"\"data\"") {
            return None;
        }
        Some(Self { data, errors, status })
    }

    /// Whether the answer says that the caller is not signed in. Where something was returned, the caller is: then such
    /// an error is about one field, and what was returned (or changed) counts.
    pub fn is_unauthorized(&self) -> bool {
        self.status == 401
            || (self.returns_nothing()
                && self.errors.iter().any(|e| {
                    let says = |text: Option<&str>| {
                        text.is_some_and(|t| {
                            t.eq_ignore_ascii_case("UNAUTHENTICATED") || t.eq_ignore_ascii_case("UNAUTHORIZED")
                        })
                    };
                    says(e.code.as_deref()) || says(e.raw.get("title").and_then(Value::as_str))
                }))
    }

    /// No data, or null in every root field.
    fn returns_nothing(&self) -> bool {
        // Only looked at when there are errors to judge, so that a large answer is not parsed for nothing.
        self.data.as_ref().is_none_or(|data| {
            !self.errors.is_empty()
                && data
                    .read::<std::collections::HashMap<String, Option<serde::de::IgnoredAny>>>()
                    .is_ok_and(|roots| roots.values().all(Option::is_none))
        })
    }

    /// Whether an error says that a quota of the plan is used up, which no waiting helps (field report B18).
    pub fn is_exhausted(&self) -> bool {
        self.errors.iter().any(GraphqlError::is_exhausted)
    }

    /// Whether an error says that too many requests were made (throttling inside a 200 answer, field report C19).
    pub fn is_throttled(&self) -> bool {
        self.status == 429
            || self.errors.iter().any(|e| {
                e.code.as_deref().is_some_and(|c| {
                    matches!(c, "RATE_LIMITED" | "RATE_LIMIT_EXCEEDED" | "THROTTLED" | "TOO_MANY_REQUESTS")
                })
            })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn parse(status: u16, body: &str) -> Option<GraphqlResponse> {
        GraphqlResponse::parse(status, &Bytes::copy_from_slice(body.as_bytes()))
    }

    #[test]
    fn every_error_shape_gives_a_message_and_what_else_it_holds() {
        for (body, message, code, correlation) in [
            (r#"{"errors":[{"title":"Unauthorized","detail":"Sign in"}]}"#, "Unauthorized: Sign in", None, None),
            (
                r#"{"error":{"message":"No","details":{"code":"X","correlation_id":"c-1"}}}"#,
                "No",
                Some("X"),
                Some("c-1"),
            ),
            (r#"{"errors":[{"message":"   "}]}"#, "Pipefy refused the request without saying why", None, None),
            (
                r#"{"errors":[{"message":null,"extensions":{"code":"DENIED"}}]}"#,
                "Pipefy refused the request (DENIED)",
                Some("DENIED"),
                None,
            ),
            (r#"{"errors":"text"}"#, "text", None, None),
            (r#"{"errors":{"message":"one"}}"#, "one", None, None),
            (r#"{"errors":[7]}"#, "Pipefy refused the request without saying why", None, None),
            (r#"{"error":"invalid_token","error_description":"Old"}"#, "Old", Some("invalid_token"), None),
            (
                r#"{"data":null,"errors":[{"message":"m","extensions":{"code":"C","correlation_id":"k"}}]}"#,
                "m",
                Some("C"),
                Some("k"),
            ),
        ] {
            let response = parse(200, body).expect(body);
            assert!(response.data.is_none(), "{body}");
            let error = &response.errors[0];
            assert_eq!(error.message, message, "{body}");
            assert_eq!(error.code.as_deref(), code, "{body}");
            assert_eq!(error.correlation_id.as_deref(), correlation, "{body}");
        }
    }

    #[test]
    fn what_is_no_graphql_answer_is_none() {
        for body in ["", "<html>502</html>", "[]", "{}", "nonsense", "\"text\""] {
            assert!(parse(502, body).is_none(), "{body}");
        }
    }

    #[test]
    fn data_is_kept_as_it_came() {
        let response = parse(200, r#"{ "data": {"a": 1.50 , "b":[9007199254740993]} }"#).unwrap();
        assert_eq!(response.data.unwrap().text(), r#"{"a": 1.50 , "b":[9007199254740993]}"#);
    }

    #[test]
    fn data_that_has_no_value_is_no_answer() {
        let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        for (value, good) in [
            (r#""\ud83d""#.to_owned(), false),
            (r#""\uDe00 x""#.to_owned(), false),
            (r#""\ud83d\ude00""#.to_owned(), true),
            (r#""\\ud83d""#.to_owned(), true),
            ("1e400".to_owned(), false),
            ("[1E+400]".to_owned(), false),
            ("1e30".to_owned(), true),
            ("1".repeat(400), false),
            ("1".repeat(290), true),
            (deep(200), false),
            (deep(110), true),
            (r#"[true,false,null,"1e400","{{{",-0.0]"#.to_owned(), true),
        ] {
            let response = parse(200, &format!(r#"{{"data":{{"a":{value}}}}}"#));
            assert_eq!(response.is_some(), good, "{value}");
            if let Some(data) = response.and_then(|response| response.data) {
                assert!(!data.value().is_null() && data.read::<Value>().is_ok(), "{value}");
            }
        }
    }

    proptest::proptest! {
        /// Whatever JSON comes: what is kept as data has a value.
        #[test]
        fn what_is_kept_has_a_value(text in r#"[\[\]{}"\\uDde0-9,:. +-]{0,40}"#) {
            let body = format!(r#"{{"data":{text}}}"#);
            if let Some(data) = parse(200, &body).and_then(|response| response.data) {
                proptest::prop_assert!(data.read::<Value>().is_ok(), "{}", body);
            }
        }
    }

    #[test]
    fn errors_are_kept_in_part() {
        let long = "x".repeat(1_000_000);
        let response = parse(200, &format!(r#"{{"errors":[{{"message":"{long}"}}]}}"#)).unwrap();
        assert!(response.errors[0].message.len() < 2_100 && response.errors[0].raw.to_string().len() < 9_000);
        let many = vec![r#"{"message":"no"}"#; 500].join(",");
        let response = parse(200, &format!(r#"{{"errors":[{many}]}}"#)).unwrap();
        assert_eq!(response.errors.len(), 21);
        assert_eq!(response.errors[20].message, "and 480 more errors");
    }

    #[test]
    fn unauthorised_is_recognised_whatever_the_status() {
        for (status, body) in [
            (401, r#"{"errors":[{"message":"x"}]}"#),
            (200, r#"{"errors":[{"title":"Unauthorized","detail":"x"}]}"#),
            (200, r#"{"errors":[{"message":"x","extensions":{"code":"UNAUTHENTICATED"}}]}"#),
        ] {
            assert!(parse(status, body).unwrap().is_unauthorized(), "{body}");
        }
        let denied = r#"{"data":{"card":null},"errors":[{"message":"no","extensions":{"code":"PERMISSION_DENIED"}}]}"#;
        assert!(!parse(200, denied).unwrap().is_unauthorized());
    }
}
