//! GraphQL: schemas, documents, execution and the shape of errors.

use crate::ctx::Ctx;
use crate::error::{GqlError, SandboxError};
use crate::object::{Endpoint, RootObject};
use crate::store::Store;
use apollo_compiler::executable::OperationType;
use apollo_compiler::parser::Parser;
use apollo_compiler::resolvers::Execution;
use apollo_compiler::response::{GraphQLError, JsonMap, JsonValue};
use apollo_compiler::validation::{DiagnosticList, Valid};
use apollo_compiler::{ExecutableDocument, Schema};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

const PUBLIC_SDL: &str = include_str!("../../pipefy/graphql/schema/public.graphql");
const INTERFACES_SDL: &str = include_str!("../../pipefy/graphql/schema/interfaces.graphql");
const INTERNAL_SDL: &str = include_str!("../../pipefy/graphql/schema/internal.graphql");

type Parsed = Result<Valid<Schema>, String>;

static PUBLIC: LazyLock<Parsed> = LazyLock::new(|| parse(PUBLIC_SDL));
static INTERFACES: LazyLock<Parsed> = LazyLock::new(|| parse(INTERFACES_SDL));
static INTERNAL: LazyLock<Parsed> = LazyLock::new(|| parse(INTERNAL_SDL));

fn parse(sdl: &str) -> Parsed {
    Schema::parse_and_validate(sdl, "schema.graphql").map_err(|e| e.errors.to_string())
}

/// The schema of an endpoint.
pub(crate) fn schema(endpoint: Endpoint) -> Result<&'static Valid<Schema>, SandboxError> {
    let parsed: &'static Parsed = match endpoint {
        Endpoint::Public => &PUBLIC,
        Endpoint::Interfaces => &INTERFACES,
        Endpoint::Internal => &INTERNAL,
    };
    parsed.as_ref().map_err(|text| SandboxError::Start(format!("schema: {text}")))
}

/// A body of a GraphQL request.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Request {
    #[serde(default)]
    pub(crate) query: String,
    #[serde(default)]
    pub(crate) variables: Option<Map<String, Value>>,
    #[serde(default, rename = "operationName")]
    pub(crate) operation_name: Option<String>,
}

/// A valid document, or the errors that the API answers instead.
pub(crate) type Document = Result<Arc<Valid<ExecutableDocument>>, Vec<Value>>;

/// Documents that were validated before. Clients send few, many times.
#[derive(Default)]
pub(crate) struct Documents {
    known: Mutex<HashMap<(Endpoint, String), Document>>,
}

const KNOWN_DOCUMENTS: usize = 1024;

/// How deep a document may nest; execution recurses as deep.
const DEEPEST: usize = 64;

impl Documents {
    pub(crate) fn get(&self, endpoint: Endpoint, text: &str) -> Result<Document, SandboxError> {
        let key = (endpoint, text.to_owned());
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone());
        }
        let schema = schema(endpoint)?;
        let report = |errors: DiagnosticList| invalid(errors.iter().map(|d| invalid_document(&d.to_json())).collect());
        let parsed = Parser::new().recursion_limit(DEEPEST).parse_executable(schema, text, "request.graphql");
        let document = match parsed {
            Ok(parsed) => match parsed.validate(schema) {
                Ok(document) => Ok(Arc::new(document)),
                Err(with_errors) => Err(report(with_errors.errors)),
            },
            Err(with_errors) => Err(report(with_errors.errors)),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_DOCUMENTS {
            known.clear();
        }
        known.insert(key, document.clone());
        Ok(document)
    }
}

/// What a request is about, for faults, the request log and the overlap rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    pub(crate) mutation: bool,
    pub(crate) operation_name: Option<String>,
    pub(crate) root_fields: Vec<String>,
}

pub(crate) fn outline(document: &Document, name: Option<&str>) -> Outline {
    let Ok(document) = document else { return Outline::default() };
    let Ok(operation) = document.operations.get(name) else { return Outline::default() };
    Outline {
        mutation: operation.operation_type == OperationType::Mutation,
        operation_name: operation.name.as_ref().map(|n| n.to_string()),
        root_fields: operation.root_fields(document).map(|f| f.name.to_string()).collect(),
    }
}

