//! Scope pins: which pipes, tables and organisation calls may touch (`--scope`).
//!
//! Before a tool runs, every id in its arguments is traced to the pipe, table or organisation it belongs to: the ids that
//! the operation declares ([`crate::Op::touches`]), and those in free objects, by the names that the API gives them. What
//! belongs elsewhere is refused, and so is what cannot be traced: a doubt is a no. What an operation reaches beyond its ids
//! is [`Reach`]. Listings lose their foreign rows and say so.
//!
//! Tracing costs small reads, whose answers are kept for a while: which pipe a card is in is the same for everybody, and
//! whether the caller may see the card is still Pipefy's to say.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use moka::future::Cache;
use pipefy::scope::Lookup;
use pipefy::settings::ScopePins;
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::error::{Kind, ToolError};
use crate::op::{IdKind, Op, Reach};
use crate::outcome::{Body, Outcome, dig};

/// How many traced ids are kept.
const KEPT: u64 = 10_000;
/// How long a traced id is believed.
const BELIEVED: Duration = Duration::from_secs(300);
/// Arguments whose keys are a form's own field ids, not the API's names.
const FORM: &str = "fields";

/// What calls may touch. Made once per process; shared by all calls.
pub struct Scope {
    pins: ScopePins,
    /// Names of a pipe, table or organisation and of its organisation.
    facts: Cache<(Lookup, String), Arc<Facts>>,
    /// Owners of what is no pipe, table or organisation itself.
    owners: Cache<(IdKind, String), Arc<[Owner]>>,
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("pins", &self.pins).finish_non_exhaustive()
    }
}

/// A pipe or table that something belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Pipe(String),
    Table(String),
    /// One of the two.
    Repo(String),
}

/// The names of one thing and of the organisation it belongs to.
#[derive(Debug, Default)]
struct Facts {
    names: Vec<String>,
    organization: Vec<String>,
}

/// One id in the arguments.
struct Named {
    /// Where it is, dotted.
    place: String,
    kind: IdKind,
    within: bool,
    id: String,
}

/// Why an id is refused.
#[allow(clippy::large_enum_variant, reason = "it is on its way to an answer, one at a time")]
enum No {
    /// It belongs to something outside.
    Foreign,
    /// It cannot be traced.
    Untraceable,
    /// The read that would tell failed.
    Unread(ToolError),
}

impl From<pipefy::Error> for No {
    fn from(error: pipefy::Error) -> Self {
        match error {
            pipefy::Error::NoPayload { .. } => Self::Untraceable,
            error => Self::Unread(error.into()),
        }
    }
}

impl Scope {
    /// From the settings; `None` when nothing is pinned.
    pub fn of(pins: &ScopePins) -> Option<Arc<Self>> {
        let cache = || Cache::builder().max_capacity(KEPT).time_to_live(BELIEVED).build();
        let owners = Cache::builder().max_capacity(KEPT).time_to_live(BELIEVED).build();
        (!pins.is_open()).then(|| Arc::new(Self { pins: pins.clone(), facts: cache(), owners }))
    }

