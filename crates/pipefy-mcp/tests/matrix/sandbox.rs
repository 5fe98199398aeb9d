//! Every tool on the seeded sandbox, over real sockets: a call that succeeds, arguments that cannot be used, an id that does
//! not exist, and a person who may not.
//!
//! `names.jsonl` says how `@name` in arguments is found: the first object in the reply of `tool` that has all of `find` (`*`
//! is any value), and in it `take`. `sandbox.jsonl` has a row for each tool: its `args`, the calls `before` it (each gives
//! a name too), and `"guest": "allowed"` where the guest of the sandbox may do it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pipefy::{Budget, Credential, PipefyEngine, Selections, Surface};
use pipefy_sandbox::{DEFAULT_TOKEN, Sandbox, SandboxOptions};
use pipefy_tools::{
    Approval, Call, Catalogue, Class, ConfirmationKey, IpaasGateway, Local, Op, Options, Policy, Tool, Toolbox, render,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::stage::settings;
use crate::{outputs, pattern};

const GUEST: &str = "sandbox-token-guest";

/// How long one call may take.
const CALL: Duration = Duration::from_secs(60);

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(crate) struct Name {
    name: String,
    tool: String,
    args: Map<String, Value>,
    find: Map<String, Value>,
    take: String,
    /// Asked for again until it is found: something that takes the sandbox a moment.
    #[serde(default)]
    wait: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) tool: String,
    args: Map<String, Value>,
    #[serde(default)]
    before: Vec<Name>,
    #[serde(default)]
    guest: Option<String>,
}