/// Executes one request for one identity. The caller holds the store.
pub(crate) fn execute(
    store: &Store,
    endpoint: Endpoint,
    document: &Document,
    request: &Request,
    viewer: String,
    base_url: &str,
) -> Result<Value, SandboxError> {
    let correlation_id = format!("{:016x}", crate::store::entropy());
    let document = match document {
        Ok(document) => document,
        Err(errors) => return Ok(json!({ "errors": with_correlation(errors.clone(), &correlation_id) })),
    };
    let schema = schema(endpoint)?;
    let refused = |message: String| {
        let error =
            json!({ "message": message, "extensions": { "code": "BAD_USER_INPUT", "correlation_id": correlation_id } });
        Ok(json!({ "errors": [error] }))
    };
    let operation = match document.operations.get(request.operation_name.as_deref()) {
        Ok(operation) => operation,
        Err(error) => return refused(error.message().to_string()),
    };
    let mut variables = JsonMap::new();
    for (name, value) in request.variables.iter().flatten() {
        variables.insert(name.as_str(), JsonValue::from(value.clone()));
    }
    let ctx = Ctx::new(store, schema, viewer, base_url);
    let mutation = operation.operation_type == OperationType::Mutation;
    let root = RootObject { ctx: &ctx, endpoint, mutation };
    let result = Execution::new(schema, document)
        .operation(operation)
        .raw_variable_values(&variables)
        .enable_schema_introspection(true)
        .execute_sync(&root);
    let response = match result {
        Ok(response) => response,
        Err(error) => return refused(error.message().to_string()),
    };
    let data = serde_json::to_value(&response.data).unwrap_or_default();
    let errors: Vec<Value> = response.errors.iter().map(execution_error).collect();
    if errors.is_empty() {
        return Ok(json!({ "data": data }));
    }
    Ok(json!({ "errors": with_correlation(errors, &correlation_id), "data": data }))
}

fn with_correlation(mut errors: Vec<Value>, id: &str) -> Vec<Value> {
    for error in &mut errors {
        // An error without extensions stays so: the real move rejection has none either.
        if let Some(extensions) = error.get_mut("extensions").and_then(Value::as_object_mut) {
            extensions.insert("correlation_id".to_owned(), Value::from(id));
        }
    }
    errors
}

fn execution_error(error: &GraphQLError) -> Value {
    let mut value = serde_json::to_value(error).unwrap_or_default();
    match GqlError::decode(&error.message) {
        Some((message, code, more)) => {
            crate::json::set(&mut value, "message", message);
            if let Some(code) = code {
                let mut extensions = if more.is_object() { more } else { json!({}) };
                crate::json::set(&mut extensions, "code", code);
                crate::json::set(&mut value, "extensions", extensions);
            }
        }
        None => crate::json::set(&mut value, "extensions", json!({ "code": "INTERNAL_SERVER_ERROR" })),
    }
    value
}

/// A cut-off document or an unknown field causes more errors; only the cause is of use.
fn invalid(errors: Vec<Value>) -> Vec<Value> {
    let cut_off = |e: &&Value| crate::json::text(e, "message").contains("recursion limit");
    let unknown = |e: &&Value| e.pointer("/extensions/code").and_then(Value::as_str) == Some("undefinedField");
    let limits: Vec<Value> = errors.iter().filter(cut_off).cloned().collect();
    let causes: Vec<Value> = errors.iter().filter(unknown).cloned().collect();
    [limits, causes].into_iter().find(|found| !found.is_empty()).unwrap_or(errors)
}

/// A validation error in the words that clients look for.
fn invalid_document(error: &GraphQLError) -> Value {
    let mut value = serde_json::to_value(error).unwrap_or_default();
    let message = error.message.replace('`', "'");
    let unknown = message
        .strip_prefix("type '")
        .and_then(|rest| rest.split_once("' does not have a field '"))
        .and_then(|(ty, rest)| rest.strip_suffix('\'').map(|field| (ty, field)));
    let (message, code) = match unknown {
        Some((ty, field)) => (format!("Cannot query field '{field}' on type '{ty}'"), "undefinedField"),
        None => (message, "GRAPHQL_VALIDATION_FAILED"),
    };
    crate::json::set(&mut value, "message", message);
    crate::json::set(&mut value, "extensions", json!({ "code": code }));
    value
}

/// A literal argument as JSON, variables filled in.
pub(crate) fn literal(value: &apollo_compiler::ast::Value, variables: &Map<String, Value>) -> Value {
    use apollo_compiler::ast::Value as Ast;
    match value {
        Ast::Variable(name) => variables.get(name.as_str()).cloned().unwrap_or_default(),
        Ast::String(text) => Value::from(text.as_str()),
        Ast::Int(number) => Value::from(number.as_str()),
        Ast::Object(entries) => entries
            .iter()
            .map(|(key, value)| (key.to_string(), literal(value, variables)))
            .collect::<Map<_, _>>()
            .into(),
        _ => Value::Null,
    }
}
