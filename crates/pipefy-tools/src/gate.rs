//! The gate between plan and act. Every way in (a tool, the generic runner, a command) passes it.

use serde_json::{Map, Value, json};

use crate::arguments;
use crate::call::{Act, Answer, Approval, AskError, Call};
use crate::capability::{Verification, Write};
use crate::confirm::{self, Refusal};
use crate::error::{Kind, ToolError};
use crate::journal::Keyed;
use crate::op::Class;
use crate::outcome::Outcome;
use crate::plan::{Confirmation, Plan};
use crate::trust;

/// Plans, checks what this server permits, previews or asks, acts, and reads back when asked to.
pub(crate) async fn pass<T: Write>(arguments: Map<String, Value>, call: &Call<'_>) -> Result<Outcome, ToolError> {
    let op = &T::OP;
    if call.policy.read_only && op.class != Class::ByInput {
        return Err(read_only(op.name));
    }
    let keyed = Keyed::of(op, &arguments, call)?;
    if let Some(keyed) = &keyed
        && let Some(outcome) = keyed.recorded().await?
    {
        return Ok(outcome);
    }
    let plan = arguments::parse::<T>(op, arguments)?.plan(call).await?;
    if call.options.dry_run {
        return Ok(dry_run(&plan));
    }
    if !plan.steps.is_empty() && call.policy.read_only {
        return Err(read_only(op.name));
    }
    let previews = plan.confirm.is_some() && !call.options.confirm && matches!(call.approval, Approval::Token { .. });
    if call.options.rest && !plan.steps.is_empty() && !previews {
        return Err(ToolError::new(
            Kind::Input,
            "rest repeats a call, and this one changes data. Nothing was sent; read the data instead.",
        )
        .code("INVALID_ARGUMENTS"));
    }
    if let Some(confirmation) = &plan.confirm
        && let Some(preview) = approve::<T>(&plan, confirmation, call).await?
    {
        return Ok(preview);
    }
    let keyed = keyed.filter(|_| !plan.steps.is_empty());
    if let Some(keyed) = &keyed
        && let Some(outcome) = keyed.begin().await?
    {
        return Ok(outcome);
    }
    let act = Act::after_the_gate(call);
    let result = T::act(&plan, &act).await.inspect_err(|error| {
        // What never reached Pipefy was not done, so its approval still stands.
        if let (1, Some(token), true) = (plan.steps.len(), &call.options.confirmation_token, never_arrived(error)) {
            call.toolbox.spent.give_back(token);
        }
    });
    if let Some(keyed) = &keyed {
        keyed.end(&result, act.applied()).await;
    }
    let mut outcome = result?;
    outcome.wrote = !plan.steps.is_empty();
    if !call.options.verify {
        return Ok(outcome);
    }
    let verification = T::verify(&plan, &outcome, call)
        .await
        .unwrap_or_else(|| Verification::unknown("no read of Pipefy shows what this call did"));
    Ok(outcome.extra("verification", verification.block()))
}

fn never_arrived(error: &ToolError) -> bool {
    use pipefy::Error as E;
    matches!(
        error.source.as_deref(),
        Some(
            E::Unauthorized { .. }
                | E::RateLimited { .. }
                | E::Credential(_)
                | E::Transport { sent: false, .. }
                | E::Cancelled { sent: false, .. }
        )
    )
}

fn read_only(tool: &str) -> ToolError {
    ToolError::new(
        Kind::Refused,
        format!("{tool} would change data, and only reads are allowed here (read_only). Nothing was sent."),
    )
    .code("READ_ONLY")
}

fn dry_run<K>(plan: &Plan<K>) -> Outcome {
    let mut payload = Map::new();
    payload.insert("success".to_owned(), true.into());
    payload.insert("dry_run".to_owned(), true.into());
    payload.insert(
        "message".to_owned(),
        "Nothing was sent. These steps would be taken, in this order; values marked $unknown come from earlier answers."
            .into(),
    );
    payload.insert("steps".to_owned(), plan.shown_steps());
    if let Some(before) = &plan.before {
        payload.insert("before".to_owned(), before.clone());
    }
    if let Some(confirmation) = &plan.confirm {
        payload.insert("needs_confirmation".to_owned(), true.into());
        payload.insert("resource".to_owned(), confirmation.resource.clone().into());
    }
    Outcome::whole(payload)
}

