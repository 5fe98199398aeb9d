//! The size of the catalogue that every client reads: what `tools/list` costs for all tools of the contract.

use serde_json::{Map, Value, json};

use crate::{Failure, Options, report};

/// A stand-in for a one-line description of usual length.
const DESCRIPTION: usize = 90;

/// Prints bytes in total, by part, and of the largest tools. The schemas are the contract's (without titles and
/// descriptions), the output schema is the open object where the contract has one.
pub(crate) fn print(options: &Options) -> Result<(), Failure> {
    let file = options.get("tools").unwrap_or("contract/tools.json");
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let contract: Vec<Value> = serde_json::from_str(&text)?;
    let tools: Vec<Value> = contract.iter().map(entry).collect();
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}).to_string();
    report::line(&format!("{} tools, tools/list answer {} bytes (compact JSON)", tools.len(), answer.len()))?;

    let parts = ["name", "description", "inputSchema", "annotations", "outputSchema", "_meta"];
    let size = |tool: &Value, key: &str| tool.get(key).map_or(0, |value| value.to_string().len() + key.len() + 4);
    let rows: Vec<Vec<String>> = parts
        .iter()
        .map(|part| {
            let sum: usize = tools.iter().map(|tool| size(tool, part)).sum();
            vec![(*part).to_owned(), sum.to_string(), format!("{:.1} %", 100.0 * sum as f64 / answer.len() as f64)]
        })
        .collect();
    report::table(&["part", "bytes", "share"], &rows)?;

    let mut sizes: Vec<(usize, &str)> = tools
        .iter()
        .map(|tool| (tool.to_string().len(), tool.get("name").and_then(Value::as_str).unwrap_or_default()))
        .collect();
    sizes.sort_unstable_by(|left, right| right.cmp(left));
    let rows: Vec<_> = sizes.iter().take(5).map(|(size, name)| vec![(*name).to_owned(), size.to_string()]).collect();
    report::table(&["largest tools", "bytes"], &rows)
}

/// A contract row as the list shows it.
fn entry(row: &Value) -> Value {
    let part = |key: &str| row.get(key).cloned().unwrap_or_default();
    let mut tool = Map::new();
    tool.insert("name".to_owned(), part("name"));
    tool.insert("description".to_owned(), Value::String("x".repeat(DESCRIPTION)));
    tool.insert("inputSchema".to_owned(), part("input_schema"));
    tool.insert("annotations".to_owned(), part("annotations"));
    if row.get("output_schema").is_some() {
        tool.insert("outputSchema".to_owned(), json!({"type": "object"}));
    }
    if row.get("remote") == Some(&Value::Bool(true)) {
        tool.insert("_meta".to_owned(), json!({"remote": true}));
    }
    Value::Object(tool)
}
