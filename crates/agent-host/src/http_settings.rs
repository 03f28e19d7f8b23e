//! The section `http` of the settings.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{ListenAddress, Mistakes, Secret};
use toolbus_http::ApiSettings;
use toolbus_http::tool_api::Plan;
use toolbus_runtime::http::visitors;

use crate::tool_api_settings::ToolApiSettings;

/// Shortest token, in bytes: what is shorter can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// The agent for programs, over HTTP, while it serves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSettings {
    /// Where turns of the agent are taken at `/v1/turns`, such as `127.0.0.1:8810`. Not taken when
    /// not set.
    pub address: Option<ListenAddress>,
    /// Names that clients may reach this machine by, with or without a port; a request for another
    /// one is refused. `localhost`, `127.0.0.1` and `[::1]` always may. Needed where the address is
    /// not one of those.
    #[schemars(length(max = 64))]
    pub allowed_hosts: Vec<String>,
    /// Web pages that may speak to the agent, by their origins, such as `https://chat.example.com`;
    /// a request from another one is refused. Those of this machine always may.
    #[schemars(length(max = 64))]
    pub allowed_origins: Vec<String>,
    /// The clients, each by its name with its token of at least 16 characters; `Authorization:
    /// Bearer TOKEN` is then needed, and rules know a client as `token:http/NAME`. Without any, who
    /// reaches the address can have turns, and use every tool that the agent may.
    pub tokens: BTreeMap<String, Secret>,
    /// Tools for programs: finding them, calling them, jobs, and keys.
    pub tool_api: ToolApiSettings,
    /// Plans of clients of tools by name, beside `free` (10 requests a minute, 1,000 a month) and
    /// `pro` (100 a minute, 100,000 a month), which can be replaced.
    pub plans: BTreeMap<String, Plan>,
}

impl HttpSettings {
    /// The same, as the interface takes them, with the ids of clients by their names.
    pub(crate) fn api_settings(&self, client_ids: &BTreeMap<String, String>) -> ApiSettings {
        let tokens = self.tokens.iter();
        ApiSettings {
            allowed_hosts: self.allowed_hosts.clone(),
            allowed_origins: self.allowed_origins.clone(),
            tokens: tokens.map(|(name, token)| (name.clone(), token.expose().to_owned())).collect(),
            client_ids: client_ids.clone(),
        }
    }

    /// Tells what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, has_model: bool, mistakes: &mut Mistakes<'_>) {
        let Self { address, allowed_hosts, allowed_origins, tokens, tool_api, plans } = self;
        visitors::check(key, address.as_ref(), allowed_hosts, allowed_origins, mistakes);
        if address.is_some() && !has_model && !tool_api.enabled {
            let what = "nothing is served there: name a model in the section models, or set \
                        http.tool_api.enabled";
            mistakes.add(&format!("{key}.address"), what);
        }
        let names: Vec<_> = tokens.keys().map(String::as_str).collect();
        tool_api.check(key, plans, &names, mistakes);
        for (name, token) in tokens {
            if token.expose().len() < TOKEN_BYTES_MIN {
                let what = format!("a token has at least {TOKEN_BYTES_MIN} characters");
                mistakes.add(&format!("{key}.tokens.{name}"), what);
            }
        }
    }
}
