//! iPaaS (Advanced Automations).

mod call_ipaas_tool;
mod create_ipaas_connection;
mod get_ipaas_connection_auth_url;
mod get_ipaas_tools;
#[cfg(test)]
mod tests;
mod workspace;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<get_ipaas_tools::GetIpaasTools>(),
    Row::write::<call_ipaas_tool::CallIpaasTool>(),
    Row::write::<get_ipaas_connection_auth_url::GetIpaasConnectionAuthUrl>(),
    Row::write::<create_ipaas_connection::CreateIpaasConnection>(),
];