    /// The pins, for people: `pipes 1, 2; tables 3; organization 4`.
    pub fn described(&self) -> String {
        let list = |what: &str, ids: &Option<Vec<String>>| ids.as_ref().map(|ids| format!("{what} {}", ids.join(", ")));
        let org = self.pins.org.as_ref().map(|id| format!("organization {id}"));
        [list("pipes", &self.pins.pipes), list("tables", &self.pins.tables), org]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Whether the pins go down to pipes or tables, so that a whole organisation is too much.
    fn is_fine(&self) -> bool {
        self.pins.pipes.is_some() || self.pins.tables.is_some()
    }

    /// Checks a call before it runs.
    ///
    /// # Errors
    /// `OUT_OF_SCOPE` with `details.argument` and `details.reason` (`foreign`, `untraceable`, `unread`, `operation`).
    pub(crate) async fn admit(
        &self,
        op: &Op,
        arguments: &Map<String, Value>,
        call: &Call<'_>,
    ) -> Result<(), ToolError> {
        match op.reach {
            Reach::Nothing => return Ok(()),
            Reach::Anything => return Err(self.whole(op, "what it touches depends on its input")),
            Reach::Organization if self.is_fine() => {
                return Err(self.whole(op, "it acts on the organization as a whole"));
            }
            Reach::Organization | Reach::Listing(_) | Reach::Named => {}
        }
        let named = named(op, arguments);
        let listing = matches!(op.reach, Reach::Listing(_));
        let mut anchors: Vec<Owner> = Vec::new();
        let mut anchored = false;
        // What stands for itself first: what is looked up inside of it needs it.
        let own = |named: &&Named| !named.within && !listed_only(named.kind) && named.kind != IdKind::Organization;
        for id in named.iter().filter(own) {
            let owners = self.owners(id.kind, &id.id, call).await.map_err(|no| self.refusal(op, id, no))?;
            self.hold_all(&owners, call).await.map_err(|no| self.refusal(op, id, no))?;
            anchors.extend(owners.iter().cloned());
            anchored = true;
        }
        for id in named.iter().filter(|named| !named.within && listed_only(named.kind)) {
            // A slug is no name of its own: other pipes have the same. It counts where what is sent says which is meant.
            let said = |other: &Named| {
                other.kind == IdKind::PipeUuid || (other.kind == IdKind::PhaseField && other.place != id.place)
            };
            let slugs = id.kind != IdKind::PhaseField || named.iter().any(said);
            let owner =
                self.lister(id.kind, &id.id, slugs, &anchors, call).await.map_err(|no| self.refusal(op, id, no))?;
            anchors.push(owner);
            anchored = true;
        }
        for id in named.iter().filter(|named| !named.within && named.kind == IdKind::Organization) {
            let held = match &self.pins.org {
                Some(_) => self.holds_organization(&id.id, call).await.map_err(|no| self.refusal(op, id, no))?,
                None => self.is_organization_of(&id.id, &anchors, call).await.map_err(|no| self.refusal(op, id, no))?,
            };
            if !held {
                return Err(self.refusal(op, id, No::Foreign));
            }
            // With pins below it an organisation says nothing by itself: another id must.
            anchored |= self.pins.org.is_some() && !self.is_fine();
        }
        if anchored || listing {
            return Ok(());
        }
        match named.first() {
            Some(id) if id.kind == IdKind::Organization => Err(self.whole(
                op,
                "an organization is more than the pinned pipes and tables; name one of them too, where the tool takes it",
            )),
            Some(id) => Err(self.refusal(op, id, No::Untraceable)),
            None => Err(self.whole(op, "nothing in this call says which pipe, table or organization it touches")),
        }
    }

    /// Whether a thing belongs to what may be touched. What cannot be traced does not.
    ///
    /// # Errors
    /// The read that would tell failed for a reason that is not the id's.
    pub async fn admits(&self, kind: IdKind, id: &str, call: &Call<'_>) -> Result<bool, ToolError> {
        let held = async {
            if kind == IdKind::Organization {
                return Ok(self.organizations(call).await?.contains(id));
            }
            let owners = self.owners(kind, id, call).await?;
            self.hold_all(&owners, call).await.map(|()| true)
        };
        match held.await {
            Ok(held) => Ok(held),
            Err(No::Unread(error)) if error.kind != Kind::Api => Err(unread(error)),
            Err(_) => Ok(false),
        }
    }

    /// Drops the foreign rows of a listing and says so.
    ///
    /// # Errors
    /// Whose rows they are cannot be told.
    pub(crate) async fn trim(&self, op: &Op, mut outcome: Outcome, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let Reach::Listing(lists) = op.reach else { return Ok(outcome) };
        if outcome.whole {
            return Ok(outcome);
        }
        let mut value = outcome.body.into_value();
        let mut dropped = 0;
        for (path, kind) in lists {
            let steps: Vec<&str> = path.split('.').collect();
            dropped += self.trim_at(&mut value, &steps, *kind, call).await.map_err(|no| match no {
                No::Unread(error) => unread(error),
                No::Foreign | No::Untraceable => self.whole(op, "whose rows these are cannot be told"),
            })?;
        }
        outcome.body = Body::Value(value);
        if dropped == 0 {
            return Ok(outcome);
        }
        let note =
            format!("{dropped} rows outside of the scope ({}) are left out; totals count them.", self.described());
        Ok(outcome.extra("scope", json!({ "dropped": dropped, "note": note })))
    }

    fn trim_at<'a>(
        &'a self,
        value: &'a mut Value,
        steps: &'a [&'a str],
        kind: IdKind,
        call: &'a Call<'_>,
    ) -> BoxFuture<'a, Result<usize, No>> {
        Box::pin(async move {
            let Some((step, rest)) = steps.split_first() else { return Ok(0) };
            let Some(under) = value.get_mut(*step) else { return Ok(0) };
            let Value::Array(rows) = under else { return self.trim_at(under, rest, kind, call).await };
            let mut dropped = 0;
            if rest.is_empty() {
                let mut kept = Vec::with_capacity(rows.len());
                for row in std::mem::take(rows) {
                    if self.holds_row(&row, kind, call).await? { kept.push(row) } else { dropped += 1 }
                }
                *rows = kept;
            } else {
                for row in rows.iter_mut() {
                    dropped += self.trim_at(row, rest, kind, call).await?;
                }
            }
            Ok(dropped)
        })
    }

    /// Whether a row of a listing belongs here. The row is what `kind` says, or holds it under `pipe`.
    async fn holds_row(&self, row: &Value, kind: IdKind, call: &Call<'_>) -> Result<bool, No> {
        let row = row.get("node").unwrap_or(row);
        let names = texts(row, &["id", "uuid", "suid"]);
        // A row that says what it is needs no look-up to tell.
        let kind = match (kind, row.get("type").and_then(Value::as_str)) {
            (IdKind::Repo, Some("Pipe")) => IdKind::Pipe,
            (IdKind::Repo, Some("Table")) => IdKind::Table,
            (kind, _) => kind,
        };
        match kind {
            IdKind::Organization => {
                // What was left of its own rows keeps it, unless an organisation is pinned.
                let filled = |key: &str| row.get(key).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
                if self.pins.org.is_none() && (filled("pipes") || filled("tables")) {
                    return Ok(true);
                }
                let own = self.organizations(call).await?;
                Ok(names.iter().any(|name| own.contains(name)))
            }
            IdKind::Pipe if self.pins.pipes.is_none() && self.pins.org.is_none() => Ok(true),
            IdKind::Table if self.pins.tables.is_none() && self.pins.org.is_none() => Ok(true),
            // A relation's row: it belongs to the pipe or table at its other end.
            IdKind::Relation => {
                let other = row.get("pipe").map(|pipe| texts(pipe, &["id", "uuid"])).unwrap_or_default();
                self.any(other, Owner::Repo, call).await
            }
            IdKind::Pipe => self.any(names, Owner::Pipe, call).await,
            IdKind::Table => self.any(names, Owner::Table, call).await,
            _ => self.any(names, Owner::Repo, call).await,
        }
    }

    async fn any(&self, names: Vec<String>, owner: fn(String) -> Owner, call: &Call<'_>) -> Result<bool, No> {
        let mut recognised = false;
        for name in names {
            match self.holds(&owner(name), call).await {
                Ok(true) => return Ok(true),
                Ok(false) => recognised = true,
                // Not every name can be asked for; one that was understood has told already whose row it is.
                Err(No::Unread(_)) if recognised => {}
                Err(No::Untraceable) => {}
                Err(no) => return Err(no),
            }
        }
        Ok(false)
    }

    /// The names of the organisations that are pinned, or that the pinned pipes and tables belong to.
    async fn organizations(&self, call: &Call<'_>) -> Result<BTreeSet<String>, No> {
        let mut names = BTreeSet::new();
        if let Some(org) = &self.pins.org {
            names.extend(self.facts(Lookup::Organization, org, call).await?.names.iter().cloned());
            return Ok(names);
        }
        for (lookup, ids) in [(Lookup::Pipe, &self.pins.pipes), (Lookup::Table, &self.pins.tables)] {
            for id in ids.iter().flatten() {
                names.extend(self.facts(lookup, id, call).await?.organization.iter().cloned());
            }
        }
        Ok(names)
    }

    async fn hold_all(&self, owners: &[Owner], call: &Call<'_>) -> Result<(), No> {
        if owners.is_empty() {
            return Err(No::Untraceable);
        }
        for owner in owners {
            if !self.holds(owner, call).await? {
                return Err(No::Foreign);
            }
        }
        Ok(())
    }

    /// Whether a pipe or table is one that may be touched.
    async fn holds(&self, owner: &Owner, call: &Call<'_>) -> Result<bool, No> {
        let (pipes, tables) = (&self.pins.pipes, &self.pins.tables);
        let (lookup, id) = match owner {
            Owner::Pipe(id) => match pipes {
                Some(pins) if !self.is_pinned(Lookup::Pipe, pins, id, call).await => return Ok(false),
                _ => (Lookup::Pipe, id),
            },
            Owner::Table(id) => match tables {
                Some(pins) if !self.is_pinned(Lookup::Table, pins, id, call).await => return Ok(false),
                _ => (Lookup::Table, id),
            },
            Owner::Repo(id) => {
                if let Some(pins) = pipes
                    && self.is_pinned(Lookup::Pipe, pins, id, call).await
                {
                    (Lookup::Pipe, id)
                } else if let Some(pins) = tables
                    && self.is_pinned(Lookup::Table, pins, id, call).await
                {
                    (Lookup::Table, id)
                } else {
                    // Not pinned: only something of the kind that is not restricted may be touched.
                    let lookup = self.which(id, call).await?;
                    let restricted = if lookup == Lookup::Pipe { pipes } else { tables };
                    if restricted.is_some() {
                        return Ok(false);
                    }
                    (lookup, id)
                }
            }
        };
        let Some(org) = &self.pins.org else { return Ok(true) };
        let facts = self.facts(lookup, id, call).await?;
        let own = self.facts(Lookup::Organization, org, call).await?;
        Ok(facts.organization.iter().any(|name| own.names.contains(name)))
    }

    /// Whether an id is that of a pipe or of a table.
    async fn which(&self, id: &str, call: &Call<'_>) -> Result<Lookup, No> {
        if self.pins.pipes.is_some() && self.pins.tables.is_some() {
            return Ok(Lookup::Pipe);
        }
        match self.facts(Lookup::Pipe, id, call).await {
            Ok(_) => return Ok(Lookup::Pipe),
            Err(No::Unread(error)) if error.kind != Kind::Api => return Err(No::Unread(error)),
            Err(_) => {}
        }
        self.facts(Lookup::Table, id, call).await.map(|_| Lookup::Table)
    }

    /// Whether `id` is one of the pins, under whichever of its names.
    async fn is_pinned(&self, lookup: Lookup, pins: &[String], id: &str, call: &Call<'_>) -> bool {
        if pins.iter().any(|pin| pin == id) {
            return true;
        }
        for pin in pins {
            // A pin that cannot be read has no other names that are known.
            if self.facts(lookup, pin, call).await.is_ok_and(|facts| facts.names.iter().any(|name| name == id)) {
                return true;
            }
        }
        false
    }

    async fn holds_organization(&self, id: &str, call: &Call<'_>) -> Result<bool, No> {
        let Some(org) = &self.pins.org else { return Ok(false) };
        Ok(org == id || self.facts(Lookup::Organization, org, call).await?.names.iter().any(|name| name == id))
    }

    /// Whether an organisation is that of one of these. Where nothing else is named, what is below it decides: foreign rows
    /// are dropped, and a call without rows is refused.
    async fn is_organization_of(&self, id: &str, owners: &[Owner], call: &Call<'_>) -> Result<bool, No> {
        for owner in owners {
            let facts = match owner {
                Owner::Pipe(pipe) => self.facts(Lookup::Pipe, pipe, call).await?,
                Owner::Table(table) => self.facts(Lookup::Table, table, call).await?,
                Owner::Repo(repo) => match self.facts(Lookup::Pipe, repo, call).await {
                    Ok(facts) => facts,
                    Err(_) => self.facts(Lookup::Table, repo, call).await?,
                },
            };
            if facts.organization.iter().any(|name| name == id) {
                return Ok(true);
            }
        }
        Ok(owners.is_empty())
    }

    /// The names of a pipe, table or organisation.
    async fn facts(&self, lookup: Lookup, id: &str, call: &Call<'_>) -> Result<Arc<Facts>, No> {
        let key = (lookup, id.to_owned());
        if let Some(known) = self.facts.get(&key).await {
            return Ok(known);
        }
        let data = call.session.query(&lookup.of(id), &call.budget).await?.value();
        let root = match lookup {
            Lookup::Pipe => "pipe",
            Lookup::Table => "table",
            _ => "organization",
        };
        let thing = data.get(root).filter(|thing| thing.is_object()).ok_or(No::Untraceable)?;
        let mut organization = texts(thing, &["organizationId"]);
        organization.extend(thing.get("organization").map(|org| texts(org, &["id", "uuid"])).unwrap_or_default());
        let facts = Arc::new(Facts { names: texts(thing, &["id", "uuid", "suid", "internal_id"]), organization });
        self.facts.insert(key, facts.clone()).await;
        Ok(facts)
    }

    /// The pipes and tables something belongs to. All of them must be ours.
    fn owners<'a>(&'a self, kind: IdKind, id: &'a str, call: &'a Call<'_>) -> BoxFuture<'a, Result<Arc<[Owner]>, No>> {
        Box::pin(async move {
            let one = |owner: Owner| -> Result<Arc<[Owner]>, No> { Ok(Arc::from([owner].as_slice())) };
            let lookup = match kind {
                IdKind::Pipe | IdKind::PipeUuid => return one(Owner::Pipe(id.to_owned())),
                IdKind::Table => return one(Owner::Table(id.to_owned())),
                IdKind::Repo => return one(Owner::Repo(id.to_owned())),
                IdKind::Card => Lookup::Card,
                IdKind::TableRecord => Lookup::TableRecord,
                IdKind::Phase => Lookup::Phase,
                IdKind::FieldCondition => Lookup::FieldCondition,
                IdKind::Automation => Lookup::Automation,
                IdKind::Agent => Lookup::Agent,
                IdKind::AgentLog => Lookup::AgentLog,
                IdKind::Relation => Lookup::PipeRelation,
                IdKind::TableRelation => Lookup::TableRelation,
                IdKind::OrganizationReport => Lookup::OrganizationReport,
                IdKind::OrganizationReportExport => Lookup::OrganizationReportExport,
                IdKind::ReportExport => Lookup::PipeReportExport,
                IdKind::EmailTemplate => Lookup::EmailTemplate,
                _ => return Err(No::Untraceable),
            };
            let key = (kind, id.to_owned());
            if let Some(known) = self.owners.get(&key).await {
                return Ok(known);
            }
            let data = call.session.query(&lookup.of(id), &call.budget).await?.value();
            let at = |path: &str| dig(&data, path).and_then(text);
            let owners: Vec<Owner> = match kind {
                IdKind::Card => at("card.pipe.id").map(Owner::Pipe).into_iter().collect(),
                IdKind::TableRecord => at("table_record.table.id").map(Owner::Table).into_iter().collect(),
                IdKind::Phase => at("phase.repo_id").map(Owner::Repo).into_iter().collect(),
                IdKind::FieldCondition => at("fieldCondition.phase.repo_id").map(Owner::Repo).into_iter().collect(),
                IdKind::Automation => ["automation.event_repo.id", "automation.action_repo_v2.id"]
                    .into_iter()
                    .filter_map(|path| at(path).map(Owner::Repo))
                    .collect(),
                IdKind::Agent => at("aiAgent.repoUuid").map(Owner::Repo).into_iter().collect(),
                IdKind::AgentLog => {
                    let agent = at("aiAgentLogDetails.agentUuid").ok_or(No::Untraceable)?;
                    return self.owners(IdKind::Agent, &agent, call).await;
                }
                IdKind::Relation => both_ends(&data, "pipe_relations"),
                IdKind::TableRelation => both_ends(&data, "table_relations"),
                IdKind::OrganizationReport => repos(dig(&data, "organizationReport.repos")),
                IdKind::OrganizationReportExport => repos(dig(&data, "organizationReportExport.report.repos")),
                IdKind::ReportExport => {
                    let report = at("pipeReportExport.report.id").ok_or(No::Untraceable)?;
                    let owner = self.lister(IdKind::Report, &report, true, &[], call).await?;
                    return one(owner);
                }
                IdKind::EmailTemplate => at("parsedEmailTemplate.repoId").map(Owner::Repo).into_iter().collect(),
                _ => Vec::new(),
            };
            if owners.is_empty() {
                return Err(No::Untraceable);
            }
            let owners: Arc<[Owner]> = owners.into();
            self.owners.insert(key, owners.clone()).await;
            Ok(owners)
        })
    }

    /// Which of the pinned pipes and tables, or of those that the call names anyway, lists something that does not say
    /// itself where it belongs.
    async fn lister(
        &self,
        kind: IdKind,
        id: &str,
        slugs: bool,
        anchors: &[Owner],
        call: &Call<'_>,
    ) -> Result<Owner, No> {
        let key = (kind, id.to_owned());
        let keeps = kind != IdKind::PhaseField;
        if keeps && let Some(known) = self.owners.get(&key).await {
            // Known from some call; whether it is ours is asked again.
            self.hold_all(&known, call).await?;
            return known.first().cloned().ok_or(No::Untraceable);
        }
        let pins = |ids: &Option<Vec<String>>, owner: fn(String) -> Owner| -> Vec<Owner> {
            ids.iter().flatten().cloned().map(owner).collect()
        };
        let mut places: Vec<Owner> = anchors.to_vec();
        places.extend(pins(&self.pins.pipes, Owner::Pipe));
        places.extend(pins(&self.pins.tables, Owner::Table));
        places.dedup();
        for place in places {
            let (lookups, repo): (&[Lookup], &str) = match &place {
                Owner::Pipe(id) => (&[Lookup::PipeContents], id),
                Owner::Table(id) => (&[Lookup::TableContents], id),
                Owner::Repo(id) => (&[Lookup::PipeContents, Lookup::TableContents], id),
            };
            for lookup in lookups {
                let data = match call.session.query(&lookup.of(repo), &call.budget).await {
                    Ok(data) => data.value(),
                    Err(error) => match ToolError::from(error) {
                        // Nothing to see there: the next place may have it.
                        unseen if unseen.kind == Kind::Api => continue,
                        error => return Err(No::Unread(error)),
                    },
                };
                if lists(&data, kind, id, slugs) && self.holds(&place, call).await? {
                    if keeps {
                        self.owners.insert(key, Arc::from([place.clone()].as_slice())).await;
                    }
                    return Ok(place);
                }
            }
        }
        Err(No::Untraceable)
    }

    fn refusal(&self, op: &Op, id: &Named, no: No) -> ToolError {
        let place = &id.place;
        let (why, reason) = match no {
            No::Foreign => ("names something outside of the scope".to_owned(), "foreign"),
            No::Untraceable => {
                ("cannot be traced to a pipe, table or organization of the scope".to_owned(), "untraceable")
            }
            No::Unread(error) if error.kind == Kind::Api => {
                (format!("cannot be traced to the scope ({})", error.message.trim_end_matches('.')), "unread")
            }
            No::Unread(error) => return unread(error),
        };
        ToolError::new(
            Kind::Refused,
            format!("{}: `{place}` {why} ({}). Nothing was changed.", op.name, self.described()),
        )
        .code("OUT_OF_SCOPE")
        .detail("argument", place.clone())
        .detail("reason", reason)
    }

    fn whole(&self, op: &Op, why: &str) -> ToolError {
        ToolError::new(
            Kind::Refused,
            format!("{} is not available within the scope ({}): {why}. Nothing was sent.", op.name, self.described()),
        )
        .code("OUT_OF_SCOPE")
        .detail("reason", "operation")
    }
}

