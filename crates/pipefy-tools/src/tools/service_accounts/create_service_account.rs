use pipefy::{Mutation, members, service_accounts};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::plan::unknown;
use crate::tools::members::membership::{is_member, row_errors};
use crate::tools::shared::{list_at, non_blank, required_text, text_of};
use crate::{
    Act, Call, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Plan, Reach, Shape, ToolError, Write, dig,
};

/// Characters a name may have.
const NAME: usize = 20;
const UNITS: [&str; 4] = ["seconds", "minutes", "hours", "days"];

/// Creates a service account and, on request, makes it a member of pipes. The answer holds its client secret, which is shown
/// only once.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CreateServiceAccount {
    organization_uuid: String,
    /// 1..20 characters.
    name: String,
    /// Organization role, such as normal or admin.
    role: String,
    #[serde(default)]
    description: Option<String>,
    /// Life of its tokens: seconds, minutes, hours or days; with expiration_value.
    #[serde(default)]
    expiration_unit: Option<String>,
    #[serde(default)]
    expiration_value: Option<i64>,
    /// Pipes to make it a member of.
    #[serde(default)]
    pipe_ids: Option<Vec<String>>,
    /// See set_role.
    #[serde(default = "admin")]
    pipe_role: String,
}

fn admin() -> String {
    "admin".to_owned()
}

impl Write for CreateServiceAccount {
    const OP: Op = Op::write("create_service_account", Domain::Governance, Shape::Envelope)
        .personas(&[Persona::Admin])
        .debug()
        .touches(&[IdArg::new("organization_uuid", IdKind::Organization), IdArg::new("pipe_ids", IdKind::Pipe)])
        .reaches(Reach::Organization);
    /// The pipes to join.
    type Keep = Vec<String>;

    async fn plan(self, _: &Call<'_>) -> Result<Plan<Vec<String>>, ToolError> {
        let mut input = Map::new();
        input
            .insert("organizationUuid".to_owned(), required_text("organization_uuid", &self.organization_uuid)?.into());
        let name = required_text("name", &self.name)?;
        let length = name.chars().count();
        if length > NAME {
            return Err(ToolError::invalid(format!("`name` may have at most {NAME} characters, got {length}.")));
        }
        input.insert("name".to_owned(), name.into());
        input.insert("role".to_owned(), required_text("role", &self.role)?.into());
        let description = non_blank(self.description.as_deref());
        input.extend(description.map(|text| ("description".to_owned(), text.into())));
        input.extend(self.lifetime()?.map(|lifetime| ("expirationTime".to_owned(), lifetime)));
        let mut pipes = Vec::new();
        for id in self.pipe_ids.iter().flatten() {
            let id = non_blank(Some(id)).ok_or_else(|| ToolError::invalid("`pipe_ids` must not hold blank ids."))?;
            pipes.push(id.to_owned());
        }
        let role = match (pipes.is_empty(), non_blank(Some(&self.pipe_role))) {
            (false, None) => return Err(ToolError::invalid("`pipe_role` must not be blank.")),
            (_, role) => role.unwrap_or_default().to_owned(),
        };
        let email = unknown("e-mail of the new service account");
        let invitations: Vec<Mutation> = pipes
            .iter()
            .map(|id| members::invite_members(id, vec![json!({ "email": email, "role_name": role })]))
            .collect();
        let plan = Plan::new(pipes).then(service_accounts::create_service_account(input));
        Ok(invitations.into_iter().fold(plan, Plan::then))
    }

