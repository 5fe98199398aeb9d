//! `pipe pull`, `pipe diff`, `pipe apply`: a pipe as code.
//!
//! [`read`] makes a list of [`things`] from what Pipefy says, [`text`] from a file. Two lists are compared, and [`send`]
//! makes each difference with the capability for it. Applying reads and compares again until nothing differs, so an apply
//! that broke off, in whatever way, is simply run again.

mod read;
mod refs;
mod send;
mod settings;
mod text;
mod things;

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use pipefy::{organizations, pipes};
use pipefy_tools::{IdKind, dig};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::flow::Flow;
use crate::output::{Body, Shown};
use crate::{prompt, values};
use read::Live;
use things::{Change, How, Kind, Thing};

pub(crate) use send::CALLS;

type Args = Map<String, Value>;
type Work<'a> = BoxFuture<'a, Result<Shown, Failure>>;

/// Most bytes of a file.
const FILE_LIMIT: u64 = 10 * 1024 * 1024;

/// How often an apply compares: for new names, for what is made anew, for the rest, and to see that nothing is left.
const PASSES: usize = 6;

/// What people are shown in the place of an empty table.
const SAME: &str = "no differences";

fn given<'v>(args: &'v Args, name: &str) -> &'v str {
    args.get(name).and_then(Value::as_str).map(str::trim).unwrap_or_default()
}

/// `pipe pull`
pub(crate) fn pull<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    Box::pin(async move {
        let live = read::read(flow, given(&args, "pipe_id")).await?;
        Ok(Shown::text(text::write(&live.things, &live.not_covered)))
    })
}

/// `pipe diff`
pub(crate) fn diff<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    Box::pin(async move {
        let file = File::open(&args)?;
        let id = file.target(flow, &args).await?.ok_or_else(|| {
            Failure::refused(format!(
                "There is no pipe called {}. Name its id: pipefy pipe diff FILE PIPE_ID",
                file.name
            ))
        })?;
        let live = read::read(flow, &id).await?;
        let changes = things::diff(&live.things, &file.want);
        let shown = rows(&live.id, changes.iter().map(Change::row).collect());
        Ok(match (changes.is_empty(), is_naming(&changes)) {
            (true, _) => Shown {
                body: Body::Either(SAME.into(), json!({"pipe_id": live.id, "changes": []})),
                ..Shown::default()
            }
            .note(format!("note: pipe {} is as the file says", live.id)),
            (_, true) => shown.note("note: what else differs is told once the names are changed").code(2),
            _ => shown.code(2),
        })
    })
}

/// `pipe apply`
pub(crate) fn apply<'a>(flow: &'a Flow<'a>, args: Args) -> Work<'a> {
    Box::pin(async move {
        let file = File::open(&args)?;
        let dry = args.get("dry_run") == Some(&true.into());
        let (id, new) = match file.target(flow, &args).await? {
            Some(id) => (id, false),
            None if dry => {
                let plan = things::diff(&[], &file.want);
                send::sound(&plan)?;
                return Ok(rows("", plan.iter().map(Change::row).collect())
                    .note(format!("note: nothing was sent; the pipe {} would be created", file.name)));
            }
            None => (file.create(flow, &args).await?, true),
        };
        if dry {
            let live = read::read(flow, &id).await?;
            let plan = things::diff(&live.things, &file.want);
            send::sound(&plan)?;
            let lost = plan.iter().filter(|change| send::loses(change, &live)).count();
            return Ok(rows(&id, plan.iter().map(Change::row).collect())
                .note(format!("note: nothing was sent; {} changes, {lost} of them for good", plan.len())));
        }
        let yes = args.get("yes") == Some(&true.into());
        Applied { id, new, yes, done: Vec::new(), failed: 0 }.run(flow, &file).await
    })
}

/// Whether only names are told.
fn is_naming(changes: &[Change]) -> bool {
    changes.iter().any(|change| matches!(change.how, How::Rename(_)))
}

fn rows(pipe: &str, rows: Vec<Value>) -> Shown {
    let whole = json!({ "pipe_id": pipe, "changes": rows });
    Shown { body: Body::Either(rows.into(), whole), ..Shown::default() }
}