/// The read that would tell failed for a reason that is not the id's: the cause stays what it is.
fn unread(mut error: ToolError) -> ToolError {
    error.message = format!("The scope could not be checked, so nothing was done: {}", error.message);
    error
}

/// Kinds that say nothing about themselves: their pipe or table lists them.
fn listed_only(kind: IdKind) -> bool {
    matches!(kind, IdKind::Label | IdKind::Report | IdKind::Webhook | IdKind::PhaseField | IdKind::TableField)
}

/// Every id in the arguments: those that the operation declares, then those in free objects.
fn named(op: &Op, arguments: &Map<String, Value>) -> Vec<Named> {
    let mut found = Vec::new();
    for declared in op.touches {
        if let Some(value) = arguments.get(declared.arg) {
            add(value, declared.arg, declared.kind, declared.within, &mut found);
        }
    }
    for (name, value) in arguments {
        if name != FORM && !op.touches.iter().any(|declared| declared.arg == name) {
            walk(value, name, &mut found);
        }
    }
    found
}

fn add(value: &Value, place: &str, kind: IdKind, within: bool, found: &mut Vec<Named>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| add(value, place, kind, within, found)),
        value => found.extend(text(value).map(|id| Named { place: place.to_owned(), kind, within, id })),
    }
}

fn walk(value: &Value, place: &str, found: &mut Vec<Named>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let place = format!("{place}.{key}");
                match kind_of(key) {
                    Some(kind) if !value.is_object() => add(value, &place, kind, false, found),
                    _ => walk(value, &place, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| walk(value, place, found)),
        _ => {}
    }
}

