#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use super::*;
use crate::Catalogue;
use serde_json::json;

/// The arguments of a call: `name=JSON`, comma separated.
fn arguments(call: &str, text: &str) -> Map<String, Value> {
    let mut found = Map::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').unwrap_or_else(|| panic!("{call}: `{rest}` is no name=value"));
        let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
        let value = values.next().unwrap().unwrap_or_else(|error| panic!("{call}, {name}: {error}"));
        let (_, tail) = after.split_at(values.byte_offset());
        assert!(found.insert(name.to_owned(), value).is_none(), "{call}: {name} twice");
        rest = match tail.trim_start().strip_prefix(',') {
            Some(tail) => tail.trim_start(),
            None => {
                assert!(tail.trim().is_empty(), "{call}: `{tail}` after {name}");
                ""
            }
        };
    }
    found
}

#[test]
fn every_text_is_a_playbook_in_order() {
    assert_eq!(playbooks().len(), TEXTS.len());
    let names: Vec<&str> = playbooks().iter().map(|playbook| playbook.name).collect();
    assert!(names.is_sorted(), "{names:?}");
    for (playbook, text) in playbooks().iter().zip(TEXTS) {
        let name = playbook.name;
        let kebab = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        assert!(kebab(name) && (5..40).contains(&name.len()), "{name}");
        assert!(!playbook.title.is_empty() && playbook.description.ends_with('.'), "{name}");
        assert!((60..400).contains(&playbook.description.len()), "{name}: {}", playbook.description.len());
        assert!(text.is_ascii() && !text.contains("```"), "{name}");
        assert!((1_500..9_000).contains(&text.len()), "{name}: {} bytes", text.len());
        assert!(text.lines().all(|line| line.matches('`').count() % 2 == 0), "{name}: a span over two lines");
        assert!(!playbook.needed().is_empty(), "{name}");
        assert!(playbook.body.contains("\n## Traps\n"), "{name}");
        assert!(playbook.body.lines().any(|line| line.starts_with("## When ") || line.starts_with("## If ")), "{name}");
        for argument in &playbook.arguments {
            assert!(!argument.description.is_empty(), "{name}: {}", argument.name);
            assert!(playbook.body.contains(&format!("{{{{{}}}}}", argument.name)), "{name}: {} unused", argument.name);
        }
        // What is substituted is declared.
        for (_, after) in playbook.body.match_indices("{{").map(|(at, _)| playbook.body.split_at(at + 2)) {
            let inner = after.split_once("}}").unwrap().0;
            assert!(playbook.arguments.iter().any(|argument| argument.name == inner), "{name}: {inner}");
        }
    }
}

/// The files are kept in a form of YAML that a line at a time can be read of: no quotes, no `: ` or ` #` inside a value.
#[test]
fn front_matter_needs_no_quoting() {
    for text in TEXTS {
        let head = text.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap().0;
        for line in head.lines().filter(|line| *line != "arguments:") {
            let (_, value) = line.split_once(": ").unwrap();
            assert!(
                !value.contains(": ") && !value.contains(" #") && !value.starts_with(['"', '\'', '[', '{', '*']),
                "{line}"
            );
        }
    }
}

/// Each call names a tool, and its arguments pass the check that every call passes: known, complete, of the right type.
#[test]
fn every_call_is_one_that_its_tool_takes() {
    let catalogue = Catalogue::new();
    let mut calls_seen = 0;
    for playbook in playbooks() {
        for line in playbook.body.lines() {
            for (tool, text) in calls(line) {
                let call = format!("{}: {tool}({text})", playbook.name);
                let found = catalogue.get(tool).unwrap_or_else(|| panic!("{call}: no such tool"));
                let arguments = arguments(&call, text);
                let schema = found.input_schema();
                // Schemas do not list every shared option.
                let shared = ["max_items", "max_seconds"];
                let unknown = arguments
                    .keys()
                    .find(|name| schema["properties"].get(name.as_str()).is_none() && !shared.contains(&name.as_str()));
                assert_eq!(unknown, None, "{call}");
                if let Err(error) = found.check(arguments) {
                    panic!("{call}: {}", error.envelope());
                }
                calls_seen += 1;
            }
        }
    }
    assert!(calls_seen > 100, "{calls_seen}");
}

