//! Rows become cards or records: all are checked first, then each that is missing is created once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use pipefy::Mutation;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::columns::{self, Target, Targets};
use super::journal::{Journal, Left};
use super::keys::{Key, Keys};
use super::rows::{FILE_LIMIT, Row, rows_of_text};
use super::{Kind, is_late, shown};
use crate::tools::local_file;
use crate::tools::shared::{non_blank, text_of};
use crate::{Act, Call, Local, Outcome, Plan, ToolError, Verification, dig, digest_of_text};

/// How often a row is sent that Pipefy has no time for.
const TRIES: u32 = 8;

/// The pauses before a row whose answer was lost is looked for: a search knows what is new only after a while.
const LOOKS: [Duration; 3] = [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(3)];

/// What becomes of a row whose answer was lost and that no look-up found.
const NOT_FOUND_YET: &str = "No look-up has found its key so far, but a search may lag behind, so it was not sent again. The same import, run again later, looks \
     for it first.";

/// The first wait before a row is sent again, and the longest.
const WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// So many failures without a success between them end an import.
const FAILURES: usize = 10;

/// Rows of a reply at most, when only those are listed that went wrong.
const LISTED: usize = 50;

/// What is imported, and how.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Source {
    /// CSV with a header, JSON lines or a JSON array on this server's machine, up to 50 MiB.
    #[serde(default)]
    file: Option<String>,
    /// The rows themselves, instead of a file: {column: value}.
    #[serde(default)]
    rows: Option<Vec<Map<String, Value>>>,
    /// Column of unique values; a row whose value is in Pipefy already is left alone.
    #[serde(default)]
    key: Option<String>,
    /// Without a key: create every row.
    #[serde(default)]
    every_row: bool,
    /// {column: field id or label} where names differ; an empty text leaves the column out.
    #[serde(default)]
    map: Option<Map<String, Value>>,
    /// Rows sent at the same time, 1..16.
    #[serde(default = "four")]
    parallel: u64,
    /// File that notes what became of each row; beside `file` when not given, none when empty.
    #[serde(default)]
    journal: Option<String>,
    /// Also list the rows that went well.
    #[serde(default)]
    every_result: bool,
    /// End after so many seconds; the same call goes on.
    #[serde(default)]
    max_seconds: Option<u64>,
}

fn four() -> u64 {
    4
}

/// What is to become of a row.
#[derive(Debug)]
enum Fate {
    /// It is sent.
    Create,
    /// It is there, with this id when that is known.
    There(Option<String>),
    /// It may be there, and nothing tells it apart.
    Unclear,
}

/// One row of the plan.
#[derive(Debug)]
struct Planned {
    /// From 1.
    number: usize,
    key: Option<String>,
    /// Its name in the journal.
    mark: String,
    fate: Fate,
}

/// A checked import.
pub(crate) struct Import {
    kind: Kind,
    place: String,
    key: Option<Key>,
    rows: Vec<Planned>,
    journal: Option<(Journal, PathBuf)>,
    parallel: usize,
    every_result: bool,
    end: Option<Instant>,
}

