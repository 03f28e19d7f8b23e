//! The settings of the MCP face.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{ListenAddress, Mistakes};
use toolbus_runtime::http::visitors;

/// How the agent's tools are offered to MCP clients.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpFaceSettings {
    /// Where the agent's tools are offered to MCP clients over streamable HTTP, such as
    /// `127.0.0.1:8800`: at the path `/mcp` its own, at `/mcp/NAME` (or `/NAME/mcp`) those of one
    /// MCP server, and at `/` a page that lists these paths. Clients need no credentials: whoever
    /// reaches the address can run every tool. It may be `http.address`, and then both are served
    /// there. Not offered when not set.
    pub address: Option<ListenAddress>,
    /// Names that clients may reach this machine by, with or without a port, such as
    /// `tools.example.com`; a request for another one is refused. `localhost`, `127.0.0.1` and
    /// `[::1]` always may. Needed where the address is not one of those.
    #[schemars(length(max = 64))]
    pub allowed_hosts: Vec<String>,
    /// Web pages that may call tools, by their origins, such as `https://chat.example.com`; a
    /// request from another one is refused. Those of this machine always may.
    #[schemars(length(max = 64))]
    pub allowed_origins: Vec<String>,
    /// Whether browsers are told that these pages may read what is answered (CORS). Without it, a
    /// page can have requests made and does not see what comes of them.
    pub cors: bool,
}

impl McpFaceSettings {
    /// Tells what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        let Self { address, allowed_hosts, allowed_origins, cors: _ } = self;
        visitors::check(key, address.as_ref(), allowed_hosts, allowed_origins, mistakes);
    }
}
