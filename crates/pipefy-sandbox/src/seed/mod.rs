//! A convincing organization, the same for the same number.

mod content;
mod extras;
mod plan;
mod showcase;

use crate::ctx::{Ctx, stamp};
use crate::domains::{cards, fields, members, phases, pipes, service_accounts, tables};
use crate::engine;
use crate::error::{GqlError, SandboxError};
use crate::json::{flag, set, text};
use crate::oauth;
use crate::object::Endpoint;
use crate::people::{ADMIN, GUEST, MEMBER, SERVICE_ACCOUNT_EMAIL, SERVICE_ACCOUNT_ID, SERVICE_ACCOUNT_SECRET};
use crate::store::{Data, Links, Store, mix};
use crate::values;
use content::Dice;
use jiff::SignedDuration;
use plan::{COLLEAGUES, FieldPlan, LABS_PIPE, PIPES, PipePlan, TABLES, TablePlan};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What was planted so far, by name.
pub(crate) struct Garden<'c> {
    ctx: &'c Ctx<'c>,
    dice: Dice,
    org: String,
    org_uuid: String,
    /// Ids of pipes and tables by name.
    repos: HashMap<&'static str, String>,
    /// Item ids (records and cards) by pipe or table name.
    items: HashMap<&'static str, Vec<String>>,
    /// Members that cards are given to.
    team: Vec<String>,
}

/// Organizations that were grown before in this process, by seed. A test run starts many sandboxes.
static NURSERY: Mutex<Option<Seedling>> = Mutex::new(None);

struct Seedling {
    seed: u64,
    grown: Instant,
    store: Store,
}

/// How long a grown organization serves as a pattern; its dates are relative to when it was grown.
const FRESH: Duration = Duration::from_secs(600);

/// Fills an empty store.
pub(crate) fn fill(store: &mut Store, seed: u64) -> Result<(), SandboxError> {
    let mut nursery = NURSERY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(seedling) = nursery.as_ref().filter(|s| s.seed == seed && s.grown.elapsed() < FRESH) {
        return Ok(store.copy_from(&seedling.store)?);
    }
    let (pattern, _) = Store::open(&Data::Memory, seed)?;
    pattern.atomic(|| plant(&pattern, seed))?;
    store.copy_from(&pattern)?;
    *nursery = Some(Seedling { seed, grown: Instant::now(), store: pattern });
    Ok(())
}

fn plant(store: &Store, seed: u64) -> Result<(), SandboxError> {
    let schema = engine::schema(Endpoint::Public)?;
    let admin = store.next_id("user")?;
    let ctx = Ctx::new(store, schema, admin, "");
    grow(&ctx, seed).map_err(|error| SandboxError::Start(format!("seed: {}", error.message)))
}

fn grow(ctx: &Ctx<'_>, seed: u64) -> Result<(), GqlError> {
    let created = stamp(back(ctx, 400 * 24));
    let admin = ctx.viewer.clone();
    person(ctx, &admin, ADMIN.name, ADMIN.email, &created)?;
    let member = ctx.new_id("user")?;
    person(ctx, &member, MEMBER.name, MEMBER.email, &created)?;
    let guest = ctx.new_id("user")?;
    person(ctx, &guest, GUEST.name, GUEST.email, &created)?;
    for (person, user) in [(ADMIN, &admin), (MEMBER, &member), (GUEST, &guest)] {
        oauth::admit(ctx.store, person.token, user, None)?;
    }
    let mut team = vec![admin.clone(), member.clone()];
    for (name, email) in COLLEAGUES {
        let id = ctx.new_id("user")?;
        person(ctx, &id, name, email, &created)?;
        team.push(id);
    }
    let (org, org_uuid) = organization(ctx, "Aurora Indústria & Serviços", "Enterprise", &created)?;
    let (labs, labs_uuid) = organization(ctx, "Aurora Labs", "Business", &created)?;
    let scope = format!("organization:{org}");
    for user in &team {
        members::join(ctx, &scope, user, if *user == admin { "admin" } else { "normal" })?;
    }
    members::join(ctx, &scope, &guest, "company_guest")?;
    members::join(ctx, &format!("organization:{labs}"), &admin, "admin")?;
    let bot = service_accounts::new_account(
        ctx,
        &org,
        "Integrations Bot",
        SERVICE_ACCOUNT_EMAIL,
        (SERVICE_ACCOUNT_ID, SERVICE_ACCOUNT_SECRET),
        "normal",
        300,
    )?;
    let bot = text(&bot, "user_id").to_owned();

    let mut garden = Garden {
        ctx,
        dice: Dice::new(mix(seed)),
        org,
        org_uuid,
        repos: HashMap::new(),
        items: HashMap::new(),
        team: team.clone(),
    };
    for table in &TABLES {
        garden.table(table)?;
    }
    for pipe in &PIPES {
        garden.pipe(pipe)?;
        let scope = format!("pipe:{}", garden.repo(pipe.name));
        members::join(ctx, &scope, &bot, "admin")?;
    }
    // The documented rights of the two people who are not administrators.
    let purchases = format!("pipe:{}", garden.repo("Purchase Requests"));
    let support = format!("pipe:{}", garden.repo("Customer Support"));
    members::join(ctx, &purchases, &guest, "creator")?;
    members::join(ctx, &support, &guest, "read_and_comment")?;
    for pipe in &PIPES {
        garden.cards(pipe)?;
    }
    garden.relations()?;
    extras::plant(&mut garden)?;
    // The rest of what the team shares is not for him.
    for (kind, other) in [
        ("pipe", "Employee Onboarding"),
        ("pipe", "Vendas B2B - São Paulo"),
        ("table", "Customers"),
        ("table", "Departments"),
    ] {
        ctx.remove("member", &format!("{kind}:{}/{member}", garden.repo(other)))?;
    }

    garden.org = labs;
    garden.org_uuid = labs_uuid;
    garden.team = vec![admin];
    garden.pipe(&LABS_PIPE)?;
    garden.cards(&LABS_PIPE)
}