/// Checks all rows and finds out which of them are there already.
///
/// # Errors
/// No rows, bad columns or cells, no key, a journal in use; Pipefy's, of a read.
pub(super) async fn plan(kind: Kind, place: &str, source: Source, call: &Call<'_>) -> Result<Plan<Import>, ToolError> {
    let end = source.max_seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (rows, file) = rows(&source, call)?;
    let map = source.map.unwrap_or_default();
    if let Some((column, _)) = map.iter().find(|(_, name)| !name.is_string()) {
        return Err(ToolError::invalid(format!("`map` must give the field of {column} as text.")));
    }
    let parallel = match usize::try_from(source.parallel) {
        Ok(parallel @ 1..=16) => parallel,
        _ => return Err(ToolError::invalid("`parallel` must be between 1 and 16.")),
    };
    let fields = columns::form(call, kind, place).await?;
    let targets = Targets::of(&rows, &fields, &map, call.toolbox.surface)?;
    let key = match (non_blank(source.key.as_deref()), source.every_row) {
        (None, true) => None,
        (None, false) => {
            return Err(ToolError::invalid(
                "Name the column that tells rows apart in `key`, so that the import can be run again, or set `every_row` to \
                 create every row whatever is there.",
            ));
        }
        (Some(column), _) => match targets.get(column) {
            Some(target) if *target != Target::Nowhere => Some(Key::new(column, target, &fields)),
            _ => return Err(ToolError::invalid(format!("The key {column} is no column that goes to a field."))),
        },
    };
    columns::check(&rows, &targets, &fields, key.as_ref().map(|key| key.column.as_str()))?;
    let place_of_all = call.toolbox.local.as_ref().and_then(|local| local.place.as_ref());
    let about = json!({
        "into": place_of_all.unwrap_or(&call.toolbox.base_url), kind.place(): place, "key": key.as_ref().map(Key::id),
    });
    let path = journal_path(source.journal.as_deref(), file.as_deref(), call)?;
    if let (Some(path), Some(file)) = (&path, &file)
        && std::fs::canonicalize(path)
            .ok()
            .is_some_and(|path| std::fs::canonicalize(file).is_ok_and(|file| file == path))
    {
        return Err(ToolError::invalid(format!(
            "The file of the rows, {}, cannot be its own journal.",
            file.display()
        )));
    }
    let (journal, left) = match path {
        Some(path) if call.options.dry_run => (None, Journal::look(&path, &about)?),
        Some(path) => (Some((Journal::open(&path, &about)?, path)), HashMap::new()),
        None => (None, HashMap::new()),
    };
    let mut import = Import {
        kind,
        place: place.to_owned(),
        rows: marked(&rows, key.as_ref()),
        key,
        journal,
        parallel,
        every_result: source.every_result,
        end,
    };
    import.settle(&left, call).await?;
    let create =
        |row: &Planned| Some(kind.create(columns::input(kind, place, rows.get(row.number.checked_sub(1)?)?, &targets)));
    let steps: Vec<Mutation> =
        import.rows.iter().filter(|row| matches!(row.fate, Fate::Create)).filter_map(create).collect();
    let before = call.options.dry_run.then(|| import.before());
    let plan = steps.into_iter().fold(Plan::new(import), Plan::then);
    Ok(match before {
        Some(before) => plan.before(before),
        None => plan,
    })
}

/// The rows, and the file they are from.
fn rows(source: &Source, call: &Call<'_>) -> Result<(Vec<Row>, Option<PathBuf>), ToolError> {
    match (non_blank(source.file.as_deref()), &source.rows) {
        (Some(_), Some(_)) | (None, None) => Err(ToolError::invalid("Give the rows either in `rows` or as a `file`.")),
        (None, Some(rows)) if rows.is_empty() => Err(ToolError::invalid("`rows` holds no rows.")),
        (None, Some(rows)) => Ok((rows.clone(), None)),
        (Some(given), None) => {
            let local = call.local("Give the rows in `rows`.")?;
            let unread = |why: String| ToolError::invalid(format!("{given} cannot be read: {why}"));
            let path = local_file::expand(given, local).map_err(&unread)?;
            let facts = std::fs::metadata(&path).map_err(|error| unread(local_file::reason(&error)))?;
            if !facts.is_file() {
                return Err(unread("it is no regular file".to_owned()));
            }
            if facts.len() > FILE_LIMIT {
                return Err(unread(format!("it is larger than {} MiB", FILE_LIMIT >> 20)));
            }
            let bytes = std::fs::read(&path).map_err(|error| unread(local_file::reason(&error)))?;
            let text = String::from_utf8(bytes).map_err(|_| unread("it is not UTF-8 text".to_owned()))?;
            let rows = rows_of_text(&text).map_err(|why| ToolError::invalid(format!("{given}: {why}")))?;
            Ok((rows, Some(path)))
        }
    }
}

