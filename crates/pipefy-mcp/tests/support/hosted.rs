//! A hosted server in this process, with the sandbox as its issuer.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;

use pipefy::settings::Environment;
use pipefy_mcp::http::HttpOptions;
use pipefy_mcp::runtime::McpRuntime;
use pipefy_sandbox::{Sandbox, SandboxOptions};
use serde_json::{Value, json};

use crate::http::Server;
use crate::issuer::Issuer;
use crate::support;

/// The public URL that the servers of the tests believe to have.
pub(crate) const PUBLIC: &str = "https://mcp.example.com/mcp";

/// A sandbox, as issuer and as Pipefy.
pub(crate) struct Rig {
    pub(crate) sandbox: Sandbox,
    pub(crate) issuer: Issuer,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let sandbox = Sandbox::start(SandboxOptions::default()).await.unwrap();
        let issuer = Issuer::new(sandbox.url());
        Self { sandbox, issuer }
    }

    /// The runtime that the settings ask for; Pipefy is at `base`.
    pub(crate) fn runtime(&self, base: &str, more: &[(&str, &str)]) -> McpRuntime {
        let issuer = self.sandbox.issuer_url();
        let mut variables = vec![
            ("PIPEFY_MCP_PROFILE", "remote"),
            ("PIPEFY_JWT_ISSUER_URL", issuer.as_str()),
            ("PIPEFY_MCP_RS_RESOURCE_SERVER_URL", PUBLIC),
        ];
        variables.extend(more);
        let settings = support::settings(base, &variables);
        McpRuntime::for_profile(&settings, &Environment::empty()).unwrap().with_call_log(None)
    }

    /// A server for real bearers.
    pub(crate) async fn server(&self, base: &str, more: &[(&str, &str)], options: HttpOptions) -> Server {
        let runtime = self.runtime(base, more);
        let inbound = runtime.inbound().clone();
        Server::start(Arc::new(runtime), inbound, options).await
    }

    /// A bearer, see docs/sandbox-issuer.md.
    pub(crate) async fn mint(&self, wish: Value) -> String {
        self.issuer.mint(wish).await
    }
}

/// `tools/call` as 2026-07-28 has it: the body, and the headers that repeat it.
pub(crate) fn call_alone(id: u64, tool: &'static str, arguments: Value) -> (String, [(&'static str, &'static str); 3]) {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string();
    (body, [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)])
}