/// A name in back ticks is a tool, an argument of one, or a key of Pipefy's or of our results.
#[test]
fn names_in_back_ticks_exist() {
    let catalogue = Catalogue::new();
    let mut known: Vec<String> = Vec::new();
    for tool in catalogue.tools() {
        known.push(tool.name().to_owned());
        known.extend(tool.input_schema()["properties"].as_object().unwrap().keys().cloned());
    }
    let results = [
        "may_have_been_applied",
        "retry_after_s",
        "next_cursor",
        "internal_id",
        "partial_errors",
        "valid_destinations",
        "to_phase_id",
        "copy_from",
        "fixed_value",
        "fill_with_ai",
        "requires_confirmation",
        "error_details",
        "field_address",
    ];
    for playbook in playbooks() {
        for span in playbook.body.lines().flat_map(|line| line.split('`').skip(1).step_by(2)) {
            let snake =
                span.contains('_') && span.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            if snake {
                let known = known.iter().any(|name| name == span) || results.contains(&span);
                assert!(known, "{}: `{span}` is neither tool nor argument", playbook.name);
            }
        }
    }
}

#[test]
fn values_are_put_in_once_and_checked() {
    let playbook = Playbook::find("investigate-stuck-card").unwrap();
    let fill = |values: Value| playbook.filled(values.as_object().unwrap());
    let text = fill(json!({"card_id": "7 {{destination_phase_id}}", "destination_phase_id": 12})).unwrap();
    assert!(text.contains("7 {{destination_phase_id}}") && text.contains("destination_phase_id=\"12\""));
    assert!(!text.contains("Not given"));
    let text = fill(json!({"card_id": "7", "destination_phase_id": " "})).unwrap();
    assert!(text.contains("## Not given") && text.contains("- <destination_phase_id>: "));
    assert_eq!(fill(json!({})), Err(BadValues::Missing(vec!["card_id"])));
    assert_eq!(fill(json!({"card_id": null})), Err(BadValues::Missing(vec!["card_id"])));
    assert_eq!(fill(json!({"card_id": ["7"]})), Err(BadValues::NotText("card_id")));
    assert_eq!(fill(json!({"card_id": "7".repeat(VALUE_LIMIT + 1)})), Err(BadValues::TooLong("card_id")));
    let unknown = fill(json!({"card_id": "7", "card": "8"})).unwrap_err();
    assert_eq!(unknown.to_string(), "Unknown argument: card; this playbook takes card_id, destination_phase_id");
}

#[test]
fn a_skill_explains_its_arguments_before_the_first_section() {
    for playbook in playbooks() {
        let text = playbook.skill_body();
        assert!(!text.contains("{{"), "{}", playbook.name);
        if !playbook.arguments.is_empty() {
            let first = text.lines().find(|line| line.starts_with("## "));
            assert_eq!(first, Some("## What the user gives"), "{}", playbook.name);
        }
    }
}

#[test]
fn advice_for_later_is_not_needed() {
    let playbook = Playbook::find("investigate-stuck-card").unwrap();
    assert!(playbook.needed().contains(&"get_card") && !playbook.needed().contains(&"move_card_to_phase"));
    assert!(playbook.advised().contains(&"move_card_to_phase") && !playbook.advised().contains(&"get_card"));
}

#[test]
fn the_page_names_every_playbook() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/playbooks.md")).unwrap();
    for playbook in playbooks() {
        let row = format!("| `{}` | {} | ", playbook.name, playbook.title);
        assert!(page.contains(&row), "{row}");
    }
}
