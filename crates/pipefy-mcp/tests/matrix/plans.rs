//! Plans on the sandbox: what `validate_plan` passes is built with the plan's own values; what it finds does not build, or
//! does not work once built.

use std::path::Path;

use pipefy_sandbox::DEFAULT_TOKEN;
use pipefy_tools::Catalogue;
use serde_json::{Map, Value, json};

use crate::sandbox::{Names, World};

/// Values for `@name` in plans.
fn named(plan: &Value, names: &Names) -> Value {
    match plan {
        Value::String(text) => text.strip_prefix('@').and_then(|name| names.get(name)).unwrap_or(plan).clone(),
        Value::Array(list) => list.iter().map(|value| named(value, names)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), named(value, names))).collect::<Map<_, _>>().into()
        }
        value => value.clone(),
    }
}

/// A fresh sandbox and whoever builds in it.
struct Site<'c> {
    world: World,
    catalogue: &'c Catalogue,
    pipe: String,
}

type Built = Result<(), String>;

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn same(a: &str, b: &str) -> bool {
    a.trim().to_lowercase() == b.trim().to_lowercase()
}

impl<'c> Site<'c> {
    async fn open(files: &Path, catalogue: &'c Catalogue, plan: &Value, names: &Names) -> Self {
        let mut site = Self { world: World::fresh(files).await, catalogue, pipe: text(plan, "pipe_id").to_owned() };
        if site.pipe.is_empty() {
            let made = site.ask("create_pipe", json!({"name": "From a plan", "organization_id": names["org"]})).await;
            site.pipe = made.unwrap()["result"]["createPipe"]["pipe"]["id"].as_str().unwrap().to_owned();
        }
        site
    }

    /// A tool's reply, or what it says when it fails.
    async fn ask(&self, tool: &str, args: Value) -> Result<Value, String> {
        let tool = self.catalogue.get(tool).unwrap_or_else(|| panic!("no tool {tool}"));
        let reply = self.world.call(tool, DEFAULT_TOKEN, args.as_object().unwrap().clone()).await;
        match reply["success"] == false || reply.get("error").is_some() {
            true => Err(format!("{}: {reply}", tool.name())),
            false => Ok(reply),
        }
    }

    async fn pipe(&self) -> Value {
        self.ask("get_pipe", json!({"pipe_id": self.pipe})).await.unwrap()["pipe"].clone()
    }

    /// The id of the one phase of this name.
    async fn phase(&self, name: &str) -> Result<String, String> {
        let pipe = self.pipe().await;
        if name == "start_form" {
            return Ok(text(&pipe, "startFormPhaseId").to_owned());
        }
        let mut found = list(&pipe, "phases").iter().filter(|p| same(text(p, "name"), name) || text(p, "id") == name);
        match (found.next(), found.next()) {
            (Some(phase), None) => Ok(text(phase, "id").to_owned()),
            (None, _) => Err(format!("there is no phase {name}")),
            _ => Err(format!("there are several phases {name}")),
        }
    }

    /// Fields of a phase or of the start form.
    async fn fields(&self, phase: &str) -> Vec<Value> {
        let pipe = self.pipe().await;
        if phase == text(&pipe, "startFormPhaseId") {
            return list(&pipe, "start_form_fields").to_vec();
        }
        let reply = self.ask("get_phase_fields", json!({"phase_id": phase})).await.unwrap_or_default();
        list(&reply, "fields").to_vec()
    }

    /// The numeric id of the field with this label or id, in the given phases.
    async fn field(&self, phases: &[String], name: &str) -> Result<String, String> {
        for phase in phases {
            let fields = self.fields(phase).await;
            let named = |field: &&Value| ["label", "id", "internal_id"].iter().any(|key| same(text(field, key), name));
            if let Some(field) = fields.iter().find(named) {
                return Ok(text(field, "internal_id").to_owned());
            }
        }
        Err(format!("there is no field {name}"))
    }

    /// Builds everything that the plan says; the parts that fail, with what is said.
    async fn build(&self, plan: &Value) -> Vec<(String, String)> {
        let mut failed = Vec::new();
        for part in ["phases", "fields", "conditions", "automations", "moves"] {
            for (place, wanted) in list(plan, part).iter().enumerate() {
                let done = match part {
                    "phases" => self.build_phase(wanted).await,
                    "fields" => self.build_field(wanted).await,
                    "conditions" => self.build_condition(wanted).await,
                    "automations" => self.build_automation(wanted).await,
                    _ => self.make_move(wanted).await,
                };
                failed.extend(done.err().map(|why| (format!("{part}[{place}]"), why)));
            }
        }
        failed
    }

