#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Mutex;

use futures_util::future::BoxFuture;
use pipefy::{Budget, EndpointKind, Error, GraphqlExecutor, GraphqlResponse, Operation, OperationKind};

use super::*;
use crate::tools::testing::Mock;
use crate::{Catalogue, Tool};

/// An organisation in which everything whose id ends in 1 belongs to pipe 1 or table T1, and everything in 2 to pipe 2 or
/// table T2. It keeps the names of the documents that it was sent.
#[derive(Default)]
struct World {
    sent: Mutex<Vec<(String, OperationKind)>>,
    /// Nothing can be traced: every such read fails like this.
    broken: Option<fn() -> Result<Value, Error>>,
}

impl World {
    fn sent(&self) -> Vec<String> {
        self.sent.lock().unwrap().iter().map(|(name, _)| name.clone()).collect()
    }

    /// What was sent beside the reads that trace ids.
    fn beyond(&self) -> Vec<String> {
        self.sent().into_iter().filter(|name| !name.starts_with("scope/")).collect()
    }
}

fn answer(name: &str, id: &str) -> Value {
    let (n, known) = match id.chars().last() {
        Some(n @ ('1' | '2')) => (n, true),
        _ => ('0', false),
    };
    let org = json!({"id": format!("o{n}"), "uuid": format!("ou{n}")});
    let pipe = json!({"id": n.to_string()});
    let table = json!({"id": format!("T{n}")});
    let fields = |prefix: &str| json!([{"id": format!("slug{n}"), "internal_id": format!("9{n}"), "uuid": format!("{prefix}{n}")}]);
    let own = |prefix: &str| id == format!("{prefix}{n}");
    let ends = json!([{"parent": pipe, "child": table}]);
    match name {
        _ if !known => json!({}),
        "scope/pipe" if id.starts_with('T') => json!({"pipe": null}),
        "scope/pipe" => {
            json!({"pipe": {"id": n.to_string(), "uuid": format!("uuid-{n}"), "suid": format!("S{n}"),
                "organizationId": format!("o{n}"), "organization": org}})
        }
        "scope/table" if id.starts_with('T') => {
            json!({"table": {"id": format!("T{n}"), "internal_id": format!("7{n}"), "uuid": format!("tuuid-{n}"), "organization": org}})
        }
        "scope/organization" => json!({"organization": org}),
        "scope/card" if own("c") => json!({"card": {"pipe": pipe}}),
        "scope/table_record" if own("r") => json!({"table_record": {"table": table}}),
        "scope/phase" if own("p") => json!({"phase": {"repo_id": n.to_digit(10)}}),
        "scope/field_condition" => json!({"fieldCondition": {"phase": {"repo_id": n.to_digit(10)}}}),
        "scope/automation" => json!({"automation": {"event_repo": pipe, "action_repo_v2": table}}),
        "scope/ai_agent" => json!({"aiAgent": {"repoUuid": format!("uuid-{n}")}}),
        "scope/ai_agent_log" => json!({"aiAgentLogDetails": {"agentUuid": format!("g{n}")}}),
        "scope/pipe_relation" => json!({"pipe_relations": ends}),
        "scope/table_relation" => json!({"table_relations": ends}),
        "scope/organization_report" => json!({"organizationReport": {"repos": [pipe]}}),
        "scope/organization_report_export" => json!({"organizationReportExport": {"report": {"repos": [pipe]}}}),
        "scope/pipe_report_export" => json!({"pipeReportExport": {"report": {"id": format!("rep{n}")}}}),
        "scope/email_template" => json!({"parsedEmailTemplate": {"repoId": n.to_string()}}),
        "scope/pipe_contents" => {
            json!({"pipe": {"labels": [{"id": format!("lab{n}")}], "reports": [{"id": format!("rep{n}")}],
                "webhooks": [{"id": format!("w{n}")}], "start_form_fields": [], "phases": [{"fields": fields("f")}]}})
        }
        "scope/table_contents" => {
            json!({"table": {"labels": [], "webhooks": [], "table_fields": fields("tf")}})
        }
        _ => json!({}),
    }
}