fn lines(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/matrix").join(file);
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn parse<T: for<'a> Deserialize<'a>>(file: &str) -> Vec<T> {
    let read = |line: &String| serde_json::from_str(line).unwrap_or_else(|error| panic!("{file}: {error} in {line}"));
    lines(file).iter().map(read).collect()
}

/// The rows, by tool.
pub(crate) fn rows() -> Vec<Row> {
    parse("sandbox.jsonl")
}

/// Files that rows upload or read.
pub(crate) fn files(folder: &Path) -> PathBuf {
    let folder = folder.join("sandbox");
    std::fs::create_dir_all(&folder).unwrap();
    let provider = json!({"provider": "openai", "model": "gpt-4o", "apiKey": "k"}).to_string();
    // Whole at once: tests that run at the same time write and read the same ones.
    for (name, text) in [("doc.pdf", "%PDF-1.4\nhello\n"), ("provider.json", provider.as_str())] {
        let part = tempfile::NamedTempFile::new_in(&folder).unwrap();
        std::fs::write(&part, text).unwrap();
        part.persist(folder.join(name)).unwrap();
    }
    folder
}

/// Values by name.
pub(crate) type Names = BTreeMap<String, Value>;

/// Why names could not be found.
pub(crate) type Missing = BTreeMap<String, String>;

/// A sandbox and whoever calls it.
pub(crate) struct World {
    sandbox: Sandbox,
    engine: PipefyEngine,
    toolbox: Toolbox,
    files: PathBuf,
    /// What calls gave, by tool, and whether they came without options.
    replies: Mutex<BTreeMap<String, Vec<(Value, bool)>>>,
}

impl World {
    /// A fresh organization; it is the same every time.
    pub(crate) async fn fresh(files: &Path) -> Self {
        let sandbox = Sandbox::start(SandboxOptions::default()).await.unwrap();
        let settings = settings(sandbox.url(), sandbox.url());
        let engine = PipefyEngine::build(&settings.pipefy, Surface::Mcp, None).unwrap();
        let toolbox = Toolbox {
            surface: Surface::Mcp,
            unified_envelope: true,
            enrichment_timeout: Duration::from_secs(5),
            base_url: sandbox.url().to_owned(),
            default_webhook_name: "Pipefy Webhook".to_owned(),
            allow_insecure_urls: true,
            ipaas: IpaasGateway::new(&settings.ipaas),
            local: Some(Local::default()),
            selections: Selections::default(),
            spent: Default::default(),
        };
        Self { sandbox, engine, toolbox, files: files.to_owned(), replies: Mutex::default() }
    }

    /// Ends it. Every reply there was is held against the schema of its tool.
    pub(crate) async fn close(self) -> Vec<String> {
        self.sandbox.shutdown().await;
        let catalogue = Catalogue::new();
        let replies = self.replies.into_inner().unwrap();
        let check = |(tool, replies): (&String, &Vec<(Value, bool)>)| {
            let tool = catalogue.get(tool).unwrap();
            let misfits: Vec<String> =
                replies.iter().filter_map(|(reply, plain)| outputs::misfit(tool, reply, *plain)).collect();
            misfits.first().map(|what| format!("{}: {what}", tool.name()))
        };
        let misfits = replies.iter().filter_map(check).collect();
        outputs::write();
        misfits
    }

    /// Calls a tool to the end, confirmation included.
    pub(crate) async fn call(&self, tool: &Tool, token: &str, args: Map<String, Value>) -> Value {
        self.called(tool, token, args, 0, true).await
    }

    /// Calls a tool with options, within a size; 0 for none.
    pub(crate) async fn option(&self, tool: &Tool, args: Map<String, Value>, limit: usize) -> Value {
        self.called(tool, DEFAULT_TOKEN, args, limit, false).await
    }

    async fn called(&self, tool: &Tool, token: &str, mut args: Map<String, Value>, limit: usize, plain: bool) -> Value {
        let session = self.engine.session(Credential::static_token(&token.into()).unwrap());
        let (key, policy) = (ConfirmationKey::from_bytes(b"sandbox"), Policy::default());
        loop {
            let call = Call {
                toolbox: &self.toolbox,
                session: &session,
                policy: &policy,
                approval: Approval::Token { key: &key, now: 1_000 },
                ask: None,
                budget: Budget::unlimited().with_deadline(Instant::now() + CALL),
                journal: None,
                room: Some(limit).filter(|bytes| *bytes > 0),
                options: Options::default(),
                op: None,
                unanswered: Default::default(),
            };
            let result = tool.call(args.clone(), call).await;
            let reply = render(tool.op(), &self.toolbox, result, &args, limit).payload.value();
            match reply.get("confirmation_token") {
                Some(token) if reply["requires_confirmation"] == true && !args.contains_key("confirm") => {
                    args.insert("confirmation_token".to_owned(), token.clone());
                    args.insert("confirm".to_owned(), true.into());
                }
                _ => {
                    self.replies
                        .lock()
                        .unwrap()
                        .entry(tool.name().to_owned())
                        .or_default()
                        .push((reply.clone(), plain));
                    return reply;
                }
            }
        }
    }

    /// Finds these names one after the other; says why of those that cannot be found.
    pub(crate) async fn find(&self, catalogue: &Catalogue, wanted: &[Name], names: &mut Names, missing: &mut Missing) {
        let mut known: BTreeMap<String, Value> = BTreeMap::new();
        for name in wanted {
            let args = match self.filled(&name.args, names) {
                Ok(args) => args,
                Err(needed) => {
                    let why = missing.get(&needed).cloned().unwrap_or_default();
                    missing.insert(name.name.clone(), format!("@{needed}: {why}"));
                    continue;
                }
            };
            let tool = catalogue.get(&name.tool).unwrap_or_else(|| panic!("no tool {}", name.tool));
            let call = format!("{} {}", name.tool, json!(args));
            let find = self.filled(&name.find, names).unwrap_or_default();
            let mut reply = match known.get(&call).filter(|_| tool.op().class == Class::Read) {
                Some(reply) => reply.clone(),
                None => self.call(tool, DEFAULT_TOKEN, args.clone()).await,
            };
            let patience = Instant::now() + CALL;
            while name.wait && first(&unpacked(&reply), &find, &name.take).is_none() && Instant::now() < patience {
                tokio::time::sleep(Duration::from_millis(100)).await;
                reply = self.call(tool, DEFAULT_TOKEN, args.clone()).await;
            }
            match first(&unpacked(&reply), &find, &name.take) {
                Some(value) => _ = names.insert(name.name.clone(), value),
                None => {
                    _ = missing.insert(name.name.clone(), format!("not in {}", pattern::cut(&reply.to_string(), 300)))
                }
            }
            known.insert(call, reply);
        }
    }

    /// How each event and action of rules, each type of action of agents, and groups of a condition look in a reading.
    pub(crate) async fn kinds_of_rules(&self, catalogue: &Catalogue, names: &Names) -> Vec<String> {
        let mut kinds =
            vec![r#""expressions_structure":[["0","1"],["2"]]"#.to_owned(), r#""expressions":[]"#.to_owned()];
        let args = Map::from_iter([("pipe_id".to_owned(), names["onboarding"].clone())]);
        for (tool, key) in [("get_automation_events", "event_id"), ("get_automation_actions", "action_id")] {
            let reply = self.call(catalogue.get(tool).unwrap(), DEFAULT_TOKEN, args.clone()).await;
            let rows = reply["data"].as_array().unwrap().iter();
            kinds.extend(rows.map(|row| format!("\"{key}\":{}", row["id"])));
        }
        let actions = "create_card create_connected_card create_table_record human_validation mcp_tool move_card \
                       send_email_template update_card";
        kinds.extend(actions.split_whitespace().map(|action| format!(r#""actionType":"{action}""#)));
        kinds
    }

    /// All names of `names.jsonl`.
    pub(crate) async fn names(&self, catalogue: &Catalogue) -> (Names, Missing) {
        let (mut names, mut missing) = (Names::new(), Missing::new());
        let wanted: Vec<Name> = parse("names.jsonl");
        self.find(catalogue, &wanted, &mut names, &mut missing).await;
        (names, missing)
    }

    /// Arguments with their names and files filled in; the error is a name that is not known.
    fn filled(&self, args: &Map<String, Value>, names: &Names) -> Result<Map<String, Value>, String> {
        let mut missing = None;
        let filled = fill(&args.clone().into(), names, &mut missing);
        match (filled, missing) {
            (_, Some(name)) => Err(name),
            (Value::Object(mut filled), None) => {
                for key in ["file_path", "configuration_file_path"] {
                    if let Some(Value::String(file)) = filled.get_mut(key) {
                        *file = self.files.join(&*file).to_str().unwrap().to_owned();
                    }
                }
                Ok(filled)
            }
            _ => Err("an object".to_owned()),
        }
    }
}

fn fill(value: &Value, names: &Names, missing: &mut Option<String>) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix('@') {
            Some(name) if !name.contains('/') => names.get(name).cloned().unwrap_or_else(|| {
                missing.get_or_insert_with(|| name.to_owned());
                Value::Null
            }),
            _ if text.contains("%{@") => {
                let mut text = text.clone();
                for (name, value) in names {
                    text = text.replace(&format!("@{name}}}"), &format!("{}}}", value.as_str().unwrap_or_default()));
                }
                text.into()
            }
            _ => value.clone(),
        },
        Value::Array(list) => list.iter().map(|value| fill(value, names, missing)).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| {
                let key = key.strip_prefix('@').and_then(|name| names.get(name)?.as_str()).unwrap_or(key);
                (key.to_owned(), fill(value, names, missing))
            })
            .collect::<Map<_, _>>()
            .into(),
        value => value.clone(),
    }
}

/// Texts that are JSON objects, as some results have them, unpacked.
fn unpacked(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with('{') => serde_json::from_str(text).unwrap_or_else(|_| value.clone()),
        Value::Array(list) => list.iter().map(unpacked).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), unpacked(value))).collect::<Map<_, _>>().into()
        }
        value => value.clone(),
    }
}

