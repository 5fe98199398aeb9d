//! How a GraphQL object answers its fields: a table of computed properties first, else the stored JSON.

use crate::ctx::{Answer, Args, Body, Ctx};
use crate::domains;
use crate::error::GqlError;
use crate::json;
use apollo_compiler::ast::Type;
use apollo_compiler::resolvers::{FieldError, ObjectValue, ResolveInfo, ResolvedValue};
use apollo_compiler::response::JsonMap;
use apollo_compiler::schema::ExtendedType;
use serde_json::Value;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::LazyLock;

/// One of the three GraphQL endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Endpoint {
    Public,
    Interfaces,
    Internal,
}

/// Behaviour of one root field.
pub(crate) struct Root {
    pub(crate) endpoint: Endpoint,
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Ctx<'_>, &Args) -> Answer,
}

impl Root {
    pub(crate) const fn public(name: &'static str, run: fn(&Ctx<'_>, &Args) -> Answer) -> Self {
        Self { endpoint: Endpoint::Public, name, run }
    }

    pub(crate) const fn interfaces(name: &'static str, run: fn(&Ctx<'_>, &Args) -> Answer) -> Self {
        Self { endpoint: Endpoint::Interfaces, name, run }
    }

    pub(crate) const fn internal(name: &'static str, run: fn(&Ctx<'_>, &Args) -> Answer) -> Self {
        Self { endpoint: Endpoint::Internal, name, run }
    }
}

/// A property that is computed, for one or more GraphQL types.
pub(crate) struct Property {
    pub(crate) types: &'static [&'static str],
    pub(crate) name: &'static str,
    pub(crate) read: fn(&Ctx<'_>, &Value, &Args) -> Answer,
}

impl Property {
    pub(crate) const fn of(
        types: &'static [&'static str],
        name: &'static str,
        read: fn(&Ctx<'_>, &Value, &Args) -> Answer,
    ) -> Self {
        Self { types, name, read }
    }
}

type Read = fn(&Ctx<'_>, &Value, &Args) -> Answer;
type Run = fn(&Ctx<'_>, &Args) -> Answer;

static ROOTS: LazyLock<HashMap<(Endpoint, &str), Run>> = LazyLock::new(|| {
    domains::ROOTS.iter().flat_map(|rows| rows.iter()).map(|r| ((r.endpoint, r.name), r.run)).collect()
});

static PROPERTIES: LazyLock<HashMap<(&str, &str), Read>> = LazyLock::new(|| {
    let rows = domains::PROPERTIES.iter().flat_map(|rows| rows.iter());
    rows.flat_map(|p| p.types.iter().map(move |ty| ((*ty, p.name), p.read))).collect()
});

/// The `Query` or `Mutation` object of an endpoint.
pub(crate) struct RootObject<'c> {
    pub(crate) ctx: &'c Ctx<'c>,
    pub(crate) endpoint: Endpoint,
    pub(crate) mutation: bool,
}

impl ObjectValue for RootObject<'_> {
    fn type_name(&self) -> &str {
        if self.mutation { "Mutation" } else { "Query" }
    }

    fn resolve_field<'a>(&'a self, info: &'a ResolveInfo<'a>) -> Result<ResolvedValue<'a>, FieldError> {
        let Some(run) = ROOTS.get(&(self.endpoint, info.field_name())) else {
            let text = format!("The sandbox has no behaviour for the root field {}", info.field_name());
            return Err(field_error(&GqlError::new("NOT_IMPLEMENTED", text)));
        };
        let args = arguments(info.arguments());
        let answer = if self.mutation {
            let answer = self.ctx.store.atomic(|| run(self.ctx, &args));
            if answer.is_err() {
                self.ctx.forget();
            }
            answer.map(|mut payload| {
                if let Some(id) = args.input().get("clientMutationId") {
                    json::set(&mut payload, "clientMutationId", id.clone());
                }
                payload
            })
        } else {
            run(self.ctx, &args)
        };
        let answer = answer.map_err(|e| field_error(&e))?;
        resolve(self.ctx, &info.field_definition().ty, answer)
    }
}

/// Any object below the root.
struct Object<'c> {
    ctx: &'c Ctx<'c>,
    ty: String,
    body: Body,
}