fn rest(name: &str) -> Value {
    let relations = json!([{"name": "r", "pipe": {"id": "1"}, "cards": [{"id": "c1"}]},
        {"name": "s", "pipe": {"id": "2"}, "cards": [{"id": "c2"}]}]);
    match name {
        "pipes/search_pipes" => json!({"organizations": [
            {"id": "o1", "name": "A", "pipes": [{"id": "1", "name": "one"}, {"id": "2", "name": "two"}]},
            {"id": "o2", "name": "B", "pipes": [{"id": "3", "name": "three"}]},
        ]}),
        "organizations/list_organizations" => {
            json!({"organizations": [{"id": "o1", "uuid": "ou1"}, {"id": "o2", "uuid": "ou2"}]})
        }
        "interfaces/list_interface_repos" => {
            let row = |id: &str, kind: &str, suid: Value| json!({"node": {"id": id, "uuid": format!("u{id}"), "type": kind, "suid": suid}});
            json!({"interfaceRepos": {"edges": [
                row("1", "Pipe", json!("S1")), row("2", "Pipe", json!("S2")),
                row("T1", "Table", json!(null)), row("T2", "Table", json!(null)),
            ], "pageInfo": {"hasNextPage": false, "endCursor": null}}})
        }
        "cards/get_card_relations" => json!({"card": {"child_relations": relations, "parent_relations": []}}),
        _ => json!({}),
    }
}

impl GraphqlExecutor for World {
    fn execute<'a>(&'a self, operation: &'a Operation, _: &'a Budget) -> BoxFuture<'a, Result<GraphqlResponse, Error>> {
        let name = operation.document.name().to_owned();
        self.sent.lock().unwrap().push((name.clone(), operation.document.kind()));
        let id = operation.variables.get("id").and_then(Value::as_str).unwrap_or_default();
        let data = match (name.starts_with("scope/"), self.broken) {
            (true, Some(broken)) => broken(),
            (true, None) => Ok(json!({ "data": answer(&name, id) })),
            (false, _) => Ok(json!({ "data": rest(&name) })),
        };
        Box::pin(async move { Ok(GraphqlResponse::parse(200, &data?.to_string().into()).unwrap()) })
    }

    fn credential_occurs_in<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async { Ok(false) })
    }
}

fn list(ids: &[&str]) -> Option<Vec<String>> {
    (!ids.is_empty()).then(|| ids.iter().map(|id| (*id).to_owned()).collect())
}

fn pinned(pipes: &[&str], tables: &[&str], org: Option<&str>) -> Mock {
    let mut mock = Mock::new();
    let pins = ScopePins { pipes: list(pipes), tables: list(tables), org: org.map(str::to_owned) };
    mock.policy.scope = Scope::of(&pins);
    mock
}

fn ours() -> Mock {
    pinned(&["1"], &["T1"], None)
}

async fn run(mock: &Mock, world: &Arc<World>, tool: &str, arguments: Value) -> Result<Outcome, ToolError> {
    mock.call_through(world.clone(), tool, arguments).await
}

fn refused(result: &Result<Outcome, ToolError>) -> bool {
    matches!(result, Err(error) if error.code.as_deref() == Some("OUT_OF_SCOPE"))
}

/// An id of this kind, ending in `n`.
fn id(kind: IdKind, n: u8) -> String {
    let prefix = match kind {
        IdKind::Pipe => "",
        IdKind::PipeUuid | IdKind::Repo => "uuid-",
        IdKind::Table => "T",
        IdKind::Card => "c",
        IdKind::TableRecord => "r",
        IdKind::Phase => "p",
        IdKind::Label => "lab",
        IdKind::Report => "rep",
        IdKind::Webhook => "w",
        IdKind::PhaseField => "f",
        IdKind::TableField => "tf",
        IdKind::Organization => "o",
        _ => "g",
    };
    format!("{prefix}{n}")
}