/// What the API's own input types mean by a key, in either spelling. Keys that only select inside of what the call names
/// (fields, labels, assignees) are none of these.
fn kind_of(key: &str) -> Option<IdKind> {
    let key: String = key.chars().filter(|c| *c != '_').collect::<String>().to_ascii_lowercase();
    Some(match key.as_str() {
        "pipeid" | "pipeids" | "pipetemplateids" => IdKind::Pipe,
        "pipeuuid" | "pipeuuids" => IdKind::PipeUuid,
        "tableid" | "tableids" => IdKind::Table,
        "repoid" | "repoids" | "repouuid" | "eventrepoid" | "actionrepoid" | "connectedrepoid" | "sourcerepoid" => {
            IdKind::Repo
        }
        "cardid" | "cardids" | "parentids" | "samplecardid" => IdKind::Card,
        "tablerecordid" | "tablerecordids" => IdKind::TableRecord,
        "phaseid" | "phaseids" | "tophaseid" | "inphaseid" | "fromphaseid" | "destinationphaseid" => IdKind::Phase,
        "organizationid" | "organizationuuid" | "orgid" | "orguuid" => IdKind::Organization,
        "emailtemplateid" => IdKind::EmailTemplate,
        "automationid" | "automationids" | "triggerautomationid" => IdKind::Automation,
        "agentuuid" => IdKind::Agent,
        "datasourceids" => IdKind::KnowledgeBase,
        "skillsids" => IdKind::Other,
        "fieldconditionid" | "fieldconditionids" => IdKind::FieldCondition,
        _ => return None,
    })
}

