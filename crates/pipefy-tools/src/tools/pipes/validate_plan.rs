use std::collections::{HashMap, HashSet};

use pipefy::{automations, pipes, tables};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::shared::{list_at, text_of};
use crate::{
    Call, CheckedId, Domain, Explain, IdArg, IdKind, NOT_FOUND_CODES, Op, Outcome, Persona, Read, Shape, ToolError,
};

/// Checks a plan for a pipe before anything is built; reads only. Gives findings {path, class, evidence, fix}, none when it can be
/// built, and `unchecked`: what could not be read. Phases and fields go by name, label or id, of plan or pipe; "start_form" too.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ValidatePlan {
    /// Pipe that the plan extends; none for a new pipe.
    #[serde(default)]
    pipe_id: Option<CheckedId>,
    #[serde(default)]
    phases: Vec<PlannedPhase>,
    #[serde(default)]
    fields: Vec<PlannedField>,
    #[serde(default)]
    conditions: Vec<PlannedCondition>,
    #[serde(default)]
    automations: Vec<PlannedAutomation>,
    /// Moves that cards shall be able to make.
    #[serde(default)]
    moves: Vec<PlannedMove>,
}

#[derive(Deserialize, JsonSchema)]
struct PlannedPhase {
    name: String,
    #[serde(default)]
    done: bool,
}

#[derive(Deserialize, JsonSchema)]
struct PlannedField {
    phase: String,
    label: String,
    /// As in create_phase_field.
    field_type: String,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    required: bool,
    /// Pipe or table of a connector.
    #[serde(default)]
    connected_repo_id: Option<CheckedId>,
}

#[derive(Deserialize, JsonSchema)]
struct PlannedCondition {
    phase: String,
    name: String,
    /// Fields that the condition looks at.
    when_fields: Vec<String>,
    #[serde(default)]
    show: Vec<String>,
    #[serde(default)]
    hide: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct PlannedAutomation {
    name: String,
    trigger_id: String,
    action_id: String,
    /// Phase that the trigger is about (card_moved: entered; card_left_phase: left; ...).
    #[serde(default)]
    trigger_phase: Option<String>,
    /// Phase that the action moves to.
    #[serde(default)]
    to_phase: Option<String>,
    /// Fields that the trigger watches or the action fills.
    #[serde(default)]
    fields: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct PlannedMove {
    from: String,
    to: String,
}

/// Types of fields that hold a value, as `create_phase_field` takes them.
pub const TYPES: [&str; 23] = [
    "short_text",
    "long_text",
    "number",
    "currency",
    "date",
    "datetime",
    "due_date",
    "time",
    "email",
    "phone",
    "select",
    "radio_vertical",
    "radio_horizontal",
    "checklist_vertical",
    "checklist_horizontal",
    "attachment",
    "assignee_select",
    "label_select",
    "connector",
    "statement",
    "id",
    "cpf",
    "cnpj",
];
/// One more, without a value of its own.
pub const DYNAMIC: &str = "dynamic_content";
/// Types that choose from options.
const CHOICES: [&str; 5] =
    ["select", "radio_vertical", "radio_horizontal", "checklist_vertical", "checklist_horizontal"];
/// How the start form is named.
const START_FORM: &str = "start_form";

impl Read for ValidatePlan {
    const OP: Op = Op::read("validate_plan", Domain::Workflow, Shape::Envelope)
        .personas(&[Persona::Builder])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let pipe = match &self.pipe_id {
            Some(id) => Some(Pipe::read(call, id).await?),
            None => None,
        };
        let mut check = Check { plan: &self, pipe, read: HashMap::new(), findings: Vec::new(), unchecked: Vec::new() };
        check.phases();
        check.fields(call).await;
        check.conditions(call).await;
        check.automations(call).await;
        check.moves(call).await;
        let Check { findings, unchecked, .. } = check;
        let message = match (findings.len(), unchecked.len()) {
            (0, 0) => "The plan can be built.".to_owned(),
            (0, open) => format!("No findings, but {open} checks could not be made; see `unchecked`."),
            (found, _) => format!("{found} findings; mend them before building."),
        };
        let valid = findings.is_empty();
        Ok(Outcome::new(json!({ "valid": valid, "findings": findings, "unchecked": unchecked })).message(message))
    }
}

/// What exists already.
struct Pipe {
    id: String,
    phases: Vec<(String, String)>,
    start_form: Vec<Field>,
}

#[derive(Clone)]
struct Field {
    /// Every way to name it: label, slug, internal id.
    names: Vec<String>,
    required: bool,
}

impl Field {
    fn read(entry: &Value) -> Self {
        Self {
            names: ["label", "id", "internal_id", "uuid"].iter().filter_map(|key| text_of(entry.get(*key))).collect(),
            required: entry.get("required").and_then(Value::as_bool) == Some(true),
        }
    }

