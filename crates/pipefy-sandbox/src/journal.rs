//! A bounded log of what the sandbox received, for tests that assert what a client sent.

use serde::Serialize;
use serde_json::Value;
use std::collections::VecDeque;

/// How many requests are kept; older ones are forgotten.
const KEPT: usize = 2_000;

/// One received request.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Entry {
    /// Running number, from 1.
    pub(crate) number: u64,
    pub(crate) method: String,
    pub(crate) path: String,
    /// `query` or `mutation`; null for other requests.
    pub(crate) operation: Option<&'static str>,
    pub(crate) operation_name: Option<String>,
    pub(crate) root_fields: Vec<String>,
    /// Variables with secret-looking values masked.
    pub(crate) variables: Value,
    /// E-mail address of the caller, or `unknown:` and eight hex digits of the bearer's hash; null without a bearer.
    pub(crate) identity: Option<String>,
    /// Headers of interest, without credentials.
    pub(crate) headers: Value,
    /// HTTP status of the answer; null while it is being made or when the connection was dropped.
    pub(crate) status: Option<u16>,
}

#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: VecDeque<Entry>,
    last: u64,
}

impl Journal {
    pub(crate) fn add(&mut self, mut entry: Entry) -> u64 {
        self.last += 1;
        entry.number = self.last;
        if self.entries.len() >= KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
        self.last
    }

    pub(crate) fn finish(&mut self, number: u64, status: u16) {
        if let Some(entry) = self.entries.iter_mut().rev().find(|e| e.number == number) {
            entry.status = Some(status);
        }
    }

    /// Entries with a number above `since`.
    pub(crate) fn since(&self, since: u64) -> Vec<Entry> {
        self.entries.iter().filter(|e| e.number > since).cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

/// Masks values under keys that hold secrets, at any depth.
pub(crate) fn masked(value: &Value) -> Value {
    const SECRET: [&str; 6] = ["secret", "token", "password", "apikey", "api_key", "authentication"];
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| {
                let lower = key.to_ascii_lowercase();
                let secret = value.is_string() && SECRET.iter().any(|word| lower.contains(word));
                (key.clone(), if secret { Value::from("***") } else { masked(value) })
            })
            .collect(),
        Value::Array(items) => items.iter().map(masked).collect(),
        other => other.clone(),
    }
}