/// A file, read and checked.
struct File {
    /// The name of the pipe in the file, under which its e-mail templates may be found.
    origin: String,
    /// The name that the pipe shall have.
    name: String,
    want: Vec<Thing>,
}

impl File {
    fn open(args: &Args) -> Result<Self, Failure> {
        let path = given(args, "file");
        let content = values::whole_file(path, FILE_LIMIT)?;
        let wrong = |what: String| Failure::refused(format!("{path}: {what}"));
        let mut want = text::read(&content).map_err(wrong)?;
        send::check(&want).map_err(wrong)?;
        let mut origin = String::new();
        let mut name = given(args, "name").to_owned();
        for pipe in want.iter_mut().filter(|thing| thing.kind == Kind::Pipe) {
            origin = pipe.body.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            if name.is_empty() {
                name.clone_from(&origin);
            }
            pipe.body.insert("name".to_owned(), name.as_str().into());
        }
        Ok(Self { origin, name, want })
    }

    /// The pipe that is meant: by its id, else by its name.
    async fn target(&self, flow: &Flow<'_>, args: &Args) -> Result<Option<String>, Failure> {
        let id = given(args, "pipe_id");
        if !id.is_empty() {
            return Ok(Some(id.to_owned()));
        }
        let wanted = organization(flow, args);
        let data = flow.read(&pipes::search_pipes(None)).await?;
        let mut found = Vec::new();
        for organization in read::things_of(&data, "organizations")? {
            let id = organization.get("id").map(refs::text).unwrap_or_default();
            if wanted.as_ref().is_some_and(|wanted| *wanted != id) {
                continue;
            }
            for pipe in read::things_of(organization, "pipes")? {
                let pipe_id = pipe.get("id").map(refs::text).unwrap_or_default();
                let named = pipe.get("name").and_then(Value::as_str) == Some(&self.name);
                // A pipe outside of the scope is not said to be there.
                if named && flow.holds(IdKind::Pipe, &pipe_id).await? {
                    found.push((pipe_id, id.clone()));
                }
            }
        }
        match found.as_slice() {
            [] => Ok(None),
            [(id, _)] => Ok(Some(id.clone())),
            several => {
                let several: Vec<String> =
                    several.iter().map(|(id, organization)| format!("{id} (organization {organization})")).collect();
                Err(Failure::refused(format!(
                    "{} pipes are called {}: {}. Give the id behind the file.",
                    several.len(),
                    self.name,
                    several.join(", ")
                )))
            }
        }
    }

    async fn create(&self, flow: &Flow<'_>, args: &Args) -> Result<String, Failure> {
        let organization = match organization(flow, args) {
            Some(id) => id,
            None => only_organization(flow).await?,
        };
        let arguments = Map::from_iter([
            ("name".to_owned(), self.name.as_str().into()),
            ("organization_id".to_owned(), organization.as_str().into()),
        ]);
        flow.admit("create_pipe", arguments.clone()).await?;
        send::sound(&things::diff(&[], &self.want))?;
        // Nothing is made as long as something that it names is missing.
        let nowhere = Live {
            id: String::new(),
            uuid: String::new(),
            organization,
            things: Vec::new(),
            rows: HashMap::new(),
            not_covered: Vec::new(),
        };
        send::Sender::new(flow, &nowhere, &self.want, &self.origin).await?;
        let made = flow.call("create_pipe", arguments).await?.body.into_value();
        let id = dig(&made, "createPipe.pipe.id").map(refs::text).filter(|id| !id.is_empty());
        id.ok_or_else(|| Failure::failed("Pipefy's answer names no new pipe; run the command again to go on."))
    }
}

/// The organization that is named.
fn organization(flow: &Flow<'_>, args: &Args) -> Option<String> {
    let named = Some(given(args, "organization_id").to_owned()).filter(|id| !id.is_empty());
    named.or_else(|| flow.target.settings.org_id.clone())
}

