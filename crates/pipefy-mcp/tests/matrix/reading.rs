//! What a call asks for in a result: fewer fields, another form of the list, all of it, within a size; and text of outsiders
//! between marks. Each proof is over every tool that it can be about.

use std::collections::BTreeMap;

use pipefy_tools::{Op, Outsiders, Paging, Shape, Tool};
use serde_json::{Map, Value, json};

use crate::pattern::cut;
use crate::sandbox::World;
use crate::stage::{Play, Played, Stage};
use crate::{Problems, without_play};

const BEGIN: &str = "<untrusted>";
const END: &str = "</untrusted>";

/// `compact` and `csv` change the list of a result and nothing else, and hold what it holds.
pub(crate) async fn forms(stage: &Stage, plain: &Play<'_>, before: &Played, problems: &mut Problems) -> bool {
    let tool = &plain.sample.tool;
    let mut has_list = false;
    for format in ["compact", "csv"] {
        let more = [("format", json!(format))];
        let played = stage.play(plain.clone().with(&more)).await;
        played.problems.iter().for_each(|problem| problems.add(tool, format!("{format}: {problem}")));
        let (one, other) = (unpacked(&before.reply), unpacked(&played.reply));
        let mut places = Vec::new();
        differences(&one, &other, "", &mut places);
        has_list |= !places.is_empty();
        for (path, list, form) in places {
            let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
            let rows: Vec<BTreeMap<String, Value>> = list.iter().map(row).collect();
            let shown = if format == "compact" { rows_of(form) } else { records_of(form) };
            let wanted = match format {
                "compact" => rows,
                _ => rows.into_iter().map(as_text).collect(),
            };
            problems.expect(shown.as_ref() == Some(&wanted), tool, || {
                format!("{format} of {path} is {}", cut(&form.to_string(), 300))
            });
        }
    }
    has_list
}

/// Where two replies differ: the outermost places that are not alike.
fn differences<'v>(one: &'v Value, other: &'v Value, path: &str, places: &mut Vec<(String, &'v Value, &'v Value)>) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() && a.keys().all(|key| b.contains_key(key)) => {
            for (key, value) in a {
                differences(value, &b[key], &format!("{path}/{key}"), places);
            }
        }
        (one, other) if one == other => {}
        (one, other) => places.push((path.to_owned(), one, other)),
    }
}

/// Some results have their data as JSON text as well.
fn unpacked(reply: &Value) -> Value {
    let mut reply = without_play(reply);
    if let Some(result) = reply.get_mut("result")
        && let Some(parsed) = result.as_str().and_then(|text| serde_json::from_str(text).ok())
    {
        *result = parsed;
    }
    reply
}

/// An item as one row: nested names joined by dots, nothing where there is null.
fn row(item: &Value) -> BTreeMap<String, Value> {
    let mut row = BTreeMap::new();
    let inside = item.get("node").filter(|node| node.is_object()).unwrap_or(item);
    flatten(inside, String::new(), &mut row);
    row
}

fn flatten(value: &Value, name: String, row: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(value, name, row);
            }
        }
        Value::Null => {}
        other => _ = row.insert(name, other.clone()),
    }
}

fn rows_of(form: &Value) -> Option<Vec<BTreeMap<String, Value>>> {
    let columns: Vec<&str> = form["columns"].as_array()?.iter().filter_map(Value::as_str).collect();
    let rows = form["rows"].as_array()?.iter().map(|row| {
        let cells = row.as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!(cells.len(), columns.len());
        let named = columns.iter().zip(cells).filter(|(_, cell)| !cell.is_null());
        named.map(|(column, cell)| ((*column).to_owned(), cell.clone())).collect()
    });
    Some(rows.collect())
}