    async fn build_phase(&self, phase: &Value) -> Built {
        let args = json!({"pipe_id": self.pipe, "name": phase["name"], "done": phase["done"] == true});
        self.ask("create_phase", args).await.map(drop)
    }

    async fn build_field(&self, field: &Value) -> Built {
        let phase = self.phase(text(field, "phase")).await?;
        let mut args = json!({"phase_id": phase, "label": field["label"], "field_type": field["field_type"],
                              "required": field["required"] == true});
        if field.get("options").is_some() {
            args["options"] = field["options"].clone();
        }
        if let Some(repo) = field.get("connected_repo_id") {
            args["extra_input"] = json!({"connectedRepoId": repo});
        }
        self.ask("create_phase_field", args).await.map(drop)
    }

    async fn build_condition(&self, condition: &Value) -> Built {
        let phase = self.phase(text(condition, "phase")).await?;
        let start = self.phase("start_form").await?;
        let mut expressions = Vec::new();
        for (place, name) in list(condition, "when_fields").iter().enumerate() {
            let field = self.field(&[phase.clone(), start.clone()], name.as_str().unwrap()).await?;
            expressions
                .push(json!({"structure_id": place, "field_address": field, "operation": "present", "value": ""}));
        }
        if expressions.is_empty() {
            return Err("the rule would always hold".to_owned());
        }
        let all: Vec<usize> = (0..expressions.len()).collect();
        let mut actions = Vec::new();
        for kind in ["show", "hide"] {
            for name in list(condition, kind) {
                let field = self.field(std::slice::from_ref(&phase), name.as_str().unwrap()).await?;
                actions.push(json!({"actionId": kind, "phaseFieldId": field, "whenEvaluator": true}));
            }
        }
        let args = json!({"phase_id": phase, "name": condition["name"], "actions": actions,
                          "condition": {"expressions": expressions, "expressions_structure": [all]}});
        let made = self.ask("create_field_condition", args).await?;
        assert_eq!(made["verified"], true, "{made}");
        Ok(())
    }

    async fn build_automation(&self, rule: &Value) -> Built {
        let pipe = self.pipe().await;
        let mut phases = vec![text(&pipe, "startFormPhaseId").to_owned()];
        phases.extend(list(&pipe, "phases").iter().map(|phase| text(phase, "id").to_owned()));
        let mut fields = Vec::new();
        for name in list(rule, "fields") {
            fields.push(self.field(&phases, name.as_str().unwrap()).await?);
        }
        let mut event = json!({});
        if let Some(name) = rule.get("trigger_phase") {
            let key = match text(rule, "trigger_id") {
                "card_left_phase" => "fromPhaseId",
                "sla_based" => "inPhaseId",
                _ => "to_phase_id",
            };
            event[key] = self.phase(name.as_str().unwrap()).await?.into();
        }
        let mut action = json!({});
        if let Some(name) = rule.get("to_phase") {
            action["to_phase_id"] = self.phase(name.as_str().unwrap()).await?.into();
        }
        if text(rule, "trigger_id") == "field_updated" {
            event["triggerFieldIds"] = json!(fields);
        } else if !fields.is_empty() {
            let entry = |field: &String| json!({"fieldId": field, "inputMode": "fixed_value", "value": "x"});
            action["field_map"] = fields.iter().map(entry).collect();
        }
        let args = json!({"pipe_id": self.pipe, "name": rule["name"], "trigger_id": rule["trigger_id"],
                          "action_id": rule["action_id"], "extra_input": {"event_params": event, "action_params": action}});
        self.ask("create_automation", args).await.map(drop)
    }

    /// Takes a card of the first phase to the second one, when what the first requires is filled.
    async fn make_move(&self, wanted: &Value) -> Built {
        let (from, to) = (self.phase(text(wanted, "from")).await?, self.phase(text(wanted, "to")).await?);
        if from == to {
            return Err("a move goes to another phase".to_owned());
        }
        let cards = self.ask("get_phase_cards", json!({"phase_id": from, "first": 1})).await?;
        let card = first_card(&cards).ok_or("no card can be in that phase")?;
        let mut values = Map::new();
        for field in self.fields(&from).await {
            if let (true, Some(option)) = (field["required"] == true, list(&field, "options").first()) {
                values.insert(text(&field, "id").to_owned(), option.clone());
            }
        }
        if !values.is_empty() {
            let fill = json!({"card_id": card, "phase_id": from, "fields": values, "skip_elicitation": true});
            self.ask("fill_card_phase_fields", fill).await?;
        }
        self.ask("move_card_to_phase", json!({"card_id": card, "destination_phase_id": to})).await.map(drop)
    }