impl ObjectValue for Object<'_> {
    fn type_name(&self) -> &str {
        &self.ty
    }

    fn resolve_field<'a>(&'a self, info: &'a ResolveInfo<'a>) -> Result<ResolvedValue<'a>, FieldError> {
        let name = info.field_name();
        let value = match PROPERTIES.get(&(self.ty.as_str(), name)) {
            Some(read) => read(self.ctx, &self.body, &arguments(info.arguments())).map_err(|e| field_error(&e))?,
            None => stored(&self.body, name),
        };
        resolve(self.ctx, &info.field_definition().ty, value)
    }
}

/// A stored property under its own name or the same name in the other case style.
fn stored(body: &Value, name: &str) -> Value {
    let direct = body.get(name).or_else(|| body.get(json::snake(name).as_str()));
    direct.or_else(|| body.get(json::camel(name).as_str())).cloned().unwrap_or_default()
}

fn arguments(arguments: &JsonMap) -> Args {
    if arguments.is_empty() {
        return Args(Value::Null);
    }
    Args(serde_json::to_value(arguments).unwrap_or_default())
}

fn field_error(error: &GqlError) -> FieldError {
    FieldError { message: error.encode() }
}

/// Turns an answer into what the executor needs, following the declared type.
fn resolve<'a>(ctx: &'a Ctx<'a>, ty: &Type, value: Value) -> Result<ResolvedValue<'a>, FieldError> {
    if value.is_null() {
        return Ok(ResolvedValue::null());
    }
    if let Some(error) = value.get("$error") {
        return Err(FieldError { message: format!("\u{1}{error}") });
    }
    match ty {
        Type::List(item) | Type::NonNullList(item) => {
            let items = match value {
                Value::Array(items) => items,
                single => vec![single],
            };
            let resolved: Vec<_> = items.into_iter().map(|v| resolve(ctx, item, v).or_else(failed_item)).collect();
            Ok(ResolvedValue::List(Box::new(resolved.into_iter())))
        }
        Type::Named(name) | Type::NonNullNamed(name) => match ctx.schema.types.get(name) {
            Some(ExtendedType::Object(_) | ExtendedType::Interface(_) | ExtendedType::Union(_)) => {
                object(ctx, name, value)
            }
            _ => Ok(ResolvedValue::leaf(leaf(name, value))),
        },
    }
}

/// The executor drops a whole list when one item is an error, and only the item when the item has a wrong type. The
/// wrong type's name carries the error.
fn failed_item<'a>(error: FieldError) -> Result<ResolvedValue<'a>, FieldError> {
    struct Failed(String);
    impl ObjectValue for Failed {
        fn type_name(&self) -> &str {
            &self.0
        }

        fn resolve_field<'a>(&'a self, info: &'a ResolveInfo<'a>) -> Result<ResolvedValue<'a>, FieldError> {
            Err(self.unknown_field_error(info))
        }
    }
    Ok(ResolvedValue::object(Failed(error.message)))
}

fn object<'a>(ctx: &'a Ctx<'a>, declared: &str, value: Value) -> Result<ResolvedValue<'a>, FieldError> {
    let kind = json::text(&value, "$kind").to_owned();
    let body = if kind.is_empty() {
        Rc::new(value)
    } else {
        match ctx.get(&kind, json::text(&value, "$id")).map_err(|e| field_error(&e))? {
            Some(body) => body,
            None => return Ok(ResolvedValue::null()),
        }
    };
    let ty = concrete(ctx, declared, &kind, &body);
    Ok(ResolvedValue::object(Object { ctx, ty, body }))
}

/// The object type that an entity takes where the schema says `declared`.
fn concrete(ctx: &Ctx<'_>, declared: &str, kind: &str, body: &Value) -> String {
    let fits = |name: &&str| match ctx.schema.types.get(declared) {
        Some(ExtendedType::Union(union)) => union.members.contains(*name),
        Some(ExtendedType::Interface(_)) => {
            ctx.schema.get_object(name).is_some_and(|object| object.implements_interfaces.contains(declared))
        }
        _ => false,
    };
    if matches!(ctx.schema.types.get(declared), Some(ExtendedType::Object(_))) {
        return declared.to_owned();
    }
    let named = json::text(body, "__typename");
    let candidates = match kind {
        "card" => ["Card", "PublicCard", "PublicRepoItem"],
        "table_record" => ["TableRecord", "PublicTableRecord", "PublicRepoItem"],
        "pipe" => ["Pipe", "PublicPipe", ""],
        "table" => ["Table", "PublicTable", "ConnectedTable"],
        _ => [named, "", ""],
    };
    candidates.iter().find(|name| fits(name)).map_or(named, |name| name).to_owned()
}