/// The first object, from the outside in, that has all of `find`; `*` is any value.
fn object<'v>(value: &'v Value, find: &Map<String, Value>, has: &str) -> Option<&'v Map<String, Value>> {
    match value {
        Value::Object(map) => {
            let fits = find.iter().all(|(key, wanted)| match map.get(key) {
                Some(Value::Null) | None => false,
                Some(value) => *wanted == "*" || value == wanted,
            });
            if fits && map.contains_key(has) {
                return Some(map);
            }
            map.values().find_map(|value| object(value, find, has))
        }
        Value::Array(list) => list.iter().find_map(|value| object(value, find, has)),
        _ => None,
    }
}

/// A text or number under `take` in the first object that has it and all of `find`, as text.
fn first(value: &Value, find: &Map<String, Value>, take: &str) -> Option<Value> {
    match object(value, find, take)?.get(take)? {
        Value::String(text) => Some(text.as_str().into()),
        Value::Number(number) => Some(number.to_string().into()),
        _ => None,
    }
}

/// Something that is read, written back unchanged and read again. `$key` in `with`, at any depth, is that key (or path of
/// keys) of the first object in the reading that has all of `find`. With `each` there is a trip for every object of that
/// listing, whose `take` is `@each`.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoundTrip {
    #[serde(default)]
    each: Option<Each>,
    read: String,
    args: Map<String, Value>,
    /// Calls before, each of which gives a name.
    #[serde(default)]
    before: Vec<Name>,
    find: Map<String, Value>,
    pub(crate) write: String,
    with: Map<String, Value>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Each {
    tool: String,
    args: Map<String, Value>,
    take: String,
}

/// The rows of `round_trips.jsonl`, each with the names of its trip.
pub(crate) async fn round_trips(world: &World, catalogue: &Catalogue, names: &Names) -> Vec<(RoundTrip, Names)> {
    let mut trips = Vec::new();
    for trip in parse::<RoundTrip>("round_trips.jsonl") {
        let Some(each) = &trip.each else {
            trips.push((trip, names.clone()));
            continue;
        };
        let args = world.filled(&each.args, names).unwrap();
        let reply = world.call(catalogue.get(&each.tool).unwrap(), DEFAULT_TOKEN, args).await;
        let mut taken = Vec::new();
        every(&reply, &each.take, &mut taken);
        assert!(!taken.is_empty(), "{} lists nothing: {reply}", each.tool);
        for one in taken {
            let mut names = names.clone();
            names.insert("each".to_owned(), one);
            trips.push((trip.clone(), names));
        }
    }
    trips
}

