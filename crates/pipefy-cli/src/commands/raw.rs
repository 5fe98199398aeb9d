//! GraphQL as written, and what Pipefy's schema says.

use crate::command::{Command, Consent, Form, Param, Preset, int, object, text, word};
use crate::flows;

const DEPTH: Param = int("--max-depth", "max_depth", "How deep types are followed").or(Preset::Int(1));

pub(super) static COMMANDS: &[Command] = &[
    Command::new("graphql exec", "execute_graphql", "Run a GraphQL document; mutations need --yes")
        .flow(&[], flows::graphql)
        .takes(&[text("--query -q", "query", "Document").required(), object("--vars", "variables", "Variables")])
        .consent(Consent::Flag),
    Command::new("introspect type", "introspect_type", "Show a type of Pipefy's schema")
        .takes(&[word("type_name", "Type name"), DEPTH])
        .form(Form::Json),
    Command::new("introspect query", "introspect_query", "Show a query of Pipefy's schema")
        .takes(&[word("query_name", "Query name"), DEPTH])
        .form(Form::Json),
    Command::new("introspect mutation", "introspect_mutation", "Show a mutation of Pipefy's schema")
        .takes(&[word("mutation_name", "Mutation name"), DEPTH])
        .form(Form::Json),
    Command::new("introspect schema search", "search_schema", "Find types of Pipefy's schema")
        .takes(&[word("keyword", "Text to look for"), text("--kind", "kind", "Only this kind, e.g. OBJECT")])
        .form(Form::Json),
];