async fn only_organization(flow: &Flow<'_>) -> Result<String, Failure> {
    let data = flow.read(&organizations::list_organizations()).await?;
    match read::things_of(&data, "organizations")?.as_slice() {
        [one] => Ok(one.get("id").map(refs::text).unwrap_or_default()),
        several => {
            let line = |one: &Value| {
                let text = |key: &str| one.get(key).map(refs::text).unwrap_or_default();
                format!("{} ({})", text("id"), text("name"))
            };
            let list: Vec<String> = several.iter().map(|one| line(one)).collect();
            Err(Failure::refused(format!(
                "In which organization shall the pipe be created? Give --org: {}.",
                list.join(", ")
            )))
        }
    }
}

/// An apply under way.
struct Applied {
    id: String,
    /// Whether this run created the pipe: there is nothing in it to be lost.
    new: bool,
    /// Whether what is lost is agreed to.
    yes: bool,
    /// A row for each change.
    done: Vec<Value>,
    failed: usize,
}

impl Applied {
    async fn run(mut self, flow: &Flow<'_>, file: &File) -> Result<Shown, Failure> {
        let mut agreed: Vec<String> = Vec::new();
        let mut left = Vec::new();
        for _ in 0..PASSES {
            let live = read::read(flow, &self.id).await?;
            left = things::diff(&live.things, &file.want);
            send::sound(&left)?;
            let steps: Vec<Change> = send::steps(&left).into_iter().cloned().collect();
            if steps.is_empty() || self.failed > 0 {
                break;
            }
            if !self.new {
                self.ask(flow, &live, &steps, &mut agreed).await?;
            }
            let mut sender = send::Sender::new(flow, &live, &file.want, &file.origin).await?;
            for step in &steps {
                match sender.make(step).await {
                    Ok(()) => self.note(step, "done", None),
                    // One thing's trouble is not the others'; what is everybody's ends it.
                    Err(failure @ (Failure::Tool(_) | Failure::Plain { .. })) if !stops(&failure) => {
                        self.failed += 1;
                        self.note(step, "failed", failure.text());
                    }
                    Err(failure) => {
                        flow.terminal
                            .err(&format!("note: {} changes were made before; run it again to go on", self.done.len()));
                        return Err(failure);
                    }
                }
            }
        }
        let impossible: Vec<&Change> = left.iter().filter(|change| !send::is_possible(change)).collect();
        for change in &impossible {
            self.note(change, "not possible", Some("Pipefy's API cannot do it".to_owned()));
        }
        let made = self.done.iter().filter(|row| row.get("result").and_then(Value::as_str) == Some("done")).count();
        let mut shown = rows(&self.id, self.done);
        if let Body::Either(human, _) = &mut shown.body
            && human.as_array().is_some_and(Vec::is_empty)
        {
            *human = SAME.into();
        }
        let failed = self.failed;
        shown = shown.note(match left.len() - impossible.len() {
            0 => format!("note: {made} changes made; pipe {} is as the file says", self.id),
            _ if failed > 0 => format!("note: {made} changes made, {failed} failed; run it again to go on"),
            more => format!("warning: {made} changes made, and {more} differences are left; see pipefy pipe diff"),
        });
        Ok(shown.code(u8::from(failed > 0 || !left.is_empty())))
    }

    fn note(&mut self, change: &Change, result: &str, error: Option<String>) {
        let mut row = change.row();
        if let Value::Object(map) = &mut row {
            map.insert("result".to_owned(), result.into());
            map.extend(error.map(|error| ("error".to_owned(), error.into())));
        }
        self.done.push(row);
    }

    /// Asks before something is lost for good.
    async fn ask(
        &self,
        flow: &Flow<'_>,
        live: &Live,
        steps: &[Change],
        agreed: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let lost = steps.iter().filter(|change| send::loses(change, live));
        let lost: Vec<String> =
            lost.map(|change| format!("{} {}", change.thing.kind.word(), change.thing.name())).collect();
        let new: Vec<String> = lost.into_iter().filter(|name| !agreed.contains(name)).collect();
        if new.is_empty() {
            return Ok(());
        }
        prompt::confirm(&flow.terminal, &format!("permanently remove {}", new.join(", ")), self.yes).await?;
        agreed.extend(new);
        Ok(())
    }
}

/// Whether a failure is not about one change alone.
fn stops(failure: &Failure) -> bool {
    match failure {
        Failure::Tool(error) => matches!(error.kind, pipefy_tools::Kind::Transport | pipefy_tools::Kind::Cancelled),
        _ => false,
    }
}