/// The outermost objects' texts under a key.
fn every(value: &Value, key: &str, found: &mut Vec<Value>) {
    match value {
        Value::Object(map) => match map.get(key).filter(|value| value.is_string()) {
            Some(value) => found.push(value.clone()),
            None => map.values().for_each(|value| every(value, key, found)),
        },
        Value::Array(list) => list.iter().for_each(|value| every(value, key, found)),
        _ => {}
    }
}

/// `$key` replaced by what was read; keys without value are left out.
fn taken(value: &Value, thing: &Map<String, Value>) -> Option<Value> {
    match value {
        Value::String(text) => match text.strip_prefix('$') {
            Some(path) => {
                let mut keys = path.split('.');
                let first = thing.get(keys.next()?)?;
                keys.try_fold(first, |value, key| value.get(key)).filter(|value| !value.is_null()).cloned()
            }
            None => Some(value.clone()),
        },
        Value::Object(map) => Some(
            map.iter()
                .filter_map(|(key, value)| Some((key.clone(), taken(value, thing)?)))
                .collect::<Map<_, _>>()
                .into(),
        ),
        value => Some(value.clone()),
    }
}

/// Reads, writes back, reads: what was read, or what differs.
pub(crate) async fn round_trip(
    trip: &RoundTrip,
    catalogue: &Catalogue,
    files: &Path,
    names: &Names,
) -> Result<Value, String> {
    let world = World::fresh(files).await;
    let (read, write) = (catalogue.get(&trip.read).unwrap(), catalogue.get(&trip.write).unwrap());
    let (mut names, mut missing) = (names.clone(), Missing::new());
    world.find(catalogue, &trip.before, &mut names, &mut missing).await;
    assert!(missing.is_empty(), "{}: {missing:?}", trip.write);
    let names = &names;
    let args = world.filled(&trip.args, names).unwrap();
    let before = world.call(read, DEFAULT_TOKEN, args.clone()).await;
    let find = world.filled(&trip.find, names).unwrap();
    let has = trip.with.values().filter_map(Value::as_str).find_map(|text| text.strip_prefix('$')).unwrap_or("id");
    let has = has.split('.').next().unwrap_or(has);
    let Some(thing) = object(&before, &find, has) else {
        return Err(format!("not found in {before}"));
    };
    let with = taken(&world.filled(&trip.with, names).unwrap().into(), thing);
    let with = with.and_then(|with| with.as_object().cloned()).unwrap_or_default();
    let written = world.call(write, DEFAULT_TOKEN, with.clone()).await;
    if written["success"] == false || written.get("error").is_some() {
        return Err(format!("{} gives {written}", json!(with)));
    }
    let after = world.call(read, DEFAULT_TOKEN, args).await;
    if let Some(misfit) = world.close().await.pop() {
        return Err(misfit);
    }
    match timeless(&before) == timeless(&after) {
        true => Ok(before),
        false => Err(format!(
            "was {}
    is  {}",
            timeless(&before),
            timeless(&after)
        )),
    }
}

