//! The settings file of an MCP client: JSON with comments, or TOML. Edited in place, so that everything that is not our
//! entry stays as it was, byte for byte.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use jsonc_parser::ast::Object;
use jsonc_parser::common::Range;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;
use toml_edit::{DocumentMut, Item, Table, TableLike};

/// How a client writes its servers down; the name is that of the map they are in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dialect {
    /// `{"command", "args", "env"}`.
    Plain(&'static str),
    /// The same with `"type": "stdio"`.
    Typed(&'static str),
    /// A TOML table each.
    Toml(&'static str),
}

/// What only the entry of a remote server has: beside a command it would make two kinds of entry of one.
const REMOTE: &[&str] = &[
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "headersHelper",
    "transport",
    "oauth",
    "auth",
    "bearer_token_env_var",
    "http_headers",
    "env_http_headers",
    "scopes",
    "oauth_resource",
];

/// One server in a file.
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The folder it is for, where one file holds several folders' servers (Claude Code's `projects`).
    pub(crate) scope: Option<String>,
    pub(crate) definition: Value,
}

/// An opened file; a missing one is empty.
pub(crate) struct ClientFile {
    path: PathBuf,
    dialect: Dialect,
    document: Document,
}

enum Document {
    Json(CstRootNode),
    Toml(DocumentMut),
}

impl Dialect {
    fn map(self) -> &'static str {
        match self {
            Self::Plain(map) | Self::Typed(map) | Self::Toml(map) => map,
        }
    }
}