    fn is(&self, name: &str) -> bool {
        self.names.iter().any(|own| same(own, name))
    }
}

impl Pipe {
    async fn read(call: &Call<'_>, id: &str) -> Result<Self, ToolError> {
        let explain = Explain::doing("load the pipe").about("pipe", id);
        let data = call.query(pipes::get_pipe(id)).await.map_err(|error| explain.map(call, error))?;
        let value = data.value();
        let pipe = value.get("pipe").filter(|pipe| pipe.is_object()).ok_or_else(|| explain.missing())?;
        let phase = |phase: &Value| Some((text_of(phase.get("id"))?, text_of(phase.get("name")).unwrap_or_default()));
        Ok(Self {
            id: id.to_owned(),
            phases: list_at(pipe, "phases").iter().filter_map(phase).collect(),
            start_form: list_at(pipe, "start_form_fields").iter().map(Field::read).collect(),
        })
    }
}

/// What a name of a phase stands for.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    StartForm,
    /// A phase of the pipe.
    Id(String),
    /// A phase of the plan.
    Planned(usize),
}

struct Check<'p> {
    plan: &'p ValidatePlan,
    pipe: Option<Pipe>,
    /// The fields of phases that were read; `None` for those that could not be.
    read: HashMap<String, Option<Vec<Field>>>,
    findings: Vec<Value>,
    unchecked: Vec<Value>,
}

fn same(a: &str, b: &str) -> bool {
    a.trim().to_lowercase() == b.trim().to_lowercase()
}

