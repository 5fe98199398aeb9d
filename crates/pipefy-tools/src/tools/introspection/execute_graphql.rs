use pipefy::graphql::{self, Written};
use pipefy::{EndpointKind, Error, Mutation, Query, Variables, introspection};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Act, Call, Confirmation, Domain, Explain, Kind, Op, Outcome, Outsiders, Persona, Plan, Reach, Shape, ToolError,
    Write, digest_of, digest_of_text,
};

/// Runs any GraphQL query or mutation on Pipefy's public API, for what no other tool covers. A mutation needs confirmation.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ExecuteGraphql {
    query: String,
    #[serde(default)]
    variables: Option<Variables>,
    /// Also return the data as an object in `data`.
    #[serde(default)]
    include_parsed: bool,
}

/// A query is run by the act as well, so that one path handles both; only a mutation is a step.
pub(crate) struct Document {
    written: Written,
    variables: Variables,
    include_parsed: bool,
}

impl Write for ExecuteGraphql {
    const OP: Op = Op::by_input("execute_graphql", Domain::Integration, Shape::Text)
        .outsiders(Outsiders::Anywhere)
        .personas(&[Persona::Builder])
        .reaches(Reach::Anything)
        .no_output_schema();
    type Keep = Document;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Document>, ToolError> {
        let written =
            graphql::read(EndpointKind::Public, &self.query).map_err(|e| ToolError::new(Kind::Input, e.to_string()))?;
        let variables = self.variables.unwrap_or_default();
        let identity = json!({
            "document": digest_of_text(&self.query),
            "variables": digest_or_empty(&variables),
        });
        let mutation = written.is_mutation().then(|| Mutation::shared(written.document.clone(), variables.clone()));
        let descriptor = written.descriptor().unwrap_or_else(|| "GraphQL mutation operation".to_owned());
        let plan = Plan::new(Document { written, variables, include_parsed: self.include_parsed });
        Ok(match mutation {
            None => plan,
            Some(mutation) => plan.then(mutation).confirm(
                Confirmation::delete(descriptor.clone(), identity)
                    .verb("run")
                    .sentence(format!(
                        "\u{26a0}\u{fe0f} Executing {descriptor} needs approval: this server cannot tell what the mutation changes."
                    )),
            ),
        })
    }

    async fn act(plan: &Plan<Document>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let keep = &plan.keep;
        let sent = match plan.mutations().next() {
            Some(mutation) => act.send_unproven(mutation).await,
            None => match Query::shared(keep.written.document.clone(), keep.variables.clone()) {
                Some(query) => act.query(query).await,
                None => return Err(ToolError::internal("the document is neither a query nor a mutation")),
            },
        };
        match sent {
            Ok(data) => Ok(Outcome::new(data).parsed(keep.include_parsed)),
            Err(error) => Err(explain(act, error, keep.written.is_mutation()).await),
        }
    }
}

fn digest_or_empty(variables: &Variables) -> Value {
    if variables.is_empty() { json!({}) } else { digest_of(&Value::Object(variables.clone())).into() }
}

/// Adds, for a field asked on the wrong root, where it is (`spec/tools-data-portals.md`, `execute_graphql`).
async fn explain(call: &Call<'_>, error: Error, mutation: bool) -> ToolError {
    let wrong_root = error.graphql_errors().iter().find_map(|e| misplaced(&e.message));
    let mut out = Explain::doing("run the document").map(call, error);
    if let Some((field, root)) = wrong_root {
        let (other, word) = if root == "Query" { ("Mutation", "mutation") } else { ("Query", "query") };
        let found = call.query(introspection::root_fields(other)).await.ok().is_some_and(|data| {
            data.value()
                .get("__type")
                .and_then(|t| t.get("fields"))
                .and_then(Value::as_array)
                .is_some_and(|fields| fields.iter().any(|f| f.get("name").and_then(Value::as_str) == Some(&field)))
        });
        if found {
            out.message
                .push_str(&format!(" Hint: '{field}' exists as a {word}; write `{word} {{ {field} ... }}` instead."));
        } else {
            out.message.push_str(" Hint: look the field up with `search_schema` or `introspect_type`.");
        }
    } else if mutation && out.source.as_ref().is_some_and(|e| e.may_have_been_applied()) {
        out.message.push_str(" Re-read counts or ids before repeating.");
    }
    out
}

/// `field` and `root` of "Cannot query field 'field' on type 'root'" and of "Field 'field' doesn't exist on type 'root'",
/// whatever the quotes.
fn misplaced(message: &str) -> Option<(String, String)> {
    let (before, after) = message.split_once("on type")?;
    let (_, before) = before.split_once("ield ")?;
    let root = quoted(after)?;
    ["Query", "Mutation"].contains(&root).then(|| quoted(before).map(|field| (field.to_owned(), root.to_owned())))?
}

/// What the text quotes first.
fn quoted(text: &str) -> Option<&str> {
    let start = text.find(['\'', '"', '`'])?;
    let quote = text.get(start..)?.chars().next()?;
    text.get(start + 1..)?.split_once(quote).map(|(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::Mock;

    #[test]
    fn a_field_on_the_wrong_root_is_recognised_in_every_quoting() {
        for quote in ['\'', '"', '`'] {
            let message = format!("Cannot query field {quote}createCard{quote} on type {quote}Query{quote}.");
            assert_eq!(misplaced(&message), Some(("createCard".to_owned(), "Query".to_owned())));
            let message = format!("Field {quote}pipe{quote} doesn't exist on type {quote}Mutation{quote}");
            assert_eq!(misplaced(&message), Some(("pipe".to_owned(), "Mutation".to_owned())));
        }
        assert_eq!(misplaced("Cannot query field 'x' on type 'Card'"), None);
        assert_eq!(misplaced("no quotes"), None);
    }
    #[tokio::test]
    async fn the_hint_names_the_other_root_and_an_alias_is_no_failure() {
        let run = async |mock: Mock, query: &str| {
            mock.reply("execute_graphql", json!({"query": query, "include_parsed": true})).await
        };
        for message in
            ["Cannot query field 'createCard' on type 'Query'", "Field 'createCard' doesn't exist on type 'Query'"]
        {
            let mock =
                Mock::new().error("createCard", message, "").on("__type", json!({"fields": [{"name": "createCard"}]}));
            let text = run(mock, "{ createCard { id } }").await["error"]["message"].to_string();
            assert!(text.contains("exists as a mutation"), "{text}");
        }
        // Data that is called like a failure is data.
        let answer = json!({"error": {"id": "1"}, "errors": ["x"]});
        let mock = Mock::new().body("me", json!({ "data": answer }));
        let reply = run(mock, "{ error: me { id } errors: organizations { id } }").await;
        assert_eq!((&reply["success"], &reply["data"]), (&json!(true), &answer), "{reply}");
    }
}