impl ClientFile {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, is not in its format, or sets one thing twice; a sentence.
    pub(crate) fn open(path: &Path, dialect: Dialect) -> Result<Self, String> {
        let shown = path.display();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("{shown} cannot be read: {error}.")),
        };
        let document = match dialect {
            Dialect::Toml(_) => {
                // The parser's own text quotes the line, which may hold a secret.
                let parsed = text.parse::<DocumentMut>();
                Document::Toml(parsed.map_err(|_| format!("{shown} is not TOML; set it right and try again."))?)
            }
            Dialect::Plain(_) | Dialect::Typed(_) => {
                let text = if text.trim().is_empty() { "{}\n" } else { text.as_str() };
                let parsed = CstRootNode::parse(text, &ParseOptions::default());
                let root = parsed.map_err(|_| format!("{shown} is not JSON; set it right and try again."))?;
                let Some(object) = root.object_value() else {
                    return Err(format!("{shown} holds no JSON object; set it right and try again."));
                };
                if let Some(name) = twice(&object, dialect.map()) {
                    return Err(format!(
                        "{shown} has {name} twice, and which one counts is not certain; set it right and try again."
                    ));
                }
                Document::Json(root)
            }
        };
        Ok(Self { path: path.to_owned(), dialect, document })
    }

    fn map(&self) -> &'static str {
        self.dialect.map()
    }

    /// The servers in it.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        match &self.document {
            Document::Json(root) => {
                let Some(object) = root.object_value() else { return Vec::new() };
                let mut entries = json_entries(&object, self.map(), None);
                for folder in object.object_value("projects").iter().flat_map(CstObject::properties) {
                    let Some(name) = folder.decoded_name() else { continue };
                    if let Some(folder) = folder.object_value() {
                        entries.extend(json_entries(&folder, self.map(), Some(&name)));
                    }
                }
                entries
            }
            Document::Toml(document) => {
                let servers = document.get(self.map()).and_then(Item::as_table_like);
                let servers = servers.into_iter().flat_map(|servers| servers.iter());
                servers
                    .map(|(name, item)| Entry { name: name.to_owned(), scope: None, definition: plain(item) })
                    .collect()
            }
        }
    }

    /// Puts a server in, or sets command and arguments of the one of this name right and keeps the rest of it but for what
    /// makes it a remote one. `env` is added to its variables. False when nothing had to change.
    ///
    /// # Errors
    /// Something else is where the servers should be; a sentence.
    pub(crate) fn put(
        &mut self,
        name: &str,
        command: &str,
        args: &[String],
        env: &[(String, String)],
    ) -> Result<bool, String> {
        let before = self.text();
        if let Some(text) = self.put_in_line(&before, name, command, args, env) {
            self.document = json_document(&text).ok_or_else(|| self.misplaced())?;
            return Ok(true);
        }
        let misplaced = self.misplaced();
        let map = self.map();
        match &mut self.document {
            Document::Json(root) => {
                let object = root.object_value_or_create().ok_or(misplaced.as_str())?;
                let servers = object.object_value_or_create(map).ok_or(misplaced.as_str())?;
                let entry = servers.object_value_or_create(name).ok_or(misplaced.as_str())?;
                for property in REMOTE.iter().filter_map(|key| entry.get(key)) {
                    property.remove();
                }
                match (self.dialect, entry.get("type")) {
                    (Dialect::Typed(_), _) => set(&entry, "type", "stdio".into()),
                    (_, Some(kind)) if kind.value().and_then(|kind| kind.to_serde_value()) != Some("stdio".into()) => {
                        kind.remove();
                    }
                    _ => {}
                }
                set(&entry, "command", command.into());
                set(&entry, "args", CstInputValue::Array(args.iter().map(|arg| arg.as_str().into()).collect()));
                if !env.is_empty() {
                    let variables = entry.object_value_or_create("env").ok_or(misplaced.as_str())?;
                    for (name, value) in env {
                        set(&variables, name, value.as_str().into());
                    }
                }
            }
            Document::Toml(document) => {
                let mut parent = Table::new();
                parent.set_implicit(true);
                let servers = document.entry(map).or_insert(Item::Table(parent));
                let servers = servers.as_table_like_mut().ok_or(misplaced.as_str())?;
                let entry = servers.entry(name).or_insert(Item::Table(Table::new()));
                let entry = entry.as_table_like_mut().ok_or(misplaced.as_str())?;
                for key in REMOTE {
                    entry.remove(key);
                }
                set_toml(entry, "command", command.into());
                set_toml(entry, "args", args.iter().map(String::as_str).collect::<toml_edit::Array>().into());
                if !env.is_empty() {
                    let variables = entry.entry("env").or_insert(Item::Table(Table::new()));
                    let variables = variables.as_table_like_mut().ok_or(misplaced.as_str())?;
                    for (name, value) in env {
                        set_toml(variables, name, value.as_str().into());
                    }
                }
            }
        }
        Ok(self.text() != before)
    }

    fn misplaced(&self) -> String {
        format!("{} has something else than servers under {}.", self.path.display(), self.map())
    }

    /// A new server behind the others where all of them stand in one line, as programs write them: in the same line.
    fn put_in_line(
        &self,
        text: &str,
        name: &str,
        command: &str,
        args: &[String],
        env: &[(String, String)],
    ) -> Option<String> {
        let mut entry = serde_json::Map::new();
        if matches!(self.dialect, Dialect::Typed(_)) {
            entry.insert("type".to_owned(), "stdio".into());
        }
        entry.insert("command".to_owned(), command.into());
        entry.insert("args".to_owned(), args.into());
        if !env.is_empty() {
            let env = env.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
            entry.insert("env".to_owned(), Value::Object(env.collect()));
        }
        let entry = format!("{}:{}", Value::from(name), Value::from(entry));
        in_line(text, self.map(), |servers| {
            if servers.properties.iter().any(|server| server.name.as_str() == name) {
                return None;
            }
            match servers.properties.as_slice() {
                [] => (!text.trim_end().contains('\n')).then(|| spliced(text, servers.range.start + 1, 0, &entry))?,
                [.., last] => {
                    let blank = servers
                        .properties
                        .first()
                        .and_then(|first| text.get(servers.range.start + 1..first.range.start));
                    let blank = blank.filter(|blank| blank.trim().is_empty()).unwrap_or_default();
                    spliced(text, last.range.end, 0, &format!(",{blank}{entry}"))
                }
            }
        })
    }

    /// The text without a server, where all of them stand in one line.
    fn cut_in_line(&self, text: &str, name: &str) -> Option<String> {
        in_line(text, self.map(), |servers| {
            let at = servers.properties.iter().position(|server| server.name.as_str() == name)?;
            let range = |at: usize| servers.properties.get(at).map(|server| server.range);
            let (start, end) = match (at.checked_sub(1).and_then(range), range(at)?, range(at + 1)) {
                (Some(Range { end: start, .. }), own, _) => (start, own.end),
                (None, own, Some(next)) => (own.start, next.start),
                (None, own, None) => (own.start, own.end),
            };
            spliced(text, start, end - start, "")
        })
    }

    /// Takes a server out.
    pub(crate) fn remove(&mut self, name: &str) {
        if matches!(self.document, Document::Json(_))
            && let Some(document) = self.cut_in_line(&self.text(), name).and_then(|text| json_document(&text))
        {
            self.document = document;
            return;
        }
        let map = self.map();
        match &mut self.document {
            Document::Json(root) => {
                let servers = root.object_value().and_then(|object| object.object_value(map));
                if let Some(entry) = servers.and_then(|servers| servers.get(name)) {
                    entry.remove();
                }
            }
            Document::Toml(document) => {
                if let Some(servers) = document.get_mut(map).and_then(Item::as_table_like_mut) {
                    servers.remove(name);
                }
            }
        }
    }

    fn text(&self) -> String {
        match &self.document {
            Document::Json(root) => root.to_string(),
            Document::Toml(document) => document.to_string(),
        }
    }

    /// Writes the file: beside it first, then in its place, with the permissions it had. Links stay links.
    ///
    /// # Errors
    /// It cannot be written; a sentence. The file is then as it was.
    pub(crate) fn save(&self) -> Result<(), String> {
        let unwritable = |error: std::io::Error| format!("{} cannot be written: {error}.", self.path.display());
        let path = match self.path.canonicalize() {
            Ok(path) => path,
            Err(_) => {
                let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
                std::fs::create_dir_all(folder.unwrap_or(Path::new("."))).map_err(unwritable)?;
                self.path.clone()
            }
        };
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
        let written = std::fs::write(&beside, self.text())
            .and_then(|()| match std::fs::metadata(&path) {
                Ok(about) => std::fs::set_permissions(&beside, about.permissions()),
                Err(_) => private(&beside),
            })
            .and_then(|()| std::fs::rename(&beside, &path));
        written.map_err(|error| {
            let _ = std::fs::remove_file(&beside);
            unwritable(error)
        })
    }
}

