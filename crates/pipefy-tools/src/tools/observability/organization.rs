//! Organisations by uuid or by number (`spec/tools-automation-ai.md`, 1.18).

use pipefy::organizations;

use crate::tools::agents::tokens::is_digits;
use crate::tools::shared::text_of;
use crate::{Call, Explain, ToolError, dig};

/// The uuid of an organisation given by its uuid or number.
///
/// # Errors
/// `INVALID_ARGUMENTS` when it is neither, `NOT_FOUND` when there is none of that number.
pub(crate) async fn uuid_of(call: &Call<'_>, given: &str) -> Result<String, ToolError> {
    let given = given.trim();
    if uuid::Uuid::try_parse(given).is_ok() {
        return Ok(given.to_owned());
    }
    if !is_digits(given) {
        return Err(ToolError::invalid(format!(
            "organization_uuid must be the uuid or the numeric id of an organization, not '{given}'."
        )));
    }
    let explain = Explain::doing("look the organization up").about("organization", given);
    let data = call.query(organizations::resolve_organization_uuid(given)).await.map_err(|e| explain.map(call, e))?;
    text_of(dig(&data.value(), "organization.uuid")).filter(|uuid| !uuid.is_empty()).ok_or_else(|| {
        ToolError::not_found(format!("Organization not found (ID: {given}). Find it with list_organizations."))
    })
}

/// Checks the period of a dashboard or export.
///
/// # Errors
/// `INVALID_ARGUMENTS` listing the periods.
pub(crate) fn period(given: &str) -> Result<&str, ToolError> {
    const PERIODS: [&str; 3] = ["current_month", "last_month", "last_3_months"];
    if PERIODS.contains(&given) {
        Ok(given)
    } else {
        Err(ToolError::invalid(format!("period must be one of {}.", PERIODS.join(", "))))
    }
}