fn records_of(form: &Value) -> Option<Vec<BTreeMap<String, Value>>> {
    let mut reader = csv::Reader::from_reader(form.as_str()?.as_bytes());
    let header = reader.headers().ok()?.clone();
    let records = reader.records().map(|record| {
        let record = record.ok()?;
        let named = header.iter().zip(record.iter()).filter(|(_, cell)| !cell.is_empty());
        Some(named.map(|(column, cell)| (column.to_owned(), cell.into())).collect())
    });
    records.collect()
}

/// A row as CSV has it; an empty text is nothing.
fn as_text(row: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let cells = row.into_iter().map(|(column, cell)| (column, text(cell))).filter(|(_, cell)| !cell.is_empty());
    cells.map(|(column, cell)| (column, cell.into())).collect()
}

/// `fields`: an unknown name is refused with what there is and what may be meant; a known one gives less, and asks for less
/// where the document is one that can be narrowed.
pub(crate) async fn fields(stage: &Stage, plain: &Play<'_>, before: &Played, problems: &mut Problems) {
    let tool = &plain.sample.tool;
    let asking = async |name: &str| {
        let more = [("fields", json!([name]))];
        stage.play(plain.clone().with(&more)).await
    };
    let refused = asking("no_such_name").await.reply;
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    let available: Vec<&str> = message.split_once("available: ").map_or("", |(_, names)| names).split(", ").collect();
    let explained = message.starts_with("fields: unknown field `no_such_name`") && !available[0].is_empty();
    problems.expect(explained && refused["error"]["code"] == "INVALID_ARGUMENTS", tool, || {
        format!("does not explain an unknown field: {}", cut(&refused.to_string(), 300))
    });
    // What may be a field of a form is looked up in the form.
    let names = if explained { available } else { vec!["title"] };
    let op = stage.catalogue.get(tool).unwrap().op();
    let selections = pipefy::Selections::default();
    let own =
        |name: &str| op.selects.is_none_or(|of| selections.narrow(of.document, of.item, &[name.to_owned()]).is_ok());
    let plain_name = |name: &&&str| !["", "id", "..."].contains(*name) && name.len() > 3 && own(name);
    let Some(name) = names.iter().find(plain_name) else { return };
    if explained {
        let typo = asking(&format!("{name}q")).await.reply;
        let message = typo["error"]["message"].as_str().unwrap_or_default();
        problems.expect(message.contains(&format!("did you mean `{name}`")), tool, || {
            format!("does not suggest {name}: {}", cut(message, 300))
        });
    }
    let few = asking(name).await;
    few.problems.iter().for_each(|problem| problems.add(tool, format!("fields: {problem}")));
    problems.expect(few.succeeded(), tool, || format!("fields {name}: {}", cut(&few.reply.to_string(), 300)));
    let (all, less) = (without_play(&before.reply).to_string(), without_play(&few.reply).to_string());
    problems.expect(less.len() <= all.len(), tool, || format!("{name} alone is more than everything: {less}"));
    if op.selects.is_none() || (explained && names.len() < 3) {
        return;
    }
    let words = |played: &Played| -> usize {
        let words =
            |document: &str| document.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).count();
        played.queries().iter().map(|sent| words(&sent.document)).sum()
    };
    problems.expect(words(&few) < words(before), tool, || format!("{name} alone asks for as much as everything"));
}

