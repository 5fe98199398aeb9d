//! Any JSON as the result of any tool, under any budget.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipefy_tools::{Outcome, compact, fuzzing, render};
use serde_json::{Map, Value};

fuzz_target!(|data: (u16, u16, bool, &str)| {
    let (number, limit, unified, text) = data;
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    assert_eq!(serde_json::from_str::<Value>(&compact(text)).ok().as_ref(), Some(&value));
    let tools = fuzzing::catalogue().tools();
    let op = tools[usize::from(number) % tools.len()].op();
    let toolbox = fuzzing::toolbox(unified);
    let limit = usize::from(limit);
    let reply = render(op, &toolbox, Ok(Outcome::new(value)), &Map::new(), limit);
    let text = reply.payload.text();
    let shown: Value = serde_json::from_str(&text).expect("valid JSON");
    if shown.get("truncated").is_some() && limit >= 8_192 {
        assert!(text.len() <= limit, "{} > {limit}", text.len());
    }
});
