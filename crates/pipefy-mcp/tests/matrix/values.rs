//! Values of fields on the sandbox: what a card or record shows in each of them is written back as it is shown, and the whole
//! card or record then reads the same.

use std::collections::{BTreeMap, BTreeSet};

use pipefy_sandbox::DEFAULT_TOKEN;
use pipefy_tools::Catalogue;
use serde_json::{Value, json};

use crate::sandbox::World;

/// Types whose shown value is not what a write takes: titles for ids, signed addresses for storage paths, and what Pipefy computes.
const ONE_WAY: [&str; 6] = ["connector", "attachment", "assignee_select", "label_select", "id", "dynamic_content"];

/// A field of cards or records, and where it was found filled.
struct Filled {
    /// Id of the card or record.
    owner: String,
    field: String,
    kind: String,
    value: Value,
}

/// What writing everything back showed.
#[derive(Default)]
pub(crate) struct Shown {
    /// Types whose values came back as they were.
    pub(crate) kept: BTreeSet<String>,
    /// Types whose shown value was refused, which changed nothing.
    pub(crate) refused: BTreeSet<String>,
    pub(crate) problems: Vec<(String, String)>,
}

struct Writer<'w> {
    world: &'w World,
    catalogue: &'w Catalogue,
    shown: Shown,
}

impl Writer<'_> {
    async fn call(&self, tool: &str, args: Value) -> Value {
        let Value::Object(args) = args else { panic!("arguments are an object") };
        self.world.call(self.catalogue.get(tool).unwrap(), DEFAULT_TOKEN, args).await
    }

    /// Writes `value` with `write` and compares what `read` shows before and after.
    async fn back(&mut self, what: &str, kinds: &[&str], read: (&str, Value), write: (&str, Value)) {
        let before = self.call(read.0, read.1.clone()).await;
        let written = self.call(write.0, write.1.clone()).await;
        let after = self.call(read.0, read.1).await;
        let refused = written["success"] == false || written.get("error").is_some();
        let one_way = kinds.iter().any(|kind| ONE_WAY.contains(kind));
        if unsigned(&before) != unsigned(&after) {
            let text = format!("{what}: {} changed it\n    was {before}\n    is  {after}", write.1);
            self.shown.problems.push((write.0.to_owned(), text));
        } else if refused && !one_way {
            self.shown.problems.push((write.0.to_owned(), format!("{what}: {} gives {written}", write.1)));
        } else {
            let set = if refused { &mut self.shown.refused } else { &mut self.shown.kept };
            set.extend(kinds.iter().map(|kind| (*kind).to_owned()));
        }
    }
}

/// Without the signatures of file addresses, which are fresh in every answer.
fn unsigned(value: &Value) -> String {
    let text = value.to_string();
    let mut parts = text.split("?X-Amz-");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(part.split_once(['"', '\\']).map_or("", |(_, rest)| rest));
    }
    out
}

fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The first filled value of each field, by label; labels that two fields share are left out.
fn filled(fields: &[Value], owners: &[Value], values: &str) -> Vec<Filled> {
    let mut by_label: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for field in fields {
        by_label.entry(text(&field["label"])).or_default().push(field);
    }
    let mut found = Vec::new();
    for (label, fields) in by_label {
        let [field] = fields[..] else { continue };
        let first = owners.iter().find_map(|owner| {
            let shown = list(owner, values).iter().find(|shown| shown["name"] == label.as_str())?;
            let value = shown.get("value").filter(|value| !value.is_null() && **value != "" && **value != "[]")?;
            Some((text(&owner["id"]), value.clone()))
        });
        let Some((owner, value)) = first else { continue };
        found.push(Filled { owner, field: text(&field["id"]), kind: text(&field["type"]), value });
    }
    found
}

/// Every field of every pipe and table: start form and phases.
pub(crate) async fn written_back(world: &World, catalogue: &Catalogue) -> Shown {
    let mut writer = Writer { world, catalogue, shown: Shown::default() };
    let pipes = writer.call("search_pipes", json!({})).await;
    for pipe in list(&pipes, "/organizations").iter().flat_map(|org| list(org, "/pipes")) {
        cards(&mut writer, &text(&pipe["id"])).await;
    }
    let tables = writer.call("search_tables", json!({})).await;
    for table in list(&tables, "/data/organizations").iter().flat_map(|org| list(org, "/tables")) {
        records(&mut writer, &text(&table["id"])).await;
    }
    writer.shown
}

async fn cards(writer: &mut Writer<'_>, pipe: &str) {
    let read = writer.call("get_pipe", json!({"pipe_id": pipe})).await;
    let mut fields = list(&read, "/pipe/start_form_fields").to_vec();
    for phase in list(&read, "/pipe/phases") {
        let phase = writer.call("get_phase_fields", json!({"phase_id": phase["id"]})).await;
        let of_phase = ["/phase/fields", "/fields", "/data/phase/fields"].iter().find_map(|at| phase.pointer(at));
        fields.extend(of_phase.and_then(Value::as_array).cloned().unwrap_or_default());
    }
    let cards = writer.call("get_cards", json!({"pipe_id": pipe, "include_fields": true, "all": true})).await;
    let edges =
        ["/data/cards/edges", "/cards/edges"].iter().find_map(|at| cards.pointer(at)).cloned().unwrap_or_default();
    let cards: Vec<Value> = edges.as_array().into_iter().flatten().map(|edge| edge["node"].clone()).collect();
    let mut by_card: BTreeMap<String, Vec<(String, Value)>> = BTreeMap::new();
    for Filled { owner, field, kind, value } in filled(&fields, &cards, "/fields") {
        let read = ("get_card", json!({"card_id": owner, "include_fields": true}));
        let write = ("update_card_field", json!({"card_id": owner, "field_id": field, "new_value": value}));
        writer.back(&format!("{kind} of pipe {pipe}"), &[&kind], read, write).await;
        if !ONE_WAY.contains(&kind.as_str()) {
            by_card.entry(owner).or_default().push((field, value));
        }
    }
    // The same with several fields at a time.
    for (card, values) in by_card.into_iter().filter(|(_, values)| values.len() > 1) {
        let updates: Vec<Value> = values.iter().map(|(id, value)| json!({"field_id": id, "value": value})).collect();
        let read = ("get_card", json!({"card_id": card, "include_fields": true}));
        writer
            .back(
                &format!("card {card}"),
                &[],
                read,
                ("update_card", json!({"card_id": card, "field_updates": updates})),
            )
            .await;
    }
}

async fn records(writer: &mut Writer<'_>, table: &str) {
    let read = writer.call("get_table", json!({"table_id": table})).await;
    let fields = list(&read, "/data/table/table_fields").to_vec();
    let rows = writer.call("get_table_records", json!({"table_id": table, "first": 50})).await;
    let mut records = Vec::new();
    for row in list(&rows, "/data/table_records/edges").iter().take(12) {
        let record = writer.call("get_table_record", json!({"record_id": row["node"]["id"]})).await;
        records.push(record.pointer("/data/table_record").cloned().unwrap_or_default());
    }
    for Filled { owner, field, kind, value } in filled(&fields, &records, "/record_fields") {
        let read = ("get_table_record", json!({"record_id": owner}));
        let write = ("set_table_record_field_value", json!({"record_id": owner, "field_id": field, "value": value}));
        writer.back(&format!("{kind} of table {table}"), &[&kind], read, write).await;
    }
}