fn quoted<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.take(20).map(|name| format!("'{name}'")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl Check<'_> {
    fn find(&mut self, path: String, class: &str, evidence: String, fix: impl Into<String>) {
        self.findings.push(json!({ "path": path, "class": class, "evidence": evidence, "fix": fix.into() }));
    }

    fn leave_open(&mut self, path: &str, reason: String) {
        self.unchecked.push(json!({ "path": path, "reason": reason }));
    }

    fn phases(&mut self) {
        let plan = self.plan;
        let mut seen: Vec<&str> = Vec::new();
        for (i, phase) in plan.phases.iter().enumerate() {
            let path = format!("phases[{i}].name");
            let name = phase.name.as_str();
            let existing = self.pipe.iter().flat_map(|pipe| &pipe.phases).find(|(_, own)| same(own, name));
            if name.trim().is_empty() {
                self.find(path, "blank", "the phase has no name".to_owned(), "Give every phase a name.");
            } else if seen.iter().any(|other| same(other, name)) {
                self.find(path, "duplicate", format!("'{name}' is planned twice"), "Name each phase differently.");
            } else if let Some((id, own)) = existing {
                let evidence = format!("the pipe has phase '{own}' (ID: {id})");
                self.find(path, "duplicate", evidence, "Use the existing phase, or choose another name.");
            }
            seen.push(name);
        }
        if plan.pipe_id.is_none() && !plan.phases.is_empty() && plan.phases.iter().all(|phase| phase.done) {
            let evidence = "every planned phase is a final one, so no card could be worked on".to_owned();
            self.find("phases".to_owned(), "no_work", evidence, "Leave `done` out of the phases where work happens.");
        }
    }

    /// Resolves the name of a phase, or says why not.
    fn place(&mut self, name: &str, path: &str, forms: bool) -> Option<Place> {
        if forms && same(name, START_FORM) {
            return Some(Place::StartForm);
        }
        let existing = self.pipe.iter().flat_map(|pipe| &pipe.phases);
        let existing: Vec<&(String, String)> =
            existing.filter(|(id, own)| id == name.trim() || same(own, name)).collect();
        if let [(id, _)] = existing.as_slice() {
            return Some(Place::Id(id.clone()));
        }
        if existing.len() > 1 {
            let ids = quoted(existing.iter().map(|(id, _)| id.as_str()));
            let evidence = format!("the pipe has {} phases named '{name}'", existing.len());
            self.find(path.to_owned(), "ambiguous", evidence, format!("Name the phase by its id: {ids}."));
            return None;
        }
        if let Some(i) = self.plan.phases.iter().position(|phase| same(&phase.name, name)) {
            return Some(Place::Planned(i));
        }
        let planned = self.plan.phases.iter().map(|phase| phase.name.as_str());
        let own = self.pipe.iter().flat_map(|pipe| pipe.phases.iter().map(|(_, own)| own.as_str()));
        let fix = format!("Use one of {}, or add the phase to `phases`.", quoted(planned.chain(own)));
        self.find(path.to_owned(), "unknown_phase", format!("no phase '{name}' in the plan or the pipe"), fix);
        None
    }

    /// The fields that exist at a place; `None` when they cannot be read.
    async fn existing(&mut self, call: &Call<'_>, place: &Place, path: &str) -> Option<Vec<Field>> {
        match place {
            Place::Planned(_) => Some(Vec::new()),
            Place::StartForm => Some(self.pipe.as_ref().map_or_else(Vec::new, |pipe| pipe.start_form.clone())),
            Place::Id(id) => {
                if let Some(known) = self.read.get(id) {
                    return known.clone();
                }
                let fields = match call.query(pipes::get_phase_fields(id)).await {
                    Ok(data) => Some(list_at(&data.value(), "phase.fields").iter().map(Field::read).collect()),
                    Err(error) => {
                        self.leave_open(path, error.to_string());
                        None
                    }
                };
                self.read.insert(id.clone(), fields.clone());
                fields
            }
        }
    }

    /// The fields that the plan puts at a place.
    fn planned(&self, name: &str) -> impl Iterator<Item = &PlannedField> {
        let name = name.to_owned();
        self.plan.fields.iter().filter(move |field| same(&field.phase, &name))
    }

    async fn fields(&mut self, call: &Call<'_>) {
        let plan = self.plan;
        for (i, field) in plan.fields.iter().enumerate() {
            let path = |key: &str| format!("fields[{i}].{key}");
            let label = field.label.as_str();
            if label.trim().is_empty() {
                self.find(path("label"), "blank", "the field has no label".to_owned(), "Give every field a label.");
            } else if plan.fields.iter().take(i).any(|f| same(&f.phase, &field.phase) && same(&f.label, label)) {
                let evidence = format!("'{label}' is planned twice for '{}'", field.phase);
                self.find(path("label"), "duplicate", evidence, "Label each field of a form differently.");
            }
            if let Some(place) = self.place(&field.phase, &path("phase"), true)
                && let Some(existing) = self.existing(call, &place, &path("phase")).await
                && existing.iter().any(|own| own.is(label))
            {
                let evidence = format!("'{}' has a field '{label}' already", field.phase);
                self.find(path("label"), "duplicate", evidence, "Use the existing field, or choose another label.");
            }
            self.field_type(i, field);
            if let Some(repo) = field.connected_repo_id.as_deref().filter(|_| field.field_type.trim() == "connector") {
                self.target(call, repo, &path("connected_repo_id")).await;
            }
        }
    }

    /// Whether a connector leads to a pipe or table that there is.
    async fn target(&mut self, call: &Call<'_>, repo: &str, path: &str) {
        let mut missing = 0;
        for (root, query) in [("pipe", pipes::get_pipe(repo)), ("table", tables::get_table(repo))] {
            match call.query(query).await {
                Ok(data) if data.value().get(root).is_some_and(Value::is_object) => return,
                Ok(_) => missing += 1,
                Err(error) if NOT_FOUND_CODES.iter().any(|code| error.has_code(code)) => missing += 1,
                Err(error) => self.leave_open(path, error.to_string()),
            }
        }
        if missing == 2 {
            let evidence = format!("no pipe and no table has the id '{repo}'");
            let fix = "Find the right one with `search_pipes` or `search_tables`; a planned one must be built first.";
            self.find(path.to_owned(), "unknown_target", evidence, fix);
        }
    }

    fn field_type(&mut self, i: usize, field: &PlannedField) {
        let path = |key: &str| format!("fields[{i}].{key}");
        let kind = field.field_type.trim();
        if !TYPES.contains(&kind) && kind != DYNAMIC {
            let near = TYPES.iter().min_by_key(|known| strsim::damerau_levenshtein(known, &kind.to_lowercase()));
            let near = near.map(|near| format!("Did you mean {near}? ")).unwrap_or_default();
            let fix = format!("{near}Types: {}, {DYNAMIC}.", TYPES.join(", "));
            self.find(path("field_type"), "unknown_type", format!("'{kind}' is no field type"), fix);
            return;
        }
        if CHOICES.contains(&kind) {
            let mut seen = HashSet::new();
            let twice = field.options.iter().find(|option| !seen.insert(option.trim().to_lowercase()));
            if field.options.iter().all(|option| option.trim().is_empty()) {
                let evidence = format!("a {kind} without options offers nothing to choose");
                self.find(path("options"), "missing_options", evidence, "List the options.");
            } else if field.options.iter().any(|option| option.trim().is_empty()) {
                self.find(path("options"), "blank", "an option is blank".to_owned(), "Remove the blank option.");
            } else if let Some(twice) = twice {
                self.find(path("options"), "duplicate", format!("option '{twice}' is listed twice"), "List it once.");
            }
        } else if !field.options.is_empty() {
            let fix = format!("Leave `options` out, or use one of {}.", CHOICES.join(", "));
            self.find(path("options"), "unused_options", format!("a {kind} takes no options"), fix);
        }
        if kind == "connector" && field.connected_repo_id.is_none() {
            let evidence = "a connector must say which pipe or table it connects to".to_owned();
            self.find(path("connected_repo_id"), "missing_target", evidence, "Give the id of the pipe or table.");
        }
    }

    async fn conditions(&mut self, call: &Call<'_>) {
        let plan = self.plan;
        for (i, condition) in plan.conditions.iter().enumerate() {
            let path = |key: &str| format!("conditions[{i}].{key}");
            if condition.name.trim().is_empty() {
                self.find(path("name"), "blank", "the condition has no name".to_owned(), "Pipefy requires a name.");
            }
            if condition.show.is_empty() && condition.hide.is_empty() {
                let evidence = "the condition does nothing".to_owned();
                self.find(path("show"), "no_action", evidence, "Name the fields to show or to hide.");
            }
            if condition.when_fields.is_empty() {
                let evidence = "the condition looks at no field".to_owned();
                self.find(path("when_fields"), "no_expression", evidence, "Name at least one field to compare.");
            }
            let Some(place) = self.place(&condition.phase, &path("phase"), true) else { continue };
            let Some(existing) = self.existing(call, &place, &path("phase")).await else { continue };
            // A condition of a phase may also look at the start form, and acts on its own form only.
            let start = match place {
                Place::StartForm => Vec::new(),
                _ => self.existing(call, &Place::StartForm, &path("phase")).await.unwrap_or_default(),
            };
            for (key, names, also_start) in [
                ("when_fields", &condition.when_fields, true),
                ("show", &condition.show, false),
                ("hide", &condition.hide, false),
            ] {
                for (j, name) in names.iter().enumerate() {
                    let here = existing.iter().any(|field| field.is(name))
                        || self.planned(&condition.phase).any(|field| same(&field.label, name));
                    let there = also_start
                        && (start.iter().any(|field| field.is(name))
                            || self.planned(START_FORM).any(|field| same(&field.label, name)));
                    if !here && !there {
                        let evidence = format!("no field '{name}' at '{}', planned or existing", condition.phase);
                        self.find(
                            format!("conditions[{i}].{key}[{j}]"),
                            "unknown_field",
                            evidence,
                            "Add it to `fields`, or correct the name.",
                        );
                    }
                }
            }
            for (j, name) in condition.hide.iter().enumerate() {
                let required = existing.iter().any(|field| field.required && field.is(name))
                    || self.planned(&condition.phase).any(|field| field.required && same(&field.label, name));
                if required {
                    let evidence = format!("'{name}' is required; hidden, it would hold cards back without saying why");
                    let fix = "Make the field optional, or show it on a condition instead.";
                    self.find(format!("conditions[{i}].hide[{j}]"), "hidden_required", evidence, fix);
                }
                if condition.show.iter().any(|shown| same(shown, name)) {
                    let evidence = format!("'{name}' is shown and hidden by the same condition");
                    self.find(format!("conditions[{i}].hide[{j}]"), "contradiction", evidence, "Keep one of the two.");
                }
            }
        }
    }

    async fn automations(&mut self, call: &Call<'_>) {
        let plan = self.plan;
        if plan.automations.is_empty() {
            return;
        }
        let events = match call.query(automations::get_automation_events()).await {
            Ok(data) => Some(list_at(&data.value(), "automationEvents").to_vec()),
            Err(error) => {
                self.leave_open("automations[].trigger_id", error.to_string());
                None
            }
        };
        let pipe_id = self.pipe.as_ref().map(|pipe| pipe.id.clone());
        let actions = match &pipe_id {
            None => {
                let reason =
                    "the catalogue of actions belongs to a pipe: check again with pipe_id once the pipe is there";
                self.leave_open("automations[].action_id", reason.to_owned());
                None
            }
            Some(id) => match call.query(automations::get_automation_actions(id)).await {
                Ok(data) => Some(list_at(&data.value(), "automationActions").to_vec()),
                Err(error) => {
                    self.leave_open("automations[].action_id", error.to_string());
                    None
                }
            },
        };
        for (i, rule) in plan.automations.iter().enumerate() {
            let path = |key: &str| format!("automations[{i}].{key}");
            if rule.name.trim().is_empty() {
                self.find(path("name"), "blank", "the automation has no name".to_owned(), "Give it a name.");
            }
            let event = self.row(events.as_deref(), &rule.trigger_id, &path("trigger_id"), "trigger");
            let action = self.row(actions.as_deref(), &rule.action_id, &path("action_id"), "action");
            self.pair(i, rule, event.as_ref(), action.as_ref());
            let from = match &rule.trigger_phase {
                Some(name) => self.place(name, &path("trigger_phase"), false),
                None => None,
            };
            let to = match &rule.to_phase {
                Some(name) => self.place(name, &path("to_phase"), false),
                None => None,
            };
            if rule.action_id == "move_single_card" && rule.to_phase.is_none() {
                let evidence = "the action moves a card and does not say where to".to_owned();
                self.find(path("to_phase"), "missing_target", evidence, "Name the phase to move to.");
            }
            match (from, to) {
                (Some(from), Some(to)) if rule.trigger_id == "card_moved" && rule.action_id == "move_single_card" => {
                    self.way(call, &from, &to, &path("to_phase")).await;
                }
                (_, Some(Place::Planned(_))) => self.unconnected(&path("to_phase")),
                _ => {}
            }
            for (j, name) in rule.fields.iter().enumerate() {
                self.any_field(call, name, &format!("automations[{i}].fields[{j}]")).await;
            }
        }
    }

    /// The catalogue's row of an id.
    fn row(&mut self, rows: Option<&[Value]>, id: &str, path: &str, what: &str) -> Option<Value> {
        let rows = rows?;
        let found = rows.iter().find(|row| text_of(row.get("id")).as_deref() == Some(id.trim())).cloned();
        if found.is_none() {
            let ids: Vec<String> = rows.iter().filter_map(|row| text_of(row.get("id"))).collect();
            let fix = format!("Use one of {}.", quoted(ids.iter().map(String::as_str)));
            self.find(path.to_owned(), "unknown_id", format!("'{id}' is no {what} of Pipefy"), fix);
        }
        found
    }

    /// Only a blocklist rules a pair out: an empty list of triggers means any (field report A13).
    fn pair(&mut self, i: usize, rule: &PlannedAutomation, event: Option<&Value>, action: Option<&Value>) {
        let holds = |row: Option<&Value>, key: &str, id: &str| {
            row.is_some_and(|row| {
                list_at(row, key).iter().any(|other| text_of(Some(other)).as_deref() == Some(id.trim()))
            })
        };
        let path = format!("automations[{i}].action_id");
        if holds(event, "actionsBlacklist", &rule.action_id) || holds(action, "eventsBlacklist", &rule.trigger_id) {
            let evidence = format!("Pipefy rules out '{}' together with '{}'", rule.action_id, rule.trigger_id);
            self.find(path, "blocked_pair", evidence, "Choose another trigger or action.");
        } else if action.and_then(|row| row.get("enabled")).and_then(Value::as_bool) == Some(false) {
            let reason = action.and_then(|row| text_of(row.get("disabledReason"))).unwrap_or_default();
            let evidence = format!("the action '{}' is disabled in this pipe {reason}", rule.action_id);
            self.find(path, "disabled_action", evidence.trim().to_owned(), "Choose another action.");
        }
    }

    async fn any_field(&mut self, call: &Call<'_>, name: &str, path: &str) {
        if self.plan.fields.iter().any(|field| same(&field.label, name)) {
            return;
        }
        let phases = self.pipe.as_ref().map(|pipe| pipe.phases.clone()).unwrap_or_default();
        let start = self.pipe.as_ref().map(|pipe| pipe.start_form.clone()).unwrap_or_default();
        if start.iter().any(|field| field.is(name)) {
            return;
        }
        for (id, _) in phases {
            match self.existing(call, &Place::Id(id), path).await {
                // It may be there; what could not be read is listed.
                None => return,
                Some(fields) if fields.iter().any(|field| field.is(name)) => return,
                Some(_) => {}
            }
        }
        let evidence = format!("no field '{name}', planned or existing");
        self.find(path.to_owned(), "unknown_field", evidence, "Add it to `fields`, or correct the name.");
    }

    async fn moves(&mut self, call: &Call<'_>) {
        let plan = self.plan;
        for (i, step) in plan.moves.iter().enumerate() {
            let from = self.place(&step.from, &format!("moves[{i}].from"), false);
            let to = self.place(&step.to, &format!("moves[{i}].to"), false);
            if let (Some(from), Some(to)) = (from, to) {
                self.way(call, &from, &to, &format!("moves[{i}].to")).await;
            }
        }
    }

    /// Connections between phases are made in Pipefy and not through its API (field report A31).
    fn unconnected(&mut self, path: &str) {
        let evidence =
            "a phase that does not exist yet has no connections, and Pipefy's API cannot make any".to_owned();
        let fix = "Build without it; then connect the new phase in Pipefy (pipe settings, phase, connections).";
        self.find(path.to_owned(), "unconnected", evidence, fix);
    }

    /// Whether cards can go from one phase to another.
    async fn way(&mut self, call: &Call<'_>, from: &Place, to: &Place, path: &str) {
        if from == to {
            let evidence = "a card is in that phase already".to_owned();
            self.find(path.to_owned(), "no_move", evidence, "Name two different phases.");
            return;
        }
        let (Place::Id(from), Place::Id(to)) = (from, to) else {
            self.unconnected(path);
            return;
        };
        match call.query(pipes::get_phase_allowed_move_targets(from)).await {
            Err(error) => self.leave_open(path, error.to_string()),
            Ok(data) => {
                let value = data.value();
                let allowed = list_at(&value, "phase.cards_can_be_moved_to_phases");
                let known = value.get("phase").is_some_and(Value::is_object);
                if known && !allowed.iter().any(|phase| text_of(phase.get("id")).as_deref() == Some(to)) {
                    let names: Vec<String> = allowed.iter().filter_map(|phase| text_of(phase.get("name"))).collect();
                    let evidence =
                        format!("from phase {from}, cards may move to {}", quoted(names.iter().map(String::as_str)));
                    let fix = "Allow the move in the phase's settings in Pipefy (connections between phases), or go by way of an allowed phase.";
                    self.find(path.to_owned(), "unreachable", evidence, fix);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::tools::testing::Mock;

    fn pipe() -> Mock {
        Mock::new()
            .on(
                "pipe",
                json!({"id": "7", "phases": [{"id": "1", "name": "Inbox"}, {"id": "2", "name": "Done"}, {"id": "9", "name": "Else"}],
                       "start_form_fields": [{"id": "what", "internal_id": "11", "label": "What", "required": true}]}),
            )
            .on(
                "phase",
                json!({"id": "1", "name": "Inbox", "cards_can_be_moved_to_phases": [{"id": "9", "name": "Else"}],
                       "fields": [{"id": "amount", "internal_id": "12", "label": "Amount", "required": true}]}),
            )
    }

    fn mock() -> Mock {
        pipe()
            .on("automationEvents", json!([{"id": "card_created", "actionsBlacklist": ["archive"]}, {"id": "card_moved", "actionsBlacklist": []}]))
            .on("automationActions", json!([
                {"id": "archive", "enabled": true, "eventsBlacklist": [], "triggerEvents": []},
                {"id": "move_single_card", "enabled": true, "eventsBlacklist": [], "triggerEvents": ["card_moved"]},
                {"id": "paid", "enabled": false, "disabledReason": "plan", "eventsBlacklist": [], "triggerEvents": []}]))
    }

    async fn findings(mock: &Mock, plan: Value) -> Vec<(String, String)> {
        let reply = mock.reply("validate_plan", plan).await;
        assert_eq!(reply["success"], true, "{reply}");
        let findings = reply["data"]["findings"].as_array().unwrap().clone();
        assert_eq!(reply["data"]["valid"], findings.is_empty());
        findings
            .iter()
            .map(|finding| {
                assert!(["evidence", "fix"].iter().all(|key| !finding[*key].as_str().unwrap().trim().is_empty()));
                (finding["path"].as_str().unwrap().to_owned(), finding["class"].as_str().unwrap().to_owned())
            })
            .collect()
    }

    #[tokio::test]
    async fn a_sound_plan_has_no_findings_and_nothing_is_sent_but_reads() {
        let mock = mock();
        let plan = json!({
            "pipe_id": 7,
            "phases": [{"name": "Review"}, {"name": "Closed", "done": true}],
            "fields": [{"phase": "review", "label": "Verdict", "field_type": "select", "options": ["yes", "no"], "required": true},
                       {"phase": "start_form", "label": "Why", "field_type": "long_text"},
                       {"phase": "1", "label": "Asset", "field_type": "connector", "connected_repo_id": 5}],
            "conditions": [{"phase": "Review", "name": "C", "when_fields": ["What"], "show": ["Verdict"]}],
            "automations": [{"name": "A", "trigger_id": "card_created", "action_id": "move_single_card", "to_phase": "Else", "fields": ["amount", "Why"]}],
            "moves": [{"from": "Inbox", "to": "Else"}],
        });
        assert_eq!(findings(&mock, plan).await, []);
        assert!(mock.sent().iter().all(|sent| sent.kind == pipefy::OperationKind::Query));
    }

    #[tokio::test]
    async fn each_kind_of_mistake_is_found_at_its_place() {
        for (plan, path, class) in [
            (json!({"phases": [{"name": " "}, {"name": "x"}]}), "phases[0].name", "blank"),
            (json!({"phases": [{"name": "A"}, {"name": " a"}]}), "phases[1].name", "duplicate"),
            (json!({"pipe_id": 7, "phases": [{"name": "inbox"}]}), "phases[0].name", "duplicate"),
            (json!({"phases": [{"name": "End", "done": true}]}), "phases", "no_work"),
            (
                json!({"pipe_id": 7, "fields": [{"phase": "Nowhere", "label": "L", "field_type": "number"}]}),
                "fields[0].phase",
                "unknown_phase",
            ),
            (
                json!({"pipe_id": 7, "fields": [{"phase": "Inbox", "label": "amount", "field_type": "number"}]}),
                "fields[0].label",
                "duplicate",
            ),
            (
                json!({"fields": [{"phase": "start_form", "label": "L", "field_type": "text"}]}),
                "fields[0].field_type",
                "unknown_type",
            ),
            (
                json!({"fields": [{"phase": "start_form", "label": "L", "field_type": "select"}]}),
                "fields[0].options",
                "missing_options",
            ),
            (
                json!({"fields": [{"phase": "start_form", "label": "L", "field_type": "select", "options": ["a", "A "]}]}),
                "fields[0].options",
                "duplicate",
            ),
            (
                json!({"fields": [{"phase": "start_form", "label": "L", "field_type": "number", "options": ["a"]}]}),
                "fields[0].options",
                "unused_options",
            ),
            (
                json!({"fields": [{"phase": "start_form", "label": "L", "field_type": "connector"}]}),
                "fields[0].connected_repo_id",
                "missing_target",
            ),
            (
                json!({"pipe_id": 7, "conditions": [{"phase": "Inbox", "name": "C", "when_fields": ["What"], "hide": ["Amount"]}]}),
                "conditions[0].hide[0]",
                "hidden_required",
            ),
            (
                json!({"pipe_id": 7, "conditions": [{"phase": "Inbox", "name": "C", "when_fields": ["Ghost"], "show": ["12"]}]}),
                "conditions[0].when_fields[0]",
                "unknown_field",
            ),
            (
                json!({"pipe_id": 7, "conditions": [{"phase": "Inbox", "name": "C", "when_fields": ["What"], "show": ["What"]}]}),
                "conditions[0].show[0]",
                "unknown_field",
            ),
            (
                json!({"pipe_id": 7, "conditions": [{"phase": "Inbox", "name": "C", "when_fields": ["What"]}]}),
                "conditions[0].show",
                "no_action",
            ),
            (
                json!({"pipe_id": 7, "automations": [{"name": "A", "trigger_id": "nope", "action_id": "archive"}]}),
                "automations[0].trigger_id",
                "unknown_id",
            ),
            (
                json!({"pipe_id": 7, "automations": [{"name": "A", "trigger_id": "card_created", "action_id": "archive"}]}),
                "automations[0].action_id",
                "blocked_pair",
            ),
            (
                json!({"pipe_id": 7, "automations": [{"name": "A", "trigger_id": "card_moved", "action_id": "paid"}]}),
                "automations[0].action_id",
                "disabled_action",
            ),
            (
                json!({"pipe_id": 7, "automations": [{"name": "A", "trigger_id": "card_created", "action_id": "move_single_card"}]}),
                "automations[0].to_phase",
                "missing_target",
            ),
            (
                json!({"pipe_id": 7, "automations": [{"name": "A", "trigger_id": "card_moved", "action_id": "move_single_card", "trigger_phase": "Inbox", "to_phase": "Done"}]}),
                "automations[0].to_phase",
                "unreachable",
            ),
            (
                json!({"pipe_id": 7, "automations": [{"name": "A", "trigger_id": "card_moved", "action_id": "archive", "fields": ["ghost"]}]}),
                "automations[0].fields[0]",
                "unknown_field",
            ),
            (json!({"pipe_id": 7, "moves": [{"from": "1", "to": "Inbox"}]}), "moves[0].to", "no_move"),
            (
                json!({"pipe_id": 7, "phases": [{"name": "New"}], "moves": [{"from": "1", "to": "New"}]}),
                "moves[0].to",
                "unconnected",
            ),
            (
                json!({"pipe_id": 7, "phases": [{"name": "New"}], "automations": [{"name": "A", "trigger_id": "card_created", "action_id": "move_single_card", "to_phase": "New"}]}),
                "automations[0].to_phase",
                "unconnected",
            ),
            (json!({"pipe_id": 7, "moves": [{"from": "Inbox", "to": "Done"}]}), "moves[0].to", "unreachable"),
        ] {
            assert_eq!(findings(&mock(), plan.clone()).await, [(path.to_owned(), class.to_owned())], "{plan}");
        }
    }

    #[tokio::test]
    async fn connectors_lead_somewhere() {
        let plan = json!({"fields": [{"phase": "start_form", "label": "L", "field_type": "connector", "connected_repo_id": 5}]});
        let missing = || Mock::new().error("pipe", "Pipe not found with id: 5", "RESOURCE_NOT_FOUND");
        let nowhere = missing().on("table", json!(null));
        let expected = ("fields[0].connected_repo_id".to_owned(), "unknown_target".to_owned());
        assert_eq!(findings(&nowhere, plan.clone()).await, [expected]);
        assert_eq!(findings(&missing().on("table", json!({"id": "5"})), plan.clone()).await, []);
        let denied = missing().error("table", "Permission denied", "PERMISSION_DENIED");
        let reply = denied.reply("validate_plan", plan).await;
        assert_eq!(reply["data"]["findings"], json!([]), "{reply}");
        assert_eq!(reply["data"]["unchecked"][0]["path"], "fields[0].connected_repo_id");
    }

    #[tokio::test]
    async fn a_phase_is_read_once_however_much_is_planned_for_it() {
        let mock = mock();
        let field = |n: usize| json!({"phase": "Inbox", "label": format!("F{n}"), "field_type": "number"});
        let plan = json!({"pipe_id": 7, "fields": (0..50).map(field).collect::<Vec<_>>()});
        assert_eq!(findings(&mock, plan).await, []);
        assert_eq!(mock.sent().len(), 2);
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_listed_and_is_no_finding() {
        let mock = pipe()
            .on("automationActions", json!([{"id": "archive"}]))
            .body("automationEvents", json!({"errors": [{"message": "down"}]}));
        let plan =
            json!({"pipe_id": 7, "automations": [{"name": "A", "trigger_id": "anything", "action_id": "archive"}]});
        let reply = mock.reply("validate_plan", plan).await;
        assert_eq!(reply["data"]["findings"], json!([]));
        assert_eq!(reply["data"]["unchecked"][0]["path"], "automations[].trigger_id");
        let mock = Mock::new().on("automationEvents", json!([{"id": "card_created"}]));
        let plan = json!({"automations": [{"name": "A", "trigger_id": "card_created", "action_id": "any"}]});
        let reply = mock.reply("validate_plan", plan).await;
        assert_eq!(reply["data"]["unchecked"][0]["path"], "automations[].action_id", "{reply}");
        let missing = Mock::new().on("pipe", Value::Null);
        assert_eq!(missing.reply("validate_plan", json!({"pipe_id": 8})).await["success"], false);
    }
}
