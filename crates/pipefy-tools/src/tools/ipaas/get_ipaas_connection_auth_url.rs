use pipefy::Id;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::workspace::{gateway, open};
use crate::ipaas::check_piece;
use crate::{Act, Call, Domain, IdArg, IdKind, Op, Outcome, Persona, Plan, Reach, Shape, ToolError, Write};

/// Starts an OAuth connection of an iPaaS app: gives the URL where a person consents, and what create_ipaas_connection needs
/// afterwards.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetIpaasConnectionAuthUrl {
    pipe_id: Id,
    /// E.g. @activepieces/piece-slack.
    piece_name: String,
}

impl Write for GetIpaasConnectionAuthUrl {
    const OP: Op = Op::write("get_ipaas_connection_auth_url", Domain::Integration, Shape::Text)
        .personas(&[Persona::Admin, Persona::Auditor])
        .open_world()
        .no_output_schema()
        .touches(&[IdArg::new("pipe_id", IdKind::Pipe)])
        .reaches(Reach::Anything);
    type Keep = (String, String);

    async fn plan(self, call: &Call<'_>) -> Result<Plan<Self::Keep>, ToolError> {
        gateway(call)?;
        let piece = check_piece(&self.piece_name)?.to_owned();
        let pipe = self.pipe_id.as_str().to_owned();
        let step = format!("ask the iPaaS of pipe {pipe} for a consent URL for {piece}");
        Ok(Plan::new((pipe, piece)).transfer(step))
    }

    async fn act(plan: &Plan<Self::Keep>, act: &Act<'_, '_>) -> Result<Outcome, ToolError> {
        let (pipe_id, piece) = &plan.keep;
        let consent = open(act, pipe_id).await?.consent(piece).await?;
        Ok(Outcome::new(json!({
            "pipe_id": pipe_id,
            "piece_name": piece,
            "authorization_url": consent.authorization_url,
            "completion": consent.completion,
            "instructions": "Have the user open authorization_url and consent, and paste the URL they are sent to (with ?code=). Then call \
                create_ipaas_connection with oauth = {completion: this one, authorization_response: that URL}.",
        })))
    }
}