fn json_document(text: &str) -> Option<Document> {
    CstRootNode::parse(text, &ParseOptions::default()).ok().map(Document::Json)
}

/// What `edit` makes of a JSON text whose map of servers stands in one line.
fn in_line(text: &str, map: &str, edit: impl FnOnce(&Object<'_>) -> Option<String>) -> Option<String> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default()).ok()?;
    let servers = parsed.value.as_ref()?.as_object()?.get_object(map)?;
    let line = text.get(servers.range.start..servers.range.end)?;
    (!line.contains('\n')).then(|| edit(servers))?
}

/// The text with `length` bytes at `at` replaced.
fn spliced(text: &str, at: usize, length: usize, by: &str) -> Option<String> {
    Some([text.get(..at)?, by, text.get(at + length..)?].concat())
}

/// A new file may come to hold secrets.
fn private(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        Ok(())
    }
}

fn json_entries(object: &CstObject, map: &str, scope: Option<&str>) -> Vec<Entry> {
    let Some(servers) = object.object_value(map) else { return Vec::new() };
    let servers = servers.properties();
    let entries = servers.iter().filter_map(|server| {
        let definition = server.value().and_then(|value| value.to_serde_value());
        let definition = definition.unwrap_or(Value::Null);
        Some(Entry { name: server.decoded_name()?, scope: scope.map(str::to_owned), definition })
    });
    entries.collect()
}

/// The name that one object among the map of servers has more than once: that of the map, of a server or of a part of one.
/// Readers differ in which of them they take.
fn twice(object: &CstObject, map: &str) -> Option<String> {
    let repeated = |object: &CstObject, only: Option<&str>| {
        let mut known = HashSet::new();
        let names = object.properties().into_iter().filter_map(|property| property.decoded_name());
        names.filter(|name| only.is_none_or(|only| only == name)).find(|name| !known.insert(name.clone()))
    };
    if let Some(name) = repeated(object, Some(map)) {
        return Some(name);
    }
    let servers = object.object_value(map)?;
    let parts = servers.properties().into_iter().filter_map(|server| server.object_value());
    repeated(&servers, None).or_else(|| parts.filter_map(|server| repeated(&server, None)).next())
}

/// Sets a value where it differs.
fn set(object: &CstObject, key: &str, value: CstInputValue) {
    match object.get(key) {
        Some(property) => {
            let current = property.value().and_then(|value| value.to_serde_value());
            if current.as_ref() != Some(&as_json(&value)) {
                property.set_value(value);
            }
        }
        None => {
            object.append(key, value);
        }
    }
}

/// The few kinds of value that are set here.
fn as_json(value: &CstInputValue) -> Value {
    match value {
        CstInputValue::String(text) => text.as_str().into(),
        CstInputValue::Array(items) => items.iter().map(as_json).collect(),
        _ => Value::Null,
    }
}

fn set_toml(table: &mut dyn TableLike, key: &str, value: toml_edit::Value) {
    let new = Item::Value(value);
    match table.get_mut(key) {
        Some(current) if plain(current) == plain(&new) => {}
        Some(current) => *current = new,
        None => {
            table.insert(key, new);
        }
    }
}

/// A TOML value as JSON; dates as text.
fn plain(item: &Item) -> Value {
    let of_table = |table: &dyn TableLike| -> Value {
        Value::Object(table.iter().map(|(key, item)| (key.to_owned(), plain(item))).collect())
    };
    match item {
        Item::None => Value::Null,
        Item::ArrayOfTables(tables) => tables.iter().map(|table| of_table(table)).collect(),
        Item::Table(table) => of_table(table),
        Item::Value(value) => match value {
            toml_edit::Value::String(text) => text.value().as_str().into(),
            toml_edit::Value::Integer(number) => (*number.value()).into(),
            toml_edit::Value::Float(number) => (*number.value()).into(),
            toml_edit::Value::Boolean(on) => (*on.value()).into(),
            toml_edit::Value::Datetime(time) => time.value().to_string().into(),
            toml_edit::Value::Array(items) => items.iter().map(|item| plain(&Item::Value(item.clone()))).collect(),
            toml_edit::Value::InlineTable(table) => of_table(table),
        },
    }
}
