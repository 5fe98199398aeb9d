//! The way into the iPaaS workspace of a pipe.

use pipefy::ipaas;

use crate::ipaas::{Gateway, Session};
use crate::tools::shared::text_of;
use crate::{Call, Kind, ToolError, dig};

/// The gateway, when its tools are on.
///
/// # Errors
/// They are turned off.
pub(crate) fn gateway<'c>(call: &'c Call<'_>) -> Result<&'c Gateway, ToolError> {
    call.toolbox.ipaas.as_ref().ok_or_else(|| {
        ToolError::new(
            Kind::Refused,
            "The iPaaS tools are disabled here: PIPEFY_IPAAS_OAUTH_CLIENT_ID is blank, or this program does not read it (the MCP \
             server does).",
        )
    })
}

/// A session in the workspace of a pipe, with the caller's own permissions.
///
/// # Errors
/// The tools are off, Pipefy gives no token, or the iPaaS does not accept it.
pub(crate) async fn open<'c>(call: &'c Call<'_>, pipe_id: &str) -> Result<Session<'c>, ToolError> {
    let gateway = gateway(call)?;
    let data = call.query(ipaas::advanced_automations_token(pipe_id)).await?;
    let token = text_of(dig(&data.value(), "advancedAutomationsToken.token")).filter(|t| !t.trim().is_empty());
    let token = token.ok_or_else(|| {
        ToolError::api(format!(
            "Pipefy gave no Advanced Automations token for pipe {pipe_id}; the pipe may not exist or the feature may be off."
        ))
    })?;
    gateway.open(&token, &call.budget).await
}