    async fn act(plan: &Plan<Vec<String>>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let mut mutations = plan.mutations();
        let Some(create) = mutations.next() else {
            return Err(ToolError::internal("the plan holds no step"));
        };
        // The payload holds a secret, so no failure may carry it: it is judged here and not by the sender.
        let sent = act.send_unproven(create).await;
        let data = sent.map_err(|e| Explain::doing("create the service account").map(act, e))?;
        let value = data.value();
        let mut payload = value.get("createServiceAccount").cloned().unwrap_or_default();
        if payload.get("success").and_then(Value::as_bool) != Some(true) {
            let failure = ToolError::api(
                "Creating the service account did not succeed; read it back in the organization settings before repeating.",
            );
            return Err(if payload.is_null() { failure.detail("may_have_been_applied", true) } else { failure });
        }
        if text_of(dig(&payload, "serviceAccount.client.secret")).is_none_or(|secret| secret.trim().is_empty()) {
            return Err(without_secret(text_of(dig(&payload, "serviceAccount.uuid"))));
        }
        if plan.keep.is_empty() {
            let message = "Service account created. Its client secret is shown only once: store it now. Add the account to \
                           pipes with add_service_account_to_pipe.";
            return Ok(Outcome::new(payload).message(message));
        }
        let email = text_of(dig(&payload, "serviceAccount.email")).filter(|email| !email.trim().is_empty());
        let mut memberships = Vec::new();
        for (pipe_id, invitation) in plan.keep.iter().zip(mutations) {
            memberships.push(join(act, pipe_id, invitation, email.as_deref()).await);
        }
        if let Value::Object(payload) = &mut payload {
            payload.insert("pipe_memberships".to_owned(), memberships.into());
        }
        Ok(Outcome::new(payload).message(
            "Service account created. Its client secret is shown only once: store it now. Review pipe_memberships for pipes \
             that it did not join.",
        ))
    }
}

impl CreateServiceAccount {
    fn lifetime(&self) -> Result<Option<Value>, ToolError> {
        let unit = non_blank(self.expiration_unit.as_deref());
        match (unit, self.expiration_value) {
            (None, None) => Ok(None),
            (Some(unit), Some(value)) => {
                if !UNITS.contains(&unit) {
                    return Err(ToolError::invalid(format!("`expiration_unit` must be one of {}.", UNITS.join(", "))));
                }
                if value <= 0 {
                    return Err(ToolError::invalid("`expiration_value` must be greater than 0."));
                }
                Ok(Some(json!({ "unit": unit, "value": value })))
            }
            _ => Err(ToolError::invalid("Give both `expiration_unit` and `expiration_value`, or neither.")),
        }
    }
}

/// Invites the new account to one pipe; whatever fails is told, not raised, because the account exists.
async fn join(act: &Act<'_, '_>, pipe_id: &str, invitation: &Mutation, email: Option<&str>) -> Value {
    let mut entry = Map::new();
    entry.insert("pipe_id".to_owned(), pipe_id.into());
    let Some(email) = email else {
        entry.insert("invited".to_owned(), false.into());
        entry.insert(
            "error".to_owned(),
            "Pipefy gave no e-mail for the new account, so it could not be invited.".into(),
        );
        entry.insert("member".to_owned(), Value::Null);
        return entry.into();
    };
    let mut invitation = invitation.clone();
    if let Some(row) =
        invitation.variables_mut().get_mut("input").and_then(|input| input.pointer_mut("/emails/0/email"))
    {
        *row = email.into();
    }
    match act.send_unproven(&invitation).await {
        Ok(data) => {
            let value = data.value();
            let users = list_at(&value, "inviteMembers.users");
            let errors = list_at(&value, "inviteMembers.errors");
            entry.insert("invited".to_owned(), (!users.is_empty() && row_errors(&value).is_empty()).into());
            if !errors.is_empty() {
                entry.insert("errors".to_owned(), errors.into());
            }
        }
        Err(error) => {
            entry.insert("invited".to_owned(), false.into());
            entry.insert("error".to_owned(), error.to_string().into());
        }
    }
    entry.insert("member".to_owned(), is_member(act, pipe_id, email).await.into());
    entry.into()
}

fn without_secret(uuid: Option<String>) -> ToolError {
    match uuid {
        Some(uuid) => ToolError::api(format!(
            "Pipefy returned no client secret, so the service account {uuid} is unusable: delete it with \
             delete_service_account and retry."
        ))
        .detail("service_account_uuid", uuid),
        None => ToolError::api(
            "Pipefy returned no client secret and no uuid. Do not retry until a human confirmed in the organization settings \
             whether a service account was created.",
        ),
    }
}
