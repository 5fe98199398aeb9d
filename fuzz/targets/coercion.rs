//! Any JSON as the arguments of any tool.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipefy_tools::{Catalogue, fuzzing};
use serde_json::Value;

fuzz_target!(init: { fuzzing::catalogue(); }, |data: (u16, &str)| {
    let (number, text) = data;
    let Ok(Value::Object(arguments)) = serde_json::from_str(text) else { return };
    let catalogue: &Catalogue = fuzzing::catalogue();
    let tool = &catalogue.tools()[usize::from(number) % catalogue.tools().len()];
    if let Ok(accepted) = fuzzing::check(tool, arguments) {
        assert_eq!(fuzzing::check(tool, accepted.clone()).ok(), Some(accepted), "{}", tool.name());
    }
});
