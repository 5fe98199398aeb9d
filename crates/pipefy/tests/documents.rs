//! Every GraphQL document of the crate against the schema of its endpoint, and the reading of answers against anything.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::HashSet;

use apollo_compiler::{ExecutableDocument, Schema};
use bytes::Bytes;
use pipefy::{EndpointKind, GraphqlResponse, OperationKind, documents};
use proptest::prelude::*;

#[test]
fn every_document_fits_the_schema_of_its_endpoint() {
    let schemas = [
        (EndpointKind::Public, include_str!("../graphql/schema/public.graphql")),
        (EndpointKind::Interfaces, include_str!("../graphql/schema/interfaces.graphql")),
        (EndpointKind::Internal, include_str!("../graphql/schema/internal.graphql")),
    ]
    .map(|(kind, sdl)| (kind, Schema::parse_and_validate(sdl, "schema.graphql").unwrap()));
    let mut problems = Vec::new();
    for document in documents::ALL {
        let schema = &schemas.iter().find(|(kind, _)| *kind == document.endpoint()).unwrap().1;
        match ExecutableDocument::parse_and_validate(schema, document.text(), document.name()) {
            Err(invalid) => problems.push(format!("{}: {}", document.name(), invalid.errors)),
            Ok(parsed) => {
                let operations: Vec<_> = parsed.operations.iter().collect();
                assert_eq!(operations.len(), 1, "{}: one operation each", document.name());
                let operation = operations[0];
                let kind = if operation.is_mutation() { OperationKind::Mutation } else { OperationKind::Query };
                assert_eq!(document.kind(), kind, "{}", document.name());
                assert!(!operation.is_subscription(), "{}", document.name());
                assert!(operation.name.is_some(), "{}: a name helps whoever reads the service's logs", document.name());
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_file_is_a_document_and_names_are_unique() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("graphql");
    let mut files = HashSet::new();
    for domain in std::fs::read_dir(root).unwrap().map(|e| e.unwrap().path()) {
        if !domain.is_dir() || domain.ends_with("schema") {
            continue;
        }
        let domain_name = domain.file_name().unwrap().to_string_lossy().into_owned();
        for file in std::fs::read_dir(&domain).unwrap().map(|e| e.unwrap().path()) {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            assert_eq!(file.extension().unwrap(), "graphql", "{}", file.display());
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
            files.insert(format!("{domain_name}/{name}"));
        }
    }
    let documents: HashSet<String> = documents::ALL.iter().map(|d| d.name().to_owned()).collect();
    assert_eq!(documents.len(), documents::ALL.len(), "two documents have one name");
    assert_eq!(documents, files);
}

/// JSON that looks like an answer, mostly wrong.
fn answer() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::{Value, json};
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|f| serde_json::Number::from_f64(f).map_or(Value::Null, Value::Number)),
        Just(json!("")),
        Just(json!(" \n ")),
        Just(json!("<html>")),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let key = prop_oneof![
            Just("data"),
            Just("errors"),
            Just("error"),
            Just("message"),
            Just("title"),
            Just("detail"),
            Just("code"),
            Just("details"),
            Just("extensions"),
            Just("correlation_id"),
            Just("path"),
            Just("error_description"),
            Just("x"),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

fn check(status: u16, bytes: &Bytes) -> Result<(), TestCaseError> {
    let Some(response) = GraphqlResponse::parse(status, bytes) else { return Ok(()) };
    let _ = (response.is_unauthorized(), response.is_throttled());
    for error in &response.errors {
        prop_assert!(!error.message.trim().is_empty(), "{:?}", error);
        prop_assert!(error.code.as_deref().is_none_or(|c| !c.trim().is_empty()));
        prop_assert!(error.correlation_id.as_deref().is_none_or(|c| !c.trim().is_empty()));
    }
    if let Some(data) = &response.data {
        prop_assert!(serde_json::from_str::<serde_json::Value>(data.text()).is_ok());
        prop_assert!(!data.value().is_null());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_json_is_read_without_panic_and_every_error_says_something(value in answer(), status in 200_u16..600) {
        check(status, &Bytes::from(value.to_string()))?;
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), status in 200_u16..600) {
        check(status, &Bytes::from(bytes))?;
    }

    #[test]
    fn a_damaged_answer_is_read_without_panic(value in answer(), cut in 0_usize..400, flip in any::<u8>()) {
        let mut bytes = value.to_string().into_bytes();
        bytes.truncate(cut);
        if let Some(last) = bytes.last_mut() {
            *last = flip;
        }
        check(200, &Bytes::from(bytes))?;
    }
}