/// Where the journal is: as named, else beside the file.
fn journal_path(named: Option<&str>, file: Option<&Path>, call: &Call<'_>) -> Result<Option<PathBuf>, ToolError> {
    match (named.map(str::trim), file) {
        (Some(""), _) | (None, None) => Ok(None),
        (Some(named), _) => {
            let local: &Local = call.local("Leave out `journal`.")?;
            let path = local_file::expand(named, local);
            path.map(Some).map_err(|why| ToolError::invalid(format!("The journal {named} cannot be used: {why}.")))
        }
        (None, Some(file)) => {
            let mut name = file.file_name().unwrap_or_default().to_owned();
            name.push(".journal.jsonl");
            Ok(Some(file.with_file_name(name)))
        }
    }
}

/// The rows with their names in the journal: the key, else what is in them and how often that came before.
fn marked(rows: &[Row], key: Option<&Key>) -> Vec<Planned> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let planned = rows.iter().enumerate().map(|(at, row)| {
        let key = key.map(|key| shown(row.get(&key.column)));
        let mark = match &key {
            Some(key) => key.clone(),
            None => {
                let digest = digest_of_text(&Value::from(row.clone()).to_string());
                let count = seen.entry(digest.clone()).or_default();
                *count += 1;
                format!("{digest}.{count}")
            }
        };
        Planned { number: at + 1, key, mark, fate: Fate::Create }
    });
    planned.collect()
}

impl Import {
    fn keys<'a, 'c>(&'a self, call: &'a Call<'c>) -> Option<Keys<'a, 'c>> {
        let key = self.key.as_ref()?;
        Some(Keys { call, kind: self.kind, place: &self.place, key, parallel: self.parallel })
    }

    /// Finds out what is to become of each row: by what Pipefy has, and by what earlier runs left.
    async fn settle(&mut self, looked: &HashMap<String, Left>, call: &Call<'_>) -> Result<(), ToolError> {
        let left = |mark: &str| match &self.journal {
            Some((journal, _)) => journal.left(mark),
            None => looked.get(mark),
        };
        let known = match self.keys(call) {
            Some(keys) => {
                let wanted: Vec<String> = self.rows.iter().map(|row| row.mark.clone()).collect();
                keys.known(&wanted).await?
            }
            None => HashMap::new(),
        };
        let mut fates = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let fate = match (known.get(&row.mark), left(&row.mark), self.keys(call)) {
                (Some(id), ..) => Fate::There(Some(id.clone())),
                (None, None, _) => Fate::Create,
                // The key says that it did not arrive.
                (None, Some(Left::Sent), Some(_)) => Fate::Create,
                (None, Some(Left::Sent), None) => Fate::Unclear,
                // Its key may have been changed since, or the search does not know it yet.
                (None, Some(Left::Done(Some(id))), Some(keys)) => match keys.is_there(id).await? {
                    true => Fate::There(Some(id.clone())),
                    false => Fate::Create,
                },
                (None, Some(Left::Done(_)), Some(_)) => Fate::Create,
                (None, Some(Left::Done(id)), None) => Fate::There(id.clone()),
            };
            fates.push(fate);
        }
        for (row, fate) in self.rows.iter_mut().zip(fates) {
            row.fate = fate;
        }
        Ok(())
    }

    /// What a dry run shows of the rows.
    fn before(&self) -> Value {
        let line = |row: &Planned| match &row.fate {
            Fate::Create => line(row, "planned", None, None),
            Fate::There(id) => line(row, "exists", id.as_deref(), None),
            Fate::Unclear => line(row, "unknown", None, Some(&self.unclear())),
        };
        json!({ "rows": self.rows.iter().map(line).collect::<Vec<_>>() })
    }

    fn unclear(&self) -> String {
        let journal = self.journal.as_ref().map(|(_, path)| format!(" {}", path.display())).unwrap_or_default();
        format!(
            "It was on its way when an earlier run ended, and without a key it cannot be looked up. See whether it is there; \
             without its line in the journal{journal} it is sent again."
        )
    }

    fn sent(&self, row: &Planned) -> Result<(), ToolError> {
        match &self.journal {
            Some((journal, path)) => journal.sent(&row.mark).map_err(|error| {
                ToolError::refused_value(format!(
                    "The journal {} cannot be written ({error}); this row was not sent.",
                    path.display()
                ))
            }),
            None => Ok(()),
        }
    }

    fn note(&self, row: &Planned, made: &Result<Option<String>, Failed>) {
        let Some((journal, _)) = &self.journal else { return };
        match made {
            Ok(id) => journal.done(&row.mark, id.as_deref()),
            Err(failed) if failed.unclear => {}
            Err(_) => journal.failed(&row.mark),
        }
    }
}

