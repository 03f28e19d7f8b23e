//! The settings of the MCP face.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{ListenAddress, Mistakes};
use toolbus_face::ApiSettings;
use toolbus_runtime::http::visitors;

use crate::http_clients::HttpClients;
use crate::http_settings::TOKENS_ADVICE;

/// How the agent's tools are offered to MCP clients.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpFaceSettings {
    /// Where the agent's tools are offered to MCP clients over streamable HTTP, such as
    /// `127.0.0.1:8800`: at the path `/mcp` its own, at `/mcp/NAME` (or `/NAME/mcp`) those of one
    /// MCP server, and at `/` a page that lists these paths. Clients need a token of `http.tokens`
    /// where there are any; without, whoever reaches the address can run every tool. It may be
    /// `http.address`, and then both are served there. Not offered when not set.
    pub address: Option<ListenAddress>,
    /// Whether MCP clients need no token, whatever `http.tokens` says, though other machines may
    /// reach the address: whoever does can run every tool. Not where the address is `http.address`
    /// and has tokens. Without tokens, an address that others can reach is refused unless this says
    /// so.
    pub anonymous: bool,
    /// Names that clients may reach this machine by, with or without a port, such as
    /// `tools.example.com`; a request for another one is refused. `localhost`, `127.0.0.1` and
    /// `[::1]` always may, from this machine. Needed where the address is not one of those.
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

/// Tokens that the section `http` requires at the address of the MCP face.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaceTokens {
    /// Whether clients have tokens.
    pub(crate) exist: bool,
    /// Whether the address is that of the HTTP interface, where tokens hold for everything.
    pub(crate) are_of_port: bool,
}

impl McpFaceSettings {
    /// The same, as the face takes them, with the clients that have tokens.
    pub(crate) fn api_settings(&self, clients: &HttpClients) -> ApiSettings {
        let visitors = ApiSettings {
            allowed_hosts: self.allowed_hosts.clone(),
            allowed_origins: self.allowed_origins.clone(),
            ..ApiSettings::default()
        };
        if self.anonymous {
            return visitors;
        }
        ApiSettings { tokens: clients.tokens.clone(), client_ids: clients.ids.clone(), ..visitors }
    }

    /// Tells what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, tokens: FaceTokens, mistakes: &mut Mistakes<'_>) {
        let Self { address, anonymous, allowed_hosts, allowed_origins, cors: _ } = self;
        visitors::check(key, address.as_ref(), allowed_hosts, allowed_origins, mistakes);
        if *anonymous && tokens.exist && tokens.are_of_port {
            let what = "the address is http.address, where tokens hold for everything that is \
                        served: leave it out, or give MCP clients another address";
            mistakes.add(&format!("{key}.anonymous"), what);
        } else if !anonymous && !tokens.exist {
            visitors::check_open(key, address.as_ref(), Some(TOKENS_ADVICE), mistakes);
        }
    }
}