    /// Findings as `(path, class)`; nothing was left unchecked.
    async fn findings(&self, plan: &Value) -> Vec<(String, String)> {
        let reply = self.ask("validate_plan", plan.clone()).await.unwrap();
        assert_eq!(reply["data"]["unchecked"], json!([]), "{reply}");
        let found = list(&reply["data"], "findings");
        assert_eq!(reply["data"]["valid"], found.is_empty());
        found.iter().map(|one| (text(one, "path").to_owned(), text(one, "class").to_owned())).collect()
    }
}

/// The id of the first object in a listing of cards that has a title.
fn first_card(value: &Value) -> Option<String> {
    match value {
        Value::Object(map) => match (map.get("title"), map.get("id").and_then(Value::as_str)) {
            (Some(_), Some(id)) => Some(id.to_owned()),
            _ => map.values().find_map(first_card),
        },
        Value::Array(list) => list.iter().find_map(first_card),
        _ => None,
    }
}

/// Plays the plan that is sound.
pub(crate) async fn sound_plan_builds(files: &Path, catalogue: &Catalogue, names: &Names) {
    let plan = json!({
        "pipe_id": "@purchases",
        "phases": [{"name": "Second look"}, {"name": "Archive", "done": true}],
        "fields": [
            {"phase": "Triage", "label": "Verdict", "field_type": "select", "options": ["yes", "no"], "required": true},
            {"phase": "start_form", "label": "Why", "field_type": "long_text"},
            {"phase": "Second look", "label": "Finding", "field_type": "short_text"},
            {"phase": "Second look", "label": "Customer", "field_type": "connector", "connected_repo_id": "@table"},
            {"phase": "archive", "label": "Kept until", "field_type": "date"},
        ],
        "conditions": [
            {"phase": "Approval", "name": "Ask why", "when_fields": ["Urgency"], "show": ["Reason for the urgency"]},
            {"phase": "Second look", "name": "Finding on demand", "when_fields": ["Why"], "hide": ["Finding"]},
        ],
        "automations": [
            {"name": "On to quotation", "trigger_id": "field_updated", "action_id": "move_single_card", "to_phase": "Quotation", "fields": ["Decision"]},
            {"name": "Try again", "trigger_id": "card_moved", "action_id": "move_single_card", "trigger_phase": "Rejected", "to_phase": "Triage"},
            {"name": "Say why", "trigger_id": "card_created", "action_id": "update_card_field", "fields": ["Why"]},
            {"name": "After approval", "trigger_id": "card_left_phase", "action_id": "update_card_field", "trigger_phase": "Approval", "fields": ["Why"]},
            {"name": "In the archive", "trigger_id": "card_moved", "action_id": "update_card_field", "trigger_phase": "Archive", "fields": ["Why"]},
        ],
        "moves": [{"from": "Triage", "to": "Approval"}, {"from": "Approval", "to": "Triage"}, {"from": "Triage", "to": "Rejected"}],
    });
    let plan = named(&plan, names);
    let site = Site::open(files, catalogue, &plan, names).await;
    assert_eq!(site.findings(&plan).await, []);
    assert_eq!(site.build(&plan).await, []);
    site.world.close().await;
}

