use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::tools::definitions;
use crate::{Call, CheckedId, Domain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError};

/// Lists the fields of a pipe's start form: the ids and types that create_card takes.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetStartFormFields {
    pipe_id: CheckedId,
    #[serde(default)]
    required_only: bool,
}

impl Read for GetStartFormFields {
    const OP: Op = Op::read("get_start_form_fields", Domain::Workflow, Shape::Raw)
        .personas(&[Persona::Auditor, Persona::Builder, Persona::Manager, Persona::Operator, Persona::Requester])
        .no_output_schema()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)]);

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        let fields = definitions::start_form(call, &self.pipe_id, "return start form fields").await?;
        let shown = definitions::shown(&fields, self.required_only);
        let message = shown.is_empty().then_some(if self.required_only {
            "The start form has no required fields."
        } else {
            "The start form has no fields configured."
        });
        Ok(Outcome::new(json!({ "start_form_fields": shown })).extra_opt("message", message))
    }
}