/// What became of a row.
fn line(row: &Planned, result: &str, id: Option<&str>, error: Option<&str>) -> Value {
    json!({ "row": row.number, "key": row.key, "result": result, "id": id, "error": error })
}

/// A row on its way: its id when Pipefy gave one.
type Sending<'a> = BoxFuture<'a, (&'a Planned, Result<Option<String>, Failed>)>;

/// A row that was not created, as far as is known.
#[derive(Debug)]
struct Failed {
    error: ToolError,
    /// It may be there all the same.
    unclear: bool,
    /// It would be no different for the other rows.
    everybodys: bool,
}

impl Failed {
    fn of(error: pipefy::Error) -> Self {
        use pipefy::Error as E;
        let everybodys = matches!(error, E::Credential(_) | E::Unauthorized { .. } | E::Cancelled { .. });
        Self { unclear: is_unclear(&error), everybodys, error: error.into() }
    }
}

impl From<ToolError> for Failed {
    fn from(error: ToolError) -> Self {
        Self { error, unclear: false, everybodys: true }
    }
}

/// When everybody may send again: Pipefy asks one, and means all.
#[derive(Default)]
struct Pause(Mutex<Option<Instant>>);

impl Pause {
    fn until(&self, at: Instant) {
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *until = Some(until.map_or(at, |before| before.max(at)));
    }

    async fn over(&self) {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = until {
            tokio::time::sleep_until(until.into()).await;
        }
    }
}

/// Creates what is missing, some at a time.
///
/// # Errors
/// Rows that failed, with what became of all; what keeps any row from being sent.
pub(super) async fn act(plan: &Plan<Import>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
    let import = &plan.keep;
    let mut tally = Tally::new(import);
    let pause = Pause::default();
    let missing = import.rows.iter().filter(|row| matches!(row.fate, Fate::Create));
    let work: Vec<Sending<'_>> = missing
        .zip(plan.mutations())
        .map(|(row, mutation)| -> BoxFuture<'_, _> {
            let pause = &pause;
            Box::pin(async move { (row, created(import, row, mutation, act, pause).await) })
        })
        .collect();
    let total = Some(import.rows.len() as u64);
    act.budget.advance(tally.done() as u64, total, &tally.sentence());
    // What is on its way is waited for, whatever stops the rest.
    let stopped = AtomicBool::new(false);
    let ends =
        |begun: bool| stopped.load(Ordering::Relaxed) || act.budget.is_over() || (begun && is_late(import.end, act));
    let mut rest = work.into_iter();
    let mut begun = false;
    let next = std::iter::from_fn(|| {
        if ends(begun) {
            return None;
        }
        // One row at least, or a call whose time goes into looking what is there would never come to an end.
        begun = true;
        rest.next()
    });
    let mut work = stream::iter(next).buffer_unordered(import.parallel);
    while let Some((row, made)) = work.next().await {
        if !tally.add(row, made) {
            stopped.store(true, Ordering::Relaxed);
        }
        act.budget.advance(1, total, &tally.sentence());
    }
    drop(work);
    tally.outcome()
}