/// Without the times at which something was changed, which a write may move.
fn timeless(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| !key.to_lowercase().contains("updated"))
            .map(|(key, value)| (key.clone(), timeless(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(list) => list.iter().map(timeless).collect(),
        value => value.clone(),
    }
}

/// What a row showed.
#[derive(Default)]
pub(crate) struct Seen {
    /// The sandbox does not serve what the tool needs.
    pub(crate) not_served: bool,
    /// By proof: `sandbox success`, `sandbox bad input`, `sandbox unknown id`, `sandbox guest`.
    pub(crate) problems: Vec<(&'static str, String)>,
}

/// A row's arguments, with what they need made in `world`; `None` where that is not served.
pub(crate) async fn ready(
    row: &Row,
    catalogue: &Catalogue,
    world: &World,
    (names, missing): &(Names, Missing),
) -> Option<Map<String, Value>> {
    let (mut names, mut missing) = (names.clone(), missing.clone());
    world.find(catalogue, &row.before, &mut names, &mut missing).await;
    world.filled(&row.args, &names).ok()
}

/// Plays the four calls of a row.
pub(crate) async fn play(row: &Row, catalogue: &Catalogue, shared: &World, known: &(Names, Missing)) -> Seen {
    let tool = catalogue.get(&row.tool).unwrap_or_else(|| panic!("no tool {}", row.tool));
    let own = if tool.op().class != Class::Read || !row.before.is_empty() {
        Some(World::fresh(&shared.files).await)
    } else {
        None
    };
    let mut seen = four_calls(row, tool, catalogue, own.as_ref().unwrap_or(shared), known.clone()).await;
    if let Some(own) = own {
        seen.problems.extend(own.close().await.into_iter().map(|what| ("sandbox success", what)));
    }
    seen
}

async fn four_calls(
    row: &Row,
    tool: &Tool,
    catalogue: &Catalogue,
    world: &World,
    (mut names, mut missing): (Names, Missing),
) -> Seen {
    let mut seen = Seen::default();
    bad_input(row, tool, world, &mut seen).await;
    world.find(catalogue, &row.before, &mut names, &mut missing).await;
    let args = match world.filled(&row.args, &names) {
        Ok(args) => args,
        Err(name) => {
            let why = missing.get(&name).cloned().unwrap_or_default();
            seen.not_served = why.contains("NOT_IMPLEMENTED");
            if !seen.not_served {
                seen.problems.push(("sandbox success", format!("@{name} is missing: {why}")));
            }
            return seen;
        }
    };

    if let Some(args) = with_unknown_id(tool.op(), &args) {
        let reply = world.call(tool, DEFAULT_TOKEN, args.clone()).await;
        if is_not_served(&reply) {
            seen.not_served = true;
            return seen;
        }
        let message = reply["error"]["message"].as_str().unwrap_or_default();
        if reply["success"] != false || message.trim().is_empty() || !message.is_ascii() {
            seen.problems.push(("sandbox unknown id", format!("{} gives {reply}", json!(args))));
        }
    }

    let reply = world.call(tool, GUEST, args.clone()).await;
    let refused = reply["success"] == false && reply["error"]["message"].as_str().is_some_and(|m| !m.trim().is_empty());
    if is_not_served(&reply) {
        seen.not_served = true;
        return seen;
    } else if refused != row.guest.is_none() {
        seen.problems.push(("sandbox guest", format!("the guest gets {reply}")));
    }

    let reply = world.call(tool, DEFAULT_TOKEN, args.clone()).await;
    if is_not_served(&reply) {
        seen.not_served = true;
    } else if reply["success"] == false || reply.get("error").is_some() || !reply.is_object() {
        seen.problems.push(("sandbox success", format!("{} gives {reply}", json!(args))));
    }
    seen
}

fn is_not_served(reply: &Value) -> bool {
    reply.to_string().contains("NOT_IMPLEMENTED")
}

/// Arguments of a wrong type and arguments that do not exist.
async fn bad_input(row: &Row, tool: &Tool, world: &World, seen: &mut Seen) {
    let schema = tool.input_schema();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut attempts = Vec::new();
    for name in required.iter().filter_map(Value::as_str) {
        let mut without = row.args.clone();
        without.remove(name);
        let mut wrong = row.args.clone();
        wrong.insert(name.to_owned(), json!({"wrong": [{}]}));
        let takes_objects = match &schema["properties"][name]["type"] {
            Value::String(one) => one == "object",
            Value::Array(types) => types.iter().any(|one| one == "object"),
            _ => true,
        };
        attempts.push(without);
        attempts.extend((!takes_objects).then_some(wrong));
    }
    for args in attempts {
        let reply = world.call(tool, DEFAULT_TOKEN, args.clone()).await;
        if reply["success"] != false || reply["error"]["code"] != "INVALID_ARGUMENTS" {
            seen.problems.push(("sandbox bad input", format!("{} gives {reply}", json!(args))));
        }
    }
}

/// The arguments with the first id replaced by one that does not exist; `None` for tools that name nothing.
fn with_unknown_id(op: &Op, args: &Map<String, Value>) -> Option<Map<String, Value>> {
    let id = op.touches.iter().find(|id| args.contains_key(id.arg))?;
    let mut args = args.clone();
    let place = args.get_mut(id.arg)?;
    let replace = |value: &Value| -> Value {
        let text = value.as_str().unwrap_or_default();
        if text.len() == 36 && text.matches('-').count() == 4 {
            "00000000-0000-4000-8000-000000000000".into()
        } else if text.chars().all(|c| c.is_ascii_digit()) {
            "987654321".into()
        } else {
            "no_such_thing".into()
        }
    };
    *place = match &*place {
        Value::Array(list) => list.iter().map(replace).collect(),
        value => replace(value),
    };
    Some(args)
}
