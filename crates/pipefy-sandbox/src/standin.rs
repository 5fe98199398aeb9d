//! What answers in place of a language model: a fixed rule, named as such in every text it writes.

use crate::ctx::Ctx;
use crate::error::GqlError;
use crate::json::{text, texts};
use crate::store::hash;
use crate::values;
use serde_json::{Value, json};

/// Begins every text of the stand-in.
const NAME: &str = "[Sandbox stand-in, no language model]";

/// The token for the time of a run, as `automationEventAttributes` names it.
pub(crate) const EXECUTED_AT: &str = "automation_event_execution_datetime";

/// Longest part of a prompt that is repeated in an answer, in characters.
const ECHO: usize = 400;

/// What a run writes from: the card that triggered it, and the answer to an HTTP request when that did (else null).
#[derive(Clone, Copy)]
pub(crate) struct Source<'s> {
    pub(crate) card: &'s Value,
    pub(crate) answer: &'s Value,
}

impl<'s> Source<'s> {
    /// A card alone.
    pub(crate) fn card(card: &'s Value) -> Self {
        Self { card, answer: &Value::Null }
    }
}

/// Replaces `%{id}` and `%{field:id}` (internal id, slug or uuid) by the card's values, `%{response.PATH}` by the answer's
/// and `%{automation_event_execution_datetime}` by the time. `%{action:uuid}`, which ties an instruction to an action, says
/// nothing; unknown tokens stay.
pub(crate) fn filled(ctx: &Ctx<'_>, source: Source<'_>, template: &str) -> Result<String, GqlError> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("%{") {
        out.push_str(before);
        let Some((token, after)) = after.split_once('}') else {
            out.push_str("%{");
            rest = after;
            continue;
        };
        match value_of(ctx, source, token)? {
            Some(value) => out.push_str(&value),
            None if token.trim().starts_with("action:") => {}
            None => out.push_str(&format!("%{{{token}}}")),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// The value that a token stands for, without its `%{}`.
pub(crate) fn value_of(ctx: &Ctx<'_>, source: Source<'_>, token: &str) -> Result<Option<String>, GqlError> {
    let Source { card, answer } = source;
    let key = token.trim();
    if key == EXECUTED_AT {
        return Ok(Some(ctx.stamp()));
    }
    if let Some(value) = crate::answer::at(answer, key) {
        return Ok(Some(value));
    }
    let fields = ctx.grouped("field", text(card, "pipe_id"))?;
    let key = key.strip_prefix("field:").unwrap_or(key);
    match fields.iter().find(|f| [text(f, "internal_id"), text(f, "id"), text(f, "uuid")].contains(&key)) {
        Some(field) => Ok(Some(values::display(ctx, field, &values::stored(card, field))?.join(", "))),
        None => Ok((key == "title").then(|| text(card, "title").to_owned())),
    }
}

/// A value for a field, the same for the same prompt and card: for choices the first one that the prompt or card names,
/// else one picked by the prompt; for texts the name of the stand-in and the beginning of the prompt; null for fields
/// that it cannot fill (connections, files, people).
pub(crate) fn answer(ctx: &Ctx<'_>, source: Source<'_>, field: &Value, prompt: &str) -> Result<Value, GqlError> {
    let prompt = filled(ctx, source, prompt)?;
    let card = source.card;
    let kind = text(field, "type");
    let today = ctx.now.strftime("%Y-%m-%d").to_string();
    Ok(match kind {
        "select" | "radio_horizontal" | "radio_vertical" => json!(choice(ctx, card, field, &prompt)?),
        "checklist_horizontal" | "checklist_vertical" => json!([choice(ctx, card, field, &prompt)?]),
        "label_select" => {
            let labels = ctx.children("label", text(card, "pipe_id"))?;
            labels.first().map_or(Value::Null, |label| json!([text(label, "id")]))
        }
        "number" | "currency" => json!(prompt.split_whitespace().count().to_string()),
        "date" => json!(today),
        "datetime" | "due_date" => json!(ctx.stamp()),
        "time" => json!("09:00"),
        "email" => json!("stand-in@sandbox.example"),
        "short_text" | "long_text" => {
            json!(format!("{NAME} {}", prompt.trim().chars().take(ECHO).collect::<String>()))
        }
        _ => Value::Null,
    })
}

fn choice(ctx: &Ctx<'_>, card: &Value, field: &Value, prompt: &str) -> Result<String, GqlError> {
    let options: Vec<String> = field.get("options").map(texts).unwrap_or_default();
    let mut hay = format!("{prompt}\n{}", text(card, "title"));
    for entry in values::entries(ctx, card, text(card, "pipe_id"))? {
        hay.push('\n');
        hay.push_str(text(&entry, "value"));
    }
    let hay = hay.to_lowercase();
    if let Some(named) = options.iter().find(|option| hay.contains(&option.to_lowercase())) {
        return Ok(named.clone());
    }
    let place = usize::try_from(hash(&hay) % options.len().max(1) as u64).unwrap_or_default();
    Ok(options.get(place).cloned().unwrap_or_default())
}