/// Creates a row: sent again only as long as Pipefy has no time for it, looked for when it may have arrived.
async fn created(
    import: &Import,
    row: &Planned,
    mutation: &Mutation,
    act: &Act<'_, '_>,
    pause: &Pause,
) -> Result<Option<String>, Failed> {
    let mut wait = WAIT;
    let mut tries = 0;
    let made = loop {
        pause.over().await;
        import.sent(row)?;
        let error = match act.send(mutation).await {
            Ok(data) => match text_of(dig(&data.value(), import.kind.created())).filter(|id| !id.is_empty()) {
                Some(id) => break Ok(Some(id)),
                // An answer without the new one's id proves nothing.
                None => pipefy::Error::NoPayload {
                    field: import.kind.created().to_owned(),
                    kind: pipefy::OperationKind::Mutation,
                },
            },
            Err(error) => error,
        };
        if is_unclear(&error) {
            break arrived(import, row, act).await.map(Some).ok_or_else(|| {
                let mut failed = Failed::of(error);
                if import.key.is_some() {
                    failed.error.message = format!("{} {NOT_FOUND_YET}", sentence_of(&failed.error.message));
                }
                failed
            });
        }
        tries += 1;
        let Some(asked) = passes(&error).filter(|_| tries < TRIES && !act.budget.is_over()) else {
            break Err(Failed::of(error));
        };
        let at = Instant::now() + asked.max(wait).min(LONGEST_WAIT);
        if asked > Duration::ZERO {
            pause.until(at);
        }
        tokio::time::sleep_until(at.into()).await;
        wait *= 2;
    };
    import.note(row, &made);
    made
}

/// The row whose answer was lost, when its key is found within a while.
async fn arrived(import: &Import, row: &Planned, act: &Act<'_, '_>) -> Option<String> {
    let (keys, key) = (import.keys(act)?, row.key.as_ref()?);
    for pause in LOOKS {
        if act.budget.is_over() || is_late(None, act) {
            break;
        }
        // Whoever has gone is not waited for.
        _ = tokio::time::timeout(pause, act.budget.cancel().cancelled()).await;
        // A look-up that fails tells nothing; the next one may.
        if let Ok(Some(id)) = keys.one(key).await {
            return Some(id);
        }
    }
    None
}

/// Whether a row may be there although sending it failed.
fn is_unclear(error: &pipefy::Error) -> bool {
    // Whatever a large answer says, it is an answer to what was done.
    error.may_have_been_applied() || matches!(error, pipefy::Error::TooLarge { .. })
}

fn sentence_of(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// How long to wait where a failure passes by itself and nothing was applied.
fn passes(error: &pipefy::Error) -> Option<Duration> {
    match error {
        pipefy::Error::RateLimited { retry_after_s, .. } => Some(Duration::from_secs(*retry_after_s)),
        pipefy::Error::Transport { sent: false, .. } => Some(Duration::ZERO),
        _ => None,
    }
}

/// What became of the rows so far.
struct Tally<'a> {
    import: &'a Import,
    lines: Vec<(usize, Value)>,
    created: usize,
    there: usize,
    failed: usize,
    unclear: usize,
    in_a_row: usize,
    first: Option<(usize, ToolError)>,
}

impl<'a> Tally<'a> {
    /// With the rows that need not be sent.
    fn new(import: &'a Import) -> Self {
        let mut tally =
            Self { import, lines: Vec::new(), created: 0, there: 0, failed: 0, unclear: 0, in_a_row: 0, first: None };
        for row in &import.rows {
            match &row.fate {
                Fate::Create => {}
                Fate::There(id) => {
                    tally.there += 1;
                    tally.well(line(row, "exists", id.as_deref(), None), row);
                }
                Fate::Unclear => tally.ill(row, "unknown", ToolError::api(import.unclear())),
            }
        }
        tally
    }