/// On the sandbox: `all` accounts for what it gives, `max_items` keeps to its number and says where to go on, and a result that
/// is larger than the budget comes in parts that put together are the whole.
pub(crate) async fn amounts(world: &World, args: &Map<String, Value>, tool: &Tool, problems: &mut Problems) -> bool {
    let name = tool.name();
    let with = |more: Value| {
        let mut args = args.clone();
        args.extend(more.as_object().unwrap().clone());
        args
    };
    let all = world.option(tool, with(json!({"all": true})), 0).await;
    let whole = &all["complete"];
    let told = whole.is_boolean() && all["returned"].is_u64();
    let ends = match whole.as_bool() {
        Some(true) => all["total"].is_u64() && all.get("next_cursor").is_none(),
        _ => all.get("next_cursor").is_some() || all.get("stopped").is_some(),
    };
    problems.expect(told && ends, name, || format!("all is not accounted for: {}", cut(&all.to_string(), 400)));
    let returned = all["returned"].as_u64().unwrap_or_default();
    let one = world.option(tool, with(json!({"max_items": 1})), 0).await;
    let says = one["returned"] == 1 && one["complete"] == false;
    let says = says && (one.get("next_cursor").is_some() || one.get("stopped").is_some());
    problems.expect(returned < 2 || says, name, || format!("one of {returned} gives {}", cut(&one.to_string(), 400)));
    if let (Some(paging), true) = (tool.op().paging, returned > 2 && *whole == true) {
        let step = returned.div_ceil(3);
        let mut items = Vec::new();
        let mut more = json!({"all": true, "max_items": step});
        for _ in 0..8 {
            let part = world.option(tool, with(more.clone()), 0).await;
            items.extend(list(tool.op(), paging, &part));
            match part.get("next_cursor").cloned() {
                Some(cursor) => more["after"] = cursor,
                None => break,
            }
        }
        problems.expect(items == list(tool.op(), paging, &all), name, || {
            format!("{} items by calls of {step}, {returned} at once", items.len())
        });
    }
    in_parts(world, args, tool, problems).await
}

/// The items of a listing.
fn list(op: &Op, paging: Paging, reply: &Value) -> Vec<Value> {
    let reply = unpacked(reply);
    let body = match op.shape {
        Shape::Raw | Shape::Flat => &reply,
        Shape::Result | Shape::Text => &reply["result"],
        _ => &reply["data"],
    };
    let keys = paging.items.split('.').filter(|key| !key.is_empty());
    let items = keys.fold(body, |value, key| &value[key]);
    items.as_array().cloned().unwrap_or_default()
}

/// A result over the budget: each part fits it and is JSON, and following `truncated` gives the whole.
async fn in_parts(world: &World, args: &Map<String, Value>, tool: &Tool, problems: &mut Problems) -> bool {
    let name = tool.name();
    let whole = world.option(tool, args.clone(), 0).await;
    let size = whole.to_string().len();
    if size < 2_400 || world.option(tool, args.clone(), 0).await != whole {
        return false;
    }
    let limit = (size / 2).max(2_000);
    let mut largest = 0;
    let mut reply = world.option(tool, args.clone(), limit).await;
    largest = largest.max(reply.to_string().len());
    let next = reply["truncated"]["next"].clone();
    problems.expect(next["tool"] == name && next["arguments"]["rest"].is_object(), name, || {
        format!("over the budget: {}", cut(&reply.to_string(), 600))
    });
    let mut open = cuts(&reply);
    let together = reply.as_object_mut().unwrap();
    together.shift_remove("truncated");
    for _ in 0..2_000 {
        // Deeper ones first: what follows an item in its list comes after the item is whole.
        let deepest = open.iter().enumerate().max_by_key(|(_, (path, _))| path.matches('/').count());
        let Some(at) = deepest.map(|(at, _)| at) else { break };
        let (path, from) = open.swap_remove(at);
        let mut args = args.clone();
        args.insert("rest".to_owned(), json!({"path": path, "from": from}));
        let part = world.option(tool, args, limit).await;
        largest = largest.max(part.to_string().len());
        match (reply.pointer_mut(&path), &part["rest"]) {
            (Some(Value::Array(list)), rest) => list.extend(rest["items"].as_array().cloned().unwrap_or_default()),
            (Some(Value::String(text)), rest) => text.push_str(rest["text"].as_str().unwrap_or_default()),
            (Some(Value::Object(map)), rest) => map.extend(rest["keys"].as_object().cloned().unwrap_or_default()),
            _ => problems.add(name, format!("nothing at {path}: {}", cut(&part.to_string(), 300))),
        }
        open.extend(cuts(&part));
    }
    problems.expect(largest <= limit, name, || format!("a part has {largest} bytes, {limit} are the budget"));
    problems.expect(reply == whole, name, || format!("the parts give {}", cut(&reply.to_string(), 600)));
    true
}