/// `None`: approved. `Some`: the preview to show instead.
async fn approve<T: Write>(
    plan: &Plan<T::Keep>,
    confirmation: &Confirmation,
    call: &Call<'_>,
) -> Result<Option<Outcome>, ToolError> {
    match &call.approval {
        Approval::Person(person) => {
            person.confirm(confirmation.verb, &confirmation.resource)?;
            Ok(None)
        }
        Approval::Token { key, now } => {
            let tool = T::OP.name;
            let refusal = if call.options.confirm {
                let token = call.options.confirmation_token.as_deref();
                match confirm::verify(key, tool, &confirmation.identity, token, *now) {
                    Ok(()) => {
                        if call.policy.person_confirms {
                            person(confirmation, call).await?;
                        }
                        // One approval is good for one act: the same call made again needs the user's word again.
                        if token.is_some_and(|token| call.toolbox.spent.take(token, *now)) {
                            return Ok(None);
                        }
                        Some(Refusal::Spent)
                    }
                    Err(refusal) => Some(refusal),
                }
            } else {
                None
            };
            let token = confirm::mint_one(key, tool, &confirmation.identity, *now);
            let dependents = T::dependents(plan, call).await;
            Ok(Some(preview(confirmation, refusal, token, dependents)))
        }
    }
}

/// After text of outsiders was read, a token shows only that a model wants it; a person is asked too.
async fn person(confirmation: &Confirmation, call: &Call<'_>) -> Result<(), ToolError> {
    let Confirmation { verb, resource, .. } = confirmation;
    let cannot = || {
        ToolError::new(
            Kind::Refused,
            format!(
                "To {verb} {resource}, a person must say yes, because text written by outsiders may have been read before \
                 (confirm_after_untrusted), and this client cannot ask. Nothing was sent. The person can do it with the pipefy \
                 command or in Pipefy itself."
            ),
        )
        .code("PERSON_MUST_CONFIRM")
    };
    let Some(ask) = call.ask else { return Err(cannot()) };
    let question = format!(
        "Really {verb} {}? The assistant may have read text written by outsiders that led it to this.",
        trust::visible(resource)
    );
    let schema = json!({
        "type": "object",
        "properties": { "confirm": { "type": "boolean", "title": "Yes, go on", "default": false } },
        "required": ["confirm"],
    });
    match ask.form(&question, schema).await {
        Ok(Answer::Accept(content)) if content.get("confirm") == Some(&Value::Bool(true)) => Ok(()),
        Err(AskError::Closed) => Err(cannot()),
        Err(AskError::Later) => {
            Err(ToolError::new(Kind::Declined, "Waits for a person's answer; nothing was sent.").code("INPUT_REQUIRED"))
        }
        _ => Err(ToolError::new(
            Kind::Declined,
            format!("The person did not agree to {verb} {resource}; nothing was sent."),
        )
        .code("NOT_CONFIRMED")),
    }
}

fn preview(
    confirmation: &Confirmation,
    refusal: Option<Refusal>,
    token: String,
    dependents: Option<Map<String, Value>>,
) -> Outcome {
    let resource = &confirmation.resource;
    let mut message = match &confirmation.sentence {
        Some(sentence) => sentence.clone(),
        None => format!("\u{26a0}\u{fe0f} Deleting {resource} is permanent and cannot be undone."),
    };
    message.push_str(match refusal {
        None => "",
        Some(Refusal::Missing) => " A confirmation_token is missing.",
        Some(Refusal::InvalidOrExpired) => " The confirmation_token is invalid or has expired.",
        Some(Refusal::Mismatch) => " The confirmation_token belongs to another tool or resource.",
        Some(Refusal::Spent) => " The confirmation_token has been used already; an approval is good for one act.",
    });
    message.push_str(" Show this preview to the user and get explicit approval. Then call again with confirm=True and confirmation_token=\"");
    message.push_str(&token);
    message.push_str("\".");
    let mut payload = Map::new();
    payload.insert("success".to_owned(), false.into());
    payload.insert("requires_confirmation".to_owned(), true.into());
    payload.insert("resource".to_owned(), resource.clone().into());
    payload.insert("confirmation_token".to_owned(), token.into());
    payload.insert("message".to_owned(), message.into());
    payload.extend(confirmation.extra.clone());
    if let Some(dependents) = dependents.filter(|d| !d.is_empty()) {
        payload.insert("dependents".to_owned(), dependents.into());
    }
    Outcome::whole(payload)
}
