//! One call that succeeds for every tool: the first such call of `contract/cases`, or a row of `samples.jsonl` where the
//! contract has none.
//!
//! A row of `samples.jsonl` has `tool`, `args`, `answers` (`"endpoint kind rootField"` to the payload of that field, or
//! `"files GET /path"` to a body), and optionally `like`: a case whose exchanges and files it shares.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::case::{self, Exchange};

/// A value that no answer, error or log line may hold; every secret of these tests contains it.
pub(crate) const CANARY: &str = "canary";

/// A call that succeeds.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) tool: String,
    args: Map<String, Value>,
    /// Exchanges as recorded, addresses not filled in yet.
    exchanges: Vec<Value>,
}

/// Who calls: the second user's answers are marked, so that a mixed-up answer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Ana,
    Ben,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    tool: String,
    args: Map<String, Value>,
    #[serde(default)]
    answers: Map<String, Value>,
    #[serde(default)]
    like: Option<String>,
}

impl Sample {
    /// The arguments with `base` filled in.
    pub(crate) fn args(&self, base: &str) -> Map<String, Value> {
        let text = json!(self.args).to_string().replace("$BASE", base).replace("$UPLOADS", base);
        serde_json::from_str(&text).expect("arguments of a sample")
    }

    /// The exchanges with `base` filled in, as `user` sees them.
    pub(crate) fn exchanges(&self, base: &str, user: User) -> Vec<Exchange> {
        let mut all = self.exchanges.clone();
        if user == User::Ben {
            for exchange in &mut all {
                if let Some(response) = exchange.get_mut("response") {
                    mark(response);
                }
            }
        }
        let text = Value::from(all).to_string().replace("$BASE", base).replace("$UPLOADS", base);
        serde_json::from_str(&text).expect("exchanges of a sample")
    }

    /// Whether a second system of the process takes part, whose requests do not say for whom they are.
    pub(crate) fn uses_ipaas(&self) -> bool {
        self.exchanges.iter().any(|exchange| exchange["endpoint"] == "ipaas")
    }
}

/// The mark in answers for the second user.
pub(crate) const MARK: &str = " of Ben";

fn mark(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match value {
                    Value::String(text) if matches!(key.as_str(), "name" | "title" | "label" | "description") => {
                        text.push_str(MARK);
                    }
                    value => mark(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(mark),
        _ => {}
    }
}

fn cases() -> Vec<Value> {
    case::lines().iter().map(|line| serde_json::from_str(line).expect("a case is JSON")).collect()
}

/// Every call of the recorded cases, and whether it succeeds.
pub(crate) fn recorded(folder: &Path) -> Vec<(Sample, bool)> {
    let mut all = Vec::new();
    for case in &cases() {
        for (index, step) in case["steps"].as_array().expect("steps").iter().enumerate() {
            if step.get("method").is_none() && step.get("raw").is_none() {
                let tool = step.get("tool").unwrap_or(&case["tool"]).as_str().expect("a tool").to_owned();
                all.push((of_case(tool, case, index, folder), succeeds(step)));
            }
        }
    }
    all
}

/// Every sample by tool. Files of the cases are written into `folder`, and named with it in the arguments.
pub(crate) fn all(folder: &Path) -> BTreeMap<String, Sample> {
    let cases = cases();
    let mut samples = BTreeMap::new();
    for (sample, _) in recorded(folder).into_iter().filter(|(_, succeeds)| *succeeds) {
        samples.entry(sample.tool.clone()).or_insert(sample);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/matrix/samples.jsonl");
    for line in std::fs::read_to_string(path).expect("samples.jsonl").lines() {
        let own: Own = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
        let like = own.like.as_ref().map(|id| {
            let case = cases.iter().find(|case| case["id"] == **id).unwrap_or_else(|| panic!("no case {id}"));
            of_case(own.tool.clone(), case, case["steps"].as_array().expect("steps").len() - 1, folder)
        });
        let mut exchanges: Vec<Value> = own.answers.iter().map(|(place, payload)| exchange(place, payload)).collect();
        exchanges.extend(like.into_iter().flat_map(|sample| sample.exchanges));
        let args = with_files(own.args, folder);
        samples.insert(own.tool.clone(), Sample { tool: own.tool, args, exchanges });
    }
    samples
}

/// Whether a recorded step is a call that did what it should.
fn succeeds(step: &Value) -> bool {
    let result = &step["result"];
    let json = &result["json"];
    result["is_error"] != true
        && json.is_object()
        && json.get("error").is_none()
        && json.get("success").is_none_or(|success| *success == true)
}

fn of_case(tool: String, case: &Value, index: usize, folder: &Path) -> Sample {
    for (name, file) in case.get("files").and_then(Value::as_object).into_iter().flatten() {
        let file: case::File = serde_json::from_value(file.clone()).expect("a file of a case");
        file.write(folder, name);
    }
    let steps = case["steps"].as_array().expect("steps");
    let mut args = steps[index]["args"].as_object().cloned().unwrap_or_default();
    args.remove("confirm");
    args.remove("confirmation_token");
    let exchanges =
        steps[..=index].iter().flat_map(|step| step["exchanges"].as_array().cloned().unwrap_or_default()).collect();
    Sample { tool, args: with_files(args, folder), exchanges }
}

/// Arguments that name a file of the case name it with its folder.
fn with_files(args: Map<String, Value>, folder: &Path) -> Map<String, Value> {
    args.into_iter()
        .map(|(name, value)| match value.as_str().map(|text| folder.join(text)) {
            Some(path) if name.ends_with("file_path") && path.exists() => (name, path.to_str().expect("UTF-8").into()),
            _ => (name, value),
        })
        .collect()
}

fn exchange(place: &str, payload: &Value) -> Value {
    let [endpoint, kind, field] = place.split(' ').collect::<Vec<_>>()[..] else { panic!("no place: {place}") };
    if endpoint == "files" {
        return json!({"endpoint": endpoint, "kind": "http", "method": kind, "path": field, "status": 200, "response": payload});
    }
    json!({"endpoint": endpoint, "kind": kind, "root_fields": [field], "arguments": [{}], "status": 200,
           "response": {"data": {field: payload}}})
}
