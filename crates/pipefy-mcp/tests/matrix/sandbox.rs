//! Every tool on the seeded sandbox, over real sockets: a call that succeeds, arguments that cannot be used, an id that does
//! not exist, and a person who may not.
//!
//! `names.jsonl` says how `@name` in arguments is found: the first object in the reply of `tool` that has all of `find` (`*`
//! is any value), and in it `take`. `sandbox.jsonl` has a row for each tool: its `args`, the calls `before` it (each gives
//! a name too), and `"guest": "allowed"` where the guest of the sandbox may do it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pipefy::{Budget, Credential, PipefyEngine, Selections, Surface};
use pipefy_sandbox::{DEFAULT_TOKEN, Sandbox, SandboxOptions};
use pipefy_tools::{
    Approval, Call, Catalogue, Class, ConfirmationKey, IpaasGateway, Local, Op, Options, Policy, Tool, Toolbox, render,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::pattern;
use crate::stage::settings;

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
    std::fs::write(folder.join("doc.pdf"), b"%PDF-1.4\nhello\n").unwrap();
    let provider = json!({"provider": "openai", "model": "gpt-4o", "apiKey": "k"});
    std::fs::write(folder.join("provider.json"), provider.to_string()).unwrap();
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
        };
        Self { sandbox, engine, toolbox, files: files.to_owned() }
    }

    /// Ends it.
    pub(crate) async fn close(self) {
        self.sandbox.shutdown().await;
    }

    /// Calls a tool to the end, confirmation included.
    pub(crate) async fn call(&self, tool: &Tool, token: &str, mut args: Map<String, Value>) -> Value {
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
                options: Options::default(),
                op: None,
                unanswered: Default::default(),
            };
            let result = tool.call(args.clone(), call).await;
            let reply = render(tool.op(), &self.toolbox, result, &args, 0).payload.value();
            match reply.get("confirmation_token") {
                Some(token) if reply["requires_confirmation"] == true && !args.contains_key("confirm") => {
                    args.insert("confirmation_token".to_owned(), token.clone());
                    args.insert("confirm".to_owned(), true.into());
                }
                _ => return reply,
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

/// Something that is read, written back unchanged and read again. `$key` in `with` is that key of the first object in the
/// reading that has all of `find`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoundTrip {
    read: String,
    args: Map<String, Value>,
    /// Calls before, each of which gives a name.
    #[serde(default)]
    before: Vec<Name>,
    find: Map<String, Value>,
    pub(crate) write: String,
    with: Map<String, Value>,
}

/// The rows of `round_trips.jsonl`.
pub(crate) fn round_trips() -> Vec<RoundTrip> {
    parse("round_trips.jsonl")
}

/// Reads, writes back, reads: says what differs.
pub(crate) async fn round_trip(trip: &RoundTrip, catalogue: &Catalogue, files: &Path, names: &Names) -> Option<String> {
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
    let unpacked = unpacked(&before);
    let Some(thing) = object(&unpacked, &find, has) else {
        return Some(format!("not found in {before}"));
    };
    let mut with = Map::new();
    for (name, value) in world.filled(&trip.with, names).unwrap() {
        match value.as_str().and_then(|text| text.strip_prefix('$')) {
            Some(key) => with.extend(thing.get(key).filter(|v| !v.is_null()).map(|value| (name, value.clone()))),
            None => _ = with.insert(name, value),
        }
    }
    let written = world.call(write, DEFAULT_TOKEN, with.clone()).await;
    if written["success"] == false || written.get("error").is_some() {
        return Some(format!("{} gives {written}", json!(with)));
    }
    let after = world.call(read, DEFAULT_TOKEN, args).await;
    world.close().await;
    (timeless(&before) != timeless(&after)).then(|| format!("was {}\n    is  {}", timeless(&before), timeless(&after)))
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

/// Plays the four calls of a row.
pub(crate) async fn play(row: &Row, catalogue: &Catalogue, shared: &World, known: &(Names, Missing)) -> Seen {
    let tool = catalogue.get(&row.tool).unwrap_or_else(|| panic!("no tool {}", row.tool));
    let own = if tool.op().class != Class::Read || !row.before.is_empty() {
        Some(World::fresh(&shared.files).await)
    } else {
        None
    };
    let seen = four_calls(row, tool, catalogue, own.as_ref().unwrap_or(shared), known.clone()).await;
    if let Some(own) = own {
        own.close().await;
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