fn traceable(kind: IdKind) -> bool {
    !matches!(
        kind,
        IdKind::Organization
            | IdKind::Comment
            | IdKind::Interface
            | IdKind::KnowledgeBase
            | IdKind::Provider
            | IdKind::Member
            | IdKind::Other
    )
}

fn types(schema: &Value) -> Vec<String> {
    match &schema["type"] {
        Value::String(one) => vec![one.clone()],
        Value::Array(list) => list.iter().map(|t| t.as_str().unwrap().to_owned()).collect(),
        _ => Vec::new(),
    }
}

/// A value that fits a schema.
fn sample(schema: &Value) -> Value {
    if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|list| list.first()) {
        return first.clone();
    }
    match types(schema).first().map(String::as_str) {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let fields = required.iter().map(|name| {
                let name = name.as_str().unwrap();
                (name.to_owned(), sample(&schema["properties"][name]))
            });
            Value::Object(fields.collect())
        }
        _ => json!("x"),
    }
}

/// Arguments with every declared id that a call can carry, ours but for `foreign`.
fn arguments(tool: &Tool, foreign: Option<&str>, with: impl Fn(IdKind, bool) -> bool) -> Value {
    let schema = tool.input_schema();
    let mut arguments =
        sample(&json!({"type": "object", "required": schema["required"], "properties": schema["properties"]}));
    for declared in tool.op().touches {
        let property = &schema["properties"][declared.arg];
        let required = schema["required"].as_array().is_some_and(|list| list.contains(&json!(declared.arg)));
        if !required && !with(declared.kind, declared.within) {
            continue;
        }
        let value = json!(id(declared.kind, if foreign == Some(declared.arg) { 2 } else { 1 }));
        let listed = types(property).contains(&"array".to_owned());
        arguments[declared.arg] = if listed { json!([value]) } else { value };
    }
    arguments
}

/// A new tool cannot forget to say what its ids are.
#[test]
fn every_id_argument_is_declared() {
    // Names of event and action types, not ids of anything.
    const TYPES: [(&str, &str); 6] = [
        ("create_automation", "trigger_id"),
        ("create_automation", "action_id"),
        ("create_send_task_automation", "event_id"),
        ("simulate_automation", "action_id"),
        ("simulate_automation", "event_id"),
        ("create_ai_automation", "event_id"),
    ];
    let more = [
        ("validate_ai_automation_prompt", "event_id"),
        ("get_automation_execution_metrics", "action_ids"),
        ("get_automation_execution_metrics", "event_id"),
        ("create_ipaas_connection", "external_id"),
    ];
    let mut problems = Vec::new();
    let catalogue = Catalogue::new();
    for tool in catalogue.tools() {
        let schema = tool.input_schema();
        for name in schema["properties"].as_object().unwrap().keys() {
            let last = name.rsplit('_').next().unwrap();
            let is_id = matches!(last, "id" | "ids" | "uuid" | "uuids");
            let declared = tool.op().touches.iter().any(|id| id.arg == name);
            let excused = TYPES.iter().chain(&more).any(|excused| *excused == (tool.name(), name.as_str()));
            if is_id && declared == excused {
                problems.push(format!("{}.{name}", tool.name()));
            }
        }
        // Without ids it must be said what else is reached.
        if tool.op().touches.is_empty() && tool.op().reach == Reach::Named {
            problems.push(format!("{}: neither ids nor reach", tool.name()));
        }
    }
    assert!(problems.is_empty(), "undeclared (or excused for nothing): {problems:?}");
}

