//! The settings of the MCP face.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_runtime::config::{ListenAddress, Mistakes};

/// How the agent's tools are offered to MCP clients.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpFaceSettings {
    /// Where the agent's tools are offered to MCP clients over streamable HTTP, such as
    /// `127.0.0.1:8800`: at the path `/mcp` its own, at `/mcp/NAME` those of one MCP server. Clients
    /// are not asked who they are: whoever reaches the address can run every tool. Not offered when
    /// not set.
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
}

impl McpFaceSettings {
    /// Tells what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        let is_local = |host: &str| {
            host == "localhost"
                || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        };
        if let Some(address) = &self.address
            && !is_local(address.host())
            && self.allowed_hosts.is_empty()
        {
            let what = "others can reach it, so allowed_hosts has to name what they reach it by";
            mistakes.add(&format!("{key}.address"), what);
        }
        let is_origin = |origin: &String| origin.contains("://") && !origin.ends_with('/');
        if let Some(other) = self.allowed_origins.iter().find(|origin| !is_origin(origin)) {
            let what = format!("{other:?} is not an origin, such as https://chat.example.com");
            mistakes.add(&format!("{key}.allowed_origins"), what);
        }
    }
}