/// What a reply says was left out, and from where on.
fn cuts(reply: &Value) -> Vec<(String, u64)> {
    let dropped = reply["truncated"]["dropped"].as_array().into_iter().flatten();
    dropped.map(|cut| (cut["path"].as_str().unwrap().to_owned(), cut["kept"].as_u64().unwrap())).collect()
}

/// Off: no mark anywhere. On: everything under the keys that the tool declares is between marks, and `untrusted` counts it.
/// True when there was something to mark.
pub(crate) async fn marks(stage: &Stage, plain: &Play<'_>, before: &Played, problems: &mut Problems) -> bool {
    let tool = &plain.sample.tool;
    problems.expect(!before.reply.to_string().contains(BEGIN), tool, || "marks though nobody asked for it".to_owned());
    let marking = stage.play(plain.clone().marking()).await;
    marking.problems.iter().for_each(|problem| problems.add(tool, format!("marking: {problem}")));
    let mut texts = Vec::new();
    let keys = match stage.catalogue.get(tool).unwrap().op().outsiders {
        Outsiders::Under(keys) => keys,
        Outsiders::Nowhere | Outsiders::Anywhere => &[],
    };
    let mut reply = unpacked(&marking.reply);
    // The sentence of the envelope is ours.
    reply.as_object_mut().and_then(|reply| reply.shift_remove("message"));
    under(&reply, keys, false, &mut texts);
    for text in &texts {
        problems
            .expect(text.starts_with(BEGIN) && text.ends_with(END), tool, || format!("unmarked: {}", cut(text, 200)));
    }
    let marked = marking.reply.to_string().matches(BEGIN).count();
    let told = marking.reply.get("untrusted").is_some();
    problems.expect(keys.is_empty() || told == (marked > 0), tool, || {
        format!("{marked} marks: {}", cut(&marking.reply.to_string(), 300))
    });
    marked > 0
}

/// Texts under these keys, at any depth.
fn under(value: &Value, keys: &[&str], here: bool, texts: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| under(value, keys, here || keys.contains(&key.as_str()), texts));
        }
        Value::Array(list) => list.iter().for_each(|item| under(item, keys, here, texts)),
        Value::String(text) if here => texts.push(text.clone()),
        _ => {}
    }
}

/// Marked texts in the arguments of a write are stored as they were. True when the sample has a text to mark.
pub(crate) async fn unmarked(stage: &Stage, plain: &Play<'_>, before: &Played, problems: &mut Problems) -> bool {
    let tool = &plain.sample.tool;
    let mut texts = 0;
    let args: Map<String, Value> = plain.sample.args("");
    let more: Vec<(&str, Value)> = args
        .iter()
        .map(|(name, value)| (name.as_str(), between_marks(value, &mut texts)))
        .filter(|(name, value)| args[*name] != *value)
        .collect();
    if texts == 0 {
        return false;
    }
    let played = stage.play(plain.clone().with(&more).marking()).await;
    let sent = |played: &Played| -> Vec<(String, Value)> {
        played.mutations().iter().map(|sent| (sent.document.clone(), without_play(&sent.variables))).collect()
    };
    problems.expect(sent(&played) == sent(before), tool, || {
        let sent: Vec<String> = played.mutations().iter().map(|sent| sent.variables.to_string()).collect();
        format!("marked arguments send {}; {}", sent.join(", "), cut(&played.reply.to_string(), 300))
    });
    true
}

/// Free texts, which have a blank in them, between marks.
fn between_marks(value: &Value, texts: &mut usize) -> Value {
    match value {
        Value::String(text) if text.contains(' ') && !text.contains(['{', '[', '/']) => {
            *texts += 1;
            format!("{BEGIN}{text}{END}").into()
        }
        Value::Array(list) => list.iter().map(|value| between_marks(value, texts)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), between_marks(value, texts))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}