/// Whatever the tool, a foreign id is refused, and nothing is sent but what traces it.
#[tokio::test]
async fn foreign_ids_are_refused_by_every_tool() {
    let mock = ours();
    let catalogue = Catalogue::new();
    let mut checked = 0;
    for tool in catalogue.tools() {
        let op = tool.op();
        for declared in op.touches.iter().filter(|id| !id.within && traceable(id.kind)) {
            let world = Arc::new(World::default());
            let given = arguments(tool, Some(declared.arg), |kind, within| traceable(kind) && !within);
            let result = run(&mock, &world, op.name, given.clone()).await;
            let error = result.as_ref().err();
            assert!(refused(&result), "{} {} {given}: {error:?}", op.name, declared.arg);
            let error = error.unwrap();
            assert!(
                error.message.is_ascii() && !error.message.contains(&id(declared.kind, 2))
                    || declared.kind == IdKind::Pipe
            );
            if op.reach == Reach::Named {
                assert_eq!(error.details["argument"], declared.arg, "{}", op.name);
                assert_eq!(error.kind, Kind::Refused);
            }
            assert_eq!(world.beyond(), Vec::<String>::new(), "{} {}", op.name, declared.arg);
            checked += 1;
        }
    }
    assert!(checked > 150, "{checked}");
}

/// An organisation that is given beside what is ours is the one that it belongs to, whatever the tool.
#[tokio::test]
async fn another_organization_beside_our_own_ids_is_refused_by_every_tool() {
    for mock in [ours(), pinned(&["1"], &[], None)] {
        let catalogue = Catalogue::new();
        let mut checked = 0;
        for tool in catalogue.tools() {
            let op = tool.op();
            let Some(declared) = op.touches.iter().find(|id| id.kind == IdKind::Organization) else { continue };
            if op.reach == Reach::Nothing || !op.touches.iter().any(|id| traceable(id.kind) && !id.within) {
                continue;
            }
            let world = Arc::new(World::default());
            let given = arguments(tool, Some(declared.arg), |kind, within| {
                (traceable(kind) && !within) || kind == IdKind::Organization
            });
            let result = run(&mock, &world, op.name, given.clone()).await;
            assert!(refused(&result), "{} {given}: {:?}", op.name, result.as_ref().err());
            assert_eq!(world.beyond(), Vec::<String>::new(), "{}", op.name);
            if op.name == "upload_attachment_to_card" {
                assert_eq!(result.unwrap_err().details["argument"], "organization_id");
            }
            checked += 1;
        }
        assert!(checked > 3, "{checked}");
    }
}

/// Ids of our own pass, so that the refusals above are not refusals of everything.
#[tokio::test]
async fn own_ids_pass_in_every_tool_that_can_tell() {
    let mock = ours();
    let catalogue = Catalogue::new();
    let mut passed = 0;
    for tool in catalogue.tools() {
        let op = tool.op();
        let world = Arc::new(World::default());
        let given = arguments(tool, None, |kind, within| traceable(kind) && !within);
        let result = run(&mock, &world, op.name, given.clone()).await;
        let schema = tool.input_schema();
        let needs = |kind: fn(IdKind) -> bool| {
            op.touches.iter().any(|id| {
                kind(id.kind)
                    && !id.within
                    && schema["required"].as_array().is_some_and(|list| list.contains(&json!(id.arg)))
            })
        };
        let anchored = op.touches.iter().any(|id| traceable(id.kind) && !id.within);
        let expected = match op.reach {
            Reach::Nothing | Reach::Listing(_) => true,
            Reach::Anything | Reach::Organization => false,
            Reach::Named => anchored && !needs(|kind| !traceable(kind) && kind != IdKind::Organization),
        };
        assert_eq!(!refused(&result), expected, "{} {given}: {:?}", op.name, result.as_ref().err());
        if !expected {
            assert_eq!(world.beyond(), Vec::<String>::new(), "{}", op.name);
        }
        passed += usize::from(expected);
    }
    assert!(passed > 120, "{passed}");
}