/// What shows that a part of a plan is wrong.
enum Proof {
    /// It cannot be built.
    Fails,
    /// It is built, and then this plan on the same pipe has this finding, which asks for a decision that nobody can take.
    Then(Value, &'static str),
    /// It is built, and this is read of it: the tool, its arguments, and how often a text occurs in the reply.
    Reads(&'static str, Value, &'static str, usize),
    /// It is built, and a new card takes this value in this field, or does not.
    Takes(&'static str, &'static str, bool),
    /// It is built, and without the phases that every new pipe has, a new card is finished at once.
    Finishes,
}

/// Plans with one finding each: the plan, the finding's place and class, what shows it.
fn flawed() -> Vec<(Value, &'static str, &'static str, Proof)> {
    use Proof::{Fails, Reads, Then};
    let field = |field: Value| json!({"pipe_id": "@purchases", "fields": [field]});
    let condition = |condition: Value| json!({"pipe_id": "@purchases", "conditions": [condition]});
    let rule = |rule: Value| json!({"pipe_id": "@purchases", "automations": [rule]});
    let moving = |from: &str, to: &str| json!({"pipe_id": "@purchases", "moves": [{"from": from, "to": to}]});
    let form = || json!({"pipe_id": "@purchases"});
    vec![
        (json!({"pipe_id": "@purchases", "phases": [{"name": " "}]}), "phases[0].name", "blank", Fails),
        (
            json!({"pipe_id": "@purchases", "phases": [{"name": "triage"}]}),
            "phases[0].name",
            "duplicate",
            Then(moving("Triage", "Approval"), "ambiguous"),
        ),
        (
            json!({"pipe_id": "@purchases", "phases": [{"name": "Extra"}, {"name": "extra"}]}),
            "phases[1].name",
            "duplicate",
            Then(field(json!({"phase": "Extra", "label": "A", "field_type": "number"})), "ambiguous"),
        ),
        (
            field(json!({"phase": "Nowhere", "label": "A", "field_type": "number"})),
            "fields[0].phase",
            "unknown_phase",
            Fails,
        ),
        (field(json!({"phase": "Triage", "label": " ", "field_type": "number"})), "fields[0].label", "blank", Fails),
        (
            field(json!({"phase": "start_form", "label": "Justification", "field_type": "long_text"})),
            "fields[0].label",
            "duplicate",
            Reads("get_start_form_fields", form(), "\"label\":\"Justification\"", 2),
        ),
        (
            field(json!({"phase": "Triage", "label": "A", "field_type": "text"})),
            "fields[0].field_type",
            "unknown_type",
            Fails,
        ),
        (
            json!({"fields": [{"phase": "start_form", "label": "Choice", "field_type": "select"}]}),
            "fields[0].options",
            "missing_options",
            Proof::Takes("choice", "something", false),
        ),
        (
            field(json!({"phase": "start_form", "label": "A", "field_type": "select", "options": ["twice", "twice"]})),
            "fields[0].options",
            "duplicate",
            Reads("get_start_form_fields", form(), "\"twice\"", 2),
        ),
        (
            field(json!({"phase": "Triage", "label": "A", "field_type": "connector"})),
            "fields[0].connected_repo_id",
            "missing_target",
            Fails,
        ),
        (
            field(json!({"phase": "Triage", "label": "A", "field_type": "connector", "connected_repo_id": "99"})),
            "fields[0].connected_repo_id",
            "unknown_target",
            Fails,
        ),
        (
            condition(json!({"phase": "Triage", "name": "C", "when_fields": ["Urgency"], "hide": ["Category"]})),
            "conditions[0].hide[0]",
            "hidden_required",
            Fails,
        ),
        (
            condition(json!({"phase": "Triage", "name": "C", "when_fields": ["Ghost"], "show": ["Category"]})),
            "conditions[0].when_fields[0]",
            "unknown_field",
            Fails,
        ),
        (
            condition(json!({"phase": "Triage", "name": "C", "when_fields": ["Urgency"], "show": ["Urgency"]})),
            "conditions[0].show[0]",
            "unknown_field",
            Fails,
        ),
        (
            condition(json!({"phase": "Triage", "name": "C", "when_fields": ["Urgency"]})),
            "conditions[0].show",
            "no_action",
            Fails,
        ),
        (
            condition(json!({"phase": "Triage", "name": "C", "when_fields": [], "show": ["Category"]})),
            "conditions[0].when_fields",
            "no_expression",
            Fails,
        ),
        (
            condition(json!({"phase": "Triage", "name": " ", "when_fields": ["Urgency"], "show": ["Category"]})),
            "conditions[0].name",
            "blank",
            Fails,
        ),
        (
            condition(
                json!({"phase": "start_form", "name": "C", "when_fields": ["Urgency"], "show": ["Justification"], "hide": ["Justification"]}),
            ),
            "conditions[0].hide[0]",
            "contradiction",
            Reads("get_field_conditions", json!({"phase_id": "@start"}), "\"actionId\":\"show\"", 1),
        ),
        (
            rule(json!({"name": " ", "trigger_id": "card_created", "action_id": "create_card"})),
            "automations[0].name",
            "blank",
            Fails,
        ),
        (
            rule(json!({"name": "A", "trigger_id": "no_event", "action_id": "create_card"})),
            "automations[0].trigger_id",
            "unknown_id",
            Fails,
        ),
        (
            rule(json!({"name": "A", "trigger_id": "card_created", "action_id": "no_action"})),
            "automations[0].action_id",
            "unknown_id",
            Fails,
        ),
        (
            rule(json!({"name": "A", "trigger_id": "scheduler", "action_id": "send_a_task"})),
            "automations[0].action_id",
            "blocked_pair",
            Fails,
        ),
        (
            json!({"pipe_id": "@contracts", "automations": [
                {"name": "A", "trigger_id": "card_created", "action_id": "generate_with_ai", "fields": ["Counterparty"]}]}),
            "automations[0].action_id",
            "disabled_action",
            Fails,
        ),
        (
            rule(json!({"name": "A", "trigger_id": "card_created", "action_id": "move_single_card"})),
            "automations[0].to_phase",
            "missing_target",
            Fails,
        ),
        (
            rule(
                json!({"name": "A", "trigger_id": "card_moved", "action_id": "move_single_card", "trigger_phase": "Triage", "to_phase": "Order"}),
            ),
            "automations[0].to_phase",
            "unreachable",
            Fails,
        ),
        (
            rule(
                json!({"name": "A", "trigger_id": "card_created", "action_id": "update_card_field", "fields": ["ghost"]}),
            ),
            "automations[0].fields[0]",
            "unknown_field",
            Fails,
        ),
        (moving("Triage", "triage"), "moves[0].to", "no_move", Fails),
        (moving("Triage", "Order"), "moves[0].to", "unreachable", Fails),
        (
            json!({"pipe_id": "@purchases", "phases": [{"name": "Later"}], "moves": [{"from": "Triage", "to": "Later"}]}),
            "moves[0].to",
            "unconnected",
            Fails,
        ),
        (json!({"phases": [{"name": "Over", "done": true}]}), "phases", "no_work", Proof::Finishes),
        (
            json!({"fields": [{"phase": "start_form", "label": "Amount", "field_type": "number", "options": ["1"]}]}),
            "fields[0].options",
            "unused_options",
            Proof::Takes("amount", "99", true),
        ),
    ]
}

/// Plays every plan that is not: its finding is there, and right. The classes that were shown.
pub(crate) async fn findings_are_right(files: &Path, catalogue: &Catalogue, names: &Names) -> Vec<&'static str> {
    let mut classes = Vec::new();
    for (plan, path, class, proof) in flawed() {
        classes.push(class);
        let mut names = names.clone();
        let plan = named(&plan, &names);
        let site = Site::open(files, catalogue, &plan, &names).await;
        names.insert("start".to_owned(), site.phase("start_form").await.unwrap().into());
        assert_eq!(site.findings(&plan).await, [(path.to_owned(), class.to_owned())], "{plan}");
        let failed = site.build(&plan).await;
        match proof {
            Proof::Fails => {
                assert_eq!(failed.len(), 1, "{class} in {plan} builds: {failed:?}");
                assert!(path.starts_with(&failed[0].0), "{class} at {path}: {failed:?}");
            }
            Proof::Then(next, found) => {
                assert!(failed.is_empty(), "{failed:?}");
                let next = named(&next, &names);
                let later = site.findings(&next).await;
                assert!(later.iter().any(|(_, class)| class == found), "{class} in {plan}: {later:?}");
                assert!(!site.build(&next).await.is_empty(), "{next} builds");
            }
            Proof::Reads(tool, args, part, times) => {
                assert!(failed.is_empty(), "{failed:?}");
                let mut args = named(&args, &names);
                if args["pipe_id"] == names["purchases"] {
                    args["pipe_id"] = site.pipe.clone().into();
                }
                let reply = site.ask(tool, args).await.unwrap().to_string();
                assert_eq!(reply.matches(part).count(), times, "{class}: {reply}");
            }
            Proof::Takes(field, value, taken) => {
                assert!(failed.is_empty(), "{failed:?}");
                let args =
                    json!({"pipe_id": site.pipe, "title": "T", "fields": {field: value}, "skip_elicitation": true});
                assert_eq!(site.ask("create_card", args).await.is_ok(), taken, "{class}");
            }
            Proof::Finishes => {
                assert!(failed.is_empty(), "{failed:?}");
                for phase in
                    list(&site.pipe().await, "phases").iter().filter(|p| p["name"] != plan["phases"][0]["name"])
                {
                    site.ask("delete_phase", json!({"phase_id": phase["id"]})).await.unwrap();
                }
                let args = json!({"pipe_id": site.pipe, "title": "T", "skip_elicitation": true});
                let made = site.ask("create_card", args).await.unwrap();
                let id = first_card(&made).unwrap_or_else(|| panic!("{made}"));
                let ask =
                    json!({"query": "query($id: ID!) { card(id: $id) { done finished_at } }", "variables": {"id": id}});
                let card = site.ask("execute_graphql", ask).await.unwrap().to_string();
                assert!(card.replace(['\\', ' '], "").contains("\"done\":true"), "{card}");
            }
        }
        site.world.close().await;
    }
    classes
}
