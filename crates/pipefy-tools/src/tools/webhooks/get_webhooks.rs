use pipefy::{documents, webhooks};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::masked;
use crate::outcome::dig_mut;
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Lists the webhooks of a pipe. Header values are masked.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetWebhooks {
    pipe_id: CheckedId,
}

impl Read for GetWebhooks {
    const OP: Op = Op::read("get_webhooks", Domain::Integration, Shape::Result)
        .personas(&[Persona::Admin, Persona::Auditor])
        .debug()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)])
        .narrows(&documents::webhooks::GET_WEBHOOKS, "pipe.webhooks");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let data = call
            .query(webhooks::get_webhooks(&self.pipe_id))
            .await
            .map_err(|e| Explain::doing("list webhooks").about("pipe", &self.pipe_id).map(call, e))?;
        let mut value = data.value();
        if let Some(Value::Array(list)) = dig_mut(&mut value, "pipe.webhooks") {
            for headers in list.iter_mut().filter_map(|webhook| webhook.get_mut("headers")) {
                *headers = masked(headers.take());
            }
        }
        Ok(Outcome::new(value).message("Webhooks loaded; header values are masked."))
    }
}