#[tokio::test]
async fn what_cannot_be_traced_is_refused() {
    let mock = ours();
    for (tool, arguments, reason) in [
        ("execute_graphql", json!({"query": "{ me { id } }"}), "operation"),
        ("call_ipaas_tool", json!({"pipe_id": "1", "tool_name": "t"}), "operation"),
        ("create_pipe", json!({"name": "n", "organization_id": "o1"}), "operation"),
        ("clone_pipe", json!({"pipe_template_id": "1"}), "operation"),
        ("get_organization", json!({"organization_id": "o1"}), "operation"),
        ("get_automations", json!({"organization_id": "o1"}), "operation"),
        ("get_automations", json!({}), "operation"),
        ("update_comment", json!({"comment_id": "5", "text": "t"}), "untraceable"),
        ("get_card", json!({"card_id": "77"}), "untraceable"),
        ("get_card", json!({"card_id": "c2"}), "foreign"),
        (
            "create_ai_agent",
            json!({"name": "n", "repo_uuid": "uuid-1", "instruction": "i", "behaviors": [], "data_source_ids": ["k1"]}),
            "untraceable",
        ),
    ] {
        let world = Arc::new(World::default());
        let result = run(&mock, &world, tool, arguments.clone()).await;
        assert!(refused(&result), "{tool} {arguments}: {result:?}");
        let error = result.unwrap_err();
        assert_eq!(error.details["reason"], reason, "{tool} {arguments}: {error}");
        assert!(error.message.contains("pipes 1; tables T1"), "{error}");
        assert!(world.beyond().is_empty(), "{tool}");
    }
}

#[tokio::test]
async fn ids_in_free_objects_are_traced_too() {
    let mock = ours();
    for (tool, arguments, place) in [
        (
            "create_automation",
            json!({"pipe_id": "1", "name": "n", "trigger_id": "card_created", "action_id": "move_single_card",
                "extra_input": {"action_params": {"to_phase_id": "p2"}}}),
            "extra_input.action_params.to_phase_id",
        ),
        (
            "create_automation",
            json!({"pipe_id": "1", "name": "n", "trigger_id": "card_created", "action_id": "a",
                "extra_input": {"actionRepoId": 2}}),
            "extra_input.actionRepoId",
        ),
        (
            "create_ai_agent",
            json!({"name": "n", "repo_uuid": "uuid-1", "instruction": "i", "behaviors": [{"name": "b", "event_id": "e",
                "actionParams": {"aiBehaviorParams": {"actionsAttributes": [{"metadata": {"pipeId": "2"}}]}}}]}),
            "behaviors.actionParams.aiBehaviorParams.actionsAttributes.metadata.pipeId",
        ),
        (
            "create_phase_field",
            json!({"phase_id": "p1", "label": "l", "field_type": "connector", "extra_input": {"connectedRepoId": "T2"}}),
            "extra_input.connectedRepoId",
        ),
    ] {
        let world = Arc::new(World::default());
        let result = run(&mock, &world, tool, arguments).await;
        assert!(refused(&result), "{tool}: {:?}", result.as_ref().err());
        assert_eq!(result.unwrap_err().details["argument"], place, "{tool}");
        assert!(world.beyond().is_empty(), "{tool}");
    }
    // A form's own field ids are not the API's names.
    let world = Arc::new(World::default());
    let form = json!({"pipe_id": "1", "fields": {"pipe_id": "2"}, "skip_elicitation": true});
    assert!(!refused(&run(&mock, &world, "create_card", form).await));
}

/// Two pipes may have a field of one slug: it says which is meant only together with something that does.
#[tokio::test]
async fn slugs_need_something_that_says_whose_they_are() {
    let mock = ours();
    for (tool, arguments, passes) in [
        ("update_phase_field", json!({"field_id": "slug1", "label": "l"}), false),
        ("update_phase_field", json!({"field_id": "slug1", "label": "l", "phase_id": "p1"}), false),
        ("update_phase_field", json!({"field_id": "slug1", "label": "l", "uuid": "f1"}), true),
        ("update_phase_field", json!({"field_id": "slug1", "label": "l", "uuid": "f2"}), false),
        ("update_phase_field", json!({"field_id": "91", "label": "l"}), true),
        ("delete_phase_field", json!({"field_id": "slug1"}), false),
        ("delete_phase_field", json!({"field_id": "slug1", "pipe_id": "1"}), false),
        ("delete_phase_field", json!({"field_id": "slug1", "pipe_uuid": "uuid-1"}), true),
        ("delete_phase_field", json!({"field_id": "slug1", "pipe_uuid": "uuid-2"}), false),
    ] {
        let world = Arc::new(World::default());
        let result = run(&mock, &world, tool, arguments.clone()).await;
        assert_eq!(!refused(&result), passes, "{tool} {arguments}: {:?}", result.as_ref().err());
        assert!(passes || world.beyond().is_empty(), "{tool} {arguments}");
    }
}