/// Both ends of every relation in the answer.
fn both_ends(data: &Value, root: &str) -> Vec<Owner> {
    let relations = data.get(root).and_then(Value::as_array).into_iter().flatten();
    relations
        .flat_map(|relation| ["parent.id", "child.id"].map(|path| dig(relation, path).and_then(text)))
        .map(|end| end.map_or_else(|| Owner::Repo(String::new()), Owner::Repo))
        .collect()
}

fn repos(list: Option<&Value>) -> Vec<Owner> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|repo| repo.get("id").and_then(text)).map(Owner::Repo).collect()
}

/// Whether the contents of a pipe or table hold this id. `slugs`: a field's slug counts as well.
fn lists(data: &Value, kind: IdKind, id: &str, slugs: bool) -> bool {
    let Some(repo) = data.get("pipe").or_else(|| data.get("table")).filter(|repo| repo.is_object()) else {
        return false;
    };
    let rows = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let all: Vec<Value> = match kind {
        IdKind::Label => rows(repo.get("labels")),
        IdKind::Report => rows(repo.get("reports")),
        IdKind::Webhook => rows(repo.get("webhooks")),
        IdKind::TableField => rows(repo.get("table_fields")),
        IdKind::PhaseField => {
            let mut fields = rows(repo.get("start_form_fields"));
            fields.extend(rows(repo.get("phases")).iter().flat_map(|phase| rows(phase.get("fields"))));
            fields
        }
        _ => Vec::new(),
    };
    let names: &[&str] = if slugs { &["id", "internal_id", "uuid"] } else { &["internal_id", "uuid"] };
    all.iter().any(|row| texts(row, names).iter().any(|name| name == id))
}

/// An id as text; blank and null are none.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn texts(value: &Value, keys: &[&str]) -> Vec<String> {
    keys.iter().filter_map(|key| value.get(*key).and_then(text)).collect()
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
