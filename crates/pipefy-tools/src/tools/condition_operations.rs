//! Operations that conditions compare with (`spec/tools-automation-ai.md`, 1.13). Pipefy may know more of them, so one that
//! nobody has heard of is only remarked on; one that is a slip of the pen is refused, since such a rule would never fire.

use pipefy::conditions::CONDITION_OPERATIONS as KNOWN;
use serde_json::Value;

/// The known operation that a text nearly is: other case, spaces or hyphens, or one letter off. `None` for a known one, for
/// none at all (the expression that stands for no condition) and for what resembles nothing.
pub(crate) fn meant(operation: &str) -> Option<&'static str> {
    if operation.is_empty() || KNOWN.contains(&operation) {
        return None;
    }
    let plain = operation.trim().to_lowercase().replace([' ', '-'], "_");
    KNOWN.into_iter().find(|known| strsim::damerau_levenshtein(known, &plain) <= 1)
}

/// What a message says about operations of a condition that are not known; blank when all are.
pub(crate) fn remark(condition: Option<&Value>) -> String {
    let expressions = condition.and_then(|c| c.get("expressions")).and_then(Value::as_array).into_iter().flatten();
    let mut strange: Vec<String> = expressions
        .filter_map(|expression| expression.get("operation").and_then(Value::as_str))
        .filter(|operation| !operation.is_empty() && !KNOWN.contains(operation))
        .map(|operation| format!("'{operation}'"))
        .collect();
    strange.dedup();
    if strange.is_empty() {
        return String::new();
    }
    format!(
        " Note: the condition compares with {}, which is no known operation; if Pipefy does not know it either, the rule never \
         fires. Known: {}.",
        strange.join(", "),
        KNOWN.join(", ")
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use serde_json::json;

    use super::*;

    #[test]
    fn slips_are_told_from_what_is_known_and_what_is_new() {
        for (operation, known) in [
            ("equal", Some("equals")),
            ("Equals", Some("equals")),
            ("not equals", Some("not_equals")),
            ("stringContains", Some("string_contains")),
            ("date-is", Some("date_is")),
            ("equals", None),
            ("", None),
            ("contains", None),
            ("date_in_next_week", None),
        ] {
            assert_eq!(meant(operation), known, "{operation}");
        }
        assert!(KNOWN.iter().all(|known| meant(known).is_none()));
    }

    #[test]
    fn only_what_is_strange_is_remarked_on() {
        let condition = |operations: &[&str]| {
            let expressions: Vec<Value> = operations.iter().map(|operation| json!({"operation": operation})).collect();
            json!({ "expressions": expressions })
        };
        assert_eq!(remark(Some(&condition(&["equals", ""]))), "");
        assert_eq!(remark(None), "");
        let text = remark(Some(&condition(&["contains", "contains", "equals"])));
        assert!(text.contains("with 'contains', which") && text.contains("string_contains"), "{text}");
    }
}