#[tokio::test]
async fn a_pinned_pipe_may_be_called_by_any_of_its_names_and_foreign_ones_are_not_read() {
    let mock = ours();
    for name in ["1", "uuid-1", "S1"] {
        let world = Arc::new(World::default());
        assert!(!refused(&run(&mock, &world, "get_pipe", json!({"pipe_id": name})).await), "{name}");
    }
    let world = Arc::new(World::default());
    assert!(refused(&run(&mock, &world, "get_pipe_report_columns", json!({"pipe_uuid": "uuid-2"})).await));
    assert!(world.sent().is_empty(), "the pins' names were known already: {:?}", world.sent());
}

#[tokio::test]
async fn traced_ids_are_kept() {
    let mock = ours();
    let world = Arc::new(World::default());
    for _ in 0..3 {
        assert!(!refused(&run(&mock, &world, "get_card", json!({"card_id": "c1"})).await));
    }
    let traced = world.sent().iter().filter(|name| *name == "scope/card").count();
    assert_eq!(traced, 1, "{:?}", world.sent());
    // A refusal is asked again: the card may have come to us.
    for _ in 0..2 {
        assert!(refused(&run(&mock, &world, "get_card", json!({"card_id": "77"})).await));
    }
    assert_eq!(world.sent().iter().filter(|name| *name == "scope/card").count(), 3);
}

#[tokio::test]
async fn a_read_that_fails_refuses() {
    let denied = || {
        Ok(
            json!({"data": {"card": null}, "errors": [{"message": "Permission denied", "extensions": {"code": "PERMISSION_DENIED"}}]}),
        )
    };
    let silent = || {
        let limit = Duration::from_secs(30);
        Err(Error::Timeout { endpoint: EndpointKind::Public, limit, kind: OperationKind::Query })
    };
    let mock = ours();
    for (broken, code) in
        [(denied as fn() -> Result<Value, Error>, "OUT_OF_SCOPE"), (silent as fn() -> Result<Value, Error>, "TIMEOUT")]
    {
        for (tool, arguments) in [
            ("delete_card", json!({"card_id": "c1"})),
            ("update_label", json!({"label_id": "lab1", "name": "n", "color": "#FF0000"})),
        ] {
            let world = Arc::new(World { broken: Some(broken), ..World::default() });
            let error = run(&mock, &world, tool, arguments).await.unwrap_err();
            assert_eq!(error.code.as_deref(), Some(code), "{tool}: {error}");
            assert!(world.beyond().is_empty(), "{tool}");
        }
    }
}

#[tokio::test]
async fn listings_lose_their_foreign_rows_and_say_so() {
    let world = Arc::new(World::default());
    let mock = ours();
    let found = run(&mock, &world, "search_pipes", json!({})).await.unwrap();
    let extra = found.extra["scope"].clone();
    let value = found.body.into_value();
    assert_eq!(value["organizations"].as_array().unwrap().len(), 1, "{value}");
    assert_eq!(value["organizations"][0]["pipes"], json!([{"id": "1", "name": "one"}]));
    assert_eq!(extra["dropped"], 3);
    assert!(extra["note"].as_str().unwrap().contains("pipes 1; tables T1"));

    let found = run(&mock, &world, "list_organizations", json!({})).await.unwrap();
    assert_eq!(found.body.into_value()["organizations"], json!([{"id": "o1", "uuid": "ou1"}]));
    let found = run(&mock, &world, "get_card_relations", json!({"card_id": "c1"})).await.unwrap();
    let value = found.body.into_value();
    assert_eq!(value["child_relations"].as_array().unwrap().len(), 1, "{value}");
    assert_eq!(value["child_relations"][0]["name"], "r");

    let open = Mock::new();
    let found = run(&open, &world, "search_pipes", json!({})).await.unwrap();
    assert!(found.extra.get("scope").is_none());
    assert_eq!(found.body.into_value()["organizations"].as_array().unwrap().len(), 2);
}

