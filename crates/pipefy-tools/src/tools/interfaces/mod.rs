//! HTML interfaces: pages whose elements show documents of their own, bound to pipes and tables.

mod binding;
mod create_html_interface;
mod reads;
mod set_interface_sources;
mod write_interface_html;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[
    Row::read::<reads::GetInterfaceHtmlGuidelines>(),
    Row::read::<reads::ListInterfaces>(),
    Row::read::<reads::GetInterfaceHtml>(),
    Row::read::<reads::ListInterfaceRepos>(),
    Row::read::<reads::GetInterfaceRepoFields>(),
    Row::write::<set_interface_sources::SetInterfaceSources>(),
    Row::write::<write_interface_html::WriteInterfaceHtml>(),
    Row::write::<create_html_interface::CreateHtmlInterface>(),
];

/// What is said when there is no HTML interface of a uuid.
fn no_interface(uuid: &str) -> String {
    format!("No HTML interface has the UUID {uuid}. Find it with list_interfaces.")
}

#[cfg(test)]
mod tests;