/// Fits a stored scalar to the type that the schema declares, since bodies keep ids and numbers as they came.
fn leaf(ty: &str, value: Value) -> Value {
    match (ty, &value) {
        ("Int", Value::String(text)) => text.parse::<i64>().map_or(Value::Null, Value::from),
        ("Int", Value::Number(number)) => {
            number.as_i64().or_else(|| number.as_f64().map(|f| f as i64)).map_or(Value::Null, Value::from)
        }
        ("Float", Value::String(text)) => text.parse::<f64>().map_or(Value::Null, Value::from),
        ("Float", Value::Number(number)) => number.as_f64().map_or(Value::Null, Value::from),
        ("ID" | "String", Value::Number(_) | Value::Bool(_)) => Value::from(json::scalar(&value).unwrap_or_default()),
        ("String" | "Json", Value::Object(_) | Value::Array(_)) => Value::from(value.to_string()),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::engine;
    use std::collections::HashSet;

    #[test]
    fn every_root_row_names_a_root_field_of_its_schema_once() {
        let mut seen = HashSet::new();
        for row in domains::ROOTS.iter().flat_map(|rows| rows.iter()) {
            let schema = engine::schema(row.endpoint).unwrap();
            let known = ["Query", "Mutation"].iter().any(|root| schema.type_field(root, row.name).is_ok());
            assert!(known, "{:?} has no root field {}", row.endpoint, row.name);
            assert!(seen.insert((row.endpoint, row.name)), "{} is listed twice", row.name);
        }
    }

    #[test]
    fn every_root_field_of_the_toolkits_documents_is_served() {
        let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../pipefy/graphql"));
        let (mut files, mut fields, mut unserved) = (0, HashSet::new(), Vec::new());
        for noun in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if noun.ends_with("schema") || !noun.is_dir() {
                continue;
            }
            for file in std::fs::read_dir(noun).unwrap().map(|entry| entry.unwrap().path()) {
                let text = std::fs::read_to_string(&file).unwrap();
                let endpoint = match text.lines().next().unwrap().strip_prefix("# endpoint: ") {
                    None => Endpoint::Public,
                    Some("interfaces") => Endpoint::Interfaces,
                    Some("internal") => Endpoint::Internal,
                    Some(other) => panic!("{other} in {}", file.display()),
                };
                let document = engine::Documents::default().get(endpoint, &text).unwrap();
                let document = document.unwrap_or_else(|errors| panic!("{}: {errors:?}", file.display()));
                for operation in document.operations.iter() {
                    for field in operation.root_fields(&document).map(|f| f.name.as_str()) {
                        fields.insert((endpoint, field.to_owned()));
                        if !ROOTS.contains_key(&(endpoint, field)) && !field.starts_with("__") {
                            unserved.push(format!("{endpoint:?} {field} of {}", file.display()));
                        }
                    }
                }
                files += 1;
            }
        }
        assert!(files > 170 && fields.len() > 150, "{files} documents, {} root fields", fields.len());
        assert!(unserved.is_empty(), "{unserved:#?}");
    }

    #[test]
    fn every_property_row_names_a_field_of_a_type_once() {
        let mut seen = HashSet::new();
        for row in domains::PROPERTIES.iter().flat_map(|rows| rows.iter()) {
            for ty in row.types {
                let known = [Endpoint::Public, Endpoint::Interfaces, Endpoint::Internal]
                    .iter()
                    .any(|endpoint| engine::schema(*endpoint).unwrap().type_field(ty, row.name).is_ok());
                assert!(known, "{ty}.{} is in no schema", row.name);
                assert!(seen.insert((*ty, row.name)), "{ty}.{} is listed twice", row.name);
            }
        }
    }
}