/// What a row says of itself is enough: its short name is never asked for, as a pipe or as a table.
#[tokio::test]
async fn rows_of_pipes_and_tables_are_told_apart_by_their_type() {
    for (pipes, tables, kept) in [
        (&["1"][..], &[][..], json!(["1", "T1", "T2"])),
        (&[], &["T1"], json!(["1", "2", "T1"])),
        (&["1"], &["T2"], json!(["1", "T2"])),
    ] {
        let world = Arc::new(World::default());
        let mock = pinned(pipes, tables, None);
        let found = run(&mock, &world, "list_interface_repos", json!({"organization_id": "1"})).await.unwrap();
        let value = found.body.into_value();
        let ids: Vec<&Value> = value["repos"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
        assert_eq!(json!(ids), kept);
        assert!(world.sent().iter().all(|name| name != "scope/table" || !tables.is_empty()), "{:?}", world.sent());
    }
}

#[tokio::test]
async fn an_organization_pin_holds_for_what_is_in_it() {
    let mock = pinned(&[], &[], Some("o1"));
    for (tool, arguments, passes) in [
        ("get_organization", json!({"organization_id": "o1"}), true),
        ("get_organization", json!({"organization_id": "ou1"}), true),
        ("get_organization", json!({"organization_id": "o2"}), false),
        ("create_pipe", json!({"name": "n", "organization_id": "o1"}), true),
        ("create_pipe", json!({"name": "n", "organization_id": "o2"}), false),
        ("clone_pipe", json!({"pipe_template_id": "1"}), true),
        ("clone_pipe", json!({"pipe_template_id": "1", "organization_id": "o2"}), false),
        ("clone_pipe", json!({"pipe_template_id": "2"}), false),
        ("get_card", json!({"card_id": "c1"}), true),
        ("get_card", json!({"card_id": "c2"}), false),
        ("get_table", json!({"table_id": "T1"}), true),
        ("get_table", json!({"table_id": "T2"}), false),
        ("get_ai_agents", json!({"repo_uuid": "uuid-1"}), true),
        ("get_ai_agents", json!({"repo_uuid": "uuid-2"}), false),
        ("get_portal", json!({"portal_uuid": "x1"}), false),
        ("execute_graphql", json!({"query": "{ me { id } }"}), false),
    ] {
        let world = Arc::new(World::default());
        let result = run(&mock, &world, tool, arguments.clone()).await;
        assert_eq!(!refused(&result), passes, "{tool} {arguments}: {:?}", result.as_ref().err());
        assert!(passes || world.beyond().is_empty(), "{tool}");
    }
}

#[tokio::test]
async fn what_is_not_pinned_is_open() {
    let tables_only = pinned(&[], &["T1"], None);
    for (tool, arguments, passes) in [
        ("get_pipe", json!({"pipe_id": "2"}), true),
        ("get_card", json!({"card_id": "c2"}), true),
        ("get_table", json!({"table_id": "T2"}), false),
        ("get_table_record", json!({"record_id": "r2"}), false),
        ("get_table_record", json!({"record_id": "r1"}), true),
        ("get_email_templates", json!({"repo_id": "2"}), true),
        ("get_email_templates", json!({"repo_id": "T2"}), false),
    ] {
        let world = Arc::new(World::default());
        let result = run(&tables_only, &world, tool, arguments.clone()).await;
        assert_eq!(!refused(&result), passes, "{tool} {arguments}: {:?}", result.as_ref().err());
    }
}
