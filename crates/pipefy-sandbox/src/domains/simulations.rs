//! Simulations of prompt automations: what one would write into a card, without writing it.

use crate::access;
use crate::ctx::{Answer, Args, Ctx};
use crate::error::GqlError;
use crate::json::{link, set, text, texts_at};
use crate::object::Root;
use crate::standin;
use crate::store::Links;
use serde_json::{Map, Value, json};

pub(crate) const ROOTS: &[Root] = &[
    Root::public("createAutomationSimulation", create),
    Root::public("automationSimulation", |ctx, args| {
        let id = args.need("simulationId")?;
        let simulation = ctx.get("simulation", &id)?.ok_or_else(|| GqlError::not_found("Simulation", &id))?;
        if text(&simulation, "requested_by") != ctx.viewer {
            return Err(GqlError::denied());
        }
        Ok(link("simulation", &id))
    }),
];

/// Only `generate_with_ai` can be simulated. What is wrong with the prompt is the result's failure, not an error.
fn create(ctx: &Ctx<'_>, args: &Args) -> Answer {
    let input = args.input();
    let (card, _, _) = access::card(ctx, &input.need("sampleCardId")?)?;
    let pipe = access::managed_pipe(ctx, text(&card, "pipe_id"))?;
    if let Some(id) = input.text("event_repo_id")
        && text(&*ctx.must("pipe", "Pipe", &id)?, "id") != text(&pipe, "id")
    {
        return Err(GqlError::invalid("The sample card is not in the automation's pipe"));
    }
    let action = input.need("action_id")?;
    if action != "generate_with_ai" {
        return Err(GqlError::invalid(format!("Only generate_with_ai can be simulated, not {action}")));
    }
    if let Some(reason) = super::automations::disabled(&pipe, &action) {
        return Err(GqlError::invalid(reason));
    }
    let ai = input.0.pointer("/action_params/aiParams").cloned().unwrap_or_default();
    let prompt = text(&ai, "value").trim().to_owned();
    let fields = ctx.grouped("field", text(&pipe, "id"))?;
    let mut result = Map::new();
    let mut problem = None;
    for id in texts_at(&ai, "fieldIds") {
        match fields.iter().find(|f| text(f, "internal_id") == id || text(f, "id") == id) {
            Some(field) => {
                let value = standin::answer(ctx, standin::Source::card(&card), field, &prompt)?;
                result.insert(text(field, "internal_id").to_owned(), value);
            }
            None => problem = Some(("field_not_found", format!("The pipe has no field with id {id}"))),
        }
    }
    if prompt.is_empty() {
        problem = Some(("blank_prompt", "The prompt can't be blank".to_owned()));
    } else if result.is_empty() && problem.is_none() {
        problem = Some(("no_output_field", "The automation writes into no field".to_owned()));
    }
    let id = ctx.new_id("simulation")?;
    let mut body = json!({
        "id": id, "requested_by": ctx.viewer, "status": "success", "simulationResult": Value::Object(result),
        "details": { "errorType": null, "message": "Answered by the sandbox's stand-in, not by a language model" },
    });
    if let Some((kind, message)) = problem {
        set(&mut body, "status", "failed");
        set(&mut body, "simulationResult", Value::Null);
        set(&mut body, "details", json!({ "errorType": kind, "message": message }));
    }
    ctx.put("simulation", &id, &Links::parent(text(&pipe, "id")), body)?;
    Ok(json!({ "simulationId": id }))
}
