use pipefy::{documents, emails};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::shared::non_blank;
use crate::{Call, CheckedId, Domain, Explain, IdArg, IdKind, Op, Outcome, Persona, Read, Shape, ToolError, page_size};

/// Lists the e-mail templates of a pipe or table. The API has no way to create, change or delete templates.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetEmailTemplates {
    /// Pipe or table id.
    repo_id: CheckedId,
    #[serde(default)]
    filter_by_name: Option<String>,
    /// At most this many, 1..500.
    #[serde(default = "fifty")]
    first: i64,
}

fn fifty() -> i64 {
    50
}

impl Read for GetEmailTemplates {
    const OP: Op = Op::read("get_email_templates", Domain::Workflow, Shape::Result)
        .personas(&[Persona::Admin, Persona::Auditor, Persona::Manager, Persona::Operator])
        .debug()
        .touches(&[IdArg::new("repo_id", IdKind::Repo)])
        .selects(&documents::emails::GET_EMAIL_TEMPLATES, "emailTemplates.edges.node");

    async fn read(self, call: &Call<'_>) -> Result<Outcome, ToolError> {
        page_size("first", Some(self.first), 500)?;
        let name = non_blank(self.filter_by_name.as_deref());
        let data = call
            .query(emails::get_email_templates(&self.repo_id, name, self.first))
            .await
            .map_err(|e| Explain::doing("list e-mail templates").about("pipe", &self.repo_id).map(call, e))?;
        Ok(Outcome::new(data).message("E-mail templates loaded."))
    }
}