    fn well(&mut self, line: Value, row: &Planned) {
        if self.import.every_result {
            self.lines.push((row.number, line));
        }
    }

    fn ill(&mut self, row: &Planned, result: &str, error: ToolError) {
        match result {
            "unknown" => self.unclear += 1,
            _ => self.failed += 1,
        }
        self.lines.push((row.number, line(row, result, None, Some(&error.message))));
        if self.first.as_ref().is_none_or(|(number, _)| row.number < *number) {
            self.first = Some((row.number, error));
        }
    }

    /// Takes what became of a row; whether there is any use in going on.
    fn add(&mut self, row: &Planned, made: Result<Option<String>, Failed>) -> bool {
        match made {
            Ok(id) => {
                self.created += 1;
                self.in_a_row = 0;
                self.well(line(row, "created", id.as_deref(), None), row);
                true
            }
            Err(failed) => {
                self.in_a_row += 1;
                self.ill(row, if failed.unclear { "unknown" } else { "failed" }, failed.error);
                !failed.everybodys && self.in_a_row < FAILURES
            }
        }
    }

    fn done(&self) -> usize {
        self.created + self.there + self.failed + self.unclear
    }

    fn sentence(&self) -> String {
        let mut text = format!("{} created, {} there already, {} failed", self.created, self.there, self.failed);
        if self.unclear > 0 {
            text.push_str(&format!(", {} unknown", self.unclear));
        }
        text
    }

    fn outcome(mut self) -> Result<Outcome, ToolError> {
        let total = self.import.rows.len();
        let left = total - self.done();
        self.lines.sort_by_key(|(number, _)| *number);
        if !self.import.every_result {
            self.lines.truncate(LISTED);
        }
        let mut facts = Map::new();
        for (name, count) in [
            ("created", self.created),
            ("existing", self.there),
            ("failed", self.failed),
            ("unknown", self.unclear),
            ("left", left),
        ] {
            facts.insert(name.to_owned(), count.into());
        }
        let sentence = self.sentence();
        let journal = self.import.journal.as_ref().map(|(_, path)| path.display().to_string());
        facts.extend(journal.map(|path| ("journal".to_owned(), path.into())));
        let on = match (left, self.import.key.is_some() || self.import.journal.is_some()) {
            (0, _) => String::new(),
            (left, true) => format!(" {left} rows are left; the same call goes on."),
            (left, false) => format!(" {left} rows are left."),
        };
        let lines: Vec<Value> = self.lines.into_iter().map(|(_, line)| line).collect();
        facts.insert("rows".to_owned(), lines.into());
        let Some((number, mut error)) = self.first else {
            return Ok(Outcome::new(facts).message(format!("{sentence}.{on}")));
        };
        if total > 1 {
            error.message = format!("{sentence}.{on} Row {number}: {}", error.message);
        }
        if self.unclear > 0 {
            error.details.insert("may_have_been_applied".to_owned(), true.into());
        }
        error.details.extend(facts);
        Err(error)
    }
}

/// Looks whether every row of the plan is there by now.
pub(super) async fn verify(plan: &Plan<Import>, call: &Call<'_>) -> Option<Verification> {
    let import = &plan.keep;
    let Some(keys) = import.keys(call) else {
        return Some(Verification::unknown("rows without a key cannot be looked up"));
    };
    let wanted: Vec<String> = import.rows.iter().map(|row| row.mark.clone()).collect();
    Some(match keys.known(&wanted).await {
        Ok(known) => {
            let found = wanted.iter().filter(|key| known.contains_key(*key)).count();
            Verification::of(
                found == wanted.len(),
                format!("looked for the keys: {found} of {} are there", wanted.len()),
            )
        }
        Err(error) => Verification::unknown(error.message),
    })
}