fn back(ctx: &Ctx<'_>, hours: i64) -> jiff::Timestamp {
    ctx.now.checked_sub(SignedDuration::from_hours(hours)).unwrap_or(ctx.now)
}

fn person(ctx: &Ctx<'_>, id: &str, name: &str, email: &str, created: &str) -> Result<(), GqlError> {
    let uuid = ctx.new_uuid()?;
    let body = members::user_body(id, &uuid, name, email, created);
    ctx.put("user", id, &Links::default().uuid(&uuid).group(email), body)?;
    Ok(())
}

fn organization(ctx: &Ctx<'_>, name: &str, plan: &str, created: &str) -> Result<(String, String), GqlError> {
    let (id, uuid) = (ctx.new_id("organization")?, ctx.new_uuid()?);
    let body = json!({
        "id": id, "uuid": uuid, "name": name, "planName": plan, "created_at": created, "created_by": ctx.viewer, "freemium": false,
        "only_admin_can_create_pipes": true, "only_admin_can_invite_users": false,
    });
    ctx.put("organization", &id, &Links::default().uuid(&uuid), body)?;
    Ok((id, uuid))
}

impl Garden<'_> {
    pub(crate) fn repo(&self, name: &str) -> String {
        self.repos.get(name).cloned().unwrap_or_default()
    }

    fn field(
        &self,
        owner: &Value,
        owner_key: &str,
        repo: &str,
        plan: &FieldPlan,
        unique: bool,
    ) -> Result<String, GqlError> {
        let help = if plan.help.is_empty() { Value::Null } else { Value::from(plan.help) };
        let mut extra = json!({ "required": plan.required, "options": plan.options, "help": help, "unique": unique });
        if !plan.connects.is_empty() {
            set(&mut extra, "connectedRepoId", self.repo(plan.connects));
        }
        if plan.kind == "statement" {
            set(&mut extra, "description", "Requests above BRL 10,000 need a second approval.");
        }
        let field = fields::new_field(self.ctx, owner, owner_key, repo, plan.label, plan.kind, &extra)?;
        Ok(text(&field, "internal_id").to_owned())
    }

    fn table(&mut self, plan: &'static TablePlan) -> Result<(), GqlError> {
        let ctx = self.ctx;
        let table = tables::new_table(ctx, &self.org, plan.name, &json!({ "description": plan.description }))?;
        let id = text(&table, "$id").to_owned();
        self.repos.insert(plan.name, id.clone());
        for user in &self.team.clone() {
            if *user != ctx.viewer {
                members::join(ctx, &format!("table:{id}"), user, "member")?;
            }
        }
        let owner = ctx.must("table", "Table", &id)?;
        let mut first = None;
        for (index, field) in plan.fields.iter().enumerate() {
            let field = self.field(&owner, "table_id", &id, field, index == 0)?;
            first.get_or_insert(field);
        }
        let mut body = (*owner).clone();
        set(&mut body, "title_field_id", first.unwrap_or_default());
        ctx.save("table", &id, body)?;
        let fields = ctx.children("field", &id)?;
        for (index, title) in plan.titles.iter().enumerate() {
            let (record, uuid) = (ctx.new_id("table_record")?, ctx.new_uuid()?);
            let at = stamp(back(ctx, 3_000 - index as i64 * 40));
            let status = owner
                .get("statuses")
                .and_then(|s| s.get(usize::from(index % 7 == 6)))
                .map(|s| text(s, "id").to_owned());
            let mut body = json!({
                "id": record, "uuid": uuid, "title": title, "table_id": id, "created_at": at, "updated_at": at,
                "created_by": ctx.viewer, "due_date": null, "finished_at": null, "assignee_ids": [], "label_ids": [], "values": {},
                "status_id": status, "is_sample": false,
            });
            for (place, field) in fields.iter().enumerate() {
                let value = if place == 0 { json!(title) } else { self.value(field, &at)? };
                values::write(&mut body, field, value, &at);
            }
            ctx.put("table_record", &record, &Links::parent(&id).uuid(&uuid), body)?;
            self.items.entry(plan.name).or_default().push(record);
        }
        Ok(())
    }

    fn pipe(&mut self, plan: &'static PipePlan) -> Result<(), GqlError> {
        let ctx = self.ctx;
        let extra = json!({ "description": plan.description, "icon": plan.icon, "color": plan.color });
        let pipe = pipes::new_pipe(ctx, &self.org, plan.name, &extra)?;
        let id = text(&pipe, "id").to_owned();
        self.repos.insert(plan.name, id.clone());
        for user in &self.team.clone() {
            if *user != ctx.viewer {
                members::join(ctx, &format!("pipe:{id}"), user, "member")?;
            }
        }
        let form = ctx.must("phase", "Phase", text(&pipe, "startFormPhaseId"))?;
        let mut title = None;
        for field in plan.form {
            let field = self.field(&form, "phase_id", &id, field, false)?;
            title.get_or_insert(field);
        }
        let mut ids: HashMap<&str, String> = HashMap::new();
        for (index, phase) in plan.phases.iter().enumerate() {
            let late = if phase.late_after == 0 { Value::Null } else { json!(phase.late_after * 3_600) };
            let extra = json!({ "done": phase.done, "lateness_time": late });
            let planted = phases::new_phase(ctx, &id, phase.name, (index + 1) as f64, &extra)?;
            for field in phase.fields {
                self.field(&planted, "phase_id", &id, field, false)?;
            }
            ids.insert(phase.name, text(&planted, "id").to_owned());
        }
        phases::all_to_all(ctx, &id)?;
        for phase in plan.phases.iter().filter(|p| !p.moves.is_empty()) {
            let phase_id = ids.get(phase.name).cloned().unwrap_or_default();
            let mut body = (*ctx.must("phase", "Phase", &phase_id)?).clone();
            let moves: Vec<&String> = phase.moves.iter().filter_map(|name| ids.get(name)).collect();
            set(&mut body, "moves", json!(moves));
            ctx.save("phase", &phase_id, body)?;
        }
        for (name, color) in plan.labels {
            let label = ctx.new_id("label")?;
            let body = json!({ "id": label, "name": name, "color": color, "pipe_id": id });
            ctx.put("label", &label, &Links::parent(&id), body)?;
        }
        let mut body = (*ctx.must("pipe", "Pipe", &id)?).clone();
        set(&mut body, "title_field_id", title.unwrap_or_default());
        let mut preferences = body.get("preferences").cloned().unwrap_or_default();
        set(&mut preferences, "startFormTitle", plan.name);
        // The smaller plan has no AI.
        set(&mut preferences, "aiAgentsEnabled", plan.name != LABS_PIPE.name);
        set(&mut body, "preferences", preferences);
        ctx.save("pipe", &id, body)?;
        Ok(())
    }

    fn cards(&mut self, plan: &'static PipePlan) -> Result<(), GqlError> {
        let ctx = self.ctx;
        let pipe = ctx.must("pipe", "Pipe", &self.repo(plan.name))?;
        let id = text(&pipe, "id").to_owned();
        let board = phases::visible(ctx, &id)?;
        let form = ctx.children("field", text(&pipe, "startFormPhaseId"))?;
        let labels = ctx.children("label", &id)?;
        for number in 0..plan.cards {
            let age = 6 + self.dice.below(60 * 24) as i64;
            let born = back(ctx, age);
            let at = stamp(born);
            let (card, uuid) = (ctx.new_id("card")?, ctx.new_uuid()?);
            let title = self.title(plan, number);
            let creator = self.teammate();
            let mut body = json!({
                "id": card, "uuid": uuid, "suid": ctx.store.next_alnum()?, "title": title, "pipe_id": id, "phase_id": "",
                "created_at": at, "updated_at": at, "created_by": creator, "due_date": null, "finished_at": null,
                "started_current_phase_at": at, "assignee_ids": [], "label_ids": [], "values": {}, "history": [],
                "inbox_emails_read": number % 9 != 0, "emailMessagingAddress": format!("card+{card}@pipes.pipefy.example"),
            });
            for (place, field) in form.iter().enumerate() {
                if place == 0 {
                    values::write(&mut body, field, json!(title), &at);
                } else if flag(field, "required") || self.dice.chance(70) {
                    let value = self.value(field, &at)?;
                    if text(field, "type") == "due_date" {
                        set(&mut body, "due_date", value.clone());
                    }
                    values::write(&mut body, field, value, &at);
                }
            }
            // A walk over the board: each stop takes a share of the card's age.
            let stop = self.dice.below(board.len() as u64 + 1).min(board.len() as u64 - 1) as usize;
            let mut now = born;
            for (place, phase) in board.iter().enumerate().take(stop + 1) {
                let last = place == stop;
                if flag(phase, "done") && !last {
                    continue;
                }
                cards::enter(&mut body, phase, &stamp(now));
                let share = (age * 3_600 / (stop as i64 + 2)).max(60);
                let stay = 60 + self.dice.below(share as u64) as i64;
                let leaves = now.checked_add(SignedDuration::from_secs(stay)).unwrap_or(now);
                for field in ctx.children("field", text(phase, "id"))?.iter() {
                    if (flag(field, "required") && !last) || self.dice.chance(if last { 35 } else { 80 }) {
                        let value = self.value(field, &stamp(leaves))?;
                        values::write(&mut body, field, value, &stamp(leaves));
                    }
                }
                if !last {
                    cards::leave(&mut body, phase, &stamp(leaves));
                    now = leaves;
                }
            }
            set(&mut body, "updated_at", stamp(now));
            if self.dice.chance(60) {
                let (one, two) = (self.teammate(), self.teammate());
                let both = if one != two && self.dice.chance(30) { vec![one, two] } else { vec![one] };
                set(&mut body, "assignee_ids", json!(both));
            }
            let chosen: Vec<&str> = labels.iter().filter(|_| self.dice.chance(25)).map(|l| text(l, "id")).collect();
            set(&mut body, "label_ids", json!(chosen));
            let phase = text(&body, "phase_id").to_owned();
            ctx.put("card", &card, &Links::parent(&id).group(&phase).uuid(&uuid), body)?;
            self.comments(&card, now)?;
            self.items.entry(plan.name).or_default().push(card);
        }
        Ok(())
    }

    fn comments(&mut self, card: &str, after: jiff::Timestamp) -> Result<(), GqlError> {
        if !self.dice.chance(35) {
            return Ok(());
        }
        for number in 0..=self.dice.below(3) {
            let id = self.ctx.new_id("comment")?;
            let author = self.teammate();
            let name = self.ctx.get("user", &author)?.map(|u| text(&u, "name").to_owned()).unwrap_or_default();
            let at =
                after.checked_add(SignedDuration::from_mins(7 + number as i64 * 31)).unwrap_or(after).min(self.ctx.now);
            let said = self.dice.pick(&plan::COMMENTS);
            let body = json!({
                "id": id, "text": said, "card_id": card, "author_id": author, "author_name": name, "created_at": stamp(at),
            });
            self.ctx.put("comment", &id, &Links::parent(card), body)?;
        }
        Ok(())
    }

    fn teammate(&mut self) -> String {
        let index = self.dice.below(self.team.len() as u64) as usize;
        self.team.get(index).cloned().unwrap_or_default()
    }

    /// Pipe relations, and some cards connected through them.
    fn relations(&mut self) -> Result<(), GqlError> {
        let links = [
            ("Purchase Requests", "Customer Support", "Delivery problems"),
            ("Vendas B2B - São Paulo", "Customer Support", "Customer tickets"),
        ];
        for (parent, child, name) in links {
            let (parent_id, child_id) = (self.repo(parent), self.repo(child));
            let id = self.ctx.new_id("relation")?;
            let body = json!({
                "id": id, "name": name, "parent_id": parent_id, "parent_kind": "pipe", "child_id": child_id, "child_kind": "pipe",
                "allChildrenMustBeDoneToFinishParent": false, "allChildrenMustBeDoneToMoveParent": false,
                "autoFillFieldEnabled": false, "canConnectExistingItems": true, "canConnectMultipleItems": true,
                "canCreateNewItems": true, "childMustExistToFinishParent": false, "childMustExistToMoveParent": false,
                "ownFieldMaps": [],
            });
            self.ctx.put("relation", &id, &Links::parent(&parent_id).group(&child_id), body)?;
            for _ in 0..12 {
                let (Some(from), Some(to)) = (self.item(parent), self.item(child)) else { continue };
                let row = self.ctx.new_id("card_relation")?;
                let body = json!({
                    "id": row, "parentId": from, "childId": to, "sourceId": id, "sourceType": "PipeRelation",
                });
                self.ctx.put("card_relation", &row, &Links::parent(&from).group(&to), body)?;
            }
        }
        Ok(())
    }

    pub(crate) fn item(&mut self, name: &str) -> Option<String> {
        let items = self.items.get(name)?;
        let index = self.dice.below(items.len() as u64) as usize;
        items.get(index).cloned()
    }
}
